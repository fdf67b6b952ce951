//! The lazy heartbeat of one path: sending stores a timestamp, and the timer asks for it when it fires.
//!
//! RFC 9260 section 8.3; transmit-path rule of Linux commit ba6f5e33bdbb: a timer that is drawn anew with every packet costs a
//! random number and a timer operation each, for nothing. Here a transmission that can refresh the round-trip time stores `last_sent`
//! and nothing else. When the timer fires, either the path was idle long enough, or the timer is armed for what is left, without a
//! new jitter. The period is `hb_interval + rto/2 + U(0, rto)`, the draw made when the timer is armed.
use super::options::PathOptions;
use crate::base::time::{Duration, nanos};
use crate::base::{Cx, Instant};

/// Least period without jitter.
const BASE_MIN: Duration = Duration::from_millis(200);

/// What the timer's end means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    /// The path was used meanwhile: the timer is armed for the rest.
    Early,
    /// It was idle: send a HEARTBEAT.
    Due,
}

/// Heartbeat state of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// When the timer fires; [`Instant::FAR_FUTURE`] while it is not armed.
    deadline: Instant,
    /// When it was armed, for a change of the interval.
    armed_at: Instant,
    /// The draw, in parts of the timeout divided by 2^32: it follows a timeout that changes while the timer runs.
    jitter: u32,
    /// The last transmission that can refresh the round-trip time: the one store of the hot path.
    last_sent: Instant,
    /// What the answer must carry; 0 when no HEARTBEAT is out. It stays while none is answered: an answer that comes late is one.
    pub nonce: u64,
    /// When the last one was sent.
    pub asked_at: Instant,
    /// How many with this number were, round and round: which of them is answered.
    pub asked: u8,
    /// A HEARTBEAT has to be sent.
    pub wanted: bool,
}

/// How a path stands, as far as its heartbeats care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cadence {
    /// The interval in force; zero for paths that are potentially failed or not confirmed, which are probed at their timeout.
    pub interval: Duration,
    /// The retransmission timeout.
    pub rto: Duration,
}

impl Cadence {
    /// The cadence of a path; `urgent` when it is potentially failed or not confirmed (RFC 7829 section 3.2).
    #[must_use]
    pub const fn new(options: &PathOptions, rto: Duration, urgent: bool) -> Self {
        let interval =
            if urgent { Duration::ZERO } else { Duration::from_millis(options.hb_interval_ms as u64) };
        Self { interval, rto }
    }

    /// The period without jitter (`sctp_transport_timeout`), a fifth of a second at the least: an answer takes its time too.
    #[must_use]
    pub fn base(&self) -> Duration {
        (self.interval + self.rto / 2).max(BASE_MIN)
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::new()
    }
}

impl Heartbeat {
    /// Not armed, nothing sent.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            deadline: Instant::FAR_FUTURE,
            armed_at: Instant::ZERO,
            jitter: 0,
            last_sent: Instant::ZERO,
            nonce: 0,
            asked_at: Instant::ZERO,
            asked: 0,
            wanted: false,
        }
    }

    /// DATA, INIT, COOKIE ECHO or HEARTBEAT was sent on this path. A SACK does not count: nothing answers it.
    pub const fn on_transmit(&mut self, now: Instant) {
        self.last_sent = now;
    }

    /// What the next HEARTBEAT says: the number that its answer must carry, a new one where none is out, and how many will have had it.
    pub fn question(&self, cx: &mut Cx<'_>) -> (u64, u8) {
        match self.nonce {
            0 => (cx.rng.next_u64() | 1, 1),
            nonce => (nonce, self.asked.wrapping_add(1)),
        }
    }

    /// That HEARTBEAT was written.
    pub const fn ask(&mut self, now: Instant, question: (u64, u8)) {
        (self.nonce, self.asked) = question;
        (self.wanted, self.asked_at) = (false, now);
    }

    /// When something was last sent.
    #[must_use]
    pub const fn last_sent(&self) -> Instant {
        self.last_sent
    }

    /// When the timer fires.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Arms the timer with a new jitter.
    pub fn arm(&mut self, cx: &mut Cx<'_>, cadence: &Cadence) {
        self.armed_at = cx.now;
        self.jitter = cx.rng.next_u32();
        cx.count.own.sctp_hb_armed += 1;
        self.place(cadence);
    }

    /// A HEARTBEAT is to be sent at `at`, the first time beside the cadence.
    pub fn ask_at(&mut self, at: Instant) {
        (self.armed_at, self.jitter) = (at, 0);
        self.deadline = at;
    }

    /// Switches the timer off.
    pub const fn stop(&mut self) {
        self.deadline = Instant::FAR_FUTURE;
        self.wanted = false;
    }

    /// The interval, the timeout or the path's state has changed: that takes effect at once, for a timer that runs. The draw
    /// stays, so that changing to and fro does not make all paths beat at once.
    pub fn reschedule(&mut self, cadence: &Cadence) {
        if self.deadline != Instant::FAR_FUTURE {
            self.place(cadence);
        }
    }

    fn place(&mut self, cadence: &Cadence) {
        let jitter_ns = (u128::from(nanos(cadence.rto)) * u128::from(self.jitter)) >> 32;
        self.deadline = (self.armed_at + cadence.base()).plus_nanos(jitter_ns as u64);
    }

    /// The timer fired. When it was early it is armed for the remainder; when due, the caller sends and arms it again.
    pub fn on_timer(&mut self, cx: &mut Cx<'_>, cadence: &Cadence) -> Fired {
        let quiet_until = self.last_sent + cadence.base();
        if cx.now < quiet_until && self.last_sent != Instant::ZERO {
            // Later changes count from here; the jitter was spent in the first round.
            (self.armed_at, self.jitter) = (self.last_sent, 0);
            self.deadline = quiet_until;
            cx.count.own.sctp_hb_early += 1;
            return Fired::Early;
        }
        Fired::Due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Sysctl;
    use crate::base::testing::World;

    const RTO: Duration = Duration::from_secs(1);

    fn cadence(interval_ms: u32) -> Cadence {
        let options = PathOptions { hb_interval_ms: interval_ms, ..PathOptions::new(&Sysctl::default()) };
        Cadence::new(&options, RTO, false)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// One store per packet, and the remainder instead of a whole interval (usrsctp arms a whole one).
    #[test]
    fn an_early_timer_is_armed_for_the_remainder_without_a_new_jitter() {
        let (mut world, mut hb, c) = (World::new(), Heartbeat::new(), cadence(30_000));
        hb.arm(&mut world.cx(at(0)), &c);
        let armed = hb.deadline();
        assert!((at(30_500)..at(31_500)).contains(&armed));
        for ms in (0..20_000).step_by(5) {
            hb.on_transmit(at(ms));
            assert_eq!(hb.deadline(), armed);
        }
        assert_eq!(hb.on_timer(&mut world.cx(armed), &c), Fired::Early);
        assert_eq!(hb.deadline(), at(19_995 + 30_500));
        assert_eq!(hb.on_timer(&mut world.cx(hb.deadline()), &c), Fired::Due);
        assert_eq!(world.count.own.sctp_hb_armed, 1);
    }

    #[test]
    fn a_changed_interval_takes_effect_at_once_in_both_directions() {
        let (mut world, mut hb) = (World::new(), Heartbeat::new());
        hb.arm(&mut world.cx(at(0)), &cadence(30_000));
        let jitter = hb.deadline().since(at(30_500));
        hb.reschedule(&cadence(500));
        assert_eq!(hb.deadline(), at(1_000) + jitter);
        hb.reschedule(&cadence(60_000));
        assert_eq!(hb.deadline(), at(60_500) + jitter);
        let mut idle = Heartbeat::new();
        idle.reschedule(&cadence(500));
        assert_eq!(idle.deadline(), Instant::FAR_FUTURE);
    }

    /// Linux once left a path that went potentially failed on the long interval.
    #[test]
    fn a_path_that_becomes_urgent_is_probed_at_its_timeout() {
        let (mut world, mut hb) = (World::new(), Heartbeat::new());
        let options = PathOptions::new(&Sysctl::default());
        hb.arm(&mut world.cx(at(0)), &Cadence::new(&options, RTO, false));
        hb.reschedule(&Cadence::new(&options, RTO, true));
        assert!(hb.deadline() <= at(1_500));
    }

    /// A path is confirmed, so that its timeout is a third of what it was: a jitter of the old one would be out of proportion.
    #[test]
    fn the_jitter_follows_the_timeout() {
        let (mut world, mut hb) = (World::new(), Heartbeat::new());
        let slow = Cadence { rto: 3 * RTO, ..cadence(30_000) };
        hb.arm(&mut world.cx(at(0)), &slow);
        let jitter = hb.deadline().since(at(31_500));
        hb.reschedule(&cadence(30_000));
        let now = hb.deadline().since(at(30_500));
        assert!(now < RTO && jitter.abs_diff(3 * now) < Duration::from_micros(1), "{jitter:?} {now:?}");
    }

    /// A timeout of next to nothing would ask again before an answer can be there.
    #[test]
    fn a_short_timeout_asks_five_times_a_second_at_the_most() {
        let options = PathOptions::new(&Sysctl::default());
        for (rto_ms, base_ms) in [(1, 200), (400, 200), (600, 300)] {
            let cadence = Cadence::new(&options, Duration::from_millis(rto_ms), true);
            assert_eq!(cadence.base(), Duration::from_millis(base_ms));
        }
    }

    /// Linux once never started the timer, for it compared with one that was not running.
    #[test]
    fn a_timer_that_never_ran_can_be_armed() {
        let (mut world, mut hb) = (World::new(), Heartbeat::new());
        assert_eq!(hb.deadline(), Instant::FAR_FUTURE);
        hb.arm(&mut world.cx(at(7)), &cadence(0));
        assert!(hb.deadline() <= at(7 + 1_500));
    }
}
