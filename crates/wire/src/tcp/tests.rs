//! Tests of the TCP segment: round trips, Linux's option layouts byte by byte, and hostile options.
use super::*;
use crate::{Malformed, checksum as sums};
use proptest::prelude::*;
use std::format;
use std::vec::Vec;

prop_compose! {
    fn options()(mss in prop::option::of(1u16..), window_scale in prop::option::of(0u8..=14), sack_permitted: bool,
                 timestamps in prop::option::of(any::<(u32, u32)>()), sack in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
                 accecn in prop::option::of((any::<bool>(), prop::collection::vec(0u32..1 << 24, 0..=3))),
                 cookie in prop::option::of(prop::sample::select(&[0usize, 4, 6, 8, 10, 12, 14, 16][..]).prop_flat_map(|len| prop::collection::vec(any::<u8>(), len))), experimental: bool) -> TcpOptions {
        let mut options = TcpOptions {
            mss,
            window_scale,
            sack_permitted,
            timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
            sack: sack.into_iter().collect(),
            fastopen: cookie.map(|bytes| FastOpenCookie::new(&bytes).unwrap().with_experimental(experimental)),
            signed: None,
        };
        if let Some((ect1_first, counters)) = accecn {
            options.set_accecn(AccEcnOption::new(ect1_first, &counters));
        }
        options
    }
}

prop_compose! {
    fn repr()(src_port: u16, dst_port: u16, seq: u32, ack: u32, bits: u16, window: u16, urgent: u16, options in options()) -> TcpRepr {
        TcpRepr { src_port, dst_port, seq, ack, flags: TcpFlags::from_bits_truncate(bits), window, urgent, options }
    }
}

/// What of the options goes out: those that fit. A signature is seen, never made.
fn that_fit(options: TcpOptions) -> TcpOptions {
    let mut sack: SackBlocks = options.sack.iter().take(options.sack_room()).collect();
    if let Some(counters) = options.accecn() {
        sack.set_accecn(counters);
    }
    let without = TcpOptions { sack, fastopen: None, ..options };
    let fits = |cookie: &FastOpenCookie| {
        let base = if cookie.is_experimental() { 4 } else { 2 };
        without.buffer_len() + (base + cookie.len()).next_multiple_of(4) <= MAX_OPTIONS_LEN
    };
    TcpOptions { fastopen: options.fastopen.filter(fits), signed: None, ..without }
}

fn emitted(repr: &TcpRepr) -> Vec<u8> {
    let mut bytes = std::vec![0xaa; repr.header_len()];
    repr.emit(&mut bytes);
    bytes
}

fn layout(options: TcpOptions) -> Vec<u8> {
    let mut bytes = std::vec![0xaa; options.buffer_len()];
    assert_eq!(options.emit(&mut bytes), bytes.len());
    bytes
}

proptest! {
    #[test]
    fn parse_undoes_emit(repr in repr()) {
        let bytes = emitted(&repr);
        let view = TcpView::parse(&bytes).unwrap();
        prop_assert_eq!(view.header_len(), bytes.len());
        prop_assert_eq!(view.payload(), &[] as &[u8]);
        prop_assert_eq!(TcpRepr::parse(&view), TcpRepr { options: that_fit(repr.options), ..repr });
    }

    #[test]
    fn emit_of_parse_is_a_fixed_point(bytes in prop::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..=40)) {
        // Reading may gather more than Linux's padding leaves room for, so the fixed point begins with what fits.
        let repr = that_fit(TcpOptions::parse(&bytes));
        let again = layout(repr);
        prop_assert!(again.len() <= MAX_OPTIONS_LEN && again.len().is_multiple_of(4));
        prop_assert_eq!(TcpOptions::parse(&again), repr);
        prop_assert_eq!(layout(TcpOptions::parse(&again)), again);
    }

    #[test]
    fn checksum_is_the_same_however_the_payload_is_cut(repr in repr(), payload in prop::collection::vec(any::<u8>(), 0..80), cut in any::<prop::sample::Index>(), pseudo in 0u64..1 << 34) {
        let mut bytes = emitted(&repr);
        let (head, tail) = payload.split_at(cut.index(payload.len() + 1));
        fill_checksum(&mut bytes, pseudo, &[head, tail]);
        bytes.extend_from_slice(&payload);
        prop_assert!(TcpView::parse(&bytes).unwrap().checksum_ok(pseudo));
        // The device's half: sum from the transport header on, complement, store.
        fill_checksum_partial(&mut bytes, pseudo);
        let field = sums::checksum(&bytes);
        bytes[CHECKSUM_OFFSET..][..2].copy_from_slice(&field.to_be_bytes());
        prop_assert!(TcpView::parse(&bytes).unwrap().checksum_ok(pseudo));
    }

    #[test]
    fn fast_path_agrees_with_the_loop(value: u32, echo: u32) {
        let mut bytes = std::vec![1, 1, 8, 10];
        bytes.extend(value.to_be_bytes());
        bytes.extend(echo.to_be_bytes());
        let fast = TcpOptions::parse(&bytes);
        bytes.extend([1, 1, 1, 1]);
        prop_assert_eq!(fast, TcpOptions::parse(&bytes));
        prop_assert_eq!(fast.timestamps, Some(Timestamps { value, echo }));
    }
}

/// RFC 2385 and RFC 5925 are not spoken: what carries one of them is told apart, and is laid out without it.
#[test]
fn a_signature_is_seen_and_not_sent() {
    let malformed = Some(Signature::Malformed);
    let fronts: [(&[u8], _); 7] = [
        (&[19, 18], Some(Signature::Md5)),
        (&[29, 16], None),
        (&[29, 4], malformed),
        (&[19, 10], malformed),
        (&[19, 1], malformed),
        (&[253, 30], malformed),
        (&[1, 253, 30], malformed),
    ];
    for (front, signed) in fronts {
        let mut bytes = [0; 19];
        bytes[..front.len()].copy_from_slice(front);
        let parsed = TcpOptions::parse(&bytes);
        assert!(parsed.signed == signed && layout(parsed).is_empty(), "{front:?}");
        assert_eq!(TcpOptions::parse(&bytes[..17]).signed, None, "{front:?} without room for a signature");
    }
}

#[test]
fn two_signatures_are_none() {
    for kinds in [[19, 19], [19, 29], [29, 19], [29, 29]] {
        let mut bytes = [0; 36];
        for (option, kind) in bytes.chunks_exact_mut(18).zip(kinds) {
            option[..2].copy_from_slice(&[kind, 18]);
        }
        assert_eq!(TcpOptions::parse(&bytes).signed, Some(Signature::Malformed), "{kinds:?}");
    }
}

#[test]
fn a_cookie_of_no_legal_length_takes_back_an_earlier_one_unless_it_is_odd() {
    let request = Some(FastOpenCookie::REQUEST);
    assert_eq!(TcpOptions::parse(&[34, 2, 34, 4, 1, 2]).fastopen, None);
    assert_eq!(TcpOptions::parse(&[34, 2, 34, 5, 1, 2, 3]).fastopen, request);
    assert_eq!(TcpOptions::parse(&[34, 4, 1, 2, 34, 2]).fastopen, request);
}

const TS: Option<Timestamps> = Some(Timestamps { value: 0x0102_0304, echo: 0x0506_0708 });

#[test]
fn syn_is_laid_out_as_linux_does() {
    let syn = TcpOptions {
        mss: Some(1_460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: TS,
        ..TcpOptions::EMPTY
    };
    let with_timestamps = [2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7];
    assert_eq!(layout(syn), with_timestamps);
    let without = [2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7];
    assert_eq!(layout(TcpOptions { timestamps: None, ..syn }), without);
    let no_sack = [2, 4, 5, 0xb4, 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7];
    assert_eq!(layout(TcpOptions { sack_permitted: false, ..syn }), no_sack);

    let request = layout(TcpOptions { fastopen: Some(FastOpenCookie::REQUEST), ..syn });
    assert_eq!((&request[..20], &request[20..]), (&with_timestamps[..], &[34, 2, 1, 1][..]));
    let cookie = FastOpenCookie::new(&[9; 8]);
    let cookie = layout(TcpOptions { fastopen: cookie, ..syn });
    assert_eq!(cookie[20..], [34, 10, 9, 9, 9, 9, 9, 9, 9, 9, 1, 1]);
    let longest = layout(TcpOptions { fastopen: FastOpenCookie::new(&[9; 16]), ..syn });
    assert_eq!(longest.len(), MAX_OPTIONS_LEN);
}

#[test]
fn the_experimental_fast_open_option_carries_its_magic_number() {
    let exp = |cookie: FastOpenCookie| TcpOptions {
        fastopen: Some(cookie.with_experimental(true)),
        ..TcpOptions::EMPTY
    };
    assert_eq!(layout(exp(FastOpenCookie::REQUEST)), [254, 4, 0xf9, 0x89]);
    let cookie = layout(exp(FastOpenCookie::new(&[9; 8]).unwrap()));
    assert_eq!(cookie, [254, 12, 0xf9, 0x89, 9, 9, 9, 9, 9, 9, 9, 9]);
    assert!(TcpOptions::parse(&cookie).fastopen.is_some_and(|c| c.is_experimental() && c.len() == 8));
    // Other users of the kind, and a cookie of odd length.
    assert_eq!(TcpOptions::parse(&[254, 4, 0xf9, 0x88]).fastopen, None);
    assert_eq!(TcpOptions::parse(&[254, 9, 0xf9, 0x89, 1, 2, 3, 4, 5]).fastopen, None);
}

#[test]
fn data_segments_are_laid_out_as_linux_does() {
    let ts = TcpOptions { timestamps: TS, ..TcpOptions::EMPTY };
    assert_eq!(layout(TcpOptions::EMPTY), []);
    assert_eq!(layout(ts), [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    let one: SackBlocks = [(1, 2)].into_iter().collect();
    let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    assert_eq!(layout(TcpOptions { sack: one, ..TcpOptions::EMPTY }), sack);
    let both = layout(TcpOptions { sack: one, ..ts });
    assert_eq!((&both[..12], &both[12..]), (&layout(ts)[..], &sack[..]));
    let four: SackBlocks = (0..4).map(|i| (i, i + 1)).collect();
    assert_eq!(layout(TcpOptions { sack: four, ..TcpOptions::EMPTY }).len(), 36);
    let three = layout(TcpOptions { sack: four, ..ts });
    assert_eq!((three.len(), three[15]), (40, 26), "three blocks beside timestamps");
}

#[test]
fn hostile_options_end_the_reading_and_keep_what_was_read() {
    let mss = TcpOptions { mss: Some(1_460), ..TcpOptions::EMPTY };
    for tail in [&[8][..], &[8, 0, 0, 0], &[8, 1, 0, 0], &[8, 10, 0, 0], &[5, 255, 0, 0], &[0, 3, 3, 7]] {
        let mut bytes = std::vec![2, 4, 5, 0xb4];
        bytes.extend_from_slice(tail);
        assert_eq!(TcpOptions::parse(&bytes), mss, "{tail:?}");
    }
}

#[test]
fn wrong_lengths_and_unknown_kinds_are_skipped() {
    let hostile = [
        2, 3, 9, 3, 4, 1, 1, 4, 3, 0, 8, 9, 0, 0, 0, 0, 0, 0, 0, 5, 9, 0, 0, 0, 0, 0, 0, 0, 34, 3, 1, 253, 4,
        1, 1,
    ];
    assert_eq!(TcpOptions::parse(&hostile), TcpOptions::EMPTY);
    assert_eq!(TcpOptions::parse(&[3, 3, 255]).window_scale, Some(MAX_WINDOW_SCALE));
    assert_eq!(TcpOptions::parse(&[2, 4, 0, 0]).mss, None);
}

#[test]
fn cookies_of_illegal_length_do_not_exist() {
    let legal = (0..20).filter(|len| FastOpenCookie::new(&std::vec![1; *len]).is_some());
    assert_eq!(legal.collect::<Vec<_>>(), [0, 4, 6, 8, 10, 12, 14, 16]);
}

#[test]
fn impossible_headers_are_refused_with_the_reason() {
    let refused = |offset: u8, len: usize| {
        let mut bytes = std::vec![0; len];
        if let Some(byte) = bytes.get_mut(12) {
            *byte = offset << 4;
        }
        TcpView::parse(&bytes).err()
    };
    assert_eq!(refused(5, 19), Some(Malformed::Truncated));
    assert_eq!(refused(4, 60), Some(Malformed::HeaderLength));
    assert_eq!(refused(6, 23), Some(Malformed::Truncated));
    assert_eq!(refused(15, 60), None);
}

#[test]
fn flags_are_named() {
    assert_eq!(std::format!("{:?}", TcpFlags::SYN | TcpFlags::ACK), "SYN|ACK");
    assert_eq!(std::format!("{:?}", TcpFlags::EMPTY), "none");
    let mut flags = TcpFlags::FIN | TcpFlags::AE;
    flags.remove(TcpFlags::FIN);
    assert!(flags == TcpFlags::AE && (flags - TcpFlags::AE).is_empty());
    assert!(!flags.contains(TcpFlags::AE | TcpFlags::ACK) && flags.intersects(TcpFlags::AE | TcpFlags::ACK));
}

#[test]
fn eight_quoted_bytes_name_the_connection() {
    let repr = TcpRepr {
        src_port: 1,
        dst_port: 2,
        seq: 3,
        ack: 0,
        flags: TcpFlags::SYN,
        window: 0,
        urgent: 0,
        options: TcpOptions::EMPTY,
    };
    let bytes = emitted(&repr);
    assert_eq!(quoted(&bytes[..8]), Ok(Quoted { src_port: 1, dst_port: 2, seq: 3 }));
    assert_eq!(quoted(&bytes[..7]), Err(Malformed::Truncated));
}

#[test]
fn what_shares_the_memory_of_blocks_is_told_beside_them() {
    let mut sack: SackBlocks = [(1, 2)].into_iter().collect();
    assert_eq!(format!("{sack:?}"), "[(1, 2)]");
    sack.set_accecn(AccEcnOption::new(true, &[1, 0x2_0304]));
    let told = format!("{sack:?}");
    assert!(told.starts_with("[(1, 2), AccEcnOption") && told.contains("[2, 3, 4]"), "{told}");
}
