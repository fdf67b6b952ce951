//! Every script of ours through the functions of the interface, in a namespace whose settings are the stack's defaults (root).
mod caller;
mod target;

use lowwater_core::base::Sysctl;
use lowwater_drill::{Family, Invocation, Target, World, collect, left_out};
use lowwater_os::netns::{NetNs, net_admin};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use target::{Interface, SETTINGS};

/// What became of a script.
enum Run {
    Passed,
    /// It asks for a device that packetdrill does not have, or says itself that it fails.
    PassedOver,
    /// It speaks of another mode, and says so.
    LeftOut,
    Failed(String),
}

/// Scripts that must pass in each mode at least.
const PASS_AT_LEAST: [(Family, usize); 3] = [(Family::V4, 950), (Family::Mapped, 910), (Family::V6, 870)];

#[test]
fn scripts_pass_through_c() {
    if !net_admin() {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/drill");
    let scripts = collect(&[folder.canonicalize().unwrap()]).unwrap();
    NetNs::new().unwrap().run(|| PASS_AT_LEAST.map(|(mode, least)| passes(&scripts, mode, least)));
}

/// All scripts pass in this mode that do not say why they cannot.
fn passes(scripts: &[PathBuf], mode: Family, least: usize) {
    let runs: Vec<_> = scripts.iter().map(|script| run(script, mode)).collect();
    let passed = runs.iter().filter(|r| matches!(r, Run::Passed)).count();
    let left_out = runs.iter().filter(|r| matches!(r, Run::LeftOut)).count();
    let failures: Vec<_> = runs
        .iter()
        .filter_map(|r| if let Run::Failed(why) = r { Some(why.as_str()) } else { None })
        .collect();
    let (all, failed) = (runs.len(), failures.len());
    println!("{}: {passed} of {all} scripts pass, {failed} fail, {left_out} are left out", mode.name());
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
    assert!(passed >= least, "{passed} scripts pass as {}", mode.name());
}

fn run(script: &Path, mode: Family) -> Run {
    let text = fs::read_to_string(script).unwrap();
    match left_out(&text, mode) {
        Ok(None) => reset_settings(),
        Ok(Some(_)) => return Run::LeftOut,
        Err(failure) => return Run::Failed(failure.to_string()),
    }
    let special = Arc::new(AtomicBool::new(text.lines().any(|line| line.starts_with("// fails: "))));
    let make = |world: &World| {
        special.fetch_or(world.special_device, Ordering::SeqCst);
        Ok(Box::new(Interface::new(world, mode, Arc::clone(&special))) as Box<dyn Target>)
    };
    let done = Invocation::new(&script.display().to_string(), &text).over(mode).run_on(make);
    match done {
        _ if special.load(Ordering::SeqCst) => Run::PassedOver,
        Ok(_) => Run::Passed,
        Err(failure) => Run::Failed(failure.to_string()),
    }
}

/// Gives the namespace of this thread the stack's defaults, as far as it has settings of its own.
fn reset_settings() {
    let defaults = Sysctl::default();
    for (name, _) in Sysctl::NAMES {
        let path = Path::new(SETTINGS).join(name);
        if path.exists()
            && let Some(value) = defaults.get(name)
        {
            // What cannot be set here the shared object reads as it is, like any other run.
            _ = fs::write(path, value);
        }
    }
}
