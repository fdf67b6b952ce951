//! What an SCTP association costs, by a counting allocator: idle, with as many streams as there can be, and for each message.
use bytes::Bytes;
use lowwater_bench::counting::{self, INSTRUMENTED_SYSTEM, StatsAlloc, System};
use lowwater_bench::duo::Duo;
use lowwater_core::base::sysctl::SctpCongestionKind;
use lowwater_core::base::{Duration, SocketId, Sysctl};
use lowwater_core::sctp::{Received, SctpOptions, SendInfo};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Bytes that one end of an idle association with one path may hold.
const IDLE_MAX: u64 = 2_048;
/// Associations, pairs of ends; twice as many for the growth of the tables to cancel out.
const ASSOCIATIONS: u64 = 4_096;
/// Allocations for one message at both ends together: pages in which packets are written, and queues that grow.
const MESSAGE_MAX: f64 = 0.1;

/// `n` associations between the stacks.
fn associate(duo: &mut Duo, port: u16, n: u64, options: &SctpOptions) -> Vec<(SocketId, SocketId)> {
    let now = duo.now;
    let any = SocketAddr::from(([0, 0, 0, 0], port));
    let listener = duo.stacks[1].sctp_listen(now, &[any], 64, options.clone()).unwrap();
    let remote = SocketAddr::from(([10, 0, 0, 2], port));
    let one = |duo: &mut Duo| {
        let client = duo.stacks[0].sctp_connect(duo.now, &[remote], &[], options.clone()).unwrap();
        loop {
            let at = duo.now.plus_nanos(10_000);
            duo.turn(at);
            if let Ok((server, _)) = duo.stacks[1].sctp_accept(at, listener) {
                break (client, server);
            }
        }
    };
    (0..n).map(|_| one(duo)).collect()
}

/// Lets time pass without anything to do but timers.
fn pass(duo: &mut Duo, time: Duration) {
    let until = duo.now + time;
    while duo.now < until {
        let at = duo.now + Duration::from_millis(100);
        while duo.turn(at) > 0 {}
    }
}

fn read(duo: &mut Duo, server: SocketId) -> usize {
    let (at, mut messages) = (duo.now, 0);
    while let Ok(Some(Received::Data { eor, .. })) = duo.stacks[1].sctp_recv(at, server, 1 << 20) {
        messages += usize::from(eor);
    }
    messages
}

/// Bytes of each end of an idle association: just opened, and after a busy time.
fn idle(congestion: SctpCongestionKind) -> (u64, u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut duo = Duo::new(1_500, &Sysctl { rmem_default: 1 << 20, ..Sysctl::default() });
    let options = SctpOptions { pacing: false, congestion, ..SctpOptions::new(duo.stacks[0].sysctl()) };
    // The tables are as large as they will be.
    let before = counting::live_bytes();
    let ends = associate(&mut duo, 5_000, ASSOCIATIONS, &options);
    let fresh = (counting::live_bytes() - before) / (2 * ASSOCIATIONS);

    let (at, message) = (duo.now, Bytes::from_static(&[7; 1_000]));
    for &(client, server) in &ends {
        for n in 0..50 {
            let info = SendInfo { stream: n % 10, ..SendInfo::default() };
            let _ = duo.stacks[0].sctp_send(at, client, message.clone(), info);
        }
        while duo.turn(duo.now) > 0 {}
        read(&mut duo, server);
    }
    // What is paced comes later.
    pass(&mut duo, Duration::from_secs(10));
    for &(_, server) in &ends {
        read(&mut duo, server);
    }
    // Two intervals between heartbeats.
    pass(&mut duo, Duration::from_secs(70));
    let idle = (counting::live_bytes() - before) / (2 * ASSOCIATIONS);
    (fresh, idle)
}

#[test]
fn an_idle_association_takes_two_kibibytes_also_after_a_busy_time() {
    for congestion in SctpCongestionKind::ALL {
        let (fresh, idle) = idle(congestion);
        println!(
            "{}: {fresh} bytes at each end when just opened, {idle} after a busy time",
            congestion.name()
        );
        assert!(fresh <= IDLE_MAX && idle <= IDLE_MAX, "{fresh} and {idle} bytes");
    }
}

#[test]
fn streams_cost_nothing_until_they_are_used() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut duo = Duo::new(1_500, &Sysctl::default());
    let with = |streams| {
        let options = SctpOptions::new(&Sysctl::default());
        SctpOptions { num_ostreams: streams, max_instreams: streams, ..options }
    };
    let mut each = |port, options| {
        let before = counting::live_bytes();
        let ends = associate(&mut duo, port, ASSOCIATIONS / 4, options);
        let streams = duo.stacks[0].sctp_info(ends[0].0).unwrap().streams;
        (streams, (counting::live_bytes() - before) / (ASSOCIATIONS / 2))
    };
    let (few, many) = (each(5_000, &with(1)), each(5_001, &with(u16::MAX)));
    println!("{} bytes with one stream, {} with 65,535", few.1, many.1);
    assert_eq!((few.0, many.0), ((1, 1), (u16::MAX, u16::MAX)));
    // As a table of streams would cost far more than the growth of the tables of a stack.
    assert!(many.1.abs_diff(few.1) <= 256, "{} {}", few.1, many.1);
}

#[test]
fn a_message_costs_no_allocation_in_the_steady_state() {
    SctpCongestionKind::ALL.into_iter().for_each(messages);
}

fn messages(congestion: SctpCongestionKind) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut duo = Duo::new(1_500, &Sysctl::default());
    let options = SctpOptions::new(duo.stacks[0].sysctl());
    let options = SctpOptions { pacing: false, max_burst: 0, congestion, ..options };
    let (client, server) = associate(&mut duo, 5_000, 1, &options)[0];
    for len in [1_400, 100] {
        let message = Bytes::from(vec![7; len]);
        let (mut got, mut from) = (0, 0);
        while got < 40_000 {
            if got < 20_000 {
                from = counting::calls();
            }
            let at = duo.now.plus_nanos(20_000);
            for n in 0..10 {
                let info = SendInfo { stream: n, ..SendInfo::default() };
                let _ = duo.stacks[0].sctp_send(at, client, message.clone(), info);
            }
            duo.turn(at);
            got += read(&mut duo, server);
        }
        let each = (counting::calls() - from) as f64 / 20_000.0;
        println!("{}: {each:.3} allocations for a message of {len} bytes", congestion.name());
        assert!(each <= MESSAGE_MAX, "{each:.3} allocations for a message of {len} bytes");
    }
}
