//! The language of chunks: what is read is shown again, and is on the wire as the RFCs draw it.
use super::*;
use crate::cursor::Cursor;
use lowwater_wire::sctp::{SctpRepr, fill_checksum};

const HEADER: SctpRepr = SctpRepr { src_port: 1, dst_port: 2, vtag: 3 };

fn read(text: &str) -> SctpSpec {
    parse(&mut Cursor::new(text, 1), true).unwrap_or_else(|e| panic!("{text}: {}", e.what))
}

fn chunks(text: &str) -> Vec<Item> {
    match read(text).content {
        Content::Chunks(chunks) => chunks,
        Content::Raw(bytes) => panic!("{text}: {bytes:?}"),
    }
}

fn refused(text: &str) -> String {
    parse(&mut Cursor::new(text, 1), true).expect_err(text).what
}

/// One of every name, in the form in which it is shown.
const ALL: &[&str] = &[
    "DATA[flgs=BE, len=1016, tsn=1, sid=0, ssn=0, ppid=0]",
    "DATA[flgs=IUBE, len=17, tsn=4294967295, sid=65535, ssn=7, ppid=5]",
    "INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1]",
    "INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1, IPV4_ADDRESS[addr=10.0.0.1], IPV6_ADDRESS[addr=fd00::1], \
     COOKIE_PRESERVATIVE[incr=5], SUPPORTED_ADDRESS_TYPES[types=[IPv4, IPv6, HOSTNAME]], ECN_CAPABLE[], \
     FORWARD_TSN_SUPPORTED[], SUPPORTED_EXTENSIONS[types=[RECONFIG, FORWARD_TSN, 119]], \
     ADAPTATION_INDICATION[adaptation_code_point=9], ZERO_CHECKSUM_ACCEPTABLE[edmid=1], \
     HOSTNAME_ADDRESS[addr=\"peer\"], PAD[len=6, val=[0x01, 0x02]], PARAMETER[type=0xc123, len=7, val=[0x01, 0x02, 0x03]]]",
    "INIT_ACK[flgs=0, tag=2, a_rwnd=1500, os=1, is=1, tsn=10, STATE_COOKIE[len=6, val=[0x63, 0x6b]], \
     UNRECOGNIZED_PARAMETER[params=[PARAMETER[type=0xc123, len=5, val=[0x01]]]]]",
    "SACK[flgs=0, cum_tsn=10, a_rwnd=1500, gaps=[2:3, 5:9], dups=[4, 5]]",
    "SACK[flgs=0, cum_tsn=10, a_rwnd=1500, gaps=[], dups=[]]",
    "HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[len=5, val=[0x2a]]]",
    "HEARTBEAT_ACK[flgs=0, HEARTBEAT_INFORMATION[len=5, val=[0x2a]]]",
    "ABORT[flgs=0]",
    "ABORT[flgs=T, USER_INITIATED_ABORT[info=\"enough\"]]",
    "ABORT[flgs=0, PROTOCOL_VIOLATION[info=\"why\"], CAUSE[code=0x105, len=6, info=[0x00, 0x01]]]",
    "SHUTDOWN[flgs=0, cum_tsn=5]",
    "SHUTDOWN_ACK[flgs=0]",
    "SHUTDOWN_COMPLETE[flgs=T]",
    "COOKIE_ECHO[flgs=0, len=6, val=[0x63, 0x6b]]",
    "COOKIE_ACK[flgs=0]",
    "ECNE[flgs=0, tsn=5]",
    "CWR[flgs=0, tsn=5]",
    "ERROR[flgs=0, INVALID_STREAM_IDENTIFIER[sid=7], MISSING_MANDATORY_PARAMETER[types=[7, 8, 9]], \
     STALE_COOKIE_ERROR[staleness=99], OUT_OF_RESOURCE[], UNRESOLVABLE_ADDRESS[param=HOSTNAME_ADDRESS[addr=\"a\"]], \
     UNRECOGNIZED_CHUNK_TYPE[chk=CHUNK[type=0xfe, flgs=0, len=6, val=[0x01, 0x02]]], INVALID_MANDATORY_PARAMETER[], \
     UNRECOGNIZED_PARAMETERS[params=[PARAMETER[type=0xc123, len=5, val=[0x01]]]], NO_USER_DATA[tsn=4], \
     COOKIE_RECEIVED_WHILE_SHUTDOWN[], RESTART_WITH_NEW_ADDRESSES[params=[IPV4_ADDRESS[addr=10.0.0.9]]]]",
    "I_DATA[flgs=B, len=24, tsn=1, sid=2, mid=3, ppid=4]",
    "I_DATA[flgs=E, len=24, tsn=1, sid=2, mid=3, fsn=4]",
    "RECONFIG[flgs=0, OUTGOING_SSN_RESET[req_sn=1, resp_sn=2, last_tsn=3], INCOMING_SSN_RESET[req_sn=1, sids=[4, 5, 6]]]",
    "RECONFIG[flgs=0, SSN_TSN_RESET[req_sn=1], ADD_OUTGOING_STREAMS[req_sn=1, number_of_new_streams=2], \
     ADD_INCOMING_STREAMS[req_sn=1, number_of_new_streams=2]]",
    "RECONFIG[flgs=0, RECONFIG_RESPONSE[resp_sn=1, result=6], \
     RECONFIG_RESPONSE[resp_sn=1, result=6, sender_next_tsn=7, receiver_next_tsn=8]]",
    "PAD[flgs=0, len=5, val=[0x00]]",
    "FORWARD_TSN[cum_tsn=5, ids=[{1,2}, {3,4}]]",
    "I_FORWARD_TSN[cum_tsn=5, ids=[{1,1,70000}]]",
    "AUTH[flgs=0, len=9, val=[0x00, 0x01, 0x00, 0x01, 0xff]]",
    "ASCONF[flgs=0, len=8, val=[0x00, 0x00, 0x00, 0x01]]",
    "ASCONF_ACK[flgs=0, len=8, val=[0x00, 0x00, 0x00, 0x01]]",
    "CHUNK[type=0x3f, flgs=0xff, len=6, val=[0x01, 0x02]]",
    "NR_SACK[flgs=0, cum_tsn=10, a_rwnd=1500, gaps=[2:3], nr_gaps=[5:9, 11:11], dups=[4, 5, 6]]",
];

#[test]
fn what_is_read_is_shown_and_survives_the_wire() {
    for line in ALL {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let list = chunks(&format!("sctp: {line}"));
        let shown: Vec<String> = list.iter().map(Item::to_string).collect();
        assert_eq!(shown.join(";"), line);
        let mut bytes = encode(&HEADER, &list);
        fill_checksum(&mut bytes, &[]);
        let back = decode(&bytes[12..]).expect("chunks");
        assert_eq!(back, list, "{line}");
        assert_eq!(difference(&list, &back), None);
    }
}

#[test]
fn every_name_of_the_tables_is_tried() {
    let names = [Class::Chunk, Class::Param, Class::Cause];
    for shape in names.iter().flat_map(|class| shapes::of(*class)) {
        let head = format!("{}[", shape.name);
        assert!(ALL.iter().any(|line| line.contains(&head)), "{}", shape.name);
    }
}

#[test]
fn each_written_thing_is_compared_and_dots_are_not() {
    let mut compared = 0;
    for line in ALL {
        for (at, digit) in line.char_indices().filter(|(_, ch)| ch.is_ascii_digit()) {
            // Another digit where that still reads and means another thing.
            let other = if digit == '1' { "2" } else { "1" };
            let changed = format!("{}{other}{}", &line[..at], &line[at + 1..]);
            let Ok(spec) = parse(&mut Cursor::new(&format!("sctp: {changed}"), 1), true) else { continue };
            let Content::Chunks(expected) = spec.content else { continue };
            let actual = decode(&encode(&HEADER, &chunks(&format!("sctp: {line}")))[12..]).expect("chunks");
            assert!(difference(&expected, &actual).is_some(), "{changed} is not {line}");
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
    for (any, line) in [
        ("INIT[flgs=..., tag=..., a_rwnd=..., os=..., is=..., tsn=..., ...]", ALL[3]),
        ("INIT[...]", ALL[3]),
        ("SACK[flgs=0, cum_tsn=..., a_rwnd=..., gaps=..., dups=[...]]", ALL[5]),
        ("ABORT[flgs=..., ...]", ALL[10]),
        ("COOKIE_ECHO[flgs=0, len=..., val=...]", ALL[15]),
        ("CHUNK[type=..., flgs=..., len=..., val=...]", ALL[0]),
        ("CHUNK[type=COOKIE_ECHO, flgs=0, len=6, val=[99, 107]]", ALL[15]),
        ("HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[...]]", ALL[7]),
    ] {
        let actual = decode(&encode(&HEADER, &chunks(&format!("sctp: {line}")))[12..]).expect("chunks");
        assert_eq!(difference(&chunks(&format!("sctp: {any}")), &actual), None, "{any}");
    }
}

#[test]
fn differences_are_named() {
    let say = |expected: &str, actual: &str| {
        difference(&chunks(&format!("sctp: {expected}")), &chunks(&format!("sctp: {actual}")))
            .expect("a difference")
    };
    assert_eq!(say("COOKIE_ACK[flgs=0]", "SHUTDOWN_ACK[flgs=0]"), "SHUTDOWN_ACK where COOKIE_ACK should be");
    assert_eq!(say("ECNE[flgs=0, tsn=5]", "ECNE[flgs=0, tsn=6]"), "ECNE with other tsn");
    assert_eq!(
        say("COOKIE_ACK[flgs=0]", "COOKIE_ACK[flgs=0]; COOKIE_ACK[flgs=0]"),
        "another number of chunks"
    );
    assert_eq!(
        say("COOKIE_ACK[flgs=0]; COOKIE_ACK[flgs=0]", "COOKIE_ACK[flgs=0]"),
        "another number of chunks"
    );
    assert_eq!(say("ABORT[flgs=0]", ALL[10]), "ABORT with other flags");
    assert_eq!(say("ABORT[flgs=T]", ALL[10]), "ABORT with another number of items in it");
}

#[test]
fn what_a_line_leaves_open_is_filled() {
    let bytes = |text: &str| encode(&HEADER, &chunks(text))[12..].to_vec();
    assert_eq!(bytes("sctp: DATA[flgs=BE, len=18, tsn=1, sid=..., ssn=..., ppid=...]").len(), 20);
    assert_eq!(bytes("sctp: COOKIE_ECHO[flgs=0, len=6, val=...]"), [10, 0, 0, 6, b'A', b'A', 0, 0]);
    assert_eq!(bytes("sctp: COOKIE_ECHO[flgs=..., len=..., val=...]"), [10, 0, 0, 4]);
    assert_eq!(bytes("sctp:"), [0; 0]);
    assert_eq!(read("sctp: [1, 0xff, 3]").content, Content::Raw(vec![1, 255, 3]));
}

#[test]
fn the_header_is_read() {
    let spec = read("sctp(tag=7): COOKIE_ACK[flgs=0]");
    assert_eq!((spec.tag, spec.crc), (Some(7), Crc::Good));
    let spec = read("sctp(bad_crc32c, tag=7): COOKIE_ACK[flgs=0]");
    assert_eq!((spec.tag, spec.crc), (Some(7), Crc::Bad));
    assert_eq!(read("sctp(zero_checksum): COOKIE_ACK[flgs=0]").crc, Crc::Zero);
    assert_eq!(read("sctp/udp(9900>9899): COOKIE_ACK[flgs=0]").udp, Some((9_900, 9_899)));
    assert_eq!(read("sctp(tag=7)/udp(1>2):").udp, Some((1, 2)));
    assert!(refused("sctp/tcp(1>2):").contains("or in UDP"));
    let outbound = parse(&mut Cursor::new("sctp(bad_crc32c): COOKIE_ACK[flgs=0]", 1), false);
    assert!(outbound.is_err());
}

#[test]
fn mistakes_are_explained() {
    assert!(refused("sctp: DATTA[flgs=0]").contains("'DATTA' is no chunk; there are CHUNK, DATA"));
    assert!(refused("sctp: INIT[flgs=0, a_rwnd=1]").contains("'tag=' should stand here, not 'a_rwnd'"));
    assert!(refused("sctp: DATA[flgs=BX, len=16]").contains("'X' in 'BX' is no flag"));
    assert!(refused("sctp: DATA[flgs=BE, len=15, tsn=1, sid=1, ssn=1, ppid=1]").contains("too short"));
    assert!(refused("sctp: COOKIE_ECHO[flgs=0, len=..., val=[1]]").contains("'len=' must be a number"));
    assert!(
        refused("sctp: ECNE[flgs=0, tsn=4294967296]").contains("4294967296 does not fit: there are 32 bits")
    );
    assert!(refused("sctp(foo): ECNE[flgs=0, tsn=1]").contains("'foo'"));
    let deep = format!("sctp: {}", "ERROR[flgs=0, UNRECOGNIZED_CHUNK_TYPE[chk=".repeat(9));
    assert!(refused(&deep).contains("too deep"));
}

#[test]
fn numbers_move_with_their_sides() {
    let by = Shift { own: 100, other: 1_000, tag: (2, 22) };
    for (before, after) in [
        (
            "DATA[flgs=BE, len=16, tsn=1, sid=1, ssn=1, ppid=1]",
            "DATA[flgs=BE, len=16, tsn=101, sid=1, ssn=1, ppid=1]",
        ),
        (
            "SACK[flgs=0, cum_tsn=1, a_rwnd=1, gaps=[1:1], dups=[2]]",
            "SACK[flgs=0, cum_tsn=1001, a_rwnd=1, gaps=[1:1], dups=[1002]]",
        ),
        (
            "INIT_ACK[flgs=0, tag=2, a_rwnd=1, os=1, is=1, tsn=1]",
            "INIT_ACK[flgs=0, tag=22, a_rwnd=1, os=1, is=1, tsn=101]",
        ),
        (
            "INIT[flgs=0, tag=3, a_rwnd=1, os=1, is=1, tsn=1]",
            "INIT[flgs=0, tag=3, a_rwnd=1, os=1, is=1, tsn=101]",
        ),
        ("ERROR[flgs=0, NO_USER_DATA[tsn=1]]", "ERROR[flgs=0, NO_USER_DATA[tsn=1001]]"),
        (
            "ERROR[flgs=0, UNRECOGNIZED_CHUNK_TYPE[chk=CWR[flgs=0, tsn=1]]]",
            "ERROR[flgs=0, UNRECOGNIZED_CHUNK_TYPE[chk=CWR[flgs=0, tsn=1001]]]",
        ),
        (
            "RECONFIG[flgs=0, OUTGOING_SSN_RESET[req_sn=1, resp_sn=2, last_tsn=3]]",
            "RECONFIG[flgs=0, OUTGOING_SSN_RESET[req_sn=101, resp_sn=1002, last_tsn=103]]",
        ),
    ] {
        let mut list = chunks(&format!("sctp: {before}"));
        list.iter_mut().for_each(|chunk| chunk.shift(by));
        assert_eq!(list[0].to_string(), after);
    }
}
