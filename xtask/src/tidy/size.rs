//! Walls: lines per file and function, arguments, fields of a struct; and the depth of nesting as a warning.
use super::Breach;
use super::source::{File, Tree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, FnArg, ItemMod, ItemStruct, Signature};

const FILE_LINES: usize = 800;
const FN_LINES: usize = 70;
const FN_ARGS: usize = 6;
const FIELDS: usize = 12;
const NESTING: usize = 4;
/// Structs that list what exists instead of grouping what belongs together, by the end of their names.
const LISTS: &[&str] = &[
    "Config", "Counters", "Counts", "Info", "Repr", "Sysctl", "Options", "Args", "Spec", "Report", "Params",
    "Sample", "Figures",
];

/// Checks all Rust files.
pub(super) fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for file in tree.rust().filter(|f| !f.is_test()) {
        check_file(file, breaches);
    }
}

/// Checks one file.
pub(super) fn check_file(file: &File, breaches: &mut Vec<Breach>) {
    let lines = production_lines(file);
    if lines > FILE_LINES {
        breaches.push(Breach {
            path: file.path.clone(),
            line: 0,
            rule: "file-lines",
            what: format!("{lines} production lines; the wall is {FILE_LINES}"),
        });
    }
    let mut walk = Walk { file, breaches, depth: 0, deepest: (0, 0) };
    if let Some(ast) = &file.ast {
        walk.visit_file(ast);
    }
}

/// The deepest place of each file that goes beyond the wall.
pub(super) fn deepest(tree: &Tree) -> Vec<(String, usize, usize)> {
    let mut out = Vec::new();
    for file in tree.rust().filter(|f| !f.is_test()) {
        let mut ignored = Vec::new();
        let mut walk = Walk { file, breaches: &mut ignored, depth: 0, deepest: (0, 0) };
        if let Some(ast) = &file.ast {
            walk.visit_file(ast);
        }
        let (line, depth) = walk.deepest;
        if depth > NESTING {
            out.push((file.path.clone(), line, depth));
        }
    }
    out
}

/// Lines without a trailing `#[cfg(test)] mod`.
fn production_lines(file: &File) -> usize {
    let all = file.text.lines().count();
    let tests: usize = file.ast.as_ref().map_or(0, |ast| {
        ast.items
            .iter()
            .filter_map(|item| match item {
                syn::Item::Mod(m) if is_test(&m.attrs) && m.content.is_some() => {
                    Some(m.span().end().line - m.span().start().line + 1)
                }
                _ => None,
            })
            .sum()
    });
    all - tests
}

/// True for `#[cfg(test)]` and `#[test]`.
pub(super) fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|a| {
        a.path().is_ident("test")
            || (a.path().is_ident("cfg")
                && a.meta.require_list().is_ok_and(|l| {
                    let words = l.tokens.to_string();
                    words == "test" || words.starts_with("all (test")
                }))
    })
}

/// True for `#[repr(C)]`: what the fields are was decided elsewhere.
fn has_layout_of_c(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|a| {
        a.path().is_ident("repr")
            && a.meta.require_list().is_ok_and(|l| l.tokens.to_string().starts_with('C'))
    })
}

struct Walk<'a> {
    file: &'a File,
    breaches: &'a mut Vec<Breach>,
    depth: usize,
    /// Line and depth.
    deepest: (usize, usize),
}

impl Walk<'_> {
    fn report(&mut self, line: usize, rule: &'static str, what: String) {
        self.breaches.push(Breach { path: self.file.path.clone(), line, rule, what });
    }

    fn function(&mut self, sig: &Signature, block: &Block) {
        let (first, last) = (sig.span().start().line, block.span().end().line);
        let name = &sig.ident;
        let lines = last - first + 1;
        if lines > FN_LINES {
            self.report(first, "fn-lines", format!("fn {name} has {lines} lines; the wall is {FN_LINES}"));
        }
        let args = sig.inputs.iter().filter(|a| matches!(a, FnArg::Typed(_))).count();
        // The signature of what C calls is C's.
        if args > FN_ARGS && sig.abi.is_none() {
            self.report(first, "fn-args", format!("fn {name} takes {args} arguments; the wall is {FN_ARGS}"));
        }
    }

    fn deeper(&mut self, line: usize, inner: impl FnOnce(&mut Self)) {
        self.depth += 1;
        if self.depth > self.deepest.1 {
            self.deepest = (line, self.depth);
        }
        inner(self);
        self.depth -= 1;
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        self.function(&item.sig, &item.block);
        let depth = std::mem::take(&mut self.depth);
        visit::visit_item_fn(self, item);
        self.depth = depth;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        self.function(&item.sig, &item.block);
        let depth = std::mem::take(&mut self.depth);
        visit::visit_impl_item_fn(self, item);
        self.depth = depth;
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let name = item.ident.to_string();
        let fields = item.fields.len();
        if fields > FIELDS && !LISTS.iter().any(|l| name.ends_with(l)) && !has_layout_of_c(&item.attrs) {
            let line = item.ident.span().start().line;
            self.report(line, "fields", format!("struct {name} has {fields} fields; the wall is {FIELDS}"));
        }
    }

    fn visit_expr(&mut self, e: &'ast Expr) {
        let line = e.span().start().line;
        match e {
            Expr::If(i) => {
                self.visit_expr(&i.cond);
                self.deeper(line, |w| w.visit_block(&i.then_branch));
                match i.else_branch.as_ref().map(|(_, b)| &**b) {
                    // A chain of `else if` is one level.
                    Some(chained @ Expr::If(_)) => self.visit_expr(chained),
                    Some(other) => self.deeper(line, |w| w.visit_expr(other)),
                    None => {}
                }
            }
            Expr::Match(_) | Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => {
                self.deeper(line, |w| visit::visit_expr(w, e));
            }
            _ => visit::visit_expr(self, e),
        }
    }
}
