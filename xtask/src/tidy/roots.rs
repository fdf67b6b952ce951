//! Every file says its single job first; every crate but those at the border of the operating system or of C forbids `unsafe`.
use super::Breach;
use super::source::{File, Tree};
use syn::{Attribute, Meta};

/// The crates that may hold `unsafe`.
const UNSAFE_CRATES: &[&str] = &["crates/os/", "crates/drill/packetdrill/"];

/// Checks all Rust files.
pub(super) fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for file in tree.rust() {
        first_line(file, breaches);
        if is_crate_root(&file.path) && !UNSAFE_CRATES.iter().any(|c| file.path.starts_with(c)) {
            forbids_unsafe(file, breaches);
        }
    }
}

fn first_line(file: &File, breaches: &mut Vec<Breach>) {
    let line = file.text.lines().next().unwrap_or_default();
    let job = line.strip_prefix("//! ").map(str::trim);
    if job.is_none_or(|j| j.len() < 10) {
        breaches.push(Breach {
            path: file.path.clone(),
            line: 1,
            rule: "first-line",
            what: "the first line is `//!` and names the file's single job in a sentence".to_owned(),
        });
    }
}

fn forbids_unsafe(file: &File, breaches: &mut Vec<Breach>) {
    let attrs = file.ast.as_ref().map_or(&[][..], |a| &a.attrs);
    if !attrs.iter().any(is_forbid_unsafe) {
        breaches.push(Breach {
            path: file.path.clone(),
            line: 1,
            rule: "forbid-unsafe",
            what: "a crate's root says #![forbid(unsafe_code)]".to_owned(),
        });
    }
}

fn is_forbid_unsafe(attr: &Attribute) -> bool {
    match &attr.meta {
        Meta::List(list) if list.path.is_ident("forbid") => list.tokens.to_string().contains("unsafe_code"),
        _ => false,
    }
}

/// True for the roots of libraries and programs (tests and benches are checked for `unsafe` itself).
pub(super) fn is_crate_root(path: &str) -> bool {
    path.ends_with("src/lib.rs")
        || path.ends_with("src/main.rs")
        || path.rsplit_once('/').is_some_and(|(dir, _)| dir.ends_with("src/bin") || dir.ends_with("examples"))
}
