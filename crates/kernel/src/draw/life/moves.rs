//! What happens next in a drawn life: the peer's segments and the application's calls, each likelier where a flavour asks for it.
use super::super::network::Dice;
use super::super::program::Flavours;
use super::super::stack::Stack;
use super::author::Author;
use super::end::End;
use super::program::{Act, PEERS, Segment, named};
use lowwater_posix::abi;
use lowwater_wire::tcp::TcpFlags;

const ACK: TcpFlags = TcpFlags::ACK;

/// Something that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    // The peer.
    AckAll,
    AckSome,
    Data,
    Fin,
    FinData,
    Reset,
    Window,
    Hole,
    Overlap,
    Fill,
    Beyond,
    OldAck,
    FutureAck,
    OddReset,
    OddSyn,
    OddFlags,
    Probe,
    Late,
    Knock,
    Unstamped,
    Urgent,
    Marked,
    Sacked,
    Router,
    Turn,
    // The application.
    Accept,
    Write,
    More,
    OutOfBand,
    Read,
    Peek,
    ReadOutOfBand,
    Shut,
    Close,
    Abort,
    CloseListener,
    Look,
    Option,
    Rare,
    Gather,
    Splice,
    Scatter,
    Long,
}

/// What each flavour makes likelier.
const LIKELY: &[(&str, &[(u64, Move)])] = &[
    (
        "close",
        &[
            (6, Move::Fin),
            (4, Move::FinData),
            (2, Move::Reset),
            (7, Move::Shut),
            (4, Move::Close),
            (2, Move::Abort),
            (2, Move::OddReset),
            (3, Move::Look),
            (2, Move::Peek),
        ],
    ),
    (
        "buffers",
        &[
            (10, Move::Window),
            (12, Move::Data),
            (6, Move::Write),
            (3, Move::Beyond),
            (3, Move::Option),
            (3, Move::Probe),
        ],
    ),
    ("scale0", &[(6, Move::Window), (10, Move::Data), (2, Move::Beyond), (2, Move::Option)]),
    ("keepalive", &[(4, Move::Option), (3, Move::Probe), (2, Move::Window)]),
    ("cork", &[(10, Move::More), (8, Move::Option), (6, Move::Write)]),
    (
        "urgent",
        &[
            (8, Move::Urgent),
            (6, Move::OutOfBand),
            (8, Move::ReadOutOfBand),
            (5, Move::Look),
            (3, Move::Peek),
        ],
    ),
    ("usertimeout", &[(4, Move::Option), (5, Move::Window), (3, Move::Write)]),
    ("nodelay", &[(8, Move::Option), (10, Move::Write), (4, Move::AckSome)]),
    (
        "poll",
        &[
            (6, Move::Option),
            (6, Move::Write),
            (4, Move::Peek),
            (4, Move::Shut),
            (3, Move::Fin),
            (3, Move::AckSome),
        ],
    ),
    ("disorder", &[(10, Move::Hole), (10, Move::Overlap), (6, Move::Fill), (2, Move::FinData)]),
    (
        "outside",
        &[
            (6, Move::Beyond),
            (5, Move::OldAck),
            (4, Move::FutureAck),
            (6, Move::OddReset),
            (4, Move::OddSyn),
            (5, Move::OddFlags),
            (3, Move::Overlap),
            (3, Move::Probe),
        ],
    ),
    ("paws", &[(14, Move::Late), (4, Move::Unstamped), (3, Move::Hole), (3, Move::Overlap)]),
    ("options", &[(3, Move::Late), (3, Move::Unstamped), (2, Move::OddSyn)]),
    (
        "simultaneous",
        &[(4, Move::Fin), (3, Move::FinData), (4, Move::Shut), (3, Move::Close), (3, Move::AckSome)],
    ),
    (
        "listen",
        &[
            (10, Move::Accept),
            (2, Move::CloseListener),
            (3, Move::OddSyn),
            (2, Move::OddReset),
            (2, Move::OddFlags),
        ],
    ),
    ("settings", &[(3, Move::Write), (3, Move::Data), (2, Move::Hole), (2, Move::Window)]),
    ("icmp", &[(12, Move::Router), (6, Move::Write)]),
    ("marks", &[(14, Move::Marked), (6, Move::Write), (4, Move::Hole)]),
    ("calls", &[(12, Move::Rare), (4, Move::Option), (6, Move::Write), (6, Move::Data)]),
    ("blocks", &[(12, Move::Sacked), (8, Move::Write), (4, Move::AckSome)]),
    ("ipv6", &[(4, Move::Router), (4, Move::Write), (4, Move::Data)]),
    ("mtu", &[(8, Move::Write), (6, Move::Data), (2, Move::Router), (3, Move::AckSome)]),
    (
        "vectors",
        &[(12, Move::Gather), (6, Move::Splice), (14, Move::Scatter), (10, Move::Data), (2, Move::Urgent)],
    ),
    ("header", &[(8, Move::Option), (6, Move::Write), (6, Move::Data)]),
    (
        "crowd",
        &[
            (24, Move::Turn),
            (20, Move::Knock),
            (8, Move::Accept),
            (4, Move::OddReset),
            (1, Move::CloseListener),
        ],
    ),
    ("fastopen", &[(4, Move::Write), (3, Move::Data), (2, Move::Look), (3, Move::AckSome)]),
    (
        "blocking",
        &[
            (16, Move::Long),
            (10, Move::Data),
            (8, Move::AckAll),
            (4, Move::AckSome),
            (4, Move::Option),
            (2, Move::Window),
            (2, Move::Fin),
            (1, Move::Reset),
        ],
    ),
];
/// What every connection does, and what ends it, which comes late.
const COMMON: &[(u64, Move)] = &[
    (8, Move::AckAll),
    (3, Move::AckSome),
    (6, Move::Data),
    (8, Move::Write),
    (6, Move::Read),
    (1, Move::Window),
    (1, Move::Look),
];
const LAST: &[(u64, Move)] = &[(2, Move::Fin), (2, Move::Shut), (2, Move::Close)];
/// Options that a flavour sets, with values.
const OPTIONS: &[(&str, &str, &[i32])] = &[
    ("buffers", "SO_SNDBUF", &[1, 4_608, 10_000, 65_536, 1_000_000]),
    ("buffers", "SO_RCVBUF", &[1, 4_000, 5_000, 20_000, 65_536, 1_000_000]),
    ("buffers", "TCP_WINDOW_CLAMP", &[1, 1_000, 10_000, 100_000]),
    ("buffers", "SO_RCVLOWAT", &[1, 1_000, 10_000]),
    ("scale0", "SO_RCVBUF", &[4_000, 65_536, 500_000]),
    ("scale0", "TCP_WINDOW_CLAMP", &[1_000, 65_535]),
    ("keepalive", "SO_KEEPALIVE", &[0, 1, 1]),
    ("keepalive", "TCP_KEEPIDLE", &[1, 2, 3]),
    ("keepalive", "TCP_KEEPINTVL", &[1, 2]),
    ("keepalive", "TCP_KEEPCNT", &[1, 2]),
    ("keepalive", "TCP_USER_TIMEOUT", &[0, 500, 2_000]),
    ("cork", "TCP_CORK", &[0, 1, 1]),
    ("cork", "TCP_NODELAY", &[0, 1]),
    ("usertimeout", "TCP_USER_TIMEOUT", &[0, 100, 400, 1_000, 2_000]),
    ("nodelay", "TCP_NODELAY", &[0, 1]),
    ("nodelay", "TCP_QUICKACK", &[0, 1]),
    ("poll", "SO_RCVLOWAT", &[0, 1, 500, 3_000]),
    ("poll", "TCP_NOTSENT_LOWAT", &[1, 1_000, 10_000]),
    ("poll", "SO_SNDBUF", &[4_608, 20_000]),
    ("urgent", "SO_OOBINLINE", &[0, 1]),
    ("close", "TCP_LINGER2", &[-1, 1, 5]),
    ("calls", "TCP_RTO_MIN_US", &[20_000, 100_000, 400_000]),
    ("calls", "TCP_RTO_MAX_MS", &[1_000, 2_000]),
    ("calls", "TCP_DELACK_MAX_US", &[8_000, 60_000, 152_000]),
    ("calls", "TCP_THIN_LINEAR_TIMEOUTS", &[0, 1]),
    ("calls", "TCP_MAXSEG", &[100, 536, 1_000]),
    ("calls", "TCP_SYNCNT", &[1, 3]),
    ("calls", "TCP_INQ", &[0, 1]),
    ("calls", "SO_RCVLOWAT", &[1, 2_000, 100_000]),
    ("icmp", "TCP_NODELAY", &[0, 1]),
    ("icmp", "IP_RECVERR", &[0, 1]),
    ("icmp", "IP_MTU_DISCOVER", &[1, 2, 3]),
    ("header", "IP_TOS", &[0, 0x10, 0xb8, 3, 0xff]),
    ("header", "IP_TTL", &[1, 33, 64, 255]),
    ("blocking", "SO_RCVTIMEO", &[0, 60, 200]),
    ("blocking", "SO_SNDTIMEO", &[0, 60, 200]),
    ("blocking", "SO_RCVLOWAT", &[1, 1_000, 5_000]),
    ("blocking", "SO_SNDBUF", &[4_608, 20_000]),
];
/// Options whose values are asked for.
const ASKED: &[&str] = &[
    "SO_RCVBUF",
    "SO_SNDBUF",
    "SO_RCVLOWAT",
    "TCP_MAXSEG",
    "TCP_WINDOW_CLAMP",
    "TCP_NODELAY",
    "TCP_CORK",
    "TCP_QUICKACK",
    "TCP_KEEPIDLE",
    "TCP_USER_TIMEOUT",
    "TCP_LINGER2",
    "TCP_SYNCNT",
    "TCP_DEFER_ACCEPT",
    "TCP_RTO_MIN_US",
    "TCP_RTO_MAX_MS",
    "TCP_DELACK_MAX_US",
    "IP_TOS",
    "IP_TTL",
    "IP_MTU_DISCOVER",
    "SO_ACCEPTCONN",
    "SO_TYPE",
];
/// Types, codes and MTUs of messages.
const MESSAGES: &[(u8, u8, u16)] = &[
    (3, 0, 0),
    (3, 1, 0),
    (3, 2, 0),
    (3, 3, 0),
    (3, 4, 1_400),
    (3, 4, 1_000),
    (3, 4, 600),
    (3, 4, 100),
    (3, 4, 0),
    (3, 4, 1_500),
    (3, 5, 0),
    (3, 13, 0),
    (11, 0, 0),
    (12, 0, 0),
];
/// The same of ICMPv6.
const MESSAGES_V6: &[(u8, u8, u16)] = &[
    (1, 0, 0),
    (1, 1, 0),
    (1, 2, 0),
    (1, 3, 0),
    (1, 4, 0),
    (1, 5, 0),
    (1, 6, 0),
    (2, 0, 1_400),
    (2, 0, 1_280),
    (2, 0, 1_000),
    (2, 0, 0),
    (2, 0, 1_500),
    (3, 0, 0),
    (3, 1, 0),
    (4, 0, 0),
    (4, 1, 0),
    (4, 2, 0),
];

/// Draws what happens next; `None` where nothing can.
pub(super) fn draw(author: &mut Author, end: &End<'_, Stack>) -> Option<Act> {
    for _ in 0..100 {
        let mut all: Vec<(u64, Move)> = COMMON.to_vec();
        for (word, moves) in LIKELY {
            if author.words.has(word) {
                all.extend_from_slice(moves);
            }
        }
        if author.steps.len() > 20 || author.dice.percent(10) {
            all.extend_from_slice(LAST);
        }
        if end.conn.is_none() && end.first.is_some() {
            all.push((12, Move::Accept));
        }
        let mut at = author.dice.range(1, all.iter().map(|(weight, _)| weight).sum());
        let found = all.iter().find(|(weight, _)| {
            let here = at <= *weight;
            at = at.saturating_sub(*weight);
            here
        });
        let act = match found?.1 {
            what @ (Move::Accept | Move::CloseListener) => listener(what, end, author.words.has("crowd")),
            what if what as u8 > Move::Accept as u8 => application(author, what, end),
            Move::Router => Some(router(author)),
            Move::Turn => {
                let next = author.dice.range(0, PEERS as u64 - 1) as u8;
                (usize::from(next) != author.turn).then_some(Act::Turn(next))
            }
            what => peer(author, what).map(Act::Packet),
        };
        if act.is_some() {
            return act;
        }
    }
    None
}

fn listener(what: Move, end: &End<'_, Stack>, crowd: bool) -> Option<Act> {
    let idle = end.first.is_some() && end.first != end.conn && !end.is_blocked();
    let act = if what == Move::Accept { Act::Accept } else { Act::CloseListener };
    (idle && (what != Move::Accept || crowd || end.conn.is_none())).then_some(act)
}

fn application(author: &mut Author, what: Move, end: &End<'_, Stack>) -> Option<Act> {
    end.conn?;
    if end.is_blocked() {
        return None;
    }
    let dice = &mut author.dice;
    let small = author.words.has("cork") || author.words.has("nodelay");
    let len = match dice.range(0, 5) {
        0 => dice.range(1, 10),
        1 | 2 => dice.range(10, 1_500),
        _ if small => dice.range(100, 2_000),
        3 | 4 => dice.range(1, 8) * 1_000,
        _ => dice.range(5_000, 60_000),
    } as usize;
    Some(match what {
        // Timers of several connections are late by themselves, each by something else.
        Move::Write if !author.others.is_empty() => return None,
        Move::Write => Act::Write(len, 0),
        Move::More => Act::Write(len.min(4_000), abi::MSG_MORE),
        Move::OutOfBand => Act::Write(dice.pick(&[1, 1, 10, 500]), abi::MSG_OOB),
        Move::Read => Act::Read(dice.pick(&[1, 100, 500, 2_000, 100_000]), 0),
        Move::Peek => {
            Act::Read(dice.pick(&[1, 1_000]), dice.pick(&[abi::MSG_PEEK, abi::MSG_PEEK, abi::MSG_TRUNC]))
        }
        Move::ReadOutOfBand => Act::Read(
            dice.pick(&[1, 10]),
            dice.pick(&[abi::MSG_OOB, abi::MSG_OOB, abi::MSG_OOB | abi::MSG_PEEK]),
        ),
        Move::Shut => Act::Shutdown(dice.pick(&[0, 1, 1, 1, 2])),
        Move::Close => Act::Close,
        Move::Abort => Act::Set("SO_LINGER", dice.pick(&[-1, 0, 0, 1])),
        Move::Look => match dice.range(0, 4) {
            0 => Act::Error,
            other => Act::Ioctl(["SIOCINQ", "SIOCOUTQ", "SIOCOUTQNSD", "SIOCATMARK"][other as usize - 1]),
        },
        Move::Gather => {
            let flags = dice.pick(&[0, 0, abi::MSG_MORE, abi::MSG_EOR, abi::MSG_DONTWAIT, abi::MSG_OOB]);
            Act::Gather(parts(dice), flags)
        }
        Move::Splice => {
            let flags = dice.pick(&[0, 0, abi::SPLICE_F_MORE as u32]);
            Act::Splice(dice.pick(&[1, 100, 1_448, 3_000, 10_000, 60_000]), flags)
        }
        Move::Scatter => {
            let flags = dice.pick(&[
                0,
                0,
                abi::MSG_PEEK,
                abi::MSG_WAITALL,
                abi::MSG_DONTWAIT,
                abi::MSG_TRUNC,
                abi::MSG_OOB,
            ]);
            Act::Scatter(parts(dice), flags)
        }
        Move::Long => long(dice),
        Move::Rare => rare(dice, &author.words, len),
        _ => {
            let known: Vec<_> = OPTIONS.iter().filter(|(word, ..)| author.words.has(word)).collect();
            if known.is_empty() {
                return None;
            }
            let (_, name, values) = dice.pick(&known);
            Act::Set(named(&author.words, name), dice.pick(values))
        }
    })
}

/// A call that waits, more often than not.
fn long(dice: &mut Dice) -> Act {
    match dice.range(0, 5) {
        0..3 => Act::Write(dice.range(5_000, 200_000) as usize, dice.pick(&[0, 0, 0, abi::MSG_MORE])),
        _ => Act::Read(
            dice.pick(&[1, 2_000, 5_000, 20_000]),
            dice.pick(&[0, abi::MSG_WAITALL, abi::MSG_WAITALL, abi::MSG_PEEK, abi::MSG_DONTWAIT]),
        ),
    }
}

/// Flags and options that are rarely used.
fn rare(dice: &mut Dice, words: &Flavours, len: usize) -> Act {
    match dice.range(0, 11) {
        0..6 => Act::Get(named(words, dice.pick(ASKED))),
        6 | 7 => Act::Write(len.min(8_000), dice.pick(&[abi::MSG_EOR, abi::MSG_EOR | abi::MSG_MORE])),
        8 | 9 => Act::Read(
            dice.pick(&[10, 3_000]),
            dice.pick(&[abi::MSG_WAITALL, abi::MSG_DONTWAIT, abi::MSG_PEEK | abi::MSG_TRUNC]),
        ),
        10 => Act::Disconnect,
        _ => Act::Shutdown(dice.pick(&[1, 3])),
    }
}

/// Lengths of the pieces of one call.
fn parts(dice: &mut Dice) -> Vec<usize> {
    (0..dice.pick(&[0, 1, 2, 2, 3, 5])).map(|_| dice.pick(&[0, 1, 10, 500, 1_448, 3_000, 20_000])).collect()
}

/// Bytes that the peer sends at a time.
fn length(author: &mut Author) -> u32 {
    match author.dice.range(0, 4) {
        0 => author.dice.range(1, 100) as u32,
        1 => author.dice.range(100, 1_000) as u32,
        2 => 1_000,
        _ => author.peer.longest(),
    }
}

fn peer(author: &mut Author, what: Move) -> Option<Segment> {
    let at = author.at;
    let next = author.peer.next();
    let ack = author.peer.ack(at);
    Some(match what {
        Move::AckAll => ack,
        Move::Knock => author.peer.knock(at),
        Move::AckSome => Segment { ack: author.peer.some_ack(&mut author.dice), ..ack },
        Move::Data => {
            let room = author.peer.room(next);
            let len = length(author).min(room);
            let data = author.peer.data(at, next, len);
            if data.len == 0 {
                return None;
            }
            let acked = author.peer.acked;
            let ack = if author.dice.percent(70) { author.peer.high } else { acked };
            Segment { ack, ..data }
        }
        Move::Fin | Move::FinData => fin(author, what)?,
        Move::Reset => {
            let flags = author.dice.pick(&[TcpFlags::RST, TcpFlags::RST.union(ACK)]);
            Segment { flags, ..ack }
        }
        Move::Window => {
            let most = author.dice.pick(&[0, 0, 10, 500, 3_000, 65_535]);
            author.peer.window = author.dice.range(0, most) as u16;
            Segment { window: author.peer.window, ..ack }
        }
        Move::Marked => {
            let len = length(author).min(author.peer.room(next));
            let data = author.peer.data(at, next, len);
            let mut flags = data.flags;
            let flag = author.dice.pick(&[None, None, Some(TcpFlags::ECE), Some(TcpFlags::CWR)]);
            if let Some(flag) = flag {
                flags.insert(flag);
            }
            let data = if author.dice.percent(60) { data } else { Segment { len: 0, ..data } };
            Segment { flags, tos: data.tos & !3 | author.dice.pick(&[0, 1, 2, 2, 3, 3]), ..data }
        }
        Move::Urgent => {
            let len = length(author).min(author.peer.room(next));
            let data = author.peer.data(at, next, len);
            let urgent =
                author.dice.pick(&[0, 1, data.len, data.len, data.len / 2, data.len.saturating_add(100)]);
            let mut flags = data.flags;
            flags.insert(TcpFlags::URG);
            Segment { flags, urgent, ..data }
        }
        Move::Sacked => sacked(author)?,
        Move::Hole | Move::Overlap | Move::Fill | Move::Beyond | Move::Probe => place(author, what)?,
        Move::Late | Move::Unstamped => late(author, what)?,
        _ => odd(author, what)?,
    })
}

/// Blocks of what is out, which begin and end at whole segments more often than not; or a D-SACK of what was acknowledged.
fn sacked(author: &mut Author) -> Option<Segment> {
    let (acked, high, mss) = (author.peer.acked, author.peer.high, author.peer.segment());
    let span = high.checked_sub(acked).filter(|span| *span > 1 && author.peer.may_sack())?;
    let dice = &mut author.dice;
    let mut sacks = Vec::new();
    for _ in 0..dice.pick(&[1, 1, 2, 3]) {
        let whole = dice.percent(70) && span > mss;
        let from = match whole {
            true => acked + mss * dice.range(1, u64::from((span - 1) / mss)) as u32,
            false => acked + dice.range(1, u64::from(span - 1)) as u32,
        };
        let len = if whole { mss * dice.range(1, 4) as u32 } else { dice.range(1, 3_000) as u32 };
        sacks.push((from, from.saturating_add(len).min(high)));
    }
    if dice.percent(20) {
        let back = dice.pick(&[1, mss, 2 * mss]).min(acked.saturating_sub(1));
        sacks.insert(0, (acked - back, acked));
        sacks.truncate(3);
    }
    sacks.retain(|(from, to)| from < to);
    let ack = author.peer.ack(author.at);
    (!sacks.is_empty()).then_some(Segment { ack: acked, sacks, ..ack })
}

/// What somebody says of a segment that is out, or was, or never.
fn router(author: &mut Author) -> Act {
    let (acked, high) = (author.peer.acked, author.peer.high);
    let dice = &mut author.dice;
    let seq = dice.pick(&[
        acked,
        acked,
        acked,
        high,
        high.saturating_sub(1),
        acked.wrapping_sub(1),
        high.wrapping_add(1_000),
    ]);
    let v6 = author.words.has("ipv6");
    let (kind, code, mtu) = dice.pick(if v6 { MESSAGES_V6 } else { MESSAGES });
    Act::Icmp(kind, code, mtu, seq)
}

fn fin(author: &mut Author, what: Move) -> Option<Segment> {
    let at = author.at;
    if let Some(fin) = author.peer.fin_at {
        // Once more.
        let seq = fin.min(author.peer.next());
        let again = author.dice.percent(30);
        return again.then(|| Segment { flags: ACK.union(TcpFlags::FIN), seq, ..author.peer.ack(at) });
    }
    let next = author.peer.next();
    // A FIN comes behind everything else.
    if author.peer.top() != next {
        return None;
    }
    let len = if what == Move::Fin { 0 } else { length(author).min(author.peer.room(next)) };
    let data = author.peer.data(at, next, len);
    let mut flags = data.flags;
    flags.insert(TcpFlags::FIN);
    let ack = author.dice.pick(&[author.peer.high, author.peer.high, author.peer.acked]);
    Some(Segment { flags, ack, ..data })
}

/// Data that is not the next.
fn place(author: &mut Author, what: Move) -> Option<Segment> {
    let (at, next, len) = (author.at, author.peer.next(), length(author));
    let (una, top, edge) = (author.peer.una, author.peer.top(), author.peer.edge);
    let dice = &mut author.dice;
    let (seq, len) = match what {
        Move::Hole => {
            let seq = top.max(next).saturating_add(dice.pick(&[1, 500, 1_000, 3_000]));
            (seq, len.min(edge.saturating_sub(seq)))
        }
        Move::Overlap => {
            let from = u64::from(una.saturating_sub(2_000).max(1));
            let seq = dice.range(from, u64::from(top.max(una)) + 100) as u32;
            (seq, len.min(edge.saturating_sub(seq)))
        }
        Move::Fill => (una, len.min(edge.saturating_sub(una))),
        Move::Probe => (una.saturating_sub(dice.pick(&[1, 1, 2])), dice.pick(&[0, 1])),
        _ => {
            let seq = match dice.range(0, 4) {
                0 => edge,
                1 => edge.saturating_sub(dice.range(0, u64::from(len)) as u32),
                2 => edge.wrapping_add(dice.range(1, 5_000) as u32),
                3 => edge.saturating_sub(1),
                _ => una.saturating_sub(dice.range(1, 5_000) as u32),
            };
            (seq, dice.pick(&[0, 1, len]))
        }
    };
    // What lies behind the FIN would contradict it.
    let beyond = author.peer.fin_at.is_some_and(|fin| seq > fin);
    let data = author.peer.data(at, seq.max(if what == Move::Probe { 0 } else { 1 }), len);
    (!beyond && (data.len > 0 || matches!(what, Move::Probe | Move::Beyond))).then_some(data)
}

/// A timestamp that is old, or none.
fn late(author: &mut Author, what: Move) -> Option<Segment> {
    let at = author.at;
    let (value, _) = author.peer.stamp(at)?;
    let which = author.dice.pick(&[
        Move::AckAll,
        Move::AckSome,
        Move::Data,
        Move::Hole,
        Move::Overlap,
        Move::Fin,
        Move::OddReset,
        Move::OddSyn,
    ]);
    let segment = peer(author, which)?;
    let dice = &mut author.dice;
    if what == Move::Unstamped {
        return Some(Segment { stamp: None, ..segment });
    }
    let back = dice.pick(&[0, 1, 10, 1_000, 100_000]);
    let stamp = match dice.range(0, 3) {
        0 | 1 => (value.wrapping_sub(dice.pick(&[1, 5, 1_000, 1 << 30])), 0),
        2 => (value, back),
        _ => (value.wrapping_add(dice.pick(&[0, 100])), 0),
    };
    Some(Segment { stamp: Some(stamp), ..segment })
}

/// What no peer would send.
fn odd(author: &mut Author, what: Move) -> Option<Segment> {
    let at = author.at;
    let ack = author.peer.ack(at);
    let (una, edge, high, acked) = (author.peer.una, author.peer.edge, author.peer.high, author.peer.acked);
    let dice = &mut author.dice;
    let anywhere = [
        una,
        una.wrapping_add(1),
        una.wrapping_add(1_000),
        edge,
        edge.saturating_sub(1),
        edge.wrapping_add(1),
        una.wrapping_sub(1),
        una.wrapping_sub(5_000),
    ];
    Some(match what {
        Move::OldAck => {
            let back = dice.pick(&[1, 2, 1_000, 100_000]);
            let len = dice.pick(&[0, 0, 100]);
            let data = author.peer.data(at, author.peer.next(), len);
            // Where it is too old, the window is another: Linux takes what its header prediction recognizes all the same.
            let too_old = back >= acked || back > author.peer.most;
            let window = if too_old { data.window ^ 1 } else { data.window };
            Segment { ack: acked.wrapping_sub(back), window, ..data }
        }
        Move::FutureAck => {
            let ack_of = high.wrapping_add(dice.pick(&[1, 1_000, 100_000]));
            let len = dice.pick(&[0, 0, 100]);
            let data = author.peer.data(at, author.peer.next(), len);
            Segment { ack: ack_of, ..data }
        }
        Move::OddReset => {
            let flags = dice.pick(&[TcpFlags::RST, TcpFlags::RST.union(ACK)]);
            let seq = dice.pick(&anywhere[1..]);
            Segment { flags, seq, ack: dice.pick(&[high, acked, high.wrapping_add(1)]), ..ack }
        }
        Move::OddSyn => {
            let flags = dice.pick(&[TcpFlags::SYN, TcpFlags::SYN, TcpFlags::SYN.union(ACK)]);
            let seq = dice.pick(&[0, 0, una, edge, una.wrapping_add(100_000)]);
            Segment { seq, ack: 1, flags, ..author.peer.syn(at, flags.ack()) }
        }
        _ => {
            let flags = dice.pick(&[
                TcpFlags::EMPTY,
                TcpFlags::FIN,
                TcpFlags::PSH,
                TcpFlags::FIN.union(TcpFlags::SYN),
                TcpFlags::FIN.union(TcpFlags::RST),
                TcpFlags::SYN.union(TcpFlags::RST),
                ACK.union(TcpFlags::ECE),
                ACK.union(TcpFlags::CWR),
                ACK.union(TcpFlags::URG),
            ]);
            let seq = if dice.percent(60) { una } else { dice.pick(&anywhere) };
            let len = if flags.syn() { 0 } else { dice.pick(&[0, 0, 100]) };
            Segment { flags, seq, len, ..ack }
        }
    })
}
