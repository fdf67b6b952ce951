//! Tests: any order gives the datagram back; overlaps, floods and time are survived.
use super::super::testing::World;
use super::*;
use proptest::prelude::*;

const DEV: DeviceId = DeviceId(0);

fn key(ident: u32) -> Key {
    Key { src: IpAddr::from([10, 0, 0, 1]), dst: IpAddr::from([10, 0, 0, 2]), protocol: 17, ident }
}

/// Headers of an IPv4 fragment; reassembly sets lengths and checksum.
fn v4_header() -> Vec<u8> {
    let mut header = vec![0; 20];
    (header[0], header[9], header[6]) = (0x45, 17, 0x20);
    header
}

fn v6_header() -> Vec<u8> {
    let mut header = vec![0; 48];
    (header[0], header[6], header[40]) = (0x60, 44, 17);
    header
}

fn fragment<'a>(headers: &'a [u8], data: &'a [u8], offset: usize, more: bool) -> Fragment<'a> {
    Fragment {
        offset: offset as u16,
        more,
        headers,
        data,
        next_header: (6, 17),
        ecn: 0,
        device: DEV,
        to_group: false,
    }
}

proptest! {
    #[test]
    fn any_order_gives_the_datagram_back(len in 1usize..20_000, cut in 1usize..200, seed in any::<u64>(), v6 in any::<bool>()) {
        let mut w = World::new(seed);
        let data: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let headers = if v6 { v6_header() } else { v4_header() };
        let size = (cut * 8).max(len.div_ceil(FRAGMENTS_MAX).next_multiple_of(8));
        // A single piece is no fragment: the input path never brings it here.
        prop_assume!(size < len);
        let mut pieces: Vec<(usize, &[u8])> = data.chunks(size).enumerate().map(|(n, d)| (n * size, d)).collect();
        // A shuffle with repetitions.
        for n in 0..pieces.len() {
            let other = w.rng.below(pieces.len() as u64) as usize;
            pieces.swap(n, other);
        }
        let (mut r, mut whole) = (Reassembly::default(), None);
        let last = pieces.len() - 1;
        for (n, &(offset, d)) in pieces.iter().enumerate() {
            let f = fragment(&headers, d, offset, offset + d.len() < len);
            match r.insert(&mut w.cx(), key(1), &f) {
                Outcome::Complete { whole: bytes, .. } => { prop_assert_eq!(n, last); whole = Some(bytes); }
                outcome => prop_assert_eq!(outcome, Outcome::Waiting),
            }
            if n != last && seed % 3 == 0 {
                prop_assert_eq!(r.insert(&mut w.cx(), key(1), &f), Outcome::Waiting);
            }
        }
        let whole = whole.expect("complete");
        let header_len = if v6 { 40 } else { 20 };
        prop_assert_eq!(&whole[header_len..], &data[..]);
        if v6 {
            prop_assert_eq!(whole[6], 17);
            prop_assert_eq!(usize::from(u16::from_be_bytes([whole[4], whole[5]])), len);
        } else {
            let view = ipv4::Ipv4View::parse(&whole).expect("well-formed");
            prop_assert!(view.checksum_ok() && !view.is_fragment());
        }
        prop_assert_eq!((r.charge(), r.next_deadline()), (0, None));
    }

    #[test]
    fn hostile_fragments_stay_within_the_cap(list in prop::collection::vec((0u32..50, 0usize..8_192, 0usize..1_500, any::<bool>(), any::<bool>()), 0..300)) {
        let mut w = World::new(1);
        w.sysctl.ipfrag_high_thresh = 30_000;
        let mut r = Reassembly::default();
        let data = vec![7; 1_500];
        let (v4, v6) = (v4_header(), v6_header());
        for (ident, unit, len, more, six) in list {
            let f = fragment(if six { &v6 } else { &v4 }, &data[..len], unit * 8, more);
            let _ = r.insert(&mut w.cx(), key(ident), &f);
            prop_assert!(r.charge() <= 30_000);
            w.sleep(100);
        }
        w.sleep(60_000);
        while r.on_timeout(w.now).is_some() {}
        prop_assert_eq!((r.charge(), r.datagrams.len(), r.deadlines.len()), (0, 0, 0));
    }
}

#[test]
fn an_overlap_condemns_the_whole_datagram() {
    let (mut w, header, data) = (World::new(1), v4_header(), [1u8; 64]);
    let f = |from: usize, to: usize, more| fragment(&header, &data[from..to], from, more);
    let conflicts: [&[Fragment<'_>]; 7] = [
        &[f(0, 16, true), f(8, 24, true)],
        &[f(8, 24, true), f(0, 16, true)],
        &[f(0, 32, true), f(8, 16, true)],
        &[f(8, 16, true), f(0, 32, true)],
        // Two ends, or something beyond the end.
        &[f(8, 16, true), f(8, 16, false)],
        &[f(16, 24, false), f(24, 32, true)],
        &[f(24, 32, true), f(16, 24, false)],
    ];
    for pieces in conflicts {
        let mut r = Reassembly::default();
        assert_eq!(r.insert(&mut w.cx(), key(1), &pieces[0]), Outcome::Waiting);
        assert_eq!(r.insert(&mut w.cx(), key(1), &pieces[1]), Outcome::Drop(DropWhy::BadFragment));
        assert_eq!((r.charge(), r.next_deadline()), (0, None));
    }
}

#[test]
fn pieces_are_bounded_in_number_size_and_place() {
    let (mut w, header, data) = (World::new(1), v4_header(), [1u8; 64]);
    let mut r = Reassembly::default();
    for n in 0..FRAGMENTS_MAX {
        let f = fragment(&header, &data[..8], n * 16, true);
        assert_eq!(r.insert(&mut w.cx(), key(1), &f), Outcome::Waiting);
    }
    let one_more = fragment(&header, &data[..8], 65_000, true);
    assert_eq!(r.insert(&mut w.cx(), key(1), &one_more), Outcome::Drop(DropWhy::BadFragment));
    assert_eq!(r.charge(), 0);
    for bad in [
        fragment(&header, &[], 8, true),
        fragment(&header, &data[..7], 8, true),
        fragment(&header, &data[..64], 65_528, false),
    ] {
        assert_eq!(r.insert(&mut w.cx(), key(1), &bad), Outcome::Drop(DropWhy::BadFragment));
    }
    w.sysctl.ipfrag_high_thresh = 100;
    let f = fragment(&header, &data, 0, true);
    assert_eq!(r.insert(&mut w.cx(), key(1), &f), Outcome::Drop(DropWhy::ReassemblyFull));
    assert_eq!(w.count.ip.reasm_fails, 5);
}

#[test]
fn time_runs_out_and_only_a_first_fragment_is_reported() {
    let (mut w, header, data) = (World::new(1), v4_header(), [1u8; 64]);
    let mut r = Reassembly::default();
    let _ = r.insert(&mut w.cx(), key(1), &fragment(&header, &data[..8], 0, true));
    w.sleep(1);
    let _ = r.insert(&mut w.cx(), key(2), &fragment(&header, &data[..8], 8, true));
    assert!(r.on_timeout(w.now).is_none());
    w.sleep(29_999);
    let a = r.on_timeout(w.now).expect("due");
    assert_eq!((a.key.ident, a.first.map(|f| f.len())), (1, Some(28)));
    assert!(r.on_timeout(w.now).is_none());
    w.sleep(1);
    let a = r.on_timeout(w.now).expect("due");
    assert_eq!((a.key.ident, a.first.is_none(), a.pieces), (2, true, 1));
}

#[test]
fn fragments_of_ipv6_wait_for_a_minute() {
    let (mut w, header, data) = (World::new(1), v6_header(), [1u8; 64]);
    let (src, dst) = ("fd00::1".parse().expect("valid"), "fd00::2".parse().expect("valid"));
    let mut r = Reassembly::default();
    let _ = r.insert(&mut w.cx(), Key { src, dst, ..key(1) }, &fragment(&header, &data[..8], 0, true));
    w.sleep(59_999);
    assert!(r.on_timeout(w.now).is_none());
    w.sleep(1);
    assert!(r.on_timeout(w.now).is_some());
}

#[test]
fn congestion_on_one_fragment_is_congestion_on_the_packet() {
    let (header, data) = (v4_header(), [1u8; 16]);
    let with = |first: u8, second: u8| {
        let (mut w, mut r) = (World::new(1), Reassembly::default());
        let f = |at: usize, ecn| Fragment { ecn, ..fragment(&header, &data[at..at + 8], at, at == 0) };
        let _ = r.insert(&mut w.cx(), key(1), &f(0, first));
        r.insert(&mut w.cx(), key(1), &f(8, second))
    };
    assert!(matches!(with(2, 3), Outcome::Complete { whole: bytes, .. } if bytes[1] & 3 == 3));
    assert!(matches!(with(0, 0), Outcome::Complete { whole: bytes, .. } if bytes[1] & 3 == 0));
    for (first, second) in [(0, 3), (0, 2), (1, 0)] {
        assert_eq!(with(first, second), Outcome::Drop(DropWhy::BadFragment), "{first} and {second}");
    }
}
