//! What is asked for, by what passes and what the route says.
use super::*;

/// Answers each probe that is not longer than `most`, and loses the others, until nothing more is asked for between the times of
/// confirmation; the sizes that were asked for.
fn run(search: &mut Plpmtud, most: u16) -> Vec<u16> {
    let mut asked = Vec::new();
    for _ in 0..100 {
        if !core::mem::take(&mut search.wanted) {
            if search.phase == Phase::Complete {
                return asked;
            }
            search.on_timer(Instant::ZERO, Duration::from_secs(5));
            continue;
        }
        asked.push(search.probe);
        search.nonce = 1;
        if search.probe <= most {
            search.on_answer();
        }
    }
    panic!("no end: {search:?}, {asked:?}");
}

fn new(route: u16) -> Plpmtud {
    let mut search = Plpmtud::new(route, Instant::ZERO);
    search.on_timer(Instant::ZERO, Duration::from_secs(5));
    search
}

#[test]
fn the_largest_packets_that_there_are_end_the_search() {
    for (route, most) in
        [(u16::MAX, u16::MAX), (u16::MAX, u16::MAX - 2), (65_532, 65_532), (u16::MAX, 65_000)]
    {
        let mut search = new(route);
        let asked = run(&mut search, most);
        assert!(asked.len() < 60 && search.good <= most && most - search.good < 8, "{search:?} {asked:?}");
    }
}

#[test]
fn a_route_that_becomes_narrower_and_wider_again_is_probed_anew() {
    let mut search = new(1_500);
    assert_eq!(run(&mut search, 1_500), [1_200, 1_500]);
    // A router says so: what was found holds no more, and nothing longer is asked for.
    assert_eq!(search.on_route(1_400), 1_400);
    search.on_timer(Instant::ZERO, Duration::from_secs(5));
    assert_eq!(run(&mut search, 1_400), [1_400]);
    // That is forgotten. Packets stay as they are until the longer ones have passed, or have not.
    assert_eq!(search.on_route(1_500), 1_400);
    let mut hole = search.clone();
    search.on_timer(Instant::ZERO, Duration::from_secs(5));
    assert_eq!(run(&mut search, 1_500), [1_500]);
    assert_eq!(search.on_route(1_500), 1_500);
    hole.on_timer(Instant::ZERO, Duration::from_secs(5));
    let asked = run(&mut hole, 1_400);
    assert!(asked.iter().take(3).all(|size| *size == 1_500), "{asked:?}");
    assert_eq!(hole.on_route(1_500), 1_400);
}

#[test]
fn a_route_that_becomes_narrower_in_the_search_bounds_it() {
    let mut search = new(9_000);
    search.nonce = 1;
    search.on_answer();
    assert_eq!((search.phase, search.probe), (Phase::Search, 9_000));
    assert_eq!(search.on_route(1_100), 1_100);
    search.on_timer(Instant::ZERO, Duration::from_secs(5));
    assert_eq!(run(&mut search, 1_100), [1_100]);
    assert_eq!(search.on_route(9_000), 1_100);
    search.on_timer(Instant::ZERO, Duration::from_secs(5));
    let asked = run(&mut search, 1_100);
    assert!(asked.iter().all(|size| *size >= 1_100) && search.good == 1_100, "{search:?} {asked:?}");
}

#[test]
fn a_timeout_makes_packets_as_long_as_has_passed_while_nothing_longer_has() {
    let mut search = new(1_500);
    // Not even the base has passed, which every path is expected to carry.
    let mut unheard = search.clone();
    unheard.on_data(BASE, true);
    unheard.suspect();
    assert_eq!(unheard.limit, u16::MAX);
    unheard.on_data(1_500, true);
    unheard.suspect();
    assert_eq!((unheard.phase, unheard.limit), (Phase::Base, BASE));
    run(&mut unheard, 1_500);
    assert_eq!(unheard.limit, 1_500);
    search.nonce = 1;
    search.on_answer();
    assert_eq!((search.phase, search.limit), (Phase::Search, u16::MAX));
    // What is no longer than what has passed says nothing, nor what was long and is not out any more.
    search.suspect();
    search.on_data(1_300, true);
    search.on_data(BASE, true);
    search.on_data(100, false);
    search.suspect();
    assert_eq!(search.limit, u16::MAX);
    search.on_data(1_300, true);
    search.on_data(100, false);
    search.suspect();
    assert_eq!(search.limit, BASE);
    // The search says more, and then a timeout says nothing of lengths.
    run(&mut search, 1_500);
    search.on_data(1_500, true);
    search.suspect();
    assert_eq!((search.phase, search.limit), (Phase::Complete, 1_500));
}
