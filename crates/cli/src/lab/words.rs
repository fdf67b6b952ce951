//! What the words in tables and pictures mean: told where they appear.

use super::catalog::Experiment;

/// What calls for a sentence.
enum Sign {
    /// This word.
    Word(&'static str),
    /// A figure of Linux's, by the host's clock.
    OfLinux,
}
use Sign::{OfLinux, Word};

/// Signs, and what is said where they appear.
const TOLD: [(Sign, &str); 10] = [
    (OfLinux, "Linux: measured on Linux 6.1 by the host's clock, before"),
    (
        Word("Linux still"),
        "Linux still: the same by a clock that stands still while the guest works, so without the noise of its one processor",
    ),
    (Word("Linux now"), "Linux now: measured beside this run (--uml)"),
    (Word("commit"), "commit: what the message of the Linux commit reports that the experiment comes from"),
    (
        Word("-whole"),
        "the half rule: a writer is woken when less than half of TCP_NOTSENT_LOWAT is unsent; variants -whole wake it below the whole limit",
    ),
    (
        Word("unsent"),
        "unsent may be more than the limit: what is written is filled up to elements of up to 64 KiB, the last of which begins below the limit",
    ),
    (
        Word("figures are out of bounds"),
        "out of bounds: further from Linux's figure than this project asks of itself; docs/lab-linux.md says why, of each figure of which that is known",
    ),
    (
        Word("by the host's clock alone: "),
        "by the host's clock alone: Linux's figure has in it what else its machine did; the same Linux by a still clock is as near as asked",
    ),
    (Word("wall s"), "wall s: seconds that the run took here"),
    (Word("KiB"), "KiB: 1,024 bytes; MB and Mbit are decimal"),
];

impl Sign {
    fn appears(&self, text: &str) -> bool {
        match self {
            Word(word) => text.contains(word),
            OfLinux => {
                text.split("Linux ").skip(1).any(|behind| behind.starts_with(|c: char| c.is_ascii_digit()))
            }
        }
    }
}

/// Sentences about the columns of an experiment, and about what else `text` has.
pub(super) fn below(experiment: &Experiment, text: &str) -> Vec<&'static str> {
    let columns = experiment.columns.iter().map(|column| column.means).filter(|means| !means.is_empty());
    columns.chain(of(text)).collect()
}

/// Sentences about what `text` has.
fn of(text: &str) -> Vec<&'static str> {
    TOLD.iter().filter(|(sign, _)| sign.appears(text)).map(|(_, means)| *means).collect()
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
        assert_eq!(told("6636\nLinux 6563\nLinux still 6540"), ["Linux", "Linux still"]);
        assert_eq!(told("a full queue"), Vec::<&str>::new());
    }
}
