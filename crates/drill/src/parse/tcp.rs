//! Reads a TCP segment: `FLAGS seq:end(len) ack N win N urg N <options>`.
use super::Scope;
use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::options::{
    self, ACCECN, ACCECN_COUNTERS, ACCECN_EXPERIMENTS, ACCECN_MAGIC, EXPERIMENT, FAST_OPEN, FAST_OPEN_MAGIC,
    MD5, TARR_MAGIC, TcpOption,
};
use crate::script::{Numbered, TcpSpec};
use lowwater_wire::tcp::TcpFlags;
use std::borrow::Cow;

/// Most payload of an inbound packet: what fits IPv4 with all options.
pub(super) const INBOUND_MAX: u32 = 65_400;
/// Most payload that a line may give to the stack's packets, which are joined.
const OUTBOUND_MAX: u32 = 1 << 24;
/// Longest Fast Open cookie (RFC 7413 section 4.1.1); longer ones are for scripts that break the rule.
const COOKIE_MAX: usize = 36;

/// What names of options of MPTCP begin with.
const MULTIPATH: [&str; 6] = ["mp_", "dss", "add_addr", "remove_addr", "mpcapable", "mptcp"];

/// The flag of each letter.
pub(crate) const LETTERS: [(char, TcpFlags); 9] = [
    ('S', TcpFlags::SYN),
    ('F', TcpFlags::FIN),
    ('R', TcpFlags::RST),
    ('P', TcpFlags::PSH),
    ('U', TcpFlags::URG),
    ('E', TcpFlags::ECE),
    ('W', TcpFlags::CWR),
    ('A', TcpFlags::AE),
    ('.', TcpFlags::ACK),
];

pub(super) fn segment(c: &mut Cursor<'_>, scope: &Scope<'_>, inbound: bool) -> Result<TcpSpec, Box<Failure>> {
    let line = c.line();
    let flags = flags(c, scope)?;
    c.blank();
    let (mut numbered, (seq, len)) = match !inbound && c.eat("...") {
        true => (Numbered::Any, (0, bytes(c)?)),
        false => (Numbered::Script, range(c)?),
    };
    if inbound && c.eat_here("!") {
        numbered = Numbered::Wire;
    }
    let most = if inbound { INBOUND_MAX } else { OUTBOUND_MAX };
    if len > most {
        return Err(Failure::new(line, format!("{len} bytes do not fit an IP packet")));
    }
    let mut p = TcpSpec { flags, seq, numbered, len, ack: 0, window: None, urgent: 0, options: Some(vec![]) };
    if c.eat_word("ack") {
        // As others write it.
        if flags.contains(TcpFlags::AE) && !flags.ack() {
            let what = "'A' is AccECN's AE; ACK is written '.', so that a SYN-ACK is 'S.'";
            return Err(Failure::new(line, what));
        }
        p.ack = c.number()?;
    }
    if c.eat_word("win") {
        p.window = Some(c.number()?);
    } else if inbound {
        return Err(Failure::new(line, "an inbound packet needs 'win N'"));
    }
    if c.eat_word("urg") {
        p.urgent = c.number()?;
    }
    // On a line of its own too: an event begins with its time.
    if c.eat("<") {
        p.options = options(c, scope, inbound)?;
        if inbound && p.options.is_none() {
            return c.fail("an inbound packet cannot have any options: say which");
        }
    }
    Ok(p)
}

/// `seq:end(len)`: the first number and the length.
pub(super) fn range(c: &mut Cursor<'_>) -> Result<(u32, u32), Box<Failure>> {
    let seq: u32 = c.number()?;
    c.expect(":")?;
    let end: u32 = c.number()?;
    let len = bytes(c)?;
    if end != seq.wrapping_add(len) {
        return c.fail(format!("{seq}:{end}({len}): the numbers do not fit together"));
    }
    Ok((seq, len))
}

/// `(len)`.
fn bytes(c: &mut Cursor<'_>) -> Result<u32, Box<Failure>> {
    c.expect("(")?;
    let len = c.number()?;
    c.expect(")")?;
    Ok(len)
}

fn flags(c: &mut Cursor<'_>, scope: &Scope<'_>) -> Result<TcpFlags, Box<Failure>> {
    let word = c.take_while(|ch| ch.is_ascii_alphanumeric() || ch == '.' || ch == '-' || ch == '_');
    let mut word = Cow::Borrowed(scope.word(word));
    c.blank();
    // packetdrill reads letters, then the ACK with or without a counter, and a blank between is nothing to it. `...` is a sequence number.
    if !word.contains(['.', '-']) && c.peek() == '.' && !c.rest().starts_with("..") {
        word.to_mut().push_str(c.take_while(|ch| ch.is_ascii_digit() || ch == '.'));
    }
    let digits = word.chars().filter(char::is_ascii_digit).count();
    if digits > 1 || (digits == 1 && word.contains(['E', 'W', 'A'])) {
        return c.fail(format!("'{word}': one digit, or E, W and A, but not both: they are the same bits"));
    }
    let mut flags = TcpFlags::EMPTY;
    for letter in word.chars().filter(|l| *l != '-') {
        // A digit is AccECN's counter in the three bits AE, CWR and ECE.
        if let Some(counter @ 0..=7) = letter.to_digit(10) {
            for (bit, flag) in [(4, TcpFlags::AE), (2, TcpFlags::CWR), (1, TcpFlags::ECE)] {
                if counter & bit != 0 {
                    flags.insert(flag);
                }
            }
            continue;
        }
        match LETTERS.iter().find(|(l, _)| *l == letter) {
            Some((_, flag)) => flags.insert(*flag),
            None => {
                return c.fail(format!("'{letter}' in '{word}' is no TCP flag; there are SFRPUEWA and '.'"));
            }
        }
    }
    if word.is_empty() {
        return c.fail("TCP flags should stand here ('-' for none)");
    }
    Ok(flags)
}

fn options(
    c: &mut Cursor<'_>,
    scope: &Scope<'_>,
    inbound: bool,
) -> Result<Option<Vec<TcpOption>>, Box<Failure>> {
    let opened = c.line();
    if c.eat("...") {
        c.expect(">")?;
        return Ok(None);
    }
    let mut list = Vec::new();
    while !c.eat(">") {
        // No option begins like the time of the next event.
        if c.line() != opened && !c.peek().is_ascii_alphabetic() {
            return not_closed(c, opened);
        }
        list.push(option(c, scope, inbound)?);
        let last = c.line();
        if c.eat(",") {
            continue;
        }
        if c.eat(">") {
            break;
        }
        // A list may go on in the next line, but behind a comma.
        if c.line() != last {
            return not_closed(c, opened);
        }
        return c.wants("',' or '>'");
    }
    let len = options::encode(&list).len();
    if !len.is_multiple_of(4) {
        return c.fail(format!("options of {len} bytes: pad them with nop or eol to a multiple of 4"));
    }
    if len > 40 {
        return c.fail(format!("options of {len} bytes: 40 fit"));
    }
    Ok(Some(list))
}

/// Not what begins below is wrong, unless it is a comment without an end.
fn not_closed<T>(c: &Cursor<'_>, opened: usize) -> Result<T, Box<Failure>> {
    let what = "no '>' closes the '<' of this line";
    if c.rest().starts_with("/*") { c.fail(what) } else { Err(Failure::new(opened, what)) }
}

fn option(c: &mut Cursor<'_>, scope: &Scope<'_>, inbound: bool) -> Result<TcpOption, Box<Failure>> {
    let word = c.word();
    Ok(match word {
        "nop" => TcpOption::Nop,
        "eol" => TcpOption::Eol,
        "mss" => TcpOption::Mss(c.number()?),
        "wscale" if !inbound && c.eat("*") => TcpOption::AnyWscale,
        "wscale" => TcpOption::Wscale(c.number()?),
        "sackOK" => TcpOption::SackOk,
        "TS" => timestamp(c, inbound)?,
        "sack" => sack(c)?,
        "FO" => TcpOption::Other(FAST_OPEN, hex(c, scope)?),
        "exp" if c.eat_here("-") => experiment(c, scope)?,
        "FOEXP" => {
            let mut data = FAST_OPEN_MAGIC.to_vec();
            data.extend(hex(c, scope)?);
            TcpOption::Other(EXPERIMENT, data)
        }
        "opt" => {
            let kind: u8 = c.number()?;
            if kind < 2 {
                return c.fail("kinds 0 and 1 are eol and nop and have no data");
            }
            TcpOption::Other(kind, hex(c, scope)?)
        }
        // The names that FreeBSD's scripts have, with the kind's order in the name.
        "AccECN0" | "AccECN1" => {
            let backwards = word == "AccECN1";
            TcpOption::Other(
                ACCECN[usize::from(backwards)],
                counters(c, ["EE0B", "ECEB", "EE1B"], backwards)?,
            )
        }
        "ECN" | "AccECN" | "ACCECN" => {
            let (kind, counters) = accecn(c)?;
            TcpOption::Other(kind, counters)
        }
        "AccECNEXP" => {
            let mut data = ACCECN_MAGIC.to_vec();
            data.extend(accecn(c)?.1);
            TcpOption::Other(EXPERIMENT, data)
        }
        // To be dropped: the stack signs nothing.
        "md5" => TcpOption::Other(MD5, hex(c, scope)?),
        other if MULTIPATH.iter().any(|name| other.starts_with(name)) => {
            return c.fail(format!("'{other}': MPTCP does not exist here"));
        }
        other => {
            let names = "mss, wscale, sackOK, sack, TS, nop, eol, FO, FOEXP, ECN, opt KIND HEX";
            return c.fail(format!("'{other}' is no TCP option; there are {names}"));
        }
    })
}

/// `exp-FO HEX`, `exp-AccECN0 EE0B 1 ECEB 0 EE1B 1` or backwards, `exp-tarr 5`: experiments by their numbers (RFC 6994), as FreeBSD's scripts
/// spell them.
fn experiment(c: &mut Cursor<'_>, scope: &Scope<'_>) -> Result<TcpOption, Box<Failure>> {
    let word = c.word();
    let mut data = Vec::new();
    match word {
        "FO" => {
            data.extend(FAST_OPEN_MAGIC);
            data.extend(hex(c, scope)?);
        }
        "AccECN0" | "AccECN1" => {
            let backwards = word == "AccECN1";
            data.extend(ACCECN_EXPERIMENTS[usize::from(backwards)]);
            data.extend(counters(c, ["EE0B", "ECEB", "EE1B"], backwards)?);
        }
        "tarr" => {
            data.extend(TARR_MAGIC);
            c.blank();
            if c.peek().is_ascii_digit() {
                let rate: u8 = c.number()?;
                if rate > 127 {
                    return c.fail("a rate of acknowledgements has seven bits");
                }
                // The lowest bit is reserved.
                data.push(rate << 1);
            }
        }
        other => {
            return c.fail(format!("'exp-{other}' is no experiment; there are FO, AccECN0, AccECN1, tarr"));
        }
    }
    Ok(TcpOption::Other(EXPERIMENT, data))
}

/// `val 1 ecr 2`; of the stack `val ...`, which is not compared and not remembered, of the peer `ecr 2!`, which no packet of the stack need have had.
fn timestamp(c: &mut Cursor<'_>, inbound: bool) -> Result<TcpOption, Box<Failure>> {
    c.expect("val")?;
    let val = if !inbound && c.eat("...") { None } else { Some(c.number()?) };
    c.expect("ecr")?;
    let ecr = if !inbound && c.eat("...") { 0 } else { c.number()? };
    Ok(match val {
        None => TcpOption::AnyTs,
        Some(val) if inbound && c.eat_here("!") => TcpOption::WireTs { val, ecr },
        Some(val) => TcpOption::Ts { val, ecr },
    })
}

/// Accurate ECN's counters, `e0b 1 ceb 0 e1b 1` or backwards, of which the last may be left out: kind and bytes.
fn accecn(c: &mut Cursor<'_>) -> Result<(u8, Vec<u8>), Box<Failure>> {
    c.blank();
    // The kernel sends an option without counters as the second kind.
    let backwards = c.peek_word() != ACCECN_COUNTERS[0];
    Ok((ACCECN[usize::from(backwards)], counters(c, ACCECN_COUNTERS, backwards)?))
}

fn counters(c: &mut Cursor<'_>, mut order: [&str; 3], backwards: bool) -> Result<Vec<u8>, Box<Failure>> {
    if backwards {
        order.reverse();
    }
    let mut data = Vec::new();
    for name in order {
        if !c.eat_word(name) {
            break;
        }
        let counter: u32 = c.number()?;
        data.extend(&counter.to_be_bytes()[1..]);
        if counter >= 1 << 24 {
            return c.fail("a counter of accurate ECN has 24 bits");
        }
    }
    Ok(data)
}

fn sack(c: &mut Cursor<'_>) -> Result<TcpOption, Box<Failure>> {
    let mut blocks = Vec::new();
    loop {
        c.blank();
        if !c.peek().is_ascii_digit() {
            break;
        }
        let left = c.number()?;
        c.expect(":")?;
        blocks.push((left, c.number()?));
    }
    if blocks.is_empty() { c.fail("'sack' needs blocks: sack 1:1001") } else { Ok(TcpOption::Sack(blocks)) }
}

/// Bytes in hexadecimal, or none; a name may stand for them.
fn hex(c: &mut Cursor<'_>, scope: &Scope<'_>) -> Result<Vec<u8>, Box<Failure>> {
    let word = c.take_while(|ch| ch.is_ascii_alphanumeric() || ch == '_');
    let word = scope.defines.get(word).map_or(word, String::as_str);
    let digits: Option<Vec<u8>> = word.chars().map(|d| d.to_digit(16).map(|d| d as u8)).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) && digits.len() / 2 <= COOKIE_MAX => {
            Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => {
            c.fail(format!("'{word}' should be bytes in hexadecimal, two digits each, at most {COOKIE_MAX}"))
        }
    }
}
