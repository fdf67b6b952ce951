//! Reads a packet: what it says of the IP header, its ends, its body, and the marks of ours behind it.
use super::{Scope, icmp, ip, tcp};
use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::script::{BodySpec, Marks, PacketSpec, TosSpec};
use crate::sctp;

pub(super) fn packet(
    c: &mut Cursor<'_>,
    scope: &Scope<'_>,
    inbound: bool,
) -> Result<PacketSpec, Box<Failure>> {
    if let word @ ("ipv4" | "ipv6" | "gre" | "GREv0" | "mpls" | "psp") = c.peek_word() {
        return c.fail(format!("'{word}': packets within packets do not exist here"));
    }
    let info = ip::info(c)?;
    if inbound && info.tos == Some(TosSpec::Ect01) {
        return c.fail("[ect01] is for packets of the stack; an inbound packet has one or the other");
    }
    let mut ends = ip::ends(c, scope)?;
    let body = match c.peek_word() {
        "udp" => {
            c.word();
            ends = ends.or(ip::ends(c, scope)?);
            c.expect("(")?;
            let len = c.number()?;
            c.expect(")")?;
            BodySpec::Udp(len)
        }
        "icmp" => BodySpec::Icmp(icmp::message(c, scope, inbound)?),
        "sctp" => BodySpec::Sctp(sctp::parse(c, inbound)?),
        _ => BodySpec::Tcp(tcp::segment(c, scope, inbound)?),
    };
    let marks = marks(c)?;
    if inbound && marks != Marks::NONE {
        return c.fail("marks in braces are for packets of the stack");
    }
    Ok(PacketSpec { ip: info, ends, body, marks })
}

/// `{segs 10, gso 1460, departs +.003, queued 28960, packets 2}`: ours; on the packet's last line.
fn marks(c: &mut Cursor<'_>) -> Result<Marks, Box<Failure>> {
    let mut marks = Marks::NONE;
    if !c.more_on_line() || !c.eat("{") {
        return Ok(marks);
    }
    loop {
        let once = match c.word() {
            "segs" => marks.segs.replace(c.number()?).is_none(),
            "gso" => marks.gso.replace(c.number()?).is_none(),
            "queued" => marks.queued.replace(c.number()?).is_none(),
            "packets" => marks.packets.replace(c.number()?).is_none(),
            "departs" => {
                c.expect("+")?;
                marks.departs.replace(c.seconds()?).is_none()
            }
            other => {
                let names = "segs, gso, departs, queued, packets";
                return c.fail(format!("'{other}' is no mark; there are {names}"));
            }
        };
        if !once {
            return c.fail("this mark stands here twice");
        }
        if !c.eat(",") {
            c.expect("}")?;
            return Ok(marks);
        }
    }
}
