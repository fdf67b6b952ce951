//! Work for bulk data over so many flows, beside so many idle connections: run under callgrind.
//!
//! `bulk_cost FLOWS IDLE AT_ONCE [keeps|aware]`: the device says that packets wait in it, and the queue-aware limit is on; writes of ten segments, each to the next flow, so many before the stacks carry packets; every
//! write is one packet, so that only the number of flows differs.
#![forbid(unsafe_code)]
use bytes::Bytes;
use lowwater_bench::duo::Duo;
use lowwater_core::base::{SocketId, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_core::tcp::SendFlags;

/// Writes that are counted.
const WRITES: usize = 10_000;
/// Writes of each flow before: windows are open and the acknowledgements of the beginning are over.
const WARM: usize = 4;
/// Ten segments: what fits the first window too.
const WRITE: usize = 14_480;
/// Idle connections to one port: beyond half of the source ports the search for a free one grows long.
const PER_PORT: usize = 10_000;

fn main() {
    let mut numbers = std::env::args().skip(1).take(3).map(|word| word.parse::<usize>().expect("a number"));
    let mut next = |name| numbers.next().unwrap_or_else(|| panic!("{name} is missing"));
    let (flows, idle, at_once) = (next("FLOWS"), next("IDLE"), next("AT_ONCE"));
    let word = std::env::args().nth(4).unwrap_or_default();
    let caps =
        DeviceCaps { keeps: matches!(word.as_str(), "keeps" | "aware"), ..DeviceCaps::offloading(1500) };
    let mut duo = Duo::over(caps, &Sysctl { tcp_queue_aware: word == "aware", ..Sysctl::default() });
    for (i, begin) in (0..idle).step_by(PER_PORT).enumerate() {
        duo.connect_to(1_000 + i as u16, (idle - begin).min(PER_PORT));
    }
    let ends = duo.connect(flows);
    let data = Bytes::from(vec![0x5a; WRITE]);
    for _ in 0..WARM {
        write(&mut duo, &ends, &data, at_once, 0..flows);
    }
    measured(&mut duo, &ends, &data, at_once);
    let packets = duo.stacks[0].counters().ip.out_requests;
    println!("{flows} flows, {idle} idle, {packets} packets in all");
}

/// What callgrind counts.
#[inline(never)]
fn measured(duo: &mut Duo, ends: &[(SocketId, SocketId)], data: &Bytes, at_once: usize) {
    write(duo, ends, data, at_once, 0..WRITES);
}

fn write(
    duo: &mut Duo,
    ends: &[(SocketId, SocketId)],
    data: &Bytes,
    at_once: usize,
    writes: std::ops::Range<usize>,
) {
    let mut begin = writes.start;
    while begin < writes.end {
        let end = (begin + at_once).min(writes.end);
        let now = duo.now.plus_nanos(20_000);
        for i in begin..end {
            let sent = duo.stacks[0].tcp_send_bytes(
                now,
                ends[i % ends.len()].0,
                &mut data.clone(),
                SendFlags::default(),
            );
            assert_eq!(sent, Ok(WRITE), "a window of ten segments takes it");
        }
        duo.turn(now);
        for i in begin..end {
            while let Ok(Some(_)) = duo.stacks[1].tcp_read_chunk(now, ends[i % ends.len()].1, usize::MAX) {}
        }
        // Acknowledgements that reading made due.
        duo.turn(now);
        begin = end;
    }
}
