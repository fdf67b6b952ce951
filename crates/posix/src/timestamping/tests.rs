//! What is told of the times of a stream's bytes, and what it costs.
use super::*;
use crate::abi::{AF_INET, IP_RECVERR, MSG_ERRQUEUE, SOCK_NONBLOCK, SOCK_STREAM, SOL_IP};
use crate::{Call, Name, Optval, RecvKind, Room, SendKind, Settings, Started};
use core::cell::RefCell;
use lowwater_core::tcp::Seq;

const ISN: u32 = 0xffff_ff00;
const WANTS: i32 = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_ACK;

#[test]
fn segments_are_told_with_the_last_of_their_packet() {
    let of = |protocol: u8, port: u8, place| {
        let mut bytes = BytesMut::from(packet(place, 10));
        (bytes[9], bytes[21]) = (protocol, port);
        bytes.freeze()
    };
    let tcp = |port, place| of(IPPROTO_TCP as u8, port, place);
    let mut pieces = Pieces::default();
    let mut left = Vec::new();
    // One that is not of TCP, one of a packet whose last segment never came, one without data: nobody's.
    for nobodys in [of(1, 7, 1), tcp(8, 1), packet(1, 0), tcp(7, 1), tcp(7, 11)] {
        pieces.take(None, nobodys, &mut left);
    }
    assert!(left.is_empty());
    pieces.take(Some(SocketId::default()), tcp(7, 21), &mut left);
    let told: Vec<_> = left.drain(..).map(|(_, packet)| packet).collect();
    assert_eq!(told, [tcp(7, 1), tcp(7, 11), tcp(7, 21)]);
    for _ in 0..2 * PIECES_MAX {
        pieces.take(None, tcp(7, 1), &mut left);
    }
    assert_eq!(pieces.0.len(), PIECES_MAX);
}

/// The bytes `start..=last` wait together.
fn waiting(start: u64, last: u64) -> Piece {
    let end = last + 1;
    Piece { start, end, joined_end: end, sent_at: None, payload: Bytes::new() }
}

/// A packet of IPv4 with `len` bytes of payload from `place` on.
fn packet(place: u64, len: usize) -> Bytes {
    let mut bytes = BytesMut::zeroed(40 + len);
    bytes[0] = 0x45;
    bytes[24..28].copy_from_slice(&ISN.wrapping_add(place as u32).to_be_bytes());
    bytes[32] = 5 << 4;
    bytes.freeze()
}

fn progress(una: u64, end: u64) -> Progress {
    Progress { una, nxt: end, end, isn: Seq(ISN) }
}

/// As many writes of 10 bytes as there may be, each with a buffer of its own, from place 1 on.
fn full() -> TxStamps {
    let mut stamps = TxStamps::default();
    for n in 0..MARKS_MAX as u64 {
        stamps.mark(waiting(10 * n + 1, 10 * n + 10), WANTS, false);
    }
    stamps
}

/// What is told of the buffers of [`full`], handed down at `at`; and where it was looked for pieces.
fn turn(
    stamps: &mut TxStamps,
    una: u64,
    at: Instant,
    changed: &[(u64, u64)],
    left: &[Bytes],
) -> (Vec<(i32, u64)>, Vec<u64>) {
    let looked = RefCell::new(Vec::new());
    let piece_at = |place| {
        looked.borrow_mut().push(place);
        let payload = Bytes::from_static(b"0123456789");
        let end = place + 1;
        Some(Piece { start: place - 9, end, joined_end: end, sent_at: Some(at), payload })
    };
    let progress = progress(una, 10 * MARKS_MAX as u64 + 1);
    let left: Vec<&Bytes> = left.iter().collect();
    let told = departed(stamps, progress, changed, &left, piece_at);
    (told.into_iter().map(|h| (h.what, h.place)).collect(), looked.into_inner())
}

/// The answer to a SYN without options.
fn syn_ack(syn: &[u8]) -> Bytes {
    let mut bytes = BytesMut::zeroed(40);
    (bytes[0], bytes[3], bytes[8], bytes[9]) = (0x45, 40, 64, IPPROTO_TCP as u8);
    bytes[12..16].copy_from_slice(&syn[16..20]);
    bytes[16..20].copy_from_slice(&syn[12..16]);
    bytes[20..22].copy_from_slice(&syn[22..24]);
    bytes[22..24].copy_from_slice(&syn[20..22]);
    let seq = u32::from_be_bytes(syn[24..28].try_into().expect("four bytes"));
    bytes[28..32].copy_from_slice(&seq.wrapping_add(1).to_be_bytes());
    (bytes[32], bytes[33]) = (5 << 4, 0x12);
    bytes[34..36].copy_from_slice(&u16::MAX.to_be_bytes());
    let folded = |words: &[u8], more: u32| {
        let words = words.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum = words.sum::<u32>() + more;
        (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
    };
    let ip = folded(&bytes[..20], 0);
    bytes[10..12].copy_from_slice(&ip);
    let tcp = folded(&bytes[12..], IPPROTO_TCP as u32 + 20);
    bytes[36..38].copy_from_slice(&tcp);
    bytes.freeze()
}

/// Times that wait to be read: SCM_TSTAMP_* of each, in their order.
fn times_of(host: &mut Host, fd: Fd) -> Vec<u32> {
    let read = |host: &mut Host| {
        let (kind, rooms, flags) = (RecvKind::Recvmsg, vec![Room::new(10)], MSG_ERRQUEUE);
        match host.call(Call::Recv { fd, kind, rooms, flags, control_len: 200 }) {
            Started::Done(reply) if reply.ret >= 0 => Some(reply.control),
            Started::Done(_) => None,
            Started::Blocked(id) => panic!("{id:?}"),
        }
    };
    // ee_info of struct sock_extended_err.
    let info = |control: &Control| u32::from_ne_bytes(control.data[8..12].try_into().expect("four bytes"));
    let is_error = |control: &Control| (control.level, control.ty) == (SOL_IP, IP_RECVERR);
    let all = core::iter::from_fn(|| read(host));
    all.map(|controls| controls.iter().find(|control| is_error(control)).map(info).expect("an error"))
        .collect()
}

/// A packet of each of `sockets` connections leaves in one turn, of which `watched` ask for its times: how many steps it takes to tell of them.
fn cost_of_a_turn(sockets: u16, watched: u16) -> u64 {
    let addresses = vec![([10, 0, 0, 1].into(), 8)];
    let mut host = Host::new(Settings { addresses, ..Settings::default() }).expect("a host");
    let done = |host: &mut Host, call| match host.call(call) {
        Started::Done(reply) => reply.ret as i32,
        Started::Blocked(id) => panic!("{id:?}"),
    };
    let ty = SOCK_STREAM | SOCK_NONBLOCK;
    let mut fds = Vec::new();
    for port in 1..=sockets {
        let fd = done(&mut host, Call::Socket { domain: AF_INET, ty, protocol: 0 });
        let addr = Name::Inet(([10, 0, 0, 2], port).into());
        assert_eq!(done(&mut host, Call::Connect { fd, addr }), -1);
        let syn = host.next_packet(host.now()).expect("a SYN").bytes;
        host.inject(syn_ack(&syn));
        assert!(host.next_packet(host.now()).is_some(), "the last ACK of {port}");
        let value = Optval::int(SOF_TIMESTAMPING_SOFTWARE | if port > watched { 0 } else { WANTS });
        let stamps = Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_TIMESTAMPING, value };
        assert_eq!(done(&mut host, stamps), 0);
        fds.push(fd);
    }
    host.set_busy(true);
    for &fd in &fds {
        let data = vec![crate::Piece::zeros(100)];
        let (kind, flags, to, control) = (SendKind::Write, 0, None, Vec::new());
        assert_eq!(done(&mut host, Call::Send { fd, kind, data, flags, to, control }), 100);
    }
    let cost = steps::of(|| host.set_busy(false));
    for (&fd, nth) in fds.iter().zip(0..) {
        let all = [SCM_TSTAMP_SCHED, SCM_TSTAMP_SND].map(|what| what as u32);
        assert_eq!(times_of(&mut host, fd), if nth < watched { &all[..] } else { &[] }, "{fd}");
    }
    cost
}

/// Who looks through all that has left for each socket takes 10,000 steps more, and who keeps account of it for sockets that nobody watches 99.
#[test]
fn what_leaves_is_told_of_without_a_look_at_what_others_sent() {
    let (few, many) = (cost_of_a_turn(10, 10), cost_of_a_turn(100, 100));
    assert!(few >= 10 && many <= 10 * few + 100, "{few} and {many} steps");
    let (alone, among_many) = (cost_of_a_turn(1, 1), cost_of_a_turn(100, 1));
    assert_eq!(alone, among_many);
}

#[test]
fn only_marks_that_something_happened_to_are_looked_at() {
    let mut stamps = full();
    let (first, second) = (Instant::from_nanos(1), Instant::from_nanos(2));
    let all = turn(&mut stamps, 1, first, &[(0, u64::MAX)], &[]);
    assert_eq!((all.0.len(), all.1.len()), (MARKS_MAX, MARKS_MAX));
    assert_eq!(turn(&mut stamps, 1, first, &[], &[]), (vec![], vec![]), "a turn without news");
    // In the middle, and around the end of the sequence numbers.
    for n in [2_000, 25] {
        let (told, looked) = turn(&mut stamps, 1, first, &[], &[packet(10 * n + 1, 25)]);
        assert_eq!(looked, [], "it was handed down before");
        assert_eq!(told, [(SCM_TSTAMP_SND, 10 * n + 10), (SCM_TSTAMP_SND, 10 * n + 20)]);
    }
    let (told, looked) = turn(&mut stamps, 1, second, &[(301, 311)], &[packet(301, 10)]);
    assert_eq!(looked, [310]);
    assert_eq!(told, [(SCM_TSTAMP_SCHED, 310), (SCM_TSTAMP_SND, 310)], "it went again");
    let (told, looked) = turn(&mut stamps, 1, second, &[(301, 311)], &[]);
    assert_eq!((told, looked), (vec![], vec![310]), "it was cut, and did not go again");
}

#[test]
fn an_acknowledgement_takes_from_the_front_and_a_write_from_the_back() {
    let mut stamps = full();
    let acked: Vec<u64> = acknowledged(&mut stamps, 31).into_iter().map(|h| h.place).collect();
    assert_eq!(acked, [10, 20, 30]);
    assert_eq!((stamps.marks.len(), stamps.marks[0].place), (MARKS_MAX - 3, 40));
    let last = 10 * MARKS_MAX as u64;
    stamps.mark(waiting(last - 9, last + 5), 0, false);
    let back = stamps.marks.back().expect("many");
    assert_eq!((back.place, back.wants), (last + 5, WANTS), "it shares the buffer of the one before");
    for n in 1..6 {
        stamps.mark(waiting(last + 10 * n - 3, last + 10 * n), WANTS, false);
    }
    assert_eq!((stamps.marks.len(), stamps.marks[0].place), (MARKS_MAX, 60), "the oldest is forgotten");
}
