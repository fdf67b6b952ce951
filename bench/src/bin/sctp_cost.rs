//! Work per message of SCTP, both stacks: run under callgrind, which counts only what `measured` does.
//!
//! `sctp_cost MTU BYTES MODE` carries messages of so many bytes and prints how many. MODE is `lazy` or `eager` (each packet arms the
//! heartbeat timer), both without pacing and so in bursts of four packets, or `paced`, as by default.
#![forbid(unsafe_code)]
use lowwater_bench::messages::Carrier;
use lowwater_core::base::Sysctl;

/// Turns before those that are measured: the window has grown by then.
const WARM: u64 = 100;
/// Bytes that are measured.
const BYTES: u64 = 20_000_000;
/// Virtual time of a turn.
const TURN_NS: u64 = 50_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mtu, message, mode] = &args[..] else { panic!("MTU BYTES MODE") };
    let (mtu, message) = (mtu.parse().expect("an MTU"), message.parse().expect("bytes"));
    let sysctl = Sysctl {
        // The pacer's timer is another matter.
        sctp_pacing: mode == "paced",
        sctp_hb_eager: match &**mode {
            "lazy" | "paced" => false,
            "eager" => true,
            other => panic!("MODE {other} is not known: lazy, eager or paced"),
        },
        ..Sysctl::default()
    };
    let mut carrier = Carrier::new(mtu, message, &sysctl);
    let mut at = carrier.duo.now;
    for _ in 0..WARM {
        at = at.plus_nanos(TURN_NS);
        carrier.turn(at);
    }
    let before = carrier.received;
    while carrier.received - before < BYTES {
        at = at.plus_nanos(TURN_NS);
        measured(&mut carrier, at);
    }
    assert!(carrier.is_right(), "the payload's hash");
    println!("{}", (carrier.received - before) / message as u64);
}

/// What callgrind counts.
#[inline(never)]
fn measured(carrier: &mut Carrier, at: lowwater_core::base::Instant) {
    carrier.turn(at);
}
