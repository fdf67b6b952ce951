//! `drill --kernel` that is asked to end in the middle of a script.
use crate::served::can_run;
use crate::support::{Dir, PATIENCE, Proc, eventually, lowwater};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader};

const HINT: &str = "Ctrl-C again ends it at once";

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
        // Longer than anybody waits for its end.
        let long = script("long.pkt", "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+600 close(3) = 0\n");
        let mut drill = Proc::piped(&mut lowwater(["drill", "--kernel", &short, &long]));
        let mut lines = BufReader::new(drill.stdout());
        lines.read_line(&mut String::new()).expect("the first has ended");
        drill.gather_rest(lines);
        // The device of the second: it runs.
        assert!(eventually(PATIENCE, || drill.has_open("/dev/net/tun")), "the second never begins");
        for (n, signal) in signals.iter().enumerate() {
            if n > 0 {
                drill.says(HINT);
            }
            drill.signal(*signal);
        }
        let ended = drill.wait(PATIENCE);
        assert_eq!(ended.code(), Some(130), "{ended:?}");
        let told = format!("stopped: 1 of 2 scripts, 0 failed; {long} was cut short");
        assert!(ended.stderr.contains(&told), "{ended:?}");
        assert_eq!(ended.stderr.contains(HINT), hint, "{ended:?}");
    }
}
