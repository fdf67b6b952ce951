//! The deterministic simulator: the production core in virtual time, with links, faults, programs and checkers from one seed.
#![forbid(unsafe_code)]
pub mod app;
pub mod check;
pub mod edit;
pub mod host;
pub mod journal;
pub mod link;
pub mod pcap;
pub mod runner;

pub mod scenario;
pub mod schedule;
pub mod split;
pub mod swarm;
pub mod world;
