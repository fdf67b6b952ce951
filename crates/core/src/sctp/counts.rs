//! What one association has sent and received (SCTP_GET_ASSOC_STATS; Linux's `sctp_priv_assoc_stats`), for sockets that ask for it.
use super::assoc::Assoc;
use super::paths::Paths;
use crate::base::time::Duration;
use core::net::IpAddr;
use lowwater_wire::sctp::Chunk;

/// The counts of an association, under Linux's names without `sas_`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssocCounts {
    /// The longest timeout since it was last asked for.
    pub maxrto: Duration,
    /// The path that had it.
    pub obs_rto_ipaddr: Option<IpAddr>,
    /// SACKs that came.
    pub isacks: u64,
    /// SACKs that were sent.
    pub osacks: u64,
    /// Packets that were sent.
    pub opackets: u64,
    /// Packets that came. What a listener answers without an association is nobody's.
    pub ipackets: u64,
    /// DATA chunks that were sent again.
    pub rtxchunks: u64,
    /// DATA chunks that came with a TSN beyond all that may be out.
    pub outofseqtsns: u64,
    /// Duplicates that SACKs have named.
    pub idupchunks: u64,
    /// Gap blocks in the peer's SACKs.
    pub gapcnt: u64,
    /// Unordered DATA chunks that were sent, each once.
    pub ouodchunks: u64,
    /// Unordered DATA chunks that were taken.
    pub iuodchunks: u64,
    /// Ordered DATA chunks that were sent, each once.
    pub oodchunks: u64,
    /// Ordered DATA chunks that were taken.
    pub iodchunks: u64,
    /// Other chunks that were sent, SACKs among them.
    pub octrlchunks: u64,
    /// Other chunks that came, SACKs among them.
    pub ictrlchunks: u64,
}

/// The place of the counts: nothing where nobody asks for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Counting(Option<Box<AssocCounts>>);

impl Counting {
    /// Counts, where `on`.
    pub(super) fn new(on: bool) -> Self {
        Self(on.then(Box::default))
    }

    /// Counts something.
    pub(super) fn add(&mut self, count: impl FnOnce(&mut AssocCounts)) {
        if let Some(counts) = &mut self.0 {
            count(counts);
        }
    }

    /// A chunk came that is no DATA. What begins an association came before there was one.
    pub(super) fn on_control(&mut self, chunk: &Chunk<'_>) {
        self.add(|counts| match chunk {
            Chunk::CookieEcho(_) => {}
            Chunk::Sack(sack) => {
                counts.ictrlchunks += 1;
                counts.isacks += 1;
                counts.gapcnt += sack.gaps.len() as u64;
            }
            _ => counts.ictrlchunks += 1,
        });
    }

    /// Looks for a longer timeout than was seen, among those that were set anew (`sctp_max_rto`).
    pub(super) fn note_rto(&mut self, paths: &mut Paths) {
        let Some(counts) = &mut self.0 else { return };
        for (_, path) in paths.iter_mut() {
            let set = path.rto.take_set().filter(|rto| *rto > counts.maxrto);
            if let Some(rto) = set {
                (counts.maxrto, counts.obs_rto_ipaddr) = (rto, Some(path.remote));
            }
        }
    }
}

impl Assoc {
    /// What was counted, where [`SctpOptions::counts`](super::SctpOptions::counts) asks for it. The longest timeout is looked for anew
    /// from here on, above RTO.Min.
    pub fn take_counts(&mut self) -> Option<AssocCounts> {
        let counts = self.owner.counting.0.as_deref_mut()?;
        let told = *counts;
        counts.maxrto = Duration::from_millis(self.options.rto.min_ms.into());
        Some(told)
    }
}
