//! How much of one flow sits below the transport, and whether more may (TCP small queues).
//!
//! Everything handed to a queueing discipline or a device holds credit until its completion comes back as an input event.
//! Source: docs/transmit-path.md, "Small queues"; Linux `tcp_small_queue_check`, commit 46d3ceabd8d9.

/// What a packet below us is charged beside its payload, in bytes: what Linux 6.1 takes for its descriptor and the buffer of its headers
/// (`SKB_TRUESIZE` of a head of 1,024 bytes). Each packet that a queue cuts a super-packet into has such a buffer.
pub const PACKET_CHARGE: u32 = 1_280;

/// A flow's ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    below: u32,
    throttled: bool,
}

/// What the limit depends on. Each field is a fact about the flow or about the packet that wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Charge of the packet, as it will really go out: after it was split to its size (docs/transmit-path.md, "Autosizing"). Of what goes again,
    /// that of the record as it lies in the queue, which is split later.
    pub charge: u32,
    /// Pacing rate in bytes per second; computed for unpaced flows too.
    pub pacing_rate: u64,
    /// `pacing_rate >> pacing_shift` is what may be below: 10 means about a millisecond's worth.
    pub pacing_shift: u8,
    /// Cap (`tcp_limit_output_bytes`); `None` for paced flows, unless `tcp_limit_output_all` says otherwise.
    pub cap: Option<u32>,
    /// Retransmissions get twice the room.
    pub retransmission: bool,
    /// The retransmit queue holds at most one element: such a flow is never held back, since completions may come late.
    pub rtx_single: bool,
}

/// The ledger's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// There is room.
    Granted,
    /// There is none, but the flow has at most one element in flight; counted as `CreditExempt`.
    Exempt,
    /// Wait: the flow is now marked, and the refund that lets it go says so.
    Throttled,
}

impl Ask {
    /// Bytes that may be below when another packet is admitted.
    #[must_use]
    pub fn limit(&self) -> u64 {
        let by_rate = self.pacing_rate.checked_shr(u32::from(self.pacing_shift)).unwrap_or(0);
        let limit = by_rate.max(2 * u64::from(self.charge));
        let limit = self.cap.map_or(limit, |cap| limit.min(u64::from(cap)));
        limit.saturating_mul(if self.retransmission { 2 } else { 1 })
    }
}

impl Credit {
    /// Nothing below.
    #[must_use]
    pub const fn new() -> Self {
        Self { below: 0, throttled: false }
    }

    /// Charge handed down and not completed, in bytes.
    #[must_use]
    pub const fn below(&self) -> u32 {
        self.below
    }

    /// True while the flow waits for a refund. Such a flow is neither application-limited nor window-limited.
    #[must_use]
    pub const fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// A packet goes down.
    pub const fn charge(&mut self, charge: u32) {
        self.below = self.below.saturating_add(charge);
    }

    /// The flow waits for the next refund although it could go on; false when it waits already.
    pub const fn throttle(&mut self) -> bool {
        !core::mem::replace(&mut self.throttled, true)
    }

    /// A packet is done: true when the flow was throttled and belongs on the ready list now. Never send from inside.
    #[must_use]
    pub fn refund(&mut self, charge: u32) -> bool {
        debug_assert!(charge <= self.below, "refund of {charge} with {} below", self.below);
        self.below = self.below.saturating_sub(charge);
        core::mem::take(&mut self.throttled)
    }

    /// There is no room, by another rule than this ledger's: the flow waits for a refund, unless it has at most one element in flight.
    #[must_use]
    pub const fn refuse(&mut self, ask: &Ask) -> Admission {
        if ask.rtx_single {
            return Admission::Exempt;
        }
        self.throttled = true;
        Admission::Throttled
    }

    /// The cap alone stands in the way: rate and size would let one more down on what is below.
    #[must_use]
    pub fn is_capped(&self, ask: &Ask) -> bool {
        ask.cap.is_some() && u64::from(self.below) < Ask { cap: None, ..*ask }.limit()
    }

    /// One more like this may go down after packets with a charge of `ahead`. While nothing is below nobody knows whether the device gives
    /// back at once: then there is no bound, but for a limit of nothing.
    #[must_use]
    pub fn lets_go_after(&self, ask: &Ask, ahead: u64) -> bool {
        let limit = ask.limit();
        ask.rtx_single || (self.below == 0 && limit > 0) || u64::from(self.below) + ahead < limit
    }

    fn has_room(&self, ask: &Ask) -> bool {
        u64::from(self.below) < ask.limit()
    }

    /// [`Self::ask`] would let the packet down: nobody is marked.
    #[must_use]
    pub fn would_admit(&self, ask: &Ask) -> bool {
        ask.rtx_single || self.has_room(ask)
    }

    /// May another packet go down? What is *already* below counts, so the level may come to one packet, less a byte, beyond the limit: two
    /// packets of one size are two, and no third. (Linux compares with `>` what is never less than one, `sk_wmem_alloc`: a limit of nothing
    /// refuses whatever is below, and what is in flight has the flow go on.)
    #[must_use]
    pub fn ask(&mut self, ask: &Ask) -> Admission {
        if self.has_room(ask) {
            return Admission::Granted;
        }
        // Linux marks first and tests again, since a completion may come in between. Here completions are events of the same
        // owner, so nothing can come in between, and one test is enough; the mark still precedes the answer.
        self.refuse(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: Ask = Ask {
        charge: 2_304,
        pacing_rate: 125_000_000,
        pacing_shift: 10,
        cap: Some(1_048_576),
        retransmission: false,
        rtx_single: false,
    };

    #[test]
    fn the_limit_is_a_millisecond_of_the_rate_but_at_least_two_packets() {
        assert_eq!(ASK.limit(), 122_070);
        assert_eq!(Ask { pacing_rate: 1_000_000, ..ASK }.limit(), 4_608);
        assert_eq!(Ask { pacing_rate: 5_000_000_000, ..ASK }.limit(), 1_048_576);
        assert_eq!(Ask { pacing_rate: 5_000_000_000, cap: None, ..ASK }.limit(), 4_882_812);
        assert_eq!(Ask { retransmission: true, ..ASK }.limit(), 244_140);
        assert_eq!(
            Ask { pacing_rate: u64::MAX, cap: None, retransmission: true, ..ASK }.limit(),
            (u64::MAX >> 10) * 2
        );
    }

    #[test]
    fn a_cap_is_told_from_what_rate_and_size_allow() {
        let fast = Ask { pacing_rate: 5_000_000_000, ..ASK };
        let capped = |below, ask: &Ask| {
            let mut credit = Credit::new();
            credit.charge(below);
            (credit.ask(ask), credit.is_capped(ask))
        };
        assert_eq!(capped(1_048_576, &fast), (Admission::Throttled, true));
        assert_eq!(capped(1_048_576, &ASK), (Admission::Throttled, false), "the rate has fallen since");
        assert_eq!(capped(4_882_812, &fast), (Admission::Throttled, false));
        assert_eq!(capped(122_070, &Ask { cap: None, ..ASK }), (Admission::Throttled, false));
        let small = Ask { cap: Some(4_607), pacing_rate: 0, ..ASK };
        assert_eq!(capped(4_607, &small), (Admission::Throttled, true), "two packets are more");
    }

    #[test]
    fn two_packets_of_one_size_are_below_and_a_refund_wakes_once() {
        let ask = Ask { pacing_rate: 0, charge: 1_000, ..ASK };
        let mut credit = Credit::new();
        for _ in 0..2 {
            assert_eq!(credit.ask(&ask), Admission::Granted);
            credit.charge(1_000);
        }
        assert_eq!(credit.below(), 2_000);
        assert_eq!(credit.ask(&Ask { rtx_single: true, ..ask }), Admission::Exempt);
        assert!(!credit.is_throttled());
        assert_eq!(credit.ask(&Ask { retransmission: true, ..ask }), Admission::Granted);
        assert_eq!(credit.ask(&ask), Admission::Throttled);
        assert!(credit.is_throttled());
        assert!(credit.refund(1_000));
        assert!(!credit.refund(1_000));
        assert_eq!(credit.below(), 0);
    }

    #[test]
    fn the_level_comes_to_a_byte_less_than_a_packet_beyond_the_limit() {
        let ask = Ask { pacing_rate: 0, charge: 1_000, ..ASK };
        let mut credit = Credit::new();
        credit.charge(1_999);
        assert_eq!((credit.lets_go_after(&ask, 0), credit.ask(&ask)), (true, Admission::Granted));
        credit.charge(1_000);
        assert_eq!((credit.lets_go_after(&ask, 0), credit.ask(&ask)), (false, Admission::Throttled));
        let nothing = Ask { cap: Some(0), ..ask };
        for (single, answer) in [(true, Admission::Exempt), (false, Admission::Throttled)] {
            let ask = Ask { rtx_single: single, ..nothing };
            assert_eq!((Credit::new().lets_go_after(&ask, 0), Credit::new().ask(&ask)), (single, answer));
        }
    }

    #[test]
    fn what_may_follow_is_what_asking_would_let_down() {
        let ask = Ask { pacing_rate: 0, charge: 1_000, ..ASK };
        for below in 1..5_u32 {
            let mut credit = Credit::new();
            credit.charge(below * 1_000);
            let before = credit;
            assert!(before.lets_go_after(&Ask { rtx_single: true, ..ask }, 9_000));
            for ahead in 0..4 {
                let foreseen = before.lets_go_after(&ask, ahead * 1_000);
                assert_eq!(credit.ask(&ask) == Admission::Granted, foreseen, "{below} below, {ahead} ahead");
                credit.charge(1_000);
            }
        }
        assert!(Credit::new().lets_go_after(&ask, 9_000), "the device may give back at once");
    }
}
