//! Figures of scenarios: repeatable, complete, and as physics demands.
use super::*;
use lowwater_core::base::Duration;

#[test]
fn the_same_parameters_give_the_same_figures() {
    let params = BulkParams { bytes: 500_000, loss_ppm: 5_000, ..BulkParams::default() };
    assert!(bulk(&params) == bulk(&params));
}

#[test]

fn a_clean_path_is_filled_and_a_lossy_one_recovers() {
    let clean = BulkParams { rtt: Duration::from_millis(20), bytes: 10_000_000, ..BulkParams::default() };
    let f = bulk(&clean).expect("no promise is broken");
    assert!(f.complete && f.retrans_segs == 0, "{:?}", f.named());
    assert!(f.goodput_mbps > 70.0 && f.goodput_mbps < 100.0, "{:?}", f.named());
    assert!(f.series.iter().any(|p| p.cwnd > 100));
    let lossy = BulkParams { loss_ppm: 10_000, bytes: 2_000_000, ..clean };
    let f = bulk(&lossy).expect("no promise is broken");
    assert!(f.complete && f.retrans_segs > 0, "{:?}", f.named());
}
