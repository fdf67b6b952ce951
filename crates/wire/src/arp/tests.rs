//! Tests of `arp`.
