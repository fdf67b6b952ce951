//! What is wrong with a packet is seen, and what only looks so is not.
use super::*;
use bytes::Bytes;
use lowwater_core::base::Instant;
use lowwater_core::packet::{Csum, Offload};
use lowwater_wire::sctp::{DataFlags, DataRepr, GapBlock, Sack, SctpRepr, fill_checksum};

/// Tags and first numbers of this host and of its peer.
const OURS: (u32, u32) = (7, 100);
const PEERS: (u32, u32) = (9, 500);
/// Nothing is given up, and windows are RFC 9260's.
const HABITS: Habits = Habits { limited: false, bbr: false };

fn packet(ours: bool, vtag: u32, chunks: &[u8]) -> Packet {
    between(if ours { (1, 2) } else { (2, 1) }, vtag, chunks)
}

/// From one host, which is ours if it is the first, to another. Ports are those of the two sides.
fn between((src, dst): (u8, u8), vtag: u32, chunks: &[u8]) -> Packet {
    carried(src == 1, (src, dst), vtag, chunks)
}

/// From an address of ours to the peer.
fn away(src: u8, vtag: u32, chunks: &[u8]) -> Packet {
    carried(true, (src, 2), vtag, chunks)
}

fn carried(ours: bool, (src, dst): (u8, u8), vtag: u32, chunks: &[u8]) -> Packet {
    let ports = if ours { (1, 2) } else { (2, 1) };
    let mut b = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 132, 0, 0, 10, 0, 0, src, 10, 0, 0, dst];
    b.resize(32, 0);
    SctpRepr { src_port: ports.0, dst_port: ports.1, vtag }.emit(&mut b[20..]);
    b.extend_from_slice(chunks);
    fill_checksum(&mut b[20..], &[]);
    let len = b.len() as u16;
    b[2..4].copy_from_slice(&len.to_be_bytes());
    let csum = if ours { Csum::None } else { Csum::Valid };
    let sum = !lowwater_wire::checksum::fold(lowwater_wire::checksum::sum(&b[..20]));
    b[10..12].copy_from_slice(&sum.to_be_bytes());
    Packet::received(Bytes::from(b), Offload { csum, ..Offload::default() }, Instant::ZERO)
}

fn bytes(chunks: &[Chunk<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for chunk in chunks {
        let at = all.len();
        all.resize(at + chunk.buffer_len(), 0);
        chunk.emit(&mut all[at..]);
    }
    all
}

fn init((initiate_tag, initial_tsn): (u32, u32), a_rwnd: u32) -> Init<'static> {
    Init { initiate_tag, a_rwnd, outbound_streams: 9, inbound_streams: 9, initial_tsn, params: Tlvs::EMPTY }
}

fn data(tsn: u32, ssn: u16, data: &[u8]) -> Chunk<'_> {
    Chunk::Data(DataRepr { flags: DataFlags::WHOLE, tsn, sid: 0, ssn, ppid: 0 }, data)
}

fn sack(cum_tsn: u32, gaps: &[GapBlock]) -> Chunk<'_> {
    Chunk::Sack(Sack { cum_tsn, a_rwnd: 3_000, gaps, dups: &[] })
}

/// A host that has opened an association with a peer whose window is 3,000 bytes.
fn open() -> Chunks {
    let mut c = Chunks::new(true, 1_500, HABITS);
    c.sent(&packet(true, 0, &bytes(&[Chunk::Init(init(OURS, 10_000))])));
    c.received(&packet(false, OURS.0, &bytes(&[Chunk::InitAck(init(PEERS, 3_000))])));
    say(&mut c, &[Chunk::CookieEcho(b"cook")]);
    hear(&mut c, &[Chunk::CookieAck]);
    assert_eq!(c.wrong(true), Ok(()));
    c
}

fn hear(c: &mut Chunks, chunks: &[Chunk<'_>]) {
    c.received(&packet(false, OURS.0, &bytes(chunks)));
}

fn say(c: &mut Chunks, chunks: &[Chunk<'_>]) {
    c.sent(&packet(true, PEERS.0, &bytes(chunks)));
}

/// What is said of packets of these chunks behind those of [`open`].
fn told(packets: &[&[Chunk<'_>]]) -> String {
    let mut c = open();
    packets.iter().for_each(|chunks| say(&mut c, chunks));
    c.wrong(true).err().unwrap_or_default()
}

#[test]
fn numbers_are_sent_in_order_and_again_as_they_were() {
    let (x, y) = (&[data(100, 0, b"x")][..], &[data(101, 1, b"y")][..]);
    assert_eq!(told(&[x, y, x]), "");
    assert!(told(&[y]).contains("100 has not been sent yet") || told(&[y]).contains("none to begin with"));
    assert!(told(&[x, &[data(102, 1, b"y")]]).contains("101 has not been sent yet"));
    assert!(told(&[x, &[data(100, 1, b"x")]]).contains("before, and is"));
    assert!(told(&[x, &[data(100, 0, b"xx")]]).contains("before, and is"));
    assert!(told(&[&[data(100_000, 0, b"x")]]).contains("none to begin with"));
    let mut c = open();
    say(&mut c, &[data(100, 0, b"x")]);
    say(&mut c, &[data(102, 0, b"x")]);
    assert_eq!(c.wrong(false), Ok(()), "the host may have lost it");
}

#[test]
fn what_never_came_is_not_acknowledged_and_what_was_stays_so() {
    let came = || {
        let mut c = open();
        for n in [500, 501, 503, 505, 506] {
            hear(&mut c, &[data(n, 0, b"z")]);
        }
        c
    };
    let after = |chunks: &[&[Chunk<'_>]]| {
        let mut c = came();
        chunks.iter().for_each(|chunks| say(&mut c, chunks));
        c.wrong(true).err().unwrap_or_default()
    };
    let gaps = [GapBlock::new(2, 2), GapBlock::new(4, 5)];
    assert_eq!(after(&[&[sack(499, &[])], &[sack(501, &gaps)]]), "");
    assert!(after(&[&[sack(502, &[])]]).contains("not all has come up to 502"));
    assert!(after(&[&[sack(501, &[])], &[sack(500, &[])]]).contains("and 501 before"));
    assert!(after(&[&[sack(501, &[GapBlock::new(2, 3)])]]).contains("not all of block 2 to 3"));
    assert!(after(&[&[sack(500, &[GapBlock::new(1, 1)])]]).contains("block 1 to 1 is not behind"));
    let touching = [GapBlock::new(4, 4), GapBlock::new(5, 5)];
    assert!(after(&[&[sack(501, &touching)]]).contains("block 5 to 5 is not behind"));
    let sorted = [GapBlock::new(4, 5), GapBlock::new(2, 2)];
    assert!(after(&[&[sack(501, &sorted)]]).contains("block 2 to 2 is not behind"));
    assert!(after(&[&[Chunk::Shutdown(502)]]).contains("not all has come up to 502"));
    // Damaged on its way, it says nothing.
    let mut c = came();
    let mut damaged = bytes(&[data(502, 0, b"z")]);
    damaged[17] ^= 1;
    let whole = packet(false, OURS.0, &damaged).to_bytes();
    let mut whole = whole.to_vec();
    whole[40] ^= 1;
    c.received(&Packet::received(Bytes::from(whole), Offload::default(), Instant::ZERO));
    say(&mut c, &[sack(502, &[])]);
    assert!(c.wrong(true).is_err());
    // Given up, it need not come.
    let mut c = came();
    hear(&mut c, &[Chunk::ForwardTsn(502, &[])]);
    say(&mut c, &[sack(503, &[])]);
    assert_eq!(c.wrong(true), Ok(()));
}

#[test]
fn the_peer_s_window_holds_all_but_one_chunk_and_a_window_grows_by_what_came_back() {
    let block = [1; 1_000];
    let mut c = open();
    for n in 0..4 {
        say(&mut c, &[data(100 + n, 0, &block)]);
    }
    assert!(c.wrong(true).is_ok_and(|()| true), "the fourth probes the window");
    say(&mut c, &[data(104, 0, b"x")]);
    assert!(c.wrong(true).is_err_and(|what| what.contains("the peer takes 3000 bytes, and 4000 were sent")));
    // With a window that is wide enough.
    let mut c = open();
    hear(&mut c, &[Chunk::Init(init(PEERS, 1))]);
    say(&mut c, &[data(100, 0, b"x")]);
    hear(&mut c, &[Chunk::Sack(Sack { cum_tsn: 100, a_rwnd: 100_000, gaps: &[], dups: &[] })]);
    for n in 0..5 {
        say(&mut c, &[data(101 + n, 0, &block)]);
    }
    assert_eq!(c.wrong(true), Ok(()));
    say(&mut c, &[data(106, 0, &block)]);
    assert!(c.wrong(true).is_err_and(|what| what.contains("are out on 1 paths, and 20 came back")));
}

#[test]
fn nothing_is_sent_behind_the_end() {
    let x = &[data(100, 0, b"x")][..];
    assert!(told(&[x, &[Chunk::Shutdown(499)]]).contains("100 is not acknowledged"));
    assert!(told(&[x, &[Chunk::ShutdownAck]]).contains("100 is not acknowledged"));
    assert!(told(&[&[Chunk::Shutdown(499)], x]).contains("behind SHUTDOWN"));
    assert!(told(&[&[Chunk::Abort(false, Tlvs::EMPTY)], x]).contains("is over"));
    let mut c = open();
    say(&mut c, x);
    hear(&mut c, &[sack(100, &[])]);
    say(&mut c, &[Chunk::Shutdown(499)]);
    hear(&mut c, &[Chunk::ShutdownAck]);
    say(&mut c, &[Chunk::ShutdownComplete(false)]);
    assert_eq!(c.wrong(true), Ok(()));
    say(&mut c, &[sack(499, &[])]);
    assert!(c.wrong(true).is_err_and(|what| what.contains("is over")));
}

#[test]
fn packets_have_the_tags_and_the_company_that_they_may_have() {
    let mut c = open();
    c.sent(&packet(true, 8, &bytes(&[data(100, 0, b"x")])));
    assert!(c.wrong(false).is_err_and(|what| what.contains("nobody has chosen the tag 0x8")));
    let mut c = open();
    // A T bit sends back what came.
    c.sent(&packet(true, OURS.0, &bytes(&[Chunk::Abort(true, Tlvs::EMPTY)])));
    assert_eq!(c.wrong(true), Ok(()));
    c.sent(&packet(true, 8, &bytes(&[Chunk::Abort(true, Tlvs::EMPTY)])));
    assert!(c.wrong(false).is_err());
    assert!(told(&[&[Chunk::ShutdownComplete(false), Chunk::CookieAck]]).contains("are alone"));
    assert!(told(&[&[]]).contains("no packet is empty"));
    assert!(told(&[&[sack(499, &[]), sack(499, &[])]]).contains("more than one SACK"));
    assert!(told(&[&[data(100, 0, b"x"), sack(499, &[])]]).contains("control chunks come before DATA"));
    assert!(told(&[&[sack(499, &[]), Chunk::CookieAck]]).contains("come first"));
    assert!(told(&[&[data(101, 0, b"x"), data(100, 0, b"x")]]).contains("order of its numbers"));
    assert!(told(&[&[data(100, 0, b"")]]).contains("DATA is empty"));
    assert!(told(&[&[Chunk::Shutdown(499), data(100, 0, b"x")]]).contains("what ends an association"));
    assert!(told(&[&[Chunk::HeartbeatAck(Tlvs::new(&[0, 1, 0, 8, 1, 2, 3, 4]))]]).contains("never came"));
    assert!(told(&[&[data(100, 0, &[1; 1_460])]]).contains("longer than 1500"));
}

#[test]
fn a_checksum_and_padding_are_looked_at() {
    let raw = |edit: fn(&mut Vec<u8>)| {
        let mut c = open();
        let mut chunks = bytes(&[data(100, 0, b"x")]);
        edit(&mut chunks);
        c.sent(&packet(true, PEERS.0, &chunks));
        c.wrong(false).err().unwrap_or_default()
    };
    assert_eq!(raw(|_| {}), "");
    assert!(raw(|chunks| chunks[19] = 1).contains("padding is not zero"));
    assert!(raw(|chunks| chunks.truncate(17)).contains("no padding"));
    assert!(raw(|chunks| chunks[3] = 200).contains("ends behind its packet"));
    let mut c = open();
    let mut whole = packet(true, PEERS.0, &bytes(&[data(100, 0, b"x")])).to_bytes().to_vec();
    whole[49] ^= 1;
    c.sent(&Packet::received(Bytes::from(whole), Offload::default(), Instant::ZERO));
    assert!(c.wrong(false).is_err_and(|what| what.contains("CRC32c")));
}

/// A host that an INIT has asked for an association with a peer whose window is 3,000 bytes.
fn asked() -> Chunks {
    let mut c = Chunks::new(true, 1_500, HABITS);
    c.received(&packet(false, 0, &bytes(&[Chunk::Init(init(PEERS, 3_000))])));
    say(&mut c, &[Chunk::InitAck(init(OURS, 10_000))]);
    c
}

fn opened() -> Chunks {
    let mut c = asked();
    hear(&mut c, &[Chunk::CookieEcho(b"cook")]);
    say(&mut c, &[Chunk::CookieAck]);
    say(&mut c, &[data(OURS.1, 0, b"first")]);
    c
}

/// What looks like the end of an association may be none, before its cookie or from an address that the host does not know: it goes on with
/// its numbers.
#[test]
fn an_abort_that_ends_nothing_changes_no_numbers() {
    let mut c = asked();
    hear(&mut c, &[Chunk::Abort(false, Tlvs::EMPTY)]);
    for n in 0..2 {
        hear(&mut c, &[Chunk::CookieEcho(b"cook")]);
        say(&mut c, &[Chunk::CookieAck]);
        say(&mut c, &[data(OURS.1 + n, n as u16, b"text")]);
        hear(&mut c, &[data(PEERS.1 + n, n as u16, b"text")]);
        say(&mut c, &[sack(PEERS.1 + n, &[])]);
        c.received(&between((3, 1), OURS.0, &bytes(&[Chunk::Abort(false, Tlvs::EMPTY)])));
        c.received(&between((3, 1), PEERS.0, &bytes(&[Chunk::Abort(true, Tlvs::EMPTY)])));
    }
    assert_eq!(c.wrong(true), Ok(()));
    // An ABORT of ours may answer a copy of the INIT.
    c.received(&packet(false, 0, &bytes(&[Chunk::Init(init(PEERS, 3_000))])));
    say(&mut c, &[Chunk::Abort(false, Tlvs::EMPTY)]);
    hear(&mut c, &[Chunk::CookieEcho(b"cook")]);
    say(&mut c, &[Chunk::CookieAck]);
    say(&mut c, &[data(OURS.1 + 2, 2, b"text")]);
    assert_eq!(c.wrong(true), Ok(()));
    say(&mut c, &[Chunk::Abort(false, Tlvs::EMPTY)]);
    say(&mut c, &[data(OURS.1 + 3, 3, b"x")]);
    assert!(c.wrong(true).is_err_and(|what| what.contains("is over")));
    // None begins anew.
    for (chunk, wrong) in
        [(data(OURS.1, 0, b"others"), "before, and is"), (sack(PEERS.1 - 1, &[]), "and 500 before")]
    {
        let mut c = opened();
        hear(&mut c, &[data(PEERS.1, 0, b"text")]);
        say(&mut c, &[sack(PEERS.1, &[])]);
        c.received(&between((3, 1), OURS.0, &bytes(&[Chunk::Abort(false, Tlvs::EMPTY)])));
        hear(&mut c, &[Chunk::CookieEcho(b"cook")]);
        say(&mut c, &[Chunk::CookieAck]);
        assert_eq!(c.wrong(true), Ok(()));
        say(&mut c, &[chunk]);
        assert!(c.wrong(true).is_err_and(|what| what.contains(wrong)), "{wrong}");
    }
}

/// The peer knows the addresses that an INIT or INIT ACK has come from or has named.
#[test]
fn packets_come_from_where_the_peer_was_told_of() {
    let four = [0, 5, 0, 8, 10, 0, 0, 4];
    let params = Tlvs::new(&four);
    for (from, known) in [(1, true), (4, true), (3, false)] {
        let mut c = Chunks::new(true, 1_500, HABITS);
        c.sent(&packet(true, 0, &bytes(&[Chunk::Init(Init { params, ..init(OURS, 10_000) })])));
        hear(&mut c, &[Chunk::InitAck(init(PEERS, 3_000))]);
        c.sent(&away(from, PEERS.0, &bytes(&[Chunk::CookieEcho(b"cook")])));
        assert_eq!(c.wrong(false).is_ok(), known, "{from}");
        let mut c = Chunks::new(true, 1_500, HABITS);
        c.received(&packet(false, 0, &bytes(&[Chunk::Init(init(PEERS, 3_000))])));
        say(&mut c, &[Chunk::InitAck(Init { params, ..init(OURS, 10_000) })]);
        c.sent(&away(from, PEERS.0, &bytes(&[Chunk::CookieAck])));
        assert_eq!(c.wrong(false).is_ok(), known, "{from}");
    }
}

#[test]
fn a_copy_of_a_cookie_opens_nothing_that_is_over() {
    let abort = || Chunk::Abort(false, Tlvs::EMPTY);
    let again = |c: &mut Chunks| {
        hear(c, &[Chunk::CookieEcho(b"cook")]);
        say(c, &[Chunk::CookieAck]);
        c.wrong(true).is_err_and(|what| what.contains("a copy of its cookie"))
    };
    // While it is up, each copy has its answer.
    assert!(!again(&mut opened()));
    let mut c = opened();
    say(&mut c, &[abort()]);
    assert!(again(&mut c));
    // Both ways of a shutdown.
    let mut c = opened();
    hear(&mut c, &[sack(OURS.1, &[])]);
    say(&mut c, &[Chunk::Shutdown(PEERS.1 - 1)]);
    hear(&mut c, &[Chunk::ShutdownAck]);
    say(&mut c, &[Chunk::ShutdownComplete(false)]);
    assert!(again(&mut c));
    let mut c = opened();
    hear(&mut c, &[Chunk::Shutdown(OURS.1)]);
    say(&mut c, &[Chunk::ShutdownAck]);
    hear(&mut c, &[Chunk::ShutdownComplete(false)]);
    assert!(again(&mut c));
    let mut c = opened();
    hear(&mut c, &[abort()]);
    assert!(again(&mut c));
    // One that came before the end may have its answer behind it.
    let mut c = opened();
    hear(&mut c, &[Chunk::CookieEcho(b"cook")]);
    say(&mut c, &[abort()]);
    say(&mut c, &[Chunk::CookieAck]);
    assert_eq!(c.wrong(true), Ok(()));
    assert!(again(&mut c));
    // An ABORT may answer a copy of the INIT, and one with the T bit ends what has that tag at the other side.
    let mut c = opened();
    c.received(&packet(false, 0, &bytes(&[Chunk::Init(init(PEERS, 3_000))])));
    say(&mut c, &[abort()]);
    assert!(!again(&mut c));
    let mut c = opened();
    c.received(&packet(false, PEERS.0, &bytes(&[Chunk::Abort(true, Tlvs::EMPTY)])));
    assert!(!again(&mut c));
}

/// Numbers are left out by those whose programs limit messages, which both sides must know.
#[test]
fn only_what_may_be_given_up_leaves_numbers_out() {
    let forward = [0xc0, 0, 0, 4];
    for (limited, knows) in [(true, true), (true, false), (false, true)] {
        let mut c = Chunks::new(true, 1_500, Habits { limited, ..HABITS });
        let params = if knows { Tlvs::new(&forward) } else { Tlvs::EMPTY };
        c.received(&packet(false, 0, &bytes(&[Chunk::Init(Init { params, ..init(PEERS, 3_000) })])));
        say(&mut c, &[Chunk::InitAck(Init { params, ..init(OURS, 3_000) })]);
        say(&mut c, &[Chunk::CookieAck]);
        say(&mut c, &[data(OURS.1, 0, b"x")]);
        say(&mut c, &[data(OURS.1 + 2, 0, b"z")]);
        assert_eq!(c.wrong(true).is_ok(), limited && knows, "{limited} {knows}");
    }
}

/// FORWARD TSN passes what has left, and one number that never does, which stands for the rest of a message.
#[test]
fn what_was_never_sent_is_given_up_once_and_never_sent_then() {
    let forward = [0xc0, 0, 0, 4];
    let begun = |limited| {
        let mut c = Chunks::new(true, 1_500, Habits { limited, ..HABITS });
        let params = Tlvs::new(&forward);
        c.received(&packet(false, 0, &bytes(&[Chunk::Init(Init { params, ..init(PEERS, 3_000) })])));
        say(&mut c, &[Chunk::InitAck(Init { params, ..init(OURS, 3_000) })]);
        say(&mut c, &[Chunk::CookieAck]);
        c
    };
    let skip = |n: u32| Chunk::ForwardTsn(OURS.1 + n, &[]);
    let part = |n: u32| {
        let header = DataRepr { flags: DataFlags::BEGIN, tsn: OURS.1 + n, sid: 0, ssn: 0, ppid: 0 };
        Chunk::Data(header, b"x")
    };
    // What is acknowledged with it counts, so that a shutdown goes on; without that it does not.
    for acked in [false, true] {
        let mut c = begun(true);
        say(&mut c, &[part(0)]);
        say(&mut c, &[skip(1)]);
        say(&mut c, &[skip(1)]);
        if acked {
            hear(&mut c, &[sack(OURS.1 + 1, &[])]);
        }
        assert_eq!(c.wrong(true), Ok(()));
        say(&mut c, &[Chunk::Shutdown(PEERS.1 - 1)]);
        assert_eq!(c.wrong(true).is_ok(), acked);
    }
    let after = |limited, chunks: &[Chunk<'_>]| {
        let mut c = begun(limited);
        chunks.iter().for_each(|chunk| say(&mut c, core::slice::from_ref(chunk)));
        c.wrong(true).err().unwrap_or_default()
    };
    let whole = |n: u32| data(OURS.1 + n, n as u16, b"x");
    assert_eq!(after(true, &[part(0), skip(0), skip(1), whole(2), part(3), skip(4)]), "");
    assert!(after(true, &[part(0), skip(2)]).contains("101 has not been sent yet, and 102 is given up"));
    assert!(after(true, &[part(0), skip(1), whole(1)]).contains("101 was given up before it left"));
    // One number for one message of which some has left.
    for (chunks, n) in [(&[part(0), skip(1), skip(2)][..], 102), (&[whole(0), skip(1)], 101)] {
        assert!(after(true, chunks).contains(&format!("{n} is given up, and no message lacks a part")));
    }
    let between = [part(0), skip(1), whole(2), skip(3)];
    assert!(after(true, &between).contains("103 is given up, and no message lacks a part"));
    assert!(after(true, &[skip(0)]).contains("nothing may be given up"), "nothing of it was sent");
    assert!(after(false, &[part(0), skip(0)]).contains("nothing may be given up"), "nobody limits a message");
}

/// BBR's least window is four packets, also where RFC 9260 lets two go first.
#[test]
fn a_window_of_bbr_is_four_packets_wide() {
    let block = [1; 8_900];
    for (bbr, most) in [(false, 2), (true, 4)] {
        let mut c = Chunks::new(true, 9_000, Habits { bbr, ..HABITS });
        c.received(&packet(false, 0, &bytes(&[Chunk::Init(init(PEERS, 1 << 20))])));
        say(&mut c, &[Chunk::InitAck(init(OURS, 1 << 20))]);
        say(&mut c, &[Chunk::CookieAck]);
        // One more is begun while there is room.
        for n in 0..=most {
            say(&mut c, &[data(OURS.1 + n, 0, &block)]);
        }
        assert_eq!(c.wrong(true), Ok(()));
        say(&mut c, &[data(OURS.1 + most + 1, 0, &block)]);
        assert!(c.wrong(true).is_err_and(|what| what.contains("are out on 1 paths")), "{bbr}");
    }
}
