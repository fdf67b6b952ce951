//! Prints the figures of one bulk transfer: the experiment "tso-autosize" of the lab, and the same path with loss.
#![forbid(unsafe_code)]
use lowwater_sim::scenario::{BulkParams, bulk};
use std::time::Duration;

fn main() {
    let e3 = BulkParams {
        rtt: Duration::from_millis(40),
        rate: 0,
        queue_bytes: 0,
        bytes: 2_000_000,
        write: 2_000_000,
        sndbuf: Some(2_000_000),
        ..BulkParams::default()
    };
    let lossy = BulkParams {
        rate: 100_000_000,
        loss_ppm: 1_000,
        queue_bytes: 1_000_000,
        bytes: 10_000_000,
        ..e3.clone()
    };
    for (name, params) in [("tso-autosize", e3), ("lossy", lossy)] {
        match bulk(&params) {
            Ok(figures) => {
                println!("{name}: complete {}", figures.complete);
                for (figure, value) in figures.named() {
                    println!("  {figure:26} {value:.3}");
                }
            }
            Err(broken) => println!("{name}: {broken}"),
        }
    }
}
