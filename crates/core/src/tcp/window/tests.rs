//! Windows worked out by hand from Linux's rules.
use super::*;
use crate::base::trace::Trace;
use crate::base::{Counters, Instant, Rng};

fn buf(bytes: u32) -> RcvBuf {
    RcvBuf { bytes, clamp: 0, locked: false, ratio: 0 }
}

fn default_window() -> (Sysctl, RcvWindow) {
    let sysctl = Sysctl::default();
    let first = initial_window(&sysctl, buf(131_072), 1_460, true);
    let mut w = RcvWindow::new(first, buf(131_072), 1_460);
    w.establish(&sysctl);
    (sysctl, w)
}

fn select(w: &mut RcvWindow, sysctl: &Sysctl, nxt: Seq, charge: u32, mss: u32) -> (u16, Counters) {
    let mut count = Counters::default();
    let mut cx = Cx {
        now: Instant::ZERO,
        rng: &mut Rng::new(0),
        sysctl,
        count: &mut count,
        trace: &mut Trace::default(),
        pool: &mut crate::base::Pool::default(),
        pressure: crate::base::Pressure::Low,
        share: u64::MAX,
        orphans: 0,
        socket: None,
    };
    let next = w.next(sysctl, nxt, charge, mss);
    let (field, tight) = w.select(&mut cx, nxt, charge, mss);
    assert_eq!((w.wnd(), tight), (next.wnd, next.tight), "the question has the same answer");
    (field, count)
}

#[test]
fn the_first_window_is_half_the_buffer_in_whole_segments() {
    let mut sysctl = Sysctl::default();
    // 131072 / 2 = 65536; 44 segments of 1460 = 64240; log2(6291456) = 22, 22 - 15 = 7.
    let first = initial_window(&sysctl, buf(131_072), 1_460, true);
    assert_eq!(
        first,
        InitialWindow { rcv_wnd: 64_240, clamp: 65_535 << 7, wscale: 7, ratio: Ratio::initial(&sysctl) }
    );
    // With timestamps 45 segments of 1448.
    assert_eq!(initial_window(&sysctl, buf(131_072), 1_448, true).rcv_wnd, 65_160);
    // log2(15728640) = 23.
    sysctl.tcp_rmem.max = 15_728_640;
    assert_eq!(initial_window(&sysctl, buf(131_072), 1_460, true).wscale, 8);
    // A larger buffer cannot say more in a SYN, and without scaling never; it is kept to nevertheless.
    let first = initial_window(&sysctl, buf(1_000_000), 1_460, false);
    assert_eq!(
        first,
        InitialWindow { rcv_wnd: 499_320, clamp: 65_535, wscale: 0, ratio: Ratio::initial(&sysctl) }
    );
}

#[test]
fn the_first_window_follows_what_an_earlier_connection_found() {
    let sysctl = Sysctl::default();
    let found = RcvBuf { ratio: 111, ..buf(131_072) };
    // 131072 * 111 / 256 = 56832: 38 segments of 1460.
    let first = initial_window(&sysctl, found, 1_460, true);
    assert_eq!(first.rcv_wnd, 55_480);
    let mut w = RcvWindow::new(first, found, 1_460);
    w.establish(&sysctl);
    assert_eq!(w.ratio_after(&sysctl), 111);
    // What was not measured is not handed on: it follows the sysctl.
    assert_eq!(default_window().1.ratio_after(&sysctl), 0);
    assert!(w.measure(1_460, 2_304));
    assert_eq!(w.ratio_after(&sysctl), 162);
}

#[test]
fn a_locked_buffer_bounds_the_window_and_its_scale() {
    let sysctl = Sysctl::default();
    let locked = RcvBuf { bytes: 20_000, clamp: 0, locked: true, ratio: 0 };
    // 10000 bytes of window: 6 segments, and no scale is needed.
    let first = initial_window(&sysctl, locked, 1_460, true);
    assert_eq!(
        first,
        InitialWindow { rcv_wnd: 8_760, clamp: 10_000, wscale: 0, ratio: Ratio::initial(&sysctl) }
    );
    assert_eq!(RcvBuf::so_rcvbuf(&sysctl, 10_000_000), 8_388_608);
    assert_eq!(RcvBuf::so_rcvbuf(&sysctl, 1), MIN_RCVBUF);
}

#[test]
fn establishing_keeps_one_segment_in_reserve() {
    let (_, w) = default_window();
    // 65536 - 1460.
    assert_eq!((w.clamp(), w.ssthresh(), w.wnd()), (64_076, 64_076, 64_240));
}

#[test]
fn a_share_of_the_window_can_be_kept_for_the_application() {
    let clamp = |share| {
        let sysctl = Sysctl { tcp_app_win: share, ..Sysctl::default() };
        let mut w = RcvWindow::new(initial_window(&sysctl, buf(131_072), 1_460, true), buf(131_072), 1_460);
        w.establish(&sysctl);
        w.clamp()
    };
    // Of 65,536: half, a quarter, nothing but the segment in reserve; 0 keeps not even that.
    assert_eq!((clamp(1), clamp(2), clamp(31), clamp(0)), (32_768, 49_152, 64_076, 65_536));
}

#[test]
fn the_scaled_window_is_rounded_up_to_the_scale() {
    let (sysctl, mut w) = default_window();
    w.synchronize(Seq(1));
    // 64076 rounded up to a multiple of 128 is 64128 = 501 << 7, but 64240 is promised already: 64256 = 502 << 7.
    assert_eq!(select(&mut w, &sysctl, Seq(1), 0, 1_460).0, 502);
    assert_eq!(select(&mut w, &sysctl, Seq(1 + 2_920), 0, 1_460).0, 501);
}

#[test]
fn zero_window_below_a_sixteenth_or_one_segment() {
    let (sysctl, mut w) = default_window();
    w.synchronize(Seq(0));
    // 65536/16 = 4096 bytes of window are 8192 bytes of buffer.
    assert_eq!(w.offer(&sysctl, 131_072 - 8_192, 1_460), Offer { wnd: 4_096, tight: true });
    assert_eq!(w.offer(&sysctl, 131_072 - 8_190, 1_460), Offer { wnd: 0, tight: true });
    assert_eq!(w.offer(&sysctl, 131_072 - 10_000, 5_001), Offer { wnd: 0, tight: true });
    assert!(!w.offer(&sysctl, 40_000, 1_460).tight);
    let (field, count) = select(&mut w, &sysctl, Seq(64_240), 131_072, 1_460);
    assert_eq!((field, count.tcp_ext.tcp_to_zero_window_adv), (0, 1));
    let (field, count) = select(&mut w, &sysctl, Seq(64_240), 0, 1_460);
    assert_eq!((field, count.tcp_ext.tcp_from_zero_window_adv), (501, 1));
}

#[test]
fn what_was_promised_is_kept() {
    let (sysctl, mut w) = default_window();
    w.synchronize(Seq(0));
    let edge = w.right_edge();
    let (field, count) = select(&mut w, &sysctl, Seq(1_460), 131_072, 1_460);
    assert_eq!((count.tcp_ext.tcp_want_zero_window_adv, u32::from(field) << 7), (1, 62_848));
    assert!(w.right_edge().at_or_after(edge));
}

#[test]
fn unscaled_windows_move_by_whole_segments_or_half_the_buffer() {
    let sysctl = Sysctl::default();
    let small = RcvBuf { bytes: 20_000, clamp: 0, locked: true, ratio: 0 };
    let mut w = RcvWindow::new(initial_window(&sysctl, small, 1_460, false), small, 1_460);
    w.establish(&sysctl);
    w.synchronize(Seq(0));
    // Clamp 10000 - 1460 = 8540, so the threshold is 8540 and the window 8760 is not enlarged.
    assert_eq!((w.clamp(), w.ssthresh()), (8_540, 8_540));
    assert_eq!(w.offer(&sysctl, 0, 1_460).wnd, 5 * 1_460);
    // 1000 bytes read of a window of 7300: the offer stays until a whole segment fits.
    w.wnd = 7_300;
    assert_eq!(w.offer(&sysctl, 0, 1_460).wnd, 7_300);
    w.wnd = 7_000;
    assert_eq!(w.offer(&sysctl, 0, 1_460).wnd, 7_300);
}

#[test]
fn data_with_little_overhead_opens_the_window_by_two_segments() {
    let (sysctl, mut w) = default_window();
    w.ssthresh = 20_000;
    // Half of 1608 is less than 1448: fits with room to spare.
    assert!(w.grow(&sysctl, 1_608, 1_448, 1_608, 1_448));
    assert_eq!(w.ssthresh(), 22_920);
    // Ten bytes in 170: tolerated by halving 42 -> 21 -> 10, while the threshold is below 3145728/2/4 = 393216.
    assert!(w.grow(&sysctl, 1_608, 10, 170, 1_448));
    assert_eq!(w.ssthresh(), 22_920 + 2_896);
    // One byte that pins 65536 is not.
    assert!(!w.grow(&sysctl, 1_608, 1, 1 << 26, 1_448));
    // A full buffer never grows.
    assert!(!w.grow(&sysctl, 131_072, 1_448, 1_608, 1_448));
}

#[test]
fn pressure_widens_the_buffer_up_to_the_sysctl_and_then_closes_the_window() {
    let (sysctl, mut w) = default_window();
    let mut world = crate::base::testing::World::new();
    world.sysctl = sysctl;
    w.press(&world.cx(Instant::ZERO), 200_000);
    assert_eq!((w.buf().bytes, w.ssthresh()), (200_000, 64_076));
    w.press(&world.cx(Instant::ZERO), 7_000_000);
    assert_eq!((w.buf().bytes, w.ssthresh()), (6_291_456, 2_920));
    // Where all sockets together hold much, none grows.
    let (_, mut w) = default_window();
    w.press(&Cx { pressure: Pressure::Moderate, ..world.cx(Instant::ZERO) }, 200_000);
    assert_eq!((w.buf().bytes, w.ssthresh()), (131_072, 2_920));
    w.economize();
    assert_eq!(w.ssthresh(), 2_920);
}

#[test]
fn the_sysctl_lets_the_window_shrink_with_memory() {
    for shrink in [false, true] {
        let (mut sysctl, mut w) = default_window();
        sysctl.tcp_shrink_window = shrink;
        let nxt = Seq(1_000);
        select(&mut w, &sysctl, nxt, 0, 1_448);
        let before = w.wnd();
        // 100,000 bytes of charge leave 15,536 of window.
        select(&mut w, &sysctl, nxt, 100_000, 1_448);
        assert_eq!(w.wnd(), if shrink { 15_488 } else { before.next_multiple_of(128) });
        // Without scaling it never shrinks.
        let (_, mut w) = default_window();
        w.no_scaling();
        select(&mut w, &sysctl, nxt, 0, 1_448);
        let before = w.wnd();
        select(&mut w, &sysctl, nxt, 100_000, 1_448);
        assert_eq!(w.wnd(), before);
    }
}
