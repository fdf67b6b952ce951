//! Transcripts of two runs: what is alike, what is told as a difference.
use lowwater_drill::{Apart, Invocation, Transcript};

/// A connection that sends 2,000 bytes, which nobody acknowledges. `rto` in microseconds, `wrote` in bytes; `device` stands in front.
fn script(device: &str, rto: u32, wrote: u32) -> String {
    format!(
        "{device}
`sysctl -q net.ipv4.tcp_early_retrans=0 net.ipv4.tcp_rto_min_us={rto}`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
* > S. 0:0(0) ack 1 <...>
+.01 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+0 write(4, ..., {wrote}) = {wrote}
+0 > P. 1:{end}({wrote}) ack 1
* > . 1:1001(1000) ack 1
+.3 < R. 1:1(0) ack 1001 win 0
",
        end = wrote + 1
    )
}

fn run(text: &str) -> Transcript {
    Invocation::new("made.pkt", text).record().unwrap_or_else(|e| panic!("{e}")).1
}

fn differences(a: &str, b: &str) -> Vec<String> {
    let all = run(a).differences(&run(b), a);
    all.into_iter().filter(|line| !line.starts_with(' ')).collect()
}

#[test]
fn how_many_packets_carry_the_bytes_makes_no_difference() {
    let plain = script("--tolerance_usecs=4000", 200_000, 2_000);
    assert!(run(&plain).differences(&run(&plain), &plain).is_empty());
    let large = script("--gso=65535", 200_000, 2_000);
    assert_eq!(differences(&plain, &large), Vec::<String>::new());
}

#[test]
fn another_number_is_told_with_what_stands_around_it() {
    let (a, b) = (script("--speed=0", 200_000, 2_000), script("--speed=0", 200_000, 1_999));
    let all = run(&a).differences(&run(&b), &a);
    assert!(!run(&a).same_packets(&run(&b)));
    assert_eq!(run(&a).apart(&run(&b), &a), Apart { line: 10, what: vec!["packets"] });
    let at = all.iter().position(|line| line.starts_with('-')).expect("a difference");
    assert!(all[at - 1].ends_with("line 10: +0 write(4, ..., 2000) = 2000"), "{all:#?}");
    assert!(all[at].ends_with("P. 1:2001(2000) ack 1"), "{all:#?}");
    assert!(all[at + 1].starts_with('+') && all[at + 1].ends_with("P. 1:2000(1999) ack 1"), "{all:#?}");
}

#[test]
fn a_packet_at_another_time_is_a_difference_beyond_what_clocks_allow() {
    let of = |rto| script("--speed=0", rto, 2_000);
    assert_eq!(differences(&of(200_000), &of(220_000)), Vec::<String>::new(), "a tenth may be a late timer");
    let told = differences(&of(200_000), &of(300_000));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(run(&of(200_000)).same_packets(&run(&of(300_000))), "nothing else differs");
    // From the write; the packets were sent by a timer, the events before which are nanoseconds apart.
    assert!(told[0].starts_with("-   +0.210000 ") && told[1].starts_with("+   +0.310000 "), "{told:?}");
}

#[test]
fn what_a_call_answers_whose_line_leaves_that_open_is_compared() {
    let of = |keepidle: u32, result: &str| {
        format!(
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_TCP, TCP_KEEPIDLE, [{keepidle}], 4) = 0
+0 getsockopt(3, SOL_TCP, TCP_KEEPIDLE, ..., [4]) = {result}
+0 read(3, ..., {keepidle}) = ...
"
        )
    };
    assert_eq!(differences(&of(7, "..."), &of(7, "...")), Vec::<String>::new());
    assert_eq!(differences(&of(7, "..."), &of(8, "...")), ["- 0 value 7", "+ 0 value 8"]);
    assert_eq!(differences(&of(7, "0"), &of(8, "0")), Vec::<String>::new(), "the line says what it expects");
}

#[test]
fn what_is_too_long_to_be_compared_is_not_alike() {
    let long = |calls: usize| "0 close(9) = -1 EBADF (Bad file descriptor)\n".repeat(calls);
    let (fits, does_not) = (run(&long(9_999)), run(&long(10_001)));
    assert!(fits.differences(&fits, "").is_empty());
    let told = does_not.differences(&does_not, "");
    assert!(told.len() == 1 && told[0].starts_with("not compared: "), "{told:?}");
    assert!(!does_not.same_packets(&does_not) && !does_not.sends_alike(&does_not));
}
