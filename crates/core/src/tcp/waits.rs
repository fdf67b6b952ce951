//! Why one connection does not send: the reason in force, since when, and how often each was met.
use super::accecn::AccEcn;
use super::conn::{Conn, Rest};
use crate::base::Cx;
use crate::base::time::{Duration, Instant};
use crate::base::trace::Ev;
use crate::base::why::{WAIT_REASONS, Wait};
use core::fmt;
use core::ops::Index;

/// How often each reason was met; printed, those that were.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitCounts([u32; WAIT_REASONS]);

impl WaitCounts {
    /// Each reason and how often it was met, in the order of [`Wait::ALL`].
    pub fn each(&self) -> impl Iterator<Item = (Wait, u32)> + '_ {
        Wait::ALL.into_iter().zip(self.0)
    }
}

impl Index<Wait> for WaitCounts {
    type Output = u32;

    fn index(&self, why: Wait) -> &u32 {
        &self.0[why as usize]
    }
}

impl fmt::Debug for WaitCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.each().filter(|(_, times)| *times > 0)).finish()
    }
}

/// The answer to "why is it not sending?".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitReport {
    /// The reason; `None` while it sends, or before it tried for the first time.
    pub why: Option<Wait>,
    /// For how long the reason has been this one; `None` for a connection that never had to wait with data in hand.
    pub since: Option<Duration>,
    /// How often each reason was met.
    pub counts: WaitCounts,
}

/// What only some connections need, made on first use: an idle one has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Seldom {
    /// What accurate ECN needs.
    pub(super) accecn: Option<Box<AccEcn>>,
    /// Payload in packets with ECT(1), ECT(0) and CE.
    pub(super) received_marked: [u32; 3],
    /// When a segment outside the window was last answered (RFC 5961 section 7).
    pub(super) last_oow_ack: Option<Instant>,
    /// When the reason in force began.
    since: Instant,
    counts: WaitCounts,
    /// The reason that the flight recorder was told last: what leaves in between does not make it another.
    told: Option<Wait>,
    /// Headers of the SYN that began the connection, until they were read (TCP_SAVED_SYN).
    pub(super) saved_syn: Option<Box<[u8]>>,
}

impl Conn {
    /// Headers of the SYN that began the connection (TCP_SAVED_SYN).
    #[must_use]
    pub fn saved_syn(&self) -> Option<&[u8]> {
        self.rest.seldom.as_ref()?.saved_syn.as_deref()
    }

    /// They were read.
    pub fn forget_syn(&mut self) {
        if let Some(seldom) = &mut self.rest.seldom {
            seldom.saved_syn = None;
        }
    }
}

impl Rest {
    /// What is seldom needed, made if it is not there.
    pub(super) fn seldom(&mut self) -> &mut Seldom {
        self.seldom.get_or_insert_default()
    }

    /// What accurate ECN needs.
    pub(super) fn accecn(&mut self) -> &mut AccEcn {
        self.seldom().accecn.get_or_insert_default()
    }
}

impl Conn {
    /// Counts a silence, for the stack and for this connection.
    pub(super) fn count_wait(&mut self, cx: &mut Cx<'_>, why: Wait) {
        cx.count.wait(why);
        let changed = note(&mut self.app.wait, &mut self.rest, cx.now, why);
        if changed && cx.trace.is_on() && is_news(&mut self.rest, why) {
            cx.trace(Ev::Wait(why.name()));
        }
    }

    /// Why it does not send.
    #[must_use]
    pub fn wait_report(&self, now: Instant) -> WaitReport {
        report(self.app.wait, &self.rest, now)
    }
}

/// True where the reason was another one before, or none.
fn note(wait: &mut Option<Wait>, rest: &mut Rest, now: Instant, why: Wait) -> bool {
    let changed = wait.replace(why) != Some(why);
    // Having nothing to send is not worth memory.
    if rest.seldom.is_none() && matches!(why, Wait::Empty | Wait::Handshake) {
        return changed;
    }
    let seldom = rest.seldom();
    if changed {
        seldom.since = now;
    }
    let count = &mut seldom.counts.0[why as usize];
    *count = count.saturating_add(1);
    changed
}

/// Another reason than the one that was told last.
fn is_news(rest: &mut Rest, why: Wait) -> bool {
    rest.seldom().told.replace(why) != Some(why)
}

fn report(why: Option<Wait>, rest: &Rest, now: Instant) -> WaitReport {
    let seldom = rest.seldom.as_deref();
    WaitReport {
        why,
        since: seldom.filter(|_| why.is_some()).map(|s| now.since(s.since)),
        counts: seldom.map(|s| s.counts).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_lasts_until_another_or_until_something_is_sent() {
        let at = Instant::from_millis;
        let ms = |n| Some(Duration::from_millis(n));
        let (mut wait, mut rest) = (None, Rest::default());
        assert_eq!(report(wait, &rest, at(5)), WaitReport::default());
        assert!(note(&mut wait, &mut rest, at(0), Wait::Cwnd));
        assert!(!note(&mut wait, &mut rest, at(7), Wait::Cwnd));
        let told = report(wait, &rest, at(10));
        assert_eq!((told.why, told.since), (Some(Wait::Cwnd), ms(10)));
        note(&mut wait, &mut rest, at(20), Wait::Credit);
        assert_eq!(report(wait, &rest, at(25)).since, ms(5));
        wait = None;
        let told = report(wait, &rest, at(30));
        assert_eq!((told.why, told.since), (None, None));
        assert_eq!((told.counts[Wait::Cwnd], told.counts[Wait::Credit]), (2, 1));
        assert_eq!(format!("{:?}", told.counts), "{Cwnd: 2, Credit: 1}");
    }

    /// A sender that is held by its window again and again tells so once.
    #[test]
    fn what_leaves_makes_no_other_reason() {
        let mut rest = Rest::default();
        let told = [Wait::Cwnd, Wait::Cwnd, Wait::Empty, Wait::Cwnd].map(|why| {
            let mut sent = None;
            note(&mut sent, &mut rest, Instant::ZERO, why) && is_news(&mut rest, why)
        });
        assert_eq!(told, [true, false, true, true]);
    }

    #[test]
    fn a_connection_that_never_had_to_wait_keeps_no_counts() {
        let (mut wait, mut rest) = (None, Rest::default());
        note(&mut wait, &mut rest, Instant::ZERO, Wait::Handshake);
        note(&mut wait, &mut rest, Instant::ZERO, Wait::Empty);
        assert!(rest.seldom.is_none());
        assert_eq!(report(wait, &rest, Instant::ZERO).why, Some(Wait::Empty));
    }
}
