//! Names that a wrong one may have been meant for.

/// Letters of a word that count.
const LETTERS_MAX: usize = 100;

/// How many letters must be added, taken away or changed to make one of the other (Levenshtein).
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().take(LETTERS_MAX).enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The nearest of `names`, where one letter in four, or one of a short word, is all that differs.
#[must_use]
pub fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let far = (word.chars().take(LETTERS_MAX).count() / 4).max(1);
    let near = names.iter().map(|name| (distance(&word, name), *name)).filter(|(d, _)| *d <= far);
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_close_is_near() {
        let names = ["pfifo", "fq", "fq_codel", "tbf"];
        for (word, wanted) in [
            ("fq_code", Some("fq_codel")),
            ("FQ", Some("fq")),
            ("pfifoo", Some("pfifo")),
            ("foo", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &names), wanted, "{word}");
        }
    }
}
