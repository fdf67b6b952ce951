//! Carries a script out: keeps time, takes events in order, says what differs.
mod assertions;
mod calls;
mod commands;
mod compare;
mod flow;
mod net;
mod sockets;
mod sockopt;

use crate::failure::Failure;
use crate::script::{Action, Event, Script, When};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use flow::Flow;
use lowwater_core::base::{DeviceId, Instant};
use lowwater_core::device::DeviceCaps;
use lowwater_core::stack::{Config, Stack};
use net::Sniffed;
use sockets::{Blocked, Sockets};

/// When a script's time begins, on the stack's clock.
const ORIGIN: Instant = Instant::from_millis(10_000);
/// How far an event may be from its time, in microseconds, as in packetdrill.
const TOLERANCE_US: u64 = 4_000;
/// Records of the flight recorder and packets that a failure shows.
const SHOWN: usize = 16;

/// A script on its way.
pub(crate) struct Runner {
    stack: Stack,
    dev: DeviceId,
    now: Instant,
    local: IpAddr,
    remote: IpAddr,
    tolerance: u64,
    /// Time of the event before, in microseconds of the script.
    last: u64,
    sniffed: Sniffed,
    /// The connection under test.
    flow: Option<Flow>,
    sockets: Sockets,
    blocked: Option<Blocked>,
    /// When a blocked poll() gives up.
    wake: Option<Instant>,
}

/// Runs a script.
pub(crate) fn run(script: &Script) -> Result<(), Box<Failure>> {
    let mut runner = Runner::new(script)?;
    for event in &script.events {
        runner.event(event).map_err(|failure| runner.explain(failure))?;
    }
    match runner.blocked.take() {
        Some(blocked) => {
            let failure = Failure::new(blocked.line, "this call still blocks at the end of the script");
            Err(runner.explain(failure))
        }
        None => Ok(()),
    }
}

impl Runner {
    fn new(script: &Script) -> Result<Self, Box<Failure>> {
        let mut v6 = false;
        let mut mtu: Option<u16> = None;
        let mut tolerance = TOLERANCE_US;
        for (line, name, value) in &script.flags {
            let bad = || Failure::new(*line, format!("--{name}={value} does not work here"));
            match name.as_str() {
                "ip_version" if value == "ipv4" => v6 = false,
                "ip_version" if value == "ipv6" => v6 = true,
                "mtu" => mtu = Some(value.parse().ok().filter(|m| *m >= 576).ok_or_else(bad)?),
                "tolerance_usecs" => tolerance = value.parse().map_err(|_| bad())?,
                _ => return Err(bad()),
            }
        }
        let (local, remote, prefix, any): (IpAddr, IpAddr, u8, IpAddr) = if v6 {
            let host = |net, id| Ipv6Addr::new(0xfd3d, net, 0x17d, 0, 0, 0, 0, id).into();
            (host(0xa0b, 1), host(0xfa7b, 1), 48, Ipv6Addr::UNSPECIFIED.into())
        } else {
            (
                Ipv4Addr::new(192, 168, 0, 1).into(),
                Ipv4Addr::new(192, 0, 2, 1).into(),
                16,
                Ipv4Addr::UNSPECIFIED.into(),
            )
        };
        let mut stack = Stack::new(Config::default(), Instant::ZERO);
        stack.set_trace(true);
        // The IPv6 header is 20 bytes longer: with 1520 the segments are as long as over IPv4.
        let dev = stack.add_device(DeviceCaps::plain(mtu.unwrap_or(if v6 { 1_520 } else { 1_500 })));
        stack
            .add_address(dev, local, prefix)
            .and_then(|()| stack.add_route(any, 0, None, dev))
            .map_err(|e| Failure::new(1, format!("the stack's addresses: {e}")))?;
        Ok(Self {
            stack,
            dev,
            now: ORIGIN,
            local,
            remote,
            tolerance,
            last: 0,
            sniffed: Sniffed::default(),
            flow: None,
            sockets: Sockets::default(),
            blocked: None,
            wake: None,
        })
    }

    fn event(&mut self, event: &Event) -> Result<(), Box<Failure>> {
        let base = self.last;
        let (from, to) = match event.when {
            When::Any => (self.micros(self.now), u64::MAX),
            When::Absolute(from, to) => (from, to),
            When::Relative(from, to) => (base.saturating_add(from), base.saturating_add(to)),
        };
        if let Action::Outbound(spec) = &event.action {
            let any = event.when == When::Any;
            let at = self.outbound(event.line, spec, if any { (0, u64::MAX) } else { (from, to) })?;
            self.last = if any || to > from { at } else { from };
            return Ok(());
        }
        self.advance(at(from), event.line)?;
        let late = self.micros(self.now);
        if late > from.saturating_add(self.tolerance) && event.when != When::Any {
            let (expected, actual) = (seconds(from), seconds(late));
            return Err(Failure::differs(event.line, "it is too late for this event", expected, actual));
        }
        self.last = from;
        match &event.action {
            Action::Inbound(spec) => self.inbound(event.line, spec)?,
            Action::Outbound(_) => {}
            Action::Call(spec) => {
                let offset = if matches!(event.when, When::Relative(..)) { base } else { 0 };
                self.call(event.line, spec, spec.end.map(|end| end.saturating_add(offset)))?;
            }
            Action::Command(lines) => self.commands(lines)?,
            Action::Code(asserts) => self.assertions(asserts)?,
        }
        self.pump(event.line)
    }

    /// Microseconds of the script at a point of the stack's time.
    fn micros(&self, now: Instant) -> u64 {
        now.nanos_since(ORIGIN) / 1_000
    }

    /// Adds what was seen last.
    fn explain(&self, mut failure: Box<Failure>) -> Box<Failure> {
        failure.packets = self.sniffed.log.iter().cloned().collect();
        let records: Vec<_> = self.stack.trace().records().collect();
        let shown = &records[records.len().saturating_sub(SHOWN)..];
        failure.trace =
            shown.iter().map(|r| format!("{} {:?}", seconds(self.micros(r.at)), r.event)).collect();
        failure
    }
}

/// The point of the stack's time at `us` of the script.
const fn at(us: u64) -> Instant {
    ORIGIN.plus_nanos(us.saturating_mul(1_000))
}

/// Microseconds as a script writes them.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
