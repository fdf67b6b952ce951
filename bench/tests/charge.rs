//! What a send queue says that it holds is the memory that it holds: compared with an allocator that counts, within 10 %.
use bytes::Bytes;
use lowwater_bench::counting::{INSTRUMENTED_SYSTEM, StatsAlloc, System, live_bytes};
use lowwater_bench::duo::Duo;
use lowwater_core::base::{Instant, SocketId, Sysctl};
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

/// What becomes of a queue that was filled, with packets that nobody receives.
#[derive(Clone, Copy, Debug)]
enum Sent {
    /// Nothing is sent.
    Nothing,
    /// All that the window takes, in packets as large as they get.
    Large,
    /// The same in packets of two segments, as slow flows have them: many end in the middle of an element.
    Small,
    /// The same, while the writer is woken at half of 64 KiB: it goes on behind an element whose beginning is in flight.
    Refilled,
    /// The same, and the peer acknowledges three quarters of it.
    Acknowledged,
}

impl Sent {
    const fn slowly(self) -> bool {
        matches!(self, Self::Small) || self.is_refilled()
    }

    const fn is_refilled(self) -> bool {
        matches!(self, Self::Refilled | Self::Acknowledged)
    }
}

/// The peer takes these packets, and what it answers comes back.
fn acknowledge(duo: &mut Duo, (client, server): (SocketId, SocketId), packets: Vec<Packet>) {
    let (now, dev) = (duo.now.plus_nanos(150_000_000), duo.dev);
    let una = duo.stacks[0].tcp_info(now, client).expect("a socket").bytes_acked;
    for packet in packets {
        duo.stacks[1].receive(now, dev, packet);
        while let Ok(Some(_)) = duo.stacks[1].tcp_read_chunk(now, server, usize::MAX) {}
    }
    let mut acks = Vec::new();
    duo.stacks[1].transmit(now, dev, 1 << 20, &mut |_, packet: Packet| {
        acks.push(packet);
        Submit::Completed
    });
    for ack in acks {
        duo.stacks[0].receive(now, dev, ack);
    }
    let acked = duo.stacks[0].tcp_info(now, client).expect("a socket").bytes_acked - una;
    assert!(acked > 200_000, "{acked} bytes were acknowledged");
}

/// Charge over memory of a send queue that `write` has filled.
fn charge_over_memory(write: Write, sent: Sent) -> f64 {
    // No bonus for near peers where packets are to be small.
    let log = if sent.slowly() { 0 } else { 9 };
    let mut duo = Duo::new(1500, &Sysctl { tcp_tso_rtt_log: log, ..Sysctl::default() });
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
    let mut options = SocketOptions { sndbuf: Some(4 << 20), ..SocketOptions::new(duo.stacks[0].sysctl()) };
    if sent.slowly() {
        options.max_pacing_rate = 2_900_000;
    }
    if sent.is_refilled() {
        options.notsent_lowat = 65_536;
    }
    duo.stacks[0].set_options(duo.now, client, options).expect("a socket");
    let before = live_bytes();
    let spare = duo.stacks[0].spare_bytes();
    fill(&mut duo, client, write);
    if !matches!(sent, Sent::Nothing) {
        let mut packets = Vec::new();
        // Shorter than the timeout of a flow that hears nothing.
        for ms in 0..150 {
            let (now, dev) = (duo.now.plus_nanos(ms * 1_000_000), duo.dev);
            duo.stacks[0].handle_timeout(now);
            duo.stacks[0].transmit(now, dev, 1 << 20, &mut |_, packet: Packet| {
                packets.push(packet);
                Submit::Completed
            });
            let unsent = duo.stacks[0].tcp_info(now, client).expect("a socket").notsent_bytes;
            if sent.is_refilled() && unsent < 65_536 / 2 {
                fill(&mut duo, client, write);
            }
        }
        assert!(!sent.slowly() || packets.len() > 50, "{} packets", packets.len());
        let flight = duo.stacks[0].tcp_info(Instant::ZERO, client).expect("a socket").unacked;
        assert!(flight > 100, "{flight} segments in flight");
        if matches!(sent, Sent::Acknowledged) {
            packets.truncate(packets.len() * 3 / 4);
            acknowledge(&mut duo, (client, server), packets);
        }
    }
    // What was acknowledged may be kept for the next writes.
    let held = live_bytes() - before - duo.stacks[0].spare_bytes() as u64 + spare as u64;
    let ratio = queued(&duo) as f64 / held as f64;
    println!("{write:?}, {sent:?}: charge {} of {held} bytes, {ratio:.3}", queued(&duo));
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
        for sent in [Sent::Nothing, Sent::Large, Sent::Small, Sent::Refilled, Sent::Acknowledged] {
            // What a full queue leaves of such a buffer stays with the writer, who drops it here.
            if matches!((write, sent), (Write::Own(1_048_576), Sent::Refilled | Sent::Acknowledged)) {
                continue;
            }
            let ratio = charge_over_memory(write, sent);
            assert!((0.9..=1.1).contains(&ratio), "{write:?}, {sent:?}: {ratio:.3}");
        }
    }
}
