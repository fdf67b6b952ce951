//! Timers: a wheel that holds deadlines exactly, and records that touch it as rarely as possible.
pub mod lazy;
pub mod wheel;

pub use lazy::Lazy;
pub use wheel::{Entry, Wheel};
