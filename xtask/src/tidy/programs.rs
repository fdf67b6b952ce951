//! A program whose manifest says `test = false` is not built for tests, so a test in it would never run.
use super::Breach;
use super::source::{File, Tree};

/// Checks every program without a test build.
pub(super) fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for manifest in tree.all().filter(|f| f.path.ends_with("Cargo.toml")) {
        for path in without_tests(&manifest.path, &manifest.text) {
            match tree.get(&path) {
                Some(file) => check_file(file, breaches),
                None => breaches.push(Breach {
                    path: manifest.path.clone(),
                    line: 0,
                    rule: "tests-that-run",
                    what: format!(
                        "a program with `test = false` is looked for in {path}, which is not there"
                    ),
                }),
            }
        }
    }
}

/// Where the programs of a manifest lie that are not built for tests.
pub(super) fn without_tests(manifest: &str, text: &str) -> Vec<String> {
    let folder = manifest.trim_end_matches("Cargo.toml");
    let sections = text.split("\n[").filter(|s| s.starts_with("[bin]]"));
    sections
        .filter(|section| section.lines().any(|line| line.trim() == "test = false"))
        .map(|section| {
            let value = |key: &str| {
                let line = section.lines().find_map(|l| l.strip_prefix(key)?.trim().strip_prefix('='))?;
                Some(line.trim().trim_matches('"').to_owned())
            };
            let inner =
                value("path").unwrap_or_else(|| format!("src/bin/{}.rs", value("name").unwrap_or_default()));
            format!("{folder}{inner}")
        })
        .collect()
}

/// Checks one program that is not built for tests.
pub(super) fn check_file(file: &File, breaches: &mut Vec<Breach>) {
    let lines = file.text.lines().enumerate();
    for (at, _) in lines.filter(|(_, l)| matches!(l.trim(), "#[test]" | "#[cfg(test)]")) {
        breaches.push(Breach {
            path: file.path.clone(),
            line: at + 1,
            rule: "tests-that-run",
            what: "this program is not built for tests: put the test beside it, or take `test = false` out of the manifest"
                .to_owned(),
        });
    }
}
