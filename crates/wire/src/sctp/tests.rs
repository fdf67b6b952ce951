//! What is written is read back; limits, padding and checksums.
use super::*;
use crate::Malformed;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;
use zerocopy::network_endian::{U16, U32};

/// Values that live as long as the test: representations borrow.
fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

fn bytes() -> impl Strategy<Value = &'static [u8]> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(leak)
}

fn halves() -> impl Strategy<Value = &'static [U16]> {
    prop::collection::vec(any::<u16>().prop_map(U16::new), 0..9).prop_map(leak)
}

fn flags() -> impl Strategy<Value = DataFlags> {
    any::<u8>().prop_map(DataFlags::from_bits_truncate)
}

fn tlvs() -> impl Strategy<Value = Tlvs<'static>> {
    prop::collection::vec((0x3000u16..0x3010, bytes()), 0..4).prop_map(|list| {
        let mut all = Vec::new();
        for (kind, value) in list {
            let at = all.len();
            all.resize(at + padded(4 + value.len()), 0);
            tlv::emit(&mut all[at..], kind, &[value]);
        }
        Tlvs::new(leak(all))
    })
}

fn init() -> impl Strategy<Value = Init<'static>> {
    (any::<(u32, u32, u16, u16, u32)>(), tlvs()).prop_map(|((tag, a_rwnd, out, inn, tsn), params)| Init {
        initiate_tag: tag,
        a_rwnd,
        outbound_streams: out,
        inbound_streams: inn,
        initial_tsn: tsn,
        params,
    })
}

fn sack() -> impl Strategy<Value = Sack<'static>> {
    let gaps = prop::collection::vec(any::<(u16, u16)>().prop_map(|(a, b)| GapBlock::new(a, b)), 0..20);
    let dups = prop::collection::vec(any::<u32>().prop_map(U32::new), 0..20);
    (any::<(u32, u32)>(), gaps, dups).prop_map(|((cum_tsn, a_rwnd), gaps, dups)| Sack {
        cum_tsn,
        a_rwnd,
        gaps: leak(gaps),
        dups: leak(dups),
    })
}

fn data() -> impl Strategy<Value = Chunk<'static>> {
    (flags(), any::<(u32, u16, u16, u32)>(), bytes()).prop_map(|(flags, (tsn, sid, ssn, ppid), data)| {
        Chunk::Data(DataRepr { flags, tsn, sid, ssn, ppid }, data)
    })
}

fn i_data() -> impl Strategy<Value = Chunk<'static>> {
    (flags(), any::<(u32, u16, u32, u32)>(), bytes()).prop_map(|(flags, (tsn, sid, mid, ppid_fsn), data)| {
        Chunk::IData(IDataRepr { flags, tsn, sid, mid, ppid_fsn }, data)
    })
}

fn forward() -> impl Strategy<Value = Chunk<'static>> {
    let short = any::<(u16, u16)>().prop_map(|(sid, ssn)| ForwardStream::new(sid, ssn));
    let long = any::<(u16, bool, u32)>().prop_map(|(sid, u, mid)| IForwardStream::new(sid, u, mid));
    prop_oneof![
        (any::<u32>(), prop::collection::vec(short, 0..9)).prop_map(|(t, s)| Chunk::ForwardTsn(t, leak(s))),
        (any::<u32>(), prop::collection::vec(long, 0..9)).prop_map(|(t, s)| Chunk::IForwardTsn(t, leak(s))),
    ]
}

fn chunk() -> impl Strategy<Value = Chunk<'static>> {
    let other = (66u8..128, any::<u8>(), bytes()).prop_map(|(kind, flags, value)| {
        let len = 4 + value.len();
        let mut all = vec![kind, flags, 0, len as u8];
        all.extend_from_slice(value);
        Chunk::Other(Chunks::new(leak(all)).next().unwrap().unwrap())
    });
    let plain = prop_oneof![
        Just(Chunk::ShutdownAck),
        Just(Chunk::CookieAck),
        any::<bool>().prop_map(Chunk::ShutdownComplete),
        any::<u32>().prop_map(Chunk::Shutdown),
        any::<u32>().prop_map(Chunk::Ecne),
        any::<u32>().prop_map(Chunk::Cwr),
        bytes().prop_map(Chunk::CookieEcho),
        bytes().prop_map(Chunk::Pad),
        (any::<(u16, u16)>(), bytes()).prop_map(|((key, algorithm), hmac)| Chunk::Auth {
            key,
            algorithm,
            hmac
        }),
    ];
    let nested = prop_oneof![
        init().prop_map(Chunk::Init),
        init().prop_map(Chunk::InitAck),
        tlvs().prop_map(Chunk::Heartbeat),
        tlvs().prop_map(Chunk::HeartbeatAck),
        (any::<bool>(), tlvs()).prop_map(|(t, causes)| Chunk::Abort(t, causes)),
        tlvs().prop_map(Chunk::Error),
        tlvs().prop_map(Chunk::ReConfig),
        (any::<u32>(), tlvs()).prop_map(|(serial, tlvs)| Chunk::Asconf(serial, tlvs)),
        (any::<u32>(), tlvs()).prop_map(|(serial, tlvs)| Chunk::AsconfAck(serial, tlvs)),
    ];
    prop_oneof![data(), i_data(), sack().prop_map(Chunk::Sack), forward(), plain, nested, other]
}

fn param() -> impl Strategy<Value = Param<'static>> {
    let words = prop_oneof![
        any::<u32>().prop_map(|ip| Param::Ipv4(Ipv4Addr::from_bits(ip))),
        any::<u128>().prop_map(|ip| Param::Ipv6(Ipv6Addr::from_bits(ip))),
        any::<u32>().prop_map(Param::CookiePreservative),
        any::<u32>().prop_map(Param::ZeroChecksum),
        any::<u32>().prop_map(Param::Adaptation),
        any::<u32>().prop_map(Param::Success),
        any::<u32>().prop_map(Param::TsnReset),
        any::<(u32, u32, Option<(u32, u32)>)>().prop_map(|(a, b, c)| Param::ResetResponse(a, b, c)),
        any::<(u32, u16)>().prop_map(|(a, b)| Param::AddOutgoing(a, b)),
        any::<(u32, u16)>().prop_map(|(a, b)| Param::AddIncoming(a, b)),
        Just(Param::EcnCapable),
        Just(Param::ForwardTsnSupported),
    ];
    let strings = prop_oneof![
        bytes().prop_map(Param::HeartbeatInfo),
        bytes().prop_map(Param::StateCookie),
        bytes().prop_map(Param::Unrecognized),
        bytes().prop_map(Param::HostName),
        bytes().prop_map(Param::Random),
        bytes().prop_map(Param::ChunkList),
        bytes().prop_map(Param::Padding),
        bytes().prop_map(Param::SupportedExtensions),
    ];
    let lists = prop_oneof![
        halves().prop_map(Param::SupportedAddressTypes),
        halves().prop_map(Param::HmacAlgorithms),
        (any::<u32>(), halves()).prop_map(|(a, list)| Param::IncomingReset(a, list)),
        (any::<(u32, u32, u32)>(), halves()).prop_map(|((a, b, c), list)| {
            let fixed = Reset { request: a.into(), response: b.into(), last_tsn: c.into() };
            Param::OutgoingReset(&leak(vec![fixed])[0], list)
        }),
        (any::<u32>(), tlvs()).prop_map(|(a, tlvs)| Param::AddIp(a, tlvs)),
        (any::<u32>(), tlvs()).prop_map(|(a, tlvs)| Param::DeleteIp(a, tlvs)),
        (any::<u32>(), tlvs()).prop_map(|(a, tlvs)| Param::SetPrimary(a, tlvs)),
        (any::<u32>(), tlvs()).prop_map(|(a, tlvs)| Param::ErrorCause(a, tlvs)),
        tlvs().prop_filter_map("one", |mut tlvs| tlvs.next()?.ok()).prop_map(Param::Other),
    ];
    prop_oneof![words, strings, lists]
}

fn cause() -> impl Strategy<Value = Cause<'static>> {
    prop_oneof![
        any::<u16>().prop_map(Cause::InvalidStream),
        halves().prop_map(Cause::MissingParams),
        any::<u32>().prop_map(Cause::StaleCookie),
        Just(Cause::OutOfResource),
        bytes().prop_map(Cause::UnresolvableAddress),
        bytes().prop_map(Cause::UnrecognizedChunk),
        Just(Cause::InvalidMandatory),
        tlvs().prop_map(Cause::UnrecognizedParams),
        any::<u32>().prop_map(Cause::NoUserData),
        Just(Cause::CookieInShutdown),
        any::<(u16, u16)>().prop_map(|(current, new)| Cause::NewEncapPort(current, new)),
        tlvs().prop_map(Cause::Restart),
        bytes().prop_map(Cause::UserAbort),
        bytes().prop_map(Cause::ProtocolViolation),
        tlvs().prop_filter_map("one", |mut tlvs| tlvs.next()?.ok()).prop_map(Cause::Other),
    ]
}

const HEADER: SctpRepr = SctpRepr { src_port: 0x1234, dst_port: 0x5678, vtag: 0x9abc_def0 };

proptest! {
    #[test]
    fn chunks_are_read_as_they_were_written(chunks in prop::collection::vec(chunk(), 0..5)) {
        let mut buffer = [0xff; 4096];
        let mut packet = Builder::new(&mut buffer, &HEADER);
        for chunk in &chunks {
            prop_assert!(packet.chunk(chunk));
        }
        prop_assert_eq!(packet.is_empty(), chunks.is_empty());
        let len = packet.len();
        let packet = packet.finish();
        prop_assert_eq!(packet.len(), len);
        prop_assert_eq!(len, HEADER_LEN + chunks.iter().map(Chunk::buffer_len).sum::<usize>());
        let view = SctpView::parse(packet).unwrap();
        prop_assert_eq!((SctpRepr::parse(&view), view.verify()), (HEADER, Checksum::Good));
        let mut raws = view.chunks();
        for chunk in &chunks {
            let raw = raws.next().unwrap().unwrap();
            prop_assert_eq!((raw.kind(), raw.bytes().len()), (chunk.kind(), chunk.stated_len()));
            prop_assert_eq!(Chunk::parse(&raw), Ok(*chunk));
        }
        prop_assert!(raws.next().is_none());
    }

    #[test]
    fn params_are_read_as_they_were_written(params in prop::collection::vec(param(), 0..5), init in init()) {
        let mut buffer = [0xff; 4096];
        let mut packet = Builder::new(&mut buffer, &HEADER);
        prop_assert!(!packet.param(&Param::EcnCapable), "there is no chunk yet");
        let init = Chunk::Init(Init { params: Tlvs::EMPTY, ..init });
        prop_assert!(packet.chunk(&init));
        for param in &params {
            prop_assert!(packet.param(param));
        }
        let raw = SctpView::parse(packet.finish()).unwrap().chunks().next().unwrap().unwrap();
        let Ok(Chunk::Init(back)) = Chunk::parse(&raw) else { panic!("{raw:?}") };
        let back: Vec<_> = back.params.map(|tlv| Param::parse(&tlv.unwrap()).unwrap()).collect();
        prop_assert_eq!(back, params);
    }

    #[test]
    fn causes_are_read_as_they_were_written(causes in prop::collection::vec(cause(), 0..5), t: bool) {
        let mut buffer = [0xff; 4096];
        let mut packet = Builder::new(&mut buffer, &HEADER);
        prop_assert!(packet.chunk(&Chunk::Abort(t, Tlvs::EMPTY)));
        for cause in &causes {
            prop_assert!(packet.cause(cause));
        }
        let raw = SctpView::parse(packet.finish()).unwrap().chunks().next().unwrap().unwrap();
        let Ok(Chunk::Abort(flag, back)) = Chunk::parse(&raw) else { panic!("{raw:?}") };
        let back: Vec<_> = back.map(|tlv| Cause::parse(&tlv.unwrap()).unwrap()).collect();
        prop_assert_eq!((flag, back), (t, causes));
    }

    #[test]
    fn a_chunk_that_does_not_fit_changes_nothing(chunk in chunk(), short in 1usize..5) {
        let mut buffer = vec![0; HEADER_LEN + chunk.buffer_len() - short];
        let mut packet = Builder::new(&mut buffer, &HEADER);
        let room = packet.room();
        prop_assert!(!packet.chunk(&chunk));
        prop_assert!(packet.is_empty() && packet.room() == room);
    }

    #[test]
    fn the_checksum_is_the_same_in_pieces(packet in prop::collection::vec(any::<u8>(), 12..3_000), cuts: (usize, usize)) {
        let mut whole = packet.clone();
        fill_checksum(&mut whole, &[]);
        let first = 12 + cuts.0 % (packet.len() - 11);
        let second = first + cuts.1 % (packet.len() - first + 1);
        let mut head = packet[..first].to_vec();
        fill_checksum(&mut head, &[&packet[first..second], &packet[second..]]);
        prop_assert_eq!(&head[8..12], &whole[8..12]);
        let view = SctpView::parse(&whole).unwrap();
        prop_assert_eq!(view.verify(), Checksum::Good);
        prop_assert_eq!(view.checksum(), by_the_bit(&packet));
        let mut wrong = whole.clone();
        let at = cuts.0 % wrong.len();
        wrong[at] ^= 1 << (cuts.1 % 8);
        prop_assert_eq!(SctpView::parse(&wrong).unwrap().verify(), Checksum::Bad);
    }
}

/// CRC32c as RFC 9260 appendix B describes it: bit after bit, reflected.
fn by_the_bit(packet: &[u8]) -> u32 {
    let mut crc = !0u32;
    for (at, byte) in packet.iter().enumerate() {
        crc ^= if (8..12).contains(&at) { 0 } else { u32::from(*byte) };
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn a_zero_checksum_is_told_from_a_wrong_one() {
    let mut buffer = [0; 16];
    let mut packet = Builder::new(&mut buffer, &HEADER);
    assert!(packet.chunk(&Chunk::CookieAck));
    let packet = packet.finish_zero();
    assert_eq!(SctpView::parse(packet).unwrap().verify(), Checksum::Zero);
    packet[11] = 1;
    assert_eq!(SctpView::parse(packet).unwrap().verify(), Checksum::Bad);
}

#[test]
fn an_init_lies_on_the_wire_as_the_rfc_draws_it() {
    let init = Init {
        initiate_tag: 1,
        a_rwnd: 2,
        outbound_streams: 3,
        inbound_streams: 4,
        initial_tsn: 5,
        params: Tlvs::EMPTY,
    };
    let mut buffer = [0; 64];
    let mut packet = Builder::new(&mut buffer, &HEADER);
    assert!(packet.chunk(&Chunk::Init(init)));
    assert!(packet.param(&Param::SupportedExtensions(&[130, 192, 193])));
    assert!(packet.param(&Param::Ipv4(Ipv4Addr::new(10, 0, 0, 1))));
    assert!(packet.param(&Param::HostName(b"a\0")));
    let expected = [
        1, 0, 0, 42, 0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 4, 0, 0, 0, 5, // the fixed part
        0x80, 8, 0, 7, 130, 192, 193, 0, // one byte of padding within
        0, 5, 0, 8, 10, 0, 0, 1, //
        0, 11, 0, 6, b'a', 0, 0, 0, // two at the end, which no length counts
    ];
    assert_eq!(packet.finish()[HEADER_LEN..], expected);
}

#[test]
fn impossible_lengths_end_the_chunks() {
    let read = |bytes: &[u8]| Chunks::new(bytes).map(|c| c.map(|c| c.kind())).collect::<Vec<_>>();
    assert_eq!(read(&[11, 0, 0, 4, 14, 0, 0, 3, 11, 0, 0, 4]), [Ok(11), Err(Malformed::HeaderLength)]);
    assert_eq!(read(&[11, 0, 0, 4, 14, 0, 0, 5]), [Ok(11), Err(Malformed::Truncated)]);
    assert_eq!(read(&[11, 0, 0, 4, 14, 0, 0]), [Ok(11)], "fewer than four bytes are nothing");
    assert_eq!(read(&[11, 0, 0, 5, 1]), [Ok(11)], "padding of the last may be missing");
    assert_eq!(read(&[11, 0, 0, 5, 1, 0, 0, 0, 14, 0, 0, 4]), [Ok(11), Ok(14)]);
}

#[test]
fn chunks_that_are_too_short_for_their_type_are_refused() {
    let value = [0; 40];
    for (kind, least) in [
        (0, 12),
        (1, 16),
        (2, 16),
        (3, 12),
        (7, 4),
        (12, 4),
        (13, 4),
        (15, 4),
        (64, 16),
        (192, 4),
        (193, 4),
        (194, 4),
    ] {
        for len in 0..20 {
            let mut bytes = vec![kind, 0, 0, 4 + len as u8];
            bytes.extend_from_slice(&value[..len]);
            let raw = Chunks::new(&bytes).next().unwrap().unwrap();
            assert_eq!(Chunk::parse(&raw).is_ok(), len >= least, "type {kind} with {len} bytes");
        }
    }
    // A SACK whose lists are longer than itself.
    for (gaps, dups, len, fits) in [(1, 0, 4, true), (1, 1, 4, false), (1, 1, 8, true), (0, 3, 8, false)] {
        let mut bytes = vec![3, 0, 0, 16 + len, 0, 0, 0, 1, 0, 0, 0, 2, 0, gaps, 0, dups];
        bytes.extend_from_slice(&value[..len.into()]);
        let raw = Chunks::new(&bytes).next().unwrap().unwrap();
        assert_eq!(Chunk::parse(&raw).is_ok(), fits, "{gaps} gaps and {dups} duplicates in {len} bytes");
    }
}

#[test]
fn the_high_bits_say_what_becomes_of_the_unknown() {
    let say = |unknown: Unknown| (unknown.stops(), unknown.reports());
    assert_eq!(say(Unknown::chunk(0x3f)), (true, false));
    assert_eq!(say(Unknown::chunk(0x7f)), (true, true));
    assert_eq!(say(Unknown::chunk(0xbf)), (false, false));
    assert_eq!(say(Unknown::chunk(0xff)), (false, true));
    assert_eq!(say(Unknown::param(0x3fff)), (true, false));
    assert_eq!(say(Unknown::param(0x7fff)), (true, true));
    assert_eq!(say(Unknown::param(0x8000)), (false, false));
    assert_eq!(say(Unknown::param(0xc000)), (false, true));
}

#[test]
fn quotes_tell_ports_and_tags() {
    let mut buffer = [0; 64];
    let mut packet = Builder::new(&mut buffer, &SctpRepr { vtag: 0, ..HEADER });
    let init = Init {
        initiate_tag: 77,
        a_rwnd: 0,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: 0,
        params: Tlvs::EMPTY,
    };
    assert!(packet.chunk(&Chunk::Init(init)));
    let bytes = packet.finish();
    let quote = Quoted { src_port: 0x1234, dst_port: 0x5678, vtag: 0, initiate_tag: Some(77) };
    assert_eq!(quoted(&bytes[..20]), Ok(quote));
    assert_eq!(quoted(&bytes[..19]), Ok(Quoted { initiate_tag: None, ..quote }));
    assert_eq!(quoted(&bytes[..7]), Err(Malformed::Truncated));
}
