//! Our SYN and SYN-ACK beside the kernel's own, under the same settings in the same namespace.
use crate::world::{Seen, Setup, connected, in_world};
use lowwater::Direction;
use std::fmt::Write;

/// What a handshake packet says; numbers that are meant to differ are left out.
#[derive(Debug, PartialEq, Eq)]
struct Syn {
    ip: String,
    flags: u8,
    window: u16,
    options: String,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn read(packet: &[u8]) -> Syn {
    let v6 = packet[0] >> 4 == 6;
    let header = if v6 { 40 } else { 4 * usize::from(packet[0] & 15) };
    let ip = if v6 {
        let class = word(packet, 0) >> 4 & 0xff;
        let label = u32::from(word(packet, 0) & 15) << 16 | u32::from(word(packet, 2));
        format!("class {class} label {} hops {}", label != 0, packet[7])
    } else {
        let id = word(packet, 4) != 0;
        format!("tos {} id {id} fragment {:#x} ttl {}", packet[1], word(packet, 6), packet[8])
    };
    let tcp = &packet[header..];
    let mut rest = &tcp[20..4 * usize::from(tcp[12] >> 4)];
    let mut options = String::new();
    while let Some(&kind) = rest.first() {
        let len = if kind < 2 { 1 } else { usize::from(rest[1]) };
        let _ = match kind {
            0 => write!(options, "end "),
            1 => write!(options, "nop "),
            2 => write!(options, "mss {} ", word(rest, 2)),
            3 => write!(options, "wscale {} ", rest[2]),
            4 => write!(options, "sackOK "),
            8 => write!(options, "ts{} ", if rest[6..10] == [0; 4] { "" } else { " echo" }),
            kind => write!(options, "kind {kind} "),
        };
        rest = &rest[len..];
    }
    Syn { ip, flags: tcp[13], window: word(tcp, 14), options: options.trim().into() }
}

fn find(seen: &[Seen], direction: Direction, ack: bool) -> Syn {
    let mut syns = seen.iter().filter(|s| s.direction == direction).map(|s| read(&s.bytes));
    syns.find(|s| (s.flags & 0x10 != 0) == ack).expect("a handshake packet")
}

#[test]
fn ours_look_like_the_kernels() {
    let plain = Setup::default;
    let mut different = String::new();
    for (name, setup) in [
        ("plain", plain()),
        ("no SACK", plain().both("tcp_sack", "0")),
        ("no timestamps", plain().both("tcp_timestamps", "0")),
        ("no window scaling", plain().both("tcp_window_scaling", "0")),
        ("no SACK, no timestamps", plain().both("tcp_sack", "0").both("tcp_timestamps", "0")),
        (
            "only MSS",
            plain().both("tcp_sack", "0").both("tcp_timestamps", "0").both("tcp_window_scaling", "0"),
        ),
        ("ECN", plain().both("tcp_ecn", "1")),
        ("MTU 9000", Setup { mtu: 9_000, ..plain() }),
        ("MTU 1280", Setup { mtu: 1_280, ..plain() }),
        ("no offload", Setup { offload: false, ..plain() }),
        ("small buffers", plain().both("tcp_rmem", "4096 16384 65536")),
        ("large buffers", plain().both("tcp_rmem", "4096 131072 33554432")),
    ] {
        for v6 in [false, true] {
            in_world(&setup, |world| {
                drop(connected(world, v6, true));
                let theirs = world.syns();
                drop(connected(world, v6, false));
                let all = world.syns();
                let kernels =
                    (find(&theirs, Direction::In, false), find(&all[theirs.len()..], Direction::In, true));
                let our =
                    (find(&all[theirs.len()..], Direction::Out, false), find(&theirs, Direction::Out, true));
                for (what, ours, kernels) in [("SYN", our.0, kernels.0), ("SYN-ACK", our.1, kernels.1)] {
                    if ours != kernels {
                        let family = if v6 { "v6" } else { "v4" };
                        let _ = writeln!(
                            different,
                            "{name} {family} {what}:\n  ours   {ours:?}\n  kernel {kernels:?}"
                        );
                    }
                }
            });
        }
    }
    assert!(different.is_empty(), "{different}");
}
