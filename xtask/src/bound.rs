//! A bound of time for what may hang: the programs that it has started are killed, and it has failed.
use crate::command::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::process::exit;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long it may take to hear of the end of its programs.
const GRACE: Duration = Duration::from_secs(20);

/// Runs `work`, whose programs are killed when `most` is over.
///
/// Ends this program where `work` goes on without them: whoever holds the other end of its pipes has another parent by then.
pub(crate) fn within(most: Duration, work: impl FnOnce() -> Outcome) -> Outcome {
    let (done, over) = channel::<()>();
    let too_long = format!("longer than {} s", most.as_secs_f64());
    thread::scope(|s| {
        let watch = s.spawn(|| {
            let over = over;
            if has_ended(&over, most) {
                return true;
            }
            kill_below(std::process::id());
            if !has_ended(&over, GRACE) {
                eprintln!("xtask: {too_long}, and it does not end without its programs either");
                exit(1);
            }
            false
        });
        let outcome = work();
        drop(done);
        match watch.join() {
            Ok(false) => Err(format!("{too_long}: its programs were killed")),
            _ => outcome,
        }
    })
}

fn has_ended(over: &Receiver<()>, time: Duration) -> bool {
    over.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
}

/// Kills all programs that this one has started, and those that they have started, parents first. They need not be of one process group: this
/// one's is that of the terminal, and some tests make others.
fn kill_below(root: u32) {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in processes() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut all = vec![root];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        all.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    for pid in all.into_iter().skip(1).filter_map(|pid| Pid::from_raw(pid.try_into().ok()?)) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The fourth word of `/proc/PID/stat`; the second is a name in parentheses with anything in it.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{program, run, run_watched};

    #[test]
    fn what_hangs_is_killed_with_what_it_has_started() {
        let short = Duration::from_millis(300);
        let sh = |text: &str| program("sh", &["-c", text]);
        let hangs = "sleep 9999 & setsid sleep 9999 & echo $! $$; sleep 9999";
        let mut said = Vec::new();
        let watched = within(short, || run_watched(&mut sh(hangs), &mut |line| said.push(line.to_owned())));
        assert_eq!(watched, Err("longer than 0.3 s: its programs were killed".to_owned()));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(within(short, || run(&mut sh("sleep 9999 & wait"))).is_err());
        assert_eq!(within(GRACE, || run(&mut sh("exit 0"))), Ok(()));
        assert_eq!(within(GRACE, || run(&mut sh("exit 3"))), Err("sh -c exit 3: exit status: 3".to_owned()));
    }
}
