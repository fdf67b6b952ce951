//! Tests of `icmp4`.
