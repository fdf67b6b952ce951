//! What a program made its target do.
use super::counts::{self, Counts};
use super::pace::{self, DISTURBED, Field, Paced as _};
use super::packet::Seen;
use super::peer::Peer;
use super::program::{Act, Program};
use super::stack::{self, Stack};
use lowwater_core::base::{Duration, Instant};
use lowwater_drill::{ORIGIN, Target};

/// Fields of TCP_INFO that must be equal after each step: name, offset and length.
pub(super) const FIELDS: &[Field] = &[
    ("state", 0, 1),
    ("ca_state", 1, 1),
    ("retransmits", 2, 1),
    ("probes", 3, 1),
    ("backoff", 4, 1),
    ("options", 5, 1),
    ("snd_mss", 16, 4),
    ("unacked", 24, 4),
    ("sacked", 28, 4),
    ("lost", 32, 4),
    ("retrans", 36, 4),
    ("snd_ssthresh", 76, 4),
    ("snd_cwnd", 80, 4),
    ("reordering", 88, 4),
    ("total_retrans", 100, 4),
    ("bytes_acked", 120, 8),
    ("notsent_bytes", 144, 4),
    ("data_segs_out", 156, 4),
    ("delivered", 192, 4),
    ("delivered_ce", 196, 4),
    ("bytes_sent", 200, 8),
    ("bytes_retrans", 208, 8),
    ("dsack_dups", 216, 4),
    ("reord_seen", 220, 4),
    ("total_rto", 240, 2),
    ("total_rto_recoveries", 242, 2),
];
/// Times in TCP_INFO, which are compared roughly: rttvar, the third, most.
pub(super) const TIMES: &[Field] = &[("rto", 8, 4), ("rtt", 68, 4), ("rttvar", 72, 4), ("min_rtt", 148, 4)];
/// Values in the order of [`FIELDS`] or [`TIMES`].
pub(super) type Values = Vec<u64>;

/// What one step did.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// When it came, in nanoseconds since the SYN.
    pub(super) at_ns: u64,
    /// By how many microseconds timers had been late up to there.
    pub(super) late: u64,
    /// Result of its call.
    pub(super) ret: i64,
    /// What left at once.
    pub(super) at_once: Vec<Seen>,
    /// TCP_INFO then, and the counters.
    pub(super) info: Values,
    pub(super) counts: Counts,
    /// What timers made leave up to the next step.
    pub(super) later: Vec<Seen>,
    /// TCP_INFO then, and its times.
    pub(super) info_later: Values,
    pub(super) times: Values,
    /// Packets that left at once, super-packets whole: those that the time between them is put before, and how many of them went again in front of
    /// new data. Of a replay.
    pub(super) parts: (usize, usize),
}

/// How the times of a replay are other than those of the run that it follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// This step and all behind it come by so many microseconds later or, below 0, earlier.
    pub(super) from: usize,
    pub(super) by: i64,
    /// So many microseconds pass between packets of one step that the kernel may stamp by two looks at the clock.
    pub(super) apart: u64,
    /// They pass only before this packet of this step.
    pub(super) only: Option<(usize, usize)>,
}

/// All steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    pub(super) steps: Vec<Done>,
    /// The first step that came late, since the machine was busy: what follows shows nothing.
    pub(super) disturbed: Option<usize>,
    /// When the SYN left, what is between two ticks of the target's clock, and how far behind one the SYN was.
    pub(super) begun: Instant,
    pub(super) tick_ns: u64,
    pub(super) past_tick_ns: u64,
    /// By how many microseconds the end of the handshake was late.
    pub(super) opened_late: u64,
    /// When it was over, in nanoseconds since the SYN.
    pub(super) end_ns: u64,
}

/// Runs a program. `like` tells what the stack did: what a timer of the target makes leave is waited for, and everything behind it
/// is as late as that was.
pub(super) fn run<T: Target>(
    target: &mut T,
    program: &Program,
    like: Option<&Trace>,
) -> Result<Trace, String> {
    let mut peer = Peer::open(target, &program.setup)?;
    let begun = peer.base;
    let opened_late = peer.late.as_nanos() as u64 / 1_000;
    let mut trace = Trace { begun, opened_late, ..Trace::default() };
    if peer.late > Duration::from_micros(DISTURBED) {
        trace.disturbed = Some(0);
    }
    for (i, step) in program.steps.iter().enumerate() {
        if pace::reach(&mut peer, step.at) {
            trace.disturbed.get_or_insert(i);
        }
        if i == 0 {
            peer.collect();
        }
        let at_ns = peer.target.now().nanos_since(begun);
        let late = peer.base.nanos_since(begun) / 1_000;
        let ret = peer.act(step);
        let mut done = Done { at_ns, late, ret, at_once: peer.collect(), ..Done::default() };
        done.info = values(&peer.info(), FIELDS);
        let next = program.steps.get(i + 1).map_or(program.end, |next| next.at);
        done.counts = counts::of(peer.target, (step.at, next))?;
        let expected = like.and_then(|like| like.steps.get(i)).map_or(&[][..], |like| &like.later);
        done.later = pace::pass(&mut peer, (step.at, next), expected);
        stack::note_waits(peer.target, peer.base, &mut done.later);
        let info = peer.info();
        (done.info_later, done.times) = (values(&info, FIELDS), values(&info, TIMES));
        trace.steps.push(done);
    }
    trace.end_ns = peer.target.now().nanos_since(begun);
    Ok(trace)
}

/// Runs a program on the stack at the times at which another run came: steps that were some microseconds early or late against each
/// other, and timers that fired late, decide what is a reordering, how old the head is when a packet may be deferred, or which
/// millisecond a timestamp says and which tick CUBIC counts. Where packets are to lie apart, `plain` is the replay in which they do not.
pub(super) fn replay(
    program: &Program,
    like: &Trace,
    moment: Moved,
    plain: Option<&Trace>,
) -> Result<Trace, String> {
    let mut stack = Stack::starting(ORIGIN.plus_nanos(like.past_tick_ns), program.setup.headers)?;
    // CUBIC looks at its curve once per tick, which is a millisecond where the other run was the stack's.
    stack.set_sysctl("cubic_tick_us", &(like.tick_ns / 1_000).max(1_000).to_string())?;
    let mut setup = program.setup.clone();
    setup.late = like.opened_late;
    let mut peer = Peer::open(&mut stack, &setup)?;
    let begun = peer.base;
    let (mut trace, mut nxt) = (Trace { begun, ..Trace::default() }, 1);
    for (i, (step, like_step)) in program.steps.iter().zip(&like.steps).enumerate() {
        let moved = |i: usize, at_ns: u64| {
            at_ns.saturating_add_signed(if i < moment.from { 0 } else { moment.by * 1_000 })
        };
        peer.base = begun + Duration::from_micros(like_step.late);
        peer.target.advance_until(begun.plus_nanos(moved(i, like_step.at_ns)));
        if i == 0 {
            peer.collect();
        }
        let parts = plain.and_then(|plain| plain.steps.get(i)).map_or((0, 0), |done| done.parts);
        peer.target.set_pauses(pauses(&step.act, parts, moment.between(i)));
        let ret = peer.act(step);
        let mut done = Done { ret, at_once: peer.collect(), ..Done::default() };
        done.parts = peer.parts(&mut nxt);
        peer.target.set_pauses(Vec::new());
        done.info = values(&peer.info(), FIELDS);
        let next = program.steps.get(i + 1).map_or(program.end, |next| next.at);
        done.counts = counts::of(peer.target, (step.at, next))?;
        for out in &like_step.later {
            let at_ns = (peer.base + Duration::from_micros(out.at)).nanos_since(begun);
            let [at, step] = [at_ns, like_step.at_ns].map(|ns| begun.plus_nanos(moved(i, ns)));
            peer.target.follow(at, step);
            done.later.extend(peer.collect());
        }
        let end = like.steps.get(i + 1).map_or(like.end_ns, |next| next.at_ns);
        peer.target.advance_until(begun.plus_nanos(moved(i + 1, end)));
        done.later.extend(peer.collect());
        stack::note_waits(peer.target, peer.base, &mut done.later);
        let info = peer.info();
        (done.info_later, done.times) = (values(&info, FIELDS), values(&info, TIMES));
        trace.steps.push(done);
    }
    Ok(trace)
}

impl Moved {
    /// Microseconds between packets of a step, and the only packet that they pass before.
    fn between(&self, step: usize) -> (u64, Option<usize>) {
        let here = self.only.is_none_or(|(only, _)| only == step);
        (if here { self.apart } else { 0 }, self.only.map(|(_, packet)| packet))
    }
}

/// Time before each packet of a step. The kernel stamps what an acknowledgement has sent again with when that came, and new data behind it with
/// when that is sent (`tcp_mstamp_refresh` in `tcp_write_xmit`); a write looks at the clock for each push, of one packet or of several.
fn pauses(act: &Act, (all, again): (usize, usize), (apart, only): (u64, Option<usize>)) -> Vec<Duration> {
    let apart = Duration::from_micros(apart);
    let before = |packet| vec![Duration::ZERO; packet].into_iter().chain([apart]).collect();
    match (act, only) {
        _ if apart == Duration::ZERO => Vec::new(),
        (_, Some(packet)) => before(packet),
        (Act::Answer(_), None) => before(again),
        (Act::Write(_) | Act::Shutdown, None) => vec![apart; all],
    }
}

fn values(info: &[u8], fields: &[Field]) -> Values {
    fields.iter().map(|field| pace::value(info, *field)).collect()
}
