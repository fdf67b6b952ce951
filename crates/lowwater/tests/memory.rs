//! What an idle established connection costs: the core's objects and the facade's handle, by a counting allocator.
use lowwater::{Stack, TcpListener, TcpStream, link};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Connections. Tables double at powers of two: just past one they are emptiest, and a connection costs most.
const CONNECTIONS: usize = 4_096;
/// Bound per end.
const BYTES_MAX: usize = 2_048;

#[tokio::test]
async fn an_idle_connection_with_its_handle_fits_two_kib() {
    let (a, b) = link::pair(1500);
    let server = Stack::builder().device(a).address("10.0.0.1/24").build().unwrap();
    let client = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
    let listener = TcpListener::bind(&server, "10.0.0.1:80").await.unwrap();
    let mut streams = Vec::with_capacity(2 * CONNECTIONS);
    let region = Region::new(ALLOCATOR);
    for _ in 0..CONNECTIONS {
        let (there, here) = tokio::join!(TcpStream::connect(&client, "10.0.0.1:80"), listener.accept());
        streams.push(there.unwrap());
        streams.push(here.unwrap().0);
    }
    // Delayed ACKs and their timers pass.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let change = region.change();
    // Growth and shrinking by realloc are part of both sums.
    let held = change.bytes_allocated - change.bytes_deallocated;
    let handle = size_of::<TcpStream>();
    let per_end = held / streams.len() + handle;
    println!(
        "an idle established connection takes {per_end} bytes, {handle} of them in the program's handle"
    );
    assert!(per_end <= BYTES_MAX, "{per_end} bytes per connection");
}
