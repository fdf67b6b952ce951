//! Runs in which nothing came: their zeros are no measurement, and a table alone would not say so.
use super::runs::Done;

/// A line for each run that no payload came of: no flow connected, or none brought anything.
pub(super) fn lines(done: &[&Done]) -> Vec<String> {
    done.iter().filter_map(|d| Some(format!("nothing came: {}: {}", d.plan.called(), why(d)?))).collect()
}

fn why(done: &Done) -> Option<String> {
    let figures = done.figures.as_ref()?;
    let of = |name: &str| figures.get(name);
    if of("connected_flows") == Some(0.0) {
        let seconds = figures.virtual_s;
        return Some(format!("no flow connected in {seconds:.1} s, so its figures measure nothing"));
    }
    // Associations have messages and no goodput.
    (of("connected_flows").is_some() && of("goodput_mbps") == Some(0.0))
        .then(|| "flows connected, and no payload of theirs arrived in the time that was measured".to_owned())
}
