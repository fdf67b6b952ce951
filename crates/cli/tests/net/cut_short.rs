//! `drill --kernel` that is asked to end in the middle of a script.
use crate::served::can_run;
use crate::support::{Dir, Proc, lowwater};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

/// Less than the script takes that is cut short.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_long_script_against_the_kernel_is_cut_short_and_those_before_it_are_counted() {
    if !can_run(&[]) {
        return;
    }
    for (signals, hint) in [(&[Signal::TERM][..], false), (&[Signal::INT, Signal::INT], true)] {
        let dir = Dir::new();
        let script = |name: &str, text: &str| {
            std::fs::write(dir.join(name), text).expect("writable");
            dir.join(name).display().to_string()
        };
        let short = script("short.pkt", "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n");
        let long = script("long.pkt", "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+60 close(3) = 0\n");
        let mut drill = Proc::piped(&mut lowwater(["drill", "--kernel", &short, &long]));
        let mut lines = BufReader::new(drill.stdout());
        lines.read_line(&mut String::new()).expect("the first has ended");
        drill.gather_rest(lines);
        for (n, signal) in signals.iter().enumerate() {
            std::thread::sleep(Duration::from_millis(if n == 0 { 300 } else { 1_500 }));
            drill.signal(*signal);
        }
        let ended = drill.wait(LIMIT);
        assert_eq!(ended.code(), Some(130), "{ended:?}");
        let told = format!("stopped: 1 of 2 scripts, 0 failed; {long} was cut short");
        assert!(ended.stderr.contains(&told), "{ended:?}");
        assert_eq!(ended.stderr.contains("Ctrl-C again ends it at once"), hint, "{ended:?}");
    }
}
