//! Tests of `icmp6`.
