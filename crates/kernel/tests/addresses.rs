//! Drawn sequences of calls about addresses: bind, connect, listen and what dissolves a connection, on sockets of both families that share
//! ports. The stack answers as the kernel does.
//!
//! A failure prints the shortest part of its sequence that still shows a difference. `SEQUENCES=FROM..TO` draws others.
#![cfg(target_os = "linux")]
mod pair;

use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Fd, Name, Optval, Piece, SendKind};
use pair::{Act, Dice, Pair, Step, seeds};

/// Worlds: with addresses of IPv4, of IPv6, of both.
const WORLDS: [[bool; 2]; 3] = [[true, true], [true, false], [false, true]];

const V4: [&str; 8] =
    ["0.0.0.0", "0.0.0.0", "127.0.0.1", "127.0.0.1", "127.0.0.2", "10.0.0.1", "10.0.0.2", "10.0.0.9"];
const V6: [&str; 14] = [
    "::",
    "::",
    "::1",
    "::1",
    OWN,
    "fd00::2",
    "fd00::9",
    "::ffff:0.0.0.0",
    "::ffff:0.0.0.0",
    "::ffff:127.0.0.1",
    "::ffff:127.0.0.2",
    "::ffff:10.0.0.1",
    "::ffff:10.0.0.2",
    "0.0.0.0",
];

/// Our own address of IPv6.
const OWN: &str = "fd00::1";
/// What is no address, or one of IPv4 without its family.
const UNFIT: [Name; 7] = [
    Name::UNSPEC,
    Name::Bad,
    Name::Short(2, 15),
    Name::Other(1, 28),
    Name::Unspec(None, 2),
    Name::Unspec(Some(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 80)), 28),
    Name::Unspec(Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80)), 28),
];

struct Drawn {
    dice: Dice,
    steps: Vec<Step>,
    /// Index, IPv6, stream.
    socks: Vec<(usize, bool, bool)>,
    /// Those that were shut down.
    shut: Vec<usize>,
}

impl Drawn {
    fn push(&mut self, call: Call) {
        self.steps.push(Step::Call(call));
    }

    fn socket(&mut self, stream: bool) {
        let v6 = !self.dice.odd(3);
        let domain = if v6 { AF_INET6 } else { AF_INET };
        let ty = if stream { SOCK_STREAM } else { SOCK_DGRAM };
        self.socks.push((self.steps.len(), v6, stream));
        self.push(Call::Socket { domain, ty: ty | SOCK_NONBLOCK, protocol: 0 });
    }

    fn name(&mut self, v6: bool, ports: &[u16]) -> Name {
        if self.dice.odd(40) {
            return self.dice.one(&UNFIT);
        }
        let ip = if v6 { self.dice.one(&V6) } else { self.dice.one(&V4) };
        let ip: IpAddr = ip.parse().unwrap();
        Name::Inet((ip, self.dice.one(ports)).into())
    }

    fn option(&mut self, fd: Fd, stream: bool) {
        let (level, name) = self.dice.one(&[
            (SOL_SOCKET, SO_REUSEADDR),
            (SOL_SOCKET, SO_REUSEADDR),
            (SOL_SOCKET, SO_REUSEPORT),
            (SOL_SOCKET, SO_REUSEPORT),
            (SOL_IPV6, IPV6_V6ONLY),
            (SOL_IPV6, IPV6_V6ONLY),
            // Nobody listens at what is no address of ours.
            if stream { (SOL_SOCKET, SO_REUSEADDR) } else { (SOL_IP, IP_FREEBIND) },
            (SOL_IP, IP_BIND_ADDRESS_NO_PORT),
        ]);
        let value = Optval::int(self.dice.one(&[1, 1, 1, 0]));
        self.push(Call::Setsockopt { fd, level, name, value });
    }

    /// Whom a socket may connect to: what is left out differs on purpose (docs/linux-differences.md).
    fn peer(&mut self, index: usize, v6: bool, stream: bool) -> Name {
        // Who was shut down must not meet itself, and nobody is bound to the third port.
        let ports: &[u16] = if self.shut.contains(&index) { &[3] } else { &[1, 1, 2, 3] };
        loop {
            let name = self.name(v6, ports);
            let Some(addr) = name.inet() else { return name };
            // A socket of both families stays with one.
            let other = v6 && addr.ip().to_canonical().is_ipv4() != index.is_multiple_of(2);
            let from_loopback = stream && addr.ip() == OWN.parse::<IpAddr>().unwrap();
            if !other && !from_loopback {
                return name;
            }
        }
    }

    fn call(&mut self) {
        let (index, v6, stream) = self.dice.one(&self.socks.clone());
        let fd = index as Fd;
        match self.dice.below(20) {
            0..=2 => self.option(fd, stream),
            3..=7 => {
                let addr = self.name(v6, &[0, 1, 1, 1, 2]);
                self.push(Call::Bind { fd, addr });
            }
            8..=11 => {
                let addr = self.peer(index, v6, stream);
                self.push(Call::Connect { fd, addr });
            }
            12 | 13 => self.push(Call::Connect { fd, addr: Name::UNSPEC }),
            14 | 15 if stream => self.push(Call::Listen { fd, backlog: 5 }),
            14 | 15 => {
                let to = Some(self.name(v6, &[1, 1, 2, 3]));
                self.push(Call::Send {
                    fd,
                    kind: SendKind::Sendto,
                    data: vec![Piece::zeros(3)],
                    flags: 0,
                    to,
                    control: vec![],
                });
            }
            16 => {
                let how = self.dice.one(&[0, 1, 2]);
                self.push(Call::Shutdown { fd, how });
                self.shut.push(index);
            }
            17 => {
                let (level, name) =
                    self.dice.one(&[(SOL_SOCKET, SO_ERROR), (SOL_IPV6, IPV6_V6ONLY), (SOL_IP, IP_PROTOCOL)]);
                self.push(Call::Getsockopt { fd, level, name, len: 4 });
            }
            18 => {
                self.push(Call::Close { fd });
                self.socks.retain(|s| s.0 != index);
                self.socket(stream);
            }
            _ => {
                let (port, six) = (self.dice.one(&[1, 2, 3]), self.dice.odd(2));
                self.steps.push(Step::Peer(port, six, Act::Rst));
            }
        }
    }
}

fn draw(seed: u64) -> Vec<Step> {
    let mut drawn = Drawn { dice: Dice::new(seed), steps: Vec::new(), socks: Vec::new(), shut: Vec::new() };
    let stream = drawn.dice.odd(2);
    let many = 1 + drawn.dice.below(3);
    for _ in 0..many {
        let mixed = drawn.dice.odd(10);
        drawn.socket(stream != mixed);
    }
    let calls = 3 + drawn.dice.below(5);
    for _ in 0..calls {
        drawn.call();
    }
    drawn.steps
}

#[test]
fn addresses_are_the_kernels() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let mut failed = Vec::new();
    for (at, families) in WORLDS.into_iter().enumerate() {
        let mut pair = Pair::new(families);
        for seed in seeds(0..400) {
            let steps = draw(seed * 3 + at as u64);
            if let Some(found) = pair.find(&steps) {
                println!("seed {seed} world {at}:\n{}\n", found.join("\n"));
                failed.push((at, seed));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}: {} sequences differ", failed.len());
}
