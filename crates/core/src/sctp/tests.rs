//! One association by itself, in a state that takes long to come by.
use super::handshake::init::Addresses;
use super::outstanding::{Chunk, MISSING_MAX, Mark};
use super::pending::Pending;
use super::*;
use crate::base::testing::World;
use crate::base::{Carrier, Instant, Pressure, Sysctl};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::sctp::{Chunk as Wire, DataFlags, DataRepr};

fn now() -> Instant {
    Instant::from_millis(1_000)
}

fn ip(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

/// An association with so many paths, all of them confirmed.
fn up(world: &mut World, paths: u8) -> Assoc {
    let remotes: Addresses = (1..=paths).map(ip).collect();
    let locals: Addresses = [ip(99)].into_iter().collect();
    let options = SctpOptions { nodelay: true, ..SctpOptions::new(&Sysctl::default()) };
    let setup = Setup { ports: (1, 2), remotes, locals, carrier: Carrier::Ip, options };
    let mut cx = world.cx(now());
    let mut assoc = Assoc::connect(&mut cx, setup);
    for (_, path) in assoc.paths.iter_mut() {
        path.set_route(ip(99), 1_500);
    }
    assoc.pending.clear(Pending::INIT);
    assoc.set_state(State::CookieEchoed);
    assoc.establish(&mut cx);
    (assoc.id.tags.1, assoc.tx.peer_rwnd, assoc.tx.streams) = (9, 1 << 20, 10);
    assoc
}

/// A chunk that has left by this path and was lost: by SACKs, or by a timer.
fn lose(assoc: &mut Assoc, path: PathId, missed: bool) {
    let tsn = assoc.tx.out.push(Chunk {
        data: Bytes::from_static(&[7; 10]),
        sent_at: now(),
        ppid: 0,
        context: 0,
        stream: 0,
        ssn: 0,
        flags: DataFlags::WHOLE,
        path,
        sends: 1,
        missing: if missed { MISSING_MAX } else { 0 },
        mark: Mark::InFlight,
    });
    assert!(assoc.tx.out.lose(tsn).is_some());
}

/// The device of this path takes nothing.
fn fill(assoc: &mut Assoc, path: PathId) {
    let credit = &mut assoc.paths.get_mut(path).flow.credit;
    credit.charge(1 << 30);
    credit.throttle();
}

/// Rule 3 of section 7.2.4 lets one packet of retransmissions leave, not one of new data by another path.
#[test]
fn the_permission_to_retransmit_is_not_spent_by_new_data() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 2);
    // One alone could go whatever the device says.
    for _ in 0..2 {
        lose(&mut assoc, 0, true);
    }
    fill(&mut assoc, 0);
    assoc.tx.fast = true;
    let mut cx = world.cx(now());
    let info = SendInfo { to: Some(ip(2)), ..SendInfo::default() };
    assoc.send(&mut cx, Bytes::from_static(b"new"), info).unwrap();
    let out = assoc.output(&mut cx).expect("it goes by the other path");
    assert_eq!((out.path, assoc.tx.out.lost(), assoc.tx.fast), (1, 2, true));
    // The device takes something again.
    assoc.paths.refund(0, 1 << 30);
    let out = assoc.output(&mut cx).expect("what was lost goes again");
    assert_eq!((out.path, assoc.tx.out.lost(), assoc.tx.fast), (0, 0, false));
}

/// Packet after packet with a message each.
fn receive(assoc: &mut Assoc, world: &mut World, messages: u32, len: usize) {
    let first = assoc.rx.map.cum().wire().wrapping_add(1);
    for n in 0..messages {
        let tsn = first.wrapping_add(n);
        let header = DataRepr { flags: DataFlags::WHOLE, tsn, sid: 0, ssn: n as u16, ppid: 0 };
        let chunk = Wire::Data(header, &vec![n as u8; len]);
        let mut chunks = vec![0; chunk.buffer_len()];
        chunk.emit(&mut chunks);
        let buffer = Bytes::from(chunks);
        let (vtag, chunks) = (assoc.id.tags.0, &buffer[..]);
        let inbound = Inbound { from: ip(1), to: ip(99), vtag, chunks, buffer: &buffer, ce: false, encap: 0 };
        assoc.input(&mut world.cx(now()), &inbound).unwrap();
    }
}

/// While memory is exhausted a SACK offers the least buffer, however much was read: one that says the same again is not sent.
#[test]
fn reading_from_a_window_that_cannot_open_says_nothing() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    receive(&mut assoc, &mut world, 100, 1_000);
    let mut cx = world.cx(now());
    cx.pressure = Pressure::Exhausted;
    assert!(assoc.output_sack(&mut cx).is_some());
    assert_eq!(assoc.rx.advertised, 0);
    let mut sacks = 0;
    for _ in 0..100 {
        let mut cx = world.cx(now());
        cx.pressure = Pressure::Exhausted;
        assert!(matches!(assoc.recv(&mut cx, 1 << 20), Ok(Some(_))));
        sacks += usize::from(assoc.output_sack(&mut cx).is_some());
    }
    assert!((1..=3).contains(&sacks), "{sacks}");
    assert_eq!(assoc.rx.advertised, Sysctl::default().tcp_rmem.min);
}
