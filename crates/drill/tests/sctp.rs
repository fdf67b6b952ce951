//! SCTP in scripts, against an endpoint made by hand: its tags, TSNs and cookies are not the script's, and lines must see the script's.
#![forbid(unsafe_code)]
use bytes::Bytes;
use lowwater_core::base::Instant;
use lowwater_core::base::trace::Record;
use lowwater_drill::{Failure, Invocation, ORIGIN, Target};
use lowwater_posix::{Call, CallId, Reply, Sent, Started};
use lowwater_wire::ipv4::{self, Ipv4Repr, Ipv4View};
use lowwater_wire::protocol;
use lowwater_wire::sctp::{
    Builder, Cause, Checksum, Chunk, DataFlags, DataRepr, Init, Param, Sack, SctpRepr, SctpView, Tlvs,
};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

const TAG: u32 = 0xdead_0001;
const TSN: u32 = 0xffff_fff0;
const COOKIE: &[u8] = b"a cookie of 21 bytes!";
const NONCE: &[u8] = b"nonce";
const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Just enough of an endpoint for one association.
struct Endpoint {
    now: Instant,
    sent: VecDeque<Sent>,
    ports: (u16, u16),
    peer_tag: u32,
    next_tsn: u32,
    fds: i64,
    /// Sends with a tag of zero.
    wrong_tag: bool,
}

impl Endpoint {
    fn send(&mut self, chunk: &Chunk<'_>, params: &[Param<'_>], causes: &[Cause<'_>]) {
        let mut buffer = vec![0; 1_500];
        let (ip, rest) = buffer.split_at_mut(ipv4::HEADER_LEN);
        let vtag = if matches!(chunk, Chunk::Init(_)) || self.wrong_tag { 0 } else { self.peer_tag };
        let (src_port, dst_port) = self.ports;
        let mut packet = Builder::new(rest, &SctpRepr { src_port, dst_port, vtag });
        assert!(packet.chunk(chunk));
        assert!(params.iter().all(|p| packet.param(p)) && causes.iter().all(|c| packet.cause(c)));
        let len = packet.finish().len();
        let header = Ipv4Repr {
            src: LOCAL,
            dst: REMOTE,
            protocol: protocol::SCTP,
            ttl: 64,
            tos: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: len as u16,
        };
        header.emit(ip);
        buffer.truncate(ipv4::HEADER_LEN + len);
        let (at, bytes) = (self.now, Bytes::from(buffer));
        self.sent.push_back(Sent { at, departs_at: at, bytes, gso_size: 0, queued: 0, packets: 1 });
    }

    fn init(&self) -> Init<'static> {
        Init {
            initiate_tag: TAG,
            a_rwnd: 5_000,
            outbound_streams: 10,
            inbound_streams: 10,
            initial_tsn: TSN,
            params: Tlvs::EMPTY,
        }
    }

    fn answer(&mut self, packet: &SctpView<'_>) {
        self.ports = (packet.dst_port(), packet.src_port());
        for raw in packet.chunks() {
            let chunk = Chunk::parse(&raw.expect("a chunk")).expect("a good chunk");
            let first = matches!(chunk, Chunk::Init(_));
            assert_eq!(packet.vtag(), if first { 0 } else { TAG }, "the tag of {chunk:?}");
            match chunk {
                Chunk::Init(init) => {
                    self.peer_tag = init.initiate_tag;
                    self.send(&Chunk::InitAck(self.init()), &[Param::StateCookie(COOKIE)], &[]);
                }
                Chunk::InitAck(init) => {
                    self.peer_tag = init.initiate_tag;
                    let mut params = init.params.map(|p| Param::parse(&p.expect("a parameter")));
                    let cookie = params.find_map(|p| match p {
                        Ok(Param::StateCookie(cookie)) => Some(cookie.to_vec()),
                        _ => None,
                    });
                    self.send(&Chunk::CookieEcho(&cookie.expect("a cookie")), &[], &[]);
                }
                Chunk::CookieEcho(cookie) => {
                    assert_eq!(cookie, COOKIE);
                    self.send(&Chunk::CookieAck, &[], &[]);
                }
                Chunk::Data(header, []) => {
                    self.send(&Chunk::Error(Tlvs::EMPTY), &[], &[Cause::NoUserData(header.tsn)]);
                }
                Chunk::Data(header, _) => {
                    let sack = Sack { cum_tsn: header.tsn, a_rwnd: 5_000, gaps: &[], dups: &[] };
                    self.send(&Chunk::Sack(sack), &[], &[]);
                }
                Chunk::Sack(sack) => assert_eq!(sack.cum_tsn, self.next_tsn.wrapping_sub(1)),
                Chunk::HeartbeatAck(mut info) => {
                    let info = info.next().expect("one").expect("a parameter");
                    assert_eq!(Param::parse(&info), Ok(Param::HeartbeatInfo(NONCE)));
                }
                Chunk::Shutdown(tsn) => {
                    assert_eq!(tsn, self.next_tsn.wrapping_sub(1));
                    self.send(&Chunk::ShutdownAck, &[], &[]);
                }
                _ => {}
            }
        }
    }
}

impl Target for Endpoint {
    fn now(&self) -> Instant {
        self.now
    }

    fn call(&mut self, call: Call) -> Started {
        Started::Done(match call {
            Call::Socket { .. } | Call::Accept { .. } => {
                self.fds += 1;
                Reply { addr: Some(SocketAddr::new(REMOTE.into(), 9)), ..Reply::ok(self.fds) }
            }
            Call::Getsockname { .. } => {
                Reply { addr: Some(SocketAddr::new(LOCAL.into(), 8_080)), ..Reply::ok(0) }
            }
            Call::Connect { .. } => {
                self.ports = (4_000, 8_080);
                self.send(&Chunk::Init(self.init()), &[], &[]);
                Reply::ok(0)
            }
            Call::Send { data, .. } => {
                let header =
                    DataRepr { flags: DataFlags::WHOLE, tsn: self.next_tsn, sid: 1, ssn: 0, ppid: 7 };
                self.next_tsn = self.next_tsn.wrapping_add(1);
                self.send(&Chunk::Data(header, &[0; 100]), &[], &[]);
                Reply::ok(if data.is_empty() { 0 } else { 100 })
            }
            Call::Shutdown { .. } => {
                self.send(&Chunk::Heartbeat(Tlvs::EMPTY), &[Param::HeartbeatInfo(NONCE)], &[]);
                Reply::ok(0)
            }
            _ => Reply::ok(0),
        })
    }

    fn take(&mut self, _: CallId) -> Option<(Instant, Reply)> {
        None
    }

    fn inject(&mut self, packet: Bytes) {
        let ip = Ipv4View::parse(&packet).expect("IPv4");
        assert_eq!(ip.protocol(), protocol::SCTP);
        let packet = SctpView::parse(ip.payload()).expect("SCTP");
        if packet.verify() == Checksum::Good {
            self.answer(&packet);
        }
    }

    fn advance_until(&mut self, t: Instant) {
        self.now = self.now.max(t);
    }

    fn next_packet(&mut self, _: Instant) -> Option<Sent> {
        self.sent.pop_front()
    }

    fn set_sysctl(&mut self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn early_info(&mut self, _: SocketAddr, _: SocketAddr) -> Option<Vec<u8>> {
        None
    }

    fn trace(&mut self, _: usize) -> Vec<Record> {
        Vec::new()
    }
}

fn run(wrong_tag: bool, text: &str) -> Result<Vec<String>, Box<Failure>> {
    Invocation::new("sctp.pkt", text).run_on(|_| {
        Ok(Box::new(Endpoint {
            now: ORIGIN,
            sent: VecDeque::new(),
            ports: (0, 0),
            peer_tag: 0,
            next_tsn: TSN,
            fds: 10,
            wrong_tag,
        }))
    })
}

const PASSIVE: &str = "\
0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1]
+0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=5000, os=10, is=10, tsn=10, STATE_COOKIE[len=25, val=...]]
+0 < sctp(bad_crc32c): COOKIE_ECHO[flgs=0, len=..., val=...]
+.1 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0 > sctp(tag=1): COOKIE_ACK[flgs=0]
+0 accept(3, ..., ...) = 4
+.1 < sctp: DATA[flgs=BE, len=116, tsn=1, sid=0, ssn=0, ppid=0]
+0 > sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=5000, gaps=[], dups=[]]
+0 < sctp: DATA[flgs=BE, len=16, tsn=2, sid=0, ssn=0, ppid=0]
* > sctp: ERROR[flgs=0, NO_USER_DATA[tsn=2]]
+0 write(4, ..., 100) = 100
+0 > sctp: DATA[flgs=BE, len=116, tsn=10, sid=1, ssn=0, ppid=7]
+0 < sctp: SACK[flgs=0, cum_tsn=10, a_rwnd=1500, gaps=[], dups=[]]
+0 shutdown(4, SHUT_WR) = 0
+0 > sctp: HEARTBEAT[flgs=0, HEARTBEAT_INFORMATION[len=9, val=...]]
+0 < sctp: HEARTBEAT_ACK[flgs=0, HEARTBEAT_INFORMATION[len=..., val=...]]
+0 < sctp(tag=2): SHUTDOWN[flgs=0, cum_tsn=10]
+0 > sctp: SHUTDOWN_ACK[flgs=0]
";

#[test]
fn a_passive_association_has_the_scripts_numbers() {
    run(false, PASSIVE).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn an_active_association_has_the_scripts_numbers() {
    let text = "\
0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 connect(3, ..., ...) = 0
+0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+.1 < sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=4500, os=16, is=16, tsn=3, STATE_COOKIE[len=6, val=...]]
+0 > sctp: COOKIE_ECHO[flgs=0, len=6, val=[65, 65]]
+.1 < sctp: COOKIE_ACK[flgs=0]
+0 write(3, ..., 100) = 100
+0 > sctp: DATA[flgs=BE, len=116, tsn=1, sid=1, ssn=0, ppid=7]
+0 < 5 > 6 sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=1500, gaps=[], dups=[]]
";
    run(false, text).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn each_number_of_the_stack_is_compared() {
    for (line, (from, to), what) in [
        (5, ("tag=2,", "tag=2, "), ""),
        (5, ("STATE_COOKIE[len=25", "STATE_COOKIE[len=24"), "STATE_COOKIE with other length"),
        (5, ("os=10", "os=11"), "INIT_ACK with other os"),
        (8, ("tag=1", "tag=3"), "verification tag 1 instead of 3"),
        (11, ("cum_tsn=1", "cum_tsn=2"), "SACK with other cum_tsn"),
        (13, ("tsn=2", "tsn=1"), "NO_USER_DATA with other tsn"),
        (15, ("tsn=10", "tsn=11"), "DATA with other tsn"),
        (15, ("len=116", "len=117"), "DATA with other length"),
        (15, ("sid=1", "sid=0"), "DATA with other sid"),
        (21, ("SHUTDOWN_ACK[flgs=0]", "SHUTDOWN_COMPLETE[flgs=0]"), "SHUTDOWN_ACK where SHUTDOWN_COMPLETE"),
    ] {
        let mut lines: Vec<String> = PASSIVE.lines().map(str::to_owned).collect();
        assert!(lines[line - 1].contains(from), "{line}: {from}");
        lines[line - 1] = lines[line - 1].replace(from, to);
        match run(false, &lines.join("\n")) {
            Ok(_) => assert_eq!(what, "", "{line}: {to}"),
            Err(failure) => {
                assert_eq!(failure.line, line, "{failure}");
                assert!(!what.is_empty() && failure.what.contains(what), "{what}: {failure}");
            }
        }
    }
}

#[test]
fn a_wrong_verification_tag_is_found_though_no_line_names_it() {
    let failure = run(true, PASSIVE).expect_err("the endpoint sends with the tag 0");
    assert_eq!((failure.line, failure.what.as_str()), (5, "the packet has verification tag 0 instead of 1"));
}

#[test]
fn a_failure_shows_packets_as_scripts_write_them() {
    let text = PASSIVE.replace("SACK[flgs=0, cum_tsn=1, a_rwnd=5000", "SACK[flgs=0, cum_tsn=1, a_rwnd=5001");
    let failure = run(false, &text).expect_err("another a_rwnd");
    assert_eq!(failure.expected, "sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=5001, gaps=[], dups=[]]");
    assert_eq!(failure.actual, "sctp: SACK[flgs=0, cum_tsn=1, a_rwnd=5000, gaps=[], dups=[]]");
    let packets = failure.packets.join("\n");
    assert!(packets.contains("< sctp: INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1]"), "{packets}");
    assert!(packets.contains("> sctp: COOKIE_ACK[flgs=0]"), "{packets}");
}
