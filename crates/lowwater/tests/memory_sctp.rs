//! What an idle association costs: the core's objects and the facade's handle, by a counting allocator; and that calls which would block ask for
//! no memory.
use lowwater::sctp::SendInfo;
use lowwater::{SctpAssociation, SctpListener, Stack, link};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Associations, pairs of ends.
const ASSOCIATIONS: usize = 4_096;
/// From here on what a stack costs by itself counts for little.
const MEASURED_FROM: usize = 1_000;
/// Every so many associations their memory is looked at: tables grow by doubling, at numbers that this one does not divide.
const LOOK_EVERY: usize = 97;
/// After which nobody works on a handshake any more: packets under way take whole pages.
const SETTLED: Duration = Duration::from_millis(30);
/// Bound per end: an association with one path, its handle included.
const BYTES_MAX: usize = 2_048;

/// Bytes per end, the handle in the program included.
fn per_end(region: &Region<'_, System>, ends: usize) -> usize {
    let change = region.change();
    (change.bytes_allocated - change.bytes_deallocated) / ends + size_of::<SctpAssociation>()
}

/// Calls of one round, and rounds: the stacks' own threads may ask for memory at any time, but not in each of so many rounds.
const CALLS: usize = 100;
const ROUNDS: usize = 50;

/// Allocations of the whole process in the round that had the fewest.
macro_rules! fewest_allocations {
    ($call:expr) => {{
        let mut fewest = usize::MAX;
        for _ in 0..ROUNDS {
            let round = Region::new(ALLOCATOR);
            for _ in 0..CALLS {
                $call;
            }
            fewest = fewest.min(round.change().allocations);
        }
        fewest
    }};
}

/// A sender that looks for room again and again, and one that waits for a stream.
async fn waiting_asks_for_no_memory(full: &SctpAssociation, empty: &SctpAssociation) {
    let data = bytes::Bytes::from_static(&[7; 1_000]);
    // Until the peer's window is full, too.
    let mut refused = 0;
    while refused < 20 {
        match full.try_send(data.clone(), SendInfo::default()) {
            Ok(()) => refused = 0,
            Err(_) => {
                refused += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    let asked = fewest_allocations!({
        let full = full.try_send(data.clone(), SendInfo::default()).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock, "nobody reads");
    });
    assert_eq!(asked, 0, "of {CALLS} calls that would block");
    let asked = fewest_allocations!(empty.writable_stream(0).await.unwrap());
    assert_eq!(asked, 0, "of {CALLS} calls for a stream with room");
}

#[tokio::test]
async fn an_idle_association_with_its_handle_fits_two_kib() {
    let (a, b) = link::pair(1500);
    let server = Stack::builder().device(a).address("10.0.0.1/24").build().unwrap();
    let client = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
    let listener = SctpListener::bind(&server, "10.0.0.1:7").await.unwrap();
    let mut ends = Vec::with_capacity(2 * ASSOCIATIONS);
    let region = Region::new(ALLOCATOR);
    let mut worst = (0, 0);
    for n in 1..=ASSOCIATIONS {
        let (there, here) = tokio::join!(SctpAssociation::connect(&client, "10.0.0.1:7"), listener.accept());
        ends.push(there.unwrap());
        ends.push(here.unwrap().0);
        if n >= MEASURED_FROM && n % LOOK_EVERY == 0 {
            tokio::time::sleep(SETTLED).await;
            worst = worst.max((per_end(&region, ends.len()), n));
        }
    }
    let (bytes, n) = worst;
    println!("of {MEASURED_FROM} associations and more at most {bytes} bytes each ({n} of them)");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let idle = per_end(&region, ends.len());
    println!("an idle association takes {idle} bytes");
    assert!(idle <= BYTES_MAX, "{idle} bytes per association");
    assert!(bytes <= BYTES_MAX, "{bytes} bytes per association when there are {n}");
    waiting_asks_for_no_memory(&ends[0], &ends[1]).await;
}
