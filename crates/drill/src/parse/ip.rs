//! Reads what a packet line says of the IP header and of the packet's ends.
use super::Scope;
use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::script::{EndsSpec, IpSpec, TosSpec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `[ect0]`, `[tos 0x28]`, `[dscp AF11, ecn ect0]`, `[ttl 1]`, `[flowlabel 0x5]`, several with commas, in brackets or parentheses.
pub(super) fn info(c: &mut Cursor<'_>) -> Result<IpSpec, Box<Failure>> {
    let mut spec = IpSpec::default();
    c.blank();
    // An IPv6 address with a port begins with a bracket too.
    let is_address = || c.rest().split_once(']').is_some_and(|(_, after)| after.starts_with(':'));
    let close = match c.peek() {
        '[' if !is_address() => "]",
        '(' => ")",
        _ => return Ok(spec),
    };
    c.skip(1);
    loop {
        let word = c.word();
        let once = match (word, ecn(word)) {
            (_, Some(mark)) => set(c, &mut spec, mark)?,
            ("ecn", None) => {
                let word = c.word();
                let Some(mark) = ecn(word) else {
                    return c.fail(format!("'{word}' is no mark of ECN: noecn, ect0, ect1, ect01, ce"));
                };
                set(c, &mut spec, mark)?
            }
            ("dscp", None) => {
                let bits = dscp(c)?;
                set(c, &mut spec, TosSpec::Dscp(bits))?
            }
            ("tos" | "class", None) => spec.tos.replace(TosSpec::Tos(c.number()?)).is_none(),
            ("ttl" | "hlim", None) => spec.ttl.replace(c.number()?).is_none(),
            ("flowlabel", None) => {
                let label = c.number()?;
                if label > 0xf_ffff {
                    return c.fail("a flow label has 20 bits");
                }
                spec.flow_label.replace(label).is_none()
            }
            (other, None) => {
                let names = "noecn, ect0, ect1, ect01, ce, dscp, ecn, tos, class, ttl, hlim, flowlabel";
                return c.fail(format!("[{other}] says nothing about an IP header; there are {names}"));
            }
        };
        if !once {
            return c.fail("this part of the IP header stands here twice");
        }
        if !c.eat(",") {
            c.expect(close)?;
            return Ok(spec);
        }
    }
}

fn ecn(word: &str) -> Option<TosSpec> {
    let marks = ["noecn", "ect1", "ect0", "ce"].into_iter().zip(0..);
    let exact = marks.into_iter().find(|(name, _)| *name == word).map(|(_, bits)| TosSpec::Ecn(bits));
    exact.or_else(|| (word == "ect01").then_some(TosSpec::Ect01))
}

/// One part of the byte, beside the other where that is there; false where it stands there already.
fn set(c: &Cursor<'_>, spec: &mut IpSpec, part: TosSpec) -> Result<bool, Box<Failure>> {
    let both = match (spec.tos, part) {
        (None, part) => part,
        (Some(TosSpec::Dscp(dscp)), TosSpec::Ecn(ecn)) | (Some(TosSpec::Ecn(ecn)), TosSpec::Dscp(dscp)) => {
            TosSpec::Tos(dscp << 2 | ecn)
        }
        (Some(TosSpec::Ect01), TosSpec::Dscp(_)) | (Some(TosSpec::Dscp(_)), TosSpec::Ect01) => {
            return c.fail("dscp with one of two marks of ECN cannot be had: say which");
        }
        _ => return Ok(false),
    };
    spec.tos = Some(both);
    Ok(true)
}

/// A codepoint by its name (RFC 2474, 2597, 3246, 5865, 8622) or its number.
fn dscp(c: &mut Cursor<'_>) -> Result<u8, Box<Failure>> {
    c.blank();
    let word = c.peek_word();
    let bits = match word.to_ascii_uppercase().as_bytes() {
        b"LE" => 1,
        b"EF" => 46,
        b"VA" | b"VOICE_ADMIT" => 44,
        [b'C', b'S', n @ b'0'..=b'7'] => (n - b'0') << 3,
        [b'A', b'F', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => (class - b'0') << 3 | (drop - b'0') << 1,
        [] => match c.number()? {
            bits @ 0..=63 => return Ok(bits),
            bits => return c.fail(format!("{bits} is no DSCP, which has six bits")),
        },
        _ => {
            return c.fail(format!(
                "'{word}' is no DSCP: CS0 to CS7, AF11 to AF43, EF, VOICE_ADMIT, LE or a number"
            ));
        }
    };
    c.word();
    Ok(bits)
}

/// `5 > 6` as packetdrill has it, or ours with addresses or without: `1.1.1.1:5 > 2.2.2.2:6:`, `[fd00::1]:5 > [fd00::2]:6:`, `:5 > :6:`.
pub(super) fn ends(c: &mut Cursor<'_>, scope: &Scope<'_>) -> Result<Option<EndsSpec>, Box<Failure>> {
    c.blank();
    if !(c.peek().is_ascii_digit() || matches!(c.peek(), '[' | ':')) {
        return Ok(None);
    }
    let (src, named) = end(c, scope)?;
    c.expect(">")?;
    let (dst, too) = end(c, scope)?;
    if named != too {
        return c.fail("both ends have a colon before the port, or neither");
    }
    if named {
        c.expect(":")?;
    } else {
        c.eat(":");
    }
    Ok(Some(EndsSpec { src, dst, named }))
}

/// An address and a port, and whether there was a colon between.
type End = ((Option<IpAddr>, u16), bool);

fn end(c: &mut Cursor<'_>, scope: &Scope<'_>) -> Result<End, Box<Failure>> {
    let ip = if c.eat("[") {
        let text = c.until("]")?;
        match text.parse::<Ipv6Addr>() {
            Ok(ip) => Some(IpAddr::V6(ip)),
            Err(_) => return c.fail(format!("'{text}' is no IPv6 address")),
        }
    } else {
        c.blank();
        let rest = c.rest();
        let n = rest.find(|ch: char| !(ch.is_ascii_digit() || ch == '.')).unwrap_or(rest.len());
        let text = &rest[..n];
        if text.contains('.') {
            c.skip(n);
            match text.parse::<Ipv4Addr>() {
                Ok(ip) => Some(IpAddr::V4(ip)),
                Err(_) => return c.fail(format!("'{text}' is no IPv4 address")),
            }
        } else {
            None
        }
    };
    match ip {
        Some(ip) if ip.is_ipv6() != scope.v6 => {
            c.fail("--ip_version says that packets have the other kind of address")
        }
        Some(ip) => {
            c.expect(":")?;
            Ok(((Some(ip), c.number()?), true))
        }
        None => {
            let named = c.eat(":");
            Ok(((None, c.number()?), named))
        }
    }
}
