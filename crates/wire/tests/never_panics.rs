//! Feeds arbitrary bytes to every parser and calls every getter and iterator of what comes out.
#![forbid(unsafe_code)]
use lowwater_wire::{arp, ether, icmp4, icmp6, ipv4, ipv6, sctp, tcp, udp, vnet_hdr};
use proptest::prelude::*;
use std::hint::black_box;
use std::net::Ipv6Addr;

fn all_of_ipv4(bytes: &[u8]) {
    for view in [ipv4::Ipv4View::parse(bytes), ipv4::Ipv4View::parse_quoted(bytes)].into_iter().flatten() {
        let repr = black_box(ipv4::Ipv4Repr::parse(&view));
        repr.emit(&mut [0; ipv4::HEADER_LEN]);
        assert!(
            view.header_len() >= ipv4::HEADER_LEN && view.header_len() + view.payload().len() <= bytes.len()
        );
        assert_eq!(view.header_len(), ipv4::HEADER_LEN + view.options().len());
        black_box((view.checksum_ok(), view.is_fragment(), view.total_len()));
    }
    black_box(ipv4::decrement_ttl(&mut bytes.to_vec()));
}

fn all_of_ipv6(bytes: &[u8]) {
    for view in [ipv6::Ipv6View::parse(bytes), ipv6::Ipv6View::parse_quoted(bytes)].into_iter().flatten() {
        let repr = black_box(ipv6::Ipv6Repr::parse(&view));
        repr.emit(&mut [0; ipv6::HEADER_LEN]);
        if let Ok(chain) = view.walk() {
            assert!(chain.offset <= view.payload().len());
        }
    }
    if let Some((next_header, rest)) = bytes.split_first() {
        let _ = black_box(ipv6::walk(*next_header, rest));
        let _ = black_box(ipv6::skip(*next_header, rest));
    }
    let _ = black_box(ipv6::FragmentHeader::parse(bytes));
}

fn all_of_icmp(bytes: &[u8]) {
    if let Ok(view) = icmp4::Icmp4View::parse(bytes) {
        black_box((view.kind(), view.code(), view.rest_of_header(), view.quoted(), view.checksum_ok()));
        if let Ok(repr) = icmp4::Icmp4Repr::parse(&view) {
            repr.emit(&mut vec![0; repr.buffer_len()]);
        }
    }
    if let Ok(view) = icmp6::Icmp6View::parse(bytes) {
        let any = Ipv6Addr::UNSPECIFIED;
        black_box((view.kind(), view.code(), view.rest_of_header(), view.quoted(), view.is_error()));
        black_box(view.checksum_ok(any, any));
        if let Ok(repr) = icmp6::Icmp6Repr::parse(&view) {
            repr.emit(any, any, &mut vec![0; repr.buffer_len()]);
        }
        let _ = black_box(icmp6::NdRepr::parse(&view));
    }
    let options = icmp6::NdOptions::new(bytes).count();
    assert!(options <= bytes.len() / 8 + 1, "the iterator ends");
}

fn all_of_transports(bytes: &[u8]) {
    if let Ok(view) = tcp::TcpView::parse(bytes) {
        let repr = black_box(tcp::TcpRepr::parse(&view));
        repr.emit(&mut vec![0; repr.buffer_len()]);
        assert_eq!(view.header_len() + view.payload().len(), view.total_len());
        black_box((view.checksum_ok(1), view.checksum(), view.option_bytes()));
        assert!(repr.options.sack.iter().count() <= tcp::MAX_SACK_BLOCKS);
        black_box(format!("{repr:?}"));
    }
    // Longer than any header can carry: the parser itself must not rely on that.
    let options = black_box(tcp::TcpOptions::parse(bytes));
    assert!(options.buffer_len() <= tcp::MAX_OPTIONS_LEN);
    options.emit(&mut [0; tcp::MAX_OPTIONS_LEN]);
    let _ = black_box(tcp::quoted(bytes));
    if let Ok(view) = udp::UdpView::parse(bytes) {
        let repr = black_box(udp::UdpRepr::parse(&view));
        repr.emit(&mut [0; udp::HEADER_LEN]);
        assert_eq!(view.payload().len() + udp::HEADER_LEN, view.total_len());
        black_box((view.checksum_ok(1), view.checksum()));
    }
}

fn all_of_sctp(bytes: &[u8]) {
    let _ = black_box(sctp::quoted(bytes));
    if let Ok(view) = sctp::SctpView::parse(bytes) {
        black_box((sctp::SctpRepr::parse(&view), view.verify(), view.checksum()));
        all_chunks(view.chunks());
    }
    // Without a header in front, so that short inputs reach the chunks too.
    all_chunks(sctp::Chunks::new(bytes));
    all_tlvs(sctp::Tlvs::new(bytes));
}

fn all_chunks(chunks: sctp::Chunks<'_>) {
    let most = chunks.rest().len() / sctp::CHUNK_HEADER_LEN;
    assert!(chunks.count() <= most, "the iterator ends");
    for raw in chunks.flatten() {
        black_box((raw.flags(), raw.unknown()));
        let Ok(chunk) = sctp::Chunk::parse(&raw) else { continue };
        assert!(chunk.stated_len() <= raw.bytes().len() && chunk.kind() == raw.kind());
        chunk.emit(&mut vec![0; chunk.buffer_len()]);
        match chunk {
            sctp::Chunk::Init(init) | sctp::Chunk::InitAck(init) => all_tlvs(init.params),
            sctp::Chunk::Heartbeat(tlvs)
            | sctp::Chunk::HeartbeatAck(tlvs)
            | sctp::Chunk::Abort(_, tlvs)
            | sctp::Chunk::Error(tlvs)
            | sctp::Chunk::ReConfig(tlvs)
            | sctp::Chunk::Asconf(_, tlvs)
            | sctp::Chunk::AsconfAck(_, tlvs) => all_tlvs(tlvs),
            other => _ = black_box(format!("{other:?}")),
        }
    }
}

fn all_tlvs(tlvs: sctp::Tlvs<'_>) {
    let most = tlvs.bytes().len() / sctp::CHUNK_HEADER_LEN;
    assert!(tlvs.count() <= most, "the iterator ends");
    for tlv in tlvs.flatten() {
        black_box(tlv.unknown());
        if let Ok(param) = sctp::Param::parse(&tlv) {
            param.emit(&mut vec![0; param.buffer_len()]);
            black_box(format!("{param:?}"));
        }
        if let Ok(cause) = sctp::Cause::parse(&tlv) {
            cause.emit(&mut vec![0; cause.buffer_len()]);
            black_box(format!("{cause:?}"));
        }
    }
}

fn all_of_links(bytes: &[u8]) {
    if let Ok(view) = ether::EtherView::parse(bytes) {
        black_box((ether::EtherRepr::parse(&view), view.payload()));
    }
    if let Ok(view) = arp::ArpView::parse(bytes) {
        let _ = black_box(arp::ArpRepr::parse(&view));
    }
    for header in
        [vnet_hdr::VnetHdr::parse(bytes), vnet_hdr::VnetHdr::parse_mergeable(bytes)].into_iter().flatten()
    {
        let _ = black_box((header.check(bytes.len()), header.data_valid(), header.gso_kind()));
        header.emit_mergeable(&mut [0; vnet_hdr::LEN_MERGEABLE]);
    }
}

fn everything(bytes: &[u8]) {
    all_of_ipv4(bytes);
    all_of_ipv6(bytes);
    all_of_icmp(bytes);
    all_of_transports(bytes);
    all_of_sctp(bytes);
    all_of_links(bytes);
}

/// Bytes that look like lengths, kinds and versions more often than chance would have it.
fn likely() -> impl Strategy<Value = u8> {
    prop_oneof![
        0u8..12,
        prop::sample::select(&[0x45u8, 0x46, 0x60, 0x50, 0x80, 34, 43, 44, 60, 135, 255][..]),
        any::<u8>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        everything(&bytes);
    }

    #[test]
    fn likely_bytes(bytes in prop::collection::vec(likely(), 0..120)) {
        everything(&bytes);
    }
}

#[test]
fn every_length_of_every_constant() {
    for value in 0..=255 {
        for len in 0..100 {
            everything(&vec![value; len]);
        }
    }
}
