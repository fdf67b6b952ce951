//! Disciplines by `tc`'s words: "fq maxrate 48mbit". A mistake is one sentence that names the place and what is allowed.
use super::{Any, Codel, Fifo, Fq, FqCodel, FqConfig, Mq, Netem, Noqueue, PfifoFast, Tbf, units};
use crate::base::near::nearest;
use crate::base::sysctl::QdiscKind;
use core::str::{FromStr, SplitAsciiWhitespace};

/// Disciplines inside of one another, at most.
const DEPTH_MAX: usize = 8;
/// Fewest bytes of a turn: a flow that has sent a super-packet has as many turns without one.
pub(super) const QUANTUM_MIN: u32 = 256;
/// What stands before the words of a discipline inside of another.
pub(super) const CHILD: &str = "child";

/// The names, as the sentence about a wrong one lists them.
const NAMES: &[&str] =
    &["noqueue", "pfifo", "bfifo", "pfifo_fast", "fq", "codel", "fq_codel", "tbf", "netem", "mq"];

impl FromStr for Any {
    type Err = String;

    /// Reads a discipline with its parameters as `tc qdisc add` has them after "root".
    ///
    /// # Errors
    /// One sentence that names the place and the allowed values.
    fn from_str(text: &str) -> Result<Self, String> {
        Words { text, words: text.split_ascii_whitespace(), option: "", depth: 0 }.discipline()
    }
}

impl From<QdiscKind> for Any {
    /// The discipline with all its defaults.
    fn from(kind: QdiscKind) -> Self {
        match kind {
            QdiscKind::PfifoFast => PfifoFast::default().into(),
            QdiscKind::Pfifo => Fifo::packets(0).into(),
            QdiscKind::Bfifo => Fifo::bytes(0).into(),
            QdiscKind::Fq => Fq::default().into(),
            QdiscKind::Codel => Codel::default().into(),
            QdiscKind::FqCodel => FqCodel::default().into(),
            QdiscKind::Netem => Netem::default().into(),
            QdiscKind::Noqueue => Noqueue::default().into(),
        }
    }
}

/// The words of one discipline.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    text: &'a str,
    words: SplitAsciiWhitespace<'a>,
    /// The option that is being read.
    option: &'a str,
    /// How many disciplines this one is inside of.
    depth: usize,
}

impl<'a> Words<'a> {
    /// Reads a discipline and all that is inside of it.
    fn discipline(&mut self) -> Result<Any, String> {
        let name = self.words.next().unwrap_or("");
        match name {
            "pfifo" => self.limit(Words::packets).map(|n| Fifo::packets(n).into()),
            "bfifo" => self.limit(Words::bytes).map(|n| Fifo::bytes(n).into()),
            "noqueue" => self.option(&[]).map(|_| Noqueue::default().into()),
            "pfifo_fast" => self.option(&[]).map(|_| PfifoFast::default().into()),
            "codel" => Codel::parse(self).map(Into::into),
            "fq_codel" => FqCodel::parse(self).map(Into::into),
            "tbf" => Tbf::parse(self).map(Into::into),
            "netem" => Netem::parse(self).map(Into::into),
            "mq" => Mq::parse(self).map(Into::into),
            "fq" => FqConfig::parse(self).map(|c| Fq::new(c).into()),
            _ => Err(self.unknown(&format!("there is none called {name:?}"), name, NAMES)),
        }
    }

    /// The discipline after the word [`CHILD`].
    pub(super) fn child(&mut self) -> Result<Any, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.mistake("too many are inside of one another", &format!("{DEPTH_MAX} at most")));
        }
        let child = self.discipline()?;
        if matches!(child, Any::Mq(_)) {
            return Err(self.mistake("mq stands before a device only", "child with any other"));
        }
        Ok(child)
    }

    fn mistake(&self, what: &str, allowed: &str) -> String {
        format!("queueing discipline {:?}: {what}; allowed: {allowed}", self.text.trim())
    }

    /// A word that is none of `names`, with the one that may have been meant.
    fn unknown(&self, what: &str, word: &str, names: &[&str]) -> String {
        let said = self.mistake(what, &names.join(", "));
        nearest(word, names).map_or(said.clone(), |near| format!("{said}; near it: {near}"))
    }

    /// The next word, which must be one of `names`; `None` at the end.
    pub(super) fn option(&mut self, names: &[&'static str]) -> Result<Option<&'static str>, String> {
        let Some(word) = self.words.next() else { return Ok(None) };
        self.option = word;
        match names.iter().find(|name| **name == word) {
            Some(name) => Ok(Some(name)),
            None if names.is_empty() => {
                Err(self.mistake(&format!("there is no option {word:?}"), "nothing more"))
            }
            None => Err(self.unknown(&format!("there is no option {word:?}"), word, names)),
        }
    }

    /// The option's value; `allowed` describes it.
    pub(super) fn value<T>(
        &mut self,
        read: impl FnOnce(&str) -> Option<T>,
        allowed: &str,
    ) -> Result<T, String> {
        let Some(word) = self.words.next() else {
            return Err(self.mistake(&format!("{} lacks its value", self.option), allowed));
        };
        read(word).ok_or_else(|| self.mistake(&format!("{} cannot be {word:?}", self.option), allowed))
    }

    /// The word after this one, where it begins a value of `read`.
    pub(super) fn maybe<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = read(self.words.clone().next()?)?;
        self.words.next();
        Some(value)
    }

    /// An option of its own that the discipline cannot do without.
    pub(super) fn lacks(&self, option: &str, allowed: &str) -> String {
        self.mistake(&format!("it needs {option}"), allowed)
    }

    /// The option that is being read has had its value, by the same name or by `other`, which says how they are related.
    pub(super) fn twice(&self, other: Option<&str>, allowed: &str) -> String {
        match other {
            Some(related) => self.mistake(&format!("{} {related}", self.option), allowed),
            None => self.mistake(&format!("{} is said twice", self.option), allowed),
        }
    }

    pub(super) fn packets(&mut self) -> Result<u32, String> {
        let read = |w: &str| w.strip_suffix('p').unwrap_or(w).parse().ok().filter(|&n| n > 0);
        self.value(read, "1 to 4294967295 packets")
    }

    pub(super) fn bytes(&mut self) -> Result<u32, String> {
        self.bytes_from(1)
    }

    pub(super) fn bytes_from(&mut self, least: u32) -> Result<u32, String> {
        let read = |w: &str| units::size(w).and_then(|n| u32::try_from(n).ok()).filter(|&n| n >= least);
        self.value(read, &format!("{least} to 4294967295 bytes, as 3028, 32kb or 1mb"))
    }

    /// Bytes of a flow's turn (`quantum`), as Linux bounds them; fewer than [`QUANTUM_MIN`] are taken for so many.
    pub(super) fn quantum(&mut self) -> Result<u32, String> {
        let read = |w: &str| units::size(w).and_then(|n| u32::try_from(n).ok());
        let bytes = self.value(
            |w| read(w).filter(|n| (1..=1 << 20).contains(n)),
            "1 to 1048576 bytes, as 3028 or 32kb",
        )?;
        Ok(bytes.max(QUANTUM_MIN))
    }

    pub(super) fn count(&mut self, least: u32, most: u32) -> Result<u32, String> {
        let read = |w: &str| w.parse().ok().filter(|n| (least..=most).contains(n));
        self.value(read, &format!("{least} to {most}"))
    }

    pub(super) fn rate(&mut self) -> Result<u64, String> {
        self.value(|w| units::rate(w).filter(|&r| r > 0), RATES)
    }

    /// A rate, or 0 for none.
    pub(super) fn rate_or_zero(&mut self) -> Result<u64, String> {
        self.value(units::rate, RATES)
    }

    pub(super) fn time(&mut self) -> Result<u64, String> {
        self.value(units::time, TIMES)
    }

    pub(super) fn time_above_zero(&mut self) -> Result<u64, String> {
        self.value(|w| units::time(w).filter(|&t| t > 0), TIMES)
    }

    /// Nothing, or "limit" with a value.
    fn limit(&mut self, read: impl FnOnce(&mut Self) -> Result<u32, String>) -> Result<u32, String> {
        let limit = match self.option(&["limit"])? {
            Some(_) => read(self)?,
            None => 0,
        };
        self.option(&[]).map(|_| limit)
    }
}

pub(super) const RATES: &str = "a rate of 8bit and more, as 48mbit, 1.5gbit or 6mbps (bytes)";
pub(super) const TIMES: &str = "a time, as 5ms, 100us, 1s or 20 (us)";

#[cfg(test)]
mod tests {
    use super::super::Qdisc as _;
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<Any>().map(|q| format!("{q:?}")).expect_err(text)
    }

    /// Words, what the sentence says of the place, and the beginning of what it allows.
    const MISTAKES: &[(&str, &str, &str)] = &[
        ("", "there is none called \"\"", "noqueue, pfifo,"),
        ("fifo", "there is none called \"fifo\"", "noqueue, pfifo,"),
        ("FQ", "there is none called \"FQ\"", "noqueue, pfifo,"),
        ("noqueue limit 5", "there is no option \"limit\"", "nothing more"),
        ("pfifo_fast limit 5", "there is no option \"limit\"", "nothing more"),
        ("pfifo limit", "limit lacks its value", "1 to 4294967295 packets"),
        ("pfifo limit 0", "limit cannot be \"0\"", "1 to 4294967295 packets"),
        ("pfifo limit -1", "limit cannot be \"-1\"", "1 to 4294967295 packets"),
        ("pfifo limit 4294967296", "limit cannot be \"4294967296\"", "1 to 4294967295 packets"),
        ("pfifo limit 5 limit 6", "there is no option \"limit\"", "nothing more"),
        ("bfifo limit 9gb", "limit cannot be \"9gb\"", "1 to 4294967295 bytes"),
        ("bfifo limit 1x", "limit cannot be \"1x\"", "1 to 4294967295 bytes"),
        ("mq queues 0", "queues cannot be \"0\"", "1 to 256"),
        ("mq queues 257", "queues cannot be \"257\"", "1 to 256"),
        ("fq maxrat 1mbit", "there is no option \"maxrat\"", "limit, flow_limit, quantum,"),
        ("fq maxrate 0", "maxrate cannot be \"0\"", RATES),
        ("fq maxrate 0mbit", "maxrate cannot be \"0mbit\"", RATES),
        ("fq maxrate 7", "maxrate cannot be \"7\"", RATES),
        ("fq maxrate fast", "maxrate cannot be \"fast\"", RATES),
        ("fq maxrate -1mbit", "maxrate cannot be \"-1mbit\"", RATES),
        ("fq low_rate_threshold -1", "low_rate_threshold cannot be \"-1\"", RATES),
        ("fq quantum 0", "quantum cannot be \"0\"", "1 to 1048576 bytes"),
        ("fq quantum 2mb", "quantum cannot be \"2mb\"", "1 to 1048576 bytes"),
        ("fq initial_quantum 5gb", "initial_quantum cannot be \"5gb\"", "0 to 4294967295 bytes"),
        ("fq flow_limit 0", "flow_limit cannot be \"0\"", "1 to 4294967295 packets"),
        ("fq orphan_mask 99999999", "orphan_mask cannot be \"99999999\"", "0 to 16777215"),
        ("fq buckets 0", "buckets cannot be \"0\"", "1 to 262144"),
        ("fq horizon 1h", "horizon cannot be \"1h\"", TIMES),
        ("fq refill_delay", "refill_delay lacks its value", TIMES),
        ("fq pacing yes", "there is no option \"yes\"", "limit, flow_limit,"),
        ("codel interval 0", "interval cannot be \"0\"", TIMES),
        ("codel target 5 ms", "there is no option \"ms\"", "limit, target,"),
        ("codel quantum 5", "there is no option \"quantum\"", "limit, target,"),
        ("fq_codel flows 0", "flows cannot be \"0\"", "1 to 65536"),
        ("fq_codel flows 65537", "flows cannot be \"65537\"", "1 to 65536"),
        ("fq_codel memory_limit 0", "memory_limit cannot be \"0\"", "1 to 4294967295 bytes"),
        (
            "fq_codel ce_threshold_selector 1",
            "ce_threshold_selector cannot be \"1\"",
            "VALUE/MASK of the type of service",
        ),
        ("fq_codel ce_threshold_selector 1/256", "ce_threshold_selector cannot be \"1/256\"", "VALUE/MASK"),
        ("codel ce_threshold_selector 1/1", "there is no option \"ce_threshold_selector\"", "limit, target,"),
        ("fq_codel drop_batch 0", "drop_batch cannot be \"0\"", "1 to 4294967295"),
        ("tbf", "it needs rate", RATES),
        ("tbf rate 0 burst 5kb limit 5kb", "rate cannot be \"0\"", RATES),
        ("tbf rate 1mbit limit 5kb", "it needs burst", "bytes, as 32kb"),
        ("tbf rate 1mbit burst 0 limit 5kb", "burst cannot be \"0\"", "1 to 4294967295 bytes"),
        ("tbf rate 1mbit burst 5kb", "it needs limit, latency or child", "bytes, as 32kb;"),
        ("tbf rate 1mbit rate 2mbit burst 5kb limit 5kb", "rate is said twice", "one of each"),
        ("tbf rate 1mbit burst 5kb burst 5kb limit 5kb", "burst is said twice", "one of each"),
        ("tbf rate 1mbit burst 5kb buffer 5kb limit 5kb", "buffer is burst once more", "one of each"),
        (
            "tbf rate 1mbit burst 5kb limit 5kb latency 5ms",
            "latency excludes limit",
            "one of each, and limit or latency",
        ),
        ("tbf rate 1mbit burst 5kb latency 0", "latency cannot be \"0\"", TIMES),
        (
            "tbf rate 1mbit burst 5kb limit 5kb peakrate 2mbit",
            "it needs mtu beside peakrate",
            "bytes, as 1540",
        ),
        (
            "tbf rate 1mbit burst 5kb limit 5kb peakrate 1mbit mtu 1540",
            "it needs a peakrate above its rate",
            RATES,
        ),
        ("tbf rate 1mbit burst 5kb child", "there is none called \"\"", "noqueue, pfifo,"),
        ("tbf rate 1mbit burst 5kb child mq", "mq stands before a device only", "child with any other"),
        ("tbf rate 1mbit burst 5kb child fq maxrate 0", "maxrate cannot be \"0\"", RATES),
        ("netem loss 120%", "loss cannot be \"120%\"", "0% to 100%"),
        ("netem loss gemodel", "loss lacks its value", "0% to 100%"),
        ("netem delay 5ms gap 5", "it needs reorder beside gap", "0% to 100%"),
        ("netem reorder 5%", "it needs delay beside reorder", TIMES),
        ("netem delay", "delay lacks its value", TIMES),
        ("netem delay soon", "delay cannot be \"soon\"", TIMES),
        ("netem distribution foo", "distribution cannot be \"foo\"", "uniform, normal, pareto"),
        ("netem distribution normal", "it needs delay with jitter beside distribution", TIMES),
        ("netem rate 0", "rate cannot be \"0\"", RATES),
        ("netem limit 0", "limit cannot be \"0\"", "1 to 4294967295 packets"),
        ("netem slot 1ms packets 0", "slot cannot be \"0\"", "1 to 4294967295"),
        ("netem child netem child foo", "there is none called \"foo\"", "noqueue, pfifo,"),
    ];

    #[test]
    fn a_mistake_is_one_sentence_that_names_the_place_and_what_is_allowed() {
        for &(text, place, allowed) in MISTAKES {
            let said = refused(text);
            let begins = format!("queueing discipline {text:?}: {place}; allowed: {allowed}");
            assert!(said.starts_with(&begins) && !said.contains('\n'), "{said}\n{begins}");
        }
        for (text, near) in [
            ("fq_code", "fq_codel"),
            ("fq maxrat 1mbit", "maxrate"),
            ("tbf rate 1mbit burst 5kb child fifo", "pfifo"),
        ] {
            assert!(refused(text).ends_with(&format!("; near it: {near}")), "{}", refused(text));
        }
        assert!(refused("cake").ends_with(", mq"));
        let deep = "netem child ".repeat(1_000);
        assert!(refused(&deep).ends_with("too many are inside of one another; allowed: 8 at most"));
    }

    /// What takes no value.
    const FLAGS: [&str; 6] = ["ecn", "noecn", "pacing", "nopacing", "horizon_drop", "horizon_cap"];

    /// Also for what nobody has written into the table above.
    #[test]
    fn every_option_of_every_discipline_refuses_what_is_no_value_of_it() {
        let mut options = 0;
        for name in NAMES {
            let listed = refused(&format!("{name} nosuchoption"));
            let (_, listed) = listed.split_once("; allowed: ").expect("a list");
            for option in listed.split(", ").filter(|o| *o != "nothing more") {
                let flag = FLAGS.contains(&option);
                let place = |what: &str| {
                    if flag { "there is no option \"".into() } else { format!("{option} {what}") }
                };
                let mut wrong = vec!["nonsense", "-1", "1e3", "0x"];
                // Some are numbers without a zero, or without so large a one; all have an end.
                wrong.push("99999999999999999999999");
                for value in wrong {
                    // A discipline inside has no value but a name.
                    let place =
                        if option == CHILD { "there is none called".into() } else { place("cannot be ") };
                    let said = refused(&format!("{name} {option} {value}"));
                    let told = said.contains(&place) && said.contains(value) && said.contains("; allowed: ");
                    assert!(told && !said.contains('\n'), "{said}");
                }
                if !flag && option != CHILD {
                    let said = refused(&format!("{name} {option}"));
                    assert!(
                        said.contains(&place("lacks its value")) && said.contains("; allowed: "),
                        "{said}"
                    );
                }
                options += 1;
            }
        }
        assert!(options >= 60, "{options}");
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in [
            "pfifo limit 7p",
            "bfifo limit 1500b",
            "fq maxrate 48mbit horizon_cap nopacing ce_threshold 1ms quantum 1514 limit 5000",
            "fq quantum 3000 initial_quantum 0 low_rate_threshold 0 buckets 512",
            "fq_codel quantum 3000 ce_threshold 1ms ce_threshold_selector 0x1/0x3",
        ] {
            let shown = |q: &Any| {
                let report = q.report();
                let words: Vec<String> = report.options.iter().map(ToString::to_string).collect();
                format!("{} {}", report.kind, words.join(" "))
            };
            let once = shown(&text.parse::<Any>().expect(text));
            assert_eq!(shown(&once.parse::<Any>().expect(&once)), once);
        }
    }
}
