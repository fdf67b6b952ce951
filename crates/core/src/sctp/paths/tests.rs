//! States of paths and who takes over.
use super::*;
use crate::base::testing::World;
use crate::base::{DeviceId, Sysctl};

fn ip(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

fn three() -> Paths {
    let options = SctpOptions::new(&Sysctl::default());
    let mut paths = Paths::new(ip(1), true, &options);
    for host in 2..=3 {
        assert!(paths.add(ip(host), false, &options));
    }
    assert!(!paths.add(ip(3), false, &options));
    for (_, path) in paths.iter_mut() {
        path.set_route((ip(99), DeviceId(0)), 1_500);
    }
    paths
}

#[test]
fn data_goes_to_confirmed_paths_alone() {
    let mut paths = three();
    paths.choose();
    assert_eq!((paths.active(), paths.alternate(0)), (0, 0));
    assert_eq!(paths.on_alive(1, false), None);
    assert_eq!(paths.on_alive(1, true), Some(PathChange::Confirmed));
    assert_eq!((paths.active(), paths.alternate(0), paths.alternate(1)), (0, 1, 0));
}

#[test]
fn one_error_makes_it_potentially_failed_six_inactive_and_an_answer_brings_it_back() {
    let (mut world, mut paths) = (World::new(), three());
    paths.on_alive(1, true);
    let cx = world.cx(Instant::ZERO);
    assert_eq!(paths.on_error(&cx, 0), Some(PathChange::PotentiallyFailed));
    assert_eq!(paths.active(), 1);
    for _ in 0..4 {
        assert_eq!(paths.on_error(&cx, 0), None);
    }
    assert_eq!(paths.on_error(&cx, 0), Some(PathChange::Unreachable));
    assert_eq!(paths.get(0).state(), PathState::Inactive);
    assert_eq!(paths.on_alive(0, false), Some(PathChange::Available));
    assert_eq!((paths.active(), paths.get(0).errors), (0, 0));
}

#[test]
fn fragments_fit_the_smallest_path() {
    let mut paths = three();
    assert_eq!(paths.fragment_point(0), 1_452);
    paths.get_mut(2).set_route((ip(98), DeviceId(0)), 1_000);
    assert_eq!(paths.fragment_point(0), 952);
    assert_eq!(paths.fragment_point(100), 100);
}

#[test]
fn a_path_is_small() {
    assert!(size_of::<Path>() <= 512, "{}", size_of::<Path>());
}

#[test]
fn a_path_without_a_route_is_nobodys_last_resort() {
    let (mut world, mut paths) = (World::new(), three());
    paths.on_alive(1, true);
    assert_eq!(paths.on_error(&world.cx(Instant::ZERO), 1), Some(PathChange::PotentiallyFailed));
    assert_eq!(paths.alternate(0), 0);
    paths.get_mut(0).lose_route();
    assert_eq!(paths.alternate(0), 1);
}

/// Section 5.4, and RFC 5062 section 2: what nobody has answered from is never the peer's, however long it was asked.
#[test]
fn an_address_that_never_answers_stays_unconfirmed() {
    let (mut world, mut paths) = (World::new(), three());
    let cx = world.cx(Instant::ZERO);
    for errors in 1..=20 {
        assert_eq!(paths.on_error(&cx, 1), None);
        assert_eq!((paths.get(1).state(), paths.get(1).usable()), (PathState::Unconfirmed, false));
        // It is asked as seldom as any other then.
        assert_eq!(paths.get(1).cadence().interval.is_zero(), errors <= paths.get(1).options.max_retrans);
    }
    // Nothing else is left, and that is no reason to send anything there.
    for _ in 0..20 {
        paths.on_error(&cx, 0);
    }
    assert_eq!((paths.active(), paths.alternate(0)), (0, 0));
    assert_eq!(paths.on_alive(1, true), Some(PathChange::Confirmed));
}

/// RFC 7829 section 5.1: of those that are potentially failed the one with the fewest errors, whenever they change.
#[test]
fn of_paths_that_all_miss_answers_the_one_with_the_fewest_errors_is_used() {
    let (mut world, mut paths) = (World::new(), three());
    paths.on_alive(1, true);
    let cx = world.cx(Instant::ZERO);
    for (id, active) in [(0, 1), (1, 0), (0, 1), (1, 0), (0, 1), (0, 1), (0, 1), (1, 1)] {
        paths.on_error(&cx, id);
        assert_eq!(paths.active(), active, "after an error of {id}");
    }
    // One that has failed is no better for errors that were forgiven.
    for _ in 0..6 {
        paths.on_error(&cx, 0);
    }
    paths.get_mut(0).errors = 0;
    assert_eq!(
        (paths.get(0).state(), paths.get(1).state()),
        (PathState::Inactive, PathState::PotentiallyFailed)
    );
    assert_eq!((paths.alternate(1), paths.alternate(0)), (1, 1));
}
