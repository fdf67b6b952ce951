//! Every part of the language is compared: one word of a script that passes is changed, and it fails in that line.
use lowwater_drill::Overrides;
use std::fs;
use std::path::PathBuf;

/// A script that passes, what is changed in it, and what the failure says.
type Change = (&'static str, &'static str, &'static str, &'static str);

const CHANGES: &[Change] = &[
    // Addresses, ports, headers.
    ("lang/ports.pkt", "> :8080 > :1000: P.", "> :8080 > :2000: P.", "is not sent"),
    ("lang/ports.pkt", "192.0.2.9:2000: S.", "192.0.2.8:2000: S.", "is not sent"),
    ("lang/ports.pkt", "ack 6 <mss 1460>", "ack 5 <mss 1460>", "another acknowledgment"),
    ("lang/ports.pkt", "htons(2000), sin_addr", "htons(2001), sin_addr", "accept tells another address"),
    (
        "lang/ports.pkt",
        "inet_addr(\"192.0.2.9\")}, [16]",
        "inet_addr(\"192.0.2.8\")}, [16]",
        "another address",
    ),
    ("lang/ports.pkt", "...}, [16]", "...}, [8]", "another length"),
    ("lang/ports.pkt", "...}, [16]", "...}, [128]", "another length"),
    ("lang/mapped.pkt", "AF_INET6, sin_port = htons(7)", "AF_INET, sin_port = htons(7)", "another address"),
    ("lang/mapped.pkt", "[tos 0x28]", "[tos 0x20]", "another TOS"),
    ("lang/mapped.pkt", "> [ttl 9]", "> [ttl 8]", "another TTL"),
    ("lang/mapped.pkt", "--bind_port=7", "--bind_port=9", "another address"),
    ("lang/flowlabel.pkt", "0x5] P. 1001", "0x6] P. 1001", "another flow label"),
    ("lang/ipv6.pkt", "[noecn]", "[ect0]", "another ECN mark"),
    ("lang/ipv6.pkt", "ack 1 <mss 1340>", "ack 1 <mss 1440>", "other options"),
    ("lang/epoll.pkt", "{events=0, ptr=0}, 1, 0", "{events=EPOLLIN, ptr=0}, 1, 0", "another event"),
    ("lang/nplab.pkt", "[dscp AF11, ecn noecn]", "[dscp AF12, ecn noecn]", "another TOS"),
    ("lang/nplab.pkt", "[dscp 10]", "[dscp EF]", "another DSCP"),
    ("lang/nplab.pkt", "P. ...(100)", "P. ...(101)", "another length"),
    ("lang/nplab.pkt", "P. ...(100)", "P. 2:102(100)", "another sequence number"),
    ("lang/nplab.pkt", "R 17:17(0)! win 0", "R 1:1(0) win 0", "another result"),
    ("lang/nplab.pkt", "ecr 12345!", "ecr 12345", "no packet with this TS val"),
    ("lang/blanks.pkt", "> P . 1:101(100)", "> P .1 1:101(100)", "other flags"),
    ("lang/blanks.pkt", "> .0 101", "> .1 101", "other flags"),
    ("lang/blanks.pkt", "< P .0 1", "< P .8 1", "no TCP flag"),
    ("lang/blanks.pkt", "listen(3, 1) = 0\n", "listen(3, 1) = 1\n", "another result"),
    ("lang/blanks.pkt", "(nothing is sent)", "(nothing) (is sent)", "begins with its time"),
    ("lang/blanks.pkt", "recv(4, NULL, -1, 0)", "recv(4, ..., -1, 0)", "a buffer of -1 bytes"),
    (
        "lang/taken.pkt",
        "CAP_EFFECTIVE, CAP_NET_ADMIN, CAP_CLEAR",
        "CAP_EFFECTIVE, CAP_NET_ADMIN, CAP_SET",
        "another result",
    ),
    ("lang/taken.pkt", "CAP_INHERITABLE, CAP_NET_RAW", "CAP_EFFECTIVE, CAP_NET_RAW", "another result"),
    (
        "lang/taken.pkt",
        "CAP_EFFECTIVE, CAP_NET_RAW, CAP_SET",
        "CAP_INHERITABLE, CAP_NET_RAW, CAP_SET",
        "another result",
    ),
    (
        "lang/taken.pkt",
        "bind(3, ..., ...) = 0",
        "bind(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"0.0.0.0\")}, ...) = 0",
        "another result",
    ),
    ("lang/unheard.pkt", "> R 1:1(0)", "> R 2:2(0)", "another sequence number"),
    ("lang/joined.pkt", "> P. 1:1001(1000)", "> P. 1:1002(1001)", "differ in size"),
    ("lang/joined.pkt", "[noecn, flowlabel 0x0, ttl 0]", "[noecn, flowlabel 0x0, ttl 1]", "another TTL"),
    ("lang/runner.pkt", "FO TFO_COOKIE,", "FO TFO_COOKIE_ZERO,", "other options"),
    ("lang/runner.pkt", "cmsg_type=CMSG_TYPE_RECVERR", "cmsg_type=IP_TTL", "another control message"),
    ("lang/no_socket.pkt", "> R 5:5(0)", "> R 6:6(0)", "another sequence number"),
    ("lang/wildcard.pkt", "sackOK,nop,wscale *", "nop,sackOK,wscale *", "other options"),
    ("lang/wildcard.pkt", "nop,nop,nop,wscale 7>", "nop,nop,nop,wscale *>", "a number should stand here"),
    ("tcp/timestamping/attributes.pkt", "DELIVERED=3", "DELIVERED=4", "another control message"),
    ("tcp/timestamping/attributes.pkt", "BUSY=100000", "BUSY=90000", "another control message"),
    (
        "tcp/timestamping/attributes.pkt",
        "scm_sec=0,scm_nsec=0",
        "scm_sec=0,scm_nsec=1",
        "another control message",
    ),
    // UDP and ICMP.
    ("udp/echo.pkt", "> udp (50)", "> udp (51)", "another length"),
    ("udp/echo.pkt", "8080 > 8080 (30)", "8080 > 8081 (30)", "is not sent"),
    ("udp/echo.pkt", "= 100\n", "= 101\n", "another result"),
    ("udp/echo.pkt", "-1 ECONNREFUSED", "-1 EHOSTUNREACH", "another result"),
    (
        "udp/echo.pkt",
        "> icmp unreachable port_unreachable",
        "> icmp unreachable host_unreachable",
        "another code",
    ),
    ("udp/echo.pkt", "[udp (10)]", "[udp (11)]", "quoted packet of another length"),
    ("udp/echo.pkt", "[udp (10)]", "[0:10(10)]", "another kind of quoted packet"),
    ("udp/echo.pkt", "echo_reply id 7", "echo_reply id 8", "another identifier"),
    ("udp/echo.pkt", "echo_reply id 7 [raw (64)]", "echo_reply id 7 [raw (65)]", "another length"),
    ("udp/echo.pkt", "> icmp echo_reply", "> icmp time_exceeded", "another type"),
    ("udp/echo.pkt", "> udp (50)", "> . 1:1(0) ack 1", "is not sent"),
    ("tcp/icmp/unreachable.pkt", "[0:0(0)]", "[5:5(0)]", "still blocks"),
    ("tcp/icmp/unreachable.pkt", "EHOSTUNREACH", "ECONNREFUSED", "another result"),
    ("tcp/icmp/unreachable.pkt", "+.1 < icmp", "+.2 < icmp", "wrong time"),
    ("tcp/icmp/frag_needed.pkt", "mtu 700 [5001:6461(1460)]", "mtu 700 [1:1461(1460)]", "wrong time"),
    ("tcp/icmp/too_big.pkt", "packet_too_big mtu 1300", "time_exceeded exceeded_hop_limit", "wrong time"),
    ("tcp/icmp/too_big.pkt", "> [ttl 64] icmp", "> [ttl 63] icmp", "another TTL"),
    ("tcp/icmp/too_big.pkt", "mtu 1300 [1:1461(1460)]", "mtu 1300 [3000:3010(10)]", "wrong time"),
    // Numbers, timestamps, joining, times.
    ("lang/strict.pkt", "val 250 ecr 750>\n+0 > P.", "val 260 ecr 750>\n+0 > P.", "another TS val"),
    ("lang/strict.pkt", "val 250 ecr 750>\n+0 > P.", "val 251 ecr 750>\n+0 > P.", "another TS val"),
    ("lang/strict.pkt", "> . 1:989(988)", "> P. 1:1977(1976)", "other flags"),
    ("lang/strict.pkt", "S. 5000:5000(0) ack 10", "S. 5000:5000(0) ack 1", "another acknowledgment number"),
    ("lang/strict.pkt", "ecr 250>", "ecr 251>", "no packet with this TS val"),
    ("lang/strict.pkt", "+0 > . 1:989", "+.002 > . 1:989", "wrong time"),
    (
        "lang/strict.pkt",
        "+0 > . 1:989",
        "+.05 < . 1:1(0) ack 1 win 65535 <nop,nop,TS val 800 ecr 100>\n+0 > . 1:989",
        "wrong time: it left before the script's packet of 0.200000 came",
    ),
    ("lang/gro.pkt", "ack 10001\n+0 read", "ack 9001\n+0 read", "another acknowledgment"),
    ("lang/gro.pkt", "urg 50", "urg 500", "another result"),
    (
        "lang/gro.pkt",
        "ack 1 <mss 1460>",
        "ack 1 <mss 1460,opt 30 01,nop>",
        "other options: opt 30 01 is missing",
    ),
    // Messages and data.
    ("lang/messages.pkt", "\"xy\", 5", "\"xy\", 6", "another result"),
    ("lang/messages.pkt", "cmsg_data=70", "cmsg_data=71", "another control message"),
    (
        "lang/messages.pkt",
        ", msg_control=[{cmsg_level=SOL_TCP, cmsg_type=TCP_CM_INQ, cmsg_data=70}]",
        "",
        "other flags",
    ),
    (
        "lang/messages.pkt",
        "msg_control=[{cmsg_level=SOL_TCP, cmsg_type=TCP_CM_INQ, cmsg_data=70}]",
        "msg_control=[]",
        "other flags",
    ),
    ("lang/messages.pkt", "msg_flags=0, msg_control", "msg_flags=MSG_CTRUNC, msg_control", "other flags"),
    ("lang/messages.pkt", "[100]) = 0", "[99]) = 0", "ioctl tells another number"),
    ("lang/messages.pkt", "\"\\x00\\x00\"", "\"\\x00z\"", "other data"),
    ("lang/messages.pkt", "-1 EFAULT", "-1 EINVAL", "another result"),
    (
        "lang/messages.pkt",
        "[{..., 10}, {..., 20}], 2) = 30\n+0 recv",
        "[{..., 10}, 20], 2) = 30\n+0 recv",
        "a buffer is",
    ),
    // Events.
    ("lang/epoll.pkt", "{events=EPOLLOUT, ptr=77}", "{events=EPOLLIN, ptr=77}", "another event"),
    ("lang/epoll.pkt", "{events=EPOLLOUT, ptr=77}", "{events=EPOLLOUT, ptr=78}", "another event"),
    (
        "lang/epoll.pkt",
        "[{events=EPOLLIN, fd=4}], 1, 0) = 1",
        "[{events=EPOLLIN, fd=5}], 1, 0) = 1",
        "another event",
    ),
    ("lang/epoll.pkt", "ptr=0}, 1, 0) = 0", "ptr=0}, 1, 0) = 1", "another result"),
    ("lang/epoll.pkt", "+0...0.1 epoll", "+0...0.2 epoll", "wrong time"),
    ("lang/epoll.pkt", "revents=POLLIN|POLLOUT", "revents=POLLIN", "other events of 4"),
    ("lang/epoll.pkt", "1, 0) = 1\n+0 pipe", "2, 0) = 1\n+0 pipe", "lists 1"),
    ("lang/epoll.pkt", "pipe([6, 7])", "pipe([4, 7])", "already"),
    ("lang/epoll.pkt", "= 0x2 (flags", "= 0x802 (flags", "another result"),
    ("lang/epoll.pkt", "-1 EBADF", "-1 EINVAL", "another result"),
    // Options.
    (
        "lang/options.pkt",
        "{onoff=1, linger=5}, [8]",
        "{onoff=1, linger=6}, [8]",
        "SO_LINGER has another value",
    ),
    (
        "lang/options.pkt",
        "{tv_sec=1, tv_usec=500000}, [16]",
        "{tv_sec=1, tv_usec=0}, [16]",
        "SO_RCVTIMEO has another value",
    ),
    ("lang/options.pkt", "\"reno\", [4]", "\"cubi\", [4]", "TCP_CONGESTION has another value"),
    ("lang/options.pkt", "tcpi_rtt=100000", "tcpi_rtt=100001", "tcpi_rtt has another value"),
    ("lang/options.pkt", "tcpi_rtt=100000", "tcpi_speed=1", "tcpi_speed has another value"),
    ("lang/options.pkt", "[ECONNRESET]", "[ECONNREFUSED]", "SO_ERROR has another value"),
    ("lang/options.pkt", "+0...1.5 read", "+0...1.2 read", "wrong time"),
    ("lang/options.pkt", "--define=NAME=\"reno\"", "--define=NAME=\"nano\"", "another result"),
    // Commands.
    ("lang/defaults.pkt", "defaults.sh", "nothing.sh", "nothing.sh"),
    ("lang/defaults.pkt", "echo 0 > /proc", "echo -5 > /proc", "tcp_early_retrans"),
    ("lang/defaults.pkt", "ipv4/tcp_early_retrans", "ipv4/tcp_early_retrnas", "near it: tcp_early_retrans"),
    (
        "lang/defaults.pkt",
        "`sysctl -q net.ipv4.tcp_slow",
        "`tc qdisc add; sysctl -q net.ipv4.tcp_slow",
        "tc qdisc replace dev DEVICE root DISCIPLINE",
    ),
    ("lang/defaults.pkt", "wscale 8>", "wscale 7>", "other options: wscale 8 where the line has wscale 7"),
    // How packets leave.
    ("tcp/autosize/far.pkt", "{segs 2, gso 1460, departs +0}", "{segs 3}", "another number of segments"),
    ("tcp/autosize/far.pkt", "{segs 2, gso 1460, departs +0}", "{gso 1448}", "another GSO size"),
    ("tcp/autosize/far.pkt", "{segs 2, gso 1460, departs +0}", "{departs +.001}", "another departure time"),
    ("tcp/autosize/far.pkt", "--gso=65535", "--mtu=1500", "another number of segments"),
    (
        "tcp/autosize/far.pkt",
        "P. 1:2921(2920) ack 1 {segs 2,",
        "P. 1:5841(5840) ack 1 {segs 4,",
        "number of segments",
    ),
    ("tcp/tsq/limit.pkt", "queued 5920", "queued 2960", "another number of bytes in the queue"),
    ("tcp/tsq/limit.pkt", "packets 2", "packets 3", "another number of packets in the queue"),
    ("tcp/tsq/limit.pkt", "complete 1", "complete 9", "holds fewer packets"),
    ("tcp/tsq/limit.pkt", "complete 1\n", "busy\n", "is not sent"),
    ("tcp/tsq/limit.pkt", "--device_queue=100", "--device_queue=1", "is not sent"),
    ("tcp/tsq/limit.pkt", "--device_queue=100", "--mtu=1500", "completes by itself"),
    ("tcp/tsq/busy.pkt", "device busy", "device ready", "wrong time"),
    ("tcp/pacing/rate.pkt", "+.005 >", "+.004 >", "wrong time"),
    // Snippets.
    ("lang/snippets.pkt", "0 < tcpi_unacked <= 2", "0 < tcpi_unacked < 2", "assertion does not hold"),
    ("lang/snippets.pkt", "expected = 2000", "expected = 1999", "assertion does not hold: sent 2000"),
    ("lang/snippets.pkt", "cwnd == cwnd, tcpi", "cwnd == cwnd + 3, tcpi", "assertion does not hold: 10"),
    (
        "lang/snippets.pkt",
        "in (TCP_CA_Open, TCP_CA_Disorder)",
        "in (TCP_CA_Disorder,)",
        "assertion does not hold",
    ),
    ("lang/snippets.pkt", "WMEM_QUEUED >= 2000", "WMEM_QUEUED >= 200000", "assertion does not hold"),
    (
        "lang/snippets.pkt",
        "tcpi_bytes_sent ==",
        "tcpi_bytes_snt ==",
        "TCP_INFO has no 'tcpi_bytes_snt'; near it: tcpi_bytes_sent",
    ),
    // SCTP: numbers, structures, calls of libsctp.
    ("sctp/handshake/init_twice.pkt", "tsn=2, sid=0", "tsn=3, sid=0", "DATA with other tsn"),
    (
        "sctp/handshake/init_twice.pkt",
        "sctp(tag=1): COOKIE_ACK",
        "sctp(tag=7): COOKIE_ACK",
        "verification tag 1",
    ),
    ("sctp/handshake/no_new_tag.pkt", "sctp(tag=8): INIT_ACK", "sctp(tag=2): INIT_ACK", "verification tag 8"),
    ("sctp/handshake/over_udp.pkt", "udp(9899>9901)", "udp(9899>9900)", "UDP ports 9899 > 9901"),
    ("sctp/handshake/over_udp.pkt", "> sctp: DATA", "> sctp/udp(9899>9901): DATA", "no UDP around it"),
    ("sctp/errors/nr_sack.pkt", "NR_SACK[flgs=0, cum_tsn=1", "SACK[flgs=0, cum_tsn=1", "'nr_gaps'"),
    ("qdisc/default.pkt", "default_qdisc=fq_codel`", "default_qdisc=fq`", "another length"),
    ("tcp/routes/no_route.pkt", "`ip route del default`", "`true`", "the assertion does not hold"),
    ("sctp/handshake/connectx.pkt", "tsn=7, sid=0", "tsn=1, sid=0", "DATA with other tsn"),
    ("sctp/handshake/connectx.pkt", "[...], 1, [0]", "[...], 2, [0]", "says 2 addresses and lists 1"),
    (
        "sctp/errors/unknown_chunks.pkt",
        "flgs=1, len=6, val=[7, 8]]]]; SHUT",
        "flgs=1, len=8, val=[7, 8]]]]; SHUT",
        "other length",
    ),
    ("sctp/sockets/notifications.pkt", "sac_info=...", "sac_info=[1]", "sac_info has another value"),
    (
        "sctp/sockets/notifications.pkt",
        "sac_outbound_streams=4",
        "sac_outbound_streams=5",
        "sac_outbound_streams has",
    ),
    (
        "sctp/sockets/send_failed.pkt",
        "ssfe_data=[1, 2, 3]",
        "ssfe_data=[1, 2]",
        "ssfe_data has another value",
    ),
    (
        "sctp/sockets/send_failed.pkt",
        "ssfe_data=[1, 2, 3]",
        "ssfe_data=[1, 2, 4]",
        "ssfe_data has another value",
    ),
    ("sctp/sockets/send_failed.pkt", "ssfe_length=35", "ssfe_length=34", "ssfe_length has another value"),
    (
        "sctp/sockets/send_failed.pkt",
        "snd_context=9}, ssfe",
        "snd_context=8}, ssfe",
        "snd_context has another value",
    ),
    ("sctp/sockets/send_failed.pkt", "{ssfe_type", "{sse_type", "no structure that is known here"),
    ("sctp/sockets/send_failed.pkt", "110, 111]", "110]", "sac_info has another value"),
    ("sctp/sockets/libsctp.pkt", "assoc_id=...}, MSG_EOR", "assoc_id=...}, 0", "other flags"),
    ("sctp/sockets/libsctp.pkt", "{sinfo_stream=0", "{sinfo_stream=3", "sinfo_stream has another value"),
    ("sctp/sockets/libsctp.pkt", "[28]", "[27]", "another infolen"),
    ("sctp/sockets/libsctp.pkt", "[SCTP_RECVV_RCVINFO]", "[SCTP_RECVV_NXTINFO]", "another infotype"),
    ("sctp/sockets/libsctp.pkt", "{rcv_sid=3", "{rcv_sid=4", "rcv_sid has another value"),
    ("sctp/sockets/libsctp.pkt", "paddrs(3, 0, [...]) = 1", "paddrs(3, 0, [...]) = 2", "another result"),
    (
        "sctp/sockets/libsctp.pkt",
        "paddrs(3, 0, [...])",
        "paddrs(3, 0, [..., ...])",
        "another number of addresses",
    ),
    ("sctp/sockets/libsctp.pkt", "{..., 40}], 2", "{..., 40}], 3", "says 3 buffers"),
    ("sctp/sockets/libsctp.pkt", "{pr_policy", "{snd_policy", "is no struct sctp_prinfo"),
    ("sctp/sockets/control_messages.pkt", "msg_control(44)", "msg_control(40)", "other flags"),
    ("sctp/sockets/control_messages.pkt", "cmsg_len=44", "cmsg_len=40", "another control message"),
    ("sctp/sockets/peer_address.pkt", "sue_port=htons(0)", "sue_port=htons(1)", "sue_port has another value"),
    // What was out goes again in fragments of IP.
    ("sctp/icmp/frag_needed.pkt", "cum_tsn=1,", "cum_tsn=0,", "sent a fragment"),
    ("sctp/icmp/too_big_v6.pkt", "cum_tsn=2,", "cum_tsn=1,", "sent a fragment"),
    ("sctp/sockets/lengths.pkt", "htons(9899)}, [144]", "htons(43814)}, [144]", "sue_port has another value"),
    (
        "sctp/sockets/lengths.pkt",
        "{onoff=1, linger=5}",
        "{on=1, linger=5}",
        "no structure that is known here",
    ),
];

#[test]
fn one_changed_word_fails_in_its_line() {
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/drill");
    let mut wrong = String::new();
    for (file, from, to, wanted) in CHANGES {
        let path = scripts.join(file);
        let text = fs::read_to_string(&path).expect(file);
        let Some(at) = text.find(from) else { panic!("{file} has no '{from}'") };
        let line = text[..at].matches('\n').count() + 1;
        let changed = text.replacen(from, to, 1);
        let told = match lowwater_drill::drill(&path.display().to_string(), &changed) {
            Ok(_) => "it passes".to_owned(),
            Err(failure) if !failure.what.contains(wanted) => failure.to_string(),
            // What is set in one line may show in a later one, in an earlier one only if that takes time.
            Err(failure) if !wanted.contains("time") && !wanted.contains("blocks") && failure.line < line => {
                failure.to_string()
            }
            Err(_) => continue,
        };
        wrong.push_str(&format!("{file}: '{from}' -> '{to}' should say '{wanted}', but:\n{told}\n\n"));
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn errors_have_their_names() {
    let front = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 getsockopt(3, SOL_SOCKET, SO_ERROR, ";
    let told =
        |value: &str| lowwater_drill::drill("made.pkt", &format!("{front}{value}, [4]) = 0")).unwrap_err();
    let failure = told("[ECONNREFUSED]").to_string();
    assert!(failure.contains("expected: ECONNREFUSED (111)\n  actual:   0\n"), "{failure}");
    assert!(told("[4000]").to_string().contains("expected: 4000\n"));
}

#[test]
fn snippets_print() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/drill/lang/snippets.pkt");
    let outcome = lowwater_drill::drill_file(&path, Overrides::default()).expect("a script");
    assert_eq!(outcome.printed, ["cwnd 10"]);
}

/// A server's connection with timestamps, up to its first data; what stands in front and behind is the test's.
fn with(front: &str, behind: &str) -> Result<Vec<String>, String> {
    let text = format!(
        "{front}\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
         +0 < S 0:0(0) win 65535 <mss 1000,sackOK,TS val 200 ecr 777>\n\
         +0 > S. 0:0(0) ack 1 <mss 1460,sackOK,TS val 100 ecr 200>\n{behind}"
    );
    lowwater_drill::drill("made.pkt", &text).map_err(|e| e.what)
}

#[test]
fn wrong_words_of_ip_route_are_told() {
    let told = |command: &str| with(&format!("`{command}`"), "").unwrap_err();
    for (words, why) in [
        ("dev eth9", "no device 'eth9'"),
        ("via 1.2.3.999", "via: '1.2.3.999' is no address"),
        ("via fd00::1", "via: 'fd00::1' is no address"),
        ("metric five", "metric: 'five' is no number"),
        ("dev tun0 initcwn 4", "no 'initcwn' here; there are mtu, initcwnd"),
        ("dev tun0 initcwnd", "initcwnd of a route wants a value"),
    ] {
        let what = told(&format!("ip route replace default {words}"));
        assert!(what.contains(why), "{words}: {what}");
    }
    let what = told("ip route replace default dev tun0 mtu 1400 | true");
    assert!(what.contains("what another command makes of its output"), "{what}");
    assert!(told("ip addr add 10.9.0.1/24 dev tun0").contains("`ip route add`, `replace` and `del`"));
    assert!(told("ip link set dev tun0 mtu 1400 up").contains("there is 'ip link set dev DEVICE mtu N'"));
    assert!(told("ip link set dev eth9 mtu 1400").contains("eth9"));
    // Of the other family nothing is changed, which is told.
    let other =
        "`ip -6 route replace default dev tun0 advmss 900`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3";
    let notes = lowwater_drill::drill("made.pkt", other).unwrap();
    assert!(notes.iter().any(|note| note.contains("changes nothing: all is IPv4 here")), "{notes:?}");
}

#[test]
fn what_packetdrill_refuses_is_refused() {
    let open = "+.01 < . 1:1(0) ack 1 win 65535 <nop,nop,TS val 210 ecr 100>\n+0 accept(3, ..., ...) = 4\n";
    assert_eq!(with("", open), Ok(vec![]), "the ecr of a SYN means nothing");
    // An echoed timestamp must have gone out, 0 included.
    let never = open.replace("ecr 100", "ecr 0");
    assert_eq!(with("", &never).unwrap_err(), "ecr 0: no packet with this TS val went out");
    let later = format!(
        "{open}+.01 < P. 1:2(1) ack 1 win 65535 <nop,nop,TS val 220 ecr 105>\n+0 read(4, ..., 9) = 1\n"
    );
    assert_eq!(with("", &later).unwrap_err(), "ecr 105: no packet with this TS val went out");
    assert_eq!(with("--tcp_ts_ecr_scaled", &later), Ok(vec![]));
    // The stack's first number has one name.
    let again = "+1 > S. 5:5(0) ack 1 <mss 1460,sackOK,TS val 1100 ecr 200>\n";
    assert_eq!(with("", again).unwrap_err(), "the packet has another sequence number");
    assert_eq!(with("", &again.replace("5:5", "0:0")), Ok(vec![]));
    // What packets differ in is told and no more.
    let forgiven = with("--non_fatal=packet --mss=1000 --is_anyip", again).unwrap();
    assert!(forgiven.len() == 1 && forgiven[0].starts_with("line 7: the packet has another sequence number"));
    // Segments of one line are of one size but for the last: here 988, 12, 988 and 12 bytes.
    let pieces = "+0 setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0\n+0 write(4, ..., 1000) = 1000\n\
                  +0 write(4, ..., 1000) = 1000\n+0 > P. 1:2001(2000) ack 1 <nop,nop,TS val 110 ecr 210>\n";
    assert_eq!(with("", &format!("{open}{pieces}")).unwrap_err(), "segments of this line differ in size");
    let two = pieces.replace(
        "P. 1:2001(2000) ack 1 <nop,nop,TS val 110 ecr 210>",
        "P. 1:1001(1000) ack 1 <nop,nop,TS val 110 ecr 210>\n+0 > P. 1001:2001(1000) ack 1 <nop,nop,TS val 110 ecr 210>",
    );
    assert_eq!(with("", &format!("{open}{two}")), Ok(vec![]));
}

#[test]
fn numbers_and_files_that_a_script_may_not_have_fail_in_their_line() {
    let call = |text: &str| {
        let text = format!("0 socket(..., SOCK_DGRAM, IPPROTO_UDP) = 3\n+0 {text}\n");
        let failure = lowwater_drill::drill("made.pkt", &text).expect_err("it fails");
        assert_eq!(failure.line, 2, "{failure}");
        failure.what
    };
    let room = call(
        "recvmsg(3, {msg_name(...)=..., msg_iov(1)=[{...,1}], msg_control(9223372036854775807)=[]}, 0) = 0",
    );
    assert!(room.starts_with("room for 9223372036854775807 bytes of control messages"), "{room}");
    let least = call("close(-0x8000000000000000) = 0");
    assert_eq!(least, "'0x8000000000000000' is no number that fits here");
    // As atoll() reads it.
    let most = call("write(3, ..., 18446744073709551615) = 0");
    assert!(most.starts_with("a buffer of 9223372036854775807 bytes"), "{most}");
    for path in ["/dev/zero", "/"] {
        assert_eq!(
            call(&format!("open(\"{path}\", O_RDONLY) = 4")),
            format!("open: {path} is no regular file")
        );
    }
}

#[test]
fn the_buffers_of_a_call_are_bounded_together() {
    let call = |len: &str| {
        let text = format!(
            "0 socket(..., SOCK_DGRAM, IPPROTO_UDP) = 3\n+0 writev(3, [{{..., 5}}, {{..., {len}}}], 2) = -1 EDESTADDRREQ\n"
        );
        lowwater_drill::drill("made.pkt", &text).map_err(|e| e.what)
    };
    assert_eq!(call("40000"), Ok(vec![]));
    assert_eq!(call("67108863").unwrap_err(), "buffers of more than 67108864 bytes in one call");
    assert_eq!(call("-1").unwrap_err(), "a buffer is {..., 1000}, not {..., -1}");
}

/// What a script fails by on the stack.
fn failure(text: &str) -> Box<lowwater_drill::Failure> {
    lowwater_drill::Invocation::new("it.pkt", text).run().expect_err(text)
}

/// An association of the stack's, up to its COOKIE ECHO.
const OPENED: &str = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=1, ...]
+.1 < sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=15000, os=16, is=16, tsn=100, STATE_COOKIE[len=4, val=...]]
";

#[test]
fn the_last_packets_have_the_scripts_numbers_from_the_init_on() {
    let wrong = failure(&format!("{OPENED}+0 > sctp: COOKIE_ACK[flgs=0]\n"));
    let [init, ..] = &wrong.packets[..] else { panic!("{wrong}") };
    assert!(init.contains("INIT[flgs=0, tag=1,") && init.contains("tsn=1,"), "{wrong}");
}

#[test]
fn a_name_that_a_snippet_does_not_have_is_told_those_near_it() {
    let connect = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
        +0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n+.1 < . 1:1(0) ack 1 win 65535\n\
        +0 accept(3, ..., ...) = 4\n";
    for (asserted, near) in [
        ("tcpi_retrans_tot == 0", "TCP_INFO has no 'tcpi_retrans_tot'; near it: tcpi_total_retrans"),
        ("tcpi_ca_state == TCP_CA_FOO", "the name 'TCP_CA_FOO' is not known; near it: TCP_CA_"),
    ] {
        let wrong = failure(&format!("--code_command=none\n{connect}+0 %{{ assert {asserted} }}%\n"));
        assert!(wrong.what.starts_with(near), "{wrong}");
    }
}

#[test]
fn a_packet_without_a_line_is_told_from_one_that_differs() {
    let connect = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
        +0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n+.1 < . 1:1(0) ack 1 win 65535\n\
        +0 accept(3, ..., ...) = 4\n+0 write(4, ..., 1000) = 1000\n+0 close(4) = 0\n";
    let missing = failure(&format!("{connect}+0 > F. 1001:1001(0) ack 1\n"));
    let said =
        "unexpected packet: P. 1:1001(1000) ack 1 at 0.100000, before the one of this line, which comes too";
    assert_eq!(missing.what, said, "{missing}");
    assert!(missing.actual.contains("1:1001(1000)"), "{missing}");
    let wrong = failure(&format!("{connect}+.1 > P. 1:1001(1000) ack 1\n"));
    assert_eq!(wrong.expected, "0.200000, give or take 0.012500", "{wrong}");
    let wrong = failure(&format!("{connect}+0 > P. 1:1002(1001) ack 1\n"));
    assert!(wrong.what.starts_with("the packet has "), "{wrong}");
}

#[test]
fn an_acknowledgment_without_a_line_is_told_from_the_data_behind_it() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/drill/lang/first.pkt");
    let first = fs::read_to_string(folder).expect("a script");
    let wrong = failure(&first.replace("+0  > . 1:1(0) ack 101\n", ""));
    let told =
        "unexpected packet: . 1:1(0) ack 101 at 0.200000, before the one of this line, which comes too";
    assert_eq!((wrong.line, wrong.what.as_str()), (24, told), "{wrong}");
    assert!(
        wrong.expected.contains("P. 1:2001(2000)") && wrong.actual.contains(". 1:1(0) ack 101"),
        "{wrong}"
    );
}

#[test]
fn a_list_of_options_that_nothing_closes_is_missed_in_its_line() {
    let listening =
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n";
    let syn = "+0 < S 0:0(0) win 32792 <mss 1460,\n  sackOK,nop,nop,nop,wscale 7";
    for (open, next) in
        [(syn, "+0 > S. 0:0(0) ack 1 <...>"), (&format!("{syn},"), "0.1 close(3) = 0"), (syn, "")]
    {
        let wrong = failure(&format!("{listening}{open}\n{next}\n"));
        assert!(wrong.line == 4 && wrong.what == "no '>' closes the '<' of this line", "{wrong}");
    }
    let wrong = failure(&format!("{listening}+0 < S 0:0(0) win 32792 <mss 1460 sackOK>\n"));
    assert!(
        wrong.line == 4 && wrong.what.starts_with("',' or '>' should stand here, not 'sackOK"),
        "{wrong}"
    );
}

#[test]
fn too_few_arguments_are_told_as_too_many_are() {
    for (call, told) in [
        ("socket(..., SOCK_STREAM)", "socket has 2 arguments here and takes at least 3"),
        ("socket(..., SOCK_STREAM, 0, 0)", "socket has 4 arguments here and takes at most 3"),
        ("socket(...)", "socket has 1 argument here and takes at least 2"),
    ] {
        let wrong = failure(&format!("0 {call} = 3\n"));
        assert_eq!(wrong.what, told, "{wrong}");
    }
}

#[test]
fn a_bracket_that_nothing_closes_is_missed_in_its_line() {
    let open = failure(&format!(
        "{OPENED}+0 > sctp: COOKIE_ECHO[flgs=0, len=4, val=...\n+.1 < sctp: COOKIE_ACK[flgs=0]\n"
    ));
    assert!(open.line == 6 && open.what.contains("']' should stand at the end of this line"), "{open}");
}

#[test]
fn a_wrong_call_gets_those_near_to_it() {
    let wrong = failure("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 lisen(3, 1) = 0\n");
    assert!(wrong.line == 2 && wrong.what.contains("no call 'lisen'; near it: listen"), "{wrong}");
    let other =
        failure("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 select(4, ..., ..., ..., ...) = 0\n");
    assert!(other.what.ends_with("there is no call 'select'"), "nothing is near it: {other}");
}

#[test]
fn a_dry_run_tells_wrong_names_and_runs_nothing() {
    let socket = "--dry_run\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3";
    let asked = "getsockopt(3, SOL_TCP, TCP_INFO";
    for (text, line, what) in [
        ("+0 lisen(3, 1) = 0".to_owned(), 3, "no call 'lisen'; near it: listen"),
        ("+0 listen(3, \"a\") = 0".to_owned(), 3, "argument 2 of listen must be a number"),
        (
            format!("+0 {asked}, {{tcpi_rtt=..., tcpi_cwnd=10}}, ...) = 0"),
            3,
            "'tcpi_cwnd'; near it: tcpi_snd_cwnd",
        ),
        ("+0 `sysctl -q net.ipv4.tcp_sak=1`".to_owned(), 3, "'net.ipv4.tcp_sak'; near it: tcp_sack"),
        ("+0 `./gone.sh`".to_owned(), 3, "gone.sh: No such file"),
        ("+0 %{ mine = 1\nassert tcpi_unackd == 0 }%".to_owned(), 4, "'tcpi_unackd'; near it: tcpi_unacked"),
        (
            "+0 %{ import this\nassert tcpi_unackd == 0 }%".to_owned(),
            4,
            "'tcpi_unackd'; near it: tcpi_unacked",
        ),
    ] {
        let wrong = failure(&format!("{socket}\n{text}\n"));
        assert!(wrong.line == line && wrong.what.contains(what), "{wrong}");
    }
    // What only a run can tell is not told.
    let right = "+0 listen(7, 1) = 5\n+0 > S 7:7(0)\n+0 %{ tcpi_mine = 1 }%\n+0 %{ assert tcpi_mine == 2, 'tcpi_x' }%";
    lowwater_drill::drill("x.pkt", &format!("{socket}\n{right}\n")).expect("nothing runs");
}

#[test]
fn what_cannot_be_read_is_told_in_its_own_line() {
    let socket = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3";
    for (text, line, what) in [
        (format!("\u{feff}{socket}\n"), 1, "a byte order mark (U+FEFF)"),
        (format!("{socket};\n"), 1, "and not with ';'"),
        (format!("`true`\n`true`\n{socket}\n"), 2, "a command without a time"),
        (format!("`sysctl -q net.ipv4.tcp_sack 0`\n{socket}\n"), 1, "'0' is no NAME=VALUE"),
        (format!("`sysctl -q net.ipv4.tcp_sack = 0`\n{socket}\n"), 1, "NAME=VALUE without blanks"),
        (format!("`sysctl -q net.ipv4.tcp_sak`\n{socket}\n"), 1, "no setting 'net.ipv4.tcp_sak'"),
    ] {
        let wrong = failure(&text);
        assert!(wrong.line == line && wrong.what.contains(what), "{wrong}");
    }
}

#[test]
fn what_is_echoed_counts_where_a_script_asks_for_it() {
    let open = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
        +0 < S 0:0(0) win 32792 <mss 1460,sackOK,TS val 700 ecr 0,nop,wscale 7>\n\
        +0 > S. 0:0(0) ack 1 <mss 1460,sackOK,TS val 100 ecr 701,nop,wscale 7>\n";
    let exact = failure(&format!("--tcp_ts_ecr_exact\n{open}"));
    assert!(exact.line == 6 && exact.what.contains("another TS ecr"), "{exact}");
    let passes = |text: &str| lowwater_drill::Invocation::new("echo.pkt", text).run().is_ok();
    assert!(passes(open), "packetdrill does not look at it");
    assert!(passes(&format!("--tcp_ts_ecr_exact\n{}", open.replace("701", "700"))));
}

#[test]
fn what_a_line_has_beyond_what_a_call_told_is_compared_too() {
    let epoll = |events: &str| {
        format!(
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 epoll_create(1) = 5\n\
             +0 epoll_ctl(5, EPOLL_CTL_ADD, 3, {{events=EPOLLIN|EPOLLOUT, fd=3}}) = 0\n\
             +0 epoll_wait(5, [{{events=EPOLLOUT|EPOLLHUP, fd=3}}{events}], 5, 0) = 1\n"
        )
    };
    for fine in ["", ", {events=0, u64=0}"] {
        lowwater_drill::drill("epoll.pkt", &epoll(fine)).expect(fine);
    }
    assert_eq!(failure(&epoll(", {events=EPOLLERR, fd=77}")).what, "epoll_wait tells another event");

    let named = |address: &str| {
        format!(
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
             +0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 1 <...>\n+.1 < . 1:1(0) ack 1 win 257\n\
             +0 accept(3, ..., ...) = 4\n+0 < P. 1:11(10) ack 1 win 257\n+0 > . 1:1(0) ack 11\n\
             +0 recvfrom(4, ..., 100, 0, {address}, ...) = 10\n"
        )
    };
    lowwater_drill::drill("named.pkt", &named("...")).expect("a connection tells no address");
    let wrong = named("{sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr(\"9.9.9.9\")}");
    assert_eq!(failure(&wrong).what, "recvfrom tells no address");
}
