//! Which rules no script shows, and which only a test of the core: docs/rules.md against the scripts below tests/drill.
use crate::command::Outcome;
use crate::tidy::source::{File, Tree};
use std::collections::BTreeMap;
use std::path::Path;

const PAGE: &str = "docs/rules.md";
const SCRIPTS: &str = "tests/drill/";
const WHY_SOURCE: &str = "crates/core/src/base/why.rs";
/// What a script's comment begins with that names rules.
const TAG: &str = "// rules:";

/// What sections of RFC 9260 say what to do, from 5 to 9. Each needs a rule of SCTP that names it as its source.
const SCTP_SECTIONS: [&str; 41] = [
    "5.1", "5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2.1", "5.2.2", "5.2.3", "5.2.4", "5.2.5", "5.2.6",
    "5.4", "6.1", "6.2", "6.2.1", "6.3.1", "6.3.2", "6.3.3", "6.4", "6.4.1", "6.5", "6.6", "6.7", "6.8",
    "6.9", "6.10", "7.2", "7.2.1", "7.2.2", "7.2.3", "7.2.4", "7.2.5", "7.3", "8.1", "8.2", "8.3", "8.4",
    "8.5", "9.1", "9.2",
];

/// A row of the page.
struct Rule<'a> {
    id: &'a str,
    text: &'a str,
    source: &'a str,
    /// A test of the core, for what scripts cannot show.
    test: Option<&'a str>,
}

/// Lists the rules without a script, where a test shows them too; an error when nothing does, or when a script names a rule that is none.
pub(crate) fn run() -> Outcome {
    let tree = Tree::load()?;
    let page = tree.get(PAGE).map_or("", |f| f.text.as_str());
    let rules: Vec<Rule<'_>> = page.lines().filter_map(rule).collect();
    let scripts: Vec<&File> = tree.all().filter(|f| is_script(&f.path)).collect();
    let mut shown: BTreeMap<&str, usize> = rules.iter().map(|r| (r.id, 0)).collect();
    let mut wrong = missing_waits(&tree, &rules);
    wrong.extend(missing_sections(&rules));
    for file in &scripts {
        for id in tags(&file.text) {
            match shown.get_mut(id) {
                Some(count) => *count += 1,
                None => wrong.push(format!("{}: {id} is no rule of {PAGE}", file.path)),
            }
        }
    }
    let has_test = |name: &str| tree.rust().any(|f| f.text.contains(&format!("fn {name}(")));
    wrong.extend(rules.iter().filter_map(|rule| match rule.test {
        Some(test) if !has_test(test) => Some(format!("{}: there is no test {test}", rule.id)),
        Some(_) if shown.get(rule.id) > Some(&0) => {
            Some(format!("{} has scripts: its test need not stand in {PAGE}", rule.id))
        }
        None if shown.get(rule.id) == Some(&0) => Some(format!("{} has no script: {}", rule.id, rule.text)),
        _ => None,
    }));
    for line in &wrong {
        println!("{line}");
    }
    let only_tests = rules.iter().filter(|rule| rule.test.is_some() && shown.get(rule.id) == Some(&0));
    let only_tests: Vec<&Rule<'_>> = only_tests.collect();
    for rule in &only_tests {
        println!("{} has only a test: {}", rule.id, rule.test.unwrap_or_default());
    }
    let (rules, only, amiss) = (rules.len(), only_tests.len(), wrong.len());
    println!("{rules} rules, {only} of them without a script, {} scripts, {amiss} amiss", scripts.len());
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("add scripts below {SCRIPTS}, or tag those that show it with '{TAG} ID'"))
}

fn is_script(path: &str) -> bool {
    path.starts_with(SCRIPTS) && Path::new(path).extension().is_some_and(|e| e == "pkt")
}

/// A row whose first cell is an id.
fn rule(line: &str) -> Option<Rule<'_>> {
    let cells: Vec<&str> = line.strip_prefix("| `")?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let [id, text, source, shown] = cells[..] else { return None };
    let test = shown.strip_prefix('`').and_then(|t| t.strip_suffix('`'));
    Some(Rule { id: id.strip_suffix('`')?, text, source, test })
}

/// The rules that a script says it shows.
fn tags(script: &str) -> impl Iterator<Item = &str> {
    script
        .lines()
        .filter_map(|l| l.trim_start().strip_prefix(TAG))
        .flat_map(|l| l.split(','))
        .map(str::trim)
        .filter(|id| !id.is_empty())
}

/// Every reason for silence needs its rule.
fn missing_waits(tree: &Tree, rules: &[Rule<'_>]) -> Vec<String> {
    let source = tree.get(WHY_SOURCE).map_or("", |f| f.text.as_str());
    let names = source.split("impl Wait").nth(1).unwrap_or("").split("drop_reasons").next().unwrap_or("");
    let names: Vec<&str> = names.split(" => \"").skip(1).filter_map(|n| n.split('"').next()).collect();
    if names.is_empty() {
        return vec![format!(
            "{WHY_SOURCE}: found no reasons; has its shape changed? see xtask/src/rules.rs"
        )];
    }
    let missing = |name: &&str| !rules.iter().any(|r| r.id.strip_prefix("wait.") == Some(name));
    names.into_iter().filter(missing).map(|name| format!("Wait::{name} has no rule in {PAGE}")).collect()
}

/// Every section of RFC 9260 that says what to do needs a rule.
fn missing_sections(rules: &[Rule<'_>]) -> Vec<String> {
    let sctp = rules.iter().filter(|rule| rule.id.starts_with("sctp."));
    let named: Vec<&str> = sctp.flat_map(|rule| sections(rule.source)).collect();
    let missing = SCTP_SECTIONS.iter().filter(|section| !named.contains(section));
    missing.map(|section| format!("RFC 9260 {section} has no rule in {PAGE}")).collect()
}

/// The sections that a source names before those of other documents: "5.2.1, 5.2.4 B, RFC 5062 2" has two.
fn sections(source: &str) -> impl Iterator<Item = &str> {
    let own = source.split(',').map(str::trim).take_while(|part| !part.starts_with("RFC"));
    own.filter_map(|part| part.split(' ').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_rule_and_a_comment_names_it() {
        let row = rule("| `wait.nagle` | a small segment waits | RFC 9293 3.7.4 | |").expect("a row");
        assert_eq!((row.id, row.text, row.test), ("wait.nagle", "a small segment waits", None));
        assert_eq!(sections("5.2.1, 5.2.4 B, RFC 5062 2").collect::<Vec<_>>(), ["5.2.1", "5.2.4"]);
        assert_eq!(missing_sections(&[row]).len(), SCTP_SECTIONS.len());
        let row = rule("| `tp5.remainder` | early | transmit-path 5 | `a_test` |").expect("a row");
        assert_eq!(row.test, Some("a_test"));
        assert!(rule("| id | rule | source | shown by |").is_none());
        let script = "// Nagle.\n// rules: wait.nagle, must58\n0 socket(...) = 3\n// rules:x\n";
        assert_eq!(tags(script).collect::<Vec<_>>(), ["wait.nagle", "must58", "x"]);
    }
}
