//! Plain data that every layer shares: time, chance, identities, reasons, counters. No protocol lives here.
pub mod carrier;
pub mod counters;
pub mod cx;
pub mod error;
pub mod fastopen_keys;
pub mod hash;
pub mod id;
pub mod limits;
pub mod memory;
pub mod near;
pub mod pool;
pub mod rng;
pub mod route_metrics;
pub mod slab;
pub(crate) mod steps;
pub mod sysctl;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
pub mod trace;
pub mod tuple;
pub mod why;

pub use carrier::Carrier;
pub use counters::Counters;
pub use cx::Cx;
pub use error::Error;
pub use fastopen_keys::FastOpenKeys;
pub use id::{DeviceId, FlowId, SocketId};
pub use memory::{Memory, Pressure};
pub use pool::Pool;
pub use rng::Rng;
pub use route_metrics::RouteMetrics;
pub use slab::Slab;
pub use sysctl::Sysctl;
pub use time::{Duration, Instant};
pub use tuple::Tuple;
pub use why::{DropWhy, Wait};
