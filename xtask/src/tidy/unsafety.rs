//! `unsafe` lives in the homes that the system calls and the C interfaces have, and nowhere else.
use super::Breach;
use super::source::{File, Tree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// Where it may be.
const HOMES: &[&str] = &["crates/os/src/sys/", "crates/drill/packetdrill/src/ffi/"];

/// Checks all Rust files.
pub(super) fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for file in tree.rust().filter(|f| !HOMES.iter().any(|home| f.path.starts_with(home))) {
        for line in uses(file) {
            breaches.push(Breach {
                path: file.path.clone(),
                line,
                rule: "unsafe",
                what: format!("`unsafe` belongs under {}", HOMES.join(" or ")),
            });
        }
    }
}

/// Lines with an unsafe block, function, trait, implementation or attribute.
pub(crate) fn uses(file: &File) -> Vec<usize> {
    let mut walk = Walk { lines: Vec::new() };
    if let Some(ast) = &file.ast {
        walk.visit_file(ast);
    }
    walk.lines
}

struct Walk {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_expr_unsafe(&mut self, e: &'ast syn::ExprUnsafe) {
        self.lines.push(e.span().start().line);
        visit::visit_expr_unsafe(self, e);
    }

    fn visit_signature(&mut self, s: &'ast syn::Signature) {
        if let Some(token) = &s.unsafety {
            self.lines.push(token.span.start().line);
        }
        visit::visit_signature(self, s);
    }

    fn visit_item_impl(&mut self, i: &'ast syn::ItemImpl) {
        if let Some(token) = &i.unsafety {
            self.lines.push(token.span.start().line);
        }
        visit::visit_item_impl(self, i);
    }

    fn visit_item_trait(&mut self, t: &'ast syn::ItemTrait) {
        if let Some(token) = &t.unsafety {
            self.lines.push(token.span.start().line);
        }
        visit::visit_item_trait(self, t);
    }

    fn visit_item_foreign_mod(&mut self, m: &'ast syn::ItemForeignMod) {
        self.lines.push(m.span().start().line);
        visit::visit_item_foreign_mod(self, m);
    }

    fn visit_attribute(&mut self, a: &'ast syn::Attribute) {
        if a.path().is_ident("unsafe") {
            self.lines.push(a.span().start().line);
        }
    }
}
