//! Worlds of datagrams: links, routers, captures and determinism, without TCP.
use super::*;
use crate::app::{UdpEcho, UdpPing, UdpPingSpec};
use crate::check::conservation;
use crate::link::spec::{Carry, DelaySpec, LossSpec, NicSpec, QueueSpec};
use std::net::SocketAddr;

fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

/// Two hosts, datagrams there and back over lossy links.
fn datagrams(seed: u64, size: usize, loss_ppm: u32, recording: Recording) -> World {
    let mut world = World::new(seed, recording);
    let a = world.add_host(HostSpec::new(ip(1)));
    let b = world.add_host(HostSpec::new(ip(2)));
    let spec = PipeSpec {
        nic: Some(NicSpec { rate: 10_000_000, packets: 100, carry: Carry::Segments, ..NicSpec::default() }),
        loss: LossSpec { random_ppm: loss_ppm, ..LossSpec::default() },
        duplicate_ppm: loss_ppm,
        corrupt_ppm: loss_ppm,
        delay: DelaySpec { delay_ns: 5_000_000, jitter_ns: 1_000_000, ..DelaySpec::default() },
        ..PipeSpec::default()
    };
    world.add_pipe(Some(a), &spec, To::Host(b));
    world.add_pipe(Some(b), &spec, To::Host(a));
    let ping = UdpPingSpec {
        local: SocketAddr::new(ip(1), 0),
        remote: SocketAddr::new(ip(2), 9_007),
        key: 1,
        count: 50,
        size,
        every_ns: 1_000_000,
        start: Instant::ZERO,
    };
    world.add_app(a, Box::new(UdpPing::new(ping)));
    world.add_app(b, Box::new(UdpEcho::new(SocketAddr::new(ip(2), 9_007))));
    world.start();
    world
}

fn finish(world: &mut World) {
    world.run_while(Instant::from_millis(10_000), |w| !w.all_done()).expect("no promise is broken");
    world.run_until(world.now() + std::time::Duration::from_secs(60)).expect("no promise is broken");
    conservation::check(world).expect("every packet is accounted for");
}

#[test]
fn datagrams_come_back_over_clean_links() {
    for size in [8, 1_000, 4_000] {
        let mut world = datagrams(1, size, 0, Recording::default());
        finish(&mut world);
        let progress: Vec<String> = world.hosts()[0].apps().map(App::progress).collect();
        assert_eq!(progress, ["50 of 50 sent, 50 returned"], "size {size}");
    }
}

#[test]
fn datagrams_that_come_back_over_bad_links_are_whole() {
    let mut world = datagrams(2, 3_000, 100_000, Recording::default());
    finish(&mut world);
    assert!(
        world.pipes().all(|p| p.counts().lost > 0 && p.counts().corrupted > 0 && p.counts().duplicated > 0)
    );
}

#[test]
fn one_seed_gives_one_capture_and_another_seed_another() {
    let capture = |seed| {
        let mut world = datagrams(seed, 2_000, 50_000, Recording { capture: true, ..Recording::default() });
        finish(&mut world);
        world.take_capture().expect("it was on")
    };
    let first = capture(3);
    assert!(first.len() > 50_000);
    assert_eq!(first, capture(3));
    assert_ne!(first, capture(4));
}

#[test]
fn routers_share_a_bottleneck() {
    let mut world = World::new(5, Recording::default());
    let hosts: Vec<usize> = (1..=3).map(|n| world.add_host(HostSpec::new(ip(n)))).collect();
    let queue = QueueSpec { rate: 1_000_000, packets: 5, ..QueueSpec::default() };
    let shared =
        world.add_pipe(None, &PipeSpec { queue: Some(queue), ..PipeSpec::default() }, To::Host(hosts[2]));
    let access = PipeSpec { nic: Some(NicSpec::default()), ..PipeSpec::default() };
    for n in [0, 1] {
        world.add_pipe(Some(hosts[n]), &access, To::Router(vec![(ip(3), shared)]));
        let spec = UdpPingSpec {
            local: SocketAddr::new(ip(n as u8 + 1), 0),
            remote: SocketAddr::new(ip(3), 9_007),
            key: 7,
            count: 20,
            size: 1_000,
            every_ns: 1_000_000,
            start: Instant::ZERO,
        };
        world.add_app(hosts[n], Box::new(UdpPing::new(spec)));
    }
    world.add_app(hosts[2], Box::new(UdpEcho::new(SocketAddr::new(ip(3), 9_007))));
    world.start();
    finish(&mut world);
    let shared = world.pipes().next().expect("it is there").counts();
    assert_eq!(shared.accepted, 40);
    assert!(shared.queue_full > 20, "a queue of five at 1 Mbit/s cannot hold them: {shared:?}");
}

#[test]
fn a_world_that_stands_still_says_where() {
    struct Spinner;
    impl App for Spinner {
        fn name(&self) -> &'static str {
            "spinner"
        }
        fn start(&mut self, io: &mut crate::app::Io<'_>) {
            io.wake_at(io.now);
        }
        fn event(&mut self, _: &mut crate::app::Io<'_>, _: lowwater_core::socket::Event) {}
        fn wake(&mut self, io: &mut crate::app::Io<'_>) {
            io.wake_at(io.now);
        }
        fn done(&self) -> bool {
            false
        }
        fn stop(&mut self, _: &mut crate::app::Io<'_>) {}
        fn progress(&self) -> String {
            String::new()
        }
    }
    let mut world = World::new(1, Recording::default());
    let h = world.add_host(HostSpec::new(ip(1)));
    world.add_app(h, Box::new(Spinner));
    world.start();
    let broken = world.run_until(Instant::from_millis(1)).expect_err("it spins");
    assert_eq!(broken.checker, "progress");
    assert!(broken.message.contains("host#0"), "{}", broken.message);
}

/// A program that is over before anything happens, and has broken something.
struct Hasty;

impl App for Hasty {
    fn name(&self) -> &'static str {
        "hasty"
    }
    fn start(&mut self, io: &mut crate::app::Io<'_>) {
        io.fail("hasty", "it begins badly");
    }
    fn event(&mut self, _: &mut crate::app::Io<'_>, _: lowwater_core::socket::Event) {}
    fn wake(&mut self, _: &mut crate::app::Io<'_>) {}
    fn done(&self) -> bool {
        true
    }
    fn stop(&mut self, _: &mut crate::app::Io<'_>) {}
    fn progress(&self) -> String {
        String::new()
    }
}

#[test]
fn what_breaks_before_the_first_step_is_told_where_no_step_is_wanted() {
    let mut world = World::new(1, Recording::default());
    let h = world.add_host(HostSpec::new(ip(1)));
    world.add_app(h, Box::new(Hasty));
    world.start();
    let broken = world.run_while(Instant::from_millis(1), |w| !w.all_done()).expect_err("it is broken");
    assert_eq!(broken.checker, "hasty");
}

/// A packet from nowhere, and one that goes past the host's account.
#[test]
fn packets_that_no_link_delivered_are_seen() {
    let datagram =
        || Packet::received(bytes::Bytes::from_static(&[0x45; 20]), Default::default(), Instant::ZERO);
    let told = |wrong: fn(&mut World, Packet)| {
        let mut world = datagrams(1, 100, 0, Recording::default());
        finish(&mut world);
        wrong(&mut world, datagram());
        conservation::check(&world).expect_err("something is wrong")
    };
    let from_nowhere = told(|world, packet| world.hosts[0].arrive(world.now, packet));
    assert!(from_nowhere.contains("packets for hosts, and"), "{from_nowhere}");
    let past = told(|world, packet| {
        let now = world.now;
        world.hosts[1].core_mut().receive(now, packet);
        world.hosts[1].core_mut().flush(now);
    });
    assert!(past.contains("its stack has counted"), "{past}");
}

/// A writer of much more than the line takes in a second.
fn flooded() -> World {
    use crate::app::{Bulk, BulkSpec, Pace, Sink};
    use lowwater_core::{base::Sysctl, socket::ListenOptions, tcp::SocketOptions};
    let mut world = World::new(1, Recording::default());
    let (a, b) = (world.add_host(HostSpec::new(ip(1))), world.add_host(HostSpec::new(ip(2))));
    let line =
        PipeSpec { nic: Some(NicSpec { rate: 1_000_000, ..NicSpec::default() }), ..PipeSpec::default() };
    world.add_pipe(Some(a), &line, To::Host(b));
    world.add_pipe(Some(b), &line, To::Host(a));
    let options = SocketOptions { sndbuf: Some(4_000_000), ..SocketOptions::new(&Sysctl::default()) };
    world.add_app(b, Box::new(Sink::new(9, ListenOptions::new(options.clone()), Pace::Eager, 1)));
    let (remote, start) = (SocketAddr::new(ip(2), 9), Instant::ZERO);
    let spec = BulkSpec {
        remote,
        key: 1,
        bytes: 50_000_000,
        write: 65_536,
        owned: false,
        start,
        options,
        more: 0,
        urgent: 0,
        gives_up: false,
    };
    world.add_app(a, Box::new(Bulk::new(spec)));
    world.start();
    world.run_until(Instant::from_millis(1_000)).expect("no promise is broken");
    world
}

#[test]
fn what_is_unsent_beyond_the_low_water_mark_is_seen() {
    use crate::check::lowat;
    use lowwater_core::{base::Sysctl, tcp::SocketOptions};
    let mut world = flooded();
    let id =
        world.hosts()[0].apps().next().and_then(|app| app.sockets().first().copied()).expect("it is open");
    let mut judge = |notsent_lowat| {
        let options = SocketOptions { notsent_lowat, ..SocketOptions::new(&Sysctl::default()) };
        lowat::check(world.host_mut(0).core_mut(), id, &options)
    };
    assert_eq!(judge(0), Ok(()));
    assert!(judge(16_384).is_err_and(|what| what.contains("147456 may be")));
}

#[test]
fn who_is_told_to_write_and_may_not_is_seen() {
    use lowwater_core::socket::Event;
    let mut world = flooded();
    // The first time there may be a little room; a microsecond later there is none.
    for _ in 0..2 {
        world.for_each_app(|app, io| {
            let id = app.sockets().first().copied();
            id.into_iter().for_each(|id| app.event(io, Event::Writable(id)));
        });
        assert!(world.ledger.broken().is_none_or(|broken| broken.checker == "lowat"));
        let _ = world.run_until(world.now().plus_nanos(1_000));
    }
    let broken = world.ledger.broken().expect("its buffer is full");
    assert!(broken.checker == "lowat" && broken.message.contains("nothing is taken"), "{broken}");
}

#[test]
fn a_reset_is_excused_to_the_reader_of_a_writer_that_was_given_up_and_to_no_other() {
    let reset = |of_itself: bool| {
        let mut world = flooded();
        let id = world.hosts()[0]
            .apps()
            .next()
            .and_then(|app| app.sockets().first().copied())
            .expect("it is open");
        let writer = world.hosts()[0].core().stack().local_addr(id).expect("it is open");
        let other = SocketAddr::new(writer.ip(), writer.port() ^ 1);
        world.ledger.given_up.push(if of_itself { writer } else { other });
        let now = world.now();
        world.host_mut(0).core_mut().abort(now, id);
        let _ = world.run_until(now + std::time::Duration::from_secs(30));
        let progress: Vec<String> = world.hosts()[1].apps().map(App::progress).collect();
        assert_eq!(progress, ["0 of 1 streams ended, 0 open"], "it was reset");
        world.ledger.broken().map(|broken| broken.message.clone())
    };
    assert_eq!(reset(true), None);
    assert!(reset(false).is_some_and(|what| what.contains("the reader of") && what.contains("reset")));
}

#[test]
fn a_writer_that_is_given_up_has_an_address() {
    let mut world = flooded();
    world.for_each_app(|app, io| {
        if app.name() == "bulk" {
            io.ledger.give_up(io.core, io.now, app.sockets().first().copied());
        }
    });
    assert!(world.ledger.given_up.len() == 1 && world.ledger.broken().is_none());
    world.for_each_app(|_, io| io.ledger.give_up(io.core, io.now, None));
    let broken = world.ledger.broken().expect("it is told");
    assert!(world.ledger.given_up.len() == 1 && broken.message.contains("no address"), "{broken}");
}
