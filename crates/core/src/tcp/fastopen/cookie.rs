//! The cookie of a pair of addresses (RFC 7413 section 4.1.2): SipHash-2-4 of both under a secret key, as Linux makes it
//! (`__tcp_fastopen_cookie_gen_cipher`), so that servers of both kinds can share a key.
use crate::base::fastopen_keys::{FastOpenKeys, KEY_BYTES};
use core::hash::Hasher as _;
use core::net::IpAddr;
use lowwater_wire::tcp::FastOpenCookie;
use siphasher::sip::SipHasher24;

/// The cookie for `client` of `server`: 8 bytes.
#[must_use]
pub fn cookie(key: &[u8; KEY_BYTES], client: IpAddr, server: IpAddr) -> FastOpenCookie {
    let mut hash = SipHasher24::new_with_key(key);
    for ip in [client, server] {
        match ip {
            IpAddr::V4(ip) => hash.write(&ip.octets()),
            IpAddr::V6(ip) => hash.write(&ip.octets()),
        }
    }
    // Eight bytes are always a cookie.
    FastOpenCookie::new(&hash.finish().to_le_bytes()).unwrap_or(FastOpenCookie::REQUEST)
}

/// Which key a cookie was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// None of ours.
    None,
    /// The primary one.
    Primary,
    /// The backup.
    Backup,
}

/// Compares a client's cookie with what the keys give (`tcp_fastopen_cookie_gen_check`).
#[must_use]
pub fn check(keys: &FastOpenKeys, presented: &FastOpenCookie, client: IpAddr, server: IpAddr) -> Match {
    let fits = |key| cookie(key, client, server).as_slice() == presented.as_slice();
    if fits(&keys.primary) {
        Match::Primary
    } else if keys.backup.as_ref().is_some_and(fits) {
        Match::Backup
    } else {
        Match::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: &str, server: &str) -> Vec<u8> {
        let keys = FastOpenKeys::parse("a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").expect("a key");
        let ip = |text: &str| text.parse().expect("an address");
        cookie(&keys.primary, ip(client), ip(server)).as_slice().to_vec()
    }

    #[test]
    fn cookies_are_linux_s() {
        // Seen on the wire of Linux 6.18 with this key in tcp_fastopen_key.
        let hex = |n: u64| n.to_be_bytes().to_vec();
        assert_eq!(of("192.168.0.1", "192.0.2.1"), hex(0x4584_cc8b_4d83_985f));
        assert_eq!(of("192.0.2.1", "192.168.0.1"), hex(0x3021_b9d8_8901_7eeb));
        assert_eq!(of("fd3d:a0b:17d6::1", "fd3d:fa7b:d17d::1"), hex(0xe525_7207_d499_1fa1));
    }
}
