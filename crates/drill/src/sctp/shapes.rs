//! The names of the language, with the layout of each (packetdrill's SCTP dialect; what is ours is marked).
use super::{Class, Names, Shape, Slot, Space};
use Slot::{
    Bytes, Counted, Counts, Data, Dups, Flags, Gaps, Ids, Ip4, Ip6, Items, Kind, Len, List, MaybeNum,
    NamedItem, NamedItems, Num, Text, Zeros,
};
use Space::{Other, Own, Plain, Tag};

const DATA_FLAGS: &[(char, u8)] = &[('I', 8), ('U', 4), ('B', 2), ('E', 1)];
const T: &[(char, u8)] = &[('T', 1)];
const FLAGS: Slot = Flags(&[]);
const INIT: &[Slot] = &[
    FLAGS,
    Num("tag", 4, Tag),
    Num("a_rwnd", 4, Plain),
    Num("os", 2, Plain),
    Num("is", 2, Plain),
    Num("tsn", 4, Own),
    Items(Class::Param),
];

const fn chunk(name: &'static str, kind: u16, slots: &'static [Slot]) -> Shape {
    Shape { name, class: Class::Chunk, kind: Some(kind), slots }
}

const fn param(name: &'static str, kind: u16, slots: &'static [Slot]) -> Shape {
    Shape { name, class: Class::Param, kind: Some(kind), slots }
}

const fn cause(name: &'static str, kind: u16, slots: &'static [Slot]) -> Shape {
    Shape { name, class: Class::Cause, kind: Some(kind), slots }
}

static CHUNKS: [Shape; 25] = [
    Shape {
        name: "CHUNK",
        class: Class::Chunk,
        kind: None,
        slots: &[Kind("type"), FLAGS, Len, Bytes("val")],
    },
    chunk(
        "DATA",
        0,
        &[
            Flags(DATA_FLAGS),
            Len,
            Num("tsn", 4, Own),
            Num("sid", 2, Plain),
            Num("ssn", 2, Plain),
            Num("ppid", 4, Plain),
            Data,
        ],
    ),
    chunk("INIT", 1, INIT),
    chunk("INIT_ACK", 2, INIT),
    chunk("SACK", 3, &[FLAGS, Num("cum_tsn", 4, Other), Num("a_rwnd", 4, Plain), Counts, Gaps("gaps"), Dups]),
    chunk("HEARTBEAT", 4, &[FLAGS, Items(Class::Param)]),
    chunk("HEARTBEAT_ACK", 5, &[FLAGS, Items(Class::Param)]),
    chunk("ABORT", 6, &[Flags(T), Items(Class::Cause)]),
    chunk("SHUTDOWN", 7, &[FLAGS, Num("cum_tsn", 4, Other)]),
    chunk("SHUTDOWN_ACK", 8, &[FLAGS]),
    chunk("ERROR", 9, &[FLAGS, Items(Class::Cause)]),
    chunk("COOKIE_ECHO", 10, &[FLAGS, Len, Bytes("val")]),
    chunk("COOKIE_ACK", 11, &[FLAGS]),
    chunk("ECNE", 12, &[FLAGS, Num("tsn", 4, Other)]),
    chunk("CWR", 13, &[FLAGS, Num("tsn", 4, Own)]),
    chunk("SHUTDOWN_COMPLETE", 14, &[Flags(T)]),
    chunk(
        "I_DATA",
        64,
        &[
            Flags(DATA_FLAGS),
            Len,
            Num("tsn", 4, Own),
            Num("sid", 2, Plain),
            Zeros(2),
            Num("mid", 4, Plain),
            Num("ppid|fsn", 4, Plain),
            Data,
        ],
    ),
    // Selective acknowledgements of which some hold for good (draft-tuexen-tsvwg-sctp-multipath); the stack drops it as unknown.
    chunk(
        "NR_SACK",
        16,
        &[
            FLAGS,
            Num("cum_tsn", 4, Other),
            Num("a_rwnd", 4, Plain),
            Counts,
            Zeros(2),
            Gaps("gaps"),
            Gaps("nr_gaps"),
            Dups,
        ],
    ),
    chunk("RECONFIG", 130, &[FLAGS, Items(Class::Param)]),
    chunk("PAD", 132, &[FLAGS, Len, Bytes("val")]),
    chunk("FORWARD_TSN", 192, &[Num("cum_tsn", 4, Own), Ids(&[2, 2])]),
    chunk("I_FORWARD_TSN", 194, &[Num("cum_tsn", 4, Own), Ids(&[2, 2, 4])]),
    // Ours: packetdrill knows these by their numbers alone.
    chunk("AUTH", 15, &[FLAGS, Len, Bytes("val")]),
    chunk("ASCONF_ACK", 128, &[FLAGS, Len, Bytes("val")]),
    chunk("ASCONF", 193, &[FLAGS, Len, Bytes("val")]),
];

static PARAMS: [Shape; 21] = [
    Shape { name: "PARAMETER", class: Class::Param, kind: None, slots: &[Kind("type"), Len, Bytes("val")] },
    param("HEARTBEAT_INFORMATION", 1, &[Len, Bytes("val")]),
    param("IPV4_ADDRESS", 5, &[Ip4]),
    param("IPV6_ADDRESS", 6, &[Ip6]),
    param("STATE_COOKIE", 7, &[Len, Bytes("val")]),
    param("UNRECOGNIZED_PARAMETER", 8, &[NamedItems("params", Class::Param)]),
    param("COOKIE_PRESERVATIVE", 9, &[Num("incr", 4, Plain)]),
    param("HOSTNAME_ADDRESS", 11, &[Text("addr", true)]),
    param("SUPPORTED_ADDRESS_TYPES", 12, &[List("types", 2, Names::Addresses)]),
    param(
        "OUTGOING_SSN_RESET",
        13,
        &[
            Num("req_sn", 4, Own),
            Num("resp_sn", 4, Other),
            Num("last_tsn", 4, Own),
            List("sids", 2, Names::None),
        ],
    ),
    param("INCOMING_SSN_RESET", 14, &[Num("req_sn", 4, Own), List("sids", 2, Names::None)]),
    param("SSN_TSN_RESET", 15, &[Num("req_sn", 4, Own)]),
    param(
        "RECONFIG_RESPONSE",
        16,
        &[
            Num("resp_sn", 4, Other),
            Num("result", 4, Plain),
            MaybeNum("sender_next_tsn", 4, Own),
            MaybeNum("receiver_next_tsn", 4, Other),
        ],
    ),
    param(
        "ADD_OUTGOING_STREAMS",
        17,
        &[Num("req_sn", 4, Own), Num("number_of_new_streams", 2, Plain), Zeros(2)],
    ),
    param(
        "ADD_INCOMING_STREAMS",
        18,
        &[Num("req_sn", 4, Own), Num("number_of_new_streams", 2, Plain), Zeros(2)],
    ),
    param("ECN_CAPABLE", 0x8000, &[]),
    // Ours.
    param("ZERO_CHECKSUM_ACCEPTABLE", 0x8001, &[Num("edmid", 4, Plain)]),
    param("PAD", 0x8005, &[Len, Bytes("val")]),
    param("SUPPORTED_EXTENSIONS", 0x8008, &[List("types", 1, Names::Chunks)]),
    param("FORWARD_TSN_SUPPORTED", 0xc000, &[]),
    param("ADAPTATION_INDICATION", 0xc006, &[Num("adaptation_code_point", 4, Plain)]),
];

static CAUSES: [Shape; 14] = [
    Shape { name: "CAUSE", class: Class::Cause, kind: None, slots: &[Kind("code"), Len, Bytes("info")] },
    cause("INVALID_STREAM_IDENTIFIER", 1, &[Num("sid", 2, Plain), Zeros(2)]),
    cause("MISSING_MANDATORY_PARAMETER", 2, &[Counted("types", 2)]),
    cause("STALE_COOKIE_ERROR", 3, &[Num("staleness", 4, Plain)]),
    cause("OUT_OF_RESOURCE", 4, &[]),
    cause("UNRESOLVABLE_ADDRESS", 5, &[NamedItem("param", Class::Param)]),
    cause("UNRECOGNIZED_CHUNK_TYPE", 6, &[NamedItem("chk", Class::Chunk)]),
    cause("INVALID_MANDATORY_PARAMETER", 7, &[]),
    cause("UNRECOGNIZED_PARAMETERS", 8, &[NamedItems("params", Class::Param)]),
    cause("NO_USER_DATA", 9, &[Num("tsn", 4, Other)]),
    cause("COOKIE_RECEIVED_WHILE_SHUTDOWN", 10, &[]),
    cause("RESTART_WITH_NEW_ADDRESSES", 11, &[NamedItems("params", Class::Param)]),
    cause("USER_INITIATED_ABORT", 12, &[Text("info", false)]),
    cause("PROTOCOL_VIOLATION", 13, &[Text("info", false)]),
];

/// The whole table of a class; the first stands for whatever has no name.
pub(super) fn of(class: Class) -> &'static [Shape] {
    match class {
        Class::Chunk => &CHUNKS,
        Class::Param => &PARAMS,
        Class::Cause => &CAUSES,
    }
}

/// By name.
pub(super) fn named(class: Class, name: &str) -> Option<&'static Shape> {
    of(class).iter().find(|shape| shape.name == name)
}

/// By type or code, where that has a name.
pub(super) fn numbered(class: Class, kind: u16) -> Option<&'static Shape> {
    of(class).iter().find(|shape| shape.kind == Some(kind))
}

/// The one that stands for any.
pub(super) fn any(class: Class) -> &'static Shape {
    &of(class)[0]
}

/// The number of a name in a list.
pub(super) fn number(names: Names, name: &str) -> Option<u32> {
    match names {
        Names::None => None,
        Names::Addresses => ADDRESSES.iter().find(|(_, n)| *n == name).map(|(n, _)| *n),
        Names::Chunks => named(Class::Chunk, name)?.kind.map(u32::from),
    }
}

/// The name of a number in a list.
pub(super) fn name(names: Names, number: u32) -> Option<&'static str> {
    match names {
        Names::None => None,
        Names::Addresses => ADDRESSES.iter().find(|(n, _)| *n == number).map(|(_, name)| *name),
        Names::Chunks => numbered(Class::Chunk, number as u16).map(|shape| shape.name),
    }
}

const ADDRESSES: &[(u32, &str)] = &[(5, "IPv4"), (6, "IPv6"), (11, "HOSTNAME")];
