//! A program that watches its own stack: what changes is printed, the packets are in a file.
//!
//! `cargo run -p lowwater-examples --bin watched [FILE]` moves two megabytes to a reader that is late. It prints states, windows
//! and why the sender waits, and writes FILE (a pcapng file for Wireshark): `lowwater-watched.pcapng` in the directory for temporary
//! files if none is named.
#![forbid(unsafe_code)]
use lowwater::blocking::{TcpListener, TcpStream};
use lowwater::{Capture, Ev, Stack};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

const LEN: usize = 2 << 20;

fn main() -> io::Result<()> {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let file = named.unwrap_or_else(|| std::env::temp_dir().join("lowwater-watched.pcapng"));
    let capture = Capture::create(&file)?;
    let (a, b) = lowwater::link::pair(1500);
    let server = Stack::builder().device(a).address("10.0.0.1/24").build()?;
    let client = Stack::builder()
        .device(b)
        .address("10.0.0.2/24")
        .capture(&capture)
        .on_event(|event| {
            // Windows change with each acknowledgement: of interest to whoever looks for that.
            if !matches!(event.what, Ev::Cwnd(..)) {
                println!("{event}");
            }
        })
        .build()?;

    let listener = TcpListener::bind(&server, "10.0.0.1:7")?;
    let sending = client.clone();
    let writer = thread::spawn(move || TcpStream::connect(&sending, "10.0.0.1:7")?.write_all(&[7; LEN]));
    let (mut stream, _) = listener.accept()?;
    // Long enough for its window to shut.
    thread::sleep(Duration::from_millis(50));
    let mut got = Vec::new();
    stream.read_to_end(&mut got)?;
    drop(stream);
    writer.join().expect("the writer does not panic")?;
    assert_eq!(got.len(), LEN);

    client.shutdown_blocking(Duration::from_secs(30));
    capture.finish()?;
    let len = std::fs::metadata(&file)?.len();
    assert!(len > LEN as u64, "all that was sent is in the file");
    println!("{len} bytes in {}", file.display());
    Ok(())
}
