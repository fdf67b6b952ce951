//! Seeds from the operating system's random source (getrandom).
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Fills `bytes` with random bytes; waits for the pool's first initialisation after boot.
///
/// # Errors
/// When the kernel has no getrandom, or a sandbox forbids it.
pub fn fill(mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match getrandom(&mut *bytes, GetRandomFlags::empty()) {
            Ok(n) => bytes = &mut bytes[n..],
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// 32 random bytes: a seed for a stack's stream of chance and its secrets.
///
/// # Errors
/// As [`fill`].
pub fn seed() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// A random 64-bit number.
///
/// # Errors
/// As [`fill`].
pub fn number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A random Ethernet address: unicast, locally administered (IEEE 802 section 8.4).
///
/// # Errors
/// As [`fill`].
pub fn ethernet() -> io::Result<[u8; 6]> {
    let mut bytes = [0; 6];
    fill(&mut bytes)?;
    bytes[0] = bytes[0] & 0xfc | 2;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn ethernet_addresses_are_local_and_unicast() {
        for _ in 0..64 {
            assert_eq!(super::ethernet().unwrap()[0] & 3, 2);
        }
    }

    #[test]
    fn seeds_differ() {
        let seed = super::seed().unwrap();
        assert_ne!(seed, [0; 32]);
        assert_ne!(seed, super::seed().unwrap());
        assert_ne!(super::number().unwrap(), super::number().unwrap());
    }
}
