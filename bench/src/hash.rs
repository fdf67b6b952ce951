//! The hash over the payload: CRC32c, so that every byte is looked at and a wrong one shows.
use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest};

/// CRC32c of everything fed to it.
#[derive(Clone, Debug)]
pub struct Hash(Digest);

impl Hash {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(Crc32Iscsi))
    }

    /// Goes on with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum so far.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 appendix B.4.
    #[test]
    fn it_is_crc32c_however_it_is_cut() {
        let bytes: Vec<u8> = (0..32).collect();
        for at in 0..=32 {
            let mut hash = Hash::new();
            hash.update(&bytes[..at]);
            hash.update(&bytes[at..]);
            assert_eq!(hash.value(), 0x46dd_794e);
        }
    }
}
