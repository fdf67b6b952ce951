//! The keys that Fast Open cookies are made with, as `tcp_fastopen_key` and TCP_FASTOPEN_KEY write them.
use core::fmt;

/// Bytes of one key (`TCP_FASTOPEN_KEY_LENGTH`).
pub const KEY_BYTES: usize = 16;

/// A key for new cookies, and maybe one whose cookies are still honoured while clients learn the new ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FastOpenKeys {
    /// Makes and accepts cookies.
    pub primary: [u8; KEY_BYTES],
    /// Accepts cookies; who presents one is given one of the primary key.
    pub backup: Option<[u8; KEY_BYTES]>,
}

impl FastOpenKeys {
    /// The keys in the value of TCP_FASTOPEN_KEY: 16 bytes, or 32 with a backup. `None` for another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (keys, rest) = bytes.as_chunks::<KEY_BYTES>();
        match (keys, rest) {
            (&[primary], []) => Some(Self { primary, backup: None }),
            (&[primary, backup], []) => Some(Self { primary, backup: Some(backup) }),
            _ => None,
        }
    }

    /// The value of TCP_FASTOPEN_KEY: 16 or 32 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [Some(self.primary), self.backup].into_iter().flatten().flatten().collect()
    }

    /// The keys in the text of `tcp_fastopen_key`: four numbers of 32 bits in hexadecimal, joined by dashes; a backup after a
    /// comma.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut keys = text.trim().split(',').map(parse_key);
        let primary = keys.next()??;
        let backup = match keys.next() {
            Some(key) => Some(key?),
            None => None,
        };
        keys.next().is_none().then_some(Self { primary, backup })
    }
}

/// The words are little-endian in the key, as the kernel stores them (`proc_tcp_fastopen_key`).
fn parse_key(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut words = text.split('-').map(|word| u32::from_str_radix(word, 16));
    let mut key = [0; KEY_BYTES];
    for chunk in key.as_chunks_mut::<4>().0 {
        *chunk = words.next()?.ok()?.to_le_bytes();
    }
    words.next().is_none().then_some(key)
}

impl fmt::Display for FastOpenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, key) in [Some(self.primary), self.backup].into_iter().flatten().enumerate() {
            f.write_str(if n == 0 { "" } else { "," })?;
            for (i, word) in key.as_chunks::<4>().0.iter().enumerate() {
                write!(f, "{}{:08x}", if i == 0 { "" } else { "-" }, u32::from_le_bytes(*word))?;
            }
        }
        Ok(())
    }
}

/// Never the keys: they are secrets, and options are printed.
impl fmt::Debug for FastOpenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.backup.is_some() { "FastOpenKeys(2)" } else { "FastOpenKeys(1)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_the_sysctl_writes_them() {
        let text = "00112233-44556677-8899aabb-ccddeeff";
        let keys = FastOpenKeys::parse(text).expect("a key");
        assert_eq!((keys.primary[..5].to_vec(), keys.backup), (vec![0x33, 0x22, 0x11, 0, 0x77], None));
        assert_eq!(keys.to_string(), text);
        let two = FastOpenKeys::parse(&format!("1-2-3-4,{text}")).expect("two keys");
        assert_eq!(two.to_string(), format!("00000001-00000002-00000003-00000004,{text}"));
        assert_eq!(FastOpenKeys::from_bytes(&two.to_bytes()), Some(two));
        for wrong in ["", "1-2-3", "1-2-3-4-5", "1-2-3-x", "1-2-3-4,", "1-2-3-4,1-2-3-4,1-2-3-4"] {
            assert_eq!(FastOpenKeys::parse(wrong), None, "{wrong}");
        }
        assert_eq!(FastOpenKeys::from_bytes(&[0; 17]), None);
    }
}
