//! Each rule sees the breach that it is for, and lets the honest neighbour pass.
use super::source::File;
use super::{Breach, programs, ranks, size, tables, words};

fn core_file(path: &str, text: &str) -> File {
    File::rust(&format!("crates/core/src/{path}"), text).expect("the sample parses")
}

fn ranks_of(path: &str, text: &str) -> Vec<Breach> {
    let mut out = Vec::new();
    ranks::check_file(&core_file(path, text), &mut out);
    out
}

#[test]
fn a_lower_rank_may_be_imported() {
    let text =
        "use crate::base::Cx;\nuse crate::{packet::Packet, timer};\nuse super::seq::Seq;\nuse bytes::Bytes;";
    assert_eq!(ranks_of("tcp/conn.rs", text), []);
}

#[test]
fn an_equal_rank_is_a_stranger() {
    assert_eq!(ranks_of("tcp/conn.rs", "use crate::ip::Ip;").len(), 1);
    assert_eq!(ranks_of("tcp/conn.rs", "use crate::{base::Cx, qdisc};").len(), 1);
    assert_eq!(ranks_of("timer/wheel.rs", "fn f() { use crate::ranges as r; }").len(), 1);
}

#[test]
fn a_higher_rank_is_refused_even_by_super() {
    assert_eq!(ranks_of("tcp/conn.rs", "use super::super::stack::Stack;").len(), 1);
    assert_eq!(ranks_of("credit.rs", "use super::tcp;").len(), 1);
    assert_eq!(ranks_of("tcp/mod.rs", "use super::stack;").len(), 1);
    assert_eq!(ranks_of("tcp/mod.rs", "mod tests { use super::stack; use super::super::socket; }").len(), 1);
}

#[test]
fn a_crate_path_in_code_is_refused() {
    assert_eq!(ranks_of("tcp/conn.rs", "fn f() { crate::base::go(); }").len(), 1);
    assert_eq!(ranks_of("tcp/conn.rs", "fn f() { assert!(crate::base::go()); }").len(), 1);
    assert_eq!(ranks_of("tcp/conn.rs", "pub(crate) fn f() {} pub(in crate::tcp) fn g() {}"), []);
}

#[test]
fn a_module_without_a_rank_is_refused() {
    assert_eq!(ranks_of("novel.rs", "").len(), 1);
}

fn sizes_of(text: &str) -> Vec<&'static str> {
    let mut out = Vec::new();
    size::check_file(&core_file("tcp/conn.rs", text), &mut out);
    out.into_iter().map(|b| b.rule).collect()
}

#[test]
fn walls_are_where_they_are_said_to_be() {
    let body = |n: usize| format!("fn f() {{\n{}}}", "g();\n".repeat(n - 2));
    assert_eq!(sizes_of(&body(70)), [""; 0]);
    assert_eq!(sizes_of(&body(71)), ["fn-lines"]);
    let fields = |n: usize, name: &str| {
        let list: Vec<String> = (0..n).map(|i| format!("f{i}: u8")).collect();
        format!("struct {name} {{ {} }}", list.join(", "))
    };
    assert_eq!(sizes_of(&fields(12, "Conn")), [""; 0]);
    assert_eq!(sizes_of(&fields(13, "Conn")), ["fields"]);
    assert_eq!(sizes_of(&fields(13, "TcpInfo")), [""; 0]);
    assert_eq!(sizes_of(&format!("#[repr(C)] {}", fields(13, "Conn"))), [""; 0]);
    assert_eq!(sizes_of(&format!("#[repr(packed)] {}", fields(13, "Conn"))), ["fields"]);
    assert_eq!(sizes_of("fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}"), [""; 0]);
    assert_eq!(sizes_of("fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {}"), ["fn-args"]);
    let c = "extern \"C\" fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {}";
    assert_eq!(sizes_of(c), [""; 0]);
}

#[test]
fn trailing_tests_are_not_production_lines() {
    let text =
        format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "use a;\n".repeat(800), "fn x() {}\n".repeat(500));
    assert_eq!(sizes_of(&text), [""; 0]);
    assert_eq!(sizes_of(&"use a;\n".repeat(801)), ["file-lines"]);
}

#[test]
fn foreign_words_are_found_inside_of_identifiers() {
    assert!(words::has_word("let rx_skb = 1;", "skb"));
    assert!(words::has_word("struct SkbList;", "skb"));
    assert!(!words::has_word("let updup = 1;", "pdu"));
    let mut out = Vec::new();
    let text = "// as `skb` in Linux\nfn f() {} // a skb\n";
    words::check_file(&core_file("tcp/conn.rs", text), &mut out);
    assert_eq!(out.iter().map(|b| b.line).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_test_stands_only_where_it_is_built() {
    let manifest = "[package]\nname = \"a\"\n\n[[bin]]\nname = \"b\"\ntest = false\n\n[[bin]]\nname = \"c\"\n\n[[bin]]\nname = \"d\"\npath = \"d.rs\"\ntest = false\n";
    assert_eq!(programs::without_tests("x/Cargo.toml", manifest), ["x/src/bin/b.rs", "x/d.rs"]);
    let mut out = Vec::new();
    let file = |text| File::rust("x/d.rs", text).expect("the sample parses");
    programs::check_file(&file("fn main() {}\n"), &mut out);
    assert_eq!(out, []);
    programs::check_file(
        &file("fn main() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn f() {}\n}\n"),
        &mut out,
    );
    assert_eq!(out.iter().map(|b| b.line).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn sysctl_names_are_those_of_the_core() {
    let source = include_str!("../../../crates/core/src/base/sysctl.rs");
    let ours: Vec<&str> = lowwater_core::base::Sysctl::NAMES.iter().map(|(name, _)| *name).collect();
    assert_eq!(tables::names_in(source), ours);
}

#[test]
fn the_table_of_sysctls_has_the_defaults_of_the_code() {
    let table = include_str!("../../../docs/sysctl.md");
    let sysctl = lowwater_core::base::Sysctl::default();
    for (name, _) in lowwater_core::base::Sysctl::NAMES {
        let default = sysctl.get(name).expect("a listed name can be read");
        let row = format!("| `{name}` | {default} |");
        assert!(table.contains(&row), "docs/sysctl.md lacks a row that begins: {row}");
    }
}

/// A default that follows from a setting is told in words, and so is one of several parts.
#[test]
fn the_table_of_options_has_the_defaults_of_the_code() {
    let table = include_str!("../../../docs/options.md");
    let sysctl = lowwater_core::base::Sysctl::default();
    let options = format!("{:#?}", lowwater_core::tcp::SocketOptions::new(&sysctl));
    let mut compared = 0;
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect();
        let field = options.lines().find_map(|line| line.strip_prefix(&format!("    {}: ", cells[0])));
        let (Some(value), false) =
            (field.and_then(|value| value.strip_suffix(',')), cells[1] == "the sysctl")
        else {
            continue;
        };
        let value = match value {
            "false" => "off",
            "18446744073709551615" => "u64::MAX",
            other => other,
        };
        assert_eq!(cells[1], value, "docs/options.md, {}", cells[0]);
        compared += 1;
    }
    assert!(compared >= 35, "only {compared} rows were compared");
}

#[test]
fn the_table_of_sysctls_has_the_ranges_of_the_code() {
    let table = include_str!("../../../docs/sysctl.md");
    for (name, _) in lowwater_core::base::Sysctl::NAMES {
        let Some((lo, hi)) = lowwater_core::base::Sysctl::range(name) else { continue };
        let (row, name) = (format!("| {lo} to {hi} | "), format!("`{name}`"));
        let told = table.lines().any(|line| line.starts_with(&row) && line.contains(&name));
        assert!(told, "docs/sysctl.md, Ranges: {name} is missing in the row that begins: {row}");
    }
}
