//! The part of Python that snippets of scripts use: assertions, assignments, print, if and for, over whole numbers and fractions.
//!
//! A snippet is parsed with the script, so a mistake in it is found before anything runs, and is carried out where it stands.
//! Bounds: nesting, steps, lengths of strings and lists ([`eval`]). There are no functions of one's own, no modules, no files.
mod eval;
mod parse;
mod token;
mod value;

pub(crate) use eval::{Env, Facts};
pub(crate) use parse::{Program, parse};

#[cfg(test)]
mod tests;
