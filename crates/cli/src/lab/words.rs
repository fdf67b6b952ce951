//! What the words in tables and pictures mean: told where they appear.

/// A word that appears, and what is said then.
const WORDS: [(&str, &str); 9] = [
    ("Linux 0", "Linux: measured on Linux 6.1 by the host's clock, before"),
    (
        "Linux still",
        "Linux still: the same by a clock that stands still while the guest works, so without the noise of its one processor",
    ),
    ("Linux now", "Linux now: measured beside this run (--uml)"),
    (
        " full ",
        "full: of the whole experiment, whose warm-up and measured time are others than this run's: no figure to be compared with",
    ),
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
            let behind = &text[at + found.len()..];
            word == "Linux 0"
                && (behind.starts_with("full") || behind.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    // The name of who measured, not a word of a sentence.
    let full = ["Linux full", "Linux still full", "commit full"].iter().any(|who| text.contains(who));
    let appears = |word: &str| if word == " full " { full } else { text.contains(word) || figure(word) };
    WORDS.iter().filter(|(word, _)| appears(word)).map(|(_, means)| *means).collect()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn words_are_told_where_they_appear() {
        let told = |text: &str| {
            of(text)
                .iter()
                .filter_map(|means| means.split_once(':'))
                .map(|(word, _)| word)
                .collect::<Vec<_>>()
        };
        assert_eq!(told("6636\nLinux 6563"), ["Linux"]);
        assert_eq!(told("6636\nLinux full 6563\nLinux still full 6540"), ["Linux", "Linux still", "full"]);
        assert_eq!(told("a full queue"), Vec::<&str>::new());
    }
}
