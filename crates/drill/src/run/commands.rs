//! Shell commands in scripts: settings are carried out on the stack's, files of settings are read, what has no effect here is passed over,
//! everything else is refused.
use super::stack::DEVICE;
use super::{Runner, at, counted};
use crate::failure::Failure;
use crate::nstat::Nstat;
use crate::shell::{Shell, commands_of};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;
use std::path::Path;

/// Files of commands that may call one another.
const NESTED_MAX: usize = 4;
/// Seconds that a script may sleep.
const SLEEP_MAX: f64 = 1e6;
/// Where programs are called from by their whole path.
const PROGRAMS: [&str; 4] = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"];
/// The file that packetdrill's own scripts set many settings by, and the beginning of the name of the one that it leaves to take them back.
const SET_SYSCTLS: &str = "set_sysctls.py";
const RESTORE: &str = "sysctl_restore";
/// Words of `ip route` that say which way, each with a value; there is one here.
const WAY: [&str; 6] = ["via", "dev", "src", "metric", "proto", "scope"];
/// Commands that scripts have and that nothing here can do, with the reason.
const REFUSED: &[(&str, &str)] = &[
    (
        "ip",
        "addresses and links are those of --local_ip, --remote_ip and --mtu; there is `ip route add`, `replace` and `del`, and `ip link set dev tun0 mtu N`",
    ),
    ("ifconfig", "addresses are those of --local_ip and --remote_ip"),
    ("ethtool", "what the device can do is set by --mtu, --gso and --device_queue"),
    ("ss", "sockets are seen through %{ }%"),
    ("iptables", "there is no firewall; leave the packet out instead"),
    ("nft", "there is no firewall; leave the packet out instead"),
    ("modprobe", "there are no modules; what the stack has is built in"),
    ("python", "only %{ }% snippets run"),
    ("python3", "only %{ }% snippets run"),
    ("for", LANGUAGE),
    ("while", LANGUAGE),
    ("until", LANGUAGE),
    ("if", LANGUAGE),
    ("case", LANGUAGE),
];
const LANGUAGE: &str = "the shell's loops and conditions do not run here";
/// Settings of Linux that change nothing of what a script sees here, whole or up to a point or an underscore: what is remembered of
/// destinations and of listeners that move, other protocols, the machine's own queues, heuristics that are off or that later kernels lack.
const WITHOUT_EFFECT: &[&str] = &[
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_no_ssthresh_metrics_save",
    "net.ipv4.tcp_low_latency",
    "net.ipv4.tcp_fack",
    "net.ipv4.tcp_thin_dupack",
    "net.ipv4.tcp_workaround_signed_windows",
    "net.ipv4.tcp_plb_",
    "net.ipv4.tcp_backlog_ack_defer",
    "net.ipv4.tcp_comp_sack_slack_ns",
    "net.ipv4.tcp_comp_sack_rtt_percent",
    "net.ipv4.tcp_rcvbuf_low_rtt",
    "net.ipv4.tcp_ecn_option",
    "net.ipv4.tcp_ecn_option_beacon",
    "net.ipv4.tcp_migrate_req",
    "net.ipv4.tcp_fwmark_accept",
    "net.ipv4.tcp_available_",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_child_ehash_entries",
    "net.ipv4.tcp_early_demux",
    "net.ipv4.tcp_l3mdev_accept",
    "net.ipv4.udp_",
    "net.ipv4.cipso_",
    "net.ipv4.icmp_echo_enable_probe",
    "net.ipv4.icmp_echo_ignore_broadcasts",
    "net.ipv4.icmp_errors_",
    "net.ipv4.icmp_ignore_bogus_error_responses",
    "net.ipv4.ip_dynaddr",
    "net.ipv4.ip_early_demux",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_forward_",
    "net.ipv4.ipfrag_low_thresh",
    "net.ipv4.ipfrag_max_dist",
    "net.ipv4.ipfrag_secret_interval",
    "net.ipv4.nexthop_compat_mode",
    "net.ipv4.raw_l3mdev_accept",
    "net.ipv4.xfrm4_gc_thresh",
    "net.ipv4.ping_group_range",
    "net.ipv4.fib_",
    "net.ipv4.igmp_",
    "net.ipv4.inet_peer_",
    "net.ipv4.route.",
    "net.ipv4.conf.",
    "net.ipv4.neigh.",
    "net.core.optmem_max",
    "net.core.netdev_",
    "net.core.bpf_",
    "net.core.busy_",
    "net.core.dev_weight",
    "net.core.dev_weight_",
    "net.core.devconf_inherit_init_net",
    "net.core.fb_tunnels_only_for_init_net",
    "net.core.high_order_alloc_disable",
    "net.core.mem_pcpu_rsv",
    // In halves, as below: Linux's word is not ours.
    concat!("net.core.s", "kb_defer_max"),
    "net.core.tstamp_allow_data",
    "net.core.warnings",
    "net.core.xfrm_",
    "net.core.flow_limit_",
    "net.core.gro_normal_batch",
    "net.core.message_",
    "net.core.rps_",
    "net.core.txrehash",
    "net.ipv6.",
    "net.mptcp.",
    "net.sctp.addr_scope_policy",
    "net.sctp.cookie_hmac_alg",
    "net.sctp.max_autoclose",
    "net.sctp.pf_expose",
    "net.sctp.ps_retrans",
    "net.sctp.rcvbuf_policy",
    "net.sctp.sndbuf_policy",
];
/// Settings of which the stack has one value: that is what a script may ask for.
const FIXED: &[(&str, &str)] = &[
    (concat!("net.core.max_s", "kb_frags"), "17"),
    ("net.ipv4.fwmark_reflect", "0"),
    ("net.ipv4.icmp_echo_ignore_all", "0"),
    ("net.ipv4.ip_autobind_reuse", "0"),
    ("net.ipv4.ip_nonlocal_bind", "0"),
    ("net.ipv4.ip_unprivileged_port_start", "1024"),
    ("net.sctp.addip_enable", "0"),
    ("net.sctp.addip_noauth_enable", "0"),
    ("net.sctp.auth_enable", "0"),
    ("net.sctp.default_auto_asconf", "0"),
    ("net.sctp.intl_enable", "0"),
    ("net.sctp.l3mdev_accept", "0"),
];

/// What commands leave behind.
#[derive(Debug, Default)]
pub(super) struct Commands {
    /// Something but a command has happened: time passes.
    pub(super) begun: bool,
    /// A discipline was put in front of the device.
    root: bool,
    /// Files that call one another just now.
    nested: usize,
    /// Settings of which it was said that they have no effect.
    said: BTreeSet<String>,
    /// What `nstat` remembers.
    pub(super) nstat: Nstat,
}

/// Whether the commands behind one are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    On,
    /// The file is over.
    Return,
    /// The shell is over, with all files that it has read by `.`.
    Exit,
}

impl Runner<'_> {
    pub(super) fn commands(&mut self, commands: &[Shell]) -> Result<(), Box<Failure>> {
        for command in commands {
            let then = match self.command(command.line, command) {
                Err(what) if command.may_fail && !command.background => {
                    self.notes.push(format!(
                        "line {}: `{}` failed, as it may: {what}",
                        command.line,
                        command.text()
                    ));
                    Ok(Then::On)
                }
                then => then,
            };
            if then.map_err(|what| Failure::new(command.line, what))? != Then::On {
                break;
            }
        }
        Ok(())
    }

    fn command(&mut self, line: usize, shell: &Shell) -> Result<Then, String> {
        let Some((first, rest)) = shell.words.split_first() else { return Ok(Then::On) };
        let path = Path::new(first);
        let file = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        if file.starts_with(RESTORE) && !self.folder.join(first).exists() {
            return Ok(Then::On);
        }
        let name = program(first);
        let refuse = |why: &str| Err(format!("`{}` cannot be had: {why}", shell.text()));
        let last = ["exit", "return"].contains(&name);
        // `$?` is 0: whatever else it could be has failed before.
        if shell.variable && !(last && rest == ["$?"]) {
            return refuse("there are no variables here");
        }
        let known = REFUSED.iter().find(|(n, _)| *n == name).map(|(_, why)| *why);
        if shell.background {
            return refuse("nothing runs in the background here");
        }
        if counted::asked(shell).is_some() {
            return self.counted(line, shell).map(|()| Then::On);
        }
        // What is refused by itself has the better reason, and so has echo.
        if shell.is_piped() && name != "echo" {
            let known = known.filter(|_| name != "ip" || !rest.iter().any(|word| word == "route"));
            return refuse(known.unwrap_or("what another command makes of its output is not known here"));
        }
        if last {
            return end(name, rest);
        }
        match name {
            "sysctl" => self.sysctls(line, rest).map(|()| Then::On),
            "echo" => self.echo(line, rest, shell).map(|()| Then::On),
            "tc" => self.tc(rest).map(|()| Then::On),
            "sleep" => self.sleep(line, rest).map(|()| Then::On),
            "true" | ":" | "set" => Ok(Then::On),
            // What the stack has is built in.
            "modprobe" if rest.iter().all(|word| word.starts_with('-') || word == "sctp") => Ok(Then::On),
            // What it prints nobody reads.
            "ss" if shell.is_silent() => Ok(Then::On),
            // What it writes is for whoever looks for what went wrong: the script does not change by it.
            "ss" => {
                let (file, why) = (shell.into.as_deref().unwrap_or_default(), known.unwrap_or_default());
                self.notes.push(format!("line {line}: `{}` writes nothing into {file}: {why}", shell.text()));
                Ok(Then::On)
            }
            "ip" if rest.iter().any(|w| w == "tcp_metrics") && rest.iter().any(|w| w == "flush") => {
                if self.shell.begun { self.host.forget_servers().map(|()| Then::On) } else { Ok(Then::On) }
            }
            "ip" if rest.iter().any(|w| w == "route") => self.route(line, rest).map(|()| Then::On),
            "ip" if rest.first().is_some_and(|w| w == "link") && rest.iter().any(|w| w == "mtu") => {
                self.link(rest).map(|()| Then::On)
            }
            // The device of a script has no offloads.
            "ethtool" if is_off(rest) && self.config.device.gso == 0 => Ok(Then::On),
            "." | "source" if rest.first().is_some_and(|f| f.contains('/')) => {
                let then = self.file(line, &rest[0], &rest[1..])?;
                Ok(if then == Then::Exit { then } else { Then::On })
            }
            "sh" | "bash" | "python" | "python3" if rest.first().is_some_and(|f| f.contains('/')) => {
                self.file(line, &rest[0], &rest[1..]).map(|_| Then::On)
            }
            name if name.contains('/') || path.extension().is_some_and(|e| e == "sh" || e == "py") => {
                self.file(line, name, rest).map(|_| Then::On)
            }
            "sh" | "bash" | "." | "source" => refuse("only a file of commands can be run here"),
            _ => refuse(known.unwrap_or(
                "only sysctl, echo into /proc/sys, tc qdisc replace, and files of these work here",
            )),
        }
    }

    /// NAME=VALUE; a name alone prints its value, which nobody reads. With -e a name that does not exist is no error.
    fn sysctls(&mut self, line: usize, words: &[String]) -> Result<(), String> {
        let is_flag = |word: &&String| word.starts_with('-');
        let flags: Vec<&str> = words.iter().filter(is_flag).map(|w| w.trim_start_matches('-')).collect();
        let load = |f: &&&str| f.starts_with("load") || (f.contains('p') && !f.contains("pattern"));
        if let Some(flag) = flags.iter().find(load) {
            let mut files = words.iter().filter(|word| !is_flag(word)).peekable();
            if files.peek().is_none() {
                return Err(format!(
                    "sysctl -{flag} needs the name of a file behind it: settings of the machine mean nothing here"
                ));
            }
            return files.try_for_each(|file| self.settings_of(line, file));
        }
        let forgiving = flags.iter().any(|f| *f == "ignore" || (f.len() < 4 && f.contains('e')));
        if words.is_empty() {
            return Err("sysctl needs NAME=VALUE".to_owned());
        }
        for word in words.iter().filter(|word| !is_flag(word)) {
            match word.split_once('=') {
                Some(("", _)) => return Err("sysctl takes NAME=VALUE without blanks".to_owned()),
                Some((name, value)) => self.set(line, name, value, forgiving)?,
                None if flags.iter().any(|f| f.contains('w')) => {
                    return Err(format!("'{word}' is no NAME=VALUE"));
                }
                None if forgiving => {}
                None => self.may_be_read(word)?,
            }
        }
        Ok(())
    }

    /// `sysctl NAME` reads, which means nothing here, but the name must be one.
    fn may_be_read(&self, name: &str) -> Result<(), String> {
        let name = name.replace('/', ".");
        if !name.contains('.') {
            return Err(format!("'{name}' is no NAME=VALUE"));
        }
        match self.host.lacks_sysctl(&name) {
            Some(what) if name.starts_with("net.ipv") && !is_linuxs(&name) => Err(what),
            _ => Ok(()),
        }
    }

    /// A file of settings as sysctl.conf(5) has them, looked for from the folder of the script: `NAME = VALUE` lines, comments behind `#` or
    /// `;`, `-` in front of a name that need not exist.
    fn settings_of(&mut self, line: usize, name: &str) -> Result<(), String> {
        let path = self.folder.join(name);
        let text = crate::files::read(&path).map_err(|e| e.to_string())?;
        for (inner, setting) in text.lines().map(str::trim).enumerate() {
            if setting.is_empty() || setting.starts_with(['#', ';']) {
                continue;
            }
            let told = |what: String| format!("{}:{}: {what}", path.display(), inner + 1);
            let (name, value) =
                setting.split_once('=').ok_or_else(|| told(format!("'{setting}' is no NAME=VALUE")))?;
            let named = name.strip_prefix('-');
            self.set(line, named.unwrap_or(name), value, named.is_some()).map_err(told)?;
        }
        Ok(())
    }

    /// `tc qdisc replace dev DEVICE root WORDS`: the one device of the script has that discipline from now on.
    fn tc(&mut self, words: &[String]) -> Result<(), String> {
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        // With one discipline its number names nothing that could be asked for.
        if let Some(at) = words.iter().position(|word| *word == "handle") {
            words.drain(at..words.len().min(at + 2));
        }
        let dev = words.iter().position(|word| *word == "dev").and_then(|at| words.get(at + 1));
        if let Some(dev) = dev.filter(|dev| **dev != DEVICE) {
            return Err(format!("there is no device '{dev}' here, a script has {DEVICE}"));
        }
        match *words {
            ["qdisc", "change", ..] => {
                Err("tc qdisc change keeps what it does not name: 'tc qdisc replace' with all of it can be had here".to_owned())
            }
            ["qdisc", "add", "dev", _, "root", ..] if self.shell.root => {
                Err("the device has a discipline already, so tc would not add one: 'tc qdisc replace' takes its place".to_owned())
            }
            ["qdisc", "add" | "replace", "dev", _, "root", ref discipline @ ..] => {
                self.host.set_qdisc(&discipline.join(" "))?;
                self.shell.root = true;
                Ok(())
            }
            // What stands there without one holds nothing back either.
            ["qdisc", "del", "dev", _, "root"] => {
                self.shell.root = false;
                self.host.set_qdisc("pfifo_fast")
            }
            ["qdisc", "show" | "ls" | "list", ..] => Ok(()),
            _ => {
                Err("of tc only 'tc qdisc replace dev DEVICE root DISCIPLINE ...' can be had here".to_owned())
            }
        }
    }

    /// `ip route add PREFIX`, `replace`, `del`, with `via` and `dev` or without: everything is behind the one device of the script. What
    /// stands behind these is the route's own. `show` prints nothing.
    fn route(&mut self, line: usize, words: &[String]) -> Result<(), String> {
        let v4 = self.config.ends.local.is_ipv4();
        if words.iter().any(|word| word == if v4 { "-6" } else { "-4" }) {
            let family = if v4 { "IPv4" } else { "IPv6" };
            self.notes
                .push(format!("line {line}: `ip {}` changes nothing: all is {family} here", words.join(" ")));
            return Ok(());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|w| !w.starts_with('-')).collect();
        let form = "of ip there is 'ip route add PREFIX [via ADDRESS] [dev DEVICE] [initcwnd N ...]', 'del' and 'replace' with the same words";
        let ["route", verb, prefix, ref rest @ ..] = words[..] else {
            return if matches!(words[..], ["route"] | ["route", "show"]) {
                Ok(())
            } else {
                Err(form.to_owned())
            };
        };
        let (dest, len) = self.prefix(prefix)?;
        let mut metrics = rest;
        while let [word, value, behind @ ..] = metrics
            && WAY.contains(word)
        {
            self.way(word, value)?;
            metrics = behind;
        }
        match verb {
            "add" | "append" | "replace" | "change" => self.host.set_route(dest, len, &metrics.join(" ")),
            "del" | "delete" => self.host.remove_route(dest, len),
            "show" | "get" | "list" => Ok(()),
            _ => Err(form.to_owned()),
        }
    }

    /// `ip link set dev DEVICE mtu N`: the device takes packets of that size from now on.
    fn link(&mut self, words: &[String]) -> Result<(), String> {
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|w| *w != "dev").collect();
        let ["link", "set", dev, "mtu", mtu] = words[..] else {
            return Err("of ip link there is 'ip link set dev DEVICE mtu N'".to_owned());
        };
        self.way("dev", dev)?;
        self.host.set_mtu(mtu.parse().map_err(|_| format!("mtu: '{mtu}' is no number of at most 65535"))?)
    }

    /// A word of `ip route` that says which way: there is one, but what is wrong with a word is told.
    fn way(&self, word: &str, value: &str) -> Result<(), String> {
        let ours = |ip: IpAddr| ip.is_ipv4() == self.config.ends.local.is_ipv4();
        match word {
            "dev" if value != DEVICE => {
                Err(format!("there is no device '{value}' here, a script has {DEVICE}"))
            }
            "via" | "src" if !value.parse().is_ok_and(ours) => {
                Err(format!("{word}: '{value}' is no address of the script's kind"))
            }
            "metric" if value.parse::<u32>().is_err() => Err(format!("metric: '{value}' is no number")),
            _ => Ok(()),
        }
    }

    /// `default`, an address, or one with the length of its prefix.
    fn prefix(&self, word: &str) -> Result<(IpAddr, u8), String> {
        let any: IpAddr = match self.config.ends.local {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        if word == "default" {
            return Ok((any, 0));
        }
        let (ip, len) = word.split_once('/').map_or((word, None), |(ip, len)| (ip, Some(len)));
        let whole = if any.is_ipv4() { 32 } else { 128 };
        let ip: Option<IpAddr> = ip.parse().ok();
        let len = len.map_or(Some(whole), |len| len.parse().ok());
        match (ip, len) {
            (Some(ip), Some(len)) if ip.is_ipv4() == any.is_ipv4() && len <= whole => Ok((ip, len)),
            _ => Err(format!("'{word}' is no prefix of the script's kind of address")),
        }
    }

    /// `sleep SECONDS`: times after it count from its end. Before the first event no time passes.
    fn sleep(&mut self, line: usize, words: &[String]) -> Result<(), String> {
        let seconds = |word: &String| word.trim_end_matches('s').parse::<f64>().ok();
        match words.first().and_then(seconds).filter(|s| (0.0..=SLEEP_MAX).contains(s)) {
            Some(_) if !self.shell.begun => Ok(()),
            Some(seconds) => {
                let until = self.now().saturating_add((seconds * 1e6) as u64);
                self.advance(at(until), line).map_err(|failure| failure.what)
            }
            None => Err(format!("sleep takes seconds, at most {SLEEP_MAX:.0}")),
        }
    }

    /// `echo VALUE > /proc/sys/net/ipv4/NAME`.
    fn echo(&mut self, line: usize, words: &[String], shell: &Shell) -> Result<(), String> {
        if shell.is_silent() {
            return Ok(());
        }
        let into = shell.into.as_ref().filter(|_| !shell.is_piped());
        match into.and_then(|into| into.strip_prefix("/proc/sys/")) {
            Some(name) => {
                let value = words.iter().filter(|w| *w != "-n").cloned().collect::<Vec<_>>().join(" ");
                self.set(line, name, &value, false)
            }
            None => Err("echo works into /proc/sys/net/... only".to_owned()),
        }
    }

    fn set(&mut self, line: usize, name: &str, value: &str, forgiving: bool) -> Result<(), String> {
        let name = name.trim().replace('/', ".");
        match self.host.lacks_sysctl(&name) {
            None => self.host.set_sysctl(&name, value.trim()),
            Some(_) if forgiving => Ok(()),
            Some(why) if let Some((_, fixed)) = FIXED.iter().find(|(known, _)| *known == name) => {
                if value.trim() == *fixed { Ok(()) } else { Err(format!("{why}; it is always {fixed} here")) }
            }
            Some(_) if has_no_effect(&name) => {
                if self.shell.said.insert(name.clone()) {
                    self.notes.push(format!("line {line}: {name} has no effect here"));
                }
                Ok(())
            }
            Some(why) => Err(why),
        }
    }

    /// A file of commands, looked for from the folder of the script; or the program of packetdrill's that sets what its words say.
    pub(super) fn file(&mut self, line: usize, name: &str, rest: &[String]) -> Result<Then, String> {
        if Path::new(name).file_name().is_some_and(|file| file == SET_SYSCTLS) {
            for word in rest {
                let name = word.trim_start_matches("/proc/sys/");
                let (name, value) =
                    name.split_once('=').ok_or_else(|| format!("'{word}' is no NAME=VALUE"))?;
                self.set(line, name, value, false)?;
            }
            return Ok(Then::On);
        }
        if self.shell.nested == NESTED_MAX {
            return Err(format!("{name}: files of commands call one another too deeply"));
        }
        let path = self.folder.join(name);
        let told = |inner: usize, what: String| format!("{}:{inner}: {what}", path.display());
        let text = crate::files::read(&path).map_err(|e| e.to_string())?;
        for command in commands_of(&text, 1).map_err(|(inner, what)| told(inner, what))? {
            self.shell.nested += 1;
            let then = self.command(line, &command);
            self.shell.nested -= 1;
            let then = then.map_err(|what| told(command.line, what))?;
            if then != Then::On {
                return Ok(then);
            }
        }
        Ok(Then::On)
    }
}

/// The name of a program without the folder of programs that it may be called from.
pub(super) fn program(word: &str) -> &str {
    match word.rsplit_once('/') {
        Some((folder, name)) if PROGRAMS.contains(&folder) => name,
        _ => word,
    }
}

/// `exit` and `return`; a number but 0 fails a script.
fn end(name: &str, rest: &[String]) -> Result<Then, String> {
    match rest.first().map_or("0", String::as_str) {
        "0" | "$?" if name == "return" => Ok(Then::Return),
        "0" | "$?" => Ok(Then::Exit),
        code => Err(format!("`{name} {code}`: whoever says so has failed")),
    }
}

/// Linux has such a setting, and the stack has none to change.
fn is_linuxs(name: &str) -> bool {
    has_no_effect(name) || FIXED.iter().any(|(known, _)| *known == name)
}

/// The name itself, or what it begins with.
fn has_no_effect(name: &str) -> bool {
    WITHOUT_EFFECT.iter().any(|known| match known.ends_with(['.', '_']) {
        true => name.starts_with(known),
        false => name == *known,
    })
}

/// `ethtool -K DEVICE FEATURE off ...`: every feature off.
fn is_off(words: &[String]) -> bool {
    match words {
        [k, _, features @ ..] if k == "-K" && !features.is_empty() && features.len().is_multiple_of(2) => {
            features.chunks(2).all(|pair| pair[1] == "off")
        }
        _ => false,
    }
}
