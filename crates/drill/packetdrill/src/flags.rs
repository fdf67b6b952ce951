//! `--so_flags`: what packetdrill knows of addresses and the device and its interface does not tell.
use core::iter;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use std::collections::BTreeMap;

/// Bytes of an IPv4 packet, and of an IPv6 one whose segments are as long. packetdrill's own device has the first in both families.
const MTU: [u16; 2] = [1_500, 1_520];
/// The smallest MTU that a device may have: RFC 791 section 3.2, RFC 8200 section 5.
const MTU_MIN: [u16; 2] = [68, 1_280];
/// The keys, for messages.
const KEYS: &str = "ip_version, local_ip, remote_ip, gateway_ip, prefix_len, mtu, mss";
/// Those that tell a family.
const FAMILIAR: [&str; 4] = ["ip_version", "local_ip", "remote_ip", "gateway_ip"];

/// packetdrill's options that take no value.
const ALONE: &[&str] = &[
    "wire_client",
    "wire_server",
    "tcp_ts_ecr_scaled",
    "strict_segments",
    "dry_run",
    "is_anyip",
    "send_omit_free",
    "debug",
    "verbose",
    // Of the dialect that has SCTP.
    "persistent_tun_dev",
    "no_cleanup",
];

/// What the sockets of the script are made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum IpVersion {
    /// Not told: both families have an address.
    #[default]
    Unknown,
    /// AF_INET.
    V4,
    /// AF_INET6 with addresses mapped from IPv4 (RFC 4291 section 2.5.5.2).
    Mapped,
    /// AF_INET6.
    V6,
}

/// The flags after parsing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Flags {
    version: IpVersion,
    local: Option<IpAddr>,
    remote: Option<IpAddr>,
    gateway: Option<IpAddr>,
    prefix: Option<u8>,
    mtu: Option<u16>,
    /// Segments of so many bytes are what the device has joined.
    mss: Option<u32>,
    /// packetdrill's own options tell the stack's address.
    agreed: bool,
    /// No command of the script sleeps.
    awake: bool,
    /// packetdrill makes no device, and the script has commands.
    commands: bool,
}

impl Flags {
    /// Reads `key=value,key=value`; an empty text is what packetdrill's own defaults are.
    ///
    /// # Errors
    /// One sentence: a key that is not known, a value that does not fit, or addresses of another family.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut flags = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').ok_or_else(|| format!("'{item}' is no KEY=VALUE"))?;
            let (key, value) = (key.trim(), value.trim());
            match key {
                "ip_version" => flags.version = version(value)?,
                "local_ip" => flags.local = Some(address(key, value)?),
                "remote_ip" => flags.remote = Some(address(key, value)?),
                "gateway_ip" => flags.gateway = Some(address(key, value)?),
                "prefix_len" => flags.prefix = Some(number(key, value, "a number from 0 to 128")?),
                "mtu" => flags.mtu = Some(number(key, value, "a number from 68 to 65535")?),
                "mss" => flags.mss = Some(number(key, value, "a number; 0 joins none")?),
                _ => return Err(format!("no flag '{key}'; there are {KEYS}")),
            }
        }
        flags.check()?;
        Ok(flags)
    }

    /// The same with what packetdrill's own options say, which it does not tell: those of the script over the text's, those of packetdrill's
    /// command line over both. The run is so many of those that the process has begun; `read` gives the text of a file.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub(crate) fn of_run(
        text: &str,
        args: &[String],
        run: usize,
        read: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let line = CommandLine::of(args);
        let script = line.scripts.get(run).and_then(|path| read(path)).unwrap_or_default();
        let mut own: BTreeMap<String, String> = head(&script).filter_map(option).collect();
        own.extend(line.options);
        // A script that cannot be read may have anything.
        let awake = !script.is_empty() && !script.contains("sleep");
        // Who brought this object by another way than this option may have a device of its own.
        let loads = |word: &str| word.starts_with("--so_filename");
        let loaded = args.iter().any(|word| loads(word)) || head(&script).any(loads);
        let commands = loaded && script.contains('`');
        if own.is_empty() {
            return Ok(Self { awake, commands, ..Self::parse(text)? });
        }
        let agreed = own.contains_key("local_ip");
        let of = |key: &str| own.get(key).map(|value| version(value)).transpose();
        let given = Self::parse(text)?.version;
        // Addresses of another family than the one that counts do not.
        let other = of("ip_version")?.is_some_and(|v| given != IpVersion::Unknown && v != given);
        let key = |item: &str| item.split('=').next().unwrap_or_default().trim().to_owned();
        let keeps = |key: &str| !(other && key != "ip_version" || own.contains_key(key));
        let kept: Vec<&str> = text.split(',').filter(|item| keeps(&key(item))).collect();
        let told = |name: &str| own.contains_key(name) || kept.iter().any(|item| key(item) == name);
        let (familiar, sized) = (FAMILIAR.iter().any(|name| told(name)), told("mtu"));
        if !familiar {
            // A netmask of a family that nobody names.
            own.remove("prefix_len");
        }
        if own.contains_key("ip_version") && !sized {
            own.insert("mtu".to_owned(), MTU[0].to_string());
        }
        let own = own.iter().map(|(key, value)| format!("{key}={value}"));
        let text = kept.into_iter().map(str::to_owned).chain(own).collect::<Vec<_>>().join(",");
        Ok(Self { agreed, awake, commands, ..Self::parse(&text)? })
    }

    /// No command of the script sleeps, as far as its text tells: one that takes long is slow.
    pub(crate) const fn awake(&self) -> bool {
        self.awake
    }

    /// The script has commands, for which packetdrill makes no device.
    pub(crate) const fn commands(&self) -> bool {
        self.commands
    }

    /// Addresses of the stack with the lengths of their prefixes.
    pub(crate) fn addresses(&self) -> Vec<(IpAddr, u8)> {
        let prefix = |default: u8| self.prefix.unwrap_or(default);
        match (self.local, self.version) {
            (Some(local @ IpAddr::V4(_)), _) => vec![(local, prefix(16))],
            (Some(local @ IpAddr::V6(_)), _) => vec![(local, prefix(48))],
            (None, IpVersion::V4 | IpVersion::Mapped) => vec![(LOCAL_V4, prefix(16))],
            (None, IpVersion::V6) => vec![(LOCAL_V6, prefix(48))],
            (None, IpVersion::Unknown) => vec![(LOCAL_V4, 16), (LOCAL_V6, 48)],
        }
    }

    /// The families, IPv4 and IPv6, in which packetdrill was not told the stack's address and draws one, with the length of its prefix.
    pub(crate) fn drawn(&self) -> [Option<u8>; 2] {
        let prefix = |default: u8| self.prefix.unwrap_or(default);
        match (self.agreed, self.local, self.version) {
            (true, ..) => [None, None],
            (_, _, IpVersion::V4 | IpVersion::Mapped) | (_, Some(IpAddr::V4(_)), _) => {
                [Some(prefix(16)), None]
            }
            (_, _, IpVersion::V6) | (_, Some(IpAddr::V6(_)), _) => [None, Some(prefix(48))],
            (_, None, IpVersion::Unknown) => [Some(16), Some(48)],
        }
    }

    /// The peers that scripts may have: the one that was told, or packetdrill's own of the families that there are.
    pub(crate) fn peers(&self) -> Vec<IpAddr> {
        match (self.remote, self.version) {
            (Some(remote), _) => vec![remote],
            (None, IpVersion::V4 | IpVersion::Mapped) => vec![REMOTE_V4],
            (None, IpVersion::V6) => vec![REMOTE_V6],
            (None, IpVersion::Unknown) => vec![REMOTE_V4, REMOTE_V6],
        }
    }

    /// What is behind the device: the peer that was told, or the networks around packetdrill's own, each by an address and the length of its prefix.
    pub(crate) fn behind(&self) -> Vec<(IpAddr, u8)> {
        let len = |ip: &IpAddr| match (self.remote, ip) {
            (Some(_), IpAddr::V4(_)) => 32,
            (Some(_), IpAddr::V6(_)) => 128,
            (None, IpAddr::V4(_)) => 24,
            (None, IpAddr::V6(_)) => 32,
        };
        self.peers().into_iter().map(|ip| (ip, len(&ip))).collect()
    }

    /// Nobody has told the stack's address.
    pub(crate) const fn untold(&self) -> bool {
        self.local.is_none()
    }

    /// Bytes of the largest packet.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu.unwrap_or(MTU[usize::from(self.version == IpVersion::V6)])
    }

    /// Bytes of the segments that the device has joined where a packet has more; 0 where it joins none. What fits no field is longer than a packet.
    pub(crate) fn joined(&self) -> u16 {
        self.mss.map_or(0, |mss| mss.min(65_534) as u16)
    }

    /// Everything that has a family has the one of `ip_version`, and what is a length fits it.
    fn check(&self) -> Result<(), String> {
        let given = [("local_ip", self.local), ("remote_ip", self.remote), ("gateway_ip", self.gateway)];
        let first = given.iter().find_map(|(_, ip)| *ip).map(|ip| ip.is_ipv6());
        let v6 = match self.version {
            IpVersion::V4 | IpVersion::Mapped => Some(false),
            IpVersion::V6 => Some(true),
            IpVersion::Unknown => first,
        };
        for (key, ip) in given {
            if ip.is_some_and(|ip| Some(ip.is_ipv6()) != v6) {
                return Err(format!(
                    "{key} is not of the family that ip_version or the other addresses have"
                ));
            }
        }
        let bits = if v6 == Some(false) { 32 } else { 128 };
        let least = MTU_MIN[usize::from(v6 == Some(true))];
        match (self.prefix, v6) {
            (Some(len), Some(_)) if len > bits => Err(format!("prefix_len={len} does not fit {bits} bits")),
            (Some(_), None) => Err("prefix_len needs ip_version or an address".to_owned()),
            _ if self.mtu.is_some_and(|mtu| mtu < least) => Err(format!("mtu is at least {least}")),
            _ => Ok(()),
        }
    }
}

/// The words in front of a script's first event, without comments.
fn head(script: &str) -> impl Iterator<Item = &str> {
    let mut rest = script;
    iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            rest = if rest.starts_with("//") || rest.starts_with('#') {
                rest.split_once('\n')?.1
            } else if let Some(inside) = rest.strip_prefix("/*") {
                inside.split_once("*/")?.1
            } else {
                break;
            };
        }
        let mut end = word_len(rest);
        // Blanks may stand on both sides of the sign.
        for _ in 0..2 {
            let next = rest.len() - rest[end..].trim_start().len();
            if rest[..end].ends_with('=') || !rest[..end].contains('=') && rest[next..].starts_with('=') {
                end = next + word_len(&rest[next..]);
            }
        }
        let word;
        (word, rest) = rest.split_at(end);
        word.starts_with("--").then_some(word)
    })
}

/// Bytes up to the next blank. Quotation marks hold blanks together.
fn word_len(text: &str) -> usize {
    let mut quoted = false;
    let ends = |c: char| {
        quoted ^= matches!(c, '"' | '`');
        c.is_whitespace() && !quoted
    };
    text.find(ends).unwrap_or(text.len())
}

/// packetdrill's command line, as getopt_long() reads it: options and scripts in any order, values behind `=` or as the next word.
struct CommandLine {
    options: BTreeMap<String, String>,
    scripts: Vec<String>,
}

impl CommandLine {
    fn of(args: &[String]) -> Self {
        let mut line = Self { options: BTreeMap::new(), scripts: Vec::new() };
        let mut words = args.iter().skip(1);
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                // What follows is scripts, whatever it looks like.
                Some("") => line.scripts.extend(words.by_ref().cloned()),
                Some(name) if name.contains('=') || ALONE.contains(&name) => {
                    line.options.extend(option(word));
                }
                Some(_) => {
                    let value = words.next().map_or("", String::as_str);
                    line.options.extend(option(&format!("{word}={value}")));
                }
                // -D takes a word, -v does not; a dash alone is a file.
                None if word.len() > 1 && word.starts_with('-') => _ = (word == "-D").then(|| words.next()),
                None => line.scripts.push(word.clone()),
            }
        }
        line
    }
}

/// One of packetdrill's options that is a flag here, under the flag's name.
fn option(word: &str) -> Option<(String, String)> {
    let (name, value) = word.strip_prefix("--")?.split_once('=')?;
    let (name, value) = (name.trim_end(), value.trim_start());
    // An address may have its prefix with it, and any value its quotation marks.
    let value = value.trim_matches('"').split('/').next().unwrap_or(value);
    match name {
        "ip_version" | "local_ip" | "remote_ip" | "gateway_ip" | "mtu" | "mss" => {
            Some((name.into(), value.into()))
        }
        "netmask_ip" => {
            let mask: Ipv4Addr = value.parse().ok()?;
            Some(("prefix_len".into(), mask.to_bits().leading_ones().to_string()))
        }
        _ => None,
    }
}

/// Where packetdrill puts the host under test.
const LOCAL_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1));
const LOCAL_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1));

/// Where it puts the peer.
const REMOTE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const REMOTE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

fn version(value: &str) -> Result<IpVersion, String> {
    match value {
        "ipv4" => Ok(IpVersion::V4),
        "ipv4-mapped-ipv6" | "ipv4-mapped-v6" | "ipv4_mapped_ipv6" => Ok(IpVersion::Mapped),
        "ipv6" => Ok(IpVersion::V6),
        _ => Err(format!("ip_version={value}: it is ipv4, ipv4-mapped-ipv6 or ipv6")),
    }
}

/// An address, perhaps with the length of a prefix behind it, as packetdrill's own have; one that is mapped from IPv4 is the IPv4 address that
/// the wire has.
fn address(key: &str, value: &str) -> Result<IpAddr, String> {
    let ip = IpAddr::from_str(value.split('/').next().unwrap_or(value))
        .map_err(|_| format!("{key}={value} is no IP address"))?;
    Ok(ip.to_canonical())
}

fn number<T: FromStr>(key: &str, value: &str, allowed: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{key}={value}: it takes {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_usual_runner_passes() {
        let text = "ip_version=ipv6,local_ip=fd3d:a0b:17d6::1,remote_ip=fd3d:fa7b:d17d::1,\
                    gateway_ip=fd3d:a0b:17d6::2,prefix_len=48,mtu=1520";
        let flags = Flags::parse(text).unwrap();
        assert_eq!(flags.addresses(), [(LOCAL_V6, 48)]);
        assert_eq!(flags.mtu(), 1_520);
        let text = "ip_version=ipv4-mapped-ipv6,local_ip=::ffff:192.168.0.1,remote_ip=192.0.2.1,mtu=1400";
        let flags = Flags::parse(text).unwrap();
        assert_eq!(flags.addresses(), [(LOCAL_V4, 16)], "mapped addresses are IPv4 on the wire");
        assert_eq!(flags.mtu(), 1_400);
        let flags = Flags::parse("local_ip=10.0.0.1/24,remote_ip=192.0.2.1/24,prefix_len=20").unwrap();
        assert_eq!(flags.addresses(), [("10.0.0.1".parse().unwrap(), 20)]);
    }

    #[test]
    fn what_the_script_and_the_command_line_say_counts_for_more() {
        let script = |path: &str| {
            (path == "x.pkt").then(|| {
                "// --mtu=1\n/* of\n --mtu=2 */\n/* a */ --mtu=1300 --tolerance_usecs=5 // not --mtu=1400\n\
                 --define=X=\"a --mtu=4\"\n--local_ip=\"10.0.0.1\"\n+0 `x --mtu=3`"
                    .to_owned()
            })
        };
        let of = |text: &str, args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            Flags::of_run(text, &args, 0, script).unwrap()
        };
        let flags = of("ip_version=ipv4,local_ip=192.168.0.1,mtu=1500", &["packetdrill", "-v", "x.pkt"]);
        assert_eq!((flags.mtu(), flags.addresses()), (1_300, vec![("10.0.0.1".parse().unwrap(), 16)]));
        let args = ["packetdrill", "--mtu=1400", "--netmask_ip=255.255.255.0", "x.pkt"];
        let flags = of("", &args);
        assert_eq!((flags.mtu(), flags.addresses()), (1_400, vec![("10.0.0.1".parse().unwrap(), 24)]));
        let flags = of("ip_version=ipv4,local_ip=192.168.0.1,mtu=1500", &["p", "--ip_version=ipv6", "y.pkt"]);
        assert_eq!(
            (flags.mtu(), flags.addresses()),
            (1_500, vec![(LOCAL_V6, 48)]),
            "what is of IPv4 does not count, and packetdrill's own MTU is that of every family"
        );
        assert_eq!(of("mtu=1400", &["driver", "lib.so", "passive"]), Flags::parse("mtu=1400").unwrap());
        let args = ["packetdrill", "--mtu", "1400", "-v", "-D", "TFO_COOKIE=1", "--dry_run", "--", "x.pkt"];
        let flags = of("", &args);
        assert_eq!(
            (flags.mtu(), flags.addresses()),
            (1_400, vec![("10.0.0.1".parse().unwrap(), 16)]),
            "values may be words of their own, and a definition is no script"
        );
    }

    #[test]
    fn options_that_packetdrill_takes_alone_are_taken_here() {
        let of = |text: &str, args: &[&str], script: &str| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            Flags::of_run(text, &args, 0, |_| Some(script.to_owned()))
        };
        let flags = of("", &["p", "x.pkt"], "--netmask_ip=255.255.255.0\n0 x").unwrap();
        assert_eq!((flags.addresses(), flags.mtu()), (Flags::default().addresses(), 1_500), "of any family");
        assert_eq!(of("", &["p", "--ip_version=ipv6", "x.pkt"], "").unwrap().mtu(), 1_500);
        let both = ["p", "--ip_version=ipv6", "x.pkt"];
        assert_eq!(of("ip_version=ipv6,mtu=1520", &both, "").unwrap().mtu(), 1_520, "who tells one is heard");
        assert_eq!(of("", &both, "--mtu=1400").unwrap().mtu(), 1_400);
        let joined = |script: &str| of("mss=900", &["p", "x.pkt"], script).unwrap().joined();
        assert_eq!((joined(""), joined("--mss=1000"), joined("--mss=100000")), (900, 1_000, 65_534));
        assert_eq!(Flags::default().joined(), 0);
        let dialect = ["p", "--no_cleanup", "x.pkt"];
        let flags = of("", &dialect, "--ip_version=ipv4_mapped_ipv6\n--mtu=1300\n0 x").unwrap();
        assert_eq!(
            (flags.addresses(), flags.mtu()),
            (vec![(LOCAL_V4, 16)], 1_300),
            "of the dialect with SCTP"
        );
        for blanks in ["--mtu =1300", "--mtu= 1300", "--mtu\t=\n1300"] {
            let flags =
                of("", &["p", "x.pkt"], &format!("--debug {blanks} --local_ip=10.0.0.1\n0 x")).unwrap();
            assert_eq!((flags.mtu(), flags.untold()), (1_300, false), "{blanks}");
        }
    }

    #[test]
    fn each_run_of_a_process_has_its_own_script() {
        let args = ["packetdrill", "1.pkt", "--mtu=1300", "2.pkt"].map(str::to_owned);
        let script = |path: &str| Some(format!("--local_ip=10.0.0.{}", &path[..1]));
        let of = |run| Flags::of_run("", &args, run, script).unwrap().addresses();
        assert_eq!(of(0), [("10.0.0.1".parse().unwrap(), 16)]);
        assert_eq!(of(1), [("10.0.0.2".parse().unwrap(), 16)]);
        assert_eq!(of(2), Flags::default().addresses(), "more runs than scripts");
    }

    #[test]
    fn the_device_leads_to_the_peers() {
        let of = |text: &str, script: &str| {
            let args = ["packetdrill", "--so_filename", "./x.so", "x.pkt"].map(str::to_owned);
            Flags::of_run(text, &args, 0, |_| Some(script.to_owned())).unwrap()
        };
        let prefix = |ip: &str, len| (ip.parse::<IpAddr>().unwrap(), len);
        assert_eq!(of("", "").behind(), [prefix("192.0.2.1", 24), prefix("2001:db8::1", 32)]);
        assert_eq!(of("ip_version=ipv6", "").behind(), [prefix("2001:db8::1", 32)]);
        assert_eq!(of("remote_ip=192.0.2.7", "").behind(), [prefix("192.0.2.7", 32)]);
        assert_eq!(of("", "--remote_ip=fd00::9").behind(), [prefix("fd00::9", 128)]);
        assert!(of("", "+0 `true`").commands() && of("", "--mtu=1400 `true`").commands());
        assert!(!of("", "+0 close(3) = 0").commands());
        let other = Flags::of_run("", &["p", "x.pkt"].map(str::to_owned), 0, |_| Some("`true`".to_owned()));
        assert!(!other.unwrap().commands(), "brought by another way");
    }

    #[test]
    fn a_script_that_sleeps_is_known_by_its_text() {
        let of = |script: Option<&str>| {
            let args = ["packetdrill", "x.pkt"].map(str::to_owned);
            Flags::of_run("", &args, 0, |_| script.map(str::to_owned)).unwrap().awake()
        };
        assert!(of(Some("+0 `sysctl -q net.ipv4.tcp_sack=0`")));
        assert!(!of(Some("+0 `sleep 1`")));
        assert!(!of(None), "nobody knows");
    }

    #[test]
    fn an_address_that_packetdrill_was_not_told_is_drawn() {
        let of = |text: &str, args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            Flags::of_run(text, &args, 0, |_| None).unwrap().drawn()
        };
        assert_eq!(of("", &[]), [Some(16), Some(48)]);
        assert_eq!(of("ip_version=ipv4-mapped-ipv6,prefix_len=24", &[]), [Some(24), None]);
        assert_eq!(of("ip_version=ipv6,mtu=1500", &[]), [None, Some(48)]);
        assert_eq!(
            of("local_ip=10.0.0.1", &["p", "--mtu=1400"]),
            [Some(16), None],
            "the stack alone knows it"
        );
        assert_eq!(of("local_ip=10.0.0.1", &["p", "--local_ip=10.0.0.1"]), [None, None]);
    }

    #[test]
    fn without_flags_both_families_have_an_address() {
        let flags = Flags::parse("").unwrap();
        assert_eq!(flags.addresses(), [(LOCAL_V4, 16), (LOCAL_V6, 48)]);
        assert_eq!(flags.mtu(), 1_500);
        assert_eq!(
            Flags::parse("ip_version=ipv6").unwrap().mtu(),
            1_520,
            "segments are as long in both families"
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        for (text, part) in [
            ("tso=1", "no flag 'tso'; there are ip_version"),
            ("mtu", "'mtu' is no KEY=VALUE"),
            ("mtu=67", "at least 68"),
            ("ip_version=ipv6,mtu=1279", "at least 1280"),
            ("mtu=65536", "from 68 to 65535"),
            ("ip_version=5", "ip_version=5"),
            ("local_ip=1.2.3", "no IP address"),
            ("local_ip=1.2.3.4,remote_ip=fd00::1", "remote_ip is not of the family"),
            ("ip_version=ipv6,local_ip=1.2.3.4", "local_ip is not of the family"),
            ("local_ip=1.2.3.4,prefix_len=33", "does not fit 32 bits"),
            ("prefix_len=8", "prefix_len needs"),
        ] {
            let error = Flags::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
