//! The `lowwater` command.
#![forbid(unsafe_code)]
fn main() {}
