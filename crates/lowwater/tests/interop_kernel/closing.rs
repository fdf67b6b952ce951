//! How connections open, stay silent and end between the kernel and us, in every order.
use crate::world::{
    PATIENCE, Setup, World, connected, in_world, kernel, kernel_connect_from, ours, patient_ours,
};
use lowwater::ConnectOptions;
use lowwater::SocketOptions;
use lowwater::blocking::{TcpListener as OurListener, TcpStream as OurStream};
use lowwater::core::tcp::State;
use rustix::net::sockopt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// Every address family with each side as opener.
fn each(f: fn(&World, bool, bool)) {
    in_world(&Setup::default(), |world| {
        for (v6, kernel_opens) in [(false, false), (false, true), (true, false), (true, true)] {
            f(world, v6, kernel_opens);
        }
    });
}

/// Waits until `done`, with a limit.
fn soon(what: &str, world: &World, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !done() {
        assert!(Instant::now() < end, "not so in time: {what}\n{}", world.describe());
        thread::sleep(Duration::from_millis(1));
    }
}

fn states(world: &World) -> Vec<State> {
    let all = world.stack.sockets().sockets;
    all.into_iter().map(|s| s.state).filter(|&s| s != State::Listen).collect()
}

fn kind<T: std::fmt::Debug>(result: std::io::Result<T>) -> ErrorKind {
    result.expect_err("it should have failed").kind()
}

#[test]
fn we_close_first() {
    each(|world, v6, kernel_opens| {
        let (mut kernels, our) = connected(world, v6, kernel_opens);
        (&our).write_all(b"last words").unwrap();
        drop(our);
        let mut text = String::new();
        kernels.read_to_string(&mut text).unwrap();
        assert_eq!(text, "last words");
        soon("FIN-WAIT-2", world, || states(world).contains(&State::FinWait2));
        drop(kernels);
        soon("no FIN-WAIT", world, || !states(world).contains(&State::FinWait2));
        assert!(states(world).contains(&State::TimeWait), "{}", world.describe());
    });
}

#[test]
fn the_kernel_closes_first() {
    each(|world, v6, kernel_opens| {
        let (mut kernels, mut our) = connected(world, v6, kernel_opens);
        kernels.write_all(b"last words").unwrap();
        drop(kernels);
        let mut text = String::new();
        our.read_to_string(&mut text).unwrap();
        assert_eq!(text, "last words");
        assert_eq!(states(world), [State::CloseWait]);
        drop(our);
        soon("nothing left", world, || states(world).is_empty());
    });
}

#[test]
fn both_close_at_once() {
    in_world(&Setup::default(), |world| {
        for round in 0..20 {
            let (kernels, our) = connected(world, round % 2 == 0, round % 3 == 0);
            thread::scope(|s| {
                s.spawn(|| drop(kernels));
                s.spawn(|| drop(our));
            });
        }
        soon("only TIME-WAIT left", world, || states(world).iter().all(|&s| s == State::TimeWait));
        assert_eq!(world.stack.counters().tcp.estab_resets, 0, "{}", world.describe());
    });
}

#[test]
fn half_of_a_connection_closes() {
    each(|world, v6, kernel_opens| {
        let data = vec![7; 1_000_000];
        let (mut kernels, mut our) = connected(world, v6, kernel_opens);
        kernels.write_all(b"question").unwrap();
        kernels.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        our.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"question");
        thread::scope(|s| {
            s.spawn(|| {
                (&our).write_all(&data).unwrap();
                our.shutdown(Shutdown::Write).unwrap();
            });
            got.clear();
            kernels.read_to_end(&mut got).unwrap();
        });
        assert!(got == data, "{} bytes", got.len());

        let (mut kernels, mut our) = connected(world, v6, kernel_opens);
        (&our).write_all(b"question").unwrap();
        our.shutdown(Shutdown::Write).unwrap();
        got.clear();
        kernels.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"question");
        thread::scope(|s| {
            s.spawn(|| {
                kernels.write_all(&data).unwrap();
                kernels.shutdown(Shutdown::Write).unwrap();
            });
            got.clear();
            our.read_to_end(&mut got).unwrap();
        });
        assert!(got == data, "{} bytes", got.len());
    });
}

#[test]
fn a_close_with_unread_data_resets() {
    each(|world, v6, kernel_opens| {
        let (mut kernels, our) = connected(world, v6, kernel_opens);
        kernels.write_all(b"nobody will read this").unwrap();
        soon("arrived", world, || our.info().unwrap().bytes_received == 21);
        drop(our);
        assert_eq!(kind(kernels.read(&mut [0; 8])), ErrorKind::ConnectionReset);

        let (kernels, mut our) = connected(world, v6, kernel_opens);
        (&our).write_all(b"nobody will read this").unwrap();
        soon("acknowledged", world, || our.info().unwrap().bytes_acked >= 21);
        drop(kernels);
        assert_eq!(kind(our.read(&mut [0; 8])), ErrorKind::ConnectionReset);
        drop(our);
        assert_eq!(states(world), []);
    });
}

#[test]
fn linger_of_zero_resets() {
    each(|world, v6, kernel_opens| {
        let (mut kernels, our) = connected(world, v6, kernel_opens);
        our.set_linger(Some(Duration::ZERO)).unwrap();
        drop(our);
        assert_eq!(kind(kernels.read(&mut [0; 8])), ErrorKind::ConnectionReset);

        let (kernels, mut our) = connected(world, v6, kernel_opens);
        sockopt::set_socket_linger(&kernels, Some(Duration::ZERO)).unwrap();
        drop(kernels);
        assert_eq!(kind(our.read(&mut [0; 8])), ErrorKind::ConnectionReset);
        assert_eq!(kind((&our).write(b"x")), ErrorKind::BrokenPipe);
        drop(our);
        assert_eq!(states(world), []);
    });
}

#[test]
fn data_for_a_closed_socket_resets() {
    each(|world, v6, kernel_opens| {
        let (mut kernels, our) = connected(world, v6, kernel_opens);
        drop(our);
        soon("FIN-WAIT-2", world, || states(world).contains(&State::FinWait2));
        kernels.write_all(b"too late").unwrap();
        soon("reset", world, || !states(world).contains(&State::FinWait2));
        let second = (0..200).find_map(|_| {
            thread::sleep(Duration::from_millis(5));
            kernels.write_all(b"x").err()
        });
        assert_eq!(second.expect("a reset came").kind(), ErrorKind::BrokenPipe);

        let (kernels, our) = connected(world, v6, kernel_opens);
        drop(kernels);
        soon("CLOSE-WAIT", world, || states(world).contains(&State::CloseWait));
        (&our).write_all(b"too late").unwrap();
        soon("reset", world, || !states(world).contains(&State::CloseWait));
        assert_eq!(kind((&our).write(b"x")), ErrorKind::BrokenPipe);
    });
}

#[test]
fn closed_ports_refuse() {
    in_world(&Setup::default(), |world| {
        for v6 in [false, true] {
            let begin = Instant::now();
            assert_eq!(kind(TcpStream::connect(ours(v6, 4_000))), ErrorKind::ConnectionRefused);
            let to = kernel(v6, 4_000);
            assert_eq!(kind(OurStream::connect(&world.stack, to)), ErrorKind::ConnectionRefused);
            assert!(begin.elapsed() < Duration::from_millis(500));
        }
        assert_eq!(states(world), []);
    });
}

#[test]
fn nobody_answers() {
    let setup = Setup { kernel: vec![("tcp_syn_retries", "1")], ..Setup::default() };
    in_world(&setup, |world| {
        world.control.blackhole.store(true, Relaxed);
        thread::scope(|s| {
            s.spawn(|| {
                let begin = Instant::now();
                assert_eq!(kind(TcpStream::connect(ours(false, 4_000))), ErrorKind::TimedOut);
                println!("the kernel gave up after {:?}", begin.elapsed());
            });
            let begin = Instant::now();
            let options = Some(SocketOptions { syncnt: 1, ..SocketOptions::new(&world.stack.sysctl()) });
            let options = ConnectOptions { options, local: None };
            let to = kernel(true, 4_000);
            let answer = OurStream::connect_with(&world.stack, to, &options);
            let took = begin.elapsed();
            assert_eq!(kind(answer), ErrorKind::TimedOut);
            // SYN at 0 and 1 s, then two seconds of patience.
            assert!(took.abs_diff(Duration::from_secs(3)) < Duration::from_millis(300), "{took:?}");
        });
        world.control.blackhole.store(false, Relaxed);
        let (mut kernels, our) = connected(world, false, true);
        kernels.write_all(b"x").unwrap();
        assert_eq!((&our).read(&mut [0; 8]).unwrap(), 1);
    });
}

#[test]
fn keepalive_probes_are_answered_and_missed() {
    in_world(&Setup::default(), |world| {
        let (mut kernels, mut our) = connected(world, false, true);
        let second = Duration::from_secs(1);
        sockopt::set_tcp_keepidle(&kernels, second).unwrap();
        sockopt::set_tcp_keepintvl(&kernels, second).unwrap();
        sockopt::set_tcp_keepcnt(&kernels, 2).unwrap();
        sockopt::set_socket_keepalive(&kernels, true).unwrap();
        let keep = |o: &mut SocketOptions| {
            (o.keepalive, o.keepidle, o.keepintvl, o.keepcnt) = (true, 1, 1, 2);
        };
        our.set_options(keep).unwrap();
        thread::sleep(4 * second);
        kernels.write_all(b"x").unwrap();
        assert_eq!(our.read(&mut [0; 8]).unwrap(), 1);
        (&our).write_all(b"x").unwrap();
        assert_eq!(kernels.read(&mut [0; 8]).unwrap(), 1);
        // Who probes first spares the other: at least our answers or our probes were seen.
        let count = world.stack.counters();
        println!("{} probes of ours, {} segments in", count.tcp_ext.tcp_keep_alive, count.tcp.in_segs);
        // A delayed acknowledgement that gets lost would be another test.
        thread::sleep(second / 4);
        world.control.blackhole.store(true, Relaxed);
        let begin = Instant::now();
        thread::scope(|s| {
            s.spawn(|| assert_eq!(kind(kernels.read(&mut [0; 8])), ErrorKind::TimedOut));
            assert_eq!(kind(our.read(&mut [0; 8])), ErrorKind::TimedOut);
        });
        let took = begin.elapsed();
        assert!(took > 2 * second && took < 5 * second, "{took:?}");
    });
}

/// Bytes that fill every buffer on the way.
const MUCH: usize = 24_000_000;

#[test]
fn the_kernel_reads_late() {
    in_world(&Setup::default(), |world| {
        let (mut kernels, our) = connected(world, false, false);
        thread::scope(|s| {
            s.spawn(|| {
                (&our).write_all(&vec![3; MUCH]).unwrap();
                our.shutdown(Shutdown::Write).unwrap();
            });
            thread::sleep(Duration::from_secs(3));
            assert!(our.info().unwrap().snd_wnd < 65_536, "{}", world.describe());
            let begin = Instant::now();
            let mut got = Vec::new();
            kernels.read_to_end(&mut got).unwrap_or_else(|e| panic!("{e}\n{}", world.describe()));
            assert_eq!(got.len(), MUCH);
            assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        });
    });
}

#[test]
fn we_read_late() {
    in_world(&Setup::default(), |world| {
        let (mut kernels, mut our) = connected(world, true, true);
        thread::scope(|s| {
            s.spawn(|| {
                kernels.write_all(&vec![3; MUCH]).unwrap();
                kernels.shutdown(Shutdown::Write).unwrap();
            });
            thread::sleep(Duration::from_secs(3));
            let before = our.info().unwrap().bytes_received;
            thread::sleep(Duration::from_millis(100));
            assert_eq!(our.info().unwrap().bytes_received, before, "the window is not closed");
            let begin = Instant::now();
            let mut got = Vec::new();
            our.read_to_end(&mut got).unwrap_or_else(|e| panic!("{e}\n{}", world.describe()));
            assert_eq!(got.len(), MUCH);
            assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        });
    });
}

#[test]
fn time_wait_gives_way_to_the_same_port() {
    for timestamps in ["1", "0"] {
        in_world(&Setup::default().both("tcp_timestamps", timestamps), |world| {
            for v6 in [false, true] {
                // TIME-WAIT is with us, and the kernel comes again.
                let listener = OurListener::bind(&world.stack, ours(v6, 7)).unwrap();
                for round in 0..5 {
                    let begin = Instant::now();
                    let mut kernels = kernel_connect_from(kernel(v6, 2_000), ours(v6, 7))
                        .unwrap_or_else(|e| panic!("round {round}: {e}\n{}", world.describe()));
                    let our = patient_ours(listener.accept().unwrap().0);
                    drop(our);
                    assert_eq!(kernels.read(&mut [0; 8]).unwrap(), 0);
                    drop(kernels);
                    assert!(begin.elapsed() < Duration::from_millis(500), "round {round}");
                    soon("TIME-WAIT", world, || states(world).iter().all(|&s| s == State::TimeWait));
                }
                // The other way round.
                let listener = TcpListener::bind(kernel(v6, 0)).unwrap();
                let to = listener.local_addr().unwrap();
                for round in 0..5 {
                    let begin = Instant::now();
                    let local = Some(ours(v6, 2_001));
                    let options = ConnectOptions { local, options: None };
                    let mut our = patient_ours(
                        OurStream::connect_with(&world.stack, to, &options)
                            .unwrap_or_else(|e| panic!("round {round}: {e}\n{}", world.describe())),
                    );
                    drop(listener.accept().unwrap());
                    assert_eq!(our.read(&mut [0; 8]).unwrap(), 0);
                    drop(our);
                    assert!(begin.elapsed() < Duration::from_millis(500), "round {round}");
                    soon("gone", world, || states(world).iter().all(|&s| s == State::TimeWait));
                }
            }
        });
    }
}

#[test]
fn short_connections_follow_each_other() {
    in_world(&Setup::default(), |world| {
        const COUNT: u32 = 500;
        let begin = Instant::now();
        let listener = OurListener::bind(&world.stack, ours(false, 7)).unwrap();
        let kernels = TcpListener::bind(kernel(false, 7)).unwrap();
        thread::scope(|s| {
            s.spawn(|| (0..COUNT).for_each(|_| echo(patient_ours(listener.accept().unwrap().0))));
            s.spawn(|| (0..COUNT).for_each(|_| echo(crate::world::patient(kernels.accept().unwrap().0))));
            s.spawn(|| {
                for _ in 0..COUNT {
                    ask(TcpStream::connect_timeout(&ours(false, 7), PATIENCE).unwrap());
                }
            });
            for _ in 0..COUNT {
                ask(OurStream::connect_timeout(&world.stack, &kernel(false, 7), PATIENCE).unwrap());
            }
        });
        let per_second = f64::from(COUNT) / begin.elapsed().as_secs_f64();
        println!("{per_second:.0} connections per second in each direction");
        assert!(per_second > 200.0, "{per_second}\n{}", world.describe());
    });
}

fn echo(mut stream: impl Read + Write) {
    let mut buffer = [0; 64];
    let n = stream.read(&mut buffer).unwrap();
    stream.write_all(&buffer[..n]).unwrap();
}

fn ask(mut stream: impl Read + Write) {
    stream.write_all(b"hello").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"hello");
}
