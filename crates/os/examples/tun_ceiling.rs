//! Prints what the TUN device itself can carry with 64 KiB super-packets on one thread, as a ceiling for the stack.
//!
//! Run as root: `cargo run --release -p lowwater-os --example tun_ceiling`
#[path = "../tests/craft/mod.rs"]
mod craft;

use bytes::Bytes;
use craft::{ACK, Peer, RST, SYN, complete, parse};
use lowwater_core::base::{Duration, Instant};
use lowwater_core::device::{Device as _, Submit};
use lowwater_core::packet::Packet;
use lowwater_os::netns::{NetNs, can_net_admin};
use lowwater_os::{Clock, Interest, Poller, Tun, TunOptions};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Neither the kernel's nor the stack's: the kernel routes and drops it.
const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RUN: Duration = Duration::from_secs(2);

fn main() {
    if let Err(lack) = can_net_admin() {
        eprintln!("needs {lack}");
        std::process::exit(77);
    }
    for offload in [true, false] {
        NetNs::new().expect("namespace").run(|| {
            let mut tun = open(offload);
            println!("{}:", if offload { "64 KiB super-packets" } else { "1500-byte packets" });
            write_ceiling(&mut tun, if offload { 65_000 } else { 1_440 });
            for held in [0, 64, 1_000] {
                read_ceiling(&mut tun, held);
            }
        });
    }
}

fn open(offload: bool) -> Tun {
    let tun = Tun::open(&TunOptions { offload, ..TunOptions::new("") }).expect("device");
    let link = tun.link().expect("link");
    link.up().expect("up");
    link.add_address(KERNEL.into(), 24).expect("address");
    tun
}

fn write_ceiling(tun: &mut Tun, len: usize) {
    let mut peer = Peer { me: (STACK, 80), them: (NOBODY, 80), snd_nxt: 0, rcv_nxt: 0 };
    let packet = peer.segment(ACK, Bytes::from(vec![7; len]));
    let meter = Meter::start(tun);
    while meter.clock.now() < Instant::ZERO + RUN {
        assert!(matches!(tun.submit(Instant::ZERO, packet.clone()), Submit::Completed));
    }
    meter.print("write, dropped by the kernel's routing", tun);
}

/// A kernel thread sends as fast as it can; we acknowledge, and hold the last `held` frames as a receive queue would.
fn read_ceiling(tun: &mut Tun, held: usize) {
    let (clock, mut poller, mut events) = (Clock::start(), Poller::new().expect("poller"), Vec::new());
    poller.add(&*tun, 1, Interest::Read).expect("add");
    let sender = std::thread::spawn(|| {
        let mut stream = TcpStream::connect((STACK, 80)).expect("connect");
        let chunk = vec![7; 1 << 20];
        while stream.write_all(&chunk).is_ok() {}
    });
    let (mut peer, mut queue, mut meter) = (None::<Peer>, VecDeque::<Packet>::new(), Meter::start(tun));
    let mut batch = Vec::new();
    while clock.now() < Instant::ZERO + RUN {
        poller.wait(&clock, Some(Instant::ZERO + RUN), &mut events).expect("wait");
        tun.recv_batch(clock.now(), 64, usize::MAX, &mut batch).expect("recv");
        let mut ack = false;
        for packet in batch.drain(..) {
            let Some(segment) = parse(&packet) else { continue };
            if segment.flags == SYN {
                let mut accepted = Peer::accept(STACK, KERNEL, &segment);
                answer(tun, accepted.segment(SYN | ACK, Bytes::new()));
                peer = Some(accepted);
                meter = Meter::start(tun);
            } else if let Some(peer) = peer.as_mut().filter(|p| p.them.1 == segment.ports.0) {
                ack |= peer.take(&segment);
                queue.push_back(packet);
                queue.drain(..queue.len().saturating_sub(held));
            }
        }
        if let Some(peer) = peer.as_mut().filter(|_| ack) {
            answer(tun, peer.segment(ACK, Bytes::new()));
        }
    }
    meter.print(&format!("read, holding {held} frames"), tun);
    // A reset ends the sender's write.
    if let Some(peer) = &mut peer {
        answer(tun, peer.segment(ACK | RST, Bytes::new()));
    }
    sender.join().expect("sender");
}

fn answer(tun: &mut Tun, packet: Packet) {
    let packet = if tun.offload() { packet } else { complete(packet) };
    assert!(matches!(tun.submit(Instant::ZERO, packet), Submit::Completed));
}

struct Meter {
    clock: Clock,
    faults: u64,
    frames: u64,
    bytes: u64,
    copied: u64,
}

impl Meter {
    fn start(tun: &Tun) -> Self {
        let c = tun.counters();
        let (frames, bytes) = (c.frames_in + c.frames_out, c.bytes_in + c.bytes_out);
        Self { clock: Clock::start(), faults: faults(), frames, bytes, copied: c.copied }
    }

    fn print(&self, what: &str, tun: &Tun) {
        let (seconds, c) = (self.clock.now().as_nanos() as f64 / 1e9, tun.counters());
        let frames = (c.frames_in + c.frames_out - self.frames) as f64;
        let bytes = (c.bytes_in + c.bytes_out - self.bytes) as f64;
        println!(
            "  {what:40} {:6.1} Gbit/s  {:8.0} frames/s  {:6.0} bytes/frame  {:.2} faults/frame  {:.2} copied/frame",
            bytes * 8.0 / 1e9 / seconds,
            frames / seconds,
            bytes / frames,
            (faults() - self.faults) as f64 / frames,
            (c.copied - self.copied) as f64 / frames,
        );
    }
}

/// Minor page faults of this thread so far.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    stat.rsplit(')')
        .next()
        .and_then(|s| s.split_whitespace().nth(7))
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}
