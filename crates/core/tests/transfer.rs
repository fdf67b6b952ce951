//! Whole connections between two stacks: bytes arrive once and in order, whatever the link does.
mod support;
use lowwater_core::base::{Duration, Error};
use lowwater_core::tcp::{How, SendFlags, State};
use support::{Fate, World, pattern};

/// Sends `total` bytes from A to B and closes; returns the virtual seconds.
fn bulk(world: &mut World, total: u64) -> f64 {
    let (client, server) = world.connected();
    let (mut sent, mut received, mut shut) = (0u64, 0u64, false);
    let start = world.now;
    let done = world.run(Duration::from_secs(600), |w| {
        let now = w.now;
        while sent < total {
            let n = (total - sent).min(100_000);
            let data: Vec<u8> = (sent..sent + n).map(pattern).collect();
            match w.a().tcp_send(now, client, &data, SendFlags::default()) {
                Ok(n) => sent += n as u64,
                Err(Error::WouldBlock) => break,
                Err(e) => panic!("{e}"),
            }
        }
        if sent == total && !shut {
            w.a().shutdown(now, client, How::Write).unwrap();
            shut = true;
        }
        let mut buf = [0; 65_536];
        loop {
            match w.b().tcp_recv(now, server, &mut buf, false) {
                Ok(0) => return true,
                Ok(n) => {
                    for &byte in &buf[..n] {
                        assert_eq!(byte, pattern(received), "at offset {received}");
                        received += 1;
                    }
                }
                Err(Error::WouldBlock) => return false,
                Err(e) => panic!("{e}"),
            }
        }
    });
    assert!(done, "stuck: sent {sent}, received {received} of {total} at {:?}", world.now);
    assert_eq!(received, total);
    world.now.since(start).as_secs_f64()
}

#[test]
fn bytes_arrive_in_order() {
    let mut world = World::new(Duration::from_millis(10));
    let seconds = bulk(&mut world, 2_000_000);
    assert!(seconds < 1.0, "{seconds}");
    assert_eq!(world.a().counters().tcp.retrans_segs, 0);
}

#[test]
fn random_loss_is_repaired() {
    let mut world = World::new(Duration::from_millis(10));
    let mut rng = lowwater_core::base::Rng::new(7);
    world.rule =
        Box::new(
            move |_, _, _| {
                if rng.chance_ppm(50_000) { Fate::Lose } else { Fate::Deliver(Duration::from_millis(10)) }
            },
        );
    let seconds = bulk(&mut world, 2_000_000);
    assert!(seconds < 60.0, "{seconds}");
    assert!(world.a().counters().tcp.retrans_segs > 0);
}

#[test]
fn both_sides_close_and_nothing_stays() {
    let mut world = World::new(Duration::from_millis(10));
    let (client, server) = world.connected();
    let now = world.now;
    world.a().close(now, client).unwrap();
    world.run(Duration::from_secs(1), |_| false);
    let now = world.now;
    assert_eq!(world.b().tcp_state(server), Ok(State::CloseWait));
    world.b().close(now, server).unwrap();
    world.run(Duration::from_secs(70), |_| false);
    assert_eq!((world.a().open_sockets(), world.b().open_sockets()), (0, 1), "only the listener is left");
}
