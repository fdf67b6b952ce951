//! Linux's column of this run: the experiments once more, on Linux 6.1 in user mode.
use super::runs::{Given, Plan};
use crate::failure::Failure;
use std::process::ExitCode;

/// Runs of each variant of a short transfer; the median counts.
const REPEAT: u32 = 5;
/// Measures what is planned and can be translated, an experiment after the other, before anything else runs.
#[cfg(target_os = "linux")]
pub(super) fn measure(plans: &mut [Plan]) -> Result<(), Failure> {
    use lowwater_uml::{Job, Scenario, available, can_stand_still, run};
    available().map_err(Failure::missing)?;
    let program = std::env::current_exe().map_err(|e| Failure::io("finding this program", &e))?;
    let mut names: Vec<&str> = plans.iter().map(|p| p.experiment.name).collect();
    names.dedup();
    for (name, scenario) in names.into_iter().filter_map(|name| Some((name, Scenario::by_name(name)?))) {
        let known = scenario.variants();
        let same = |p: &&Plan| p.experiment.name == name && known.contains(&p.variant.name);
        // What `--set` made another experiment Linux cannot follow.
        let own = plans.iter().filter(same).filter(|p| p.given != Given::More);
        let mut groups: Vec<((f64, f64), Vec<String>)> = Vec::new();
        for plan in own {
            // One boot for all that take as long.
            let (times, variant) = (seconds(plan), plan.variant.name.to_owned());
            match groups.iter_mut().find(|(known, _)| *known == times) {
                Some((_, variants)) => variants.push(variant),
                None => groups.push((times, vec![variant])),
            }
        }
        for (seconds, variants) in groups {
            let time = if can_stand_still() { "virtual time" } else { "real time, since cc is missing" };
            eprintln!("{}", measuring(name, variants.len(), time));
            let repeat = if scenario == Scenario::TsoAutosize { REPEAT } else { 1 };
            let job = Job { scenario, variants, repeat, seconds };
            let measured = run(&job, &program, &["guest"])
                .map_err(|why| Failure::other(format!("{name} on Linux in user mode: {why}")))?;
            for figures in measured {
                let same = |p: &&mut Plan| p.experiment.name == name && p.variant.name == figures.variant;
                plans.iter_mut().filter(same).for_each(|p| p.linux_now.clone_from(&figures.values));
            }
        }
    }
    Ok(())
}

/// What is said while it is waited for.
#[cfg(target_os = "linux")]
fn measuring(name: &str, variants: usize, time: &str) -> String {
    let many = if variants == 1 { "" } else { "s" };
    format!("{name}: measuring {variants} variant{many} on Linux in user mode, in {time}")
}

/// Seconds of warm-up and of measuring, where the scenario has such.
#[cfg(target_os = "linux")]
fn seconds(plan: &Plan) -> (f64, f64) {
    use lowwater_sim::scenario::SettingValue;
    let settings = plan.scenario.settings();
    let of = |name: &str| match settings.iter().find(|s| s.name == name).map(|s| &s.value) {
        Some(SettingValue::Number(seconds)) => *seconds,
        _ => 0.0,
    };
    (of("warmup_s"), of("measure_s"))
}

/// There is no user-mode Linux elsewhere.
#[cfg(not(target_os = "linux"))]
pub(super) fn measure(_: &mut [Plan]) -> Result<(), Failure> {
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::measuring;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            measuring("pacing", 1, "virtual time"),
            "pacing: measuring 1 variant on Linux in user mode, in virtual time"
        );
        assert!(measuring("pacing", 2, "real time").contains("2 variants on"));
    }
}
