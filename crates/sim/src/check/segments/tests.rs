//! What is wrong with a segment is seen, and what only looks so is not.
use super::*;
use bytes::Bytes;
use lowwater_core::base::Instant;
use lowwater_core::packet::{Csum, Offload, Packet};
use lowwater_wire::protocol;

const SYN: u8 = 2;
const FIN: u8 = 1;
const ACK: u8 = 16;
/// MSS 1000, SACK, and windows in units of 8.
const OPTIONS: [u8; 12] = [2, 4, 3, 232, 4, 2, 3, 3, 3, 1, 1, 1];

/// A segment of the host under test, or of its peer.
#[derive(Clone, Copy, Default)]
struct Says<'a> {
    ours: bool,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: &'a [u8],
    len: usize,
}

impl Says<'_> {
    fn packet(&self, csum: Csum) -> Packet {
        let mut b = vec![0; 40];
        (b[0], b[9]) = (0x45, 6);
        let (src, dst) = if self.ours { (1, 2) } else { (2, 1) };
        b[12..20].copy_from_slice(&[10, 0, 0, src, 10, 0, 0, dst]);
        b[20..24].copy_from_slice(&[0, src, 0, dst]);
        b[24..28].copy_from_slice(&self.seq.to_be_bytes());
        b[28..32].copy_from_slice(&self.ack.to_be_bytes());
        b[32] = ((20 + self.options.len()) * 4) as u8;
        b[33] = self.flags;
        b[34..36].copy_from_slice(&self.window.to_be_bytes());
        b.extend_from_slice(self.options);
        b.resize(b.len() + self.len, 0);
        Packet::received(Bytes::from(b), Offload { csum, ..Offload::default() }, Instant::ZERO)
    }
}

/// A host whose connection is open: it has sent 100, and its peer's numbers begin at 501; the peer takes 800 bytes.
fn open() -> Segments {
    let mut s = Segments::new(true);
    s.sent(
        &Says { ours: true, seq: 99, flags: SYN, window: 8_000, options: &OPTIONS, ..Says::default() }
            .packet(Csum::None),
    );
    hear(
        &mut s,
        Says { seq: 500, ack: 100, flags: SYN | ACK, window: 800, options: &OPTIONS, ..Says::default() },
    );
    say(&mut s, Says { seq: 100, ack: 501, flags: ACK, window: 1_000, ..Says::default() });
    assert_eq!(s.wrong(true), Ok(()));
    s
}

fn hear(s: &mut Segments, says: Says<'_>) {
    s.received(&says.packet(Csum::Valid), Instant::ZERO);
}

fn say(s: &mut Segments, says: Says<'_>) {
    s.sent(&Says { ours: true, ..says }.packet(Csum::None));
}

/// What is said of this segment behind those of [`open`].
fn told(says: Says<'_>) -> String {
    let mut s = open();
    say(&mut s, Says { flags: says.flags | ACK, window: 1_000, ..says });
    s.wrong(true).err().unwrap_or_default()
}

const DATA: Says<'_> = Says { ours: true, seq: 100, ack: 501, flags: 0, window: 0, options: &[], len: 800 };

#[test]
fn a_window_holds_data_and_a_fin_behind_it_is_linux_s() {
    assert_eq!((told(DATA), told(Says { flags: FIN, ..DATA })), (String::new(), String::new()));
    assert!(told(Says { len: 801, ..DATA }).contains("window ends at 900"));
    let mut s = open();
    // In units of 8, for the peer's SYN-ACK said so.
    hear(&mut s, Says { seq: 501, ack: 100, flags: ACK, window: 101, ..Says::default() });
    say(&mut s, Says { flags: ACK, window: 1_000, len: 808, ..DATA });
    assert_eq!(s.wrong(true), Ok(()));
}

#[test]
fn numbers_are_left_out_only_where_a_host_has_lost_some() {
    let mut s = open();
    say(&mut s, Says { seq: 101, flags: ACK, window: 1_000, len: 10, ..DATA });
    assert!(s.wrong(true).is_err_and(|what| what.contains("100 has not been sent yet")));
    assert_eq!(s.wrong(false), Ok(()));
}

#[test]
fn what_never_came_is_not_acknowledged() {
    assert!(told(Says { ack: 502, ..DATA }).contains("nothing has come from 501 on"));
    let sack = |left: u32, right: u32| {
        let mut options = vec![1, 1, 5, 10];
        options.extend(left.to_be_bytes());
        options.extend(right.to_be_bytes());
        told(Says { options: &options, ..DATA })
    };
    assert!(sack(600, 700).contains("block 600 to 700"));
    let mut s = open();
    // Damaged on its way, it says nothing.
    s.received(
        &Says { seq: 501, ack: 100, flags: ACK, window: 9, len: 10, ..Says::default() }.packet(Csum::None),
        Instant::ZERO,
    );
    say(&mut s, Says { ack: 511, flags: ACK, window: 1_000, ..DATA });
    assert!(s.wrong(true).is_err());
}

#[test]
fn parts_and_windows_and_what_follows_a_fin_are_looked_at() {
    let mut s = open();
    hear(&mut s, Says { seq: 501, ack: 100, flags: ACK, window: 1_000, ..Says::default() });
    say(&mut s, Says { flags: ACK, window: 1_000, len: 1_001, ..DATA });
    assert!(s.wrong(true).is_err_and(|what| what.contains("MSS is 1000")));

    let mut s = open();
    say(&mut s, Says { flags: ACK, window: 999, ..DATA });
    assert_eq!(s.wrong(true), Ok(()), "what is left of a unit is no window taken back");
    say(&mut s, Says { flags: ACK, window: 997, ..DATA });
    assert!(s.wrong(true).is_err_and(|what| what.contains("the window ended at 8493 before")));

    let mut s = open();
    say(&mut s, Says { flags: ACK | FIN, window: 1_000, len: 10, ..DATA });
    say(&mut s, Says { flags: ACK, window: 1_000, len: 12, ..DATA });
    assert!(s.wrong(true).is_err_and(|what| what.contains("behind a FIN")));
}

#[test]
fn timestamps_are_in_all_segments_and_echo_what_came() {
    let stamp = |value: u8, echo: u8| [1, 1, 8, 10, 0, 0, 0, value, 0, 0, 0, echo];
    let after = |ours: &[u8]| {
        let mut s = Segments::new(true);
        let syn = Says { seq: 99, flags: SYN, window: 8_000, options: &stamp(10, 0), ..Says::default() };
        say(&mut s, syn);
        let peer = Says { seq: 500, ack: 100, flags: SYN | ACK, window: 800, options: &stamp(70, 10), ..syn };
        hear(&mut s, peer);
        // Again, when its clock has gone on.
        hear(&mut s, Says { options: &stamp(72, 10), ..peer });
        say(&mut s, Says { flags: ACK, options: ours, window: 8_000, len: 500, ..DATA });
        s.wrong(true).err().unwrap_or_default()
    };
    assert_eq!((after(&stamp(10, 70)), after(&stamp(11, 72))), (String::new(), String::new()));
    assert!(after(&stamp(9, 70)).contains("timestamp 9 after 10"));
    assert!(after(&stamp(11, 73)).contains("it echoes 73, and 70 to 72 have come"));
    assert!(after(&[]).contains("timestamps are not as agreed"));
}

/// A SYN that comes again before it is answered leaves TS.Recent as it is (RFC 7323 section 4.3).
#[test]
fn the_timestamp_of_any_copy_of_a_syn_may_be_echoed_until_something_comes_in_order() {
    let stamp = |value: u8, echo: u8| [1, 1, 8, 10, 0, 0, 0, value, 0, 0, 0, echo];
    let syn = Says { seq: 500, flags: SYN, window: 800, ..Says::default() };
    let told = |others: u32, echo: u8| {
        let mut s = Segments::new(true);
        hear(&mut s, Says { options: &stamp(60, 0), seq: others, ..syn });
        hear(&mut s, Says { options: &stamp(70, 0), ..syn });
        hear(&mut s, Says { options: &stamp(80, 0), ..syn });
        let answer = Says { seq: 99, ack: 501, flags: SYN | ACK, window: 8_000, ..Says::default() };
        say(&mut s, Says { options: &stamp(10, 70), ..answer });
        assert_eq!(s.wrong(true), Ok(()));
        say(&mut s, Says { flags: ACK, options: &stamp(11, echo), window: 8_000, len: 500, ..DATA });
        s.wrong(true).err().unwrap_or_default()
    };
    assert_eq!((told(400, 70), told(400, 80), told(500, 60)), (String::new(), String::new(), String::new()));
    assert!(told(400, 69).contains("it echoes 69, and 70 to 80 have come"));
    assert!(told(400, 60).contains("it echoes 60, and 70 to 80 have come"), "of another SYN");
    assert!(told(400, 81).contains("it echoes 81, and 70 to 80 have come"));
    assert!(told(400, 75).contains("has not come"), "of no copy");
}

/// An ICMP error of this type for what the host under test has sent from this port.
fn error(kind: u8, port: u8) -> Packet {
    let mut packet = Says::default().packet(Csum::Valid).to_bytes()[..20].to_vec();
    packet[9] = protocol::ICMP;
    packet.extend([kind, 4, 0, 0, 0, 0, 0, 0]);
    let mut quote = Says { ours: true, ..Says::default() }.packet(Csum::Valid).to_bytes()[..28].to_vec();
    quote[21] = port;
    packet.extend(quote);
    Packet::received(Bytes::from(packet), Offload::default(), Instant::ZERO)
}

#[test]
fn the_timestamp_of_data_is_that_of_its_departure() {
    let stamp = |value: u8| [1, 1, 8, 10, 0, 0, 0, value, 0, 0, 0, 70];
    // A SYN at 990 ms, and then data: its number, when it leaves, and its timestamp. An error comes before the second.
    let by = |orderly, data: &[(u32, u64, u8)], kind: Option<(u8, u8, u64)>| {
        let mut s = Segments::new(orderly);
        let at = |says: Says<'_>, ms| Packet { at: Instant::from_millis(ms), ..says.packet(Csum::None) };
        let syn = Says { ours: true, seq: 99, flags: SYN, window: 8_000, ..Says::default() };
        s.sent(&at(Says { options: &stamp(10), ..syn }, 990));
        let peer = Says { ours: false, seq: 500, ack: 100, flags: SYN | ACK, window: 8_000, ..syn };
        hear(&mut s, Says { options: &[1, 1, 8, 10, 0, 0, 0, 70, 0, 0, 0, 10], ..peer });
        for (n, &(seq, ms, value)) in data.iter().enumerate() {
            if let Some((kind, port, ms)) = kind.filter(|_| n == 1) {
                s.received(&error(kind, port), Instant::from_millis(ms));
            }
            let options = &stamp(value);
            s.sent(&at(Says { seq, flags: ACK, options, window: 8_000, len: 500, ..DATA }, ms));
        }
        s.wrong(true).err().unwrap_or_default()
    };
    let told = |data: &[(u32, u64, u8)], kind| by(true, data, kind);
    let again = |ms, value, error| told(&[(100, 1_000, 20), (100, ms, value)], error);
    assert_eq!((again(1_030, 50, None), again(1_030, 46, None)), (String::new(), String::new()));
    assert!(again(1_030, 40, None).contains("10 ms off its departure"));
    assert_eq!(again(1_030, 40, Some((3, 1, 1_025))), "");
    assert!(again(1_030, 40, Some((3, 1, 1_015))).contains("10 ms off"), "it has looked at the clock since");
    assert!(again(1_030, 40, Some((8, 1, 1_025))).contains("10 ms off"), "no error");
    assert!(again(1_030, 40, Some((3, 9, 1_025))).contains("10 ms off"), "of another connection");
    let fresh = told(&[(100, 1_000, 20), (600, 1_030, 40)], Some((3, 1, 1_025)));
    assert!(fresh.contains("10 ms off"), "nothing was sent again: {fresh}");
    let first_waits = |error| by(false, &[(100, 1_000, 20), (600, 1_030, 40)], error);
    assert_eq!(first_waits(Some((3, 1, 1_025))), "");
    assert!(first_waits(Some((3, 1, 1_015))).contains("10 ms off"));
    assert!(first_waits(None).contains("10 ms off"));
    let twice = [(100, 1_000, 20), (100, 1_030, 40), (100, 1_031, 41)];
    let behind = [(100, 1_000, 20), (600, 1_030, 50), (100, 1_035, 45)];
    for (orderly, is_wrong) in [(true, true), (false, false)] {
        assert!(by(orderly, &twice, Some((3, 1, 1_025))).contains("10 ms off"), "an error sends once");
        assert_eq!(by(orderly, &behind, Some((3, 1, 1_025))).contains("10 ms off"), is_wrong, "{orderly}");
    }
    assert!(told(&[(100, 1_000, 10)], None).contains("10 ms off"), "the first one, by the SYN");
    assert!(told(&[(100, 1_000, 20), (600, 1_010, 40)], None).contains("before it were 10 ms off"));
}

#[test]
fn a_syn_that_never_came_is_not_answered_and_one_that_is_answered_again_counts_twice() {
    let answer =
        Says { seq: 99, ack: 501, flags: SYN | ACK, window: 8_000, options: &OPTIONS, ..Says::default() };
    let mut s = Segments::new(true);
    say(&mut s, answer);
    assert!(s.wrong(true).is_err_and(|what| what.contains("a SYN that never came")));
    let mut s = Segments::new(true);
    hear(&mut s, Says { seq: 500, flags: SYN, window: 800, options: &OPTIONS, ..Says::default() });
    say(&mut s, answer);
    say(&mut s, answer);
    assert_eq!((s.wrong(true), s.countable()), (Ok(()), 3));
    // Its window was 800 bytes, not units.
    say(&mut s, Says { flags: ACK, window: 1_000, len: 801, ..DATA });
    assert!(s.wrong(true).is_err_and(|what| what.contains("window ends at 900")));
}

/// A copy of a SYN that comes when its connection is gone opens another one.
#[test]
fn a_late_copy_of_a_syn_may_open_another_connection_and_does_not_undo_one_that_is_open() {
    let syn = Says { seq: 500, flags: SYN, window: 800, options: &OPTIONS, ..Says::default() };
    let answer =
        Says { seq: 99, ack: 501, flags: SYN | ACK, window: 8_000, options: &OPTIONS, ..Says::default() };
    let answered_again = |isn: u32| {
        let mut s = Segments::new(true);
        hear(&mut s, syn);
        say(&mut s, answer);
        hear(&mut s, Says { seq: 501, ack: 100, flags: ACK, window: 100, len: 10, ..Says::default() });
        hear(&mut s, syn);
        say(&mut s, Says { seq: isn, ..answer });
        assert_eq!(s.wrong(true), Ok(()));
        say(&mut s, Says { seq: isn + 1, ack: 511, flags: ACK, window: 1_000, ..Says::default() });
        s.wrong(true)
    };
    assert!(answered_again(1_234).is_err_and(|what| what.contains("nothing has come from 501 on")));
    assert_eq!(answered_again(99), Ok(()));
}

/// A SYN may bring data, and its answer acknowledge some of it or none (TCP Fast Open).
#[test]
fn a_syn_with_data_is_answered_with_it_or_without() {
    let syn = Says { seq: 500, flags: SYN, window: 800, len: 10, options: &OPTIONS, ..Says::default() };
    for (ack, good) in [(500, false), (501, true), (507, true), (511, true), (512, false)] {
        let mut s = Segments::new(true);
        hear(&mut s, syn);
        say(
            &mut s,
            Says { seq: 99, ack, flags: SYN | ACK, window: 8_000, options: &OPTIONS, ..Says::default() },
        );
        assert_eq!(s.wrong(true).is_ok(), good, "{ack}");
    }
}

/// One that goes again goes without its data, and may meet the answer that acknowledges it.
#[test]
fn a_copy_of_a_syn_without_its_data_takes_none_of_it_back() {
    let syn = Says { seq: 500, flags: SYN, window: 800, len: 10, options: &OPTIONS, ..Says::default() };
    for (seq, ack, good) in [(500, 511, true), (500, 512, false), (501, 511, false)] {
        let mut s = Segments::new(true);
        hear(&mut s, Says { seq, ..syn });
        hear(&mut s, Says { len: 0, ..syn });
        let answer = Says { seq: 99, ack, flags: SYN | ACK, window: 8_000, options: &OPTIONS, ..DATA };
        say(&mut s, Says { len: 0, ..answer });
        assert_eq!(s.wrong(true).is_ok(), good, "{seq} {ack}");
    }
}

/// What is out of place before the handshake is complete is answered with the window of the SYN, whatever the connection has told since.
#[test]
fn an_answer_in_the_name_of_a_syn_takes_no_window_back() {
    let told = |at_once: bool, window: u16, len: usize| {
        let mut s = Segments::new(true);
        hear(&mut s, Says { seq: 500, flags: SYN, window: 800, options: &OPTIONS, ..Says::default() });
        let answer = Says { seq: 99, ack: 501, flags: SYN | ACK, window: 8_000, ..Says::default() };
        say(&mut s, Says { options: &OPTIONS, ..answer });
        let more = Says { flags: ACK, window: 2_000, len: 10, ..DATA };
        if at_once {
            say(&mut s, more);
        }
        hear(&mut s, Says { seq: 501, ack: 100, flags: ACK, window: 100, ..Says::default() });
        say(&mut s, more);
        assert_eq!(s.wrong(true), Ok(()));
        say(&mut s, Says { seq: 110, window, len, ..more });
        s.wrong(true).err().unwrap_or_default()
    };
    assert_eq!(told(true, 1_000, 0), "");
    for (at_once, window, len) in [(false, 1_000, 0), (true, 999, 0), (true, 1_001, 0), (true, 1_000, 1)] {
        assert!(told(at_once, window, len).contains("the window ended at 16501 before"), "{window} {len}");
    }
}

/// Who is accepted with his SYN may be sent data at once, which may overtake the answer where anything overtakes anything.
#[test]
fn data_that_overtakes_the_answer_to_a_syn_is_judged_behind_it() {
    for (orderly, len, wrong) in [
        (true, 10, Some("there is no connection")),
        (false, 10, None),
        (false, 801, Some("window ends at 900")),
    ] {
        let mut s = Segments::new(orderly);
        hear(&mut s, Says { seq: 500, flags: SYN, window: 800, options: &OPTIONS, ..Says::default() });
        say(&mut s, Says { seq: 100, ack: 501, flags: ACK, window: 1_000, len, ..Says::default() });
        assert_eq!(s.never_opened().is_some(), !orderly);
        say(
            &mut s,
            Says { seq: 99, ack: 501, flags: SYN | ACK, window: 8_000, options: &OPTIONS, ..Says::default() },
        );
        assert_eq!(s.never_opened(), None);
        match wrong {
            None => assert_eq!(s.wrong(true), Ok(())),
            Some(wrong) => assert!(s.wrong(true).is_err_and(|what| what.contains(wrong)), "{wrong}"),
        }
    }
}
