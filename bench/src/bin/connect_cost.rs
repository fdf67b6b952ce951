//! Work per connection opened and closed between two stacks: run under callgrind.
//!
//! `connect_cost BEFORE CONNECTIONS`: those before are not counted, and their client's ends stay in TIME-WAIT. The client closes first, the server in answer, as in `rr --what connect`.
#![forbid(unsafe_code)]
use lowwater_bench::duo::Duo;
use lowwater_core::base::{SocketId, Sysctl};
use lowwater_core::stack::{ListenAddr, ListenOptions};
use lowwater_core::tcp::SocketOptions;
use std::net::SocketAddr;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let (before, count) = (numbers.next().expect("BEFORE"), numbers.next().expect("CONNECTIONS"));
    let mut duo = Duo::new(1500, &Sysctl::default());
    let options = SocketOptions { nodelay: true, ..SocketOptions::new(duo.stacks[0].sysctl()) };
    let listen = ListenOptions { backlog: 1_024, ask: false, options: options.clone() };
    let addr = ListenAddr { ip: None, port: Some(9) };
    let listener = duo.stacks[1].tcp_listen(duo.now, addr, listen).expect("the port is free");
    (0..before).for_each(|_| open_and_close(&mut duo, listener, &options));
    for _ in 0..count {
        measured(&mut duo, listener, &options);
    }
    println!("{count} connections");
}

/// What callgrind counts.
#[inline(never)]
fn measured(duo: &mut Duo, listener: SocketId, options: &SocketOptions) {
    open_and_close(duo, listener, options);
}

fn open_and_close(duo: &mut Duo, listener: SocketId, options: &SocketOptions) {
    let remote = SocketAddr::from(([10, 0, 0, 2], 9));
    let client = duo.stacks[0].tcp_connect(duo.now, remote, None, options).expect("a free port");
    let server = loop {
        step(duo);
        if let Ok((server, _)) = duo.stacks[1].tcp_accept(duo.now, listener) {
            break server;
        }
    };
    let mut byte = [0];
    for (host, (end, other)) in [(0, (client, server)), (1, (server, client))] {
        duo.stacks[host].close(duo.now, end).expect("it is open");
        step(duo);
        if host == 0 {
            assert_eq!(duo.stacks[1].tcp_recv(duo.now, other, &mut byte, false), Ok(0));
        }
    }
    step(duo);
    duo.stacks.iter().for_each(|stack| assert!(stack.open_sockets() <= 1, "both ends are closed"));
}

fn step(duo: &mut Duo) {
    let at = duo.now.plus_nanos(20_000);
    duo.turn(at);
}
