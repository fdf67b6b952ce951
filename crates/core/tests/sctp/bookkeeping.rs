//! What is counted and timed: reneging, probes of a closed window, heartbeats beside data, windows given back, lifetimes.
use crate::world::*;
use lowwater_core::base::{Duration, SocketId};
use lowwater_core::sctp::{
    Notification, PathOptions, PathState, Received, Reliability, SctpOptions, SendFailed, SendInfo, State,
    Subscriptions,
};
use lowwater_wire::sctp::{Chunk, GapBlock, Sack, chunk_kind as kind};

fn bytes(chunk: &Chunk<'_>) -> Vec<u8> {
    let mut all = vec![0; chunk.buffer_len()];
    chunk.emit(&mut all);
    all
}

fn back(w: &World, a: SocketId) -> (u16, u16) {
    (5_000, w.stacks[A].local_addr(a).unwrap().port())
}

/// `n` messages of 50 bytes that never arrive, and a function that makes B's SACKs of them.
fn unheard(n: usize) -> (World, SocketId, impl Fn(&mut World, &[u16])) {
    let mut w = World::new();
    let options = SctpOptions { nodelay: true, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    let (tag, cum, ports) = (w.info(A, a).tags.0, w.info(B, b).cum_tsn, back(&w, a));
    w.rule = Box::new(|_| Fate::Lose);
    for _ in 0..n {
        w.send(A, a, &[7; 50], SendInfo::default());
    }
    w.pass(ms(1));
    assert_eq!(w.info(A, a).paths[0].flight, 50 * n as u32);
    let sack = move |w: &mut World, named: &[u16]| {
        let gaps: Vec<GapBlock> = named.iter().map(|n| GapBlock::new(*n, *n)).collect();
        let chunk = Chunk::Sack(Sack { cum_tsn: cum, a_rwnd: 99_999, gaps: &gaps, dups: &[] });
        w.inject(A, ports, tag, &bytes(&chunk));
    };
    (w, a, sack)
}

/// What a peer no longer names is under way again: nothing goes at once, T3-rtx sends it (section 6.2.1, D iii).
#[test]
fn what_is_taken_back_counts_as_in_flight_until_t3_runs_out() {
    let (mut w, a, sack) = unheard(10);
    sack(&mut w, &[9, 10]);
    assert_eq!(w.info(A, a).paths[0].flight, 400);
    let sent = w.sent(A, kind::DATA);
    sack(&mut w, &[9]);
    w.pass(ms(100));
    assert_eq!((w.info(A, a).paths[0].flight, w.sent(A, kind::DATA)), (450, sent));
    w.pass(Duration::from_secs(1));
    assert!(w.sent(A, kind::DATA) > sent);
}

/// Linux lists sixteen blocks: what lies behind the last of so many may be there all the same.
#[test]
fn a_list_that_may_have_been_cut_takes_nothing_back_behind_its_end() {
    let even = |n: u16| (1..=n).map(|i| 2 * i).collect::<Vec<u16>>();
    let (mut w, a, sack) = unheard(60);
    sack(&mut w, &[50, 52]);
    assert_eq!(w.info(A, a).paths[0].flight, 50 * 58);
    sack(&mut w, &even(16));
    assert_eq!(w.info(A, a).paths[0].flight, 50 * 42);
    let (mut w, a, sack) = unheard(60);
    sack(&mut w, &[50, 52]);
    sack(&mut w, &even(15));
    assert_eq!(w.info(A, a).paths[0].flight, 50 * 45);
    // Blocks that overlap hide nothing.
    sack(&mut w, &[2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
    assert_eq!(w.info(A, a).paths[0].flight, 50 * 58);
}

/// A window that stays closed is no fault of the path: no errors, no other state, the window of congestion as it was.
#[test]
fn probes_of_a_closed_window_leave_the_path_alone() {
    let mut w = World::new();
    let options = SctpOptions { nodelay: true, events: Subscriptions::PATH, ..w.options() };
    let theirs = SctpOptions { rcvbuf: 8_000, ..w.options() };
    let (a, b) = w.associated(options, theirs);
    for _ in 0..10 {
        w.send(A, a, &[7; 1_000], SendInfo::default());
    }
    w.pass(Duration::from_secs(3));
    assert_eq!(w.info(A, a).peer_rwnd, 0);
    let cwnd = w.info(A, a).paths[0].cwnd;
    let probes = w.sent(A, kind::DATA);
    for _ in 0..600 {
        w.pass(ms(200));
        let info = w.info(A, a);
        let path = &info.paths[0];
        assert_eq!((info.errors, path.errors, path.state), (0, 0, PathState::Active));
        assert_eq!(path.cwnd, cwnd);
    }
    assert!(w.sent(A, kind::DATA) > probes + 3);
    assert!(w.read(A, a).is_empty());
    // A peer that says nothing at all is another matter.
    w.rule = Box::new(|_| Fate::Lose);
    w.pass(Duration::from_secs(130));
    assert!(w.info(A, a).paths[0].errors > 0);
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.pass(Duration::from_secs(130));
    let mut got = 0;
    for _ in 0..100 {
        got += w.messages(B, b).len();
        w.pass(Duration::from_secs(1));
    }
    assert_eq!(got, 10);
}

#[test]
fn acknowledged_data_answers_the_heartbeat_that_is_out() {
    let mut w = World::new();
    let path = PathOptions { hb_interval_ms: 2_000, ..w.options().path };
    let options = SctpOptions { path, events: Subscriptions::PATH, ..w.options() };
    let (a, b) = w.associated(options, w.options());
    w.rule = Box::new(|c| {
        let answer = c.kinds().contains(&kind::HEARTBEAT_ACK);
        if answer { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    let asked = w.sent(A, kind::HEARTBEAT);
    assert!(w.run(Duration::from_secs(10), |w| w.sent(A, kind::HEARTBEAT) > asked));
    w.pass(ms(100));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.send(A, a, b"x", SendInfo::default());
    w.pass(ms(500));
    assert_eq!(w.messages(B, b), [b"x"]);
    w.pass(Duration::from_secs(20));
    assert!(w.sent(A, kind::HEARTBEAT) > asked + 2);
    assert_eq!(w.read(A, a), [], "the path was never in doubt");
}

#[test]
fn what_a_shutdown_acknowledges_has_left_the_peers_window() {
    let mut w = World::new();
    let (a, b) = w.pair();
    let (tag, tsn, ports) = (w.info(A, a).tags.0, w.info(B, b).cum_tsn, back(&w, a));
    let before = w.info(A, a).peer_rwnd;
    w.rule = Box::new(|_| Fate::Lose);
    for _ in 0..2 {
        w.send(A, a, &[7; 1_452], SendInfo::default());
    }
    w.pass(ms(1));
    assert_eq!(w.info(A, a).peer_rwnd, before - 2_904);
    w.inject(A, ports, tag, &bytes(&Chunk::Shutdown(tsn.wrapping_add(1))));
    assert_eq!((w.info(A, a).state, w.info(A, a).peer_rwnd), (State::ShutdownReceived, before - 1_452));
}

/// A lifetime ends when it ends, not when the next packet may leave.
#[test]
fn a_message_is_given_up_on_time_while_nothing_else_happens() {
    let mut w = World::new();
    let options = SctpOptions { events: Subscriptions::SEND_FAILED, ..w.options() };
    let (a, _) = w.associated(options, w.options());
    w.rule = Box::new(|_| Fate::Lose);
    // They fill the first window.
    for _ in 0..3 {
        w.send(A, a, &[7; 1_452], SendInfo::default());
    }
    w.pass(ms(1));
    let reliability = Reliability::Lifetime(ms(100));
    w.send(A, a, &[8; 1_452], SendInfo { reliability, ..SendInfo::default() });
    w.pass(ms(99));
    assert!(w.read(A, a).is_empty());
    w.pass(ms(2));
    let failed = w.read(A, a);
    assert!(
        matches!(
            &failed[..],
            [Received::Notification(Notification::SendFailed(SendFailed { sent: false, .. }))]
        ),
        "{failed:?}"
    );
}

#[test]
fn a_peer_that_starts_anew_while_we_close_by_ourselves_is_closed_again() {
    let mut w = World::new();
    let theirs = SctpOptions { autoclose_secs: 5, ..w.options() };
    let (a, b) = w.associated(w.options(), theirs);
    let port = back(&w, a).1;
    w.rule = Box::new(|_| Fate::Lose);
    w.pass(Duration::from_secs(6));
    assert_eq!(w.info(B, b).state, State::ShutdownSent);
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.start_anew(port);
    w.pass(Duration::from_secs(1));
    assert_eq!(w.info(B, b).state, State::Established);
    w.pass(Duration::from_secs(6));
    assert_eq!(w.info(B, b).state, State::Closed);
}

/// A chunk that a narrower path sends again is timed no more: what comes behind it is.
#[test]
fn what_goes_again_on_a_narrower_path_is_not_timed() {
    let mut w = World::new();
    let options = SctpOptions { nodelay: true, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    let (tag, port) = (w.info(A, a).tags.1, back(&w, a).1);
    let srtt = w.info(A, a).paths[0].srtt;
    w.rule = Box::new(|c| if c.from == A { Fate::Lose } else { Fate::Deliver(ms(10)) });
    w.send(A, a, &[7; 1_452], SendInfo::default());
    w.pass(ms(1));
    w.rule = Box::new(|_| Fate::Deliver(ms(200)));
    w.too_big(A, (port, 5_000), tag, 600);
    w.send(A, a, &[8; 400], SendInfo::default());
    w.pass(ms(600));
    assert_eq!(w.messages(B, b).len(), 2);
    assert!(w.info(A, a).paths[0].srtt > srtt, "{srtt:?}");
}

/// The flight recorder of an association: states, chunks with their TSNs, timers; nothing while it is off.
#[test]
fn the_flight_recorder_tells_chunks_timers_and_changes() {
    let mut w = World::new();
    let (a, b) = w.associated(w.options(), w.options());
    assert_eq!(w.stacks[A].trace().records().count(), 0);
    w.stacks[A].set_trace(true);
    w.send(A, a, &[1; 20_000], SendInfo::default());
    w.pass(ms(100));
    w.rule = Box::new(|_| Fate::Lose);
    w.send(A, a, &[2; 100], SendInfo::default());
    w.pass(ms(1_500));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.pass(ms(3_000));
    let now = w.now;
    w.stacks[B].sctp_abort(now, b, b"").unwrap();
    w.pass(ms(100));
    let told: Vec<String> = w.stacks[A].trace().records().map(|record| record.event.to_string()).collect();
    for wanted in [
        "> DATA ",
        "< SACK ",
        "waits: ",
        "timer T3 of path 0 ran out",
        "< ABORT, path 0",
        "state ESTABLISHED -> CLOSED",
    ] {
        assert!(told.iter().any(|line| line.starts_with(wanted)), "{wanted}: {told:?}");
    }
}
