//! What the parser understands, and where it says it does not.
use super::*;
use crate::options::TcpOption;
use crate::script::Value;

#[test]
fn a_script_with_everything_is_read() {
    let text = "--ip_version=ipv4\n`sysctl -q net.ipv4.tcp_sack=1; sysctl -q net.ipv4.tcp_dsack=0\nsysctl x=1`\n// first\n\
        0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3 /* a\n comment */\n\
        +.1~+.2 > [ect0] SEW. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK>\n\
        * < P. 1:1001(1000) ack 1 win 0x100 <sack 1:2 4:5,nop,nop>\n\
        0.5...1 read(4, ..., 1000) = -1 EAGAIN (Resource temporarily unavailable)\n\
        +0 poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 0) = 1\n+0 %{ assert tcpi_snd_cwnd == 10; assert 1 }%";
    let script = script(text).expect("all of it");
    assert_eq!(script.flags, [(1, "ip_version".into(), "ipv4".into())]);
    let lines: Vec<usize> = script.events.iter().map(|e| e.line).collect();
    assert_eq!(lines, [2, 5, 7, 8, 9, 10, 11]);
    assert_eq!(script.events[2].when, When::Relative(100_000, 200_000));
    let Action::Inbound(p) = &script.events[3].action else { panic!("{:?}", script.events[3]) };
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
fn mistakes_name_their_line() {
    let deep = format!("0 f({}", "[".repeat(100_000));
    for (text, wanted) in [
        (deep.as_str(), "deeply"),
        ("0 < S 0:1(0) win 1", "fit together"),
        ("0 < S 0:0(0)", "win"),
        ("0 > . 0:0(0)", "ack"),
        ("0 > X 0:0(0)", "flag"),
        ("0 > S 0:0(0) <mss 1460,nop>", "pad"),
        ("0 > S 0:0(0) <teapot>", "teapot"),
        ("0 frob(SO_NONSENSE) = 0", "SO_NONSENSE"),
        ("0 close(3)", "'='"),
        ("0 > udp (5)", "yet"),
        ("0 `sysctl", "ends"),
        ("0 %{ print(1) }%", "assertions"),
        ("0 < . 0:70000(70000) ack 1 win 1", "fit an IP packet"),
        ("9x close(3) = 0", "close"),
    ] {
        let e = script(&format!("\n\n{text}")).expect_err(text);
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
        let _ = script(&text);
    }
}
