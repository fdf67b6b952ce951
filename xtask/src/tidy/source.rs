//! Loads every text file of the workspace, and parses the Rust ones once.
use crate::command::root;
use std::fs;
use std::path::Path;

/// Directories that hold nothing of ours.
const SKIP: &[&str] = &["target", ".git", "node_modules", "corpus", "artifacts"];
/// Endings of files that hold text.
const TEXT: &[&str] = &["rs", "toml", "md", "sh", "yml", "yaml", "json", "txt", "pkt", "py", "run"];

/// One file.
pub(crate) struct File {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
    /// The syntax tree of a Rust file.
    pub(crate) ast: Option<syn::File>,
    /// Another file declares it under `#[cfg(test)]`.
    declared_for_tests: bool,
}

impl File {
    /// A Rust file from its text.
    pub(crate) fn rust(path: &str, text: &str) -> Result<Self, String> {
        let ast = syn::parse_file(text)
            .map_err(|e| format!("{path}:{}: does not parse: {e}", e.span().start().line))?;
        Ok(Self { path: path.to_owned(), text: text.to_owned(), ast: Some(ast), declared_for_tests: false })
    }

    /// True for a file that only tests compile: its name, a directory or its declaration says so.
    pub(crate) fn is_test(&self) -> bool {
        self.declared_for_tests
            || self.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "bench"))
    }
}

/// All files of the workspace.
pub(crate) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads and parses.
    pub(crate) fn load() -> Result<Self, String> {
        let mut tree = Self { files: Vec::new() };
        tree.walk(&root(), "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        let declared: Vec<String> = tree.rust().flat_map(test_modules).collect();
        for file in &mut tree.files {
            file.declared_for_tests = declared.contains(&file.path);
        }
        Ok(tree)
    }

    /// Every text file, sorted by path.
    pub(crate) fn all(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Every Rust file, sorted by path.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| f.ast.is_some())
    }

    /// The file at this path.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|f| f.path == path)
    }

    fn walk(&mut self, dir: &Path, prefix: &str) -> Result<(), String> {
        let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", dir.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(|e| format!("{path}: {e}"))?;
            if kind.is_dir() {
                if !SKIP.contains(&name.as_str()) {
                    self.walk(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() {
                self.load_file(&entry.path(), &path)?;
            }
        }
        Ok(())
    }

    fn load_file(&mut self, at: &Path, path: &str) -> Result<(), String> {
        let ending = at.extension().map(|e| e.to_string_lossy().into_owned()).unwrap_or_default();
        let script = path.starts_with(".ci/") || path.starts_with(".cargo/");
        if !script && !TEXT.contains(&ending.as_str()) {
            return Ok(());
        }
        let bytes = fs::read(at).map_err(|e| format!("{path}: {e}"))?;
        let text = String::from_utf8(bytes).map_err(|_| format!("{path}: not UTF-8"))?;
        let file = if ending == "rs" {
            File::rust(path, &text)?
        } else {
            File { path: path.to_owned(), text, ast: None, declared_for_tests: false }
        };
        self.files.push(file);
        Ok(())
    }
}

/// Paths of the modules that `file` declares under `#[cfg(test)]`.
fn test_modules(file: &File) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let (dir, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let home = if matches!(name, "mod" | "lib" | "main") { dir } else { stem };
    let items = file.ast.as_ref().map_or(&[][..], |a| &a.items);
    items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Mod(m) if m.content.is_none() && super::size::is_test(&m.attrs) => {
                Some([format!("{home}/{}.rs", m.ident), format!("{home}/{}/mod.rs", m.ident)])
            }
            _ => None,
        })
        .flatten()
        .collect()
}
