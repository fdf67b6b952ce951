//! E3 on Linux: 2,000,000 bytes over 40 ms without a rate limit, and the sender's counters.
use crate::hosts::{Host, Line, set_for_all};
use crate::job::Measured;
use lowwater_os::Clock;
use rustix::net::sockopt;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

/// Bytes of the transfer.
const BYTES: usize = 2_000_000;
/// SO_SNDBUF as set; the kernel doubles it.
const SNDBUF: usize = 1_000_000;
/// The receiver's address and port.
const SINK: &str = "10.0.1.2:5001";

/// One way to run it.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    /// A command of the sender before the transfer; empty for none.
    command: &'static str,
    congestion: &'static str,
}

pub(crate) const VARIANTS: &[Variant] = &[
    Variant { name: "default", command: "", congestion: "cubic" },
    Variant { name: "2-mss", command: "ip link set va gso_max_segs 2", congestion: "cubic" },
    Variant { name: "fq", command: "tc qdisc replace dev va root fq", congestion: "cubic" },
    Variant { name: "bbr", command: "", congestion: "bbr" },
];

pub(crate) fn run(variant: &str) -> Result<Measured, String> {
    let variant = VARIANTS.iter().find(|v| v.name == variant).ok_or("no such variant")?;
    let Line { a, r: _r, b } = Line::new(40)?;
    set_for_all("core/wmem_max", &(2 * SNDBUF).to_string())?;
    if !variant.command.is_empty() {
        a.command(variant.command)?;
    }
    let before = counters(&a)?;
    let listener = b.run(|| TcpListener::bind(SINK)).map_err(|e| format!("listening: {e}"))?;
    let sink = thread::spawn(move || drain(&listener));
    let elapsed = a.run(|| transfer(variant.congestion)).map_err(|e| format!("the transfer: {e}"))?;
    let received =
        sink.join().map_err(|_| "the receiver panicked")?.map_err(|e| format!("receiving: {e}"))?;
    if received != BYTES as u64 {
        return Err(format!("{received} bytes of {BYTES} arrived"));
    }
    let after = counters(&a)?;
    let count = |i: usize| (after[i] - before[i]) as f64;
    Ok(vec![
        ("ip_out_requests", count(0)),
        ("ip_in_receives", count(1)),
        ("tcp_out_segs", count(2)),
        ("retrans_segs", count(3)),
        ("elapsed_s", elapsed),
        ("segs_per_packet", count(2) / count(0)),
    ])
}

fn counters(a: &Host) -> Result<[u64; 4], String> {
    Ok([
        a.counter("Ip", "OutRequests")?,
        a.counter("Ip", "InReceives")?,
        a.counter("Tcp", "OutSegs")?,
        a.counter("Tcp", "RetransSegs")?,
    ])
}

/// Reads to the end and closes; the number of bytes.
fn drain(listener: &TcpListener) -> std::io::Result<u64> {
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(total),
            n => total += n as u64,
        }
    }
}

/// Connects, writes, shuts down and waits for the peer's FIN; seconds from the first write on.
fn transfer(congestion: &str) -> std::io::Result<f64> {
    let mut stream = TcpStream::connect(SINK)?;
    sockopt::set_tcp_congestion(&stream, congestion)?;
    sockopt::set_socket_send_buffer_size(&stream, SNDBUF)?;
    let clock = Clock::start();
    stream.write_all(&vec![0; BYTES])?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_exact(&mut [0]).err();
    Ok(clock.now().as_nanos() as f64 / 1e9)
}
