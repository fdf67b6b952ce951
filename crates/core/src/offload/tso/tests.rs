//! Tests: a segmented super-packet equals the packets sent singly.
use super::super::samples::{Sample, flat, tcp_packet};
use super::*;
use crate::base::{FlowId, SocketId};
use lowwater_wire::tcp::TcpFlags;
use proptest::prelude::*;

/// CWR is a bit of an ACE field, for the half of the samples that have AE.
fn repeats_cwr(s: &Sample) -> bool {
    s.flags.contains(TcpFlags::AE)
}

/// The same data sent one segment at a time by a sender that knows the rules.
fn singly(s: &Sample) -> Vec<Packet> {
    let size = usize::from(s.gso_size);
    let count = s.len.div_ceil(size);
    (0..count)
        .map(|n| {
            let mut flags = s.flags;
            if n > 0 && !repeats_cwr(s) {
                flags.remove(TcpFlags::CWR);
            }
            if n + 1 < count {
                flags.remove(TcpFlags::FIN);
                flags.remove(TcpFlags::PSH);
            }
            let one = Sample {
                flags,
                gso_size: 0,
                ident: s.ident.wrapping_add(n as u16),
                seq: s.seq.wrapping_add((n * size) as u32),
                from: n * size,
                len: size.min(s.len - n * size),
                ..s.clone()
            };
            tcp_packet(&one)
        })
        .collect()
}

fn sample() -> impl Strategy<Value = Sample> {
    (any::<bool>(), any::<u16>(), any::<u32>(), 0u16..0x200, any::<bool>(), 1usize..20_000, 1u16..3_000)
        .prop_map(|(v6, ident, seq, flags, timestamps, len, gso_size)| Sample {
            v6,
            ident,
            seq,
            flags: TcpFlags::from_bits_truncate(flags),
            timestamps: timestamps.then_some(6),
            len,
            gso_size: gso_size.max((len / 64) as u16 + 1),
            ..Sample::default()
        })
}

proptest! {
    #[test]
    fn segmenting_equals_sending_singly(s in sample(), received in any::<bool>(), fill in any::<bool>()) {
        let mut packet = tcp_packet(&s);
        packet.owner = Some(Owner::new(FlowId::of(SocketId::default()), 777));
        packet.offload.repeats_cwr = repeats_cwr(&s);
        if received {
            packet = flat(&packet);
        }
        let segments = segment(packet, 0, fill);
        let want = singly(&s);
        prop_assert_eq!(segments.len(), want.len());
        let mut charge = 0;
        for (got, mut want) in segments.zip(want) {
            if fill {
                csum::fill(&mut want, 0);
            }
            prop_assert_eq!(got.to_bytes(), want.to_bytes());
            prop_assert_eq!(got.offload, want.offload);
            prop_assert_eq!(got.at, want.at);
            charge += got.owner.map_or(0, |o| o.charge);
        }
        prop_assert_eq!(charge, 777);
    }

    #[test]
    fn hostile_bytes_neither_panic_nor_multiply(bytes in prop::collection::vec(any::<u8>(), 0..300), version in 0u8..16, size in any::<u16>(), link in 0usize..20) {
        let mut bytes = bytes;
        if let Some(first) = bytes.get_mut(link) {
            *first = version << 4 | 5;
        }
        let mut p = Packet::received(Bytes::from(bytes), Offload { gso: GsoKind::Tcp4, gso_size: size, csum: Csum::None, ..Offload::default() }, Instant::ZERO);
        let len = p.len();
        prop_assert!(segment(p.clone(), link, true).count() <= len.max(1));
        p.offload.gso = GsoKind::Tcp6;
        prop_assert!(segment(p, link, false).count() <= len.max(1));
    }
}

#[test]
fn a_link_header_goes_in_front_of_each() {
    let s = Sample { len: 250, gso_size: 100, ..Sample::default() };
    let mut p = tcp_packet(&s);
    p.head.prepend(14).copy_from_slice(b"linkheaderhere");
    let got: Vec<Packet> = segment(p, 14, true).collect();
    assert_eq!(got.len(), 3);
    for (got, mut want) in got.into_iter().zip(singly(&s)) {
        csum::fill(&mut want, 0);
        assert_eq!(&got.to_bytes()[..14], b"linkheaderhere");
        assert_eq!(got.to_bytes()[14..], want.to_bytes());
    }
}

#[test]
fn payload_is_shared() {
    let p = tcp_packet(&Sample { len: 250, gso_size: 100, ..Sample::default() });
    let range = p.payload.as_ptr_range();
    for part in segment(p, 0, true) {
        assert!(range.contains(&part.payload.as_ptr()));
    }
}
