//! What a socket says once for messages and notifications of an association; it is inherited from the socket when one begins.
use super::layout::Layout;
use crate::abi::*;
use lowwater_core::base::Duration;
use lowwater_core::sctp::{Reliability, SctpOptions, Subscriptions};

/// What subscribes to notifications of these types.
const EVENTS: &[(i32, Subscriptions)] = &[
    (SCTP_ASSOC_CHANGE, Subscriptions::ASSOC),
    (SCTP_PEER_ADDR_CHANGE, Subscriptions::PATH),
    (SCTP_SEND_FAILED, Subscriptions::SEND_FAILED),
    (SCTP_SEND_FAILED_EVENT, Subscriptions::SEND_FAILED),
    (SCTP_REMOTE_ERROR, Subscriptions::REMOTE_ERROR),
    (SCTP_SHUTDOWN_EVENT, Subscriptions::SHUTDOWN),
    (SCTP_PARTIAL_DELIVERY_EVENT, Subscriptions::PARTIAL_DELIVERY),
    (SCTP_ADAPTATION_INDICATION, Subscriptions::ADAPTATION),
    (SCTP_SENDER_DRY_EVENT, Subscriptions::SENDER_DRY),
    (SCTP_STREAM_RESET_EVENT, Subscriptions::STREAM_RESET),
    (SCTP_ASSOC_RESET_EVENT, Subscriptions::ASSOC_RESET),
    (SCTP_STREAM_CHANGE_EVENT, Subscriptions::STREAM_CHANGE),
];

/// The types of notifications that are wanted, those among them that never come (SCTP_EVENTS, SCTP_EVENT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    wanted: u16,
    /// In which forms messages that failed were told when that was wanted last.
    failed: u16,
}

/// The bits of the two forms in which a message that failed is told.
const FAILED: u16 =
    1 << (SCTP_SEND_FAILED - SCTP_SN_TYPE_BASE) | 1 << (SCTP_SEND_FAILED_EVENT - SCTP_SN_TYPE_BASE);

impl Events {
    /// How many types there are.
    pub(crate) const COUNT: usize = (SCTP_SEND_FAILED_EVENT - SCTP_SN_TYPE_BASE + 1) as usize;

    /// The bit of a type; `None` for what is no type.
    fn bit(ty: i32) -> Option<u16> {
        let types = SCTP_SN_TYPE_BASE..=SCTP_SEND_FAILED_EVENT;
        types.contains(&ty).then(|| 1 << (ty - SCTP_SN_TYPE_BASE))
    }

    /// It is a type.
    pub(crate) fn knows(ty: i32) -> bool {
        Self::bit(ty).is_some()
    }

    pub(crate) fn has(self, ty: i32) -> bool {
        Self::bit(ty).is_some_and(|bit| self.wanted & bit != 0)
    }

    /// A message that failed is told in this form; one that failed while that was wanted also afterwards, as whatever is queued.
    pub(crate) fn tells_failed(self, ty: i32) -> bool {
        let now = self.wanted & FAILED;
        let forms = if now == 0 { self.failed } else { now };
        Self::bit(ty).is_some_and(|bit| forms & bit != 0)
    }

    pub(crate) fn set(&mut self, ty: i32, on: bool) {
        let bit = Self::bit(ty).unwrap_or(0);
        self.wanted = if on { self.wanted | bit } else { self.wanted & !bit };
        if self.wanted & FAILED != 0 {
            self.failed = self.wanted & FAILED;
        }
    }

    /// What the stack is to tell.
    pub(crate) fn subscriptions(self) -> Subscriptions {
        let wanted = EVENTS.iter().filter(|(ty, _)| self.has(*ty));
        wanted.fold(Subscriptions::NONE, |all, (_, one)| all.with(*one))
    }
}

/// What a message carries (SCTP_SNDRCV); also what those carry whose sender says nothing (SCTP_DEFAULT_SEND_PARAM,
/// SCTP_DEFAULT_SNDINFO, SCTP_DEFAULT_PRINFO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sinfo {
    pub(crate) stream: u16,
    pub(crate) flags: i32,
    /// Byte for byte the application's.
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    /// Milliseconds, or what else the policy in the flags makes of it.
    pub(crate) timetolive: u32,
    pub(crate) assoc: u32,
}

impl Sinfo {
    /// From a struct sctp_sndinfo; it has no lifetime.
    pub(crate) fn of_sndinfo(of: &Layout, bytes: &[u8]) -> Self {
        let n = |field| of.number(bytes, field) as u32;
        Self {
            stream: n("snd_sid") as u16,
            flags: n("snd_flags") as i32,
            ppid: n("snd_ppid"),
            context: n("snd_context"),
            timetolive: 0,
            assoc: n("snd_assoc_id"),
        }
    }

    /// From a struct sctp_sndrcvinfo.
    pub(crate) fn of_sndrcvinfo(of: &Layout, bytes: &[u8]) -> Self {
        let n = |field| of.number(bytes, field) as u32;
        Self {
            stream: n("sinfo_stream") as u16,
            flags: n("sinfo_flags") as i32,
            ppid: n("sinfo_ppid"),
            context: n("sinfo_context"),
            timetolive: n("sinfo_timetolive"),
            assoc: n("sinfo_assoc_id"),
        }
    }

    pub(crate) const fn has(&self, flag: i32) -> bool {
        self.flags & flag != 0
    }

    /// When it is given up (SCTP_PR_SCTP_TTL and the like).
    pub(crate) const fn policy(&self) -> i32 {
        self.flags & SCTP_PR_SCTP_MASK
    }

    /// The same as the stack has it. Without a policy a number is a lifetime too.
    pub(crate) const fn reliability(&self) -> Reliability {
        let value = self.timetolive;
        match self.policy() {
            SCTP_PR_SCTP_RTX => Reliability::Retransmissions(value),
            SCTP_PR_SCTP_PRIO => Reliability::Priority(value),
            _ if value > 0 => Reliability::Lifetime(Duration::from_millis(value as u64)),
            _ => Reliability::Full,
        }
    }

    pub(crate) const fn set_policy(&mut self, policy: i32, value: u32) {
        self.flags = self.flags & !SCTP_PR_SCTP_MASK | policy;
        self.timetolive = if policy == SCTP_PR_SCTP_NONE { 0 } else { value };
    }
}

/// When acknowledgements leave (SCTP_DELAYED_SACK): switched off, the rest is kept for when they are delayed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sack {
    pub(crate) delay_ms: u32,
    pub(crate) freq: u32,
    pub(crate) delayed: bool,
}

impl Sack {
    fn new(options: &SctpOptions) -> Self {
        Self { delay_ms: options.sack_delay_ms, freq: options.sack_freq, delayed: options.sack_delay_ms > 0 }
    }

    /// `sctp_apply_asoc_delayed_ack`: zeros change nothing, every packet is no delay.
    pub(crate) const fn apply(&mut self, delay_ms: u32, freq: u32) {
        if delay_ms > 0 {
            (self.delay_ms, self.delayed) = (delay_ms, true);
        }
        if freq == 1 {
            self.delayed = false;
        } else if freq > 1 {
            (self.freq, self.delayed) = (freq, true);
        }
    }

    /// Tells the stack.
    pub(crate) fn tell(self, options: &mut SctpOptions) {
        options.sack_delay_ms = if self.delayed { self.delay_ms } else { 0 };
        options.sack_freq = self.freq;
    }
}

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) events: Events,
    pub(crate) defaults: Sinfo,
    /// SCTP_CONTEXT: what the reader is told with every message.
    pub(crate) context: u32,
    pub(crate) sack: Sack,
}

impl Manner {
    pub(crate) fn new(options: &SctpOptions) -> Self {
        let sack = Sack::new(options);
        Self { events: Events::default(), defaults: Sinfo::default(), context: 0, sack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_never_come_are_remembered_and_subscribe_to_nothing() {
        let mut events = Events::default();
        events.set(SCTP_AUTHENTICATION_EVENT, true);
        events.set(SCTP_SEND_FAILED_EVENT + 1, true);
        assert!(events.has(SCTP_AUTHENTICATION_EVENT) && !events.has(SCTP_SEND_FAILED_EVENT + 1));
        assert_eq!(events.subscriptions(), Subscriptions::NONE);
        events.set(SCTP_SEND_FAILED_EVENT, true);
        events.set(SCTP_ASSOC_CHANGE, true);
        let both = Subscriptions::ASSOC.with(Subscriptions::SEND_FAILED);
        assert_eq!(events.subscriptions(), both);
        events.set(SCTP_ASSOC_CHANGE, false);
        assert_eq!(events.subscriptions(), Subscriptions::SEND_FAILED);
    }
}
