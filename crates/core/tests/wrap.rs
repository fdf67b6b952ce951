//! Sequence numbers that pass 2^31 and 2^32, and connections that carry more bytes than there are numbers.
mod support;
use bytes::Bytes;
use lowwater_core::base::{Duration, Error, Instant, SocketId};
use lowwater_core::tcp::{How, SendFlags, SocketOptions};
use lowwater_wire::tcp::TcpView;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use support::{Fate, World, ip, pattern};

/// ISN = F(flow) + time / 64 ns: each flow's clock.
const TICK_NS: u64 = 64;
const PORT: u16 = 5_000;

fn connect(world: &mut World) -> SocketId {
    let options = SocketOptions::new(world.a().sysctl());
    let (now, local) = (world.now, SocketAddr::new(ip(support::SIDES[0]), PORT));
    let remote = SocketAddr::new(ip(support::SIDES[1]), 80);
    world.a().tcp_connect(now, remote, Some(local), &options).unwrap()
}

/// A world whose client's next ISN (or, with `of_server`, whose server's) will be about `target`: time is what chooses it.
fn world_at(target: u32, of_server: bool) -> (World, SocketId) {
    let seen = Rc::new(Cell::new(None));
    let mut world = World::new(Duration::from_millis(1));
    let listener = world.listen(80);
    let note = seen.clone();
    let from = usize::from(of_server);
    world.rule = Box::new(move |side, packet, _| {
        if side == support::SIDES[from] && note.get().is_none() {
            let view = TcpView::parse(&packet.head.as_slice()[20..]).unwrap();
            note.set(Some(view.seq()));
        }
        Fate::Deliver(Duration::from_millis(1))
    });
    let start = world.now;
    let probe = connect(&mut world);
    world.run(Duration::from_millis(10), |_| false);
    let isn = seen.get().expect("it answered");
    let now = world.now;
    world.a().abort(now, probe).unwrap();
    world.run(Duration::from_millis(10), |_| false);
    let now = world.now;
    let (other, _) = world.b().tcp_accept(now, listener).unwrap();
    world.b().close(now, other).unwrap();
    let ticks = u64::from(target.wrapping_sub(isn));
    let mut at = start.plus_nanos(ticks * TICK_NS);
    if at < world.now {
        at = at.plus_nanos((1 << 32) * TICK_NS);
    }
    world.run(at.since(world.now), |_| false);
    (world, listener)
}

/// Sends `total` bytes both ways at once, with loss when `ppm` is not 0.
fn both_ways((world, listener): (&mut World, SocketId), total: u64, ppm: u32) {
    let mut rng = lowwater_core::base::Rng::new(3);
    world.rule =
        Box::new(
            move |_, _, _| {
                if rng.chance_ppm(ppm) { Fate::Lose } else { Fate::Deliver(Duration::from_millis(1)) }
            },
        );
    let client = connect(world);
    let mut server = None;
    world.run(Duration::from_secs(10), |w| {
        let now = w.now;
        server = w.b().tcp_accept(now, listener).ok().map(|(id, _)| id);
        server.is_some()
    });
    let ends = [client, server.expect("accepted")];
    let (mut sent, mut got) = ([0u64; 2], [0u64; 2]);
    let done = world.run(Duration::from_secs(300), |w| {
        let now = w.now;
        let mut buf = [0; 65_536];
        for i in 0..2 {
            while sent[i] < total {
                let n = (total - sent[i]).min(50_000);
                let data: Vec<u8> = (sent[i]..sent[i] + n).map(pattern).collect();
                match w.stacks[i].tcp_send(now, ends[i], &data, SendFlags::default()) {
                    Ok(n) => sent[i] += n as u64,
                    Err(Error::WouldBlock) => break,
                    Err(e) => panic!("{e}"),
                }
                if sent[i] == total {
                    w.stacks[i].shutdown(now, ends[i], How::Write).unwrap();
                }
            }
            while let Ok(n) = w.stacks[i].tcp_recv(now, ends[i], &mut buf, false) {
                if n == 0 {
                    break;
                }
                for &byte in &buf[..n] {
                    assert_eq!(byte, pattern(got[i]), "at {}", got[i]);
                    got[i] += 1;
                }
            }
        }
        got == [total; 2]
    });
    assert!(done, "stuck: sent {sent:?}, received {got:?} of {total}");
}

#[test]
fn every_number_may_be_the_one_that_wraps() {
    for target in [
        0x7fff_ff00,
        0x8000_0000_u32.wrapping_sub(100_000),
        0xffff_ff00,
        0xffff_fffe,
        0u32.wrapping_sub(100_000),
    ] {
        for of_server in [false, true] {
            for ppm in [0, 20_000] {
                let (mut world, listener) = world_at(target, of_server);
                both_ways((&mut world, listener), 300_000, ppm);
            }
        }
    }
}

#[test]
fn more_bytes_than_numbers_arrive() {
    const TOTAL: u64 = (1 << 32) + (1 << 31) + 5_000_000;
    let mut world = World::new(Duration::from_millis(1));
    let (client, server) = world.connected();
    let whole = Bytes::from((0..1 << 20).map(pattern).collect::<Vec<u8>>());
    let (mut sent, mut got) = (0u64, 0u64);
    let done = world.run(Duration::from_secs(3_600), |w| {
        let now = w.now;
        while sent < TOTAL {
            let at = (sent % (1 << 20)) as usize;
            let mut piece = whole.slice(at..whole.len().min(at + (TOTAL - sent) as usize));
            let before = piece.len();
            let result = w.a().tcp_send_bytes(now, client, &mut piece, SendFlags::default());
            sent += (before - piece.len()) as u64;
            if result.is_err() {
                break;
            }
        }
        while let Ok(Some(piece)) = w.b().tcp_read_chunk(now, server, usize::MAX) {
            // Every byte would take a minute: the ends of each piece tell where it lies.
            let last = got + piece.len() as u64 - 1;
            for (byte, offset) in [(piece[0], got), (piece[piece.len() - 1], last)] {
                assert_eq!(byte, whole[(offset % (1 << 20)) as usize], "at {offset}");
            }
            got += piece.len() as u64;
        }
        got == TOTAL
    });
    assert!(done, "stuck: sent {sent}, received {got}");
    let info = world.b().tcp_info(Instant::ZERO, server).unwrap();
    assert_eq!(info.bytes_received, TOTAL);
    assert_eq!(world.a().counters().tcp.retrans_segs, 0);
}
