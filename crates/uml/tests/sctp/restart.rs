//! One side forgets everything and opens again from the same port.
use crate::host::{Host, Setting, with_guest, with_usrsctp};
use crate::peer::plan;
use lowwater_core::base::Duration;
use lowwater_core::sctp::{AssocChange, Notification, Received, Subscriptions};

/// The peer sees a restart and goes on.
fn we_restart(host: &mut Host) {
    let a = host.connect_from(&[], 6_000);
    let before = host.info(a).tags;
    host.forget();
    let a = host.connect_from(&[], 6_000);
    let after = host.info(a).tags;
    assert!(before.0 != after.0 && before.1 != after.1, "{before:?} {after:?}");
    // The listener accepted one association, before the restart: the answer comes from that one.
    host.send_all(a, &plan(100));
    host.closed(a);
}

#[test]
fn our_restart_goes_on_with_the_kernels_association() {
    with_guest(Setting::new("serve 4"), we_restart);
}

#[test]
fn our_restart_goes_on_with_usrsctps_association() {
    with_usrsctp(Setting { udp: true, ..Setting::new("serve 4") }, we_restart);
}

/// The peer forgets in a way that nobody hears of, and opens again from the same port: our association goes on.
fn the_peer_restarts(host: &mut Host) {
    let listener = host.listen();
    let a = host.accept(listener);
    let now = host.now();
    let mut options = host.stack.sctp_options(a).unwrap().clone();
    options.events = Subscriptions::ASSOC;
    host.stack.sctp_set_options(now, a, options).unwrap();
    assert_eq!(host.receive(a, Duration::from_secs(20)), b"before");
    let (tags, mut told) = (host.info(a).tags, false);
    host.until(Duration::from_secs(60), |h| {
        let now = h.now();
        let note = h.stack.sctp_recv(now, a, 1 << 20);
        let restart =
            |n: &Notification| matches!(n, Notification::Assoc { change: AssocChange::Restart, .. });
        told |= matches!(&note, Ok(Some(Received::Notification(n))) if restart(n));
        told
    });
    assert!(told && host.info(a).tags != tags, "{:?}", host.info(a));
    host.answer(a);
    host.closed(a);
    assert_eq!(host.stack.counters().sctp.passive_estabs, 1, "the same association");
}

/// The kernel aborts while its link is down; usrsctp's process ends.
const RESTARTS: Setting = Setting::new("restart 4 10.9.0.2");

#[test]
fn the_kernels_restart_goes_on_with_our_association() {
    with_guest(RESTARTS, the_peer_restarts);
}

#[test]
fn the_kernels_restart_over_udp() {
    with_guest(Setting { udp: true, ..RESTARTS }, the_peer_restarts);
}

#[test]
fn usrsctps_restart_goes_on_with_our_association() {
    with_usrsctp(Setting { udp: true, ..RESTARTS }, the_peer_restarts);
}
