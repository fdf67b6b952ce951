//! The options of `sctp-send` and `ss`.
use super::Net;
use clap::Args;
use lowwater::sctp::SctpCongestionKind;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const SEND: &str = "\
Examples:
  sudo lowwater serve --tun lwa --addr 10.9.1.2/24 --sctp 7 &       echo on 7, discard on 9
  sudo sysctl net.ipv4.ip_forward=1                                 the kernel is the router
  sudo lowwater sctp-send --tun lwb --addr 10.9.2.2/24 10.9.1.2:9   1,000 messages of 1,000 bytes
  sudo lowwater sctp-send --tun lwb --addr 10.9.2.2/24 --duration 10 --streams 8 10.9.1.2:9
  sudo lowwater sctp-send --tun lwb --addr 10.9.2.2/24 --echo --hash 10.9.1.2:7
  sudo lowwater sctp-send --tun lwb --addr 10.9.2.2/24 --duration 10 --congestion bbr 10.9.1.2:9
Two paths, from a serve --tun lwa --addr 10.9.1.2/24 --addr 10.9.4.2/24 --sctp 7:
  sudo lowwater sctp-send --tun lwb --addr 10.9.2.2/24 --addr 10.9.3.2/24 10.9.1.2:9 10.9.4.2:9

Several addresses of the peer are those of one association, and each is a path; it is told of all --addr of the stack.
Over UDP: --set sctp.udp_port=9899 on both sides, and --set sctp.encap_port=9899 here.
--hash prints the sum of the SHA-256 of all messages, each with its stream, and unless --unordered with its number there.
Ctrl-C stops sending and closes in good order; a second one aborts. Exit code 130 then.";

pub(super) const SS: &str = "\
Examples:
  sudo lowwater serve --tun lw0 --addr 10.9.0.2/24 --sctp 7 --stats stats.json &
  lowwater ss stats.json              connections and associations
  lowwater ss --sctp -i stats.json    associations with each of their paths
  lowwater ss -ti stats.json          connections: why each waits, and what Linux's ss -ti tells
  lowwater ss -s stats.json           how many sockets there are, and what they hold
  lowwater ss --tcp --json stats.json | jq '[.remote, .waits_for, .info.cwnd, .info.notsent]'
  watch -n1 lowwater ss -i stats.json

Times are milliseconds; rates are bits per second here, bytes per second in JSON.
What is 0 or unknown is left out of the line of ss -ti and of those of paths; JSON has everything.";

/// `lowwater sctp-send`.
#[derive(Debug, Args)]
pub(crate) struct SctpSend {
    #[command(flatten)]
    pub(crate) net: Net,
    /// The peer's addresses, all with one port, as 10.9.1.2:9 or [fd00:9::2]:9; the first is tried first
    #[arg(required = true, value_name = "ADDR:PORT", value_parser = peer)]
    pub(crate) peers: Vec<SocketAddr>,
    /// Addresses of the stack that the peer is told of (may be repeated) [default: all]
    #[arg(long, value_name = "IP")]
    pub(crate) local: Vec<IpAddr>,
    #[command(flatten)]
    pub(crate) messages: Messages,
    /// What moves the windows of its paths: rfc9260, cubic or bbr [default: sctp.congestion_control]
    #[arg(long, value_name = "NAME", value_parser = congestion)]
    pub(crate) congestion: Option<SctpCongestionKind>,
    /// The peer is an echo service: wait for everything to come back, and fail unless it is what was sent
    #[arg(long)]
    pub(crate) echo: bool,
    /// Print a hash of what was sent (and with --echo compare it with what came back)
    #[arg(long)]
    pub(crate) hash: bool,
    /// One JSON object on stdout instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `sctp-send` sends.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Messages {
    /// Bytes of each message
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub(crate) size: u32,
    /// Messages [default: 1000]
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Seconds to send for, instead of a count
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) duration: Option<Duration>,
    /// Streams that take turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) streams: u16,
    /// Payload protocol identifier
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) ppid: u32,
    /// Unordered messages
    #[arg(long)]
    pub(crate) unordered: bool,
    /// Give a message up that was not sent, or lost and not sent again, in so many ms [default: never]
    #[arg(long, value_name = "MS", conflicts_with = "echo", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) lifetime: Option<u32>,
}

/// `lowwater ss`.
#[derive(Debug, Args)]
pub(crate) struct Ss {
    /// The file that `serve --stats FILE` writes, or the socket of `serve --control SOCKET`
    #[arg(value_name = "FILE|SOCKET")]
    pub(crate) file: PathBuf,
    /// Only TCP connections
    #[arg(short, long, conflicts_with = "sctp")]
    pub(crate) tcp: bool,
    /// Only SCTP associations
    #[arg(long)]
    pub(crate) sctp: bool,
    /// More of each: why it waits, what Linux's ss -ti tells of a connection, and the paths of an association
    #[arg(short, long)]
    pub(crate) info: bool,
    /// Instead of them how many sockets there are and what they hold, as /proc/net/sockstat has it
    #[arg(short, long, conflicts_with_all = ["tcp", "sctp", "info"])]
    pub(crate) summary: bool,
    /// One JSON object per connection or association
    #[arg(long)]
    pub(crate) json: bool,
}

/// What moves the windows of an association's paths, by its name.
pub(super) fn congestion(text: &str) -> Result<SctpCongestionKind, String> {
    let all = SctpCongestionKind::ALL;
    let wrong = || format!("'{text}' is none of {}", all.map(SctpCongestionKind::name).join(", "));
    all.into_iter().find(|kind| kind.name() == text).ok_or_else(wrong)
}

/// An address with its port.
fn peer(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "'{text}' is no address with a port, as 10.9.1.2:9 or [fd00:9::2]:9 (names are not looked up)"
        )
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no number of seconds above 0, as 10 or 0.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|d| !d.is_zero()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_windows_has_a_name() {
        assert_eq!(congestion("bbr"), Ok(SctpCongestionKind::Bbr));
        assert_eq!(congestion("reno"), Err("'reno' is none of rfc9260, cubic, bbr".to_owned()));
    }

    #[test]
    fn a_peer_has_a_port() {
        assert!(peer("10.9.1.2:9").is_ok() && peer("[fd00:9::2]:9").is_ok());
        for wrong in ["10.9.1.2", "fd00:9::2:9x", "host:9", ""] {
            assert!(peer(wrong).is_err_and(|why| why.contains("with a port, as 10.9.1.2:9")), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_more_than_none() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "soon", "inf", "NaN"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
