//! What needs no root: help, mistakes, exit codes, and the lab.
mod beside;
mod compare;
mod drill;
mod ends;
mod figures;
mod lab;
mod reports;
mod snippets;
#[path = "../support/mod.rs"]
mod support;
mod words;

use rustix::process::{Signal, geteuid};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::{Dir, Ended, PATIENCE, Proc, eventually, lowwater, run};

const SOON: Duration = PATIENCE;
/// For a kernel that boots and works.
const GUEST: Duration = Duration::from_secs(300);

fn say(args: &[&str]) -> Ended {
    run(&mut lowwater(args), SOON)
}

/// The runs without what may differ.
fn runs(ended: &Ended) -> Vec<Value> {
    let parse = |line: &str| {
        let mut run: Value = serde_json::from_str(line).expect("a JSON object per line");
        assert!(run["wall_s"].as_f64().is_some_and(|s| s >= 0.0), "{run}");
        run["wall_s"] = Value::Null;
        run
    };
    ended.stdout.lines().map(parse).collect()
}
