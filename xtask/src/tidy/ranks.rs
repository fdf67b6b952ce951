//! The import rule of the core: a module imports only modules of a lower rank; equal ranks are strangers.
use super::Breach;
use super::source::{File, Tree};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, Macro, UseTree, Visibility};

/// Where the core lies.
const CORE: &str = "crates/core/src/";

/// Modules of the core by rank; a new module must be put here first.
const RANKS: &[(&str, u8)] = &[
    ("base", 0),
    ("packet", 1),
    ("timer", 1),
    ("ranges", 1),
    ("path", 2),
    ("credit", 2),
    ("offload", 2),
    ("tcp", 3),
    ("udp", 3),
    ("sctp", 3),
    ("ip", 3),
    ("qdisc", 3),
    ("device", 3),
    ("socket", 4),
    ("stack", 5),
];

fn rank(module: &str) -> Option<u8> {
    RANKS.iter().find(|(name, _)| *name == module).map(|(_, rank)| *rank)
}

/// Checks every file of the core.
pub(super) fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for file in tree.rust().filter(|f| f.path.starts_with(CORE)) {
        check_file(file, breaches);
    }
}

/// Checks one file of the core.
pub(super) fn check_file(file: &File, breaches: &mut Vec<Breach>) {
    let inside = module_path(&file.path);
    let Some(own) = inside.first().cloned() else { return }; // lib.rs sees all
    let Some(ast) = &file.ast else { return };
    let mut walk = Walk { own: &own, depth: inside.len(), file, breaches };
    match rank(&own) {
        Some(_) => walk.visit_file(ast),
        None => walk.report(1, format!("module `{own}` has no rank: give it one in xtask/src/tidy/ranks.rs")),
    }
}

/// Names of the modules from the crate's root to this file.
fn module_path(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches(CORE).trim_end_matches(".rs");
    let mut names: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

struct Walk<'a> {
    own: &'a str,
    /// How many `super` lead to the crate's root.
    depth: usize,
    file: &'a File,
    breaches: &'a mut Vec<Breach>,
}

impl Walk<'_> {
    fn report(&mut self, line: usize, what: String) {
        self.breaches.push(Breach { path: self.file.path.clone(), line, rule: "ranks", what });
    }

    /// Checks an import whose path, resolved from the root, begins with `module`.
    fn import(&mut self, line: usize, module: &str) {
        if module == self.own {
            return;
        }
        let (Some(own), Some(other)) = (rank(self.own), rank(module)) else { return };
        if other >= own {
            let own_name = self.own;
            self.report(
                line,
                format!(
                    "`{own_name}` (rank {own}) imports `{module}` (rank {other}): only lower ranks are known"
                ),
            );
        }
    }

    /// Follows a use tree; `above` counts how far below the root we are, `None` once outside of the crate.
    fn tree(&mut self, tree: &UseTree, above: Option<usize>) {
        match tree {
            UseTree::Path(p) => {
                let name = p.ident.to_string();
                match (name.as_str(), above) {
                    ("crate", _) => self.tree(&p.tree, Some(0)),
                    ("super", Some(n)) => self.tree(&p.tree, Some(n.saturating_sub(1))),
                    ("self", n) => self.tree(&p.tree, n),
                    (_, Some(0)) => self.import(p.ident.span().start().line, &name),
                    _ => {}
                }
            }
            UseTree::Name(n) if above == Some(0) => {
                self.import(n.ident.span().start().line, &n.ident.to_string());
            }
            UseTree::Rename(n) if above == Some(0) => {
                self.import(n.ident.span().start().line, &n.ident.to_string());
            }
            UseTree::Glob(g) if above == Some(0) => {
                self.report(g.span().start().line, "`use crate::*` hides what is imported".to_owned());
            }
            UseTree::Group(g) => {
                for item in &g.items {
                    self.tree(item, above);
                }
            }
            _ => {}
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        for (i, tree) in trees.iter().enumerate() {
            match tree {
                TokenTree::Group(g) => self.tokens(g.stream()),
                TokenTree::Ident(id) if id == "crate" => {
                    let next = trees.get(i + 1).map(ToString::to_string);
                    if next.as_deref() == Some(":") {
                        self.outside_use(id.span().start().line);
                    }
                }
                _ => {}
            }
        }
    }

    /// Tests may spell a path out; what they import is checked all the same.
    fn outside_use(&mut self, line: usize) {
        if self.file.is_test() {
            return;
        }
        self.report(line, "a `crate::` path outside of a `use` line: import it at the top".to_owned());
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let depth = self.depth;
        // A path that begins with neither crate nor super names another crate or a neighbour.
        self.tree(&item.tree, Some(depth.max(1)));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.segments[0].ident == "crate" {
            self.outside_use(path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.tokens(item.tokens.clone());
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
