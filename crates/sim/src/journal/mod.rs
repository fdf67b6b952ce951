//! The journal: every input of one stack in a compact file, and its replay into a fresh stack to the same output bytes.
mod codec;
mod input;
mod options;

pub use input::{Answer, Input};

use crate::host::Core;
use codec::{Decoder, Encoder};
use lowwater_core::base::{Instant, Sysctl};
use lowwater_core::packet::Packet;
use std::fmt::Debug;

const MAGIC: &[u8] = b"lowwater journal 4\n";

/// Records inputs and, apart from them, everything the stack gave out.
#[derive(Debug)]
pub struct Recorder {
    inputs: Encoder,
    outputs: Encoder,
    last: Instant,
}

impl Recorder {
    /// A journal of a stack with this seed and these settings, made at `now`.
    #[must_use]
    pub fn new(seed: u64, sysctl: &Sysctl, now: Instant) -> Self {
        let mut inputs = Encoder::default();
        inputs.bytes.extend_from_slice(MAGIC);
        inputs.number(seed);
        inputs.number(now.as_nanos());
        inputs.number(Sysctl::NAMES.len() as u64);
        for (name, _) in Sysctl::NAMES {
            inputs.slice(name.as_bytes());
            inputs.slice(sysctl.get(name).unwrap_or_default().as_bytes());
        }
        Self { inputs, outputs: Encoder::default(), last: now }
    }

    /// Notes an input. Times are stored as differences, which may be negative in a test of the clock.
    pub fn input(&mut self, now: Instant, input: &Input) {
        let delta = now.as_nanos().cast_signed().wrapping_sub(self.last.as_nanos().cast_signed());
        self.last = now;
        self.inputs.number(((delta << 1) ^ (delta >> 63)).cast_unsigned());
        input.encode(&mut self.inputs);
    }

    /// Notes the result of a call.
    pub fn result(&mut self, result: &dyn Debug) {
        self.outputs.slice(format!("{result:?}").as_bytes());
    }

    /// Notes bytes that a call gave out.
    pub fn data(&mut self, data: &[u8]) {
        self.outputs.slice(data);
    }

    /// Notes a packet that the stack offered to its device.
    pub fn packet(&mut self, packet: &Packet) {
        options::put_packet(&mut self.outputs, packet);
    }

    /// The journal's bytes.
    #[must_use]
    pub fn inputs(&self) -> &[u8] {
        &self.inputs.bytes
    }

    /// Everything that came out of the stack.
    #[must_use]
    pub fn outputs(&self) -> &[u8] {
        &self.outputs.bytes
    }
}

/// A journal that cannot be read, with the offset of the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(
    /// Bytes from the start of the journal.
    pub usize,
);

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the journal is damaged at byte {}", self.0)
    }
}

impl std::error::Error for Damaged {}

fn begin(d: &mut Decoder<'_>) -> Option<(u64, Sysctl, Instant)> {
    d.bytes = d.bytes.strip_prefix(MAGIC)?;
    let (seed, now) = (d.number()?, Instant::from_nanos(d.number()?));
    let mut sysctl = Sysctl::default();
    for _ in 0..d.number()? {
        let (name, value) = (std::str::from_utf8(d.slice()?).ok()?, std::str::from_utf8(d.slice()?).ok()?);
        sysctl.set(name, value).ok()?;
    }
    Some((seed, sysctl, now))
}

/// Feeds a journal to a fresh stack, recording again; the recorder's outputs equal those of the first run.
///
/// # Errors
/// When the bytes are no journal.
pub fn replay(journal: &[u8]) -> Result<Core, Damaged> {
    let mut d = Decoder { bytes: journal };
    let Some((seed, sysctl, mut now)) = begin(&mut d) else { return Err(Damaged(0)) };
    let mut core = Core::new(seed, sysctl, now);
    core.record();
    while !d.bytes.is_empty() {
        let at = Damaged(journal.len() - d.bytes.len());
        let delta = d.number().ok_or(at)?;
        let delta = (delta >> 1).cast_signed() ^ -(delta & 1).cast_signed();
        now = Instant::from_nanos(now.as_nanos().wrapping_add_signed(delta));
        let input = Input::decode(&mut d).ok_or(at)?;
        core.apply(now, input);
    }
    Ok(core)
}

#[cfg(test)]
mod tests;
