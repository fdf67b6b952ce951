//! A connection as the tests of checkers have it: each changes what it is about.
use lowwater_core::path::pacing::Status;
use lowwater_core::tcp::{Bounds, Pace};

/// A megabyte a second, which nobody paces, in segments of 1,500 bytes with timestamps.
pub(super) const PACE: Pace = Pace {
    rate: 1_000_000,
    again: None,
    by: Status::None,
    min_rtt: None,
    segment: (1_448, 52),
    counters: 0,
    gso: (65_536, 60),
    two_segments_from: None,
    pushed_to: 0,
    handed: 40,
    due: false,
};

/// Some segments of it are under way, in a wide window.
pub(super) const FLOW: Bounds = Bounds {
    in_flight: 9,
    duplicates: 0,
    cwnd: 200,
    sent: (100, 5),
    fin: false,
    below: 3_000,
    pace: PACE,
    una: 90_000,
    nxt: 100_000,
    probes_mtu: false,
    records: 3,
    tail_probe: None,
};
