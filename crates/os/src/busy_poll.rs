//! Busy polling: looking at devices again and again for a while before sleeping (`net.core.busy_poll`, SO_BUSY_POLL).
//!
//! Linux spins whenever it is told to. Here it is worth the processor only while it pays (as the halt polling of Linux's
//! haltpoll governor does): a spin in vain is followed by sleep until enough waits were shorter than a spin, one after the first,
//! twice as many after each that follows; a spin that paid halves that number. Unless told how long to spin it learns it as that
//! governor does: what came after a spin in vain, and within the longest one, makes the next twice as long. And who looks gives way to whoever else wants the
//! processor: where that took a whole slice of time, dearer than all that spins can save, nobody looks for ten times as long, and
//! for twice as many times after each loss that follows soon, up to a hundred: somebody who computes comes back, an interrupt or a
//! hypervisor that was elsewhere for a moment does not.
use core::time::Duration;
use lowwater_core::base::Instant;

/// What to do while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Look again at once.
    Look,
    /// Sleep until something comes.
    Sleep,
}

/// How long a stack's thread looks before it sleeps at first, unless told otherwise: what Linux's documentation recommends for
/// `net.core.busy_poll` and a few sockets, and a peer's wake-up on a virtual machine's other processor.
pub const BUSY_POLL: Duration = Duration::from_micros(50);

/// How long it looks where that has shown to pay: on some virtual machines a wake-up takes longer (`guest_halt_poll_ns`). Who
/// sends more seldom finds it asleep.
pub const BUSY_POLL_MOST: Duration = Duration::from_micros(200);

/// Most short waits that are slept through before the next spin, after spins in vain.
const MOST_SHORT_WAITS: u16 = 1 << 10;

/// A spin that lost the processor is followed by sleep for so many times what it lost, the first and the last of a row of losses,
const REGRET: u32 = 10;
const REGRET_OF_MANY: u32 = 100;
/// and for this long at most. A loss within that time after such a sleep belongs to the row.
const REGRET_MAX: Duration = Duration::from_secs(1);

/// Decides between looking again and sleeping. It does neither itself and knows no clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyPoll {
    /// How long the next spin lasts, within these two.
    limit: Duration,
    least: Duration,
    most: Duration,
    wait: Option<Wait>,
    /// Short waits to come before it spins again.
    short_waits_left: u16,
    /// What that number starts from.
    short_waits: u16,
    /// Somebody else wants the processor: no spins until then.
    shared_until: Instant,
    /// So many times what it lost the last spin that lost the processor is regretted; 0: none has.
    regret: u32,
}

/// The wait that goes on.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    spin: Spin,
}

/// What becomes of the time of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spin {
    /// It is slept through.
    No,
    /// It is spent looking.
    Goes,
    /// It was, in vain, and the rest of it is slept through.
    Over,
}

impl BusyPoll {
    /// Spins for at most `limit` per wait; zero: never.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self::within(limit, limit)
    }

    /// Learns how long to spin, from [`BUSY_POLL`] to [`BUSY_POLL_MOST`] per wait.
    #[must_use]
    pub const fn learning() -> Self {
        Self::within(BUSY_POLL, BUSY_POLL_MOST)
    }

    const fn within(least: Duration, most: Duration) -> Self {
        Self {
            limit: least,
            least,
            most,
            wait: None,
            short_waits_left: 0,
            short_waits: 0,
            shared_until: Instant::ZERO,
            regret: 0,
        }
    }

    /// It may say [`Idle::Look`]; where not, nobody needs to ask, nor to look at a clock for it.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        !self.limit.is_zero()
    }

    /// There is nothing to do `now`.
    pub fn on_nothing(&mut self, now: Instant) -> Idle {
        let spins = self.is_on() && self.short_waits_left == 0 && now >= self.shared_until;
        let spin = if spins { Spin::Goes } else { Spin::No };
        let wait = self.wait.get_or_insert(Wait { since: now, spin });
        if wait.spin != Spin::Goes {
            return Idle::Sleep;
        }
        let spun = now.since(wait.since);
        if spun < self.limit {
            return Idle::Look;
        }
        wait.spin = Spin::Over;
        self.spun_in_vain(now, spun);
        Idle::Sleep
    }

    fn spun_in_vain(&mut self, now: Instant, spun: Duration) {
        self.short_waits = (self.short_waits * 2).clamp(1, MOST_SHORT_WAITS);
        self.short_waits_left = self.short_waits;
        if spun > self.limit * 2 {
            let in_a_row = now < self.shared_until + REGRET_MAX;
            self.regret = if in_a_row { (self.regret * 2).clamp(REGRET, REGRET_OF_MANY) } else { REGRET };
            self.shared_until = now + (spun * self.regret).min(REGRET_MAX);
        }
    }

    /// Something has come, or is due, `now`.
    pub fn on_something(&mut self, now: Instant) {
        let Some(wait) = self.wait.take() else {
            return;
        };
        let waited = now.since(wait.since);
        match wait.spin {
            Spin::Goes if waited < self.limit => self.short_waits /= 2,
            // One look took longer than all of them may together.
            Spin::Goes => self.spun_in_vain(now, waited),
            Spin::Over => self.learn(waited),
            Spin::No => {}
        }
        if wait.spin == Spin::Goes {
            return;
        }
        // Who sleeps wakes later than who looks, so that the longest spin is what a wait is held against.
        self.short_waits_left = if waited < self.most {
            self.short_waits_left.saturating_sub(1)
        } else {
            self.short_waits.max(1)
        };
    }

    /// What a spin in vain waited for came after `waited`, the time to wake up included.
    fn learn(&mut self, waited: Duration) {
        let worth_more = waited < self.most && self.limit < self.most;
        self.limit = if worth_more { (self.limit * 2).min(self.most) } else { self.least };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Idle::{Look, Sleep};

    const fn us(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    fn fifty() -> BusyPoll {
        BusyPoll::new(Duration::from_micros(50))
    }

    #[test]
    fn a_limit_of_zero_never_spins() {
        let mut busy = BusyPoll::default();
        assert!(!busy.is_on() && fifty().is_on());
        for at in 0..10 {
            assert_eq!(busy.on_nothing(us(at)), Sleep);
            busy.on_something(us(at));
        }
    }

    #[test]
    fn it_looks_until_the_limit_and_then_sleeps() {
        let mut busy = fifty();
        assert_eq!(busy.on_nothing(us(1_000)), Look);
        assert_eq!(busy.on_nothing(us(1_049)), Look);
        assert_eq!(busy.on_nothing(us(1_050)), Sleep);
        assert_eq!(busy.on_nothing(us(1_051)), Sleep, "the same wait");
    }

    #[test]
    fn after_a_long_wait_it_sleeps_at_once_until_a_wait_was_short() {
        let mut busy = fifty();
        assert_eq!(busy.on_nothing(us(0)), Look);
        assert_eq!(busy.on_nothing(us(60)), Sleep);
        busy.on_something(us(500));
        assert_eq!(busy.on_nothing(us(500)), Sleep);
        busy.on_something(us(549));
        assert_eq!(busy.on_nothing(us(600)), Look, "asleep it would have been short enough");
        busy.on_something(us(620));
        assert_eq!(busy.on_nothing(us(700)), Look);
    }

    /// Waits of 55 us that end as soon as somebody else may run: those who wait for each other share one processor.
    #[test]
    fn spins_in_vain_become_ever_more_seldom_and_come_back_when_they_pay() {
        let mut busy = fifty();
        let mut now = 0;
        let mut spins = 0;
        for _ in 0..100_000 {
            if busy.on_nothing(us(now)) == Look {
                spins += 1;
                now += 50;
                assert_eq!(busy.on_nothing(us(now)), Sleep);
            }
            now += 5;
            busy.on_something(us(now));
            now += 1;
        }
        assert!((50..120).contains(&spins), "{spins}");
        let mut looks = 0;
        for _ in 0..2_000 {
            if busy.on_nothing(us(now)) == Look {
                looks += 1;
            }
            now += 5;
            busy.on_something(us(now));
        }
        assert!(looks > 900, "{looks}");
        assert_eq!(busy.short_waits, 0);
    }

    #[test]
    fn somebody_else_on_the_processor_counts_as_a_long_wait() {
        let mut busy = fifty();
        assert_eq!(busy.on_nothing(us(0)), Look);
        // What came while the thread had given way for three milliseconds.
        busy.on_something(us(3_000));
        assert_eq!(busy.on_nothing(us(3_001)), Sleep);
    }

    /// Whoever gives way by looking gets the processor back after three milliseconds, whoever sleeps at once.
    #[test]
    fn beside_somebody_who_never_sleeps_looks_cost_a_hundredth_of_the_time() {
        let mut busy = fifty();
        let mut now = 0;
        let mut lost = 0;
        for wait in 0..1_000_000 {
            // Every other spin meets the peer instead, and pays.
            if busy.on_nothing(us(now)) == Look && wait % 2 == 0 {
                now += 3_000;
                lost += 3_000;
            }
            now += 5;
            busy.on_something(us(now));
            now += 1;
        }
        assert!(lost > 0 && lost <= now / 50, "{lost} of {now}");
    }

    #[test]
    fn a_processor_lost_once_is_regretted_for_ten_times_as_long_only() {
        let mut busy = fifty();
        let mut now = 5_000_000;
        assert_eq!(busy.on_nothing(us(now)), Look);
        now += 2_000;
        busy.on_something(us(now));
        let mut waits = 0;
        while busy.on_nothing(us(now)) == Sleep {
            now += 25;
            busy.on_something(us(now));
            waits += 1;
        }
        assert_eq!(waits, 20_000 / 25);
    }

    /// Spins of a wait that something ends after so long; who sleeps learns of it later.
    fn wait(busy: &mut BusyPoll, now: &mut u64, came: u64, wake: u64) -> u64 {
        let began = *now;
        while busy.on_nothing(us(*now)) == Look && *now < began + came {
            *now += 10;
        }
        let spun = *now - began;
        if spun < came {
            *now = began + came + wake;
        }
        busy.on_something(us(*now));
        *now += 10;
        spun
    }

    #[test]
    fn where_wake_ups_take_long_it_learns_to_look_for_longer() {
        let mut busy = BusyPoll::learning();
        let mut now = 1_000;
        assert_eq!(wait(&mut busy, &mut now, 80, 50), 50, "in vain");
        for _ in 0..10 {
            assert_eq!(wait(&mut busy, &mut now, 80, 50), 80);
        }
        assert_eq!(wait(&mut busy, &mut now, 5_000, 50), 100);
        assert_eq!(wait(&mut busy, &mut now, 80, 50), 0, "one wait was long");
        assert_eq!(wait(&mut busy, &mut now, 40, 0), 40);
        assert_eq!(wait(&mut busy, &mut now, 5_000, 50), 50, "what it learned is forgotten");
    }

    #[test]
    fn what_it_was_told_it_keeps_to() {
        let mut busy = fifty();
        let mut now = 1_000;
        assert_eq!(wait(&mut busy, &mut now, 80, 50), 50);
        for _ in 0..10 {
            assert_eq!(wait(&mut busy, &mut now, 80, 50), 0);
        }
    }

    /// As long as it looks nothing comes: those who wait for each other share one processor.
    #[test]
    fn looking_for_longer_in_vain_costs_little() {
        let mut busy = BusyPoll::learning();
        let (mut now, mut spun) = (1_000, 0);
        for _ in 0..100_000 {
            let began = now;
            while busy.on_nothing(us(now)) == Look {
                now += 10;
            }
            spun += now - began;
            now += 5;
            busy.on_something(us(now));
            now += 1;
        }
        assert!(spun > 0 && spun < now / 40, "{spun} of {now}");
    }

    #[test]
    fn work_between_waits_is_no_wait() {
        let mut busy = fifty();
        busy.on_something(us(0));
        busy.on_something(us(9_000));
        assert_eq!(busy.on_nothing(us(9_001)), Look);
    }
}
