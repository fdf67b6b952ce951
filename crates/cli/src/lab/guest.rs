//! Linux's column of this run: the experiments once more, on Linux 6.1 in user mode.
use super::compare::Role;
use super::runs::{Given, Plan};
use crate::failure::Failure;
use std::process::ExitCode;

/// Runs of each variant of a short transfer; the median counts.
const REPEAT: u32 = 5;
/// Bytes that the guest's kernel reserves for headers, by which its buffers grow (`max_tcp_header`).
const GUEST_HEADER: u32 = 256;

/// Measures what is planned and can be translated, an experiment after the other, before anything else runs.
#[cfg(target_os = "linux")]
pub(super) fn measure(plans: &mut [Plan]) -> Result<(), Failure> {
    use lowwater_uml::{Job, Scenario, available, can_stand_still, run};
    available().map_err(Failure::missing)?;
    let program = std::env::current_exe().map_err(|e| Failure::io("finding this program", &e))?;
    let mut names: Vec<&str> = plans.iter().map(|p| p.experiment.name).collect();
    names.dedup();
    for name in names {
        // A variant as it is has Linux's figures in the catalog.
        let of = |p: &Plan| p.experiment.name == name && p.role != Role::AsItIs;
        let own: Vec<&Plan> = plans.iter().filter(|p| of(p)).collect();
        let Some(scenario) = Scenario::by_name(name) else {
            eprintln!("lowwater: {name} runs without Linux: the guest has no such experiment");
            continue;
        };
        let mut runs = Vec::new();
        for plan in own {
            let wanted = wanted(plan);
            match scenario.can(&wanted) {
                Ok(()) => runs.push(wanted),
                Err(why) => eprintln!("lowwater: {name} {} runs without Linux: {why}", plan.name),
            }
        }
        if runs.is_empty() {
            continue;
        }
        headers(name, plans).into_iter().for_each(|note| eprintln!("lowwater: {note}"));
        let still = can_stand_still();
        let time = if still { "virtual time" } else { "real time, since cc is missing" };
        eprintln!("{}", measuring(name, runs.len(), time));
        let repeat = if scenario == Scenario::TsoAutosize { REPEAT } else { 1 };
        let ended = run(&Job { scenario, runs, repeat }, &program, &["guest"])
            .map_err(|why| Failure::other(format!("{name} on Linux in user mode: {why}")))?;
        for plan in plans.iter_mut().filter(|p| of(p)) {
            if let Some(figures) = ended.figures.iter().find(|f| f.run == plan.name) {
                plan.linux_now.clone_from(&figures.values);
                plan.linux_now_still = still;
            }
            if let Some((run, why)) = ended.failed.iter().find(|(run, _)| *run == plan.name) {
                eprintln!("lowwater: {name} {run} failed on Linux in user mode: {why}");
                plan.linux_failed = Some(why.clone());
            }
        }
    }
    Ok(())
}

/// What is said at the end of runs that Linux beside them did not come through: which they are.
pub(super) fn failed(plans: &[Plan]) -> Option<Failure> {
    let failed = plans.iter().filter(|p| p.linux_failed.is_some());
    let names: Vec<_> = failed.map(|p| format!("{} {}", p.experiment.name, p.name)).collect();
    (!names.is_empty()).then(|| Failure::other(format!("failed on Linux in user mode: {}", names.join(", "))))
}

/// The run as the guest is asked for it.
#[cfg(target_os = "linux")]
fn wanted(plan: &Plan) -> lowwater_uml::Run {
    use lowwater_sim::scenario::{SettingValue, changed_sysctls};
    use lowwater_uml::{Param, Run};
    let param = |value: SettingValue| match value {
        SettingValue::Number(number) => Param::Number(number),
        SettingValue::Words(words) => Param::Words(words),
    };
    let settings = plan.scenario.settings().into_iter();
    let sysctl = changed_sysctls(plan.scenario.boxed().sysctl()).into_iter();
    let changed = plan.asked.set.iter().map(|(key, _)| key.clone());
    Run {
        name: plan.name.clone(),
        variant: plan.variant.name.to_owned(),
        params: settings.map(|s| (s.name.to_owned(), param(s.value))).collect(),
        sysctl: sysctl.map(|(name, value)| (name.to_owned(), value)).collect(),
        changed: changed.filter(|key| !Given::TIMES.contains(&key.as_str())).collect(),
    }
}

/// A note for runs whose buffers tune themselves by another measure than the guest's.
#[cfg(target_os = "linux")]
fn headers(name: &str, plans: &[Plan]) -> Option<String> {
    use lowwater_sim::scenario::SettingValue;
    let tunes = |p: &&Plan| {
        let sndbuf = p.scenario.settings().into_iter().find(|s| s.name == "sndbuf");
        let other = p.scenario.boxed().sysctl().max_tcp_header != GUEST_HEADER;
        let runs = p.experiment.name == name && p.role != Role::AsItIs;
        runs && other && sndbuf.is_some_and(|s| s.value == SettingValue::Number(0.0))
    };
    let names: Vec<_> = plans.iter().filter(tunes).map(|p| p.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{name}: buffers that tune themselves grow half as large in the guest, which is built with room for fewer headers; \
             --set max_tcp_header={GUEST_HEADER} has the same here: {}",
            names.join(", ")
        )
    })
}

/// What is said while it is waited for.
#[cfg(target_os = "linux")]
fn measuring(name: &str, variants: usize, time: &str) -> String {
    let many = if variants == 1 { "" } else { "s" };
    format!("{name}: measuring {variants} variant{many} on Linux in user mode, in {time}")
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
