//! SCTP in datagrams without IP (RFC 8261), and without CRC32c inside of DTLS (RFC 9653).
use crate::world::*;
use bytes::Bytes;
use lowwater_core::base::{Carrier, DeviceId, Duration, Error, SocketId, Sysctl};
use lowwater_core::device::{DeviceCaps, datagram};
use lowwater_core::packet::{Offload, Packet};
use lowwater_core::sctp::{SendInfo, State};
use lowwater_wire::sctp::{Chunk, Chunks, Param, chunk_kind as kind, param_kind};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

const LARGEST: u16 = 1_200;

/// The datagrams that crossed, the sender before each.
type Seen = Rc<RefCell<Vec<(usize, Bytes)>>>;

/// Two hosts on such a link, and what crosses it.
fn world(carriers: [Carrier; 2]) -> (World, Seen) {
    let caps = carriers.map(|carrier| DeviceCaps::datagrams(LARGEST, carrier));
    let mut w = World::of(&caps[..1], &Sysctl::default(), 1);
    if carriers[0] != carriers[1] {
        w.replace(B, caps[1]);
    }
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (log, now) = (seen.clone(), w.now);
    // The header that names the sides does not travel.
    w.rewrite = Some(Box::new(move |from, all| {
        let (to, datagram) = datagram::unwrap(&Bytes::copy_from_slice(all)).expect("nothing but SCTP");
        assert!(datagram.len() <= usize::from(LARGEST) && IpAddr::V4(to) == ip(0, 1 - from));
        log.borrow_mut().push((from, datagram.clone()));
        let IpAddr::V4(name) = ip(0, from) else { unreachable!("IPv4") };
        *all = datagram::wrap(datagram, name, to, now).expect("a packet").to_bytes().to_vec();
    }));
    (w, seen)
}

fn exchange(w: &mut World, a: SocketId, b: SocketId) {
    for (from, id, to, peer) in [(A, a, B, b), (B, b, A, a)] {
        let data: Vec<u8> = (0..20_000).map(|i| i as u8).collect();
        w.send(from, id, &data, SendInfo::default());
        w.pass(Duration::from_secs(3));
        assert_eq!(w.messages(to, peer), [data]);
    }
}

/// Kinds of the chunks, and whether the checksum field is zero.
fn look(datagram: &Bytes) -> (Vec<u8>, bool) {
    let kinds = Chunks::new(&datagram[12..]).map(|raw| raw.expect("well formed").kind()).collect();
    (kinds, datagram[8..12] == [0; 4])
}

fn params(datagram: &Bytes) -> Vec<u16> {
    let raw = Chunks::new(&datagram[12..]).next().expect("a chunk").expect("well formed");
    match Chunk::parse(&raw).expect("well formed") {
        Chunk::Init(init) | Chunk::InitAck(init) => {
            init.params.map(|tlv| tlv.expect("well formed").kind()).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn a_long_reason_is_cut_to_what_a_datagram_holds() {
    let (mut w, seen) = world([Carrier::Datagrams; 2]);
    let (a, b) = w.pair();
    let now = w.now;
    w.stacks[A].sctp_abort(now, a, &[7; 3_000]).unwrap();
    w.pass(ms(100));
    assert_eq!((w.info(B, b).state, w.stacks[B].take_error(b)), (State::Closed, Some(Error::Reset)));
    assert_eq!(seen.borrow().last().map(|(_, d)| d.len()), Some(usize::from(LARGEST)));
}

#[test]
fn packets_fit_datagrams_and_name_no_addresses() {
    let (mut w, seen) = world([Carrier::Datagrams; 2]);
    for host in [A, B] {
        // A second interface, whose address is nobody's business.
        let dev = w.stacks[host].add_device(DeviceCaps::plain(1_500));
        w.stacks[host].add_address(dev, ip(7, host), 24).unwrap();
    }
    let (a, b) = w.pair();
    exchange(&mut w, a, b);
    let seen = seen.borrow();
    assert_eq!(params(&seen[0].1), [param_kind::FORWARD_TSN_SUPPORTED], "RFC 8261 section 6.1");
    assert_eq!(params(&seen[1].1), [param_kind::STATE_COOKIE, param_kind::FORWARD_TSN_SUPPORTED]);
    assert!(seen.iter().all(|(_, d)| !look(d).1), "every packet has its CRC32c");
    assert_eq!(seen.iter().map(|(_, d)| d.len()).max(), Some(usize::from(LARGEST)));
    assert_eq!(w.info(A, a).paths.len(), 1);
}

#[test]
fn inside_of_dtls_all_but_init_and_cookie_echo_go_without_a_checksum() {
    let (mut w, seen) = world([Carrier::Dtls; 2]);
    let (a, b) = w.pair();
    exchange(&mut w, a, b);
    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.pass(ms(100));
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
    let seen = seen.borrow();
    assert_eq!(params(&seen[0].1), [param_kind::FORWARD_TSN_SUPPORTED, param_kind::ZERO_CHECKSUM]);
    let answer = [param_kind::STATE_COOKIE, param_kind::FORWARD_TSN_SUPPORTED, param_kind::ZERO_CHECKSUM];
    assert_eq!(params(&seen[1].1), answer);
    for (_, datagram) in seen.iter() {
        let (kinds, zero) = look(datagram);
        let with = matches!(kinds[0], kind::INIT | kind::INIT_ACK | kind::COOKIE_ECHO);
        assert_eq!(zero, !with, "{kinds:?}");
    }
    for host in [A, B] {
        assert_eq!(w.stacks[host].counters().sctp.checksum_errors, 0);
    }
}

/// Only who has said that he takes it gets it.
#[test]
fn a_peer_that_did_not_offer_it_gets_checksums() {
    let (mut w, seen) = world([Carrier::Dtls, Carrier::Datagrams]);
    let (a, b) = w.pair();
    exchange(&mut w, a, b);
    assert!(seen.borrow().iter().all(|(_, d)| !look(d).1));
    assert_eq!(params(&seen.borrow()[1].1), [param_kind::STATE_COOKIE, param_kind::FORWARD_TSN_SUPPORTED]);
}

/// Another method than DTLS, or DTLS behind another one, is no agreement.
#[test]
fn only_the_first_method_counts() {
    for (methods, agreed) in [(vec![1u32], true), (vec![2], false), (vec![2, 1], false), (vec![1, 2], true)] {
        let (mut w, seen) = world([Carrier::Dtls; 2]);
        w.mutate = Some(Box::new(move |chunks| {
            if chunks[0] == kind::INIT {
                chunks.truncate(chunks.len() - 8);
                for method in &methods {
                    let param = Param::ZeroChecksum(*method);
                    let at = chunks.len();
                    chunks.resize(at + param.buffer_len(), 0);
                    param.emit(&mut chunks[at..]);
                }
                let len = chunks.len() as u16;
                chunks[2..4].copy_from_slice(&len.to_be_bytes());
            }
        }));
        w.rewrite = None;
        let (_, b) = w.pair();
        drop(seen);
        let now = w.now;
        w.stacks[B].sctp_send(now, b, Bytes::from_static(b"x"), SendInfo::default()).unwrap();
        let crc = Rc::new(RefCell::new(None));
        let found = crc.clone();
        w.mutate = None;
        w.rewrite = Some(Box::new(move |from, all| {
            if from == B {
                found.borrow_mut().get_or_insert(all[28..32] == [0; 4]);
            }
        }));
        w.pass(ms(50));
        assert_eq!(*crc.borrow(), Some(agreed));
    }
}

/// What must have a CRC32c is dropped without one, and so is everything where nothing was offered.
#[test]
fn a_zero_counts_only_where_it_was_offered() {
    for (carrier, chunk, taken) in [
        (Carrier::Dtls, kind::HEARTBEAT, true),
        (Carrier::Dtls, kind::INIT, false),
        (Carrier::Dtls, kind::COOKIE_ECHO, false),
        (Carrier::Datagrams, kind::HEARTBEAT, false),
    ] {
        let (mut w, _) = world([carrier; 2]);
        let (_, b) = w.pair();
        let (ours, theirs) = w.stacks[B].sctp_addrs(b).unwrap();
        let chunks: &[u8] = match chunk {
            kind::HEARTBEAT => &[4, 0, 0, 8, 0, 1, 0, 4],
            kind::INIT => &[1, 0, 0, 20, 0, 0, 0, 9, 0, 0, 255, 255, 0, 1, 0, 1, 0, 0, 0, 1],
            _ => &[10, 0, 0, 8, 1, 2, 3, 4],
        };
        let vtag = if chunk == kind::INIT { 0 } else { w.info(B, b).tags.0 };
        let mut datagram = [theirs[0].port().to_be_bytes(), ours[0].port().to_be_bytes()].concat();
        datagram.extend(vtag.to_be_bytes());
        datagram.extend([0; 4]);
        datagram.extend(chunks);
        let [IpAddr::V4(peer), IpAddr::V4(local)] = [ip(0, A), ip(0, B)] else { unreachable!("IPv4") };
        let now = w.now;
        let packet = datagram::wrap(datagram.into(), peer, local, now).unwrap();
        let whole = Packet::received(packet.to_bytes(), Offload::default(), now);
        for packet in [packet, whole] {
            w.stacks[B].receive(now, DeviceId(1), packet);
            w.stacks[B].flush(now);
        }
        let errors = w.stacks[B].counters().sctp.checksum_errors;
        assert_eq!(errors, if taken { 0 } else { 2 }, "{carrier:?} {chunk}");
    }
}

#[test]
fn there_are_no_second_addresses() {
    let (mut w, _) = world([Carrier::Datagrams; 2]);
    let (now, options) = (w.now, w.options());
    let remotes = [ip(0, B), IpAddr::from([10, 0, 0, 77])].map(|ip| SocketAddr::new(ip, 5_000));
    assert_eq!(w.stacks[A].sctp_connect(now, &remotes, &[], options), Err(Error::Invalid));
}
