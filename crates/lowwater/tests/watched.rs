//! What a program may know of its stack without building it anew: packets in a file, and what changes.
#![forbid(unsafe_code)]
use lowwater::blocking::{TcpListener, TcpStream};
use lowwater::{Capture, Ev, Event, Stack};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const LEN: usize = 1 << 20;

/// Bytes that a test may look at while the stack writes them.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A megabyte from 10.0.0.2 to 10.0.0.1 port 7, whose reader is late; `watch` describes the sender further.
fn transfer(watch: impl FnOnce(lowwater::Builder) -> lowwater::Builder) {
    transfer_between(|builder| builder, watch, |_| {});
}

/// The same where `server` describes the reader, and `then` may do something with the sender's stack before it begins.
fn transfer_between(
    server: impl FnOnce(lowwater::Builder) -> lowwater::Builder,
    client: impl FnOnce(lowwater::Builder) -> lowwater::Builder,
    then: impl FnOnce(&Stack),
) {
    let (a, b) = lowwater::link::pair(1_500);
    let server = server(Stack::builder().device(a).address("10.0.0.1/24")).build().unwrap();
    let client = client(Stack::builder().device(b).address("10.0.0.2/24")).build().unwrap();
    then(&client);
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    let writer = {
        let client = client.clone();
        thread::spawn(move || {
            let mut stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
            stream.write_all(&vec![7; LEN]).unwrap();
        })
    };
    let (mut stream, _) = listener.accept().unwrap();
    // Until the window is shut or all has come: there is something to tell of either.
    thread::sleep(Duration::from_millis(20));
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    drop(stream);
    assert_eq!(got, vec![7; LEN]);
    writer.join().unwrap();
    assert_eq!(client.shutdown_blocking(Duration::from_secs(30)).aborted, 0);
    assert_eq!(server.shutdown_blocking(Duration::from_secs(30)).aborted, 0);
}

/// A block of a pcapng file: its type and body.
fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let mut all = Vec::new();
    while !file.is_empty() {
        let len = word(&file[4..8]) as usize;
        assert!(len.is_multiple_of(4) && word(&file[len - 4..len]) as usize == len, "both lengths agree");
        all.push((word(&file[..4]), file[8..len - 4].to_vec()));
        file = &file[len..];
    }
    all
}

/// Ones' complement sum over the segment and its pseudo-header (RFC 9293 section 3.1).
fn checksum_adds_up(packet: &[u8]) -> bool {
    let (addresses, segment) = (&packet[12..20], &packet[20..]);
    let len = (segment.len() as u32).to_be_bytes();
    let pseudo = [addresses, &[0, 6], &len[2..], segment].concat();
    let words = pseudo.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0)));
    let sum = words.sum::<u64>() + u64::from(u16::from_be_bytes([len[0], len[1]]));
    let mut folded = sum;
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    folded == 0xffff
}

#[test]
fn a_capture_has_every_packet_both_ways_with_its_checksum() {
    let memory = Memory::default();
    let capture = Capture::to(memory.clone()).unwrap();
    let counted = Arc::new(Mutex::new(0_usize));
    let count = counted.clone();
    transfer(|builder| {
        builder.capture(&capture).observe(Box::new(move |_, _, _| *count.lock().unwrap() += 1))
    });
    capture.finish().unwrap();
    let file = memory.0.lock().unwrap().clone();
    let all = blocks(&file);
    assert_eq!((all[0].0, all[1].0), (0x0a0d_0d0a, 1), "a section, then the interface");
    let packets: Vec<_> = all[2..].iter().collect();
    // Who looks beside it sees as many.
    assert_eq!(packets.len(), *counted.lock().unwrap());
    let (mut ways, mut payload) = ([0; 3], 0);
    for (kind, body) in packets {
        let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((*kind, word(0), word(12)), (6, 0, word(16)));
        let packet = &body[20..20 + word(12)];
        assert_eq!((packet[0], packet[9]), (0x45, 6), "IPv4 and TCP");
        assert!(checksum_adds_up(packet), "{packet:02x?}");
        // The option behind the padded packet: epb_flags.
        let flags = word((20 + word(12)).next_multiple_of(4) + 4);
        ways[flags] += 1;
        if flags == 2 {
            payload += packet.len() - 20 - usize::from(packet[32] >> 4) * 4;
        }
    }
    assert!(ways[1] > 0 && ways[2] > 0 && ways[0] == 0, "{ways:?}");
    assert!(payload >= LEN, "{payload} bytes left");
}

/// Where a program ends without a word, or somebody looks meanwhile, what has passed is in the file.
#[test]
fn a_capture_is_written_while_the_stack_runs() {
    let path = std::env::temp_dir().join(format!("lowwater-capture-{}.pcapng", std::process::id()));
    let capture = Capture::create(&path).unwrap();
    let header = std::fs::read(&path).unwrap();
    assert_eq!(blocks(&header).len(), 1, "the section's header");
    let (a, b) = lowwater::link::pair(1_500);
    let server = Stack::builder().device(a).address("10.0.0.1/24").build().unwrap();
    let client = Stack::builder().device(b).address("10.0.0.2/24").capture(&capture).build().unwrap();
    let listener = TcpListener::bind(&server, "10.0.0.1:7").unwrap();
    let _stream = TcpStream::connect(&client, "10.0.0.1:7").unwrap();
    listener.accept().unwrap();
    // Three packets behind the interface, which fill no buffer.
    let until = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(&path).unwrap().len() == header.len() as u64 {
        assert!(Instant::now() < until, "the packets of the handshake are not in the file");
        thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(path).unwrap();
}

/// A writer that takes no more bytes than these.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_capture_that_fails_says_so_and_the_stack_goes_on() {
    let capture = Capture::to(Full(10_000)).unwrap();
    transfer(|builder| builder.capture(&capture));
    assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(capture.finish().is_ok(), "it is told once");
    assert!(Capture::create("/no/such/directory/file").is_err());
}

#[test]
fn an_observer_that_comes_later_does_not_end_a_capture() {
    let memory = Memory::default();
    let capture = Capture::to(memory.clone()).unwrap();
    let counted = Arc::new(Mutex::new(0_usize));
    let count = counted.clone();
    let observes = |stack: &Stack| stack.observe(Some(Box::new(move |_, _, _| *count.lock().unwrap() += 1)));
    transfer_between(|builder| builder, |builder| builder.capture(&capture), observes);
    capture.finish().unwrap();
    let packets = blocks(&memory.0.lock().unwrap()).iter().filter(|(kind, _)| *kind == 6).count();
    assert!(packets > 0 && packets == *counted.lock().unwrap());
}

#[test]
fn two_stacks_of_a_capture_have_an_interface_each() {
    let memory = Memory::default();
    let capture = Capture::to(memory.clone()).unwrap();
    transfer_between(|builder| builder.capture(&capture), |builder| builder.capture(&capture), |_| {});
    capture.finish().unwrap();
    let (mut names, mut ways) = (Vec::new(), std::collections::BTreeSet::new());
    for (kind, body) in blocks(&memory.0.lock().unwrap()) {
        let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap()) as usize;
        match kind {
            // if_name is the first option, behind the link type and the limit of packets.
            1 => names.push(String::from_utf8(body[12..12 + "stack0-device0".len()].to_vec()).unwrap()),
            6 => {
                // Who sent a packet, and the flags of its option.
                let flags = word((20 + word(12)).next_multiple_of(4) + 4);
                ways.insert((names[word(0)].clone(), body[20 + 15], flags));
            }
            _ => {}
        }
    }
    names.sort();
    assert_eq!(names, ["stack0-device0", "stack1-device0"]);
    // Each packet stands twice: where it left and where it came.
    let way = |stack: &str, from, flags| (stack.to_owned(), from, flags);
    let wanted = [
        way("stack0-device0", 1, 2),
        way("stack0-device0", 2, 1),
        way("stack1-device0", 1, 1),
        way("stack1-device0", 2, 2),
    ];
    assert!(ways.into_iter().eq(wanted));
}

/// A buffer hides that until it is full or the stack rests; a new file's header is written at once.
#[test]
fn a_full_disk_is_told_at_the_end() {
    let new = Capture::create("/dev/full").map(|_| ());
    assert_eq!(new.unwrap_err().kind(), io::ErrorKind::StorageFull);
    let buffered = || BufWriter::with_capacity(1 << 20, File::create("/dev/full").unwrap());
    let capture = Capture::to(buffered()).unwrap();
    transfer(|builder| builder.capture(&capture));
    assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    let capture = Capture::to(buffered()).unwrap();
    let (_listener, client) = ends();
    let client = client.capture(&capture).build().unwrap();
    assert!(TcpStream::connect(&client, "10.0.0.1:7").is_ok());
    client.shutdown_blocking(Duration::ZERO);
    assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull, "a few packets");
}

#[test]
fn what_changes_is_told_with_the_connection_that_it_is_of() {
    let told = Arc::new(Mutex::new(Vec::<Event>::new()));
    let into = told.clone();
    transfer(|builder| builder.on_event(move |event| into.lock().unwrap().push(*event)));
    let told = told.lock().unwrap();
    assert!(told.iter().all(|event| event.missed == 0), "a ring is enough for a turn");
    let states: Vec<_> = told
        .iter()
        .filter_map(|event| match event.what {
            Ev::State(before, after) => Some((before, after)),
            _ => None,
        })
        .collect();
    let wanted = [("SYN-SENT", "ESTAB"), ("ESTAB", "FIN-WAIT-1")];
    assert!(wanted.iter().all(|change| states.contains(change)), "{states:?}");
    // It has had to wait for something before it had nothing left to send.
    let waits = |event: &&Event| matches!(event.what, Ev::Wait(why) if why != "empty" && why != "handshake");
    assert!(told.iter().any(|event| waits(&event)), "{told:?}");
    for event in told.iter() {
        let ends = (event.local.map(|a| a.ip()), event.remote);
        assert_eq!(ends, (Some([10, 0, 0, 2].into()), Some(([10, 0, 0, 1], 7).into())), "{event}");
        assert!(!matches!(event.what, Ev::In(..) | Ev::Out(..) | Ev::Timer(..)), "{event}");
    }
    assert!(told.is_sorted_by_key(|event| event.at));
    let text = told[0].to_string();
    assert!(text.contains(" > 10.0.0.1:7: "), "{text}");
}

/// Longer than anything here takes: without a bound the tests would wait for ever.
const HANGS: Duration = Duration::from_secs(60);

/// The client's state is now that.
fn becomes(event: &Event, state: &str) -> bool {
    matches!(event.what, Ev::State(_, now) if now == state)
}

/// A server, and what describes its client.
fn ends() -> (TcpListener, lowwater::Builder) {
    let (a, b) = lowwater::link::pair(1_500);
    let server = Stack::builder().device(a).address("10.0.0.1/24").build().unwrap();
    (TcpListener::bind(&server, "10.0.0.1:7").unwrap(), Stack::builder().device(b).address("10.0.0.2/24"))
}

/// What `f` answers in a thread of its own.
fn beside<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = channel();
    thread::spawn(move || tell.send(f()));
    told
}

/// Neither a thread nor a task: the turn has taken their wakers out of the registry.
#[test]
fn a_hook_that_panics_leaves_nobody_asleep() {
    let panics = |event: &Event| {
        if becomes(event, "ESTAB") {
            // Without a word to stderr.
            std::panic::resume_unwind(Box::new("of the hook"));
        }
    };
    let (_listener, builder) = ends();
    let client = builder.on_event(panics).build().unwrap();
    let of = client.clone();
    let thread = beside(move || {
        let mut stream = TcpStream::connect(&of, "10.0.0.1:7")?;
        stream.read(&mut [0])
    });
    assert!(thread.recv_timeout(HANGS).expect("it sleeps for ever").is_err(), "the stack has ended");
    assert!(client.failure().is_some_and(|why| why.contains("panicked")));
    let (_listener, builder) = ends();
    let task = beside(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = builder.on_event(panics).spawn()?;
            let mut stream = lowwater::TcpStream::connect(&client, "10.0.0.1:7").await?;
            tokio::io::AsyncReadExt::read(&mut stream, &mut [0]).await
        })
    });
    assert!(task.recv_timeout(HANGS).expect("it sleeps for ever").is_err(), "the stack has ended");
}

/// The hook waits until both ends have what its turn has brought about.
#[test]
fn a_hook_runs_when_packets_have_left_and_waiters_are_awake() {
    let (listener, builder) = ends();
    let (connected, connects) = channel();
    let (accepted, accepts) = channel();
    let (tell, told) = channel();
    let client = builder.on_event(move |event| {
        if becomes(event, "ESTAB") {
            tell.send((connects.recv_timeout(HANGS), accepts.recv_timeout(HANGS))).unwrap();
        }
    });
    let client = client.build().unwrap();
    let accepting = beside(move || accepted.send(listener.accept().is_ok()));
    let connecting = beside(move || connected.send(TcpStream::connect(&client, "10.0.0.1:7").is_ok()));
    assert_eq!(told.recv().unwrap(), (Ok(true), Ok(true)));
    assert!(accepting.recv().unwrap().is_ok() && connecting.recv().unwrap().is_ok());
}

/// Goes slowly, and says so when it is gone.
struct Slow(Arc<Mutex<bool>>);

impl Drop for Slow {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(50));
        *self.0.lock().unwrap() = true;
    }
}

#[test]
fn the_hook_is_gone_when_the_stack_has_ended() {
    let gone = Arc::new(Mutex::new(false));
    let slow = Slow(gone.clone());
    let (_listener, builder) = ends();
    let client = builder.on_event(move |_| _ = &slow).build().unwrap();
    client.shutdown_blocking(Duration::ZERO);
    assert!(*gone.lock().unwrap());
}
