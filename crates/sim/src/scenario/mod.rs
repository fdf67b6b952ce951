//! Scenarios of the lab: worlds given by numbers instead of drawn, run for figures instead of verdicts.
mod bulk;
mod figures;

pub use bulk::{Bottleneck, BulkParams, bulk, bulk_with};
pub use figures::{Figures, Point};

#[cfg(test)]
mod tests;
