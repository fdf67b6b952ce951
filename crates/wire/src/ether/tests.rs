//! Tests of `ether`.
