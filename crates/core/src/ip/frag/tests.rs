//! Tests: what is taken apart here is put together there, checksum and all.
use super::super::testing::{DEV, World, flat, host, ip, send_udp, udp_packet};
use super::super::{Dst, Input, Link, Outbox, OutputParams};
use crate::base::{DropWhy, FlowId, SocketId};
use crate::packet::Owner;
use core::net::SocketAddr;
use lowwater_wire::protocol;
use proptest::prelude::*;

proptest! {
    #[test]
    fn fragments_carry_the_datagram(len in 0usize..20_000, mtu in 1_280u16..1_501, v6 in any::<bool>(), backwards in any::<bool>()) {
        let mut w = World::new(3);
        let (mut a, mut b) = (host(&mut w, 1, Link::Ip), host(&mut w, 2, Link::Ip));
        a.set_mtu(DEV, mtu).expect("a device");
        let (src, dst) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
        let sent = send_udp(&mut w, &mut a, src, dst, len);
        prop_assert!(sent.dropped.is_empty());
        prop_assert!(sent.frames.iter().all(|(_, p)| p.len() <= usize::from(mtu)));
        let mut frames: Vec<_> = sent.frames.iter().map(|(_, p)| flat(p)).collect();
        if backwards {
            frames.reverse();
        }
        let mut out = Outbox::default();
        let count = frames.len();
        for (n, frame) in frames.into_iter().enumerate() {
            let got = b.input(&mut w.cx(), DEV, frame, &mut out);
            if n + 1 < count {
                prop_assert!(matches!(got, Input::Consumed));
                continue;
            }
            let Input::Deliver(i) = got else { panic!("{got:?}") };
            prop_assert_eq!((i.src, i.dst, i.protocol, i.l4_len()), (ip(src), ip(dst), protocol::UDP, len + 8));
            // Without fragments the sender leaves the checksum to its device.
            prop_assert!(count == 1 || i.checksum_ok());
            let want = udp_packet(SocketAddr::new(ip(src), 1000), SocketAddr::new(ip(dst), 2000), len).payload;
            prop_assert_eq!(i.payload(8), want);
        }
        prop_assert!(out.is_empty());
    }
}

#[test]
fn what_must_not_be_fragmented_is_given_up_with_its_owner() {
    let mut w = World::new(3);
    let mut a = host(&mut w, 1, Link::Ip);
    let (src, dst) = (ip("10.0.0.1"), ip("10.0.0.2"));
    let mut packet = udp_packet(SocketAddr::new(src, 1), SocketAddr::new(dst, 2), 3_000);
    let owner = Some(Owner::new(FlowId::of(SocketId::default()), 9));
    packet.owner = owner;
    let params = OutputParams { dont_fragment: true, ..OutputParams::new(src, dst, protocol::UDP) };
    let way = a.lookup(Some(src), dst, w.now).expect("a route");
    let mut out = Outbox::default();
    a.output(&mut w.cx(), &way, &params, packet.clone(), &mut out);
    assert!(out.frames.is_empty());
    assert!(matches!(&out.dropped[..], [(p, DropWhy::TooBig)] if p.owner == owner));
    let mut out = Outbox::default();
    let narrow = Dst { mtu: 27, ..way };
    a.output(&mut w.cx(), &narrow, &OutputParams::new(src, dst, protocol::UDP), packet.clone(), &mut out);
    assert!(out.frames.is_empty() && out.dropped.len() == 1);
    let mut out = Outbox::default();
    a.output(&mut w.cx(), &way, &OutputParams::new(src, dst, protocol::UDP), packet, &mut out);
    let charges: Vec<_> = out.frames.iter().map(|(_, p)| p.owner.is_some()).collect();
    assert_eq!(charges, [false, false, true], "the credit comes back when all have left");
}
