//! Where the extension of a message of ICMP begins in what is read of it, for who asks by IP_RECVERR_RFC4884 or IPV6_RECVERR_RFC4884
//! (`ip_icmp_error_rfc4884`).
use lowwater_core::ip::IcmpMessage;
use lowwater_wire::checksum;

/// The shortest quotation that an extension may stand behind (RFC 4884 section 4).
const QUOTED_MIN: usize = 128;
/// Version, reserved bits, checksum (section 7).
const HEADER: usize = 4;
/// The version that RFC 4884 defines; of others nothing is known, so nothing is wrong with them.
const VERSION: u8 = 2;
/// Length, class, type of an object.
const OBJECT_HEADER: usize = 4;
/// SO_EE_RFC4884_FLAG_INVALID.
const INVALID: u8 = 1;

/// `ee_data` (struct sock_ee_data_rfc4884): the place of the extension in what is read, which begins behind `behind` bytes of the quotation, and
/// whether it is broken; 0 where there is none.
pub(super) fn told(v6: bool, message: &IcmpMessage, behind: usize) -> u32 {
    let stated = match (v6, message.ty) {
        (false, 3 | 11 | 12) => usize::from((message.rest >> 16) as u8) * 4,
        (true, 1 | 3) => usize::from((message.rest >> 24) as u8) * 8,
        _ => 0,
    };
    if stated < QUOTED_MIN.max(behind) || stated + HEADER > message.quoted.len() {
        return 0;
    }
    let Some(extension) = message.quoted.get(stated..) else { return 0 };
    let [low, high] = u16::try_from(stated - behind).unwrap_or(u16::MAX).to_ne_bytes();
    u32::from_ne_bytes([low, high, if is_sound(extension) { 0 } else { INVALID }, 0])
}

/// Its checksum, if it has one, holds, and its objects fill it (RFC 4884 section 7).
fn is_sound(extension: &[u8]) -> bool {
    if extension.first().is_some_and(|first| first >> 4 != VERSION) {
        return true;
    }
    let Some((header, mut objects)) = extension.split_at_checked(HEADER) else { return false };
    if header[2..] != [0, 0] && !checksum::verify(0, extension) {
        return false;
    }
    while !objects.is_empty() {
        let len = objects.get(..2).map_or(0, |len| usize::from(u16::from_be_bytes([len[0], len[1]])));
        match objects.get(len..) {
            Some(rest) if len >= OBJECT_HEADER => objects = rest,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::told;
    use bytes::Bytes;
    use lowwater_core::ip::IcmpMessage;
    use lowwater_wire::checksum;

    fn message(ty: u8, rest: u32, quoted: usize, extension: &[u8]) -> IcmpMessage {
        let quoted: Vec<u8> = [vec![0; quoted], extension.to_vec()].concat();
        IcmpMessage { ty, code: 0, rest, quoted: Bytes::from(quoted) }
    }

    fn place(at: u16, flags: u8) -> u32 {
        let [low, high] = at.to_ne_bytes();
        u32::from_ne_bytes([low, high, flags, 0])
    }

    /// An MPLS label stack of one entry (RFC 4950 section 3), its checksum in place.
    fn sound() -> Vec<u8> {
        let mut extension = vec![0x20, 0, 0, 0, 0, 8, 1, 1, 0, 1, 0x41, 5];
        let sum = checksum::checksum(&extension);
        extension[2..4].copy_from_slice(&sum.to_be_bytes());
        extension
    }

    #[test]
    fn the_place_counts_from_what_is_read() {
        let words = 32 << 16;
        assert_eq!(told(false, &message(11, words, 128, &sound()), 28), place(100, 0));
        assert_eq!(
            told(false, &message(3, words | 1_400, 128, &sound()), 20),
            place(108, 0),
            "beside an MTU"
        );
        assert_eq!(told(false, &message(12, 33 << 16, 132, &sound()), 28), place(104, 0));
        assert_eq!(told(true, &message(3, 16 << 24, 128, &sound()), 48), place(80, 0));
        assert_eq!(told(true, &message(1, 16 << 24, 128, &sound()), 40), place(88, 0));
    }

    #[test]
    fn nothing_is_told_where_there_is_no_extension() {
        let words = 32 << 16;
        for (v6, ty, rest, quoted, extension) in [
            (false, 11, 0, 128, sound()),
            (false, 11, 31 << 16, 124, sound()),
            (false, 11, words, 128, vec![0x20, 0, 0]),
            (false, 11, 255 << 16, 128, sound()),
            (false, 5, words, 128, sound()),
            (true, 2, 16 << 24, 128, sound()),
            (true, 4, 16 << 24, 128, sound()),
            (true, 3, 15 << 24, 120, sound()),
        ] {
            assert_eq!(told(v6, &message(ty, rest, quoted, &extension), 28), 0, "{ty} {rest:x}");
        }
        assert_eq!(told(false, &message(11, words, 128, &sound()), 129), 0, "it would begin in the headers");
        assert_eq!(told(false, &message(11, words, 128, &sound()), 128), place(0, 0));
    }

    #[test]
    fn a_broken_extension_is_marked() {
        let told = |extension: &[u8]| told(false, &message(11, 32 << 16, 128, extension), 28);
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut extension = sound();
            extension[2..4].fill(0);
            change(&mut extension);
            extension
        };
        let (good, bad) = (place(100, 0), place(100, 1));
        assert_eq!(told(&with(&|_| {})), good, "without a checksum");
        assert_eq!(told(&with(&|e| e[3] = 1)), bad, "a wrong one");
        assert_eq!(told(&with(&|e| e[5] = 9)), bad, "an object beyond the end");
        assert_eq!(told(&with(&|e| e[5] = 3)), bad, "an object shorter than its header");
        assert_eq!(told(&with(&|e| e.extend([0, 0, 0]))), bad, "the beginning of an object");
        assert_eq!(told(&with(&|e| e[5] = 4)), bad, "an object of no length behind it");
        assert_eq!(told(&with(&|e| e.truncate(4))), good, "no object at all");
        assert_eq!(told(&with(&|e| (e[0], e[5]) = (0x10, 9))), good, "another version");
    }
}
