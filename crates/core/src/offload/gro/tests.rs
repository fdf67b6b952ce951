//! Tests: what was merged comes apart again, byte for byte; what must not merge does not.
use super::super::samples::{Sample, flat, tcp_packet};
use super::super::segment;
use super::*;
use crate::base::Instant;
use proptest::prelude::*;

fn run(packets: Vec<Packet>) -> Vec<Coalesced> {
    let (mut gro, mut out) = (Gro::default(), Vec::new());
    for p in packets {
        gro.receive(p, &mut out);
        assert!(gro.held.len() <= GRO_FLOWS_MAX);
    }
    gro.flush(&mut out);
    out
}

/// A packet with complete checksum as a device delivers it.
fn received(s: &Sample) -> Packet {
    let mut p = tcp_packet(s);
    csum::fill(&mut p, 0);
    flat(&p)
}

fn sample() -> impl Strategy<Value = Sample> {
    let push = any::<bool>();
    (any::<bool>(), any::<u16>(), any::<u32>(), push, any::<bool>(), 1usize..20_000, 400u16..3_000).prop_map(
        |(v6, ident, seq, push, timestamps, len, gso_size)| Sample {
            v6,
            ident,
            seq,
            flags: if push { TcpFlags::ACK | TcpFlags::PSH } else { TcpFlags::ACK },
            timestamps: timestamps.then_some(6),
            len,
            gso_size,
            ..Sample::default()
        },
    )
}

proptest! {
    #[test]
    fn coalescing_undoes_segmentation(s in sample(), split in any::<bool>()) {
        let whole = tcp_packet(&s);
        let mut parts: Vec<Packet> = segment(whole.clone(), 0, true).collect();
        if !split {
            parts = parts.iter().map(flat).collect();
        }
        let singles: Vec<Bytes> = parts.iter().map(Packet::to_bytes).collect();
        let got = run(parts);
        prop_assert_eq!(got.len(), 1);
        prop_assert_eq!(got[0].segments(), singles.len());
        let merged = got.into_iter().next().expect("one").into_packet();
        if singles.len() > 1 {
            prop_assert_eq!(merged.to_bytes(), whole.to_bytes());
        }
        let again: Vec<Bytes> = segment(merged, 0, true).map(|p| p.to_bytes()).collect();
        prop_assert_eq!(again, singles);
    }

    /// Any stream of segments of a few flows: nothing lost, invented, changed, or reordered within a flow.
    #[test]
    fn any_stream_comes_apart_again(steps in prop::collection::vec((0u16..3, 0usize..5, 0u16..16, 0u32..8), 0..60)) {
        let mut next = [Sample::default(), Sample::default(), Sample { v6: true, ..Sample::default() }];
        let (mut input, mut packets) = (Vec::new(), Vec::new());
        for (flow, len, odd, skip) in steps {
            let s = &mut next[usize::from(flow)];
            s.port = 1000 + flow;
            s.len = [100, 100, 100, 99, 0][len];
            s.flags = match odd {
                0 => TcpFlags::ACK | TcpFlags::PSH,
                1 => TcpFlags::ACK | TcpFlags::FIN,
                2 => TcpFlags::ACK | TcpFlags::CWR,
                3 => TcpFlags::ACK | TcpFlags::ECE,
                _ => TcpFlags::ACK,
            };
            s.timestamps = if odd == 4 { Some(9) } else { Some(8) };
            s.tos = if odd == 5 { 3 } else { 2 };
            s.ack += u32::from(odd == 6);
            s.window += u16::from(odd == 8);
            s.ident = s.ident.wrapping_add(u16::from(odd != 7));
            s.seq = s.seq.wrapping_add(u32::from(skip == 0));
            packets.push(received(s));
            input.push((flow, packets[packets.len() - 1].to_bytes()));
            s.seq = s.seq.wrapping_add(s.len as u32);
        }
        let mut output = Vec::new();
        for c in run(packets) {
            prop_assert!(c.segments() <= GRO_SEGMENTS_MAX);
            let fixed = c.fixed_id;
            let p = Parsed::of(&c.packet).expect("TCP");
            let (flow, first) = (p.ports.0 - 1000, c.segments() == 1);
            if fixed || first {
                // Segmentation numbers consecutively, so compare payloads only.
                output.extend(c.more.iter().fold(vec![(flow, c.packet.to_bytes())], |mut v, m| { v.push((flow, m.clone())); v }));
            } else {
                output.extend(segment(c.into_packet(), 0, true).map(|p| (flow, p.to_bytes())));
            }
        }
        for flow in 0..3 {
            let pick = |v: &[(u16, Bytes)]| -> Vec<Bytes> { v.iter().filter(|x| x.0 == flow).map(|x| x.1.clone()).collect() };
            let (want, got) = (pick(&input), pick(&output));
            prop_assert_eq!(want.len(), got.len());
            for (w, g) in want.iter().zip(&got) {
                prop_assert!(w.ends_with(g), "{:?} {:?}", w, g);
            }
        }
    }

    #[test]
    fn hostile_bytes_pass_unchanged(list in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..120)), 0..10)) {
        let packets: Vec<Packet> = list.iter().map(|(v6, bytes)| {
            let mut bytes = bytes.clone();
            if bytes.len() > 40 {
                (bytes[0], bytes[if *v6 { 6 } else { 9 }]) = (if *v6 { 0x60 } else { 0x45 }, 6);
            }
            Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO)
        }).collect();
        let want: usize = packets.iter().map(Packet::len).sum();
        let got: usize = run(packets).into_iter().map(|c| c.packet.len() + c.more_len()).sum();
        prop_assert_eq!(want, got);
    }
}

#[test]
fn a_pure_ack_is_never_delayed_and_never_overtakes_its_flow() {
    let (mut gro, mut out) = (Gro::default(), Vec::new());
    let data = Sample::default();
    gro.receive(received(&data), &mut out);
    gro.receive(received(&Sample { port: 1, len: 0, ..data }), &mut out);
    assert_eq!(out.len(), 1, "another flow's ACK passes");
    gro.receive(received(&Sample { len: 0, seq: data.seq + 100, ..data }), &mut out);
    assert_eq!(out.len(), 3);
    assert_eq!((out[1].packet.len(), out[2].packet.len()), (152, 52));
}

#[test]
fn a_bad_checksum_is_not_merged() {
    let first = Sample::default();
    let second = received(&Sample { seq: first.seq + 100, ident: 78, ..first });
    let mut bytes = second.payload.to_vec();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let out = run(vec![received(&first), Packet { payload: Bytes::from(bytes), ..second.clone() }]);
    assert_eq!((out.len(), out[1].packet.offload.csum), (2, Csum::None));
    let out = run(vec![received(&first), second]);
    assert_eq!((out.len(), out[0].packet.offload.csum), (1, Csum::Valid));
}

#[test]
fn the_table_gives_up_its_oldest_flow() {
    let packets = (0..10).map(|port| received(&Sample { port, ..Sample::default() })).collect();
    let ports: Vec<u16> = run(packets).iter().map(|c| Parsed::of(&c.packet).expect("TCP").ports.0).collect();
    assert_eq!(ports, (0..10).collect::<Vec<_>>());
}

#[test]
fn lists_stay_short_and_packets_below_64k() {
    let one = |n: usize, len: usize| {
        received(&Sample { len, ident: n as u16, seq: (n * len) as u32, ..Sample::default() })
    };
    let tiny = run((0..100).map(|n| one(n, 1)).collect());
    assert_eq!(tiny.iter().map(Coalesced::segments).collect::<Vec<_>>(), [64, 36]);
    let large = run((0..12).map(|n| one(n, 8_000)).collect());
    assert_eq!(large.iter().map(Coalesced::segments).collect::<Vec<_>>(), [8, 4]);
}

/// Who passes by is given back at once, as it is, by a table in which nothing waits.
#[test]
fn what_no_neighbour_could_join_passes_by_an_empty_table() {
    let push = TcpFlags::ACK | TcpFlags::PSH;
    for v6 in [false, true] {
        for timestamps in [None, Some(1)] {
            let of =
                |flags, len, gso_size| Sample { v6, timestamps, flags, len, gso_size, ..Sample::default() };
            let cases = [
                (of(TcpFlags::ACK, 0, 0), true),
                (of(push, 100, 0), true),
                (of(TcpFlags::ACK, 3_000, 1_000), true),
                (of(TcpFlags::ACK, 100, 0), false),
                (of(TcpFlags::ACK, 1, 0), false),
            ];
            for (sample, passes) in cases {
                let mut apart = tcp_packet(&sample);
                csum::fill(&mut apart, 0);
                let mut broken = flat(&apart).payload.to_vec();
                *broken.last_mut().expect("a header at least") ^= 1;
                let broken = Packet { payload: broken.into(), ..flat(&apart) };
                for packet in [flat(&apart), apart, broken] {
                    let (mut gro, mut out) = (Gro::default(), Vec::new());
                    assert_eq!(gro.passes_by(&packet), passes, "{sample:?}");
                    gro.receive(packet.clone(), &mut out);
                    if passes {
                        assert_eq!((out.len(), gro.held.len()), (1, 0), "{sample:?}");
                        assert_eq!(out[0].packet.to_bytes(), packet.to_bytes());
                    }
                }
            }
            // Behind what waits nothing passes.
            let (mut gro, mut out) = (Gro::default(), Vec::new());
            gro.receive(received(&of(TcpFlags::ACK, 100, 0)), &mut out);
            assert!(out.is_empty() && !gro.passes_by(&received(&of(TcpFlags::ACK, 0, 0))));
        }
    }
}

/// The ACE field of segments in one is one field (RFC 9768 section 3.2.2).
#[test]
fn only_segments_of_one_ace_field_join() {
    let fields = [TcpFlags::EMPTY, TcpFlags::ECE, TcpFlags::CWR, TcpFlags::AE]
        .map(|bits| [bits, bits | TcpFlags::AE | TcpFlags::CWR])
        .concat();
    for one in &fields {
        for other in &fields {
            let first = Sample { flags: TcpFlags::ACK | *one, ..Sample::default() };
            let second = Sample { flags: TcpFlags::ACK | *other, seq: first.seq + 100, ident: 78, ..first };
            let out = run(vec![received(&first), received(&second)]);
            let joins = one.bits() == other.bits();
            assert_eq!(out.len(), if joins { 1 } else { 2 }, "{one:?} {other:?}");
            if joins {
                let merged = out.into_iter().next().expect("one").into_packet();
                let again: Vec<Bytes> = segment(merged, 0, true).map(|p| p.to_bytes()).collect();
                assert_eq!(again, [received(&first).to_bytes(), received(&second).to_bytes()]);
            }
        }
    }
}
