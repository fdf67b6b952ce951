//! One word for one thing: names from elsewhere are refused in code, and so are addresses of package registries.
use super::Breach;
use super::source::{File, Tree};

/// Words that have one of ours (docs/glossary.md); in comments they may stand between backticks.
const BANNED: &[(&str, &str)] = &[
    ("skb", "packet"),
    ("pcb", "conn or listener"),
    ("tcb", "conn"),
    ("mbuf", "packet"),
    ("pdu", "segment, packet or frame"),
];
/// Hosts that a file must not name, in halves so that this file does not either.
const HOSTS: &[(&str, &str)] = &[
    ("crates", ".io"),
    ("pypi", ".org"),
    ("npmjs", ".org"),
    ("pythonhosted", ".org"),
    ("proxy.golang", ".org"),
];
/// Files that must name the words: the definition and its tests.
const EXEMPT: &[&str] = &["xtask/src/tidy/words.rs", "xtask/src/tidy/tests.rs"];

/// Checks every text file.
pub(super) fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for file in tree.all() {
        hosts(file, breaches);
        if file.ast.is_some() && !EXEMPT.contains(&file.path.as_str()) {
            check_file(file, breaches);
        }
    }
}

/// Checks the words of one Rust file.
pub(super) fn check_file(file: &File, breaches: &mut Vec<Breach>) {
    for (n, line) in file.text.lines().enumerate() {
        let (code, comment) = split_comment(line);
        let plain = without_backticks(comment);
        for (word, ours) in BANNED {
            if has_word(code, word) || has_word(&plain, word) {
                breaches.push(Breach {
                    path: file.path.clone(),
                    line: n + 1,
                    rule: "words",
                    what: format!("'{word}' is not our word: say {ours}"),
                });
            }
        }
    }
}

fn hosts(file: &File, breaches: &mut Vec<Breach>) {
    for (n, line) in file.text.lines().enumerate() {
        for (a, b) in HOSTS {
            let host = format!("{a}{b}");
            // What continues the word is another name.
            let named = line.match_indices(&host).any(|(at, _)| {
                !line[at + host.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
            });
            if named {
                breaches.push(Breach {
                    path: file.path.clone(),
                    line: n + 1,
                    rule: "hosts",
                    what: "names a package registry: that is the user's configuration".to_owned(),
                });
            }
        }
    }
}

/// The line up to `//`, and the rest; a `//` inside of a string counts as a comment, which errs on the kind side.
fn split_comment(line: &str) -> (&str, &str) {
    line.find("//").map_or((line, ""), |at| line.split_at(at))
}

fn without_backticks(comment: &str) -> String {
    comment.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// True when one of the words of an identifier is `word`: `rx_skb` and `SkbList` have it, `skbx` has not.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    words(text).iter().any(|w| w == word || w.strip_suffix('s') == Some(word))
}

fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut lower_before = false;
    for c in text.chars() {
        if !c.is_ascii_alphabetic() || (c.is_ascii_uppercase() && lower_before) {
            out.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphabetic() {
            word.push(c.to_ascii_lowercase());
        }
        lower_before = c.is_ascii_lowercase();
    }
    out.push(word);
    out.retain(|w| !w.is_empty());
    out
}
