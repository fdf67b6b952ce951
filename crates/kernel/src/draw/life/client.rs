//! How a drawn life with Fast Open of a client begins: a connection that teaches a cookie, and one whose SYN carries data.
use super::super::network::Dice;
use super::super::program::Flavours;
use super::opening::{Plan, disturbance};
use super::program::{Act, Cookie};
use lowwater_posix::abi;

/// Acknowledgments of what disturbs it: of the SYN alone, and of what nobody sent.
const ACKS: [u32; 5] = [0, 1, 1, 2, 1_000];

/// What a SYN-ACK acknowledges of a SYN with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covers {
    All,
    Syn,
    /// The SYN and half of the data.
    Half,
    /// More than was sent.
    Beyond,
}

impl Covers {
    /// The acknowledgment where `high` is one past everything that was sent.
    pub(super) const fn ack(self, high: u32) -> u32 {
        match self {
            Self::All => high,
            Self::Syn => 1,
            Self::Half => high.div_ceil(2),
            Self::Beyond => high + 100,
        }
    }
}

/// Settings: cookies, none, or no Fast Open; and how long it rests after a path that seems to drop it.
pub(super) fn sysctls(dice: &mut Dice, all: &mut Vec<(&'static str, u64)>) {
    all.push(("tcp_fastopen", dice.pick(&[1, 1, 1, 5, 5, 3, 0])));
    if dice.percent(15) {
        all.push(("tcp_fastopen_blackhole_timeout_sec", 3_600));
    }
}

/// Whether data may go with a SYN that has no cookie.
pub(super) fn is_free(sysctls: &[(&str, u64)]) -> bool {
    sysctls.iter().any(|(name, value)| *name == "tcp_fastopen" && value & 4 != 0)
}

pub(super) fn draw(dice: &mut Dice, words: &Flavours, free: bool, acts: &mut Vec<(u64, Plan)>) {
    let set = acts.len();
    if dice.percent(75) {
        opens(dice, !free, acts);
        acts.push((dice.pick(&[0, 50_000]), given(dice, Covers::Syn)));
        // Its end leaves the port free at once.
        acts.push((20_000, Plan::Reset));
        acts.push((20_000, Plan::Act(Act::Socket)));
        // What was set of the first socket.
        let again: Vec<Act> = acts[..set].iter().filter_map(|(_, plan)| plan.setting()).collect();
        acts.extend(again.into_iter().map(|act| (0, Plan::Act(act))));
    }
    opens(dice, false, acts);
    for _ in 0..dice.pick(&[0, 0, 0, 1, 2]) {
        let pause = dice.pick(&[0, 20_000, 100_000, 1_300_000]);
        let plan = meanwhile(dice);
        acts.push((pause, plan));
    }
    let pause = dice.pick(&[0, 50_000, 50_000, 1_200_000]);
    answers(dice, words, pause, acts);
}

/// The calls that open a connection, by either way. Where no cookie is asked for, a SYN with no data would have an empty segment beside it
/// in Linux's queue (linux-differences.md).
fn opens(dice: &mut Dice, asks: bool, acts: &mut Vec<(u64, Plan)>) {
    let len = if asks { length(dice) } else { length(dice).max(1) };
    if !asks && dice.percent(15) {
        acts.push((0, Plan::Act(Act::Set("TCP_FASTOPEN_NO_COOKIE", 1))));
    }
    match dice.range(0, 5) {
        0 | 1 => {
            acts.push((0, Plan::Act(Act::Set("TCP_FASTOPEN_CONNECT", 1))));
            acts.push((0, Plan::Act(Act::Connect)));
            acts.push((dice.pick(&[0, 0, 30_000]), Plan::Act(Act::Write(len, 0))));
        }
        _ => {
            let more = dice.pick(&[0, 0, 0, abi::MSG_MORE, abi::MSG_EOR]);
            acts.push((0, Plan::Act(Act::Fast(len, abi::MSG_FASTOPEN | more))));
        }
    }
}

fn length(dice: &mut Dice) -> usize {
    match dice.range(0, 5) {
        0 => 0,
        1 => dice.range(1, 10) as usize,
        2 => dice.range(100, 1_500) as usize,
        3 => dice.pick(&[1_000, 1_400, 1_460, 2_920]),
        _ => dice.range(1_000, 20_000) as usize,
    }
}

/// What may come while the SYN is out.
fn meanwhile(dice: &mut Dice) -> Plan {
    let len = length(dice);
    match dice.range(0, 9) {
        0 | 1 => Plan::Act(Act::Write(len, 0)),
        2 => Plan::Act(Act::Fast(len, abi::MSG_FASTOPEN)),
        3 => Plan::Act(Act::Connect),
        4 => Plan::Act(Act::Read(1_000, 0)),
        5 => Plan::Act(Act::Shutdown(dice.pick(&[0, 1, 1, 2]))),
        6 => {
            let (kind, code, mtu) =
                dice.pick(&[(3, 4, 1_000), (3, 4, 600), (3, 1, 0), (3, 3, 0), (11, 0, 0)]);
            Plan::Act(Act::Icmp(kind, code, mtu, 0))
        }
        7 => Plan::Syn,
        _ => disturbance(dice, &ACKS),
    }
}

/// A SYN-ACK, perhaps with a cookie and with data of its own.
fn given(dice: &mut Dice, covers: Covers) -> Plan {
    let cookie = dice.percent(80).then(|| Cookie::Given(dice.pick(&[4, 8, 8, 8, 14, 16])));
    Plan::Answer(covers, cookie, dice.pick(&[0, 0, 0, 0, 100, 1_000]))
}

fn answers(dice: &mut Dice, words: &Flavours, pause: u64, acts: &mut Vec<(u64, Plan)>) {
    let covers =
        [Covers::All, Covers::All, Covers::All, Covers::Syn, Covers::Syn, Covers::Half, Covers::Beyond];
    let covers = dice.pick(&covers);
    let answer = given(dice, covers);
    if words.has("simultaneous") && dice.percent(50) {
        acts.push((pause, Plan::Syn));
    }
    acts.push((pause, answer));
    if covers == Covers::Beyond || dice.percent(15) {
        let again = given(dice, Covers::All);
        acts.push((dice.pick(&[0, 50_000, 1_300_000]), again));
    }
}
