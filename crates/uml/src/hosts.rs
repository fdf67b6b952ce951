//! Hosts as network namespaces of the guest, links as pairs of veths, and what can be read and set there.
use lowwater_os::netns::NetNs;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::Command;
use std::time::Duration;

/// Settings whose defaults depend on the memory of the machine: those of the experiments' common set-up.
const COMMON: [(&str, &str); 3] = [
    ("tcp_rmem", "4096 131072 6291456"),
    ("tcp_wmem", "4096 16384 4194304"),
    ("tcp_limit_output_bytes", "1048576"),
];

/// The hosts have met by then.
const MEET_MAX: Duration = Duration::from_secs(5);

/// Sets `net.NAME` for all hosts, where the kernel has but one of it.
pub(crate) fn set_for_all(name: &str, value: &str) -> Result<(), String> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value).map_err(|e| format!("{path} = {value}: {e}"))
}

/// Sender, router and receiver; the delay is on the receiver's way out.
pub(crate) struct Line {
    pub(crate) a: Host,
    pub(crate) r: Host,
    pub(crate) b: Host,
}

impl Line {
    /// The receiver's address.
    pub(crate) const FAR: &str = "10.0.1.2";

    /// The delay is that of the whole way there and back; packets may have so many bytes.
    pub(crate) fn new(delay: Duration, mtu: u32) -> Result<Self, String> {
        let (a, r, b) = (Host::new()?, Host::new()?, Host::new()?);
        a.link(("va", "10.0.0.1/24"), &r, ("ra", "10.0.0.254/24"))?;
        b.link(("vb", "10.0.1.2/24"), &r, ("rb", "10.0.1.254/24"))?;
        for (host, device) in [(&a, "va"), (&r, "ra"), (&r, "rb"), (&b, "vb")] {
            host.command(&format!("ip link set {device} mtu {mtu}"))?;
        }
        r.set("ip_forward", "1")?;
        a.command("ip route add default via 10.0.0.254")?;
        b.command("ip route add default via 10.0.1.254")?;
        b.command(&format!("tc qdisc add dev vb root netem delay {}us limit 100000", delay.as_micros()))?;
        let line = Self { a, r, b };
        line.meet(delay)?;
        Ok(line)
    }
}

impl Line {
    /// All hosts learn their neighbours' addresses: the simulator has nobody to ask, and here questions are delayed too, so that the
    /// first flows would begin round trips late and together.
    fn meet(&self, delay: Duration) -> Result<(), String> {
        let said = self.b.run(|| -> std::io::Result<()> {
            let far = UdpSocket::bind((Self::FAR, 9))?;
            far.set_read_timeout(Some(MEET_MAX))?;
            let near = self.a.run(|| UdpSocket::bind(("0.0.0.0", 0)))?;
            near.set_read_timeout(Some(MEET_MAX))?;
            near.send_to(&[1], (Self::FAR, 9))?;
            let (_, from) = far.recv_from(&mut [0])?;
            far.send_to(&[1], from)?;
            near.recv_from(&mut [0]).map(drop)
        });
        std::thread::sleep(delay);
        said.map_err(|e| format!("the hosts of the guest do not reach each other: {e}"))
    }
}

/// One host.
pub(crate) struct Host {
    ns: NetNs,
}

impl Host {
    /// A host without links, with the settings of the common set-up.
    pub(crate) fn new() -> Result<Self, String> {
        let host = Self { ns: NetNs::new().map_err(|e| e.to_string())? };
        for (name, value) in COMMON {
            host.set(name, value)?;
        }
        Ok(host)
    }

    /// Sets `net.ipv4.NAME`.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), String> {
        self.set_in("ipv4", name, value)
    }

    /// Sets `net.sctp.NAME`.
    pub(crate) fn set_sctp(&self, name: &str, value: &str) -> Result<(), String> {
        self.set_in("sctp", name, value)
    }

    /// Sets `net.FOLDER.NAME`.
    pub(crate) fn set_in(&self, folder: &str, name: &str, value: &str) -> Result<(), String> {
        let path = format!("/proc/sys/net/{folder}/{name}");
        self.ns.run(|| fs::write(&path, value)).map_err(|e| format!("{path} = {value}: {e}"))
    }

    /// Runs `f` on a thread of the host.
    pub(crate) fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.ns.run(f)
    }

    /// Runs a command of the host and returns what it printed.
    pub(crate) fn command(&self, line: &str) -> Result<String, String> {
        let mut words = line.split_whitespace();
        let program = words.next().unwrap_or_default();
        let output =
            self.run(|| Command::new(program).args(words).output()).map_err(|e| format!("{program}: {e}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }

    /// Links `self` to `other`: each end has its name and address.
    pub(crate) fn link(&self, end: (&str, &str), other: &Self, far: (&str, &str)) -> Result<(), String> {
        let place = |host: &Self| format!("/proc/{}/fd/{}", std::process::id(), host.ns.as_fd().as_raw_fd());
        self.command(&format!("ip link add {} type veth peer name {} netns {}", end.0, far.0, place(other)))?;
        for (host, (name, address)) in [(self, end), (other, far)] {
            host.command(&format!("ip addr add {address} dev {name}"))?;
            host.command(&format!("ip link set {name} up"))?;
        }
        Ok(())
    }

    /// A counter as `/proc/net/snmp` has it, as `("Ip", "OutRequests")`.
    pub(crate) fn counter(&self, group: &str, name: &str) -> Result<u64, String> {
        let path = "/proc/thread-self/net/snmp";
        let text = self.run(|| fs::read_to_string(path)).map_err(|e| format!("{path}: {e}"))?;
        let mut lines = text.lines().filter(|line| line.split(':').next() == Some(group));
        let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        names
            .split_whitespace()
            .zip(values.split_whitespace())
            .find(|(column, _)| *column == name)
            .and_then(|(_, value)| value.parse().ok())
            .ok_or_else(|| format!("{path} has no {group} {name}"))
    }

    /// A counter of SCTP by its whole name.
    pub(crate) fn sctp_counter(&self, name: &str) -> Result<u64, String> {
        let path = "/proc/thread-self/net/sctp/snmp";
        let text = self.run(|| fs::read_to_string(path)).map_err(|e| format!("{path}: {e}"))?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| format!("{path} has no {name}"))
    }

    /// Bytes in the queue of a device.
    pub(crate) fn backlog(&self, device: &str) -> Result<f64, String> {
        let text = self.command(&format!("tc -s -j qdisc show dev {device}"))?;
        let queues: Value = serde_json::from_str(&text).map_err(|e| format!("tc's JSON: {e}"))?;
        let root = queues.as_array().into_iter().flatten().find(|q| q["root"].as_bool() == Some(true));
        root.and_then(|q| q["backlog"].as_f64()).ok_or_else(|| "tc shows no backlog".to_owned())
    }
}
