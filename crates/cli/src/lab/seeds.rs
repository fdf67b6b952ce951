//! Runs that are repeated with several seeds: one of each seed, and all of a variant as one row of the tables.
use super::runs::{Done, Plan};
use lowwater_sim::scenario::Figures;

/// Most seeds of one command: 10,000 runs of a hundred variants are more than anybody waits for.
pub(crate) const SEEDS_MAX: u64 = 100;

/// How far a figure went over the seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// As in [`Figures`].
    pub(crate) figure: &'static str,
    /// The least of all.
    pub(crate) least: f64,
    /// The most of all.
    pub(crate) most: f64,
    /// In how many runs it was measured.
    pub(crate) runs: usize,
}

/// Each plan with each of its seeds, those of one plan behind each other.
pub(super) fn each(plans: Vec<Plan>) -> Vec<Plan> {
    let all = plans.into_iter().flat_map(|plan| (0..plan.asked.seeds).map(move |at| with_seed(&plan, at)));
    all.collect()
}

fn with_seed(plan: &Plan, at: u64) -> Plan {
    let mut plan = plan.clone();
    // Behind the largest comes 0: a seed is a number and no amount.
    plan.seed = plan.seed.wrapping_add(at);
    *plan.scenario.seed() = plan.seed;
    plan
}

/// The runs of each variant as one: the medians of what they measured, and how far it went. What is drawn over time is of the first.
pub(super) fn together(done: &[Done]) -> Vec<Done> {
    done.chunk_by(|a, b| a.plan.is_of_the_same_as(&b.plan)).map(one).collect()
}

fn one(runs: &[Done]) -> Done {
    let mut all = runs[0].clone();
    if runs.len() == 1 {
        return all;
    }
    all.runs = runs.len();
    all.wall_s = runs.iter().map(|d| d.wall_s).sum();
    all.broken = runs.iter().find_map(|d| d.broken.clone());
    let measured: Vec<&Figures> = runs.iter().filter_map(|d| d.figures.as_ref()).collect();
    all.figures = all.figures.filter(|_| all.broken.is_none()).map(|first| median(&measured, first));
    let names = all.figures.iter().flat_map(|f| f.named()).map(|(name, _)| *name);
    all.spread = names.filter_map(|name| spread(&measured, name)).collect();
    all
}

/// The first, with the medians in the place of its figures.
fn median(runs: &[&Figures], mut first: Figures) -> Figures {
    first.complete = runs.iter().all(|f| f.complete);
    first.virtual_s = middle(runs.iter().map(|f| f.virtual_s).collect()).unwrap_or(first.virtual_s);
    first.with_values(|name| middle(values(runs, name)).unwrap_or(Figures::NONE))
}

/// What was measured, in order.
fn values(runs: &[&Figures], name: &str) -> Vec<f64> {
    let mut values: Vec<f64> = runs.iter().filter_map(|f| f.get(name)).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The one in the middle, of two the mean.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    Some(if values.len().is_multiple_of(2) { f64::midpoint(values[half - 1], upper) } else { upper })
}

fn spread(runs: &[&Figures], figure: &'static str) -> Option<Spread> {
    let values = values(runs, figure);
    Some(Spread { figure, least: *values.first()?, most: *values.last()?, runs: values.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(value: f64) -> Figures {
        let mut figures = Figures::default();
        figures.put("retrans_segs", value);
        figures
    }

    #[test]
    fn the_median_takes_the_place_of_the_first_and_what_is_not_there_counts_for_nothing() {
        let runs = [figures(5.0), figures(1.0), figures(Figures::NONE), figures(3.0)];
        let all: Vec<_> = runs.iter().collect();
        let median = median(&all, runs[0].clone());
        assert_eq!(median.get("retrans_segs"), Some(3.0));
        let told = spread(&all, "retrans_segs");
        assert_eq!(told, Some(Spread { figure: "retrans_segs", least: 1.0, most: 5.0, runs: 3 }));
        assert_eq!((middle(vec![4.0, 1.0]), middle(Vec::new())), (Some(2.5), None));
        assert_eq!(spread(&all, "goodput_mbps"), None);
    }
}
