//! What a drawn life made its target do, and where two runs of it differ first.
use super::super::compare::Difference;
use super::super::counts::{self, Counts};
use super::super::pace::{self, Field, Paced as _, SLACK, value};
use super::super::stack::{Stack, note_waits};
use super::end::{End, Look, Out};
use super::program::{Act, Program, Segment, Step};
use lowwater_core::base::Instant;
use lowwater_drill::Target;
use lowwater_posix::abi;
use lowwater_wire::tcp::TcpFlags;

/// A little more than a jiffy of 4 ms, in which the kernel counts silences, in microseconds.
pub(super) const JIFFY: u64 = 4_200;
/// TCP_CLOSE and TCP_SYN_SENT in TCP_INFO.
const CLOSED: u8 = 7;
const SYN_SENT: u8 = 2;
/// How late a call whose time is over may come back, in microseconds: the longest time that is drawn is 200 ms.
const WOKEN_LATE: u64 = SLACK + pace::most_late(200_000);
/// Fields of TCP_INFO that must be equal after each step: name, offset and length. Not the count of probes, which a segment resets or not by
/// how much memory the kernel has set aside for the socket, nor what the timers back off by (linux-differences.md).
pub(super) const FIELDS: &[Field] = &[
    ("state", 0, 1),
    ("ca_state", 1, 1),
    ("retransmits", 2, 1),
    ("options", 5, 1),
    ("wscale", 6, 1),
    ("snd_mss", 16, 4),
    ("rcv_mss", 20, 4),
    ("unacked", 24, 4),
    ("sacked", 28, 4),
    ("lost", 32, 4),
    ("retrans", 36, 4),
    ("pmtu", 60, 4),
    ("rcv_ssthresh", 64, 4),
    ("snd_ssthresh", 76, 4),
    ("snd_cwnd", 80, 4),
    ("advmss", 84, 4),
    ("total_retrans", 100, 4),
    ("bytes_acked", 120, 8),
    ("bytes_received", 128, 8),
    ("segs_out", 136, 4),
    ("segs_in", 140, 4),
    ("notsent_bytes", 144, 4),
    ("data_segs_in", 152, 4),
    ("data_segs_out", 156, 4),
    ("delivered", 192, 4),
    ("bytes_sent", 200, 8),
    ("bytes_retrans", 208, 8),
    ("dsack_dups", 216, 4),
    ("rcv_ooopack", 224, 4),
    ("snd_wnd", 228, 4),
    ("rcv_wnd", 232, 4),
    ("total_rto", 240, 2),
];
/// Those of a listener: how many connections wait for accept(), and how many may.
const LISTENER: &[Field] = &[("state", 0, 1), ("waiting", 24, 4), ("backlog", 28, 4)];
/// Segments with data that came.
const SEGMENTS_IN: Field = ("data_segs_in", 152, 4);
/// Segments that were sent.
const SEGMENTS_OUT: Field = ("segs_out", 136, 4);
/// Words of SO_MEMINFO that are told beside a difference: name, offset and length.
const MEMORY: &[Field] = &[("rmem_alloc", 0, 4), ("rcvbuf", 4, 4), ("sndbuf", 12, 4), ("wmem_queued", 20, 4)];
/// The timeout, and all times in TCP_INFO that are compared roughly.
const RTO: Field = ("rto", 8, 4);
const TIMES: &[Field] = &[RTO, ("rtt", 68, 4), ("rttvar", 72, 4)];
/// What one step did.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// When it came, in microseconds since the beginning.
    pub(super) at: u64,
    /// What its call came to.
    pub(super) ret: String,
    /// What left at once.
    pub(super) at_once: Vec<Out>,
    pub(super) look: Look,
    pub(super) counts: Counts,
    /// What timers made leave up to the next step.
    pub(super) later: Vec<Out>,
    pub(super) look_later: Look,
    /// When the call that waited came back and what it came to, if it did.
    pub(super) woken: Option<(u64, String)>,
    /// By how much timers were late then, in microseconds, and with them all steps behind this one.
    pub(super) late: u64,
}

/// All steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    pub(super) steps: Vec<Done>,
    /// The first step that came late, since the machine was busy: what follows shows nothing.
    pub(super) disturbed: Option<usize>,
}

/// Runs a program. `like` tells what the stack did: what a timer of the target makes leave is waited for, and everything behind it
/// is as late as that was. `late` is a run in which that happened: the pauses between steps are those of that run.
pub(super) fn run<T: Target>(
    target: &mut T,
    program: &Program,
    like: Option<&Trace>,
    late: Option<&Trace>,
) -> Result<Trace, String> {
    let mut end = End::open(target, program)?;
    let mut trace = Trace::default();
    for (i, step) in program.steps.iter().enumerate() {
        if pace::reach(&mut end, step.at) {
            trace.disturbed.get_or_insert(i);
        }
        let at = end.at(end.target.now());
        let ret = end.act(&step.act);
        let mut done = Done { at, ret, at_once: end.collect(), ..Done::default() };
        done.look = end.look();
        let next = program.steps.get(i + 1).map_or(program.end, |next| next.at);
        done.counts = counts::of(end.target, (step.at, next))?;
        let expected = like.and_then(|like| like.steps.get(i)).map_or(&[][..], |like| &like.later);
        let base = end.base;
        done.later = pace::pass(&mut end, (step.at, next), expected);
        if let Some(late) = late.and_then(|late| late.steps.get(i)).map(|done| done.late) {
            done.later.extend(pace::linger(&mut end, next, late));
        }
        note_waits(end.target, base, &mut done.later);
        done.late = end.base.nanos_since(base) / 1_000;
        done.woken = woken(&mut end, base);
        done.look_later = end.look();
        trace.steps.push(done);
    }
    Ok(trace)
}

/// Asks for the call that waited; times are counted from `base`.
fn woken<T: Target>(end: &mut End<'_, T>, base: Instant) -> Option<(u64, String)> {
    end.woken().map(|(at, what)| (at.nanos_since(base) / 1_000, what))
}

/// Runs a program on the stack at the times at which another run came, with timers that are as late: those that made something leave, as they
/// were there, and those that show nothing else, as one that gives up, as the kernel's commonly are. A step and all behind it come by so many microseconds later or, below 0, earlier.
pub(super) fn replay(program: &Program, like: &Trace, (from, by): (usize, i64)) -> Result<Trace, String> {
    let mut stack = Stack::at(program.place)?;
    let mut end = End::open(&mut stack, program)?;
    let mut trace = Trace::default();
    for (i, (step, like_step)) in program.steps.iter().zip(&like.steps).enumerate() {
        let shift = |i: usize, at: u64| at.saturating_add_signed(if i < from { 0 } else { by });
        // A run whose step came later than this counts for nothing.
        let came = like_step.at.min(step.at + pace::DISTURBED);
        end.target.advance_until(end.instant(shift(i, came)));
        let at = end.at(end.target.now());
        let ret = end.act(&step.act);
        let mut done = Done { at, ret, at_once: end.collect(), ..Done::default() };
        done.look = end.look();
        let next = program.steps.get(i + 1).map_or(program.end, |next| next.at);
        done.counts = counts::of(end.target, (step.at, next))?;
        for out in &like_step.later {
            // A part of a microsecond was cut off.
            let at = end.instant(shift(i, out.at) + 1);
            let step = end.instant(shift(i, like_step.at));
            end.target.follow(at, step);
            done.later.extend(end.collect());
        }
        let rest = end.instant(shift(i + 1, next) + like_step.late);
        end.target.drowse(rest);
        let base = end.base;
        done.later.extend(pace::linger(&mut end, shift(i + 1, next), like_step.late));
        note_waits(end.target, base, &mut done.later);
        done.woken = woken(&mut end, base);
        done.look_later = end.look();
        trace.steps.push(done);
    }
    Ok(trace)
}

/// Where `kernel` first does something else than `stack`.
pub(super) fn difference(program: &Program, stack: &Trace, kernel: &Trace) -> Option<Difference> {
    let pairs = stack.steps.iter().zip(&kernel.steps).zip(&program.steps);
    pairs.enumerate().find_map(|(number, ((stack, kernel), step))| {
        let left = is_left(&program.steps[..number], &step.act, kernel);
        let what = differ(step.at, stack, kernel, left)?;
        let memory = memory(&stack.look_later.memory, &kernel.look_later.memory);
        let all = kernel.later.len();
        let in_vain = stack.later.len() > all && same(&stack.later[..all], &kernel.later);
        let what = format!("{}: {what}{memory}", step.act);
        Some(Difference { step: number, what, border: false, in_vain })
    })
}

/// A timer of the kernel was so late after a step that acknowledgements left by themselves which on the stack had gone with what that timer
/// sent: two timers were due, one after the other.
pub(super) fn crossed(program: &Program, stack: &Trace, kernel: &Trace, step: usize) -> bool {
    let (Some(stack), Some(kernel)) = (stack.steps.get(step), kernel.steps.get(step)) else { return false };
    let at = program.steps.get(step).map_or(0, |step| step.at);
    same(&stack.at_once, &kernel.at_once) && went_before(at, &stack.later, &kernel.later)
}

/// The kernel has taken a byte of the segment's header for the urgent one, for which the stack waits (linux-differences.md): whoever reads it
/// sees more of that. The byte that the newest pointer names has not come, and is as near in front of the segment as its header is long (tcp_urg).
pub(super) fn takes_header(program: &Program, stack: &Trace, kernel: &Trace, step: usize) -> bool {
    let urgent = |trace: &Trace| {
        let ready = trace.steps.get(step).and_then(|done| done.look.ready.last().copied());
        ready.is_some_and(|ready| i32::from(ready) & abi::POLLPRI != 0)
    };
    let Some(Step { act: Act::Packet(segment), .. }) = program.steps.get(step) else { return false };
    let (before, own) = (before(program, step), segment.flags.contains(TcpFlags::URG));
    let Some(byte) = newest_urgent(&before).filter(|_| !own) else { return false };
    let came = before.iter().any(|s| byte.wrapping_sub(s.seq) < s.len.into());
    let near = (1..=segment.header_len()).contains(&segment.seq.wrapping_sub(byte));
    !urgent(stack) && urgent(kernel) && near && !came
}

/// A step writes when nothing was sent for longer than the timeout, by less than two jiffies. The kernel counts both in jiffies, the timeout
/// rounded up and the silence down, and may find that silence no longer than the timeout (tcp_slow_start_after_idle_check).
pub(super) fn is_hardly_idle(program: &Program, stack: &Trace, step: usize) -> bool {
    let writes = |act: &Act| matches!(act, Act::Write(..) | Act::Gather(..) | Act::Splice(..));
    let before = stack.steps.get(..step).unwrap_or_default();
    // The silence is that of this socket.
    let opened = program.steps.iter().take(step).rposition(|step| step.act == Act::Socket).unwrap_or(0);
    let sent = before
        .get(opened..)
        .unwrap_or_default()
        .iter()
        .flat_map(|done| done.at_once.iter().chain(&done.later));
    let last = sent.filter(|out| out.len > 0).map(|out| out.at).max();
    let info = before.last().and_then(|done| done.look_later.info.as_ref());
    let (Some(last), Some(info), Some(done)) = (last, info, stack.steps.get(step)) else { return false };
    let beyond = done.at.checked_sub(last + value(info, RTO));
    program.steps.get(step).is_some_and(|step| writes(&step.act)) && beyond.is_some_and(|us| us < 2 * JIFFY)
}

/// What the peer has sent to this socket before a step.
fn before(program: &Program, step: usize) -> Vec<&Segment> {
    let steps = program.steps[..step].iter().rev().take_while(|step| step.act != Act::Socket);
    let segments = steps.filter_map(|step| match &step.act {
        Act::Packet(segment) => Some(segment),
        _ => None,
    });
    segments.collect()
}

/// The last byte that was named as urgent; an earlier one counts for nothing once a later was (tcp_check_urg).
fn newest_urgent(segments: &[&Segment]) -> Option<u32> {
    let urgent = segments.iter().filter(|s| s.flags.contains(TcpFlags::URG));
    let named = urgent.map(|s| s.seq.wrapping_add(s.urgent.saturating_sub(1).into()));
    named.reduce(|newest, byte| if 0 < byte.wrapping_sub(newest).cast_signed() { byte } else { newest })
}

/// The kernel sent what the stack did, no later than its timers explain, with bare acknowledgements in front of what had left on the stack by then.
fn went_before(at: u64, stack: &[Out], kernel: &[Out]) -> bool {
    let (mut left, mut both) = (stack.iter().peekable(), Vec::new());
    for out in kernel {
        match left.peek() {
            Some(next) if next.same(out) => {
                both.push(out.clone());
                left.next();
            }
            Some(next) if out.is_bare() && next.repr.ack == out.repr.ack && next.at <= out.at => {}
            _ => return false,
        }
    }
    left.peek().is_none() && stack.len() < kernel.len() && pace::off(at, stack, &both).is_none()
}

/// Where what is held differs, too.
fn memory(stack: &[u8], kernel: &[u8]) -> String {
    let both = MEMORY.iter().map(|field| (field.0, value(stack, *field), value(kernel, *field)));
    let differ = both.filter(|(_, s, k)| s != k).map(|(name, s, k)| format!("{name}: stack {s}, kernel {k}"));
    let all: Vec<String> = differ.collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}

/// What the call tells is what the kernel has left of the numbers of a connection that was dissolved (linux-differences.md).
fn is_left(before: &[Step], act: &Act, kernel: &Done) -> bool {
    let closed = kernel.look.info.as_ref().is_some_and(|info| info.first() == Some(&CLOSED));
    let dissolves = |step: &Step| matches!(step.act, Act::Shutdown(_) | Act::Disconnect);
    closed && matches!(act, Act::Ioctl("SIOCOUTQ" | "SIOCOUTQNSD")) && before.iter().any(dissolves)
}

/// Where a step did something else on the kernel; what its call told counts unless it is `left` of something.
fn differ(at: u64, stack: &Done, kernel: &Done, left: bool) -> Option<String> {
    if stack.ret != kernel.ret && !left {
        return Some(format!("result: stack {}, kernel {}", stack.ret, kernel.ret));
    }
    // What leaves a moment later leaves in time, and what is seen in between says nothing.
    let in_step = stack.at_once.len() == kernel.at_once.len();
    let all = |done: &Done| -> Vec<Out> { done.at_once.iter().chain(&done.later).cloned().collect() };
    let (ours, theirs) = (all(stack), all(kernel));
    if ours.len() != theirs.len() || !ours.iter().zip(&theirs).all(|(s, k)| s.same(k)) {
        let part = if in_step && same(&stack.at_once, &kernel.at_once) { "later" } else { "sent" };
        return Some(format!("{part}: stack {}, kernel {}", list(&ours), list(&theirs)));
    }
    if let Some((s, k)) = pace::off(at, &ours, &theirs) {
        return Some(format!("{s}: stack {} us, kernel {} us", s.at, k.at));
    }
    if in_step {
        let told = !left_soon(stack) && !left_soon(kernel);
        let counted = || told.then(|| counts::differ(&stack.counts, &kernel.counts)).flatten();
        if let Some(what) = looks(&stack.look, &kernel.look).or_else(counted) {
            return Some(what);
        }
    }
    if !came_alike(stack.woken.as_ref(), kernel.woken.as_ref(), kernel.late) {
        return Some(format!("came back: stack {:?}, kernel {:?}", stack.woken, kernel.woken));
    }
    looks(&stack.look_later, &kernel.look_later)
        .map(|what| format!("later: {what}"))
        .or_else(|| times(&stack.look_later, &kernel.look_later))
}

/// Something left so shortly after the step that counters, which are asked for last, may tell of it on one side and not on the other: a jiffy's
/// timer has run out by then or has not.
fn left_soon(done: &Done) -> bool {
    done.later.first().is_some_and(|out| out.at.saturating_sub(done.at) < counts::IDLE)
}

/// Both calls still wait, or came back with the same at the same time, as far as timers that were late tell.
fn came_alike(stack: Option<&(u64, String)>, kernel: Option<&(u64, String)>, late: u64) -> bool {
    match (stack, kernel) {
        (None, None) => true,
        (Some((s, ours)), Some((k, theirs))) => {
            ours == theirs && k + SLACK >= *s && *k <= s + late + WOKEN_LATE
        }
        _ => false,
    }
}

fn same(stack: &[Out], kernel: &[Out]) -> bool {
    stack.len() == kernel.len() && stack.iter().zip(kernel).all(|(s, k)| s.same(k))
}

fn list(all: &[Out]) -> String {
    let texts: Vec<String> = all.iter().map(Out::to_string).collect();
    format!("[{}]", texts.join(", "))
}

fn looks(stack: &Look, kernel: &Look) -> Option<String> {
    let mut all = Vec::new();
    if stack.ready != kernel.ready {
        all.push(format!("poll: stack {:x?}, kernel {:x?}", stack.ready, kernel.ready));
    }
    if stack.edges != kernel.edges {
        all.push(format!("epoll: stack {:x?}, kernel {:x?}", stack.edges, kernel.edges));
    }
    if let (Some(s), Some(k)) = (&stack.listener, &kernel.listener) {
        let both = LISTENER.iter().map(|field| (field.0, value(s, *field), value(k, *field)));
        let differ = both.filter(|(_, s, k)| s != k);
        all.extend(differ.map(|(name, s, k)| format!("listener {name}: stack {s}, kernel {k}")));
    }
    if let (Some(s), Some(k)) = (&stack.info, &kernel.info) {
        // What a connection that is over still counts says nothing.
        let over = [s, k].iter().all(|info| info.first() == Some(&CLOSED));
        // Nor does a guess of the peer's segments before there was one.
        let silent = value(k, SEGMENTS_IN) == 0;
        // Nor what a connection is to be whose SYN waits for the first write (linux-differences.md).
        let waits =
            [s, k].iter().all(|info| info.first() == Some(&SYN_SENT) && value(info, SEGMENTS_OUT) == 0);
        let over = over || waits;
        let says = |name: &str| (!over || name == "state") && !(silent && name == "rcv_mss");
        let both = FIELDS
            .iter()
            .filter(|(name, ..)| says(name))
            .map(|field| (field.0, value(s, *field), value(k, *field)));
        let differ = both.filter(|(_, s, k)| s != k);
        all.extend(differ.map(|(name, s, k)| format!("{name}: stack {s}, kernel {k}")));
    }
    (!all.is_empty()).then(|| all.join("; "))
}

fn times(stack: &Look, kernel: &Look) -> Option<String> {
    let (stack, kernel) = (stack.info.as_ref()?, kernel.info.as_ref()?);
    TIMES.iter().find_map(|field| {
        let (s, k) = (value(stack, *field), value(kernel, *field));
        let share = if field.0 == "rttvar" { 3 } else { 8 };
        (s.abs_diff(k) > s / share + SLACK).then(|| format!("{}: stack {s} us, kernel {k} us", field.0))
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::stack::Place;
    use super::super::program::Segment;
    use super::*;
    use lowwater_wire::tcp::{TcpOptions, TcpRepr};

    fn out(at: u64, len: u32) -> Out {
        let repr = TcpRepr {
            src_port: 1,
            dst_port: 2,
            seq: 1,
            ack: 1,
            flags: TcpFlags::ACK,
            window: 10,
            urgent: 0,
            options: TcpOptions::default(),
        };
        Out { at, repr, len, header: (0, 64), waited: Some(40_000) }
    }

    #[test]
    fn timers_cross_only_where_the_first_is_as_late_as_it_may_be() {
        let stack = [out(100_000, 100)];
        let kernel = |late: u64| [out(100_500, 0), out(100_000 + late, 100)];
        assert!(went_before(60_000, &stack, &kernel(9_000)));
        // Whatever came later than that passed before.
        assert!(!went_before(60_000, &stack, &kernel(60_000)));
        assert!(!went_before(60_000, &stack, &stack), "nothing left by itself");
    }

    #[test]
    fn a_byte_of_a_header_is_no_urgent_one() {
        let segment = |seq, len, urgent: Option<u16>| Segment {
            flags: TcpFlags::ACK | urgent.map_or(TcpFlags::EMPTY, |_| TcpFlags::URG),
            seq,
            len,
            ack: 1,
            window: 0,
            urgent: urgent.unwrap_or(0),
            tos: 0,
            stamp: None,
            sacks: vec![],
            offer: None,
        };
        let done = |ready| Done { look: Look { ready: vec![ready], ..Look::default() }, ..Done::default() };
        let (pollin, urgent) = (abi::POLLIN as i16, (abi::POLLIN | abi::POLLPRI) as i16);
        let taken = |segments: &[Segment], [stack, kernel]: [i16; 2]| {
            let step = |segment: &Segment| Step { at: 0, act: Act::Packet(segment.clone()) };
            let steps: Vec<Step> = segments.iter().map(step).collect();
            let last = steps.len() - 1;
            let trace = |ready| Trace { steps: vec![done(ready); last + 1], disturbed: None };
            let program = Program {
                place: Place::default(),
                sysctls: vec![],
                epoll: false,
                blocking: false,
                crowd: false,
                steps,
                end: 0,
            };
            takes_header(&program, &trace(stack), &trace(kernel), last)
        };
        let mark = |urgent| segment(1_000, 0, Some(urgent));
        let plain = |seq| segment(seq, 10, None);
        let stamped = Segment { stamp: Some((1, 0)), sacks: vec![(1, 2)], ..plain(1_044) };
        for (segments, wanted) in [
            (vec![mark(0), plain(1_001)], true),
            (vec![mark(1), plain(1_020)], true),
            (vec![mark(0), plain(1_000)], false),
            (vec![mark(9), plain(1_001)], false),
            // As long as this header is.
            (vec![mark(0), plain(1_021)], false),
            (vec![mark(0), stamped.clone()], true),
            (vec![mark(0), Segment { seq: 1_045, ..stamped }], false),
            // The byte came with its own segment, with another one, or does not count any more; or the segment names one itself.
            (vec![segment(1_000, 10, Some(10)), plain(1_010)], false),
            (vec![segment(1_000, 10, Some(10)), segment(1_010, 10, Some(10))], false),
            (vec![segment(1_000, 10, Some(11)), plain(1_011)], true),
            (vec![mark(9), plain(1_000), plain(1_010)], false),
            (vec![mark(0), mark(300), plain(1_001)], false),
            (vec![mark(300), mark(0), plain(1_001)], false),
            (vec![mark(0), segment(1_001, 10, Some(10))], false),
        ] {
            assert_eq!(taken(&segments, [pollin, urgent]), wanted, "{segments:?}");
            assert!(!taken(&segments, [urgent, urgent]) && !taken(&segments, [urgent, pollin]));
        }
    }

    #[test]
    fn counters_are_not_compared_where_something_leaves_just_after_the_step() {
        let done = |count, after: u64| {
            let counts = vec![("TcpOutSegs".to_owned(), count)];
            Done { at: 1_000, later: vec![out(1_000 + after, 0)], counts, ..Done::default() }
        };
        let differs = |stack, kernel| differ(1_000, &stack, &kernel, false).is_some();
        assert!(!differs(done(1, 1_000), done(2, 9_000)));
        assert!(!differs(done(1, 9_000), done(2, 1_000)));
        assert!(differs(done(1, 9_000), done(2, 9_000)));
    }

    #[test]
    fn what_a_dissolved_socket_tells_of_its_queue_is_not_compared() {
        let step = |act| Step { at: 0, act };
        let told = |ret: &str, state| {
            let look = Look { info: Some(vec![state]), ..Look::default() };
            Done { ret: ret.to_owned(), look, ..Done::default() }
        };
        let ask = Act::Ioctl("SIOCOUTQNSD");
        for (before, state, left) in [
            (vec![step(Act::Shutdown(2))], 7, true),
            (vec![step(Act::Disconnect)], 7, true),
            (vec![step(Act::Close)], 7, false),
            (vec![step(Act::Shutdown(2))], 4, false),
        ] {
            let (stack, kernel) = (told("0", state), told("2", state));
            let left_here = is_left(&before, &ask, &kernel);
            assert_eq!((left_here, differ(0, &stack, &kernel, left_here).is_none()), (left, left));
            assert!(!is_left(&before, &Act::Ioctl("SIOCINQ"), &kernel));
        }
    }

    #[test]
    fn a_silence_is_that_of_one_socket() {
        // A segment at 0, nothing for the timeout of 200 ms and five more, and a write.
        let mut info = vec![0; 256];
        info[8..12].copy_from_slice(&200_000_u32.to_ne_bytes());
        let look = Look { info: Some(info), ..Look::default() };
        let done = |at, sent| Done { at, at_once: sent, look_later: look.clone(), ..Done::default() };
        let hardly = |between: Act| {
            let acts = [Act::Write(100, 0), between, Act::Write(100, 0)];
            let program = Program {
                place: Place::default(),
                sysctls: vec![],
                epoll: false,
                blocking: false,
                crowd: false,
                steps: acts.into_iter().map(|act| Step { at: 0, act }).collect(),
                end: 0,
            };
            let steps = vec![done(0, vec![out(0, 100)]), done(100_000, vec![]), done(205_000, vec![])];
            is_hardly_idle(&program, &Trace { steps, disturbed: None }, 2)
        };
        assert_eq!([hardly(Act::Write(0, 0)), hardly(Act::Socket)], [true, false]);
    }
}
