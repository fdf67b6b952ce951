//! A driver that was held up: what arrived meanwhile is news for the timers, and round-trip times end when packets arrived.
mod support;
use lowwater_core::base::{Duration, Instant, SocketId};
use lowwater_core::device::Submit;
use lowwater_core::device::pair::Side;
use lowwater_core::packet::Packet;
use lowwater_core::tcp::SendFlags;
use std::cell::RefCell;
use std::rc::Rc;
use support::{Fate, World};

const ONE_WAY: Duration = Duration::from_millis(10);

/// A has sent ten segments; B's acknowledgements lie in A's device, each with the time of its arrival.
fn acknowledgements_wait() -> (World, SocketId, Vec<Packet>) {
    let mut world = World::new(ONE_WAY);
    let (client, _) = world.connected();
    let device = Rc::new(RefCell::new(Vec::new()));
    let shared = Rc::clone(&device);
    let start = world.now;
    world.rule = Box::new(move |from, packet, _| {
        if from == Side::A {
            return Fate::Deliver(ONE_WAY);
        }
        let mut packet = packet.clone();
        packet.at = start + 2 * ONE_WAY;
        shared.borrow_mut().push(packet);
        Fate::Lose
    });
    let now = world.now;
    assert_eq!(world.a().tcp_send(now, client, &[7; 10_000], SendFlags::default()), Ok(10_000));
    world.run(Duration::from_millis(15), |_| false);
    let packets = device.take();
    assert!(!packets.is_empty(), "B has acknowledged");
    (world, client, packets)
}

fn late(world: &World) -> Instant {
    world.now + Duration::from_secs(2)
}

fn receive_all(world: &mut World, packets: Vec<Packet>, now: Instant) {
    let dev = world.dev;
    for packet in packets {
        world.a().receive(now, dev, packet);
    }
}

#[test]
fn input_before_timers_and_nothing_was_lost() {
    let (mut world, client, packets) = acknowledgements_wait();
    let now = late(&world);
    receive_all(&mut world, packets, now);
    world.a().handle_timeout(now);
    let count = world.a().counters();
    assert_eq!(
        (count.tcp_ext.tcp_timeouts, count.tcp_ext.tcp_loss_probes, count.tcp.retrans_segs),
        (0, 0, 0)
    );
    let info = world.a().tcp_info(Instant::ZERO, client).unwrap();
    assert_eq!(info.unacked, 0);
    assert!(info.rtt < 25_000, "the stall is no part of the round trip: {} us", info.rtt);
}

#[test]
fn timers_before_input_would_take_the_stall_for_loss() {
    let (mut world, _, packets) = acknowledgements_wait();
    let (now, dev) = (late(&world), world.dev);
    world.a().handle_timeout(now);
    let sent = world.a().transmit(now, dev, 64, &mut |_: Instant, _: Packet| Submit::Completed);
    receive_all(&mut world, packets, now);
    world.a().flush(now);
    let count = world.a().counters();
    assert_eq!((sent.packets, count.tcp_ext.tcp_loss_probes, count.tcp.retrans_segs), (1, 1, 1));
}
