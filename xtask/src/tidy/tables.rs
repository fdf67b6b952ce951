//! The tables of settings are complete: each sysctl and socket option has a row with its place and its test.
use super::Breach;
use super::source::Tree;

const SYSCTL_SOURCE: &str = "crates/core/src/base/sysctl.rs";
const SYSCTL_TABLE: &str = "docs/sysctl.md";
const OPTIONS_SOURCE: &str = "crates/core/src/tcp/options.rs";
const OPTIONS_TABLE: &str = "docs/options.md";
const DIFFERENCES: &str = "docs/linux-differences.md";
/// Subject, Linux, here, why.
const DIFFERENCE_CELLS: usize = 4;
/// What a row says in place of a test when a setting does nothing yet.
const NOT_BUILT: &str = "not built yet";
/// What a row says in place of a test when the code is there and nothing shows it.
const NO_TEST: &str = "no test yet";

/// Where tests without a place are.
const UNITS: &str = "crates/core/src/";

/// Checks both tables.
pub(super) fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    let sysctls = tree.get(SYSCTL_SOURCE).map(|f| sysctl_names(&f.text)).unwrap_or_default();
    table(tree, SYSCTL_TABLE, &sysctls, breaches);
    let options = tree.get(OPTIONS_SOURCE).and_then(|f| f.ast.as_ref()).map(option_names).unwrap_or_default();
    table(tree, OPTIONS_TABLE, &options, breaches);
    differences(tree, breaches);
}

/// Each difference from Linux says why.
fn differences(tree: &Tree, breaches: &mut Vec<Breach>) {
    let lines = tree.get(DIFFERENCES).map_or("", |f| f.text.as_str()).lines().enumerate();
    for (n, line) in lines.filter(|(_, l)| l.starts_with("| ")) {
        let cells = line.trim_matches('|').split(" | ").filter(|cell| !cell.trim().is_empty()).count();
        if cells != DIFFERENCE_CELLS {
            breaches.push(Breach {
                path: DIFFERENCES.to_owned(),
                line: n + 1,
                rule: "tables",
                what: "a difference has subject, Linux, here and why".to_owned(),
            });
        }
    }
}

/// The literals of the `sysctls!` list: `field: type = default, "name", "text", lo ..= hi => when Effect;`.
fn sysctl_names(source: &str) -> Vec<String> {
    let list = source.split_once("\nsysctls! {").map_or("", |(_, rest)| rest);
    list.lines()
        .take_while(|l| *l != "}")
        .filter(|l| l.trim_end().ends_with(';') && l.contains("\", \"") && !l.trim_start().starts_with("//"))
        .filter_map(|l| l.rsplit("\", \"").nth(1)?.rsplit_once('"').map(|(_, name)| name.to_owned()))
        .collect()
}

/// The fields of `SocketOptions`.
fn option_names(ast: &syn::File) -> Vec<String> {
    ast.items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Struct(s) if s.ident == "SocketOptions" => Some(s),
            _ => None,
        })
        .flat_map(|s| s.fields.iter().filter_map(|f| f.ident.as_ref().map(ToString::to_string)))
        .collect()
}

fn table(tree: &Tree, path: &str, names: &[String], breaches: &mut Vec<Breach>) {
    let mut report = |line: usize, what: String| {
        breaches.push(Breach { path: path.to_owned(), line, rule: "tables", what });
    };
    if names.is_empty() {
        report(
            0,
            "found no settings in the source: has its shape changed? see xtask/src/tidy/tables.rs".to_owned(),
        );
        return;
    }
    let rows: Vec<(usize, Vec<&str>)> = tree
        .get(path)
        .map(|f| f.text.lines().enumerate().filter_map(|(n, l)| Some((n + 1, cells(l)?))).collect())
        .unwrap_or_default();
    for name in names {
        let key = format!("`{name}`");
        match rows.iter().filter(|(_, c)| c[0] == key).count() {
            0 => report(0, format!("{key} has no row")),
            1 => {}
            n => report(0, format!("{key} has {n} rows")),
        }
    }
    for (line, row) in rows.iter().filter(|(_, c)| c[0].starts_with('`')) {
        let name = row[0].trim_matches('`');
        if !names.iter().any(|n| n == name) {
            report(*line, format!("`{name}` is no setting of ours"));
        }
        if let Some(what) = wrong_row(tree, row) {
            report(*line, format!("`{name}`: {what}"));
        }
    }
}

/// The cells of a table's row, without those of its head and ruler.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split(" | ").map(str::trim).collect();
    (!cells[0].starts_with("---") && cells[0] != "name").then_some(cells)
}

/// A row is: name, default, meaning, where, shown by.
fn wrong_row(tree: &Tree, row: &[&str]) -> Option<String> {
    let [_, _, meaning, place, shown] = row else {
        return Some(format!("a row has 5 cells, this one has {}", row.len()));
    };
    // The default may be: lists are empty at first, and a test compares it with the code.
    if meaning.is_empty() {
        return Some("the meaning is empty".to_owned());
    }
    if *shown == NOT_BUILT {
        return None;
    }
    for file in quoted(place) {
        let at = format!("crates/{file}");
        if tree.get(&at).is_none() {
            return Some(format!("{at} does not exist"));
        }
    }
    if *shown == NO_TEST && quoted(place).next().is_some() {
        return None;
    }
    let tests: Vec<&str> = quoted(shown).collect();
    if quoted(place).next().is_none() || tests.is_empty() {
        return Some(format!("names a file and a test, or says '{NOT_BUILT}' or '{NO_TEST}'"));
    }
    let suite = if row[0].starts_with("`sctp.") { "sctp" } else { "tcp" };
    tests
        .into_iter()
        .find(|t| !test_exists(tree, suite, t))
        .map(|t| format!("no test `{t}` where the page says it is"))
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// True when a file at this path exists, or a function of this name where the pages say it is: `module::name` in a file of
/// the suite of packet scripts, `path.rs::name` in that file, a bare name among the unit tests of the core.
fn test_exists(tree: &Tree, suite: &str, name: &str) -> bool {
    let (place, name_alone) = name.rsplit_once("::").unwrap_or(("", name));
    let function = format!("fn {name_alone}(");
    let file = match place {
        "" => {
            return tree.get(name).is_some()
                || tree.rust().any(|f| f.path.starts_with(UNITS) && f.text.contains(&function));
        }
        path if path.ends_with(".rs") => format!("crates/{path}"),
        module => format!("crates/core/tests/{suite}/{}.rs", module.replace("::", "/")),
    };
    tree.get(&file).is_some_and(|f| f.text.contains(&function))
}

#[cfg(test)]
pub(super) fn names_in(source: &str) -> Vec<String> {
    sysctl_names(source)
}
