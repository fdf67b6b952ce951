//! House rules that neither the compiler nor clippy knows; each rule is one file.
mod allow;
mod programs;
mod ranks;
mod roots;
mod size;
pub(crate) mod source;
mod tables;
pub(crate) mod unsafety;
mod words;

use crate::command::Outcome;
use source::Tree;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Breach {
    /// File, from the root of the workspace.
    pub(crate) path: String,
    /// Line, from 1; 0 for the whole file.
    pub(crate) line: usize,
    /// The rule's name, as in the allow-list.
    pub(crate) rule: &'static str,
    /// What is wrong and what to do.
    pub(crate) what: String,
}

/// Checks all rules; prints breaches, warnings and what the allow-list still carries.
pub(crate) fn run() -> Outcome {
    let tree = Tree::load()?;
    let mut breaches = Vec::new();
    roots::check(&tree, &mut breaches);
    ranks::check(&tree, &mut breaches);
    programs::check(&tree, &mut breaches);
    unsafety::check(&tree, &mut breaches);
    size::check(&tree, &mut breaches);
    words::check(&tree, &mut breaches);
    tables::check(&tree, &mut breaches);
    breaches.sort();
    breaches.dedup();

    let (allowed, refused) = allow::sort(breaches);
    let deep = size::deepest(&tree);
    for (path, line, depth) in &deep {
        println!("warning: {path}:{line}: nested {depth} deep; the habit is 3, the wall 4");
    }
    for breach in &refused {
        println!("error[{}]: {}:{}: {}", breach.rule, breach.path, breach.line, breach.what);
    }
    if !allowed.is_empty() {
        println!("allowed for now, in xtask/src/tidy/allow.rs (this list only shrinks):");
        for breach in &allowed {
            println!("  {}: {}:{}: {}", breach.rule, breach.path, breach.line, breach.what);
        }
    }
    let stale = allow::stale(&allowed);
    for (rule, path) in &stale {
        println!("note: {path} keeps rule '{rule}' again: remove it from xtask/src/tidy/allow.rs");
    }
    let files = tree.rust().count();
    println!(
        "tidy: {files} Rust files, {} breaches, {} allowed for now, {} warnings",
        refused.len(),
        allowed.len(),
        deep.len()
    );
    if refused.is_empty() { Ok(()) } else { Err("tidy: the rules above are broken".to_owned()) }
}

#[cfg(test)]
mod tests;
