//! Readiness of many sockets at once: levels, edges, once, ends and errors, and writability by TCP_NOTSENT_LOWAT.
use lowwater::ready::{Events, Seen, Set};
use lowwater::{ConnectOptions, SocketOptions, Stack, blocking, link};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// Long enough for anything that is to come.
const SOON: Option<Duration> = Some(Duration::from_secs(30));
/// Not at all: what is there now.
const NOW: Option<Duration> = Some(Duration::ZERO);

struct Two {
    set: Set,
    here: blocking::TcpStream,
    there: blocking::TcpStream,
    stacks: (Stack, Stack),
}

/// A connection whose client's end is nonblocking and watched for `events`; `lowat` is its TCP_NOTSENT_LOWAT.
fn two(events: Events, lowat: u32) -> Two {
    let (a, b) = link::pair(1500);
    let stack = |port, address| Stack::builder().device(port).address(address).build().unwrap();
    let stacks = (stack(a, "10.0.0.1/24"), stack(b, "10.0.0.2/24"));
    let listener = blocking::TcpListener::bind(&stacks.1, "10.0.0.2:7").unwrap();
    let mut options = SocketOptions::new(&lowwater::core::base::Sysctl::default());
    (options.notsent_lowat, options.sndbuf) = (lowat, Some(8 << 20));
    let options = ConnectOptions { options: Some(options), ..ConnectOptions::default() };
    let here = blocking::TcpStream::connect_with(&stacks.0, "10.0.0.2:7".parse().unwrap(), &options).unwrap();
    let (there, _) = listener.accept().unwrap();
    here.set_nonblocking(true).unwrap();
    let set = Set::new(&stacks.0).unwrap();
    set.add(&here, 7, events).unwrap();
    Two { set, here, there, stacks }
}

impl Two {
    /// What is told next.
    fn next(&self) -> Events {
        let seen = self.set.wait(8, SOON).unwrap();
        let [Seen { token: 7, events }] = seen[..] else { panic!("{seen:?}") };
        events
    }

    fn nothing(&self) -> bool {
        self.set.wait(8, NOW).unwrap().is_empty()
    }
}

#[test]
fn by_level_data_is_told_until_it_is_read() {
    let mut two = two(Events::IN, 0);
    assert!(two.nothing());
    two.there.write_all(b"data").unwrap();
    assert_eq!(two.next(), Events::IN);
    assert_eq!(two.next(), Events::IN);
    let _ = two.here.read(&mut [0; 16]).unwrap();
    assert!(two.nothing());
}

#[test]
fn by_edge_each_arrival_is_told_once() {
    let mut two = two(Events::IN | Events::ET, 0);
    for _ in 0..3 {
        two.there.write_all(b"data").unwrap();
        assert_eq!(two.next(), Events::IN);
        let _ = two.here.read(&mut [0; 16]).unwrap();
        assert!(two.nothing());
    }
}

#[test]
fn once_is_once_until_it_is_armed_again() {
    let mut two = two(Events::IN | Events::ONESHOT, 0);
    two.there.write_all(b"data").unwrap();
    assert_eq!(two.next(), Events::IN);
    two.there.write_all(b"more").unwrap();
    two.there.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(two.nothing());
    two.set.modify(&two.here, 7, Events::IN | Events::ONESHOT).unwrap();
    assert_eq!(two.next(), Events::IN);
}

#[test]
fn ends_and_errors_are_told_also_to_those_who_watch_for_nothing() {
    let two = two(Events::RDHUP, 0);
    two.there.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(two.next(), Events::RDHUP);
    two.set.modify(&two.here, 7, Events::NONE).unwrap();
    assert!(two.nothing());
    two.there.abort();
    let events = two.next();
    assert!(events.contains(Events::HUP | Events::ERR), "{events:?}");
}

#[test]
fn a_writer_by_edges_is_told_under_half_the_limit() {
    const LOWAT: u32 = 131_072;
    const BYTES: usize = 16 << 20;
    let Two { set, mut here, mut there, stacks } = two(Events::OUT | Events::ET, LOWAT);
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while there.read(&mut buffer).unwrap() > 0 {}
    });
    let data = vec![1; 1 << 20];
    let (mut written, mut edges) = (0, 0);
    while written < BYTES {
        // It is told at once that there is room; after that only once it has seen "full", also by a write that took a part.
        assert_eq!(set.wait(8, SOON).unwrap(), [Seen { token: 7, events: Events::OUT }]);
        let unsent = here.info().unwrap().notsent_bytes;
        assert!(2 * unsent < LOWAT, "{unsent} bytes unsent when it was told");
        edges += 1;
        while let Ok(n) = here.write(&data) {
            written += n;
        }
    }
    // From the limit to under half of it, half a limit must have left for each edge but the first.
    assert!((2..=1 + written / (LOWAT as usize / 2)).contains(&edges), "{edges} edges for {written} bytes");
    drop(here);
    reader.join().unwrap();
    drop(stacks);
}

#[test]
fn listeners_datagrams_and_several_sets_go_together() {
    let two = two(Events::IN, 0);
    let stack = &two.stacks.0;
    let listener = blocking::TcpListener::bind(stack, "10.0.0.1:9").unwrap();
    let udp = blocking::UdpSocket::bind(stack, "10.0.0.1:9").unwrap();
    let other = Set::new(stack).unwrap();
    for set in [&two.set, &other] {
        set.add(&listener, 1, Events::IN).unwrap();
        set.add(&udp, 2, Events::IN).unwrap();
    }
    let _client = blocking::TcpStream::connect(&two.stacks.1, "10.0.0.1:9").unwrap();
    let sender = blocking::UdpSocket::bind(&two.stacks.1, "10.0.0.2:0").unwrap();
    sender.send_to(b"datagram", "10.0.0.1:9").unwrap();
    for set in [&two.set, &other] {
        let mut tokens = Vec::new();
        while tokens.len() < 2 {
            tokens = set.wait(8, SOON).unwrap().into_iter().map(|seen| seen.token).collect();
        }
        tokens.sort_unstable();
        assert_eq!(tokens, [1, 2]);
        assert_eq!(set.wait(1, SOON).unwrap().len(), 1, "at most as many as asked for");
    }
    drop(listener);
    assert_eq!(
        other.wait(8, SOON).unwrap(),
        [Seen { token: 2, events: Events::IN }],
        "a dropped socket is forgotten"
    );
}

#[test]
fn mistakes_have_stds_kinds() {
    let two = two(Events::IN, 0);
    let kind = |result: std::io::Result<()>| result.map_err(|e| e.kind()).unwrap_err();
    assert_eq!(kind(two.set.add(&two.here, 1, Events::IN)), ErrorKind::AlreadyExists);
    assert_eq!(kind(two.set.add(&two.there, 1, Events::IN)), ErrorKind::InvalidInput);
    two.set.remove(&two.here).unwrap();
    assert_eq!(kind(two.set.remove(&two.here)), ErrorKind::NotFound);
    assert_eq!(kind(two.set.modify(&two.here, 1, Events::IN)), ErrorKind::NotFound);
    let sets: Vec<_> = (1..64).map(|_| Set::new(&two.stacks.0).unwrap()).collect();
    assert_eq!(Set::new(&two.stacks.0).map(drop).map_err(|e| e.kind()), Err(ErrorKind::OutOfMemory));
    drop(sets);
    assert!(Set::new(&two.stacks.0).is_ok());
}

#[test]
fn the_end_of_the_stack_wakes_who_waits() {
    let two = two(Events::IN, 0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| two.set.wait(8, None));
        std::thread::sleep(Duration::from_millis(50));
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(two.stacks.0.shutdown(Duration::ZERO));
        // It hears of the reset of its connection, or of the end.
        while let Ok(seen) = two.set.wait(8, SOON) {
            assert!(seen.iter().all(|s| s.token == 7));
        }
        drop(waiting.join().unwrap());
    });
}
