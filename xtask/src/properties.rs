//! The property tests with cases that nobody has drawn yet; `cargo test` draws the same ones everywhere (`.cargo/config.toml`).
use crate::command::{Outcome, cargo, run};
use crate::tidy::source::Tree;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// What proptest draws everything from.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Runs them `rounds` times, each with another seed, from `seed` on or from one that the clock gives. A failure names its seed.
pub(crate) fn run_all(seed: Option<u64>, rounds: u64) -> Outcome {
    let tree = Tree::load()?;
    let files = tree.rust().filter(|file| file.text.contains("proptest!"));
    let (mut packages, mut names) = (BTreeSet::new(), BTreeSet::new());
    for file in files.filter(|file| !file.path.starts_with("xtask/")) {
        let package = file.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
        packages.extend(package.map(|name| format!("lowwater-{name}")));
        names.extend(tests(&file.text));
    }
    let first = seed.unwrap_or_else(|| {
        // A clock before 1970 gives a seed, too.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs())
    });
    let mut words = ["test", "--quiet", "--lib", "--tests"].map(str::to_owned).to_vec();
    words.extend(packages.into_iter().flat_map(|package| ["--package".to_owned(), package]));
    words.push("--".to_owned());
    words.extend(names);
    for seed in (0..rounds.max(1)).map(|round| first.wrapping_add(round)) {
        println!("=== {SEED}={seed}");
        let drawn = run(cargo(&words).env(SEED, seed.to_string()));
        drawn
            .map_err(|_| format!("a property does not hold; again: cargo xtask properties --seed {seed}"))?;
    }
    Ok(())
}

/// The names of the tests between `proptest! {` and its end.
fn tests(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(indent) = line.strip_suffix("proptest! {").filter(|before| before.trim().is_empty()) else {
            continue;
        };
        let inside = lines.by_ref().take_while(|line| line.strip_prefix(indent) != Some("}"));
        let mut marked = false;
        for line in inside.map(str::trim) {
            if let Some(rest) = line.strip_prefix("fn ").filter(|_| marked) {
                names.extend(rest.split('(').next().map(str::to_owned));
            }
            // Attributes and comments may stand between the mark and the function.
            marked = line == "#[test]" || (marked && line.starts_with(['#', '/']));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_those_of_the_tests_inside() {
        let text = "fn a() {}\nproptest! {\n    #![config]\n    #[test]\n    fn b(x in 0..1) {\n    }\n\n    /// Why.\n    #[test]\n    \
                    // And this.\n    fn c(\n    ) {}\n    fn helper() {}\n}\n\n#[test]\nfn d() {}\n\nmod tests {\n    proptest! {\n        #[test]\n        fn e() {\n        }\n    }\n}\n";
        assert_eq!(super::tests(text), ["b", "c", "e"]);
    }
}
