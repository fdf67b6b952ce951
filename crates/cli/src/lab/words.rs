//! What the words in tables and pictures mean: told where they appear.

/// A word that appears, and what is said then.
const WORDS: [(&str, &str); 8] = [
    ("Linux 0", "Linux: measured on Linux 6.1 by the host's clock, before"),
    (
        "Linux still",
        "Linux still: the same by a clock that stands still while the guest works, so without the noise of its one processor",
    ),
    ("Linux now", "Linux now: measured beside this run (--uml)"),
    ("commit", "commit: what the message of the Linux commit reports that the experiment comes from"),
    ("wakes/", "wakes/MB: how often a writer was told that it may go on, per 10^6 bytes acknowledged"),
    (
        "-whole",
        "the half rule: a writer is woken when less than half of TCP_NOTSENT_LOWAT is unsent; variants -whole wake it below the whole limit",
    ),
    (
        "unsent",
        "unsent may be more than the limit: what is written is filled up to elements of up to 64 KiB, the last of which begins below the limit",
    ),
    ("KiB", "KiB: 1,024 bytes; MB and Mbit are decimal"),
];

/// Sentences about the words that `text` has.
pub(super) fn of(text: &str) -> Vec<&'static str> {
    // A figure of Linux's: any digit will do.
    let figure = |word: &str| {
        text.match_indices("Linux ").any(|(at, found)| {
            word == "Linux 0" && text[at + found.len()..].starts_with(|c: char| c.is_ascii_digit())
        })
    };
    WORDS.iter().filter(|(word, _)| text.contains(word) || figure(word)).map(|(_, means)| *means).collect()
}
