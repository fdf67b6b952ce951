//! Every small life of a connection: two stacks, a few bytes, all orders of closing, and each of the first packets lost, doubled
//! or late, one or two faults at a time. Both sides always finish, bytes are exact, and nothing stays behind.
use super::peer::pattern;
use lowwater_core::base::{DeviceId, Duration, Error, Instant, SocketId, Sysctl};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::{Offload, Packet};
use lowwater_core::stack::{Config, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::{How, SendFlags, SocketOptions, State};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const DELAY: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Lose,
    Double,
    /// Later than its neighbours.
    Late,
    /// Later than a retransmission.
    VeryLate,
}
const FAULTS: [Fault; 4] = [Fault::Lose, Fault::Double, Fault::Late, Fault::VeryLate];

/// When a side closes its sending direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    /// As soon as it has written.
    First,
    /// When it has read the end of the peer's stream.
    Answer,
    /// It gives the socket up as soon as it has written; for a side to which nothing is sent.
    GiveUp,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    close: [Close; 2],
    bytes: [usize; 2],
    /// Both sides connect; else the first connects to the second, which listens.
    simultaneous: bool,
    /// Without SACK, timestamps, window scaling, tail loss probes.
    bare: bool,
}

const LIVES: [Life; 7] = [
    Life { close: [Close::First, Close::Answer], bytes: [300, 200], simultaneous: false, bare: false },
    Life { close: [Close::Answer, Close::First], bytes: [300, 200], simultaneous: false, bare: false },
    Life { close: [Close::First, Close::First], bytes: [300, 200], simultaneous: false, bare: false },
    Life { close: [Close::GiveUp, Close::Answer], bytes: [3_000, 0], simultaneous: false, bare: false },
    Life { close: [Close::Answer, Close::GiveUp], bytes: [0, 3_000], simultaneous: false, bare: false },
    Life { close: [Close::First, Close::First], bytes: [0, 0], simultaneous: false, bare: false },
    Life { close: [Close::First, Close::Answer], bytes: [300, 200], simultaneous: true, bare: false },
];

struct App {
    sock: Option<SocketId>,
    written: usize,
    read: usize,
    eof: bool,
    shut: bool,
    closed: bool,
}

struct World {
    now: Instant,
    stacks: [Stack; 2],
    apps: [App; 2],
    listener: Option<SocketId>,
    dev: DeviceId,
    flying: BTreeMap<(Instant, u64), (usize, Packet)>,
    sent: u64,
    faults: Vec<(u64, Fault)>,
    life: Life,
}

fn ip(side: usize) -> IpAddr {
    [10, 0, 0, side as u8 + 1].into()
}

impl World {
    fn new(life: Life, faults: Vec<(u64, Fault)>) -> Self {
        let now = Instant::from_millis(5_000);
        let mut dev = DeviceId(0);
        let stacks = [0, 1].map(|side| {
            let mut sysctl = Sysctl::default();
            if life.bare {
                (sysctl.tcp_timestamps, sysctl.tcp_early_retrans) = (0, 0);
                (sysctl.tcp_sack, sysctl.tcp_window_scaling) = (false, false);
            }
            let mut stack = Stack::new(Config { seed: side as u64 + 1, sysctl }, now);
            dev = stack.add_device(DeviceCaps::plain(1_500));
            stack.add_address(dev, ip(side), 24).unwrap();
            stack
        });
        let app = || App { sock: None, written: 0, read: 0, eof: false, shut: false, closed: false };
        let flying = BTreeMap::new();
        let apps = [app(), app()];
        let mut w = Self { now, stacks, apps, listener: None, dev, flying, sent: 0, faults, life };
        w.open();
        w
    }

    fn open(&mut self) {
        let now = self.now;
        let options = SocketOptions::new(self.stacks[0].sysctl());
        let ends = [SocketAddr::new(ip(0), 1_000), SocketAddr::new(ip(1), 80)];
        for side in 0..2 {
            if side == 0 || self.life.simultaneous {
                let (from, to) = (ends[side], ends[1 - side]);
                self.apps[side].sock =
                    Some(self.stacks[side].tcp_connect(now, to, Some(from), &options).unwrap());
            } else {
                let addr = ListenAddr { ip: None, port: Some(80) };
                let listen = ListenOptions { backlog: 4, ask: false, options: options.clone() };
                self.listener = Some(self.stacks[1].tcp_listen(now, addr, listen).unwrap());
            }
        }
    }

    /// One side's application does what it can.
    fn act(&mut self, side: usize) {
        let (now, stack, app) = (self.now, &mut self.stacks[side], &mut self.apps[side]);
        if app.sock.is_none()
            && let Some(listener) = self.listener
        {
            app.sock = stack.tcp_accept(now, listener).ok().map(|(id, _)| id);
        }
        let Some(sock) = app.sock.filter(|_| !app.closed) else { return };
        let total = self.life.bytes[side];
        if app.written < total {
            let data: Vec<u8> = (app.written..total).map(|i| pattern(i as u64)).collect();
            match stack.tcp_send(now, sock, &data, SendFlags::default()) {
                Ok(n) => app.written += n,
                Err(Error::WouldBlock) => {}
                Err(e) => panic!("side {side} writing: {e}"),
            }
        }
        let mut buf = [0; 4_096];
        while !app.eof {
            match stack.tcp_recv(now, sock, &mut buf, false) {
                Ok(0) => app.eof = true,
                Ok(n) => {
                    for &byte in &buf[..n] {
                        assert_eq!(byte, pattern(app.read as u64), "side {side}, byte {}", app.read);
                        app.read += 1;
                    }
                }
                Err(Error::WouldBlock) => break,
                Err(e) => panic!("side {side} reading: {e}"),
            }
        }
        if app.written < total {
            return;
        }
        match self.life.close[side] {
            Close::First if !app.shut => app.shut = stack.shutdown(now, sock, How::Write).is_ok(),
            // Not before it is connected: that would be no connection at all.
            Close::GiveUp if stack.tcp_state(sock) != Ok(State::SynSent) => {
                stack.close(now, sock).unwrap();
                app.closed = true;
            }
            _ => {}
        }
        if app.eof && !app.closed {
            stack.close(now, sock).unwrap();
            app.closed = true;
        }
    }

    fn launch(&mut self, side: usize, bytes: bytes::Bytes) {
        let n = self.sent;
        self.sent += 1;
        let fault = self.faults.iter().find(|(at, _)| *at == n).map(|f| f.1);
        let packet = Packet::received(bytes, Offload::default(), self.now);
        let mut fly = |delay: Duration, tie: u64| {
            self.flying.insert((self.now + delay, n * 2 + tie), (1 - side, packet.clone()));
        };
        match fault {
            Some(Fault::Lose) => {}
            None => fly(DELAY, 0),
            Some(Fault::Double) => {
                fly(DELAY, 0);
                fly(DELAY + Duration::from_millis(3), 1);
            }
            Some(Fault::Late) => fly(DELAY * 5 / 2, 0),
            Some(Fault::VeryLate) => fly(Duration::from_millis(1_500), 0),
        }
    }

    fn exchange(&mut self) {
        loop {
            let mut any = false;
            for side in 0..2 {
                self.act(side);
                let mut got = Vec::new();
                let mut device = |_: Instant, packet: Packet| {
                    got.push(packet.to_bytes());
                    Submit::Completed
                };
                self.stacks[side].transmit(self.now, self.dev, 64, &mut device);
                while self.stacks[side].next_event().is_some() {}
                any |= !got.is_empty();
                for bytes in got {
                    self.launch(side, bytes);
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Runs until nothing will ever happen again.
    fn run(&mut self) {
        let end = self.now + Duration::from_secs(600);
        for _ in 0..5_000 {
            self.exchange();
            let arrival = self.flying.first_key_value().map(|(k, _)| k.0);
            let next = [arrival, self.stacks[0].next_deadline(), self.stacks[1].next_deadline()];
            let Some(next) = next.into_iter().flatten().min() else { return };
            assert!(next < end, "it goes on for ever");
            self.now = self.now.max(next);
            while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
                let (to, mut packet) = entry.remove();
                packet.at = self.now;
                self.stacks[to].receive(self.now, self.dev, packet);
            }
            for stack in &mut self.stacks {
                stack.handle_timeout(self.now);
            }
        }
        panic!("too many steps");
    }

    fn check(&mut self) {
        for side in 0..2 {
            let app = &self.apps[side];
            assert_eq!(app.written, self.life.bytes[side], "side {side} wrote");
            let listener = usize::from(self.listener.is_some() && side == 1);
            assert_eq!(self.stacks[side].open_sockets(), listener, "sockets of side {side}");
            assert_eq!(self.stacks[side].small_objects(), (0, 0, 0), "objects of side {side}");
            if self.life.close[side] != Close::GiveUp {
                assert!(app.eof && app.closed, "side {side} has not seen the end");
                assert_eq!(app.read, self.life.bytes[1 - side], "side {side} read");
            }
        }
    }
}

/// One life with these faults; the message of a failure says how to repeat it.
fn live(life: Life, faults: &[(u64, Fault)]) -> Result<u64, String> {
    let faults = faults.to_vec();
    let text = format!("live({life:?}, &{faults:?})");
    std::panic::catch_unwind(|| {
        let mut w = World::new(life, faults);
        w.run();
        w.check();
        w.sent
    })
    .map_err(|_| text)
}

fn explore(life: Life) {
    let sent = live(life, &[]).unwrap();
    assert!((5..=14).contains(&sent), "{sent} packets without faults");
    let first = sent.min(9);
    let mut bad = Vec::new();
    for a in 0..first {
        for fault in FAULTS {
            bad.extend(live(life, &[(a, fault)]).err());
            for b in a + 1..first + 2 {
                for other in FAULTS {
                    bad.extend(live(life, &[(a, fault), (b, other)]).err());
                }
            }
        }
        assert!(bad.is_empty(), "{} lives failed:\n{}", bad.len(), bad[..bad.len().min(8)].join("\n"));
    }
}

#[test]
fn the_client_closes_first() {
    explore(LIVES[0]);
}

#[test]
fn the_server_closes_first() {
    explore(LIVES[1]);
}

#[test]
fn both_close_at_once() {
    explore(LIVES[2]);
}

#[test]
fn the_client_gives_up_its_socket() {
    explore(LIVES[3]);
}

#[test]
fn the_server_gives_up_its_socket() {
    explore(LIVES[4]);
}

#[test]
fn nothing_but_fins() {
    explore(LIVES[5]);
}

#[test]
fn both_open_at_once() {
    explore(LIVES[6]);
}

#[test]
fn peers_without_options() {
    for life in [LIVES[0], LIVES[2], LIVES[3], LIVES[6]] {
        explore(Life { bare: true, ..life });
    }
}

#[test]
fn three_losses() {
    for life in [LIVES[0], LIVES[2], LIVES[4], LIVES[6]] {
        for a in 0..8 {
            for b in a + 1..9 {
                for c in b + 1..10 {
                    for fault in [Fault::Lose, Fault::VeryLate] {
                        live(life, &[(a, Fault::Lose), (b, Fault::Lose), (c, fault)]).unwrap();
                    }
                }
            }
        }
    }
}
