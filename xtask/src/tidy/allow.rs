//! Breaches that are known and tolerated for now; this list only shrinks.
use super::Breach;

/// Rule and file. A file that no longer breaks its rule leaves the list: tidy says so.
const LIST: &[(&str, &str)] = &[];

/// Splits into tolerated and refused.
pub(super) fn sort(breaches: Vec<Breach>) -> (Vec<Breach>, Vec<Breach>) {
    breaches.into_iter().partition(|b| LIST.contains(&(b.rule, b.path.as_str())))
}

/// Entries of the list that nothing needs any more.
pub(super) fn stale(allowed: &[Breach]) -> Vec<(&'static str, &'static str)> {
    LIST.iter()
        .filter(|(rule, path)| !allowed.iter().any(|b| b.rule == *rule && b.path == *path))
        .copied()
        .collect()
}
