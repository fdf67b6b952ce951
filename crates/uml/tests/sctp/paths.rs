//! Several addresses on each side: of both families, and one that goes dark and comes back.
use crate::host::{Host, Setting, ip, ip6, with_guest, with_usrsctp};
use crate::peer::{Sums, message, plan};
use lowwater_core::base::{Duration, SocketId};
use lowwater_core::sctp::{PathState, SendInfo};

/// Waits until there are so many paths, all of which have answered.
fn all_active(host: &mut Host, id: SocketId, count: usize) {
    let there = host.until(Duration::from_secs(20), |h| {
        let paths = h.info(id).paths;
        paths.len() == count && paths.iter().all(|p| p.state == PathState::Active)
    });
    assert!(there, "{:?}", host.info(id));
}

fn first_path(host: &Host, id: SocketId) -> PathState {
    let paths = host.info(id).paths;
    paths.iter().find(|p| p.remote == ip(0, 1)).expect("the path that was opened").state
}

/// The first path goes dark for two seconds while the peer counts, and comes back.
fn to_the_peer(host: &mut Host) {
    let a = host.connect();
    all_active(host, a, 2);
    let mut sums = Sums::default();
    let mut failed = false;
    for n in 0..600 {
        host.dark = (100..300).contains(&n).then_some(0);
        let data = message(0, n, 500);
        sums.add(&data, false);
        host.send(a, &data, SendInfo::default());
        let end = host.now() + Duration::from_millis(10);
        host.until(Duration::from_millis(10), |h| h.now() >= end);
        failed |= first_path(host, a) != PathState::Active;
    }
    assert!(failed && host.dropped > 0, "the path was dark: {:?}", host.info(a));
    let back = host.until(Duration::from_secs(30), |h| first_path(h, a) == PathState::Active);
    assert!(back, "heartbeats find out: {:?}", host.info(a));
    host.settle(a, 600, &sums);
    host.closed(a);
}

/// The same while the peer sends: it goes on by its second path, and finds back.
fn from_the_peer(host: &mut Host) {
    let listener = host.listen();
    let a = host.accept(listener);
    all_active(host, a, 2);
    let mut sums = Sums::default();
    let next = |host: &mut Host, sums: &mut Sums| {
        let data = host.receive(a, Duration::from_secs(60));
        let last = data.starts_with(b"done ");
        if !last {
            sums.add(&data, true);
        }
        last
    };
    (0..100).for_each(|_| assert!(!next(host, &mut sums)));
    assert!(host.heard[0] > 0 && host.heard[1] == 0, "{:?}", host.heard);
    host.dark = Some(0);
    (0..200).for_each(|_| assert!(!next(host, &mut sums)));
    assert!(host.dropped > 0 && host.heard[1] > 0, "it went on by the other: {:?}", host.heard);
    (host.dark, host.heard) = (None, vec![0; 2]);
    while !next(host, &mut sums) {}
    assert!(host.heard[0] > 0, "it found back: {:?}", host.heard);
    host.send(a, sums.to_text().as_bytes(), SendInfo::default());
    host.closed(a);
}

const TWO: Setting = Setting { links: 2, ..Setting::new("serve 4") };
const TRICKLE: Setting = Setting { links: 2, ..Setting::new("trickle 4 10.9.0.2") };

#[test]
fn a_path_that_goes_dark_loses_nothing() {
    with_guest(TWO, to_the_peer);
}

#[test]
fn a_path_of_the_kernels_that_goes_dark_loses_nothing() {
    with_guest(TRICKLE, from_the_peer);
}

#[test]
fn a_path_to_usrsctp_that_goes_dark_loses_nothing() {
    with_usrsctp(Setting { udp: true, ..TWO }, to_the_peer);
}

#[test]
fn a_path_of_usrsctp_that_goes_dark_loses_nothing() {
    with_usrsctp(Setting { udp: true, ..TRICKLE }, from_the_peer);
}

/// One link, an address of each family on both sides; the primary path changes from one to the other under way.
#[test]
fn an_association_has_addresses_of_both_families() {
    with_guest(Setting::new("serve 6"), |host| {
        let a = host.connect_from(&[ip(0, 2), ip6(0, 2)], 0);
        all_active(host, a, 2);
        let messages = plan(2_000);
        let (first, second) = messages.split_at(1_000);
        let mut sums = Sums::default();
        for (half, remote) in [(first, ip(0, 1)), (second, ip6(0, 1))] {
            let now = host.now();
            host.stack.sctp_set_primary(now, a, remote).unwrap();
            for (word, data) in half {
                host.send_one(a, *word, data);
                sums.add(data, false);
            }
            assert!(host.info(a).paths.iter().any(|p| p.remote == remote && p.active));
        }
        host.settle(a, messages.len(), &sums);
        host.closed(a);
    });
}

/// Both sides have two addresses and the guest opens: it hears of ours by INIT ACK.
#[test]
fn a_guest_that_opens_has_two_paths_too() {
    with_guest(Setting { links: 2, ..Setting::new("call 4 10.9.0.2") }, |host| {
        let listener = host.listen();
        let a = host.accept(listener);
        all_active(host, a, 2);
        host.answer(a);
        host.closed(a);
        let b = host.accept(listener);
        host.closed(b);
    });
}
