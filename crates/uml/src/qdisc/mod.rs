//! The same packets through the guest's queueing disciplines and through ours: what leaves, in which order, and what is counted.
//!
//! The guest sends frames at the times of a [`Case`] through its discipline and notes when each was handed over and which came out;
//! ours is then given the same frames at the noted times. Orders, drops, marks and counts are compared, and times as far as the guest's
//! shared processor lets them be.
mod cases;
mod frames;
mod guest;
mod ours;

pub use cases::{CASES, Case, case};
pub use guest::{guest, priority_of};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Modules of the guest's kernel.
const MODULES: &[&str] = &["veth", "sch_tbf", "sch_netem", "sch_fq", "sch_codel", "sch_fq_codel"];

/// One frame to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When, in microseconds from the beginning.
    pub at_us: u64,
    /// Its flow: the source port.
    pub flow: u16,
    /// The IP header's identification.
    pub number: u16,
    /// Bytes behind the transport header.
    pub len: u16,
    /// Type of service with the two bits of ECN.
    pub tos: u8,
    /// A super-packet of TCP with segments of so many bytes; 0 for a datagram.
    pub gso: u16,
    /// Its departure time, so many microseconds after it is sent; 0 for none.
    pub depart_us: u64,
}

/// One frame that came out, as it can be compared: flow, number, ECN bits, bytes on the wire, and whether it is intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// Its flow.
    pub flow: u16,
    /// Its number.
    pub number: u16,
    /// The two bits of ECN.
    pub ecn: u8,
    /// Bytes with all headers.
    pub bytes: u32,
}

/// What became of a case in the guest or here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When each frame was handed over, in nanoseconds.
    pub handed_ns: Vec<u64>,
    /// What came out, in order, each with its time in nanoseconds.
    pub left: Vec<(u64, Left)>,
    /// The counts of each discipline, outermost first, under `tc`'s names.
    pub counts: Vec<BTreeMap<String, u64>>,
}

impl Outcome {
    /// What came out, without times.
    #[must_use]
    pub fn order(&self) -> Vec<Left> {
        self.left.iter().map(|(_, left)| *left).collect()
    }

    /// A count of the discipline at `depth`.
    #[must_use]
    pub fn count(&self, depth: usize, name: &str) -> Option<u64> {
        self.counts.get(depth)?.get(name).copied()
    }

    fn to_json(&self) -> Value {
        let left = self.left.iter().map(|(at, l)| json!([at, l.flow, l.number, l.ecn, l.bytes]));
        json!({ "handed": self.handed_ns, "left": left.collect::<Vec<_>>(), "counts": self.counts })
    }

    fn parse(value: &Value) -> Option<Self> {
        let numbers = |v: &Value| -> Option<Vec<u64>> { v.as_array()?.iter().map(Value::as_u64).collect() };
        let left = |v: &Value| {
            let n = numbers(v)?;
            let &[at, flow, number, ecn, bytes] = n.as_slice() else { return None };
            let (flow, number) = (u16::try_from(flow).ok()?, u16::try_from(number).ok()?);
            Some((at, Left { flow, number, ecn: u8::try_from(ecn).ok()?, bytes: u32::try_from(bytes).ok()? }))
        };
        let counts = |v: &Value| -> Option<BTreeMap<String, u64>> {
            v.as_object()?.iter().map(|(k, v)| Some((k.clone(), v.as_u64()?))).collect()
        };
        Some(Self {
            handed_ns: numbers(value.get("handed")?)?,
            left: value.get("left")?.as_array()?.iter().map(left).collect::<Option<_>>()?,
            counts: value.get("counts")?.as_array()?.iter().map(counts).collect::<Option<_>>()?,
        })
    }
}

/// A case with what became of it there and here.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The case.
    pub case: &'static Case,
    /// In the guest.
    pub linux: Outcome,
    /// Here, with the guest's times of handing over.
    pub ours: Outcome,
}

/// Boots the kernel once and runs these cases in it, then here. `program` is run inside with `words` and the cases' names as last
/// argument, and must then call [`guest`].
///
/// # Errors
/// What went wrong, in a sentence.
pub fn compare(cases: &[&'static Case], program: &Path, words: &[&str]) -> Result<Vec<Compared>, String> {
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    // Each case says a line, so that the default silence goes for each.
    let deadline = crate::SILENCE * (2 + cases.len() as u32);
    let booted = crate::Guest { deadline, ..crate::Guest::new(MODULES) };
    let mut args = words.to_vec();
    let names = names.join(",");
    args.push(&names);
    let said = booted.run(program, &args)?;
    let mut lines = said.lines();
    let mut all = Vec::new();
    for &case in cases {
        let line = lines.next().ok_or_else(|| format!("the guest said nothing of {}", case.name))?;
        let linux = serde_json::from_str(line).ok().and_then(|value| Outcome::parse(&value));
        let linux = linux.ok_or_else(|| format!("the guest said {line:?}"))?;
        let ours = if case.timed { ours::follow(case, &linux)? } else { ours::run(case, &linux.handed_ns)? };
        all.push(Compared { case, linux, ours });
    }
    Ok(all)
}
