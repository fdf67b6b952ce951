//! What the parser understands, and where it says it does not.
use super::*;
use crate::options::TcpOption;
use crate::script::{BodySpec, IcmpSpec, Marks, PacketSpec, Quoted, TosSpec, Value};
use lowwater_wire::tcp::TcpFlags;

/// Without anything on the command line.
fn read(text: &str) -> Result<Script, Box<Failure>> {
    super::script(text, Overrides::default())
}

/// The one packet of a script.
fn packet(flags: &str, line: &str) -> PacketSpec {
    let script = read(&format!("{flags}\n{line}")).expect(line);
    match script.events.into_iter().next().map(|e| e.action) {
        Some(Action::Inbound(p) | Action::Outbound(p)) => p,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_script_with_everything_is_read() {
    let text = "--ip_version=ipv4\n--define=N=5\n`sysctl -q net.ipv4.tcp_sack=1; sysctl -q net.ipv4.tcp_dsack=0\nsysctl x=1`\n// first\n\
        0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3 /* a\n comment */\n\
        +.1~+.2 > [ect0] SEW. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK>\n\
        0.4 < P. 1:1001(1000) ack 1 win 0x100 <sack 1:2 4:5,nop,nop>\n\
        0.5...1 read(4, ..., 1000) = -1 EAGAIN (Resource temporarily unavailable)\n\
        +0 poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 0) = 1\n+0 %{ assert tcpi_snd_cwnd == 10; assert N }%\n\
        `sysctl y=2`";
    let script = read(text).expect("all of it");
    assert_eq!(script.config.defines.get("N").map(String::as_str), Some("5"));
    let lines: Vec<usize> = script.events.iter().map(|e| e.line).collect();
    assert_eq!(lines, [3, 6, 8, 9, 10, 11, 12, 13]);
    let Action::Command(commands) = &script.events[0].action else { panic!("{:?}", script.events[0]) };
    assert_eq!(commands.iter().map(|command| command.line).collect::<Vec<_>>(), [3, 3, 4]);
    assert_eq!(script.events[2].when, When::Relative(100_000, 200_000));
    let Action::Inbound(p) = &script.events[3].action else { panic!("{:?}", script.events[3]) };
    let BodySpec::Tcp(p) = &p.body else { panic!("{p:?}") };
    let sack = TcpOption::Sack(vec![(1, 2), (4, 5)]);
    assert_eq!(p.options, Some(vec![sack, TcpOption::Nop, TcpOption::Nop]));
    let Action::Call(call) = &script.events[4].action else { panic!("{:?}", script.events[4]) };
    assert_eq!((call.end, call.result, call.errno.as_deref()), (Some(1_000_000), Some(-1), Some("EAGAIN")));
    assert_eq!(script.events[4].when, When::Absolute(500_000, 500_000));
    let Action::Call(call) = &script.events[5].action else { panic!("{:?}", script.events[5]) };
    let Value::List(polled) = &call.args[0] else { panic!("{call:?}") };
    assert_eq!(polled[0].field("events"), Some(&Value::Int(5)));
}

#[test]
fn a_comment_may_stand_wherever_a_blank_may() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
        +0 epoll_wait(5, {events=EPOLLOUT, u32=4}, 1, 0) = 1\n\
        +0 recvmsg(4, {msg_name (...) = ..., msg_iov (1) = [{..., 100}], msg_flags = 0}, 0) = 0 (a note)\n\
        +.1 < [ect0, flowlabel 0x1] P. 1:2(1) ack 1 win 257 urg 1 <nop,nop,sack 1:2 4:5,mss 9,wscale 7,eol>\n\
        +0 < icmp unreachable frag_needed mtu 1000 [1:1461(1460)]\n\
        +0 > icmp unreachable port_unreachable [udp (100)]\n\
        +0~+.1 > udp (5)\n";
    let plain = read(text).expect("without comments");
    for comment in ["/* of */", " // of\n"] {
        // Words that stand together are one.
        let commented =
            text.replace(' ', &format!(" {comment} ")).replace("=4", &format!("{comment}={comment}4"));
        let commented = read(&commented).expect(comment);
        let actions =
            |s: &Script| s.events.iter().map(|e| format!("{:?} {:?}", e.when, e.action)).collect::<Vec<_>>();
        assert_eq!(actions(&commented), actions(&plain), "{comment}");
    }
}

#[test]
fn a_command_may_hold_its_mark_behind_a_backslash() {
    let script = read("0 `echo '\\`' > /dev/null`\n+0 close(3) = 0").expect("both");
    assert_eq!(script.events.len(), 2);
    assert!(read("0 `echo \\`").expect_err("no end").what.contains("no '`' ends"));
}

#[test]
fn what_a_line_says_of_the_ip_header_and_of_the_ends_is_read() {
    let p = packet("", "+0 > [tos 0x28, ttl 64] 8080 > 5 . 1:1(0) ack 1");
    assert_eq!((p.ip.tos, p.ip.ttl, p.ip.flow_label), (Some(TosSpec::Tos(0x28)), Some(64), None));
    let ends = p.ends.expect("ports");
    assert_eq!((ends.src, ends.dst, ends.named), ((None, 8080), (None, 5), false));
    let ends = packet("", "+0 > :8080 > :5: . 1:1(0) ack 1").ends.expect("ends");
    assert_eq!((ends.src, ends.dst, ends.named), ((None, 8080), (None, 5), true));
    let p = packet("", "+0 < (ect1) 1.1.1.1:5 > 2.2.2.2:6: . 1:1(0) ack 1 win 5");
    assert_eq!(p.ip.tos, Some(TosSpec::Ecn(1)));
    assert_eq!(p.ends.map(|e| e.src), Some((Some([1, 1, 1, 1].into()), 5)));
    let v6 = "--ip_version=ipv6";
    let p = packet(v6, "+0 > [flowlabel 0xf] [fd00::1]:5 > [fd00::2]:6: . 1:1(0) ack 1");
    assert_eq!((p.ip.flow_label, p.ends.map(|e| e.dst.1)), (Some(15), Some(6)));
    let p = packet(v6, "+0 < [fd00::1]:5 > [fd00::2]:6: udp (9)");
    assert!(matches!(p.body, BodySpec::Udp(9)) && p.ends.is_some());
}

#[test]
fn messages_and_datagrams_are_read() {
    let icmp = |flags: &str, line: &str| match packet(flags, line).body {
        BodySpec::Icmp(icmp) => icmp,
        other => panic!("{line}: {other:?}"),
    };
    let tcp = |seq, len| Quoted::Tcp { seq, len };
    let base = IcmpSpec { kind: 3, code: 4, mtu: Some(1_000), id: None, quoted: tcp(1, 1_460) };
    assert_eq!(icmp("", "+0 < icmp unreachable frag_needed mtu 1000 [1:1461(1460)]"), base);
    let plain = IcmpSpec { code: 1, mtu: None, quoted: tcp(0, 0), ..base };
    assert_eq!(icmp("", "+0 < icmp unreachable host_unreachable\n+0 close(3) = 0"), plain);
    assert_eq!(icmp("", "+0 < icmp type_3 code_1"), plain);
    let big = IcmpSpec { kind: 2, code: 0, mtu: Some(1_280), ..base };
    assert_eq!(icmp("--ip_version=ipv6", "+0 < icmp packet_too_big mtu 1280 [1:1461(1460)]"), big);
    let echo = IcmpSpec { kind: 8, code: 0, mtu: None, id: Some(7), quoted: Quoted::Raw(64) };
    assert_eq!(icmp("", "+0 < icmp echo_request id 7 [raw (64)]"), echo);
    let plain = IcmpSpec { id: None, quoted: Quoted::Raw(36), ..echo };
    assert_eq!(icmp("", "+0 < icmp echo_request"), plain);
    let reply = IcmpSpec { kind: 0, quoted: Quoted::Any, ..plain };
    assert_eq!(icmp("", "+0 > icmp echo_reply"), reply);
    let udp = IcmpSpec { kind: 3, code: 3, mtu: None, id: None, quoted: Quoted::Udp(100) };
    assert_eq!(icmp("", "+0 > icmp unreachable port_unreachable [udp (100)]"), udp);
    let p = packet("", "+0 > udp 5 > 6 (1000)");
    assert!(matches!(p.body, BodySpec::Udp(1_000)) && p.ends.map(|e| e.src.1) == Some(5));
}

#[test]
fn segments_with_rare_parts_are_read() {
    let tcp = |flags: &str, line: &str| match packet(flags, line).body {
        BodySpec::Tcp(tcp) => tcp,
        other => panic!("{line}: {other:?}"),
    };
    let p = tcp("--define=COOKIE=a1b2", "+0 > S 0:10(10) <FO COOKIE,FO,nop,nop>");
    let fo = |data: &[u8]| TcpOption::Other(34, data.to_vec());
    assert_eq!(p.options, Some(vec![fo(&[0xa1, 0xb2]), fo(&[]), TcpOption::Nop, TcpOption::Nop]));
    let p = tcp("", "+0 < S 0:0(0) win 1 <FOEXP 0102,opt 30 0a,eol,nop,nop>");
    let exp = TcpOption::Other(254, vec![0xf9, 0x89, 1, 2]);
    assert_eq!(p.options.expect("options")[..2], [exp, TcpOption::Other(30, vec![0x0a])]);
    let p = tcp(
        "",
        "+0 < S 0:0(0) win 1 <ECN e0b 1 ceb 2 e1b 0x30000,nop,AccECN,nop,nop,ACCECN e1b 1,nop,nop,nop>",
    );
    let options = p.options.expect("options");
    let ecn = |kind, data: &[u8]| TcpOption::Other(kind, data.to_vec());
    assert_eq!(options[0], ecn(172, &[0, 0, 1, 0, 0, 2, 3, 0, 0]));
    assert_eq!((&options[2], &options[5]), (&ecn(174, &[]), &ecn(174, &[0, 0, 1])));
    let shown: Vec<_> = [0, 2, 5].iter().map(|at: &usize| options[*at].to_string()).collect();
    assert_eq!(shown, ["ECN e0b 1 ceb 2 e1b 196608", "ECN", "ECN e1b 1"]);
    let p = tcp("", "+0 < S 0:0(0) win 1 <AccECN0 EE0B 1 ECEB 2,AccECN1 EE1B 3 ECEB 4,nop,nop,nop,nop>");
    let shown: Vec<String> = p.options.iter().flatten().map(ToString::to_string).take(2).collect();
    assert_eq!(shown, ["ECN e0b 1 ceb 2", "ECN e1b 3 ceb 4"]);
    let p = tcp("", "+0 < S 0:0(0) win 1 <AccECNEXP e1b 1 ceb 2,nop,nop>");
    assert_eq!(p.options.expect("options")[0], ecn(254, &[0xac, 0xce, 0, 0, 1, 0, 0, 2]));
    let p = tcp("", "+0 < S 0:0(0) win 1 <exp-AccECN0 EE0B 1 ECEB 2,exp-AccECN1 EE1B 3,nop,nop,nop>");
    let options = p.options.expect("options");
    assert_eq!(options[0], ecn(254, &[0xac, 0xc0, 0, 0, 1, 0, 0, 2]));
    assert_eq!(options[1], ecn(254, &[0xac, 0xc1, 0, 0, 3]));
    let p = tcp("", "+0 < S 0:0(0) win 1 <exp-tarr,exp-tarr 5,exp-FO 0011,nop>");
    let options = p.options.expect("options");
    assert_eq!((&options[0], &options[1]), (&ecn(254, &[0, 0xac]), &ecn(254, &[0, 0xac, 10])));
    assert_eq!(options[2], ecn(254, &[0xf9, 0x89, 0x00, 0x11]));
    let p = tcp("--define=SYNACK=S.", "+0 < SYNACK 0:0(0) ack 1 win 1");
    assert_eq!(p.flags, TcpFlags::SYN | TcpFlags::ACK);
    for (line, why) in [
        ("+0 < E.5 1:1(0) ack 1 win 1", "not both"),
        ("+0 < .55 1:1(0) ack 1 win 1", "not both"),
        ("+0 < .8 1:1(0) ack 1 win 1", "'8' in '.8'"),
        ("+0 < S 0:0(0) win 1 <mp_capable nokey>", "MPTCP"),
        ("+0 < ipv4 192.0.2.1 > 192.0.2.2: gre: . 1:1(0) ack 1 win 1", "packets within packets"),
        ("+0 setsockopt(3, SOL_IP, IP_TOS, {(label 5, tc 0, [S], ttl 64)}, 4) = 0", "MPLS"),
        ("+0 setsockopt(3, SOL_IP, IP_TOS, {flags [none], sum 0, off 0, key 0, seq 0}, 16) = 0", "GRE"),
        ("+0 < icmp unreachable [udp (65500)]", "do not fit"),
    ] {
        let e = read(line).expect_err(line);
        assert!(e.what.contains(why), "{line}: {}", e.what);
    }
    let p = tcp("", "+0 < FP.5 1:1(0) ack 1 win 1 urg 9");
    let accecn = TcpFlags::FIN | TcpFlags::PSH | TcpFlags::ACK | TcpFlags::AE | TcpFlags::ECE;
    assert_eq!((p.flags, p.urgent), (accecn, 9));
    let p =
        packet("", "+0 > . 1:14481(14480) ack 1 {segs 10, gso 1448, departs +.003, queued 28960, packets 2}");
    let marks = Marks {
        segs: Some(10),
        gso: Some(1_448),
        departs: Some(3_000),
        queued: Some(28_960),
        packets: Some(2),
    };
    assert_eq!(p.marks, marks);
}

#[test]
fn what_belongs_to_an_event_may_stand_on_the_next_lines() {
    let text = "--define=ERROR=EAGAIN\n--define=EXIT=`sysctl a=1`\n--define=CODE=frag_needed\n--mtu = 1400\n\
        +0 < . 1:1(0) win 9\n  <nop,nop,\n sack 5:6>\n+0 read(3, ...,\n 9) = -1\n ERROR\n (a\n note)\n+0 < icmp unreachable\n CODE mtu\n 1000\n [5:6(1)]\n\
        +0 close(3) = -1 EDQUOT\n+0 f(\"\\f\\v\") = 0\nEXIT";
    let script = read(text).expect("all of it");
    assert_eq!((script.events.len(), script.config.mtu), (6, 1_400));
    let Action::Inbound(PacketSpec { body: BodySpec::Tcp(p), .. }) = &script.events[0].action else {
        panic!("{script:?}")
    };
    assert_eq!((p.ack, p.options.as_ref().map(Vec::len)), (0, Some(3)));
    let Action::Call(read) = &script.events[1].action else { panic!("{script:?}") };
    assert_eq!(read.errno.as_deref(), Some("EAGAIN"));
    let Action::Inbound(PacketSpec { body: BodySpec::Icmp(icmp), .. }) = &script.events[2].action else {
        panic!("{script:?}")
    };
    assert_eq!((icmp.code, icmp.mtu, icmp.quoted), (4, Some(1_000), Quoted::Tcp { seq: 5, len: 1 }));
    let Action::Call(f) = &script.events[4].action else { panic!("{script:?}") };
    assert_eq!(f.args, [Value::Text(vec![0x0c, 0x0b])]);
    assert!(matches!(&script.events[5].action, Action::Command(c) if c[0].text() == "sysctl a=1"));
}

#[test]
fn values_of_all_kinds_are_read() {
    let text = "--define=TEXT=\"a b\"\n--define=LEVEL=SOL_TCP\n--define=DO=`sysctl a=1`\n\
        +0 f(TEXT, LEVEL, \"\\x41\" \"\\n\"..., {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr(\"1.2.3.4\")}) = -1 EFAULT (Bad address)\n\
        +0 g({msg_name(...)=..., msg_iov(1)=[{..., 10}], msg_flags=MSG_TRUNC, msg_control=[{cmsg_level=SOL_TCP, cmsg_type=TCP_CM_INQ, cmsg_data=9}]}) = 0x2 (flags O_RDWR)\n\
        +0 DO";
    let script = read(text).expect("all of it");
    let Action::Call(f) = &script.events[0].action else { panic!("{script:?}") };
    assert_eq!(f.args[..3], [Value::Text(b"a b".to_vec()), Value::Int(6), Value::Text(b"A\n".to_vec())]);
    assert_eq!(f.args[3].field("sin_port"), Some(&Value::Int(80)));
    assert_eq!(f.args[3].field("sin_addr"), Some(&Value::Addr([1, 2, 3, 4].into())));
    let Action::Call(g) = &script.events[1].action else { panic!("{script:?}") };
    let control = g.args[0].field("msg_control").and_then(Value::items).expect("a list");
    assert_eq!(control[0].field("cmsg_type"), Some(&Value::Int(36)));
    assert_eq!((g.result, g.args[0].field("msg_name")), (Some(2), Some(&Value::Any)));
    assert!(matches!(&script.events[2].action, Action::Command(c) if c[0].text() == "sysctl a=1"));
    assert!(read("+0 device complete 2\n+0 device busy").is_ok());
}

/// As atoll() has them, which stops at the ends of what it has.
#[test]
fn numbers_go_as_far_as_there_are_bits() {
    for (text, wanted) in [
        ("9223372036854775807", i64::MAX),
        ("99999999999999999999", i64::MAX),
        ("-9223372036854775807", -i64::MAX),
        ("-9223372036854775808", i64::MIN),
        ("-99999999999999999999", i64::MIN),
        ("0xffffffffffffffff", -1),
    ] {
        let mut cursor = Cursor::new(text, 1);
        assert_eq!(cursor.number::<i64>().ok(), Some(wanted), "{text}");
    }
}

#[test]
fn mistakes_name_their_line() {
    let deep = format!("0 f({}", "[".repeat(100_000));
    for (text, wanted) in [
        (deep.as_str(), "deeply"),
        ("0 < S 0:1(0) win 1", "fit together"),
        ("0 < S 0:0(0)", "win"),
        ("0 > X 0:0(0)", "flag"),
        ("0 > SA 0:0(0) ack 1", "ACK is written '.', so that a SYN-ACK is 'S.'"),
        ("0,300 write(4, ..., 1) = 1", "a decimal point is written '.'"),
        ("0 > S 0:0(0) <mss 1460,nop>", "pad"),
        ("0 > S 0:0(0) <teapot>", "teapot"),
        ("0 > S 0:0(0) <ECN e0b 16777216,nop,nop,nop>", "24 bits"),
        ("0 < S ...(0) win 1", "a number should stand here, not '...(0) win 1'"),
        ("0 > S 0:0(0)!", "its time"),
        ("0 > [dscp 64] S 0:0(0)", "six bits"),
        ("0 > [dscp AF44] S 0:0(0)", "no DSCP"),
        ("0 > [dscp 1, tos 4] S 0:0(0)", "twice"),
        ("0 > [ecn ect01, dscp EF] S 0:0(0)", "say which"),
        ("0 > [ecn ect2] S 0:0(0)", "no mark of ECN"),
        ("0 > S 0:0(0) <ECN ceb 1,nop,nop,nop>", "'>'"),
        ("0 > S 0:0(0) <md5 0>", "hexadecimal"),
        ("0 > S 0:0(0) <FO 123,nop>", "hexadecimal"),
        ("0 > S 0:0(0) <exp-teapot>", "no experiment"),
        ("0 > S 0:0(0) <exp-tarr 128>", "seven bits"),
        ("0 > S 0:0(0) <sack,nop,nop>", "needs blocks"),
        ("0 frob(SO_NONSENSE) = 0", "SO_NONSENSE"),
        ("0 close(3)", "'='"),
        ("0 close(\"x) = 0\n\n", "ends what begins"),
        ("0 < . 1:1(0) ack 1 win 70000", "70000 does not fit: there are 16 bits"),
        ("0~-1 > . 1:1(0) ack 1", "a time in seconds should stand here, not '-1 > "),
        ("0 close(3) =", "a value should stand here, where the script ends"),
        ("0 > S 0:0(0) <mss", "a number should stand here, where the script ends"),
        ("0 close\n", "'(' should stand at the end of this line"),
        ("0 close(3) = 0 /* for ever\n+0 frobnicate() = 7", "no '*/' ends"),
        ("0 close(3) = -1 EWHAT (x)", "no error"),
        ("0 close(3) = [1]", "a number"),
        ("0 close(\"x) = 0", "ends what begins"),
        ("0 close(\"\\q\") = 0", "no character"),
        ("0 `sysctl", "ends"),
        ("0 < . 0:70000(70000) ack 1 win 1", "fit an IP packet"),
        ("9 close(3) = 0", "at 0"),
        ("0x close(3) = 0", "should stand"),
        ("close(3) = 0", "begins with its time"),
        ("+.1 close(3) = 0", "at 0"),
        ("0 close(3) = 0 +1 close(4) = 0 2 close(5) = 0 1 close(6) = 0", "before the one above"),
        ("* close(3) = 0", "only a packet"),
        ("0~1 < . 1:1(0) ack 1 win 1", "only a packet"),
        ("0 > [nonsense] . 1:1(0) ack 1", "IP header"),
        ("0 > [ect0,ect1] . 1:1(0) ack 1", "twice"),
        ("0 > [flowlabel 0x100000] . 1:1(0) ack 1", "20 bits"),
        ("0 < [ect01] . 1:1(0) ack 1 win 1", "[ect01]"),
        ("0 > 1.1.1.1:5 > 6 . 1:1(0) ack 1", "neither"),
        ("0 > 5 . 1:1(0) ack 1", "'>'"),
        ("0 > [fd00::1]:5 > [fd00::2]:6: . 1:1(0) ack 1", "other kind"),
        ("0 > ipv4 1.1.1.1 > 2.2.2.2: . 1:1(0) ack 1", "within packets"),
        ("0 > udp (70000)", "does not fit: there are 16 bits"),
        ("0 > icmp packet_too_big mtu 5", "no type"),
        ("0 > icmp unreachable nowhere", "no code"),
        ("0 > icmp unreachable mtu 5", "carry an MTU"),
        ("0 > icmp echo_request [raw (5)]", "at least 8"),
        ("0 > . 1:1(0) ack 1 {gso}", "a number should stand here, not '}'"),
        ("0 > . 1:1(0) ack 1 {speed 5}", "no mark"),
        ("0 < . 1:1(0) ack 1 win 1 {gso 5}", "of the stack"),
        ("0 device explode", "device does"),
        ("0 g({msg_flags=}) = 0", "a value should stand"),
        ("0 g(1|...) = 0", "a value should stand"),
        ("`a` `b` 0 close(3) = 0", "first or the last"),
    ] {
        let e = read(&format!("\n\n{text}")).expect_err(text);
        assert!(e.line == 3 && e.what.contains(wanted), "{text}: {e:?}");
    }
}

#[test]
fn no_text_makes_the_parser_panic() {
    let good = "+0 > S. 0:0(0) ack 1 <mss 1460,TS val 1 ecr 2> ... ~ {a=[\"é\",...]} (1|2) `x` %{ assert (1) }% /* */ //";
    let mut seed = 1_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let chars: Vec<char> = good.chars().collect();
            let from = (seed >> 33) as usize % chars.len();
            let len = (seed >> 50) as usize % 9;
            text.extend(chars.iter().skip(from).take(len));
        }
        let _ = read(&text);
    }
}
