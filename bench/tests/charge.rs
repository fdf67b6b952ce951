//! What a send queue says that it holds is the memory that it holds: compared with an allocator that counts, within 10 %.
use bytes::Bytes;
use lowwater_bench::counting::{INSTRUMENTED_SYSTEM, StatsAlloc, System, live_bytes};
use lowwater_bench::duo::Duo;
use lowwater_core::base::{SocketId, Sysctl};
use lowwater_core::device::Submit;
use lowwater_core::packet::Packet;
use lowwater_core::tcp::{SendFlags, SocketOptions};
use std::sync::{Mutex, PoisonError};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// How a writer hands over its bytes.
#[derive(Clone, Copy, Debug)]
enum Write {
    /// By copy, so many at a time.
    Copy(usize),
    /// As buffers of its own of this size.
    Own(usize),
}

/// Writes until the socket takes no more.
fn fill(duo: &mut Duo, client: SocketId, write: Write) {
    let now = duo.now;
    loop {
        let flags = SendFlags::default();
        let sent = match write {
            Write::Copy(n) => duo.stacks[0].tcp_send(now, client, &vec![1; n], flags),
            Write::Own(n) => duo.stacks[0].tcp_send_bytes(now, client, &mut Bytes::from(vec![1; n]), flags),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Charge over memory of a send queue that `write` has filled, `sent` of it in flight: packets that nobody receives.
fn charge_over_memory(write: Write, sent: bool) -> f64 {
    let mut duo = Duo::new(1500, &Sysctl::default());
    let (client, server) = duo.connect(1)[0];
    // A window of some hundred segments.
    for _ in 0..40 {
        let at = duo.now.plus_nanos(20_000);
        let _ = duo.stacks[0].tcp_send_bytes(
            at,
            client,
            &mut Bytes::from(vec![0; 262_144]),
            SendFlags::default(),
        );
        duo.turn(at);
        while let Ok(Some(_)) = duo.stacks[1].tcp_read_chunk(at, server, usize::MAX) {}
        duo.turn(at);
    }
    let queued = |duo: &Duo| u64::from(duo.stacks[0].memory(client).expect("a socket").held);
    // The last acknowledgement is delayed.
    let at = duo.now.plus_nanos(300_000_000);
    duo.turn(at);
    duo.turn(at);
    assert_eq!(queued(&duo), 0, "all is acknowledged");
    let options = SocketOptions { sndbuf: Some(4 << 20), ..SocketOptions::new(duo.stacks[0].sysctl()) };
    duo.stacks[0].set_options(duo.now, client, options).expect("a socket");
    let before = live_bytes();
    fill(&mut duo, client, write);
    if sent {
        let (now, dev) = (duo.now, duo.dev);
        duo.stacks[0].transmit(now, dev, 1 << 20, &mut |_, packet: Packet| {
            drop(packet);
            Submit::Completed
        });
        let flight = duo.stacks[0].tcp_info(client).expect("a socket").unacked;
        assert!(flight > 100, "{flight} segments in flight");
    }
    let held = live_bytes() - before;
    let ratio = queued(&duo) as f64 / held as f64;
    println!("{write:?}, in flight: {sent}: charge {} of {held} bytes, {ratio:.3}", queued(&duo));
    ratio
}

#[test]
fn the_charge_of_a_send_queue_is_its_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let writes = [
        Write::Copy(100),
        Write::Copy(1_448),
        Write::Copy(65_160),
        Write::Copy(262_144),
        Write::Own(5_000),
        Write::Own(65_536),
        Write::Own(1 << 20),
    ];
    for write in writes {
        for sent in [false, true] {
            let ratio = charge_over_memory(write, sent);
            assert!((0.9..=1.1).contains(&ratio), "{write:?}, in flight: {sent}: {ratio:.3}");
        }
    }
}
