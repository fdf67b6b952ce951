//! Reads an ICMP message: `icmp TYPE CODE mtu N id N [what it quotes]`; names for types and codes.
use super::{Scope, tcp};
use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::script::{IcmpSpec, Quoted};

/// A type with its codes.
type Kind = (u8, &'static str, &'static [(u8, &'static str)]);

/// RFC 792, RFC 1812 section 5.2.7.1.
const V4: &[Kind] = &[
    (0, "echo_reply", &[]),
    (3, "unreachable", &UNREACHABLE4),
    (4, "source_quench", &[]),
    (5, "redirect", &[]),
    (8, "echo_request", &[]),
    (11, "time_exceeded", &[(0, "exceeded_ttl"), (1, "exceeded_frag_time")]),
    (12, "parameter_problem", &[]),
    (13, "timestamp_request", &[]),
    (14, "timestamp_reply", &[]),
    (15, "information_request", &[]),
    (16, "information_reply", &[]),
    (17, "address_mask_request", &[]),
    (18, "address_mask_reply", &[]),
];
const UNREACHABLE4: [(u8, &str); 16] = [
    (0, "net_unreachable"),
    (1, "host_unreachable"),
    (2, "protocol_unreachable"),
    (3, "port_unreachable"),
    (4, "frag_needed"),
    (5, "source_route_failed"),
    (6, "net_unknown"),
    (7, "host_unknown"),
    (8, "source_host_isolated"),
    (9, "net_prohibited"),
    (10, "host_prohibited"),
    (11, "net_unreachable_for_tos"),
    (12, "host_unreachable_for_tos"),
    (13, "packet_filtered"),
    (14, "precedence_violation"),
    (15, "precedence_cutoff"),
];
/// RFC 4443.
const V6: &[Kind] = &[
    (1, "unreachable", &UNREACHABLE6),
    (2, "packet_too_big", &[]),
    (3, "time_exceeded", &[(0, "exceeded_hop_limit"), (1, "exceeded_frag_time")]),
    (4, "parameter_problem", &[(0, "header_field"), (1, "unknown_next_header"), (2, "unknown_option")]),
    (128, "echo_request", &[]),
    (129, "echo_reply", &[]),
];
const UNREACHABLE6: [(u8, &str); 6] = [
    (0, "no_route"),
    (0, "net_unreachable"),
    (1, "admin_prohibited"),
    (2, "not_neighbour"),
    (3, "address_unreachable"),
    (4, "port_unreachable"),
];
/// Messages that quote a packet, besides those whose type the table does not know.
const ERRORS: [&str; 6] =
    ["unreachable", "source_quench", "redirect", "time_exceeded", "parameter_problem", "packet_too_big"];

/// Bytes of a message that quotes nothing, where its line does not say: packetdrill leaves room for an IP header and 8 bytes in each.
const PLAIN: [u16; 2] = [8 + 20 + 8, 8 + 40 + 8];

pub(super) fn message(
    c: &mut Cursor<'_>,
    scope: &Scope<'_>,
    inbound: bool,
) -> Result<IcmpSpec, Box<Failure>> {
    c.word();
    let table = if scope.v6 { V6 } else { V4 };
    let word = scope.word(c.word());
    let known = table.iter().find(|(_, name, _)| *name == word);
    let number = word.strip_prefix("type_").and_then(|n| n.parse().ok());
    let Some(kind) = known.map(|(n, ..)| *n).or(number) else {
        let version = if scope.v6 { 6 } else { 4 };
        let names: Vec<&str> = table.iter().map(|(_, name, _)| *name).collect();
        let names = names.join(", ");
        return c.fail(format!("'{word}' is no type of ICMPv{version}; there are {names}, type_N"));
    };
    let code = code(c, scope, known)?;
    let mut spec = IcmpSpec { kind, code, mtu: None, id: None, quoted: Quoted::Tcp { seq: 0, len: 0 } };
    if c.eat_word("mtu") {
        let carries = if scope.v6 { (kind, code) == (2, 0) } else { (kind, code) == (3, 4) };
        if !carries {
            return c.fail("only 'unreachable frag_needed' (IPv4) and 'packet_too_big' (IPv6) carry an MTU");
        }
        spec.mtu = Some(if scope.v6 { c.number()? } else { u32::from(c.number::<u16>()?) });
    }
    if c.eat_word("id") {
        spec.id = Some(c.number()?);
    }
    if c.eat("[") {
        spec.quoted = quoted(c)?;
        c.expect("]")?;
    } else if !inbound {
        spec.quoted = Quoted::Any;
    } else if known.is_some_and(|(_, name, _)| !ERRORS.contains(name)) {
        spec.quoted = Quoted::Raw(PLAIN[usize::from(scope.v6)]);
    }
    Ok(spec)
}

/// This version of ICMP has a type and a code of these names.
pub(crate) fn has_words(v6: bool, kind: &str, code: &str) -> bool {
    let table = if v6 { V6 } else { V4 };
    let kind = table.iter().find(|(_, name, _)| *name == kind);
    kind.is_some_and(|(.., codes)| code.is_empty() || codes.iter().any(|(_, name)| *name == code))
}

fn code(c: &mut Cursor<'_>, scope: &Scope<'_>, known: Option<&Kind>) -> Result<u8, Box<Failure>> {
    let word = scope.word(c.peek_word());
    // A name may also stand for the command that ends the script.
    if word.starts_with('`') || matches!(word, "" | "mtu" | "id") {
        return Ok(0);
    }
    c.word();
    let codes = known.map_or(&[][..], |(_, _, codes)| codes);
    let number = word.strip_prefix("code_").and_then(|n| n.parse().ok());
    let known = codes.iter().find(|(_, name)| *name == word).map(|(n, _)| *n);
    match known.or(number) {
        Some(code) => Ok(code),
        None => {
            let names: Vec<&str> = codes.iter().map(|(_, name)| *name).chain(["code_N"]).collect();
            c.fail(format!("'{word}' is no code of this type; there are {}", names.join(", ")))
        }
    }
}

fn quoted(c: &mut Cursor<'_>) -> Result<Quoted, Box<Failure>> {
    let word = c.peek_word();
    if !matches!(word, "udp" | "raw" | "sctp") {
        let (seq, len) = tcp::range(c)?;
        if len > tcp::INBOUND_MAX {
            return c.fail(format!("{len} bytes do not fit an IP packet"));
        }
        return Ok(Quoted::Tcp { seq, len });
    }
    c.word();
    c.expect("(")?;
    if word == "sctp" {
        let tag = c.number()?;
        c.expect(")")?;
        return Ok(Quoted::Sctp(tag));
    }
    let len: u16 = c.number()?;
    c.expect(")")?;
    if word == "udp" && u32::from(len) > tcp::INBOUND_MAX {
        return c.fail(format!("{len} bytes do not fit an IP packet"));
    }
    if word == "udp" {
        return Ok(Quoted::Udp(len));
    }
    if len < 8 { c.fail("an ICMP message has at least 8 bytes") } else { Ok(Quoted::Raw(len)) }
}

/// A type's name.
pub(crate) fn kind_name(v6: bool, kind: u8) -> String {
    let table = if v6 { V6 } else { V4 };
    table
        .iter()
        .find(|(n, ..)| *n == kind)
        .map_or_else(|| format!("type_{kind}"), |(_, name, _)| (*name).to_owned())
}

/// A code's name with a blank in front; nothing for 0 where that has no name.
pub(crate) fn code_name(v6: bool, kind: u8, code: u8) -> String {
    let table = if v6 { V6 } else { V4 };
    let codes = table.iter().find(|(n, ..)| *n == kind).map_or(&[][..], |(_, _, codes)| codes);
    match codes.iter().find(|(n, _)| *n == code) {
        Some((_, name)) => format!(" {name}"),
        None if code == 0 => String::new(),
        None => format!(" code_{code}"),
    }
}
