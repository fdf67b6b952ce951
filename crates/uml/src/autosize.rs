//! E3 on Linux: one write over a path without a bottleneck, and the sender's counters.
use crate::hosts::{Host, Line};
use crate::job::Measured;
use crate::run::Run;
use crate::settings;
use crate::shape::Shape;
use lowwater_os::Clock;
use rustix::net::sockopt;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// The receiver's address and port.
const SINK: &str = "10.0.1.2:5001";

/// The run in the guest's words.
pub(crate) struct Setup {
    rtt: Duration,
    bytes: usize,
    /// SO_SNDBUF as set; 0 leaves it to tune itself.
    sndbuf: usize,
    gso_max_segs: u32,
    mtu: u32,
    shape: Shape,
}

impl Setup {
    pub(crate) fn of(run: &Run) -> Result<Self, String> {
        settings::check(run)?;
        let mtu = run.number("mtu")?;
        Ok(Self {
            rtt: run.ms("rtt_ms")?,
            bytes: run.number("bytes")? as usize,
            sndbuf: run.number("sndbuf")? as usize,
            gso_max_segs: run.number("gso_max_segs")? as u32,
            mtu: mtu as u32,
            shape: Shape::discipline(run.words("qdisc")?, mtu)?,
        })
    }

    /// Bytes that the guest carries, and bytes that it holds: those of the one write, and what its socket may.
    pub(crate) const fn load(&self) -> (f64, f64) {
        (self.bytes as f64, self.bytes as f64 + 2.0 * self.sndbuf as f64)
    }
}

pub(crate) fn run(run: &Run) -> Result<Measured, String> {
    let setup = Setup::of(run)?;
    let Line { a, r: _r, b } = Line::new(setup.rtt, setup.mtu)?;
    settings::apply(&[&a, &b], run)?;
    a.command(&format!("ip link set va gso_max_segs {}", setup.gso_max_segs))?;
    setup.shape.put(&a, "va")?;
    let before = counters(&a)?;
    let listener = b.run(|| TcpListener::bind(SINK)).map_err(|e| format!("listening: {e}"))?;
    let sink = thread::spawn(move || drain(&listener));
    let elapsed = a.run(|| transfer(&setup)).map_err(|e| format!("the transfer: {e}"))?;
    let received =
        sink.join().map_err(|_| "the receiver panicked")?.map_err(|e| format!("receiving: {e}"))?;
    if received != setup.bytes as u64 {
        return Err(format!("{received} bytes of {} arrived", setup.bytes));
    }
    let after = counters(&a)?;
    let count = |i: usize| (after[i] - before[i]) as f64;
    Ok(vec![
        ("ip_out_requests", count(0)),
        ("ip_in_receives", count(1)),
        ("tcp_out_segs", count(2)),
        ("retrans_segs", count(3)),
        ("elapsed_s", elapsed),
        ("goodput_mbps", setup.bytes as f64 * 8.0 / elapsed / 1e6),
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
fn transfer(setup: &Setup) -> std::io::Result<f64> {
    let mut stream = TcpStream::connect(SINK)?;
    if setup.sndbuf > 0 {
        sockopt::set_socket_send_buffer_size_force(&stream, setup.sndbuf)?;
    }
    let clock = Clock::start();
    // As in the lab one write, which goes on where there is room.
    stream.write_all(&vec![0; setup.bytes])?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_exact(&mut [0]).err();
    Ok(clock.now().as_nanos() as f64 / 1e9)
}
