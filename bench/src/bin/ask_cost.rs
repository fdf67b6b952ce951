//! Work per round trip of one byte between two stacks, beside so many idle connections: run under callgrind.
//!
//! `ask_cost CONNECTIONS ROUND_TRIPS`
#![forbid(unsafe_code)]
use lowwater_bench::duo::Duo;
use lowwater_core::base::{SocketId, Sysctl};
use lowwater_core::tcp::SendFlags;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let (connections, rounds) = (numbers.next().expect("CONNECTIONS"), numbers.next().expect("ROUND_TRIPS"));
    let mut duo = Duo::new(1500, &Sysctl::default());
    let ends = duo.connect(connections.max(1));
    let (client, server) = ends[ends.len() / 2];
    // Quick acknowledgements of the beginning are over by then.
    (0..100).for_each(|_| round_trip(&mut duo, client, server));
    for _ in 0..rounds {
        measured(&mut duo, client, server);
    }
    println!("{rounds} round trips beside {connections} connections");
}

/// What callgrind counts.
#[inline(never)]
fn measured(duo: &mut Duo, client: SocketId, server: SocketId) {
    round_trip(duo, client, server);
}

fn round_trip(duo: &mut Duo, client: SocketId, server: SocketId) {
    for (from, (writer, reader)) in [(0, (client, server)), (1, (server, client))] {
        let now = duo.now.plus_nanos(20_000);
        let sent = duo.stacks[from].tcp_send(now, writer, b"x", SendFlags::default());
        assert_eq!(sent, Ok(1));
        duo.turn(now);
        let mut buf = [0; 64];
        assert_eq!(duo.stacks[1 - from].tcp_recv(now, reader, &mut buf, false), Ok(1));
    }
}
