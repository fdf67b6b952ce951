//! Compares what the stack sends with what the script says it sends.
use super::{Runner, at, seconds};
use crate::failure::Failure;
use crate::options;
use crate::script::{EcnSpec, PacketSpec};
use crate::wire::Wire;
use lowwater_wire::tcp::TcpFlags;

/// How long after its time an expected packet is waited for, to say when it came: seconds of virtual time.
const PATIENCE_US: u64 = 200_000_000;

impl Runner {
    /// Waits for a packet between `from` and `to` and compares it; when it went out.
    pub(super) fn outbound(
        &mut self,
        line: usize,
        spec: &PacketSpec,
        (from, to): (u64, u64),
    ) -> Result<u64, Box<Failure>> {
        let limit =
            to.saturating_add(PATIENCE_US).min(self.micros(self.now).saturating_add(10 * PATIENCE_US));
        let expected = describe(spec);
        let Some(mut packet) = self.sniff(at(limit), line)? else {
            return Err(Failure::differs(line, "the stack does not send this packet", expected, "nothing"));
        };
        if packet.len < spec.len && packet.seq == spec.seq {
            self.glue(&mut packet, spec, line)?;
        }
        if let Some(what) = difference(spec, &packet) {
            let actual = packet.script(spec.window.is_some()).to_string();
            return Err(Failure::differs(line, format!("the packet has {what}"), expected, actual));
        }
        if let (Some(flow), Some(options)) = (&mut self.flow, &spec.options) {
            flow.stamp(options, &packet.options);
        }
        let when = self.micros(packet.at);
        if when.saturating_add(self.tolerance) < from || when > to.saturating_add(self.tolerance) {
            let wanted =
                if from == to { seconds(from) } else { format!("{} to {}", seconds(from), seconds(to)) };
            return Err(Failure::differs(line, "the packet has the wrong time", wanted, seconds(when)));
        }
        Ok(when)
    }

    /// Joins segments that follow one another, as packetdrill does without --strict_segments: a stack without TSO sends in
    /// several packets what a script writes as one.
    fn glue(&mut self, packet: &mut Wire, spec: &PacketSpec, line: usize) -> Result<(), Box<Failure>> {
        while packet.len < spec.len {
            self.pump(line)?;
            let (next, room, ack) = (packet.seq.wrapping_add(packet.len), spec.len - packet.len, packet.ack);
            let more = self.sniff_if(|p| p.seq == next && p.len > 0 && p.len <= room && p.ack == ack);
            let Some(more) = more else { return Ok(()) };
            packet.len += more.len;
            // All flags but CWR are those of the last segment.
            packet.flags = (packet.flags & TcpFlags::CWR) | more.flags;
        }
        Ok(())
    }
}

/// The first thing in which a packet differs.
fn difference(spec: &PacketSpec, p: &Wire) -> Option<&'static str> {
    if spec.flags != p.flags {
        return Some("other flags");
    }
    if spec.seq != p.seq {
        return Some("another sequence number");
    }
    if spec.len != p.len {
        return Some("another length");
    }
    if spec.flags.ack() && spec.ack != p.ack {
        return Some("another acknowledgment number");
    }
    if spec.window.is_some_and(|window| window != p.window) {
        return Some("another window");
    }
    if spec.urgent != p.urgent {
        return Some("another urgent pointer");
    }
    if spec.options.as_ref().is_some_and(|expected| !options::same(expected, &p.options)) {
        return Some("other options");
    }
    let ecn = match spec.ecn {
        None => true,
        Some(EcnSpec::Bits(bits)) => p.tos & 3 == bits,
        Some(EcnSpec::Ect01) => matches!(p.tos & 3, 1 | 2),
    };
    if ecn { None } else { Some("another ECN mark") }
}

fn describe(spec: &PacketSpec) -> String {
    let any = core::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let ecn = match spec.ecn {
        Some(EcnSpec::Bits(bits)) => bits,
        Some(EcnSpec::Ect01) => 2,
        None => 0,
    };
    let wire = Wire {
        at: lowwater_core::base::Instant::ZERO,
        src: any,
        dst: any,
        seq: spec.seq,
        ack: spec.ack,
        flags: spec.flags,
        window: spec.window.unwrap_or_default(),
        urgent: spec.urgent,
        options: spec.options.clone().unwrap_or_default(),
        tos: ecn,
        len: spec.len,
    };
    let rest = if spec.options.is_none() { " <...>" } else { "" };
    format!("{}{rest}", wire.script(spec.window.is_some()))
}
