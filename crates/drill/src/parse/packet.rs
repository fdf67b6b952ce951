//! Reads a TCP packet: `[ecn] FLAGS seq:end(len) ack N win N urg N <options>`.
use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::options::{self, TcpOption};
use crate::script::{EcnSpec, PacketSpec};
use lowwater_wire::tcp::TcpFlags;

/// Most payload of an inbound packet: what fits IPv4 with all options.
const INBOUND_MAX: u32 = 65_400;

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

pub(crate) fn packet(c: &mut Cursor<'_>, inbound: bool) -> Result<PacketSpec, Box<Failure>> {
    let line = c.line();
    let ecn = ecn(c)?;
    let flags = flags(c)?;
    let seq = sequence(c)?;
    c.expect(":")?;
    let end = sequence(c)?;
    c.expect("(")?;
    let len: u32 = c.number()?;
    c.expect(")")?;
    if end != seq.wrapping_add(len) {
        return c.fail(format!("{seq}:{end}({len}): the numbers do not fit together"));
    }
    if inbound && len > INBOUND_MAX {
        return Err(Failure::new(line, format!("{len} bytes do not fit an IP packet")));
    }
    let mut p = PacketSpec { flags, seq, len, ack: 0, window: None, urgent: 0, options: Some(vec![]), ecn };
    if c.eat_word("ack") {
        p.ack = sequence(c)?;
    } else if flags.ack() {
        return Err(Failure::new(line, "a packet with ACK ('.') needs 'ack N'"));
    }
    if c.eat_word("win") {
        p.window = Some(c.number()?);
    } else if inbound {
        return Err(Failure::new(line, "an inbound packet needs 'win N'"));
    }
    if c.eat_word("urg") {
        p.urgent = c.number()?;
    }
    // On the same line only: '<' at the beginning of another line is the next event.
    let line = c.line();
    c.blank();
    if c.line() == line && c.eat("<") {
        p.options = options(c)?;
        if inbound && p.options.is_none() {
            return c.fail("an inbound packet cannot have any options: say which");
        }
    }
    Ok(p)
}

fn sequence(c: &mut Cursor<'_>) -> Result<u32, Box<Failure>> {
    c.number()
}

fn ecn(c: &mut Cursor<'_>) -> Result<Option<EcnSpec>, Box<Failure>> {
    if !c.eat("[") {
        return Ok(None);
    }
    let spec = match c.until("]")?.trim() {
        "noecn" => EcnSpec::Bits(0),
        "ect0" => EcnSpec::Bits(2),
        "ect1" => EcnSpec::Bits(1),
        "ce" => EcnSpec::Bits(3),
        "ect01" => EcnSpec::Ect01,
        other => {
            return c.fail(format!("[{other}] does not work yet; [noecn], [ect0], [ect1], [ect01], [ce] do"));
        }
    };
    Ok(Some(spec))
}

fn flags(c: &mut Cursor<'_>) -> Result<TcpFlags, Box<Failure>> {
    c.blank();
    let word = c.take_while(|ch| ch.is_ascii_alphabetic() || ch == '.' || ch == '-');
    if matches!(word, "icmp" | "udp" | "ipv" | "raw" | "mpls" | "gre") {
        return c.fail(format!("packets of '{word}' do not work yet"));
    }
    let mut flags = TcpFlags::EMPTY;
    for letter in word.chars().filter(|l| *l != '-') {
        match LETTERS.iter().find(|(l, _)| *l == letter) {
            Some((_, flag)) => flags.insert(*flag),
            None => return c.fail(format!("'{letter}' is no TCP flag")),
        }
    }
    if word.is_empty() {
        return c.fail("TCP flags should stand here ('-' for none)");
    }
    Ok(flags)
}

fn options(c: &mut Cursor<'_>) -> Result<Option<Vec<TcpOption>>, Box<Failure>> {
    if c.eat("...") {
        c.expect(">")?;
        return Ok(None);
    }
    let mut list = Vec::new();
    while !c.eat(">") {
        list.push(option(c)?);
        if !c.eat(",") {
            c.expect(">")?;
            break;
        }
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

fn option(c: &mut Cursor<'_>) -> Result<TcpOption, Box<Failure>> {
    let word = c.word();
    Ok(match word {
        "nop" => TcpOption::Nop,
        "eol" => TcpOption::Eol,
        "mss" => TcpOption::Mss(c.number()?),
        "wscale" => TcpOption::Wscale(c.number()?),
        "sackOK" => TcpOption::SackOk,
        "TS" => {
            c.expect("val")?;
            let val = c.number()?;
            c.expect("ecr")?;
            TcpOption::Ts { val, ecr: c.number()? }
        }
        "sack" => {
            let mut blocks = Vec::new();
            loop {
                c.blank();
                if !c.peek().is_ascii_digit() {
                    break;
                }
                let left = sequence(c)?;
                c.expect(":")?;
                blocks.push((left, sequence(c)?));
            }
            TcpOption::Sack(blocks)
        }
        other => return c.fail(format!("the TCP option '{other}' does not work yet")),
    })
}
