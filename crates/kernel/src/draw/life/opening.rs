//! How a drawn life begins: settings, options before the handshake, and the handshake with what disturbs it.
use super::super::network::Dice;
use super::super::program::Flavours;
use super::super::stack::Place;
use super::client::{self, Covers};
use super::peer::Peer;
use super::program::{Act, Cookie, Offer, Segment, named};
use lowwater_wire::tcp::TcpFlags;

/// Acknowledgments of disturbing segments.
const ACKS: [u32; 7] = [0, 1, 1, 1, 2, 1_000, u32::MAX];

/// An act whose segment is made when it is its turn.
#[derive(Debug)]
pub(super) enum Plan {
    Act(Act),
    Syn,
    SynAck,
    /// A reset that is taken.
    Reset,
    /// A SYN-ACK that covers so much, with a cookie, and so many bytes.
    Answer(Covers, Option<Cookie>, u16),
    /// The acknowledgement that ends the handshake, with so many bytes and perhaps a FIN.
    Ack(u16, bool),
    /// Something else, at this number, with this acknowledgment.
    Odd(TcpFlags, u32, u32),
}

impl Plan {
    pub(super) fn make(self, peer: &Peer, at: u64) -> Act {
        Act::Packet(match self {
            Self::Act(act) => return act,
            Self::Syn => peer.syn(at, false),
            Self::SynAck => peer.syn(at, true),
            Self::Reset => Segment { flags: TcpFlags::RST, seq: peer.una, ack: 0, ..peer.ack(at) },
            Self::Answer(covers, cookie, len) => {
                let offer = Some(Offer { cookie, ..peer.offer });
                Segment { ack: covers.ack(peer.high), offer, len, ..peer.syn(at, true) }
            }
            Self::Ack(len, fin) => {
                let mut flags = TcpFlags::ACK;
                if fin {
                    flags.insert(TcpFlags::FIN);
                }
                Segment { flags, seq: 1, len, ack: 1, ..peer.ack(at) }
            }
            // A SYN without a scale, and one with it behind it, confuses the kernel's scale (linux-differences.md).
            Self::Odd(flags, seq, ack) if flags.syn() => {
                Segment { flags, seq, ack, ..peer.syn(at, flags.ack()) }
            }
            Self::Odd(flags, seq, ack) => Segment { flags, seq, ack, ..peer.ack(at) },
        })
    }
}

impl Plan {
    /// An option that is set.
    pub(super) fn setting(&self) -> Option<Act> {
        match self {
            Self::Act(act @ Act::Set(..)) => Some(act.clone()),
            _ => None,
        }
    }
}

/// Everything up to the end of the handshake.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) place: Place,
    pub(super) sysctls: Vec<(&'static str, u64)>,
    pub(super) peer: Peer,
    /// Pauses in microseconds, and what comes behind them.
    pub(super) acts: Vec<(u64, Plan)>,
}

pub(super) fn draw(dice: &mut Dice, words: &Flavours) -> Opening {
    let place = place(dice, words);
    let (mut offer, stamps) = offer(dice, words);
    if words.has("mtu") && dice.percent(60) {
        offer.mss = Some(dice.pick(&[536, 1_000, place.payload() as u16, u16::MAX]));
    }
    let ecn = words.has("marks") && dice.percent(80);
    let tos = if words.has("header") { dice.pick(&[0, 0x10, 0x28, 0xb8]) } else { 0 };
    let window = match () {
        () if words.has("buffers") => dice.pick(&[0, 100, 1_000, 3_000, 20_000, 65_535]),
        () if words.has("listen") || words.has("options") => dice.pick(&[0, 1_000, 65_535]),
        () => dice.pick(&[5_000, 30_000, 65_535]),
    };
    let sysctls = sysctls(dice, words);
    let mut acts: Vec<(u64, Plan)> = before(dice, words).into_iter().map(|act| (0, Plan::Act(act))).collect();
    let way = if words.has("simultaneous") { 2 } else { dice.pick(&[0, 0, 1]) };
    let way = if words.has("listen") { 0 } else { way };
    match way {
        _ if words.has("crowd") => {
            acts.push((0, Plan::Act(Act::Listen(dice.pick(&[0, 0, 1, 1, 2, 5])))));
            acts.push((0, Plan::Syn));
        }
        _ if words.has("fastopen") => client::draw(dice, words, client::is_free(&sysctls), &mut acts),
        0 => passive(dice, words, &mut acts),
        1 => active(dice, words, &mut acts),
        _ => simultaneous(dice, &mut acts),
    }
    let peer = Peer::new(offer, stamps, window).asking(ecn, tos);
    let peer = if words.has("mtu") { peer.behind(place.payload()) } else { peer };
    Opening { place, sysctls, peer, acts }
}

/// MTUs of devices; two segments of the longest are no more than an element carries (linux-differences.md).
const MTUS: [u16; 7] = [576, 1_000, 1_280, 1_492, 4_000, 9_000, 30_000];
/// Those that carry IPv6 (RFC 8200 section 5).
const MTUS_V6: [u16; 5] = [1_280, 1_492, 4_000, 9_000, 30_000];

fn place(dice: &mut Dice, words: &Flavours) -> Place {
    let v6 = words.has("ipv6");
    match words.has("mtu") {
        true => {
            Place { v6, mtu: if v6 { dice.pick(&MTUS_V6) } else { dice.pick(&MTUS) }, ..Place::default() }
        }
        false => Place { v6, ..Place::default() },
    }
}

fn offer(dice: &mut Dice, words: &Flavours) -> (Offer, bool) {
    let cookie = match words.has("listen") && dice.percent(50) {
        true => Some(dice.pick(&[Cookie::Request, Cookie::Wrong])),
        false => None,
    };
    let (mut mss, mut scale) = (Some(dice.pick(&[1_000, 1_460])), Some(dice.pick(&[0, 2, 7])));
    if words.has("options") {
        mss = dice.pick(&[
            None,
            Some(1),
            Some(48),
            Some(88),
            Some(536),
            Some(1_460),
            Some(9_000),
            Some(65_535),
        ]);
        scale = dice.pick(&[None, Some(0), Some(7), Some(14)]);
    }
    if words.has("scale0") {
        scale = dice.pick(&[None, Some(0)]);
    }
    let stamps = words.has("paws") || dice.percent(50);
    let sack = dice.percent(60) || words.has("disorder") && dice.percent(50) || words.has("blocks");
    (Offer { mss, scale, sack, cookie }, stamps)
}

fn sysctls(dice: &mut Dice, words: &Flavours) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    if words.has("scale0") && dice.percent(40) {
        all.push(("tcp_window_scaling", 0));
    }
    if words.has("options") {
        for name in ["tcp_sack", "tcp_timestamps", "tcp_window_scaling"] {
            if dice.percent(20) {
                all.push((name, 0));
            }
        }
    }
    if words.has("disorder") && dice.percent(20) {
        all.push(("tcp_dsack", 0));
    }
    if words.has("close") || words.has("simultaneous") {
        if dice.percent(20) {
            all.push(("tcp_fin_timeout", 1));
        }
        if dice.percent(10) {
            all.push(("tcp_rfc1337", 1));
        }
    }
    if words.has("settings") {
        draw_settings(dice, &mut all);
    }
    if words.has("marks") {
        all.push(("tcp_ecn", dice.pick(&[1, 1, 2])));
    }
    if words.has("header") && dice.percent(50) {
        all.push(("tcp_reflect_tos", 1));
    }
    if words.has("fastopen") {
        client::sysctls(dice, &mut all);
    }
    if words.has("crowd") {
        for (name, percent, values) in CROWD {
            if dice.percent(*percent) {
                all.push((name, dice.pick(values)));
            }
        }
    }
    if words.has("listen") {
        if dice.percent(50) && !words.has("fastopen") {
            all.push(("tcp_fastopen", 0x603));
        }
        if dice.percent(20) {
            all.push(("tcp_syncookies", 2));
        }
        if dice.percent(20) {
            all.push(("tcp_abort_on_overflow", 1));
        }
    }
    all
}

/// Settings with the values that are drawn, each in so many of a hundred lives.
const SETTINGS: &[(&str, u64, &[u64])] = &[
    ("tcp_shrink_window", 25, &[1]),
    ("tcp_moderate_rcvbuf", 15, &[0]),
    ("tcp_stdurg", 15, &[1]),
    ("tcp_autocorking", 15, &[0]),
    ("tcp_comp_sack_nr", 15, &[0, 1, 200]),
    ("tcp_invalid_ratelimit", 20, &[0, 50, 2_000]),
    ("tcp_challenge_ack_limit", 10, &[1]),
    ("tcp_retries2", 20, &[1, 2, 4]),
    ("tcp_orphan_retries", 20, &[1, 2]),
    ("tcp_syn_retries", 15, &[1]),
    ("tcp_synack_retries", 15, &[1]),
    ("tcp_app_win", 15, &[0, 3, 8]),
    ("tcp_slow_start_after_idle", 20, &[0]),
    ("tcp_early_retrans", 20, &[0]),
    ("tcp_recovery", 15, &[0]),
    ("tcp_frto", 15, &[0]),
    ("tcp_pingpong_thresh", 15, &[2, 5]),
    ("tcp_rto_min_us", 15, &[20_000, 400_000]),
    ("tcp_rto_max_ms", 15, &[1_000, 2_000]),
    ("tcp_keepalive_time", 10, &[1]),
    ("tcp_keepalive_intvl", 10, &[1]),
    ("tcp_keepalive_probes", 10, &[1, 2]),
    ("tcp_retrans_collapse", 15, &[0]),
    ("tcp_min_snd_mss", 10, &[500]),
    ("tcp_notsent_lowat", 10, &[1_000]),
    ("tcp_thin_linear_timeouts", 15, &[1]),
    ("tcp_mtu_probing", 15, &[1, 2]),
    ("tcp_syn_linear_timeouts", 10, &[0, 2]),
];

/// Settings of listeners, likewise.
const CROWD: &[(&str, u64, &[u64])] = &[
    ("tcp_abort_on_overflow", 25, &[1]),
    ("tcp_syncookies", 40, &[0, 0, 2]),
    ("tcp_max_syn_backlog", 30, &[1, 2, 3, 4]),
    ("tcp_synack_retries", 20, &[1]),
];

fn draw_settings(dice: &mut Dice, all: &mut Vec<(&'static str, u64)>) {
    for (name, percent, values) in SETTINGS {
        if dice.percent(*percent) {
            all.push((name, dice.pick(values)));
        }
    }
}

/// Options that are set before the handshake.
fn before(dice: &mut Dice, words: &Flavours) -> Vec<Act> {
    let mut all = Vec::new();
    let mut maybe = |dice: &mut Dice, percent, name, values: &[i32]| {
        if dice.percent(percent) {
            all.push(Act::Set(named(words, name), dice.pick(values)));
        }
    };
    if words.has("buffers") {
        maybe(dice, 60, "SO_SNDBUF", &[1, 4_608, 5_000, 10_000, 20_000, 65_536]);
        // None holds a full segment of 1,400 bytes and less than two, of which the window opens otherwise (linux-differences.md); longer segments
        // (`mtu`) and an rcv_ssthresh of less than the buffer still show that.
        maybe(dice, 70, "SO_RCVBUF", &[1, 1_000, 4_000, 6_000, 8_000, 20_000, 65_536]);
    }
    if words.has("scale0") {
        maybe(dice, 50, "SO_RCVBUF", &[4_000, 30_000, 65_536, 500_000]);
        maybe(dice, 20, "TCP_WINDOW_CLAMP", &[1_000, 10_000, 65_535]);
    }
    if words.has("options") {
        maybe(dice, 30, "TCP_MAXSEG", &[536, 1_000, 1_460, 4_000]);
        maybe(dice, 20, "TCP_WINDOW_CLAMP", &[1, 1_000, 65_535, 1_000_000]);
    }
    if words.has("listen") {
        maybe(dice, 40, "TCP_DEFER_ACCEPT", &[1, 2, 5]);
        maybe(dice, 50, "TCP_FASTOPEN", &[5]);
    }
    if words.has("blocking") {
        maybe(dice, 40, "SO_RCVTIMEO", &[60, 200]);
        maybe(dice, 40, "SO_SNDTIMEO", &[60, 200]);
        maybe(dice, 40, "SO_SNDBUF", &[4_608, 20_000]);
    }
    if words.has("urgent") {
        maybe(dice, 30, "SO_OOBINLINE", &[1]);
    }
    if words.has("header") {
        maybe(dice, 40, "IP_TOS", &[0x10, 0xb8, 0xff]);
        maybe(dice, 30, "IP_TTL", &[33, 255]);
    }
    if words.has("keepalive") {
        maybe(dice, 90, "SO_KEEPALIVE", &[1]);
        maybe(dice, 90, "TCP_KEEPIDLE", &[1, 2]);
        maybe(dice, 80, "TCP_KEEPINTVL", &[1]);
        maybe(dice, 60, "TCP_KEEPCNT", &[1, 2, 3]);
        maybe(dice, 20, "TCP_USER_TIMEOUT", &[1_500, 3_000]);
    }
    if words.has("usertimeout") {
        maybe(dice, 60, "TCP_USER_TIMEOUT", &[100, 500, 1_000, 3_000]);
    }
    if words.has("nodelay") {
        maybe(dice, 30, "TCP_NODELAY", &[1]);
    }
    all
}

fn passive(dice: &mut Dice, words: &Flavours, acts: &mut Vec<(u64, Plan)>) {
    acts.push((0, Plan::Act(Act::Listen(5))));
    // It waits for the handshake.
    let waits = words.has("blocking") && dice.percent(40);
    if waits {
        acts.push((0, Plan::Act(Act::Accept)));
    }
    let odd = words.has("listen");
    acts.push((0, Plan::Syn));
    if odd || words.has("outside") && dice.percent(30) {
        for _ in 0..dice.pick(&[0, 0, 1, 1, 2, 3]) {
            let pause = dice.pick(&[0, 20_000, 100_000, 1_300_000]);
            let what = disturbance(dice, &ACKS);
            acts.push((pause, what));
        }
    }
    if !(odd && dice.percent(15)) {
        let len = if odd { dice.pick(&[0, 0, 0, 100, 1_000]) } else { 0 };
        let fin = odd && dice.percent(15);
        let pause = if odd { dice.pick(&[0, 50_000, 100_000, 1_400_000]) } else { 50_000 };
        acts.push((pause, Plan::Ack(len, fin)));
    }
    if !(waits || odd && dice.percent(40)) {
        acts.push((0, Plan::Act(Act::Accept)));
    }
}

/// Something that a request or a socket that connects should not meet, with one of these acknowledgments.
pub(super) fn disturbance(dice: &mut Dice, acks: &[u32]) -> Plan {
    let seq = dice.pick(&[0, 1, 1, 1, 2, 500, 100_000, u32::MAX]);
    let ack = dice.pick(acks);
    match dice.range(0, 9) {
        0..3 => Plan::Syn,
        3 => Plan::SynAck,
        4 => Plan::Odd(TcpFlags::RST, seq, 0),
        5 => Plan::Odd(TcpFlags::RST.union(TcpFlags::ACK), seq, ack),
        6 => Plan::Odd(TcpFlags::FIN.union(TcpFlags::ACK), seq, ack),
        7 => Plan::Odd(TcpFlags::SYN, seq, 0),
        8 => Plan::Odd(TcpFlags::FIN, seq, 0),
        _ => Plan::Odd(TcpFlags::ACK, seq, ack),
    }
}

fn active(dice: &mut Dice, words: &Flavours, acts: &mut Vec<(u64, Plan)>) {
    acts.push((0, Plan::Act(Act::Connect)));
    if (words.has("options") || words.has("outside")) && dice.percent(40) {
        acts.push((dice.pick(&[0, 100_000, 1_300_000]), disturbance(dice, &ACKS)));
    }
    acts.push((50_000, Plan::SynAck));
}

fn simultaneous(dice: &mut Dice, acts: &mut Vec<(u64, Plan)>) {
    acts.push((0, Plan::Act(Act::Connect)));
    if dice.percent(20) {
        acts.push((dice.pick(&[0, 100_000, 1_300_000]), disturbance(dice, &ACKS)));
    }
    let pause = dice.pick(&[0, 50_000, 1_200_000]);
    acts.push((pause, Plan::Syn));
    for _ in 0..dice.pick(&[0, 0, 1, 2]) {
        let pause = dice.pick(&[0, 20_000, 100_000]);
        // What does not cover our SYN is taken all the same by 6.18 (linux-differences.md).
        let what = disturbance(dice, &[1]);
        acts.push((pause, what));
    }
    let pause = dice.pick(&[0, 50_000, 1_300_000]);
    let last =
        if dice.percent(60) { Plan::SynAck } else { Plan::Ack(dice.pick(&[0, 0, 100]), dice.percent(15)) };
    acts.push((pause, last));
}
