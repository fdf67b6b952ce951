//! Scenarios of the lab: worlds given by numbers instead of drawn, run for figures instead of verdicts.
mod bulk;
mod duo;
mod figures;
mod knobs;
mod notsent_lowat;
mod pacing;
mod params;
mod queue_aware;
mod sctp;
mod small_queues;
mod tso_autosize;

pub use bulk::{Bottleneck, BulkParams, bulk, bulk_with};
pub use figures::{Figures, Point};
pub use knobs::{Setting, SettingValue, changed_sysctls};
pub use notsent_lowat::NotsentLowat;
pub use pacing::Pacing;
pub use params::Common;
pub use queue_aware::QueueAware;
pub use sctp::{SctpFailover, SctpHeartbeat};
pub use small_queues::SmallQueues;
pub use tso_autosize::TsoAutosize;

use crate::check::Broken;
use lowwater_core::base::Sysctl;

/// A world given by numbers, which runs for figures. Laws, run over all of them by the tests: each parameter takes its own value
/// again, and the same parameters give the same figures.
pub trait Scenario: Send + Sync + core::fmt::Debug {
    /// Its parameters with their values.
    fn settings(&self) -> Vec<Setting>;
    /// Sets a parameter; `None` when there is none of that name.
    fn set(&mut self, key: &str, value: &str) -> Option<Result<(), String>>;
    /// Settings of both hosts.
    fn sysctl(&mut self) -> &mut Sysctl;
    /// All chance.
    fn seed(&mut self) -> &mut u64;
    /// Runs it, telling now and then how much is done (0 to 1); answering false ends the run.
    ///
    /// # Errors
    /// A broken promise: wrong bytes, failed connections, a world that stands still.
    fn run(&self, on_progress: &mut dyn FnMut(f64) -> bool) -> Result<Figures, Broken>;
    /// A copy.
    fn boxed(&self) -> Box<dyn Scenario>;
}

impl Clone for Box<dyn Scenario> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

#[cfg(test)]
mod tests;
