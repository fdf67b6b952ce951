//! Bulk transfer between two stacks in one process and one thread: Gbit/s, allocations, and bytes per idle connection.
#![forbid(unsafe_code)]
use bytes::Bytes;
use lowwater_bench::args;
use lowwater_bench::counting::{self, INSTRUMENTED_SYSTEM, StatsAlloc, System};
use lowwater_bench::duo::Duo;
use lowwater_bench::hash::Hash;
use lowwater_core::base::{Instant, Sysctl};
use lowwater_core::tcp::SendFlags;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WRITE: usize = 262_144;

fn main() {
    args::check("pair [--gb N] [--mtu N] [--flows N]");
    let gigabytes = args::number("--gb", 8, 1, 1_000_000);
    let mtu = args::number("--mtu", 1500, 576, 65_535) as u16;
    let flows = args::number("--flows", 1, 1, 10_000) as usize;
    idle(4_096);
    bulk(gigabytes * 1_000_000_000, mtu, flows, false);
    bulk(gigabytes * 1_000_000_000, mtu, flows, true);
}

fn idle(n: usize) {
    let mut duo = Duo::new(1500, &Sysctl::default());
    duo.connect(100);
    let before = counting::live_bytes();
    let ends = {
        let mut duo2 = Duo::new(1500, &Sysctl::default());
        let base = counting::live_bytes();
        let ends = duo2.connect(n);
        let at = duo2.now.plus_nanos(1_000_000_000);
        duo2.turn(at);
        println!(
            "idle: {} bytes per end of {n} connections",
            (counting::live_bytes() - base) / (2 * n as u64)
        );
        ends
    };
    drop(ends);
    assert!(counting::live_bytes() <= before + 65_536, "nothing stays behind");
}

fn bulk(total: u64, mtu: u16, flows: usize, owned: bool) {
    let mut duo = Duo::new(mtu, &Sysctl::default());
    let ends = duo.connect(flows);
    let data: Vec<u8> = (0..WRITE).map(|i| (i * 31) as u8).collect();
    let whole = Bytes::from(data.clone());
    let start = std::time::Instant::now();
    let base = duo.now;
    let (mut received, mut hash, calls) = (0u64, Hash::new(), counting::calls());
    let mut buf = vec![0; WRITE];
    while received < total {
        let at: Instant = base.plus_nanos(start.elapsed().as_nanos() as u64);
        for &(client, _) in &ends {
            if owned {
                let mut piece = whole.clone();
                let _ = duo.stacks[0].tcp_send_bytes(at, client, &mut piece, SendFlags::default());
            } else {
                let _ = duo.stacks[0].tcp_send(at, client, &data, SendFlags::default());
            }
        }
        duo.turn(at);
        for &(_, server) in &ends {
            if owned {
                while let Ok(Some(piece)) = duo.stacks[1].tcp_read_chunk(at, server, usize::MAX) {
                    received += piece.len() as u64;
                    hash.update(&piece);
                }
            } else {
                while let Ok(n) = duo.stacks[1].tcp_recv(at, server, &mut buf, false) {
                    if n == 0 {
                        break;
                    }
                    received += n as u64;
                    hash.update(&buf[..n]);
                }
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let calls = counting::calls() - calls;
    let count = duo.stacks[0].counters();
    let copied: u64 = duo.stacks.iter().map(|stack| counting::copied_bytes(stack.counters())).sum();
    println!(
        "mtu {mtu} flows {flows} {}: {:.1} Gbit/s, {} packets, {} segments, {} retransmitted, {calls} allocations ({:.2} per packet), \
         {:.3} copies of each byte, hash {:016x}",
        if owned { "Bytes" } else { "slices" },
        received as f64 * 8.0 / seconds / 1e9,
        count.ip.out_requests,
        count.tcp.out_segs,
        count.tcp.retrans_segs,
        calls as f64 / count.ip.out_requests as f64,
        copied as f64 / received as f64,
        hash.value(),
    );
}
