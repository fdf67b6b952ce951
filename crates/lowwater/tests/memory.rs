//! What an idle established connection costs: the core's objects and the facade's handle, by a counting allocator.
use lowwater::{Stack, TcpListener, TcpStream, link};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Connections, pairs of ends. On the way there every table grows several times: just after that it is emptiest, and a
/// connection costs most.
const CONNECTIONS: usize = 8_192;
/// From here on what a stack costs by itself counts for little.
const MEASURED_FROM: usize = 1_000;
/// So many at a time exchange something: the table of timers grows with those armed at once, not with idle connections.
const BUSY_AT_ONCE: usize = 2_048;
/// Delayed ACKs and their timers pass within it, on a busy machine too.
const SETTLED: Duration = Duration::from_secs(1);
/// Bound per end (issue: at most 1.5 KiB).
const BYTES_MAX: usize = 1_536;

/// Bytes per end, the handle in the program included.
fn per_end(region: &Region<'_, System>, ends: usize) -> usize {
    let change = region.change();
    // Growth and shrinking by realloc are part of both sums.
    (change.bytes_allocated - change.bytes_deallocated) / ends + size_of::<TcpStream>()
}

#[tokio::test]
async fn an_idle_connection_with_its_handle_fits_one_and_a_half_kib() {
    let (a, b) = link::pair(1500);
    let server = Stack::builder().device(a).address("10.0.0.1/24").build().unwrap();
    let client = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
    let listener = TcpListener::bind(&server, "10.0.0.1:80").await.unwrap();
    let mut streams = Vec::with_capacity(2 * CONNECTIONS);
    let region = Region::new(ALLOCATOR);
    let mut worst = (0, 0);
    for n in 1..=CONNECTIONS {
        let (there, here) = tokio::join!(TcpStream::connect(&client, "10.0.0.1:80"), listener.accept());
        streams.push(there.unwrap());
        streams.push(here.unwrap().0);
        if n >= MEASURED_FROM {
            worst = worst.max((per_end(&region, streams.len()), n));
        }
    }
    let (bytes, n) = worst;
    println!("at no number of connections from {MEASURED_FROM} on more than {bytes} bytes ({n} of them)");
    assert!(bytes <= BYTES_MAX, "{bytes} bytes per connection when there are {n}");
    tokio::time::sleep(SETTLED).await;
    let silent = per_end(&region, streams.len());
    println!("an idle established connection takes {silent} bytes");
    assert!(silent <= BYTES_MAX, "{silent} bytes per connection");

    // What was sent and received leaves nothing behind, nor does an option of its own.
    for (i, ends) in streams.chunks_exact_mut(2).enumerate() {
        if i % BUSY_AT_ONCE == 0 {
            tokio::time::sleep(SETTLED).await;
        }
        let [there, here] = ends else { unreachable!("pairs") };
        there.set_nodelay(true).unwrap();
        let mut buf = [0; 4];
        there.write_all(b"ping").await.unwrap();
        here.read_exact(&mut buf).await.unwrap();
        here.write_all(b"pong").await.unwrap();
        there.read_exact(&mut buf).await.unwrap();
    }
    tokio::time::sleep(SETTLED).await;
    let used = per_end(&region, streams.len());
    println!("after a request and an answer {used} bytes");
    assert!(used <= BYTES_MAX, "{used} bytes per connection");
}
