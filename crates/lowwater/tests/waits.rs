//! Who waits for a socket, and what ends that: other threads, many that wait, the end of the stack.
use lowwater::blocking::{SctpAssociation, SctpListener, TcpListener, TcpStream, UdpSocket};
use lowwater::core::base::Rng;
use lowwater::core::device::{Device, DeviceCaps, Submit};
use lowwater::core::packet::{Offload, Packet};
use lowwater::link::{self, Link, QueueLimit};
use lowwater::port::{NotNow, Port};
use lowwater::ready::{Events, Set};
use lowwater::{Builder, ListenOptions, Stack};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

fn two() -> (Stack, Stack) {
    let (a, b) = link::pair(1500);
    let stack = |port, address| Stack::builder().device(port).address(address).build().unwrap();
    (stack(a, "10.0.0.1/24"), stack(b, "10.0.0.2/24"))
}

/// A connection from the second stack to the first.
fn connection(server: &Stack, client: &Stack) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(server, "10.0.0.1:0").unwrap();
    let ours = TcpStream::connect(client, listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0)
}

/// What a thread comes back with that does something with a clone of the connection.
fn beside<T: Send + 'static>(
    stream: &TcpStream,
    f: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> Receiver<T> {
    let (tell, told) = mpsc::channel();
    let clone = stream.try_clone().unwrap();
    thread::spawn(move || tell.send(f(clone)));
    // Long enough to have begun to wait.
    thread::sleep(Duration::from_millis(200));
    told
}

fn soon<T>(told: &Receiver<T>) -> T {
    told.recv_timeout(Duration::from_secs(30)).expect("it waits for ever")
}

/// Waits for what other threads do.
fn until(what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !f() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// More than both buffers hold, to a peer that does not read.
fn write_much(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(&vec![0; 100 << 20])
}

#[test]
fn an_abort_ends_the_waits_of_other_threads() {
    let (a, b) = two();
    let (ours, _theirs) = connection(&a, &b);
    let read = beside(&ours, |mut stream| stream.read(&mut [0; 9]));
    let write = beside(&ours, write_much);
    ours.abort();
    assert!(soon(&read).is_err() && soon(&write).is_err());
}

/// As with the kernel's sockets, which is how a program ends its threads.
#[test]
fn a_shutdown_ends_the_waits_of_other_threads() {
    let (a, b) = two();
    let (ours, _theirs) = connection(&a, &b);
    let read = beside(&ours, |mut stream| stream.read(&mut [0; 9]));
    ours.shutdown(Shutdown::Read).unwrap();
    assert_eq!(soon(&read).unwrap(), 0);
    let write = beside(&ours, write_much);
    let [room, set] = [Events::OUT, Events::OUT | Events::ET].map(|events| {
        let set = Set::new(&b).unwrap();
        set.add(&ours, 7, events).unwrap();
        set
    });
    // What is under way may still make room.
    let mut full = 0;
    until("there is no room", || {
        full = if room.wait(1, Some(Duration::from_millis(20))).unwrap().is_empty() { full + 1 } else { 0 };
        full == 10
    });
    // Edges from before.
    set.wait(1, Some(Duration::ZERO)).unwrap();
    assert!(set.wait(1, Some(Duration::ZERO)).unwrap().is_empty(), "there is no room");
    ours.shutdown(Shutdown::Write).unwrap();
    assert_eq!(soon(&write).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert!(set.wait(1, Some(Duration::ZERO)).unwrap()[0].events.contains(Events::OUT));
}

/// It was counted among the sockets that the program holds, so that the one that closes was not waited for.
#[test]
fn a_connection_that_was_aborted_and_is_held_hides_none_that_closes_in_the_background() {
    let (a, b) = two();
    let (aborted, _) = connection(&a, &b);
    let (mut ours, mut theirs) = connection(&a, &b);
    aborted.abort();
    ours.write_all(&[7; 300_000]).unwrap();
    drop(ours);
    let reader = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).map(|_| all.len())
    });
    assert_eq!(b.shutdown_blocking(Duration::from_secs(30)).aborted, 0);
    assert_eq!(reader.join().unwrap().unwrap(), 300_000);
    drop(aborted);
}

/// A task that only says whether it is to be polled.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// How often two hundred tasks are polled that wait for what never comes.
fn polls_of_many(mut poll: impl FnMut(&mut Context<'_>) -> bool) -> usize {
    let tasks: Vec<_> = (0..200).map(|_| Arc::new(Flag(true.into()))).collect();
    let mut polls = 0;
    while let Some(task) = tasks.iter().find(|task| task.0.swap(false, Relaxed)) {
        assert!(poll(&mut Context::from_waker(&Waker::from(Arc::clone(task)))), "there is nothing");
        polls += 1;
        assert!(polls < 10_000, "they wake each other for ever");
    }
    polls
}

#[test]
fn many_that_wait_for_one_thing_sleep() {
    let (a, _b) = two();
    let listener =
        lowwater::TcpListener::listen(&a, &ListenOptions { port: Some(7), ..ListenOptions::default() })
            .unwrap();
    let set = Set::new(&a).unwrap();
    let (_port, link) = link::owned(1_500, QueueLimit::default());
    let polls = [
        polls_of_many(|cx| listener.poll_accept(cx).is_pending()),
        polls_of_many(|cx| set.poll_wait(cx, 1).is_pending()),
        polls_of_many(|cx| link.poll_recv(cx).is_pending()),
    ];
    assert!(polls.iter().all(|polls| *polls < 1_000), "{polls:?}");
}

/// Looks at the link in the place where it is woken, as executors of one thread may.
struct Looks(Link);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        assert!(self.0.try_recv().is_none());
    }
}

#[test]
fn who_is_woken_may_use_the_link_at_once() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let (_port, link) = link::owned(1_500, QueueLimit::default());
        for _ in 0..100 {
            let waker = Waker::from(Arc::new(Looks(link.clone())));
            assert!(link.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        }
        tell.send(())
    });
    soon(&told);
}

/// A stack that was asked about a peer whose handshake never ends, on a link that carried nothing but its SYN.
fn asked(build: impl FnOnce(Builder) -> Stack) -> (Stack, Receiver<io::ErrorKind>, [Link; 2], Stack) {
    let ends = [(); 2].map(|()| link::owned(1_500, QueueLimit::default()));
    let [(server_port, server_link), (client_port, client_link)] = ends;
    let server = build(Stack::builder().device(server_port).address("10.0.0.1/24"));
    let client = Stack::builder().device(client_port).address("10.0.0.2/24").build().unwrap();
    let options = ListenOptions { port: Some(80), ask: true, ..ListenOptions::default() };
    let listener = TcpListener::listen(&server, &options).unwrap();
    let connecting = client.clone();
    thread::spawn(move || TcpStream::connect(&connecting, "10.0.0.1:80"));
    server_link.send_blocking(&client_link.recv_blocking().unwrap().bytes()).unwrap();
    let incoming = listener.incoming_request().unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let end = incoming.accept_blocking();
        drop(listener);
        tell.send(end.expect_err("no handshake").kind())
    });
    until("the SYN is answered", || server_link.try_recv().is_some());
    // Long enough to have begun to wait.
    thread::sleep(Duration::from_millis(200));
    (server, told, [server_link, client_link], client)
}

#[test]
fn the_end_of_the_stack_ends_the_wait_for_a_handshake() {
    let (server, told, _links, _client) = asked(|builder| builder.build().unwrap());
    server.shutdown_blocking(Duration::ZERO);
    // The listener is gone first; who looks late finds the stack gone.
    assert!(matches!(soon(&told), io::ErrorKind::ConnectionAborted | io::ErrorKind::NotConnected));
}

#[test]
fn so_does_an_end_without_a_shutdown() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_server, told, _links, _client) = asked(|builder| {
        let _inside = runtime.enter();
        builder.spawn().unwrap()
    });
    drop(runtime);
    assert_eq!(soon(&told), io::ErrorKind::NotConnected);
}

/// Nobody can connect any more, and that may go on for long.
#[test]
fn listeners_hear_of_the_end_before_connections_have_closed() {
    let (a, b) = two();
    let (mut theirs, ours) = connection(&a, &b);
    let listen = |port, ask| {
        TcpListener::listen(&a, &ListenOptions { port: Some(port), ask, ..ListenOptions::default() }).unwrap()
    };
    let (plain, asks) = (listen(1, false), listen(2, true));
    let (tell, told) = mpsc::channel();
    let tell_too = tell.clone();
    thread::spawn(move || tell.send(plain.accept().map(drop).map_err(|e| e.to_string())));
    thread::spawn(move || tell_too.send(asks.incoming_request().map(drop).map_err(|e| e.to_string())));
    // More than the peer's window: it closes when somebody reads.
    let filled = beside(&ours, |mut stream| {
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        while stream.write(&[7; 65_536]).is_ok() {}
    });
    soon(&filled);
    drop(ours);
    let stack = a.clone();
    let end = thread::spawn(move || stack.shutdown_blocking(Duration::from_secs(60)));
    for _ in 0..2 {
        assert_eq!(soon(&told), Err("the stack was shut down".to_owned()));
    }
    assert!(!end.is_finished());
    io::copy(&mut theirs, &mut io::sink()).unwrap();
    drop(theirs);
    assert_eq!(end.join().unwrap().aborted, 0);
}

/// Its code never runs under the lock.
#[test]
fn a_program_may_ask_the_stack_while_it_changes_options() {
    let (a, b) = two();
    let (ours, _theirs) = connection(&a, &b);
    let told = beside(&ours, |stream| {
        stream.set_options(|options| {
            stream.set_nodelay(true).unwrap();
            options.keepcnt = 3;
        })
    });
    soon(&told).unwrap();
    let options = ours.options().unwrap();
    assert_eq!((options.nodelay, options.keepcnt), (true, 3));
}

#[test]
fn a_program_may_ask_the_stack_while_it_changes_an_associations_options() {
    let (a, b) = two();
    let listener = SctpListener::bind(&a, "10.0.0.1:7").unwrap();
    let ours = SctpAssociation::connect(&b, "10.0.0.1:7").unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        ours.set_options(|options| options.tos = u8::from(ours.state().is_ok()) * 4).unwrap();
        let peer = ours.peer_addr().unwrap().ip();
        ours.set_path(peer, |path| path.max_retrans = u16::from(ours.state().is_ok())).unwrap();
        tell.send(ours.options().unwrap().tos)
    });
    assert_eq!(soon(&told), 4);
    drop(listener);
}

/// An observer with something that asks the stack when it goes, or writes to a disk.
struct Last(Stack, mpsc::Sender<()>);

impl Drop for Last {
    fn drop(&mut self) {
        let _ = (self.0.counters(), self.1.send(()));
    }
}

#[test]
fn observers_that_go_may_ask_the_stack() {
    let (a, _b) = two();
    let (tell, told) = mpsc::channel();
    let (tell_end, end) = mpsc::channel();
    thread::spawn(move || {
        let observe = || {
            let last = Last(a.clone(), tell.clone());
            a.observe(Some(Box::new(move |_, _, _| _ = &last)));
        };
        // On its way, in its place, and at the end.
        (0..100).for_each(|_| observe());
        thread::sleep(Duration::from_millis(100));
        observe();
        a.shutdown_blocking(Duration::ZERO);
        observe();
        tell_end.send(())
    });
    soon(&end);
    let mut gone = 0;
    let all = loop {
        match told.recv_timeout(Duration::from_secs(30)) {
            Ok(()) => gone += 1,
            Err(end) => break end,
        }
    };
    assert_eq!((gone, all), (102, RecvTimeoutError::Disconnected));
}

/// What the device has not taken yet is no more gone than what stands in the queueing discipline.
#[test]
fn the_peer_hears_of_the_end_by_a_device_that_says_not_now() {
    for seed in 0..20 {
        let (a, b) = link::pair(1_500);
        let b = NotNow::new(b, Rng::new(seed), 500_000);
        let server = Stack::builder().device(a).address("10.0.0.1/24").build().unwrap();
        let client = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
        let (_ours, mut theirs) = connection(&server, &client);
        assert_eq!(client.shutdown_blocking(Duration::ZERO).aborted, 1);
        theirs.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let end = theirs.read(&mut [0; 9]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset, "{seed}: {end}");
    }
}

/// Neither has anything to lose, and no reset tells anybody of it.
#[test]
fn a_shutdown_counts_neither_datagram_sockets_nor_associations_that_are_over() {
    let (a, b) = two();
    let datagrams = UdpSocket::bind(&b, "10.0.0.2:0").unwrap();
    datagrams.connect("10.0.0.1:9").unwrap();
    let listener = SctpListener::bind(&a, "10.0.0.1:7").unwrap();
    let over = SctpAssociation::connect(&b, "10.0.0.1:7").unwrap();
    drop(listener.accept().unwrap());
    over.finish().unwrap();
    let (_ours, _theirs) = connection(&a, &b);
    assert_eq!(b.shutdown_blocking(Duration::ZERO).aborted, 1);
}

/// What a device does besides nothing.
trait Manner: Send + 'static {
    fn submit(&self) {}
    fn room(&self) {}
}

/// A device of the program's: it takes all, and nothing ever comes.
struct Quiet<T>(T);

impl<T: Manner> Device for Quiet<T> {
    fn submit(&mut self, _: lowwater::core::base::Instant, _: Packet) -> Submit {
        self.0.submit();
        Submit::Completed
    }
}

impl<T: Manner> Port for Quiet<T> {
    fn caps(&self) -> DeviceCaps {
        DeviceCaps::plain(1_500)
    }
    fn recv(&mut self, _: lowwater::core::base::Instant, _: usize, _: &mut Vec<Packet>) -> io::Result<bool> {
        Ok(false)
    }
    fn attach(&mut self, _: &lowwater_os::Poller, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn room(&self) -> QueueLimit {
        self.0.room();
        QueueLimit { packets: usize::MAX, bytes: usize::MAX }
    }
}

/// It cannot do what it should.
struct Panics;

impl Manner for Panics {
    fn submit(&self) {
        panic!("on purpose")
    }
}

#[test]
fn a_stack_whose_thread_has_panicked_says_so() {
    let stack = Stack::builder().device(Quiet(Panics)).address("10.0.0.1/24").build().unwrap();
    let end = TcpStream::connect(&stack, "10.0.0.2:1").unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::NotConnected);
    assert!(stack.failure().unwrap().contains("panicked"));
}

/// It cannot say what it would take, once it is told not to.
struct Roomless(Arc<AtomicBool>);

impl Manner for Roomless {
    fn room(&self) {
        assert!(!self.0.load(Relaxed), "on purpose");
    }
}

#[test]
fn an_observer_that_goes_because_of_a_panic_may_ask_the_stack() {
    let panics = Arc::<AtomicBool>::default();
    let stack =
        Stack::builder().device(Quiet(Roomless(panics.clone()))).address("10.0.0.1/24").build().unwrap();
    let (tell, told) = mpsc::channel();
    let last = Last(stack.clone(), tell);
    panics.store(true, Relaxed);
    stack.observe(Some(Box::new(move |_, _, _| _ = &last)));
    soon(&told);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        stack.shutdown_blocking(Duration::ZERO);
        tell.send(stack.failure())
    });
    assert!(soon(&told).unwrap().contains("panicked"));
}

/// It cannot even go.
struct PanicsAtTheEnd;

impl Drop for PanicsAtTheEnd {
    fn drop(&mut self) {
        panic!("on purpose")
    }
}

impl Manner for PanicsAtTheEnd {}

/// Neither listeners nor datagram sockets lose anything.
#[test]
fn a_driver_that_is_dropped_leaves_nobody_waiting_though_its_device_panics() {
    let builder = Stack::builder().device(Quiet(PanicsAtTheEnd)).address("10.0.0.1/24");
    let (stack, driver) = builder.build_driver().unwrap();
    let _listeners = (TcpListener::bind(&stack, "10.0.0.1:7"), SctpListener::bind(&stack, "10.0.0.1:7"));
    let _datagrams = UdpSocket::bind(&stack, "10.0.0.1:7").unwrap();
    let (tell, told) = mpsc::channel();
    let connecting = stack.clone();
    thread::spawn(move || tell.send(TcpStream::connect(&connecting, "10.0.0.2:1").unwrap_err().kind()));
    until("it connects", || stack.sockets().sockets.len() == 4);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(driver))).is_err());
    assert_eq!(soon(&told), io::ErrorKind::NotConnected);
    let (tell, told) = mpsc::channel();
    let ended = stack.clone();
    thread::spawn(move || tell.send(ended.shutdown_blocking(Duration::ZERO).aborted));
    assert_eq!(soon(&told), 1);
    assert!(stack.failure().unwrap().contains("panicked"));
}

/// It takes its time to go.
struct Slow(Arc<[AtomicBool; 2]>);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0[0].store(true, Relaxed);
        thread::sleep(Duration::from_millis(200));
        self.0[1].store(true, Relaxed);
    }
}

impl Manner for Slow {}

/// Else the next stack finds the name of a TUN taken.
#[test]
fn a_stack_has_ended_when_its_devices_are_gone() {
    let going = Arc::<[AtomicBool; 2]>::default();
    let stack = Stack::builder().device(Quiet(Slow(going.clone()))).address("10.0.0.1/24").build().unwrap();
    let first = stack.clone();
    let first = thread::spawn(move || first.shutdown_blocking(Duration::ZERO));
    while !going[0].load(Relaxed) {
        thread::yield_now();
    }
    stack.shutdown_blocking(Duration::ZERO);
    assert!(going[1].load(Relaxed));
    first.join().unwrap();
}

/// A link of Ethernet with a neighbour that answers after a while, and what else was sent to it.
struct Neighbour {
    answer: Option<Packet>,
    bell: Arc<OnceLock<lowwater_os::Waker>>,
    slept: Arc<AtomicBool>,
    got: mpsc::Sender<Vec<u8>>,
}

impl Device for Neighbour {
    fn submit(&mut self, now: lowwater::core::base::Instant, packet: Packet) -> Submit {
        let mut frame = packet.to_bytes().to_vec();
        if frame[12..14] != [8, 6] {
            let _ = self.got.send(frame);
            return Submit::Completed;
        }
        // The answer of ARP: sender and target change places, and the sender has an address.
        let asks = frame[22..32].to_vec();
        let asked = frame[38..42].to_vec();
        frame[..6].copy_from_slice(&asks[..6]);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        frame[21] = 2;
        frame[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        frame[28..32].copy_from_slice(&asked);
        frame[32..42].copy_from_slice(&asks);
        self.answer = Some(Packet::received(frame.into(), Offload::default(), now));
        let (bell, slept) = (self.bell.clone(), self.slept.clone());
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            slept.store(true, Relaxed);
            bell.get().expect("it is attached").wake();
        });
        Submit::Completed
    }
}

impl Port for Neighbour {
    fn caps(&self) -> DeviceCaps {
        DeviceCaps { ethernet: Some([2, 0, 0, 0, 0, 1]), ..DeviceCaps::plain(1_500) }
    }
    fn recv(
        &mut self,
        _: lowwater::core::base::Instant,
        _: usize,
        into: &mut Vec<Packet>,
    ) -> io::Result<bool> {
        if self.slept.load(Relaxed) {
            into.extend(self.answer.take());
        }
        Ok(false)
    }
    fn attach(&mut self, poller: &lowwater_os::Poller, _: u64) -> io::Result<()> {
        let _ = self.bell.set(poller.waker());
        Ok(())
    }
}

#[test]
fn a_datagram_that_waits_for_its_neighbours_address_leaves_before_the_end() {
    let (got, told) = mpsc::channel();
    let neighbour = Neighbour { answer: None, bell: Arc::default(), slept: Arc::default(), got };
    let stack = Stack::builder().device(neighbour).address("10.0.0.1/24").build().unwrap();
    let socket = UdpSocket::bind(&stack, "10.0.0.1:0").unwrap();
    socket.send_to(b"bye", "10.0.0.2:9").unwrap();
    drop(socket);
    stack.shutdown_blocking(Duration::ZERO);
    assert!(told.try_recv().is_ok_and(|frame| frame.ends_with(b"bye")));
}
