//! What owners are told, when, and how often.
use crate::world::*;
use bytes::Bytes;
use lowwater_core::base::{Duration, Error};
use lowwater_core::sctp::{
    AssocChange, Notification, Received, Reliability, SctpOptions, SendFailed, SendInfo, Subscriptions,
};
use lowwater_wire::sctp::chunk_kind as kind;

/// The notifications that can be read now.
fn notes(w: &mut World, host: usize, id: lowwater_core::base::SocketId) -> Vec<Notification> {
    let items = w.read(host, id).into_iter();
    items.filter_map(|item| if let Received::Notification(note) = item { Some(note) } else { None }).collect()
}

fn brief(ms: u64) -> SendInfo {
    SendInfo { reliability: Reliability::Lifetime(Duration::from_millis(ms)), ..SendInfo::default() }
}

#[test]
fn what_was_told_during_the_handshake_is_still_there_after_it() {
    let mut w = World::new();
    let options = SctpOptions { events: Subscriptions::SEND_FAILED, ..w.options() };
    w.rule = Box::new(|c| Fate::Deliver(ms(if c.from == B { 190 } else { 10 })));
    w.listen(options.clone());
    let a = w.connect(options);
    w.send(A, a, b"too late", brief(100));
    w.pass(Duration::from_secs(2));
    let told = notes(&mut w, A, a);
    assert!(
        matches!(&told[..], [Notification::SendFailed(SendFailed { sent: false, data, .. })] if data == "too late"),
        "{told:?}"
    );
}

#[test]
fn the_adaptation_layer_is_told_after_the_association_is_up() {
    let mut w = World::new();
    let events = Subscriptions::ASSOC.with(Subscriptions::ADAPTATION);
    let options = SctpOptions { events, adaptation: Some(7), ..w.options() };
    let (a, b) = w.associated(options.clone(), options.clone());
    for (host, id) in [(A, a), (B, b)] {
        let told = notes(&mut w, host, id);
        let up = |note: &Notification| matches!(note, Notification::Assoc { change: AssocChange::Up, .. });
        assert!(
            matches!(&told[..], [first, Notification::Adaptation(7)] if up(first)),
            "host {host}: {told:?}"
        );
    }
    // A handshake that fails has no adaptation layer.
    let mut w = World::new();
    w.rule = Box::new(|c| {
        let lost = c.from == A && c.kinds().contains(&kind::COOKIE_ECHO);
        if lost { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    w.listen(options.clone());
    let a = w.connect(SctpOptions { max_init_retransmits: 1, ..options });
    w.pass(Duration::from_secs(60));
    let told = notes(&mut w, A, a);
    assert!(matches!(told[..], [Notification::Assoc { change: AssocChange::CannotStart, .. }]), "{told:?}");
}

#[test]
fn who_asks_whether_all_was_sent_hears_it_at_once_when_it_was() {
    let mut w = World::new();
    let (a, _) = w.pair();
    w.send(A, a, b"x", SendInfo::default());
    w.pass(Duration::from_secs(1));
    let (now, options) = (w.now, SctpOptions { events: Subscriptions::SENDER_DRY, ..w.options() });
    w.stacks[A].sctp_set_options(now, a, options.clone()).unwrap();
    assert_eq!(notes(&mut w, A, a), [Notification::SenderDry]);
    w.stacks[A].sctp_set_options(now, a, options.clone()).unwrap();
    assert_eq!(notes(&mut w, A, a), [], "it was subscribed before");
    w.stacks[A].sctp_set_options(now, a, SctpOptions { events: Subscriptions::NONE, ..options }).unwrap();
    w.send(A, a, b"y", SendInfo::default());
    w.stacks[A].sctp_set_options(now, a, options).unwrap();
    assert_eq!(notes(&mut w, A, a), [], "something is out");
    w.pass(Duration::from_secs(1));
    assert_eq!(notes(&mut w, A, a), [Notification::SenderDry]);
}

#[test]
fn a_message_that_was_given_up_fails_once() {
    let mut w = World::new();
    let options = SctpOptions { events: Subscriptions::SEND_FAILED, ..w.options() };
    let (a, _) = w.associated(options.clone(), options);
    // Nothing comes back, so that what was given up stays in the list of what is out.
    w.rule = Box::new(|c| if c.from == B { Fate::Lose } else { Fate::Deliver(ms(10)) });
    for n in 0..3 {
        w.send(A, a, &[n; 1_000], brief(500));
    }
    w.pass(Duration::from_secs(3));
    let before = notes(&mut w, A, a);
    assert_eq!(before.len(), 3, "{before:?}");
    let now = w.now;
    w.stacks[A].sctp_abort(now, a, b"").unwrap();
    assert_eq!(notes(&mut w, A, a), []);
}

#[test]
fn a_message_goes_to_an_address_of_the_peer_or_nowhere() {
    let mut w = World::with(2, &lowwater_core::base::Sysctl::default(), 1);
    let (a, b) = w.pair();
    w.pass(ms(200));
    let to = |ip| SendInfo { to: Some(ip), ..SendInfo::default() };
    let now = w.now;
    let sent = w.stacks[A].sctp_send(now, a, Bytes::from_static(b"x"), to(ip(1, A)));
    assert_eq!(sent, Err(Error::Invalid));
    // Each goes its own way, though both would fit one packet.
    let (first, second) = (to(ip(0, B)), to(ip(1, B)));
    w.log.clear();
    w.send(A, a, b"one", first);
    w.send(A, a, b"two", second);
    w.send(A, a, b"three", second);
    w.pass(ms(500));
    assert_eq!(w.messages(B, b).len(), 3);
    let data = |link| {
        w.log.iter().filter(|l| (l.from, l.link) == (A, link) && l.kinds.contains(&kind::DATA)).count()
    };
    assert_eq!((data(0), data(1) > 0), (1, true));
}

#[test]
fn messages_that_failed_wait_in_twice_the_send_buffer_and_no_more() {
    let mut w = World::new();
    let options = SctpOptions { events: Subscriptions::SEND_FAILED, sndbuf: 10_000, ..w.options() };
    w.rule = Box::new(|_| Fate::Lose);
    let a = w.connect(options);
    let fail = |w: &mut World, times: u64| {
        for _ in 0..times {
            w.send(A, a, &[1; 1_000], brief(10));
            w.pass(Duration::from_millis(20));
        }
    };
    fail(&mut w, 100);
    let told = notes(&mut w, A, a).len() as u64;
    assert_eq!((told, w.stacks[A].counters().own.sctp_failed_dropped), (18, 82), "1,128 bytes each");
    // What was read has made room.
    fail(&mut w, 10);
    assert_eq!(notes(&mut w, A, a).len(), 10);
    // All that a full buffer holds is told when the association ends.
    let before = w.stacks[A].counters().own.sctp_failed_dropped;
    let mut queued = 0;
    while w.stacks[A].sctp_send(w.now, a, Bytes::from_static(b"x"), SendInfo::default()).is_ok() {
        queued += 1;
    }
    w.pass(Duration::from_secs(600));
    assert_eq!((notes(&mut w, A, a).len(), queued), (queued, 10_000_usize.div_ceil(129)));
    assert_eq!(w.stacks[A].counters().own.sctp_failed_dropped, before);
}
