//! Reads what a packet line says of the IP header and of the packet's ends.
use super::Scope;
use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::script::{EndsSpec, IpSpec, TosSpec};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `[ect0]`, `[tos 0x28]`, `[ttl 1]`, `[flowlabel 0x5]`, several with commas, in brackets or parentheses.
pub(super) fn info(c: &mut Cursor<'_>) -> Result<IpSpec, Box<Failure>> {
    let mut spec = IpSpec::default();
    c.blank();
    // An IPv6 address with a port begins with a bracket too.
    let address = c.rest().split_once(']').is_some_and(|(_, after)| after.starts_with(':'));
    let close = match c.peek() {
        '[' if !address => "]",
        '(' => ")",
        _ => return Ok(spec),
    };
    c.skip(1);
    loop {
        let once = match c.word() {
            "noecn" => spec.tos.replace(TosSpec::Ecn(0)).is_none(),
            "ect1" => spec.tos.replace(TosSpec::Ecn(1)).is_none(),
            "ect0" => spec.tos.replace(TosSpec::Ecn(2)).is_none(),
            "ce" => spec.tos.replace(TosSpec::Ecn(3)).is_none(),
            "ect01" => spec.tos.replace(TosSpec::Ect01).is_none(),
            "tos" => spec.tos.replace(TosSpec::Tos(c.number()?)).is_none(),
            "ttl" => spec.ttl.replace(c.number()?).is_none(),
            "flowlabel" => {
                let label = c.number()?;
                if label > 0xf_ffff {
                    return c.fail("a flow label has 20 bits");
                }
                spec.flow_label.replace(label).is_none()
            }
            other => {
                let names = "noecn, ect0, ect1, ect01, ce, tos, ttl, flowlabel";
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
