//! The command line as clap parses it, with the help that teaches.
mod sctp;

pub(crate) use sctp::{Messages, SctpSend, Ss};

use crate::lab::SEEDS_MAX;
use crate::rates;
use crate::script_options::ScriptOptions;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgGroup, Args, CommandFactory as _, Error, FromArgMatches as _, Parser, Subcommand};
use lowwater::sctp::SctpCongestionKind;
use lowwater_core::base::Sysctl;
use lowwater_core::base::near::nearest;
use lowwater_core::ip::Cidr;
use lowwater_core::qdisc::Any;
use lowwater_drill::Family;
use std::ops::Range;
use std::path::PathBuf;

const OVERVIEW: &str = "\
Examples:
  lowwater lab                                      experiments in virtual time
  sudo lowwater serve --tun lw0 --addr 10.9.0.2/24  a web server for the kernel's curl
  sudo lowwater get --tun lw1 --addr 10.9.1.2/24 http://10.9.1.1:8000/file -o file
  lowwater drill tests/drill                        scripts in packetdrill's language
  lowwater ss -i stats.json                         of serve --stats: why each connection waits
  sudo lowwater sctp-send --tun lw2 --addr 10.9.2.2/24 --echo 10.9.0.2:7   to a serve --sctp 7

Without root, `unshare -rn` gives a shell in a network of its own in which serve, get and sctp-send \
work (where users may open /dev/net/tun).
Exit codes: 0 done, 1 failed, 2 bad command line, 77 the environment lacks something, \
130 lab, drill, get or sctp-send cut short by Ctrl-C (it is how serve ends: 0).";

const LAB: &str = "\
Examples:
  lowwater lab                                all experiments
  lowwater lab list                           their names, variants and parameters
  lowwater lab run bulk --variant reno        one variant of one experiment
  lowwater lab run bulk --set loss_percent=0.5 --set rtt_ms=40 --set bytes=20000000
  lowwater lab run bulk --variant cubic/0% --set qdisc=fq_codel     a setting, beside it as it is
  lowwater lab run bulk --variant cubic/1% --seeds 9     medians of nine, least and most below
  lowwater lab run tso-autosize --uml         beside Linux 6.1, measured in the same run
  lowwater lab --json | jq -c '[.run, .figures.goodput_mbps]'

In the tables: \"Linux\" is Linux 6.1 by the host's clock, \"Linux still\" by a clock that stands still while the \
guest works, \"Linux now\" measured beside this run (--uml), \"commit\" what the Linux commit reports that an \
experiment comes from; a run that takes another time than Linux's stands without its figures. Variants \"-whole\" are without the half rule: by it a writer is woken when less than half \
of TCP_NOTSENT_LOWAT is unsent. wakes/MB: how often that happens per 10^6 bytes.
The same seed gives the same figures on every machine.
Ctrl-C ends it with exit code 130, after a table of the runs that were complete; a second one ends it at once.";

const SERVE: &str = "\
Examples:
  sudo lowwater serve --tun lw0 --addr 10.9.0.2/24 --root .
  curl http://10.9.0.2/                            what is there
  curl -O http://10.9.0.2/README.md                download
  sudo lowwater serve --tun lw0 --addr 10.9.0.2/24 --root public --writable
  curl -T big.iso http://10.9.0.2/big.iso          upload, with --writable alone
  sudo lowwater serve --packet eth1 --addr 192.0.2.7/24 --host-addr 192.0.2.1/24
  sudo lowwater serve --tun lw0 --addr 10.9.0.2/24 --addr6 fd00:9::2/64 \\
      --set tcp_congestion_control=reno --pcap serve.pcapng --stats stats.json

Ports: 80 HTTP, 7 echo (TCP and UDP), 9 discard, 19 chargen; with --sctp 7 also echo on 7 and discard on 9 over SCTP.
--set takes the sysctl names of Linux (tcp_sack=0, tcp_wmem=\"4096 16384 4194304\", ...); \
of a wrong name the nearest ones are shown.
--qdisc takes the words of tc (\"fq maxrate 48mbit\", \"fq_codel target 2ms\", ...), one discipline inside of \
another after \"child\" (\"tbf rate 10mbit burst 15kb child fq_codel\"): docs/qdisc.md.
--control makes a socket by which `lowwater tc` replaces it while serve runs, and `ss` and `tc` tell what is there now.
--congestion is SCTP's; TCP's is --set tcp_congestion_control=bbr (reno, cubic).
Ctrl-C ends it and removes the device.";

const GET: &str = "\
Examples:
  python3 -m http.server --bind :: 8000 &
  sudo lowwater get --tun lw1 --addr 10.9.1.2/24 http://10.9.1.1:8000/README.md
  sudo lowwater get --tun lw1 --addr fd00:9:1::2/64 \\
      'http://[fd00:9:1::1]:8000/README.md' -o copy.md
  sudo lowwater get --tun lw1 --addr 10.9.1.2/24 \\
      http://10.9.1.1:8000/README.md -o copy.md --json | jq .sha256

The kernel's side of the device gets the first free address of the subnet: 10.9.1.1 here. No other device may have \
the subnet, also not that of a running serve. Ctrl-C ends it with exit code 130.";

const TC: &str = "\
Examples:
  sudo lowwater serve --tun lw0 --addr 10.9.0.2/24 --qdisc \"fq maxrate 48mbit\" \\
      --stats stats.json --control lw0.sock &
  lowwater tc stats.json                    the discipline and its options
  lowwater tc -s stats.json                 and what it has counted
  watch -n1 lowwater tc -s stats.json
  lowwater tc -s --json stats.json | jq .[0].drops
  sudo lowwater tc lw0.sock                            as it is now, not up to a second ago
  sudo lowwater tc lw0.sock replace fq maxrate 20mbit  another one while it runs: what waits
                                                       moves over

Only who started serve, or root, may use its socket.";

const DRILL: &str = "\
Examples:
  lowwater drill tests/drill/tcp/handshake/passive.pkt   one script
  lowwater drill tests/drill                             all below a directory
  lowwater drill --modes all tests/drill                 each as IPv4, mapped IPv4 and IPv6
  lowwater drill --json tests/drill | jq -c 'select(.ok | not) | [.script, .line, .what]'

Ctrl-C ends it after the script that runs, with exit code 130; one that waits for Python is cut short and not \
counted. A second one ends it at once, and says how far it came.
A path that is not there fails like a script; the others run.
A failure shows the line, what was expected, what happened, and the last packets. docs/drill.md has the language.";

/// lowwater: TCP, UDP and SCTP in user space, with Linux's behaviour, on real devices and in virtual time.
#[derive(Debug, Parser)]
#[command(name = "lowwater", version, after_help = OVERVIEW, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The command line; one that makes no sense ends the program with what is wrong about it.
    pub(crate) fn of_process(experiments: &[&str]) -> Self {
        let found = command().try_get_matches().and_then(|found| Self::from_arg_matches(&found));
        found.unwrap_or_else(|wrong| hinted(wrong, experiments).exit())
    }
}

/// As clap is to read it. The options of runs are `lab`'s too, so that they may stand before `run`; the help of `list`, which
/// refuses them, does not show them.
fn command() -> clap::Command {
    let mut all = Cli::command();
    // Only then have the commands below `lab` what is said to be global.
    all.build();
    let of_list = |option: clap::Arg| match option.get_id().as_str() {
        "json" => option.help("One JSON object per experiment on stdout, and nothing else"),
        "help" => option,
        _ => option.hide(true),
    };
    all.mut_subcommand("lab", |lab| lab.mut_subcommand("list", |list| list.mut_args(of_list)))
}

/// The name of an experiment in the place of `run` is told what is missing.
fn hinted(mut wrong: Error, experiments: &[&str]) -> Error {
    let word = match (wrong.kind(), wrong.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => word.clone(),
        _ => return wrong,
    };
    if let Some(name) = nearest(&word, experiments) {
        let tip = StyledStr::from(format!("experiments are run by: lowwater lab run {name}"));
        wrong.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    wrong
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run experiments in the simulator: the same stack in virtual time, no root
    #[command(after_help = LAB)]
    Lab(Lab),
    /// Run scripts in packetdrill's language against the stack in virtual time, no root
    #[command(after_help = DRILL)]
    Drill(Drill),
    /// Serve files by HTTP (and echo, discard, chargen, SCTP) from a stack on a TUN device
    #[command(after_help = SERVE)]
    Serve(Serve),
    /// What `lab --uml` runs inside of the kernel that it boots
    #[command(hide = true)]
    Guest {
        /// The job
        job: String,
    },
    /// Show the queueing discipline of a running `serve`, as tc -s qdisc does, or replace it
    #[command(after_help = TC)]
    Tc(Tc),
    /// Show connections and associations of a running `serve`, as ss does, and why each waits
    #[command(after_help = sctp::SS)]
    Ss(Ss),
    /// Fetch a file by HTTP with the stack as the client
    #[command(after_help = GET)]
    Get(Get),
    /// Send messages over SCTP with the stack as the client, and say how fast they went by which paths
    #[command(after_help = sctp::SEND)]
    SctpSend(SctpSend),
}

/// `lowwater lab`.
#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) action: Option<LabAction>,
    #[command(flatten)]
    pub(crate) options: LabOptions,
}

/// What to do in the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabAction {
    /// List experiments, their variants and their parameters
    List {
        /// Only these experiments
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Run the named experiments
    Run {
        /// Experiments, as `lab list` names them
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Options of all runs in the lab.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct LabOptions {
    /// Only this variant (may be repeated)
    #[arg(long, value_name = "V", global = true)]
    pub(crate) variant: Vec<String>,
    /// A parameter of the experiment or a sysctl of both hosts, in all variants (may be repeated). Each variant also
    /// runs as it is, and what changes is told
    #[arg(long, value_name = "KEY=VALUE", global = true, value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// As --set, in the runs as they are too: --base rate_mbps=20 --set qdisc=fq_codel asks about the discipline alone
    #[arg(long, value_name = "KEY=VALUE", global = true, value_parser = key_value)]
    pub(crate) base: Vec<(String, String)>,
    /// With --set no variant runs as it is beside
    #[arg(long, global = true)]
    pub(crate) alone: bool,
    /// All chance comes from this number
    #[arg(long, value_name = "N", default_value_t = 1, global = true, value_parser = seed, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Each run with so many seeds, from --seed on: tables have the medians, and below them the least and the most
    #[arg(long, value_name = "N", default_value_t = 1, global = true, value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    pub(crate) seeds: u64,
    /// One JSON object per run on stdout, and nothing else
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Beside each run the same on Linux 6.1, booted for it in user mode, where that is possible (needs the packages
    /// user-mode-linux, kmod, iproute2 and gcc; exit code 77 without)
    #[arg(long, global = true)]
    pub(crate) uml: bool,
    /// Also write runs.jsonl and a CSV of samples over time per run into this directory
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) out: Option<PathBuf>,
    /// Also write one page with tables and pictures, for a browser, complete in itself; where neither experiments nor
    /// variants are named it is report.html, here or in the directory of --out
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) report: Option<PathBuf>,
}

impl Default for LabOptions {
    /// The command line without a word.
    fn default() -> Self {
        Self {
            variant: Vec::new(),
            set: Vec::new(),
            base: Vec::new(),
            alone: false,
            seed: 1,
            seeds: 1,
            json: false,
            uml: false,
            out: None,
            report: None,
        }
    }
}

/// The stack and its device, for `serve`, `get` and `sctp-send`. One of the two kinds of device, and the message that asks for it names both.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("device").required(true).args(["tun", "packet"])))]
pub(crate) struct Net {
    /// Name of the TUN device to make
    #[arg(long, value_name = "NAME")]
    pub(crate) tun: Option<String>,
    #[command(flatten)]
    pub(crate) iface: Iface,
    /// Address of the stack with its subnet, as 10.9.0.2/24 (may be repeated)
    #[arg(long, value_name = "CIDR", required = true)]
    pub(crate) addr: Vec<Cidr>,
    /// A second address of the stack, of the other family, as fd00:9::2/64
    #[arg(long, value_name = "CIDR")]
    pub(crate) addr6: Option<Cidr>,
    /// Address of the kernel's side beside the first --addr [default: the first free address of its subnet]; with --packet the gateway [default: none]
    #[arg(long, value_name = "CIDR")]
    pub(crate) host_addr: Option<Cidr>,
    /// Address of the kernel's side beside --addr6 [default: the first free address of its subnet]; with --packet the gateway [default: none]
    #[arg(long, value_name = "CIDR", requires = "addr6")]
    pub(crate) host_addr6: Option<Cidr>,
    /// Set a sysctl of the stack by Linux's name (may be repeated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = sysctl)]
    pub(crate) set: Vec<(String, String)>,
    /// Write all packets to this pcapng file
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// MTU of the TUN device [default: 1500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(576..))]
    pub(crate) mtu: Option<u16>,
    /// Single segments and finished checksums on the device instead of super-packets
    #[arg(long)]
    pub(crate) no_offload: bool,
    /// Look at the device for up to US microseconds before sleeping, while that pays: faster answers where a processor is free for
    /// it; 0: never
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub(crate) busy_poll: u32,
    #[command(flatten)]
    pub(crate) front: Front,
}

/// A network interface of the kernel instead of a TUN, and the ring of frames to it.
#[derive(Debug, Args)]
pub(crate) struct Iface {
    /// Network interface of the kernel to use instead of a TUN, by packet sockets; the kernel must not have --addr
    #[arg(long, value_name = "IFACE")]
    pub(crate) packet: Option<String>,
    /// Frames that may be on their way to it, 64 KiB of locked memory each [default: 64]
    #[arg(long, value_name = "N", requires = "packet", value_parser = clap::value_parser!(u16).range(8..=4_096))]
    pub(crate) packet_slots: Option<u16>,
    /// No byte queue limits: its ring fills whatever it needs (for comparisons)
    #[arg(long, requires = "packet")]
    pub(crate) packet_no_bql: bool,
    /// Flows get their credit back when a frame enters its ring: small queues see nothing wait (for comparisons)
    #[arg(long, requires = "packet")]
    pub(crate) packet_orphan: bool,
}

/// What stands in front of the device.
#[derive(Debug, Args)]
pub(crate) struct Front {
    /// Queueing discipline in front of the device, in the words of tc, as "fq maxrate 48mbit"
    #[arg(long, value_name = "WORDS", value_parser = qdisc)]
    pub(crate) qdisc: Option<String>,
    /// The device says "not now" half the time (for tests)
    #[arg(long, hide = true)]
    pub(crate) fault_not_now: bool,
}

/// How long `serve` waits for a peer that takes nothing, as for one that sends nothing of a body. Without a bound each costs a connection, a
/// file that is open, and what it holds of the send buffer, for as long as it answers window probes.
const USER_TIMEOUT_S: u32 = 60;
/// Most that TCP_USER_TIMEOUT takes, which is in milliseconds.
const USER_TIMEOUT_MAX_S: i64 = i32::MAX as i64 / 1_000;

/// `lowwater serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) net: Net,
    /// Directory whose files are served, to be read by whoever reaches the address
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Let whoever reaches the address write files there too, in the place of others (PUT)
    #[arg(long)]
    pub(crate) writable: bool,
    /// TCP_USER_TIMEOUT of every connection, in seconds: who takes nothing of what waits for him for so long is cut off, by SCTP's
    /// echo too; 0: a reader that takes nothing is waited for without end
    #[arg(long, value_name = "S", default_value_t = USER_TIMEOUT_S, value_parser = clap::value_parser!(u32).range(..=USER_TIMEOUT_MAX_S))]
    pub(crate) user_timeout: u32,
    /// Also serve SCTP: echo on this port, discard two above
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_533))]
    pub(crate) sctp: Option<u16>,
    /// What moves the windows of its associations: rfc9260, cubic or bbr [default: sctp.congestion_control]
    #[arg(long, value_name = "NAME", requires = "sctp", value_parser = sctp::congestion)]
    pub(crate) congestion: Option<SctpCongestionKind>,
    /// SO_MAX_PACING_RATE of every TCP connection, in the units of tc, as 20mbit (bits) or 2mbps (bytes a second)
    #[arg(long, value_name = "RATE", value_parser = rates::rate)]
    pub(crate) max_pacing_rate: Option<u64>,
    /// Write the counters as JSON to this file, every second and at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,
    /// Make a Unix socket by which `lowwater ss SOCKET` and `tc SOCKET` tell what is there now, and `tc` replaces the queueing discipline
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON objects instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

/// `lowwater tc`.
#[derive(Debug, Args)]
pub(crate) struct Tc {
    /// The file that `serve --stats FILE` writes, or the socket of `serve --control SOCKET`
    #[arg(value_name = "FILE|SOCKET")]
    pub(crate) file: PathBuf,
    /// By a socket: replace, and the discipline to put there in the words of tc, as: replace fq maxrate 48mbit
    #[arg(value_name = "replace WORDS")]
    pub(crate) action: Vec<String>,
    /// Counts too
    #[arg(short, long)]
    pub(crate) stats: bool,
    /// An array of JSON objects, one per discipline, the outermost first
    #[arg(long)]
    pub(crate) json: bool,
}

/// `lowwater get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) net: Net,
    /// What to fetch, as http://10.9.0.1:8000/file
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// A JSON object on stdout: url, output, bytes, seconds, mbps, sha256; needs -o
    #[arg(long, requires = "output")]
    pub(crate) json: bool,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `lowwater drill`.
#[derive(Debug, Args)]
pub(crate) struct Drill {
    /// Scripts, and directories with scripts (*.pkt)
    #[arg(required_unless_present = "draw", conflicts_with = "draw", value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// One JSON object per script on stdout, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// A page in Markdown with every script and its result on stdout, and nothing else
    #[arg(long, conflicts_with = "json")]
    pub(crate) page: bool,
    /// The sockets and packets of a script, over what it says itself: ipv4, ipv4-mapped-ipv6 or ipv6
    #[arg(long = "ip_version", value_name = "VERSION", conflicts_with_all = ["modes", "page", "draw"])]
    pub(crate) ip_version: Option<Family>,
    /// The MTU of the device in bytes, over what a script says itself
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["modes", "page", "draw"], value_parser = clap::value_parser!(u16).range(68..))]
    pub(crate) mtu: Option<u16>,
    /// Run each script in these modes, words of --ip_version with commas, or all three; what speaks of another is left out, and says why
    #[arg(long, value_name = "all|VERSION,...", value_parser = modes, conflicts_with_all = ["page", "draw"])]
    pub(crate) modes: Option<Modes>,
    /// Against the kernel of this host instead of the stack, in real time (Linux, root; exit code 77 where that cannot be)
    #[arg(long)]
    pub(crate) kernel: bool,
    /// With --kernel: run each script on the stack, too, and fail where both do not send the same at the same times, answer calls
    /// alike, tell the same TCP_INFO or count the same (nstat)
    #[arg(long, requires = "kernel")]
    pub(crate) compare: bool,
    /// With --kernel: instead of scripts, connections drawn from these seeds, on the stack and on the kernel; fails where both do not do the
    /// same after each step, with the script of what the kernel did
    #[arg(long, requires = "kernel", value_name = "SEED|FROM..TO", value_parser = seeds)]
    pub(crate) draw: Option<Range<u64>>,
    /// With --draw: what to ask of the connections, words separated by commas (docs/drill.md), as ecn,sack
    #[arg(long, requires = "draw", value_name = "WORDS", default_value = "")]
    pub(crate) with: String,
    #[command(flatten)]
    pub(crate) options: ScriptOptions,
}

/// The modes that scripts go through.
#[derive(Clone, Debug)]
pub(crate) struct Modes(pub(crate) Vec<Family>);

/// `all`, or words of --ip_version with commas.
fn modes(text: &str) -> Result<Modes, String> {
    if text == "all" {
        return Ok(Modes(Family::ALL.to_vec()));
    }
    let known = text.split(',').map(|word| word.trim().parse().ok()).collect::<Option<_>>();
    known.map(Modes).ok_or_else(|| "it takes all, or ipv4, ipv4-mapped-ipv6 and ipv6 with commas".to_owned())
}

/// One seed, or those from the first up to the second, which is left out.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number =
        |text: &str| text.trim().parse().map_err(|_| format!("'{text}' is no seed; it takes N or FROM..TO"));
    let range = match text.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => {
            let seed: u64 = number(text)?;
            let next = seed.checked_add(1);
            seed..next.ok_or_else(|| {
                format!("{seed} is no seed of a drawn connection: the largest is {}", seed - 1)
            })?
        }
    };
    match range.is_empty() {
        true => Err(format!("there is no seed in {text}: TO is left out, so 3..4 is 3 alone")),
        false => Ok(range),
    }
}

/// The seed of the lab.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it takes KEY=VALUE, as tcp_sack=0")?;
    if key.trim().is_empty() {
        return Err("there is no name before the =: it takes KEY=VALUE, as tcp_sack=0".to_owned());
    }
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Only checked here: the stack reads it again.
fn qdisc(text: &str) -> Result<String, String> {
    text.parse::<Any>().map(|_| text.to_owned())
}

fn sysctl(text: &str) -> Result<(String, String), String> {
    let (key, value) = key_value(text)?;
    let mut scratch = Sysctl::default();
    if scratch.get(&key).is_none() {
        return Err(unknown_setting(&key));
    }
    scratch.set(&key, &value)?;
    Ok((key, value))
}

/// Says that there is no such sysctl, and which are near to it.
pub(crate) fn unknown_setting(key: &str) -> String {
    match &Sysctl::near(key)[..] {
        [] => format!("there is no sysctl {key}, and none near it (docs/sysctl.md lists all)"),
        near => format!("there is no sysctl {key}; near it: {} (docs/sysctl.md lists all)", near.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    fn refused(words: &[&str]) -> String {
        let words = [&["lowwater"], words].concat();
        let wrong = command().try_get_matches_from(words).expect_err("it makes no sense");
        hinted(wrong, &["small-queues", "bulk"]).to_string()
    }

    #[test]
    fn what_is_missing_is_told() {
        assert!(
            refused(&["lab", "small-queues"])
                .contains("tip: experiments are run by: lowwater lab run small-queues")
        );
        assert!(refused(&["lab", "smal-queues"]).contains("lab run small-queues"));
        for other in [&["lab", "foo"][..], &["lab", "run"], &["bulkk"]] {
            let told = refused(other);
            assert!(!told.contains("small-queues"), "{told}");
        }
        for command in ["serve", "get"] {
            let told = refused(&[command]);
            assert!(told.contains("--tun <NAME>") && told.contains("--packet <IFACE>"), "{told}");
        }
        let both = refused(&["serve", "--tun", "a", "--packet", "b", "--addr", "10.0.0.1/24"]);
        assert!(both.contains("cannot be used with"), "{both}");
    }

    #[test]
    fn a_command_shows_the_options_that_it_takes() {
        let help = |words: &[&str]| refused(&[words, &["--help"]].concat());
        let (list, run, lab) = (help(&["lab", "list"]), help(&["lab", "run"]), help(&["lab"]));
        for option in
            ["--variant", "--set", "--base", "--alone", "--seed", "--seeds", "--uml", "--out", "--report"]
        {
            assert!(
                !list.contains(option) && run.contains(option) && lab.contains(option),
                "{option}: {list}"
            );
        }
        assert!(
            list.contains("--json") && list.contains("--help") && list.contains("per experiment"),
            "{list}"
        );
        assert!(run.contains("per run on stdout"), "{run}");
        let by_word = refused(&["help", "lab", "list"]);
        assert!(by_word.contains("--json") && !by_word.contains("--variant"), "{by_word}");
    }

    /// clap breaks what is longer than the terminal: a line of prose is a whole one, and an example fits.
    #[test]
    fn help_is_not_broken_in_the_middle_of_a_sentence() {
        let help =
            |command: &clap::Command| command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let texts =
            Cli::command().get_subcommands().map(help).chain([help(&Cli::command())]).collect::<Vec<_>>();
        for line in texts.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty()) {
            match line.starts_with("  ") {
                true => assert!(line.chars().count() <= 100, "{line}"),
                false => assert!(line.ends_with(['.', ':']), "{line}"),
            }
        }
    }

    #[test]
    fn settings_are_checked_at_once() {
        assert_eq!(sysctl("tcp_sack=0"), Ok(("tcp_sack".into(), "0".into())));
        assert!(sysctl("tcp_sack").unwrap_err().contains("KEY=VALUE"));
        assert!(sysctl("tcp_sack=maybe").unwrap_err().contains("from 0 to 255"));
        let wrong = sysctl("tcp_sakc=1").unwrap_err();
        assert!(wrong.contains("near it: tcp_sack") && wrong.len() < 200, "{wrong}");
    }
}
