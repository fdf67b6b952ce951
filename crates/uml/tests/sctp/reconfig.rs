//! Streams begin anew and are added, and all numbers begin anew (RFC 6525), between messages whose order the peer checks.
use crate::host::{Host, Setting, with_guest, with_usrsctp};
use crate::peer::{Sums, plan};
use lowwater_core::base::{Duration, Error, Instant, SocketId};
use lowwater_core::sctp::{Notification, Outcome, Received, ResetWhat, Subscriptions};
use lowwater_core::stack::Stack;

/// What the peer is asked for.
type Ask = fn(&mut Stack, Instant, SocketId) -> Result<(), Error>;

/// Asks as soon as that may be asked, and waits for what becomes of it.
fn ask(host: &mut Host, id: SocketId, call: Ask) -> Notification {
    let (mut asked, mut told) = (false, None);
    host.until(Duration::from_secs(60), |h| {
        let now = h.now();
        if !asked {
            match call(&mut h.stack, now, id) {
                Ok(()) => asked = true,
                // Something is unsent, or not acknowledged.
                Err(Error::WouldBlock) => {}
                Err(error) => panic!("{error}: {:?}", h.info(id)),
            }
        }
        if let Ok(Some(Received::Notification(note))) = h.stack.sctp_recv(now, id, 1 << 20) {
            told = Some(note);
        }
        told.is_some()
    });
    told.unwrap_or_else(|| panic!("nothing was told: {:?}", host.info(id)))
}

/// Messages between five requests, which the peer carries out.
fn anew(host: &mut Host) {
    let a = host.connect();
    let now = host.now();
    let mut options = host.stack.sctp_options(a).unwrap().clone();
    let events = Subscriptions::STREAM_RESET.with(Subscriptions::ASSOC_RESET);
    options.events = events.with(Subscriptions::STREAM_CHANGE);
    host.stack.sctp_set_options(now, a, options).unwrap();
    let messages = plan(200);
    let mut sums = Sums::default();
    let asks: [Ask; 5] = [
        |s, now, id| s.sctp_reset_streams(now, id, &[1, 2, 3], (true, false)),
        |s, now, id| s.sctp_reset_streams(now, id, &[], (true, false)),
        |s, now, id| s.sctp_reset_streams(now, id, &[0, 4], (false, true)),
        |s, now, id| s.sctp_add_streams(now, id, 3, 0),
        |s, now, id| s.sctp_reset_association(now, id),
    ];
    let mut told = Vec::new();
    let streams = host.info(a).streams;
    for (n, part) in messages.chunks(messages.len().div_ceil(6)).enumerate() {
        for (word, data) in part {
            host.send_one(a, *word, data);
            sums.add(data, false);
        }
        if let Some(call) = asks.get(n) {
            told.push(ask(host, a, *call));
        }
    }
    let reset = |what, streams: &[u16]| {
        let (outcome, streams) = (Outcome::Done, streams.to_vec());
        Notification::StreamReset { what, outcome, streams }
    };
    let added = Notification::StreamChange { outcome: Outcome::Done, incoming: 0, outgoing: 3 };
    let expected = [
        reset(ResetWhat::Outgoing, &[1, 2, 3]),
        reset(ResetWhat::Outgoing, &[]),
        reset(ResetWhat::IncomingAsked, &[0, 4]),
        added,
    ];
    assert_eq!(told[..4], expected);
    assert!(matches!(told[4], Notification::AssocReset { outcome: Outcome::Done, .. }), "{told:?}");
    assert_eq!(host.info(a).streams, (streams.0 + 3, streams.1));
    host.settle(a, messages.len(), &sums);
    host.closed(a);
}

#[test]
fn the_kernels_streams_begin_anew_and_are_added() {
    with_guest(Setting::new("serve 4"), anew);
}

#[test]
fn usrsctps_streams_begin_anew_and_are_added() {
    with_usrsctp(Setting { udp: true, ..Setting::new("serve 4") }, anew);
}
