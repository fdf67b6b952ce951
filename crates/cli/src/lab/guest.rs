//! Linux's column of this run: the experiments once more, on Linux 6.1 in user mode.
use super::runs::Plan;
use crate::failure::Failure;
use std::process::ExitCode;

/// Runs of each variant; the median counts.
const REPEAT: u32 = 5;
/// Seconds of warm-up and of measuring, as the experiments have them, and for all experiments together.
const SECONDS: (f64, f64) = (3.0, 6.0);
const SHORT: (f64, f64) = (1.0, 2.0);

/// Measures what is planned and can be translated, an experiment after the other, before anything else runs.
#[cfg(target_os = "linux")]
pub(super) fn measure(plans: &mut [Plan], short: bool) -> Result<(), Failure> {
    use lowwater_uml::{Job, Scenario, available, run};
    available().map_err(Failure::missing)?;
    let program = std::env::current_exe().map_err(|e| Failure::io("finding this program", &e))?;
    let mut names: Vec<&str> = plans.iter().map(|p| p.experiment.name).collect();
    names.dedup();
    for (name, scenario) in names.into_iter().filter_map(|name| Some((name, Scenario::by_name(name)?))) {
        let known = scenario.variants();
        let own = plans.iter().filter(|p| p.experiment.name == name && known.contains(&p.variant.name));
        let variants: Vec<String> = own.map(|p| p.variant.name.to_owned()).collect();
        if variants.is_empty() {
            continue;
        }
        eprintln!("{name}: measuring {} variants on Linux in user mode", variants.len());
        let (repeat, seconds) = match (scenario, short) {
            (Scenario::SmallQueues, true) => (1, SHORT),
            (Scenario::SmallQueues, false) => (1, SECONDS),
            (Scenario::TsoAutosize, _) => (REPEAT, SECONDS),
        };
        let job = Job { scenario, variants, repeat, seconds };
        let measured = run(&job, &program, &["guest"])
            .map_err(|why| Failure::other(format!("{name} on Linux in user mode: {why}")))?;
        for figures in measured {
            let same = |p: &&mut Plan| p.experiment.name == name && p.variant.name == figures.variant;
            plans.iter_mut().filter(same).for_each(|p| p.linux_now.clone_from(&figures.values));
        }
    }
    Ok(())
}

/// There is no user-mode Linux elsewhere.
#[cfg(not(target_os = "linux"))]
pub(super) fn measure(_: &mut [Plan], _: bool) -> Result<(), Failure> {
    Err(Failure::missing("Linux".to_owned()))
}

/// What runs inside.
#[cfg(target_os = "linux")]
pub(crate) fn guest(job: &str) -> Result<ExitCode, Failure> {
    lowwater_uml::guest(job).map(|()| ExitCode::SUCCESS).map_err(Failure::other)
}

/// What runs inside.
#[cfg(not(target_os = "linux"))]
pub(crate) fn guest(_: &str) -> Result<ExitCode, Failure> {
    Err(Failure::missing("Linux".to_owned()))
}
