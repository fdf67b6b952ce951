//! Work for paced data: run under callgrind.
//!
//! `paced_cost FLOWS QDISC MS`: flows of 48 Mbit/s above the discipline, for so many milliseconds of virtual time. `fq` paces itself, above any
//! other the transport does by a timer for each packet.
#![forbid(unsafe_code)]
use bytes::Bytes;
use lowwater_bench::duo::Duo;
use lowwater_core::base::sysctl::Triple;
use lowwater_core::base::{Duration, Instant, SocketId, Sysctl};
use lowwater_core::qdisc::Any;
use lowwater_core::tcp::{SendFlags, SocketOptions};

/// Bytes per second of a flow, as in the commit that pacing comes from.
const RATE: u64 = 48_000_000 / 8;
/// What each flow has to send: more than it can, so that nobody writes in the measured time.
const DATA: usize = 2 << 20;
/// Time before anything counts.
const WARM_UP: Duration = Duration::from_millis(20);

fn main() {
    let mut words = std::env::args().skip(1);
    let flows = words.next().and_then(|n| n.parse().ok()).expect("FLOWS is a number");
    let qdisc: Any = words.next().expect("QDISC").parse().expect("the words of tc");
    let ms = words.next().and_then(|n| n.parse().ok()).expect("MS is a number");
    // Memory bounds nothing.
    let pages = Triple { min: 4_000_000, default: 4_000_000, max: 4_000_000 };
    let sysctl = Sysctl { tcp_mem: pages, tcp_tso_rtt_log: 0, ..Sysctl::default() };
    let mut duo = Duo::new(1500, &sysctl);
    duo.stacks[0].set_qdisc(duo.dev, qdisc).expect("its device");
    let ends = duo.connect(flows);
    let data = Bytes::from(vec![0x5a; DATA]);
    for (client, _) in &ends {
        let (max_pacing_rate, sndbuf) = (RATE, Some(8 << 20));
        let options = SocketOptions { max_pacing_rate, sndbuf, ..SocketOptions::new(&sysctl) };
        duo.stacks[0].set_options(duo.now, *client, options).expect("open");
        let sent = duo.stacks[0].tcp_send_bytes(duo.now, *client, &mut data.clone(), SendFlags::default());
        assert_eq!(sent, Ok(DATA));
    }
    run(&mut duo, &ends, WARM_UP);
    let sent = |duo: &mut Duo| -> u64 {
        ends.iter()
            .filter_map(|(id, _)| duo.stacks[0].tcp_info(Instant::ZERO, *id).ok())
            .map(|i| i.bytes_sent)
            .sum()
    };
    let before = sent(&mut duo);
    measured(&mut duo, &ends, Duration::from_millis(ms));
    println!("{}", sent(&mut duo) - before);
}

/// What callgrind counts.
#[inline(never)]
fn measured(duo: &mut Duo, ends: &[(SocketId, SocketId)], time: Duration) {
    run(duo, ends, time);
}

fn run(duo: &mut Duo, ends: &[(SocketId, SocketId)], time: Duration) {
    let end = duo.now + time;
    while duo.now < end {
        while duo.turn(duo.now) > 0 {}
        let next = duo.stacks.iter().filter_map(|stack| stack.next_deadline()).min();
        let next = next.filter(|at| *at > duo.now).unwrap_or(duo.now.plus_nanos(1_000)).min(end);
        duo.turn(next);
        // Flows that began together leave together: about as many reads as packets.
        for (_, server) in ends {
            while let Ok(Some(_)) = duo.stacks[1].tcp_read_chunk(next, *server, usize::MAX) {}
        }
    }
}
