//! Allocations per packet on the paths that carry bulk: they are counted here so that none comes back unseen.
use bytes::Bytes;
use lowwater_bench::counting::{self, INSTRUMENTED_SYSTEM, StatsAlloc, System};
use lowwater_bench::duo::Duo;
use lowwater_bench::single::{Bulk, Role, Single};
use lowwater_core::base::Sysctl;
use lowwater_core::tcp::SendFlags;
use lowwater_os::KernelWork;
use lowwater_os::netns::{NetNs, net_admin};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The allocator counts for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Super-packets of a TUN come in buffers that serve again; what is left are the first buffers and queues that grow for a burst.
/// An allocation for each would make 0.65, since half of the packets are ACKs.
const TUN_RECEIVE_MAX: f64 = 0.4;
/// In process, without a copy: the nodes of the tree of what is in flight, for the most part.
const PAIR_MAX: f64 = 1.0;

#[test]
fn super_packets_from_the_kernel_cost_no_allocation_each() {
    if !net_admin() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    NetNs::new().unwrap().run(|| {
        let mut single = Single::open("lw0", "10.77.0.2", "10.77.0.1", KernelWork::Inline);
        let (stop, mut bulk) = (single.stopper(), Bulk::new(Role::Discard));
        let used = std::thread::scope(|scope| {
            let server = scope.spawn(move || single.serve(&mut bulk));
            let mut stream = TcpStream::connect("10.77.0.2:9").unwrap();
            let data = vec![0x5a; 1 << 20];
            for _ in 0..1_024 {
                stream.write_all(&data).unwrap();
            }
            drop(stream);
            stop();
            server.join().unwrap()
        });
        let each = used.allocations as f64 / used.packets as f64;
        println!("{} packets, {each:.3} allocations each, {} bytes copied", used.packets, used.copied_bytes);
        assert!(used.packets > 1_000, "{} packets", used.packets);
        assert!(each <= TUN_RECEIVE_MAX, "{each:.3} allocations per packet");
    });
}

#[test]
fn bytes_between_two_stacks_are_not_copied_and_cost_little() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut duo = Duo::new(1500, &Sysctl::default());
    let (client, server) = duo.connect(1)[0];
    let whole = Bytes::from(vec![0x5a; 262_144]);
    let (mut received, calls) = (0u64, counting::calls());
    while received < 500_000_000 {
        let at = duo.now.plus_nanos(20_000);
        let _ = duo.stacks[0].tcp_send_bytes(at, client, &mut whole.clone(), SendFlags::default());
        duo.turn(at);
        while let Ok(Some(piece)) = duo.stacks[1].tcp_read_chunk(at, server, usize::MAX) {
            received += piece.len() as u64;
        }
    }
    let packets = duo.stacks[0].counters().ip.out_requests;
    let each = (counting::calls() - calls) as f64 / packets as f64;
    let copied: u64 = duo.stacks.iter().map(|stack| counting::copied_bytes(stack.counters())).sum();
    println!("{packets} packets, {each:.3} allocations each, {copied} bytes copied");
    assert!(each <= PAIR_MAX, "{each:.3} allocations per packet");
    assert!(copied * 50 <= received, "{copied} of {received} bytes were copied");
}
