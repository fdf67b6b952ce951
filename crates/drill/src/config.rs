//! The options in front of a script, `--name=value`: which world it runs in and how strictly it is judged.
use crate::failure::Failure;
use crate::names;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// How far an event may be from its time, in microseconds, as in packetdrill.
const TOLERANCE_US: u64 = 4_000;
/// The same in parts per thousand of the time since the event before.
const TOLERANCE_PERMILLE: u64 = 125;
/// Most packets that a device which completes by hand may hold.
const DEVICE_QUEUE_MAX: usize = 10_000;
/// The interpreter of snippets, unless the script names another.
const PYTHON: &str = "python3";
/// Smallest and largest super-packet that `--gso` may ask for.
const GSO_RANGE: (u32, u32) = (1_500, 65_535);

/// Which addresses sockets and packets have: packetdrill's `--ip_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// AF_INET sockets, IPv4 packets.
    V4,
    /// AF_INET6 sockets, IPv4 packets.
    Mapped,
    /// AF_INET6 sockets, IPv6 packets.
    V6,
}

impl Family {
    /// The three that packetdrill's runner goes through.
    pub const ALL: [Self; 3] = [Self::V4, Self::Mapped, Self::V6];

    /// What packetdrill's runner defines in this mode: level and type of a socket's errors, Fast Open's cookies by the key of its scripts and
    /// by one of zeros, and a code of what cannot be reached.
    pub(crate) const fn defines(self) -> &'static [(&'static str, &'static str)] {
        const ERRORS_V6: [(&str, &str); 2] =
            [("CMSG_LEVEL_IP", "SOL_IPV6"), ("CMSG_TYPE_RECVERR", "IPV6_RECVERR")];
        const OF_V4: [(&str, &str); 3] = [
            ("TFO_COOKIE", "3021b9d889017eeb"),
            ("TFO_COOKIE_ZERO", "b7c12350a90dc8f5"),
            ("CODE", "host_unreachable"),
        ];
        match self {
            Self::V4 => &[
                ("CMSG_LEVEL_IP", "SOL_IP"),
                ("CMSG_TYPE_RECVERR", "IP_RECVERR"),
                OF_V4[0],
                OF_V4[1],
                OF_V4[2],
            ],
            Self::Mapped => &[ERRORS_V6[0], ERRORS_V6[1], OF_V4[0], OF_V4[1], OF_V4[2]],
            Self::V6 => &[
                ERRORS_V6[0],
                ERRORS_V6[1],
                ("TFO_COOKIE", "c1d1e9742a47a9bc"),
                ("TFO_COOKIE_ZERO", "82af1a8f9a205c34"),
            ],
        }
    }

    /// The word behind `--ip_version`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::Mapped => "ipv4-mapped-ipv6",
            Self::V6 => "ipv6",
        }
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|family| family.name() == word);
        let known =
            known.or_else(|| ["ipv4-mapped-v6", "ipv4_mapped_ipv6"].contains(&word).then_some(Self::Mapped));
        known.ok_or_else(|| "it takes ipv4, ipv4-mapped-ipv6 or ipv6".to_owned())
    }
}

/// What the command line says over a script: its options count after those in front of the script, so they win, as with packetdrill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--ip_version`.
    pub ip_version: Option<Family>,
    /// `--mtu` in bytes.
    pub mtu: Option<u16>,
    /// All others, each with its value where it has one. They live as long as a command line does.
    pub options: &'static [(String, Option<String>)],
}

impl From<Family> for Overrides {
    fn from(family: Family) -> Self {
        Self { ip_version: Some(family), ..Self::default() }
    }
}

impl Overrides {
    fn flags(self) -> impl Iterator<Item = Flag> {
        let version = self.ip_version.map(|family| ("ip_version", Some(family.name().to_owned())));
        let mtu = self.mtu.map(|mtu| ("mtu", Some(mtu.to_string())));
        let others = self.options.iter().map(|(name, value)| (name.as_str(), value.clone()));
        // No line of the script says it.
        let flag = |(name, value): (&str, _)| Flag { line: 0, name: name.to_owned(), value };
        version.into_iter().chain(mtu).chain(others).map(flag)
    }
}

impl Overrides {
    /// Whether there are scripts for which these make sense: why not, where they are wrong or contradict each other whatever a script says.
    ///
    /// # Errors
    /// The reason, which names the option.
    pub fn check(self) -> Result<(), String> {
        let families = Family::ALL.into_iter().map(|family| Flag {
            line: 1,
            name: "ip_version".to_owned(),
            value: Some(family.name().to_owned()),
        });
        let mut wrong = Ok(());
        for family in families {
            match Config::new(vec![family], self) {
                Ok(_) => return Ok(()),
                Err(failure) => wrong = Err(failure.what),
            }
        }
        wrong
    }
}

/// As one writes them, each with a blank behind it.
impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.flags().try_for_each(|flag| match flag.value {
            Some(value) => write!(f, "--{}={} ", flag.name, quoted(&value)),
            None => write!(f, "--{} ", flag.name),
        })
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,+-%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// A script's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) family: Family,
    pub(crate) ends: Ends,
    pub(crate) mtu: u16,
    /// Bytes of the segments that the device has joined where a packet has more; 0: it joins none.
    pub(crate) joined: u16,
    pub(crate) judge: Judge,
    pub(crate) device: DeviceConfig,
    /// The script is read, and that is all.
    pub(crate) dry_run: bool,
    /// What comes before any datagram was sent comes from the peer's usual port.
    pub(crate) anyip: bool,
    /// `--define=NAME=value`.
    pub(crate) defines: BTreeMap<String, String>,
    /// The Python that reads the snippets which our own evaluator cannot, if any may.
    pub(crate) python: Option<Vec<String>>,
    /// Files of commands that run first.
    pub(crate) init_scripts: Vec<(usize, String)>,
    /// What was asked for and is not so, though it is no failure.
    pub(crate) notes: Vec<String>,
}

/// Addresses and ports of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) prefix: u8,
    pub(crate) bind_port: u16,
    pub(crate) connect_port: u16,
}

/// How strictly a script is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judge {
    pub(crate) tolerance_us: u64,
    pub(crate) tolerance_permille: u64,
    /// Microseconds per tick of the timestamps of outgoing packets; 0 does not compare them.
    pub(crate) ts_tick_us: u32,
    /// Segments are not joined.
    pub(crate) strict_segments: bool,
    /// An echoed timestamp need not have gone out.
    pub(crate) ts_ecr_scaled: bool,
    /// Timestamps that the stack echoes are compared: ours.
    pub(crate) ts_ecr_exact: bool,
    /// A packet that differs is told, and the script goes on.
    pub(crate) forgiving: bool,
}

impl Judge {
    /// What an event may be away from its time when it comes `since` microseconds after the one before.
    pub(crate) fn tolerance(&self, since: u64) -> u64 {
        self.tolerance_us.max(since.saturating_mul(self.tolerance_permille) / 1_000)
    }
}

/// What the device under the stack can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct DeviceConfig {
    /// Largest super-packet in bytes; 0 for one segment per packet.
    pub(crate) gso: u32,
    /// Packets that it holds until the script completes them; `None` for a device that completes at once.
    pub(crate) queue: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        let judge = Judge {
            tolerance_us: TOLERANCE_US,
            tolerance_permille: TOLERANCE_PERMILLE,
            ts_tick_us: 0,
            strict_segments: false,
            ts_ecr_scaled: false,
            ts_ecr_exact: false,
            forgiving: false,
        };
        Self {
            family: Family::V4,
            ends: Ends::of(Family::V4),
            mtu: 1_500,
            joined: 0,
            judge,
            device: DeviceConfig::default(),
            dry_run: false,
            anyip: false,
            defines: BTreeMap::new(),
            python: Some(vec![PYTHON.to_owned()]),
            init_scripts: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Ends {
    /// The addresses that packetdrill's usual runner takes.
    const fn of(family: Family) -> Self {
        let (local, remote, prefix) = match family {
            Family::V4 | Family::Mapped => {
                (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 16)
            }
            Family::V6 => (
                IpAddr::V6(Ipv6Addr::new(0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1)),
                IpAddr::V6(Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1)),
                48,
            ),
        };
        Self { local, remote, prefix, bind_port: 8_080, connect_port: 8_080 }
    }
}

/// One `--name=value`, or `--name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flag {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

impl Config {
    /// The world that these options ask for, and those of the command line over them.
    pub(crate) fn new(mut flags: Vec<Flag>, over: Overrides) -> Result<Self, Box<Failure>> {
        flags.extend(over.flags());
        let mut config = Self::default();
        // Whatever depends on the family comes after it, in whatever order the lines stand.
        let family = flags.iter().rev().find(|f| f.name == "ip_version");
        if let Some(flag) = family {
            config.family = match flag.value.as_deref().unwrap_or_default().parse() {
                Ok(family) => family,
                Err(why) => return flag.refuse(&why),
            };
            config.ends = Ends::of(config.family);
            // The IPv6 header is 20 bytes longer: with 1520 the segments are as long as over IPv4.
            config.mtu = if config.family == Family::V6 { 1_520 } else { 1_500 };
        }
        let names = config.family.defines().iter();
        config.defines.extend(names.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        for flag in &flags {
            config.set(flag)?;
        }
        Ok(config)
    }

    fn set(&mut self, flag: &Flag) -> Result<(), Box<Failure>> {
        match OPTIONS.iter().find(|(name, _)| *name == flag.name) {
            Some((_, set)) => set(self, flag),
            None => elsewhere(flag),
        }
    }

    /// `--non_fatal`. Results of calls count in packetdrill all the same.
    fn forgive(&mut self, flag: &Flag) -> Result<(), Box<Failure>> {
        let mut words = flag.text()?.split([',', ' ']).filter(|word| !word.is_empty());
        if words.clone().any(|word| !["packet", "syscall"].contains(&word)) {
            return flag.refuse("it takes packet, syscall, or both with a comma between");
        }
        self.judge.forgiving |= words.any(|word| word == "packet");
        Ok(())
    }

    /// `--code_command`: no interpreter, or one of Python 3, since snippets are its programs. What packetdrill's scripts usually name has that
    /// name on a machine of today.
    fn interpreter(&mut self, flag: &Flag) -> Result<(), Box<Failure>> {
        let named = flag.text()?;
        // packetdrill hands it to a shell.
        let mut words: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
        let path = words.first().map_or(Path::new(""), Path::new);
        let program = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        self.python = match program {
            "none" if named == "none" => None,
            _ if program.starts_with(PYTHON) => Some(words),
            "python" => {
                PYTHON.clone_into(&mut words[0]);
                Some(words)
            }
            _ => {
                self.notes.push(format!("--code_command={named}: {PYTHON} runs the snippets"));
                Some(vec![PYTHON.to_owned()])
            }
        };
        Ok(())
    }
}

impl Flag {
    fn refuse<T>(&self, why: &str) -> Result<T, Box<Failure>> {
        let value = self.value.as_ref().map(|v| format!("={v}")).unwrap_or_default();
        Err(Failure::new(self.line, format!("--{}{value}: {why}", self.name)))
    }

    fn text(&self) -> Result<&str, Box<Failure>> {
        match self.value.as_deref() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => self.refuse("it needs a value"),
        }
    }

    /// True: it is there, and there is nothing more to say.
    fn on(&self) -> Result<bool, Box<Failure>> {
        if self.value.is_some() { self.refuse("it takes no value") } else { Ok(true) }
    }

    fn number<T: FromStr + PartialOrd + std::fmt::Display + Copy>(
        &self,
        low: T,
        high: T,
    ) -> Result<T, Box<Failure>> {
        match self.text()?.parse() {
            Ok(n) if n >= low && n <= high => Ok(n),
            _ => self.refuse(&format!("it takes a number from {low} to {high}")),
        }
    }

    fn permille(&self) -> Result<u64, Box<Failure>> {
        let percent: Option<f64> = self.text()?.parse().ok();
        match percent.filter(|p| (0.0..=100.0).contains(p)) {
            Some(percent) => Ok((percent * 10.0) as u64),
            None => self.refuse("it takes a number from 0 to 100"),
        }
    }

    /// An address, with or without `/prefix`.
    fn address(&self, family: Family) -> Result<IpAddr, Box<Failure>> {
        let text = self.text()?;
        let bare = text.split('/').next().unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(ip) if ip.is_ipv6() == (family == Family::V6) => Ok(ip),
            Ok(_) => self.refuse("--ip_version says that packets have the other kind of address"),
            Err(_) => self.refuse("it takes an address"),
        }
    }

    fn netmask(&self) -> Result<u8, Box<Failure>> {
        let mask: Option<Ipv4Addr> = self.text()?.parse().ok();
        let bits = mask.map(Ipv4Addr::to_bits).filter(|b| b.count_ones() == b.leading_ones());
        match bits {
            Some(bits) => Ok(bits.leading_ones() as u8),
            None => self.refuse("it takes a netmask such as 255.255.0.0"),
        }
    }

    fn definition(&self) -> Result<(&str, &str), Box<Failure>> {
        let pair = self.text()?.split_once('=').filter(|(name, _)| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        pair.map_or_else(|| self.refuse("it takes NAME=value"), Ok)
    }
}

/// Does what an option asks for.
type Set = fn(&mut Config, &Flag) -> Result<(), Box<Failure>>;

/// The options that mean something, which who misspells one is told of.
const OPTIONS: &[(&str, Set)] = &[
    // It was looked at before all others.
    ("ip_version", |_, _| Ok(())),
    ("mtu", |c, f| put(&mut c.mtu, f.number(if c.family == Family::V6 { 1_280 } else { 68 }, 65_535))),
    ("bind_port", |c, f| put(&mut c.ends.bind_port, f.number(1, 65_535))),
    ("connect_port", |c, f| put(&mut c.ends.connect_port, f.number(1, 65_535))),
    ("local_ip", |c, f| put(&mut c.ends.local, f.address(c.family))),
    ("remote_ip", |c, f| put(&mut c.ends.remote, f.address(c.family))),
    // There is none for IPv6.
    ("netmask_ip", |c, f| match (f.netmask()?, c.family) {
        (_, Family::V6) => Ok(()),
        (prefix, _) => put(&mut c.ends.prefix, Ok(prefix)),
    }),
    // The peer is on the link: whatever the gateway, every packet leaves by the one device.
    ("gateway_ip", |c, f| f.address(c.family).map(drop)),
    ("tolerance_usecs", |c, f| put(&mut c.judge.tolerance_us, f.number(1, u64::MAX))),
    ("tolerance_percent", |c, f| put(&mut c.judge.tolerance_permille, f.permille())),
    ("tcp_ts_tick_usecs", |c, f| put(&mut c.judge.ts_tick_us, f.number(0, 1_000_000))),
    ("strict_segments", |c, f| put(&mut c.judge.strict_segments, f.on())),
    ("tcp_ts_ecr_scaled", |c, f| put(&mut c.judge.ts_ecr_scaled, f.on())),
    ("tcp_ts_ecr_exact", |c, f| put(&mut c.judge.ts_ecr_exact, f.on())),
    ("non_fatal", Config::forgive),
    // What is more is longer than a packet, and 65535 means something else to the kernel (GSO_BY_FRAGS).
    ("mss", |c, f| put(&mut c.joined, f.number(1, i32::MAX).map(|mss| mss.min(65_534) as u16))),
    ("dry_run", |c, f| put(&mut c.dry_run, f.on())),
    ("is_anyip", |c, f| put(&mut c.anyip, f.on())),
    ("gso", |c, f| put(&mut c.device.gso, f.number(GSO_RANGE.0, GSO_RANGE.1))),
    ("device_queue", |c, f| put(&mut c.device.queue, f.number(1, DEVICE_QUEUE_MAX).map(Some))),
    ("define", |c, f| {
        let (name, value) = f.definition()?;
        c.defines.insert(name.to_owned(), value.to_owned());
        Ok(())
    }),
    ("init_scripts", |c, f| {
        let files = f.text()?.split(',').map(|file| (f.line, file.trim().to_owned()));
        c.init_scripts.extend(files);
        Ok(())
    }),
    ("code_command", Config::interpreter),
    // Nothing outlives a script here.
    ("no_cleanup", |_, _| Ok(())),
];

/// A value that was understood goes to its place.
fn put<T>(place: &mut T, value: Result<T, Box<Failure>>) -> Result<(), Box<Failure>> {
    *place = value?;
    Ok(())
}

/// Options that mean nothing here: what speaks of packetdrill's own ways is let through, since a script means the same without; the rest is
/// refused by name.
fn elsewhere(flag: &Flag) -> Result<(), Box<Failure>> {
    match flag.name.as_str() {
        "tun_dev" | "persistent_tun_dev" | "local_linklocal_ip" | "gateway_linklocal_ip" => {}
        "tcp_md5_secret" => return flag.refuse("the stack signs no segments"),
        // Lines say which packets stand in UDP, and those of the stack show it.
        "udp_encaps" if flag.value.as_deref() == Some("sctp") => {}
        "udp_encaps" => return flag.refuse("it takes sctp: TCP stands in IP alone"),
        "code_format" if flag.value.as_deref() != Some("python") => {
            return flag.refuse("snippets are programs of Python: it takes python");
        }
        "code_format" | "code_sockopt" | "speed" | "send_omit_free" | "debug" | "verbose" => {}
        "wire_client" | "wire_server" | "wire_server_ip" | "wire_server_at" | "wire_server_port"
        | "wire_client_dev" | "wire_server_dev" => return flag.refuse("there is no second machine here"),
        "so_filename" | "so_flags" => return flag.refuse("the stack is built in"),
        name => {
            let known: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
            let near = names::told(&names::near(name, &known));
            return flag.refuse(&format!("there is no such option{near}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(name: &str, value: &str) -> Flag {
        Flag { line: 3, name: name.into(), value: (!value.is_empty()).then(|| value.into()) }
    }

    #[test]
    fn a_command_line_that_fits_no_script_is_told_from_one_that_fits_some() {
        let given = |options: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| (String::from(*name), Some(String::from(*value)));
            Overrides {
                options: options.iter().map(owned).collect::<Vec<_>>().leak(),
                ..Overrides::default()
            }
        };
        assert_eq!(Overrides::default().check(), Ok(()));
        assert_eq!(given(&[("local_ip", "fd00::1")]).check(), Ok(()), "where a script says ipv6");
        let why = given(&[("define", "X")]).check().expect_err("it has no value");
        assert!(why.contains("NAME=value"), "{why}");
        let small = Overrides { ip_version: Some(Family::V6), mtu: Some(1_000), ..Overrides::default() };
        assert!(small.check().expect_err("too small").contains("1280"));
    }

    #[test]
    fn options_make_the_world() {
        let flags = vec![
            flag("local_ip", "fd00::5"),
            flag("ip_version", "ipv6"),
            flag("mtu", "1400"),
            flag("bind_port", "80"),
            flag("tolerance_percent", "2.5"),
            flag("strict_segments", ""),
            flag("define", "N=`x y`"),
            flag("gso", "65535"),
        ];
        let config = Config::new(flags, Overrides::default()).expect("all of them");
        assert_eq!(config.ends.local, IpAddr::V6("fd00::5".parse().expect("an address")));
        assert_eq!((config.mtu, config.ends.bind_port, config.ends.connect_port), (1_400, 80, 8_080));
        assert_eq!((config.judge.tolerance(1_000_000), config.judge.tolerance(10)), (25_000, 4_000));
        assert!(config.judge.strict_segments && config.device.gso == 65_535);
        assert_eq!(config.defines.get("N").map(String::as_str), Some("`x y`"));
        let v6 = vec![flag("ip_version", "ipv6")];
        assert_eq!(Config::new(v6, Overrides::default()).expect("v6").mtu, 1_520);
    }

    #[test]
    fn the_command_line_wins() {
        let script = || vec![flag("ip_version", "ipv6"), flag("mtu", "1400"), flag("bind_port", "80")];
        let config = Config::new(script(), Overrides::from(Family::Mapped)).expect("mapped");
        assert_eq!((config.family, config.ends.local), (Family::Mapped, Ends::of(Family::V4).local));
        assert_eq!((config.mtu, config.ends.bind_port), (1_400, 80), "what it does not speak of stays");
        let over = Overrides { mtu: Some(1_300), ..Overrides::default() };
        let config = Config::new(script(), over).expect("another MTU");
        assert_eq!((config.family, config.mtu), (Family::V6, 1_300));
        assert_eq!(
            over.to_string() + &Overrides::from(Family::V6).to_string(),
            "--mtu=1300 --ip_version=ipv6 "
        );
        let options =
            vec![("define".to_owned(), Some("N=a b".to_owned())), ("strict_segments".to_owned(), None)];
        let over = Overrides { options: options.leak(), ..Overrides::default() };
        let config =
            Config::new(vec![flag("define", "N=c"), flag("define", "M=d")], over).expect("definitions");
        assert_eq!((config.defines["N"].as_str(), config.defines["M"].as_str()), ("a b", "d"));
        assert!(config.judge.strict_segments);
        assert_eq!(over.to_string(), "--define='N=a b' --strict_segments ");
        // An address of the script that is of the other family is an error there, too.
        let address = vec![flag("local_ip", "10.0.0.1")];
        let e = Config::new(address, Family::V6.into()).expect_err("the other family");
        assert!(e.what.contains("other kind"), "{e}");
    }

    #[test]
    fn a_value_comes_through_a_shell() {
        for value in ["a", "<a>|b&c", "it's", "#*?[x](y){z}~!\\$HOME`\"", "a\nb", "", "ä"] {
            let options = vec![("define".to_owned(), Some(value.to_owned()))];
            let over = Overrides { options: options.leak(), ..Overrides::default() };
            let said = std::process::Command::new("sh").args(["-c", &format!("printf %s {over}")]).output();
            let said = said.expect("sh").stdout;
            assert_eq!(String::from_utf8_lossy(&said), format!("--define={value}"));
        }
    }

    #[test]
    fn a_mask_is_of_ipv4_and_an_interpreter_of_python_3() {
        let mask = |version: &str| {
            let flags = vec![flag("netmask_ip", "255.0.0.0"), flag("ip_version", version)];
            Config::new(flags, Overrides::default()).expect(version).ends.prefix
        };
        assert_eq!((mask("ipv4"), mask("ipv4-mapped-ipv6"), mask("ipv6")), (8, 8, 48));
        let python = |named: &str| {
            let config = Config::new(vec![flag("code_command", named)], Overrides::default()).expect(named);
            (config.python.unwrap_or_default().join("+"), config.notes.len())
        };
        assert_eq!(python("none"), (String::new(), 0));
        assert_eq!((python("python"), python("/usr/bin/python")), ((PYTHON.into(), 0), (PYTHON.into(), 0)));
        assert_eq!(python("/opt/python3.12"), ("/opt/python3.12".into(), 0));
        assert_eq!(python("/usr/bin/python2"), (PYTHON.into(), 1));
        assert_eq!(python("python3 -u  -B"), ("python3+-u+-B".into(), 0));
        assert_eq!(python("/usr/bin/python -u"), ("python3+-u".into(), 0));
    }

    #[test]
    fn each_option_stands_once_and_one_that_is_misspelt_is_told_its_name() {
        for (n, (name, _)) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[n + 1..].iter().all(|(other, _)| other != name), "{name}");
            let done = Config::new(vec![flag(&format!("{name}x"), "?")], Overrides::default());
            let e = done.expect_err(name);
            assert!(e.what.contains("no such option; near it: ") && e.what.contains(name), "{name}: {e:?}");
        }
    }

    #[test]
    fn wrong_options_name_their_line() {
        for (name, value, why) in [
            ("mtu", "20", "number from 68"),
            ("mtu", "", "needs a value"),
            ("ip_version", "ipx", "ipv4"),
            ("remote_ip", "fd00::1", "other kind"),
            ("remote_ip", "yes", "an address"),
            ("netmask_ip", "255.0.255.0", "netmask"),
            ("strict_segments", "1", "no value"),
            ("define", "=3", "NAME=value"),
            ("so_filename", "x", "built in"),
            ("wire_client", "", "second machine"),
            ("non_fatal", "packets", "packet, syscall"),
            ("code_command", "", "needs a value"),
            ("code_format", "perl", "takes python"),
            ("nonsense", "1", "no such option"),
            ("tolerance_usec", "5", "no such option; near it: tolerance_usecs"),
            ("gso", "70000", "65535"),
        ] {
            let e = Config::new(vec![flag(name, value)], Overrides::default()).expect_err(name);
            assert!(e.line == 3 && e.what.contains(why), "{name}={value}: {e:?}");
        }
    }
}
