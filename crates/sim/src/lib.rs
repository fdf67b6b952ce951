//! The deterministic simulator: the production core in virtual time, with links, faults, programs and checkers from one seed.
#![forbid(unsafe_code)]
pub mod edit;
pub mod link;
pub mod pcap;
pub mod schedule;
pub mod split;
