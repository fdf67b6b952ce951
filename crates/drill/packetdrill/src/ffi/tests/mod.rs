//! Every script of ours through the functions of the interface, in a namespace whose settings are the stack's defaults (root).
mod caller;
mod target;

use lowwater_core::base::Sysctl;
use lowwater_drill::{Target, World, collect, drill_on};
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
    Failed(String),
}

#[test]
fn scripts_pass_through_c() {
    if !net_admin() {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/drill");
    let scripts = collect(&[folder.canonicalize().unwrap()]).unwrap();
    let runs: Vec<_> = NetNs::new().unwrap().run(|| scripts.iter().map(|script| run(script)).collect());
    let passed = runs.iter().filter(|r| matches!(r, Run::Passed)).count();
    let failures: Vec<_> = runs
        .iter()
        .filter_map(|r| if let Run::Failed(why) = r { Some(why.as_str()) } else { None })
        .collect();
    println!("{passed} of {} scripts pass, {} fail", runs.len(), failures.len());
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
    assert!(passed > runs.len() / 2, "most scripts ask for nothing special");
}

fn run(script: &Path) -> Run {
    reset_settings();
    let text = fs::read_to_string(script).unwrap();
    let special = Arc::new(AtomicBool::new(text.lines().any(|line| line.starts_with("// fails: "))));
    let make = |world: &World| {
        special.fetch_or(world.special_device, Ordering::SeqCst);
        Ok(Box::new(Interface::new(world, Arc::clone(&special))) as Box<dyn Target>)
    };
    let done = drill_on(&script.display().to_string(), &text, make);
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
