//! Chores of the project, by name.
#![forbid(unsafe_code)]
fn main() {}
