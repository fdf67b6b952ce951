//! When the calling thread gets a processor.
use crate::sys;
use std::io;

/// The calling thread goes before all threads of the usual policy from now on, for good: whenever it wants a processor it has one at once
/// (SCHED_FIFO). For threads that must be on time and sleep nearly always; one that does not sleep leaves the others a twentieth of its
/// processor. Threads and programs that it starts are not meant.
///
/// # Errors
/// EPERM without CAP_SYS_NICE, or where a control group has no such time.
pub fn go_first() -> io::Result<()> {
    Ok(sys::first_in_first_out()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;
    use std::thread;

    /// The policy of the calling thread: field 41 of its line (proc_pid_stat(5)).
    fn policy() -> u32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, behind_name) = stat.rsplit_once(')').unwrap();
        behind_name.split_whitespace().nth(41 - 3).unwrap().parse().unwrap()
    }

    #[test]
    fn the_calling_thread_alone_goes_first() {
        let policies =
            thread::spawn(|| go_first().map(|()| (policy(), thread::spawn(policy).join().unwrap())));
        match policies.join().unwrap() {
            Ok(policies) => assert_eq!(policies, (libc::SCHED_FIFO as u32, libc::SCHED_OTHER as u32)),
            Err(e) => {
                assert_eq!(e.kind(), io::ErrorKind::PermissionDenied, "{e}");
                assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"), "{e}");
                // Heard though the test passes, as what `println!` says is not.
                writeln!(io::stdout(), "skipped: needs CAP_SYS_NICE").unwrap();
            }
        }
        assert_eq!(policy(), libc::SCHED_OTHER as u32);
    }
}
