//! Compares this crate with three others that know the same protocols: etherparse, internet-checksum and smoltcp.
#![forbid(unsafe_code)]
use etherparse::{
    Ethernet2Header, IpNumber, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, TcpHeader, UdpHeader,
};
use lowwater_wire::{arp, checksum, ether, icmp4, icmp6, ipv4, ipv6, protocol, tcp, udp};
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire as smol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn bytes(len: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), len)
}

proptest! {
    #[test]
    fn checksum_is_that_of_internet_checksum(data in bytes(0..300), tail in bytes(0..300)) {
        prop_assert_eq!(checksum::checksum(&data).to_be_bytes(), internet_checksum::checksum(&data));
        let mut oracle = internet_checksum::Checksum::new();
        oracle.add_bytes(&data);
        oracle.add_bytes(&tail);
        prop_assert_eq!(checksum::finish(checksum::sum_parts(&[&data, &tail])).to_be_bytes(), oracle.checksum());
    }

    #[test]
    fn update_is_that_of_internet_checksum(field: u16, old: u16, new: u16, wide: (u32, u32)) {
        let oracle = internet_checksum::update(field.to_be_bytes(), &old.to_be_bytes(), &new.to_be_bytes());
        prop_assert_eq!(checksum::update(field, old, new).to_be_bytes(), oracle);
        let oracle = internet_checksum::update(field.to_be_bytes(), &wide.0.to_be_bytes(), &wide.1.to_be_bytes());
        prop_assert_eq!(checksum::update_u32(field, wide.0, wide.1).to_be_bytes(), oracle);
    }

    #[test]
    fn ether_header_is_that_of_etherparse(data in bytes(10..20)) {
        match (ether::EtherView::parse(&data), Ethernet2Header::from_slice(&data)) {
            (Ok(view), Ok((oracle, rest))) => {
                prop_assert_eq!((view.dst().0, view.src().0, view.ethertype()), (oracle.destination, oracle.source, oracle.ether_type.0));
                prop_assert_eq!(view.payload(), rest);
            }
            (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok()),
        }
    }

    #[test]
    fn ipv4_header_is_that_of_etherparse(mut data in bytes(16..80)) {
        data[0] = 0x40 | (data[0] & 0x0f);
        let len = data.len() as u16;
        data[2..4].copy_from_slice(&len.to_be_bytes());
        match (ipv4::Ipv4View::parse(&data), Ipv4Header::from_slice(&data)) {
            (Ok(view), Ok((oracle, rest))) => {
                prop_assert_eq!((view.src().octets(), view.dst().octets()), (oracle.source, oracle.destination));
                prop_assert_eq!((view.ttl(), view.ident()), (oracle.time_to_live, oracle.identification));
                prop_assert_eq!(view.tos(), oracle.dscp.value() << 2 | oracle.ecn.value());
                prop_assert_eq!((view.dont_fragment(), view.more_fragments()), (oracle.dont_fragment, oracle.more_fragments));
                prop_assert_eq!(view.fragment_offset() / 8, oracle.fragment_offset.value());
                prop_assert_eq!(view.is_fragment(), oracle.is_fragmenting_payload());
                prop_assert_eq!(IpNumber(view.protocol()), oracle.protocol);
                prop_assert_eq!(view.options(), &oracle.options[..]);
                prop_assert_eq!(view.payload(), rest);
                if view.header_len() == ipv4::HEADER_LEN {
                    let mut emitted = [0; ipv4::HEADER_LEN];
                    ipv4::Ipv4Repr::parse(&view).emit(&mut emitted);
                    let oracle = Ipv4Header { header_checksum: oracle.calc_header_checksum(), ..oracle };
                    prop_assert_eq!(&emitted[..], &oracle.to_bytes()[..]);
                }
            }
            (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok()),
        }
    }

    #[test]
    fn ipv6_header_is_that_of_etherparse(mut data in bytes(36..60)) {
        data[0] = 0x60 | (data[0] & 0x0f);
        let len = data.len().saturating_sub(40) as u16;
        data[4..6].copy_from_slice(&len.to_be_bytes());
        match (ipv6::Ipv6View::parse(&data), Ipv6Header::from_slice(&data)) {
            (Ok(view), Ok((oracle, _))) => {
                prop_assert_eq!((view.src().octets(), view.dst().octets()), (oracle.source, oracle.destination));
                prop_assert_eq!((view.traffic_class(), view.flow_label()), (oracle.traffic_class, oracle.flow_label.value()));
                prop_assert_eq!((view.hop_limit(), IpNumber(view.next_header())), (oracle.hop_limit, oracle.next_header));
                let mut emitted = [0; ipv6::HEADER_LEN];
                ipv6::Ipv6Repr::parse(&view).emit(&mut emitted);
                prop_assert_eq!(emitted, oracle.to_bytes());
            }
            (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok()),
        }
    }

    #[test]
    fn fragment_header_is_that_of_etherparse(data: [u8; 8]) {
        let ours = ipv6::FragmentHeader::parse(&data).unwrap();
        let (oracle, _) = Ipv6FragmentHeader::from_slice(&data).unwrap();
        prop_assert_eq!((ours.offset / 8, ours.more, ours.ident), (oracle.fragment_offset.value(), oracle.more_fragments, oracle.identification));
        let mut emitted = [0; 8];
        ours.emit(&mut emitted);
        prop_assert_eq!(emitted, oracle.to_bytes());
    }

    #[test]
    fn udp_is_that_of_etherparse(src: Ipv4Addr, dst: Ipv4Addr, src6: Ipv6Addr, dst6: Ipv6Addr, ports: (u16, u16), payload in bytes(0..90)) {
        let repr = udp::UdpRepr { src_port: ports.0, dst_port: ports.1, payload_len: payload.len() as u16 };
        let mut emitted = [0; 8];
        repr.emit(&mut emitted);
        let len = 8 + payload.len();
        udp::fill_checksum(&mut emitted, checksum::pseudo_v4(src, dst, protocol::UDP, len), &[&payload]);
        let oracle = || UdpHeader { source_port: ports.0, destination_port: ports.1, length: len as u16, checksum: 0 };
        let field = oracle().calc_checksum_ipv4_raw(src.octets(), dst.octets(), &payload).unwrap();
        prop_assert_eq!(emitted, UdpHeader { checksum: field, ..oracle() }.to_bytes());
        udp::fill_checksum(&mut emitted, checksum::pseudo_v6(src6, dst6, protocol::UDP, len), &[&payload]);
        let field = oracle().calc_checksum_ipv6_raw(src6.octets(), dst6.octets(), &payload).unwrap();
        prop_assert_eq!(emitted, UdpHeader { checksum: field, ..oracle() }.to_bytes());
    }

    #[test]
    fn tcp_header_is_that_of_etherparse(mut data in bytes(16..90), src: Ipv4Addr, dst: Ipv4Addr, src6: Ipv6Addr, dst6: Ipv6Addr) {
        data[12] = (data[12] & 0x01) | ((data[12] & 0x70) + 0x40);
        match (tcp::TcpView::parse(&data), TcpHeader::from_slice(&data)) {
            (Ok(view), Ok((oracle, rest))) => {
                prop_assert_eq!((view.src_port(), view.dst_port()), (oracle.source_port, oracle.destination_port));
                prop_assert_eq!((view.seq(), view.ack()), (oracle.sequence_number, oracle.acknowledgment_number));
                prop_assert_eq!((view.window(), view.urgent()), (oracle.window_size, oracle.urgent_pointer));
                let bits = [oracle.fin, oracle.syn, oracle.rst, oracle.psh, oracle.ack, oracle.urg, oracle.ece, oracle.cwr, oracle.ns];
                let bits = bits.iter().rev().fold(0, |all, bit| all << 1 | u16::from(*bit));
                prop_assert_eq!(view.flags().bits(), bits);
                prop_assert_eq!(view.option_bytes(), oracle.options.as_slice());
                prop_assert_eq!(view.payload(), rest);
                let field4 = oracle.calc_checksum_ipv4_raw(src.octets(), dst.octets(), rest).unwrap();
                let field6 = oracle.calc_checksum_ipv6_raw(src6.octets(), dst6.octets(), rest).unwrap();
                let (len, header_len) = (data.len(), view.header_len());
                let (header, payload) = data.split_at_mut(header_len);
                tcp::fill_checksum(header, checksum::pseudo_v4(src, dst, protocol::TCP, len), &[payload]);
                prop_assert_eq!(&header[16..18], &field4.to_be_bytes());
                tcp::fill_checksum(header, checksum::pseudo_v6(src6, dst6, protocol::TCP, len), &[payload]);
                prop_assert_eq!(&header[16..18], &field6.to_be_bytes());
            }
            (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok()),
        }
    }
}

/// Reads options with smoltcp, which keeps three SACK blocks and knows no Fast Open.
fn options_by_smoltcp(mut bytes: &[u8]) -> tcp::TcpOptions {
    let mut options = tcp::TcpOptions::EMPTY;
    while !bytes.is_empty() {
        let (rest, option) = smol::TcpOption::parse(bytes).expect("what we write is legal");
        bytes = rest;
        match option {
            smol::TcpOption::EndOfList => break,
            smol::TcpOption::NoOperation => {}
            smol::TcpOption::MaxSegmentSize(mss) => options.mss = Some(mss),
            smol::TcpOption::WindowScale(shift) => options.window_scale = Some(shift),
            smol::TcpOption::SackPermitted => options.sack_permitted = true,
            smol::TcpOption::SackRange(blocks) => options.sack = blocks.into_iter().flatten().collect(),
            smol::TcpOption::TimeStamp { tsval, tsecr } => {
                options.timestamps = Some(tcp::Timestamps { value: tsval, echo: tsecr });
            }
            smol::TcpOption::Unknown { kind, data } => {
                assert_eq!(kind, 34);
                options.fastopen = tcp::FastOpenCookie::new(data);
            }
        }
    }
    options
}

prop_compose! {
    fn options()(mss in prop::option::of(1u16..), window_scale in prop::option::of(0u8..=14), sack_permitted: bool, timestamps: Option<(u32, u32)>, sack in prop::collection::vec(any::<(u32, u32)>(), 0..=2)) -> tcp::TcpOptions {
        let timestamps = timestamps.map(|(value, echo)| tcp::Timestamps { value, echo });
        tcp::TcpOptions { mss, window_scale, sack_permitted, timestamps, sack: sack.into_iter().collect(), fastopen: None, signed: None }
    }
}

proptest! {
    #[test]
    fn smoltcp_reads_the_options_we_write(options in options(), cookie: Option<[u8; 4]>) {
        let options = tcp::TcpOptions { fastopen: cookie.and_then(|bytes| tcp::FastOpenCookie::new(&bytes)), ..options };
        prop_assume!(options.sack_room() == options.sack.len());
        let mut bytes = vec![0; options.buffer_len()];
        options.emit(&mut bytes);
        let read = options_by_smoltcp(&bytes);
        prop_assert!(read == options || read == tcp::TcpOptions { fastopen: None, ..options }, "{read:?} {options:?}");
    }

    #[test]
    fn we_read_the_segments_that_smoltcp_writes(options in options(), ports in (1u16.., 1u16..), seq: i32, ack: Option<i32>, window_len: u16, src: Ipv4Addr, dst: Ipv4Addr, payload in bytes(0..40)) {
        let repr = smol::TcpRepr {
            src_port: ports.0,
            dst_port: ports.1,
            control: smol::TcpControl::Syn,
            seq_number: smol::TcpSeqNumber(seq),
            ack_number: ack.map(smol::TcpSeqNumber),
            window_len,
            window_scale: options.window_scale,
            max_seg_size: options.mss,
            sack_permitted: options.sack_permitted,
            sack_ranges: [None; 3],
            timestamp: options.timestamps.map(|both| smol::TcpTimestampRepr::new(both.value, both.echo)),
            payload: &payload,
        };
        let mut bytes = vec![0; repr.buffer_len()];
        let (from, to) = (IpAddr::V4(src).into(), IpAddr::V4(dst).into());
        repr.emit(&mut smol::TcpPacket::new_unchecked(&mut bytes[..]), &from, &to, &ChecksumCapabilities::default());
        let view = tcp::TcpView::parse(&bytes).unwrap();
        prop_assert!(view.checksum_ok(checksum::pseudo_v4(src, dst, protocol::TCP, bytes.len())));
        let read = tcp::TcpRepr::parse(&view);
        prop_assert_eq!(read.options, tcp::TcpOptions { sack: tcp::SackBlocks::EMPTY, ..options });
        prop_assert_eq!((read.src_port, read.dst_port, read.seq as i32, read.window), (ports.0, ports.1, seq, window_len));
        prop_assert_eq!(read.flags.ack().then_some(read.ack as i32), ack);
        prop_assert_eq!(view.payload(), &payload[..]);
    }

    #[test]
    fn arp_is_that_of_smoltcp(request: bool, macs: ([u8; 6], [u8; 6]), ips: (Ipv4Addr, Ipv4Addr)) {
        let repr = smol::ArpRepr::EthernetIpv4 {
            operation: if request { smol::ArpOperation::Request } else { smol::ArpOperation::Reply },
            source_hardware_addr: smol::EthernetAddress(macs.0),
            source_protocol_addr: ips.0,
            target_hardware_addr: smol::EthernetAddress(macs.1),
            target_protocol_addr: ips.1,
        };
        let mut bytes = [0; arp::MESSAGE_LEN];
        repr.emit(&mut smol::ArpPacket::new_unchecked(&mut bytes[..]));
        let ours = arp::ArpRepr {
            operation: if request { arp::ArpOperation::Request } else { arp::ArpOperation::Reply },
            sender_mac: ether::EtherAddr(macs.0),
            sender_ip: ips.0,
            target_mac: ether::EtherAddr(macs.1),
            target_ip: ips.1,
        };
        prop_assert_eq!(arp::ArpRepr::parse(&arp::ArpView::parse(&bytes).unwrap()), Ok(ours));
        let mut again = [0; arp::MESSAGE_LEN];
        ours.emit(&mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn icmp4_is_that_of_smoltcp(ident: u16, seq: u16, ips: (Ipv4Addr, Ipv4Addr), data in bytes(8..60)) {
        let header = smol::Ipv4Repr { src_addr: ips.0, dst_addr: ips.1, next_header: smol::IpProtocol::Tcp, payload_len: data.len(), hop_limit: 64 };
        let mut quoted = vec![0; 20];
        header.emit(&mut smol::Ipv4Packet::new_unchecked(&mut quoted[..]), &ChecksumCapabilities::default());
        quoted.extend_from_slice(&data);
        let (data, quoted) = (&data[..], &quoted[..]);
        let cases = [
            (smol::Icmpv4Repr::EchoRequest { ident, seq_no: seq, data }, icmp4::Icmp4Repr::EchoRequest { ident, seq, data }),
            (smol::Icmpv4Repr::EchoReply { ident, seq_no: seq, data }, icmp4::Icmp4Repr::EchoReply { ident, seq, data }),
            (
                smol::Icmpv4Repr::DstUnreachable { reason: smol::Icmpv4DstUnreachable::PortUnreachable, header, data },
                icmp4::Icmp4Repr::Unreachable { code: icmp4::PORT_UNREACHABLE, mtu: 0, quoted },
            ),
            (
                smol::Icmpv4Repr::TimeExceeded { reason: smol::Icmpv4TimeExceeded::FragExpired, header, data },
                icmp4::Icmp4Repr::TimeExceeded { code: icmp4::REASSEMBLY_EXCEEDED, quoted },
            ),
        ];
        for (theirs, ours) in cases {
            let mut bytes = vec![0; theirs.buffer_len()];
            theirs.emit(&mut smol::Icmpv4Packet::new_unchecked(&mut bytes[..]), &ChecksumCapabilities::default());
            let view = icmp4::Icmp4View::parse(&bytes).unwrap();
            prop_assert!(view.checksum_ok());
            prop_assert_eq!(icmp4::Icmp4Repr::parse(&view), Ok(ours));
            let mut again = vec![0; ours.buffer_len()];
            ours.emit(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn icmp6_is_that_of_smoltcp(word: u32, ips: (Ipv6Addr, Ipv6Addr), data in bytes(8..60)) {
        let header = smol::Ipv6Repr { src_addr: ips.0, dst_addr: ips.1, next_header: smol::IpProtocol::Tcp, payload_len: data.len(), hop_limit: 64 };
        let mut quoted = vec![0; 40];
        header.emit(&mut smol::Ipv6Packet::new_unchecked(&mut quoted[..]));
        quoted.extend_from_slice(&data);
        let (data, quoted) = (&data[..], &quoted[..]);
        let (ident, seq) = ((word >> 16) as u16, word as u16);
        let cases = [
            (smol::Icmpv6Repr::EchoRequest { ident, seq_no: seq, data }, icmp6::Icmp6Repr::EchoRequest { ident, seq, data }),
            (smol::Icmpv6Repr::EchoReply { ident, seq_no: seq, data }, icmp6::Icmp6Repr::EchoReply { ident, seq, data }),
            (
                smol::Icmpv6Repr::DstUnreachable { reason: smol::Icmpv6DstUnreachable::PortUnreachable, header, data },
                icmp6::Icmp6Repr::Unreachable { code: icmp6::PORT_UNREACHABLE, quoted },
            ),
            (smol::Icmpv6Repr::PktTooBig { mtu: word, header, data }, icmp6::Icmp6Repr::PacketTooBig { mtu: word, quoted }),
            (
                smol::Icmpv6Repr::TimeExceeded { reason: smol::Icmpv6TimeExceeded::HopLimitExceeded, header, data },
                icmp6::Icmp6Repr::TimeExceeded { code: icmp6::HOP_LIMIT_EXCEEDED, quoted },
            ),
            (
                smol::Icmpv6Repr::ParamProblem { reason: smol::Icmpv6ParamProblem::UnrecognizedNxtHdr, pointer: word, header, data },
                icmp6::Icmp6Repr::ParameterProblem { code: icmp6::UNRECOGNIZED_NEXT_HEADER, pointer: word, quoted },
            ),
        ];
        for (theirs, ours) in cases {
            agree(&theirs, &ours, ips)?;
        }
    }

    #[test]
    fn neighbour_discovery_is_that_of_smoltcp(ips in (any::<Ipv6Addr>(), any::<Ipv6Addr>()), target in any::<Ipv6Addr>().prop_filter("no group", |target| !target.is_multicast()), mac: Option<[u8; 6]>, bits: [bool; 5], times: (u16, u32, u32), mtu: Option<u32>, prefix_len in 0u8..=128) {
        let lladdr = mac.map(|mac| smol::RawHardwareAddress::from(smol::EthernetAddress(mac)));
        let link = mac.map(ether::EtherAddr);
        let mut flags = smol::NdiscNeighborFlags::empty();
        flags.set(smol::NdiscNeighborFlags::ROUTER, bits[0]);
        flags.set(smol::NdiscNeighborFlags::SOLICITED, bits[1]);
        flags.set(smol::NdiscNeighborFlags::OVERRIDE, bits[2]);
        let mut router = smol::NdiscRouterFlags::empty();
        router.set(smol::NdiscRouterFlags::MANAGED, bits[3]);
        router.set(smol::NdiscRouterFlags::OTHER, bits[4]);
        let mut prefix_flags = smol::NdiscPrefixInfoFlags::empty();
        prefix_flags.set(smol::NdiscPrefixInfoFlags::ON_LINK, bits[0]);
        prefix_flags.set(smol::NdiscPrefixInfoFlags::ADDRCONF, bits[1]);
        let seconds = |seconds: u32| smoltcp::time::Duration::from_secs(seconds.into());
        let prefix_info = smol::NdiscPrefixInformation {
            prefix_len,
            flags: prefix_flags,
            valid_lifetime: seconds(times.1),
            preferred_lifetime: seconds(times.2),
            prefix: target,
        };
        let cases = [
            (smol::NdiscRepr::RouterSolicit { lladdr }, icmp6::NdRepr::RouterSolicit { source_link: link }),
            (smol::NdiscRepr::NeighborSolicit { target_addr: target, lladdr }, icmp6::NdRepr::NeighbourSolicit { target, source_link: link }),
            (
                smol::NdiscRepr::NeighborAdvert { flags, target_addr: target, lladdr },
                icmp6::NdRepr::NeighbourAdvert { router: bits[0], solicited: bits[1], override_cached: bits[2], target, target_link: link },
            ),
            (
                smol::NdiscRepr::RouterAdvert {
                    hop_limit: 64,
                    flags: router,
                    router_lifetime: seconds(times.0.into()),
                    reachable_time: smoltcp::time::Duration::from_millis(times.1.into()),
                    retrans_time: smoltcp::time::Duration::from_millis(times.2.into()),
                    lladdr,
                    mtu,
                    prefix_info: Some(prefix_info),
                },
                icmp6::NdRepr::RouterAdvert(icmp6::RouterAdvert {
                    hop_limit: 64,
                    managed: bits[3],
                    other_config: bits[4],
                    router_lifetime: times.0,
                    reachable_time: times.1,
                    retrans_timer: times.2,
                    source_link: link,
                    mtu,
                    prefix: Some(icmp6::PrefixInfo {
                        prefix: target,
                        prefix_len,
                        on_link: bits[0],
                        autonomous: bits[1],
                        valid_lifetime: times.1,
                        preferred_lifetime: times.2,
                    }),
                }),
            ),
        ];
        for (theirs, ours) in cases {
            agree(&smol::Icmpv6Repr::Ndisc(theirs), &icmp6::Icmp6Repr::Nd(ours), ips)?;
        }
    }
}

/// Both write the same bytes, and we read them back.
fn agree(
    theirs: &smol::Icmpv6Repr<'_>,
    ours: &icmp6::Icmp6Repr<'_>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
) -> Result<(), TestCaseError> {
    let mut bytes = vec![0; theirs.buffer_len()];
    theirs.emit(
        &src,
        &dst,
        &mut smol::Icmpv6Packet::new_unchecked(&mut bytes[..]),
        &ChecksumCapabilities::default(),
    );
    let view = icmp6::Icmp6View::parse(&bytes).unwrap();
    prop_assert!(view.checksum_ok(src, dst));
    prop_assert_eq!(icmp6::Icmp6Repr::parse(&view), Ok(*ours));
    let mut again = vec![0; ours.buffer_len()];
    ours.emit(src, dst, &mut again);
    prop_assert_eq!(again, bytes);
    Ok(())
}
