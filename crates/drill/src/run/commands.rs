//! Shell commands in scripts: settings are carried out on the stack's, files of settings are read, everything else is refused.
use super::Runner;
use crate::failure::Failure;
use crate::parse::lines_of;
use lowwater_core::base::Sysctl;

/// Files of commands that may call one another.
const NESTED_MAX: usize = 4;
/// Commands that scripts have and that nothing here can do, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("ip", "routes and addresses are those of --local_ip, --remote_ip and --mtu"),
    ("ifconfig", "addresses are those of --local_ip and --remote_ip"),
    ("ethtool", "what the device can do is set by --mtu, --gso and --device_queue"),
    ("nstat", "the kernel's counters are not there; `lowwater serve` and the crate show the stack's"),
    ("ss", "sockets are seen through %{ }%"),
    ("iptables", "there is no firewall; leave the packet out instead"),
    ("nft", "there is no firewall; leave the packet out instead"),
    ("sleep", "time passes by the times of events only"),
    ("modprobe", "there are no modules; what the stack has is built in"),
    ("python", "only %{ }% snippets run"),
    ("python3", "only %{ }% snippets run"),
];

impl Runner<'_> {
    pub(super) fn commands(&mut self, lines: &[(usize, String)]) -> Result<(), Box<Failure>> {
        for (line, text) in lines {
            self.command(text, 0).map_err(|what| Failure::new(*line, what))?;
        }
        Ok(())
    }

    fn command(&mut self, text: &str, nested: usize) -> Result<(), String> {
        let words = words(text)?;
        let Some((first, rest)) = words.split_first() else { return Ok(()) };
        match first.as_str() {
            "sysctl" | "/sbin/sysctl" => self.sysctls(rest),
            "echo" => self.echo(rest),
            "tc" => self.tc(rest),
            "true" | ":" | "set" | "exit" => Ok(()),
            "sh" | "bash" | "." | "source" => match rest {
                [file] => self.file(file, nested),
                _ => Err(format!("'{text}': only a file of commands can be run here")),
            },
            name if name.contains('/')
                || std::path::Path::new(name).extension().is_some_and(|e| e == "sh") =>
            {
                self.file(name, nested)
            }
            name => {
                let why = REFUSED.iter().find(|(n, _)| *n == name).map_or(
                    "only sysctl, echo into /proc/sys, tc qdisc replace, and files of these work here",
                    |(_, why)| *why,
                );
                Err(format!("`{text}` cannot be had: {why}"))
            }
        }
    }

    /// `-q`, `-w` and `-e` change nothing here; the rest is NAME=VALUE.
    fn sysctls(&mut self, words: &[String]) -> Result<(), String> {
        let mut pairs = 0;
        for word in words.iter().filter(|w| !matches!(w.as_str(), "-q" | "-w" | "-e" | "-qw" | "-wq")) {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is no NAME=VALUE"))?;
            self.set(name, value)?;
            pairs += 1;
        }
        if pairs == 0 { Err("sysctl needs NAME=VALUE".to_owned()) } else { Ok(()) }
    }

    /// `tc qdisc replace dev DEVICE root WORDS`: the one device of the script has that discipline from now on.
    fn tc(&mut self, words: &[String]) -> Result<(), String> {
        match words {
            [qdisc, verb, dev, _, root, discipline @ ..]
                if qdisc == "qdisc"
                    && ["add", "replace", "change"].contains(&verb.as_str())
                    && (dev.as_str(), root.as_str()) == ("dev", "root") =>
            {
                self.host.set_qdisc(&discipline.join(" "))
            }
            _ => {
                Err("of tc only 'tc qdisc replace dev DEVICE root DISCIPLINE ...' can be had here".to_owned())
            }
        }
    }

    /// `echo VALUE > /proc/sys/net/ipv4/NAME`.
    fn echo(&mut self, words: &[String]) -> Result<(), String> {
        let arrow = words.iter().position(|w| w == ">" || w.starts_with(">/"));
        let target = arrow.and_then(|at| match words[at].strip_prefix('>') {
            Some("") => words.get(at + 1).map(String::as_str),
            path => path,
        });
        let name = target.and_then(|t| t.strip_prefix("/proc/sys/"));
        match (arrow, name) {
            (Some(at), Some(name)) => {
                let value = words[..at].iter().filter(|w| *w != "-n").cloned().collect::<Vec<_>>().join(" ");
                self.set(name, &value)
            }
            _ => Err("echo works into /proc/sys/net/... only".to_owned()),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let name = name.trim().replace('/', ".");
        let value = value.trim();
        let short = name.trim_start_matches("net.ipv4.").trim_start_matches("net.core.");
        let short = short.trim_start_matches("net.lowwater.");
        if Sysctl::NAMES.iter().any(|(known, _)| *known == short) {
            return self.host.set_sysctl(&name, value);
        }
        let near = Sysctl::near(short).join(", ");
        Err(format!("the stack has no setting '{name}'; near it are {near} (docs/sysctl.md lists all)"))
    }

    /// A file of commands, looked for from the folder of the script.
    fn file(&mut self, name: &str, nested: usize) -> Result<(), String> {
        if nested == NESTED_MAX {
            return Err(format!("{name}: files of commands call one another too deeply"));
        }
        let path = self.folder.join(name);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        for (line, command) in lines_of(&text, 1) {
            self.command(&command, nested + 1)
                .map_err(|what| format!("{}:{line}: {what}", path.display()))?;
        }
        Ok(())
    }
}

/// Words of a command; quotation marks hold blanks together.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' => {
                let held = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some(inner) if inner == c => break,
                        Some(inner) => held.push(inner),
                        None => return Err(format!("'{text}': a quotation that does not end")),
                    }
                }
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_blanks_outside_of_quotations() {
        let cut = words("sysctl -q  net.ipv4.tcp_rmem=\"4096 1 2\" 'a b'c").expect("words");
        assert_eq!(cut, ["sysctl", "-q", "net.ipv4.tcp_rmem=4096 1 2", "a bc"]);
        assert!(words("echo \"x").is_err());
    }
}
