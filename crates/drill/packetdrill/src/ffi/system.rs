//! The process around us: errno, the children that have ended, the end.
use super::User;
use crate::failure::guard;
use crate::shared::SHARED;
use core::ffi::c_int;
use core::mem::zeroed;
use std::io;
use std::sync::Once;

/// libc's errno as a number.
pub(super) type Number = c_int;

/// Returns a result as libc does. errno is set last: nothing that could change it runs between here and packetdrill.
pub(super) fn give<T: TryFrom<i64> + From<i8>>(work: impl FnOnce() -> Result<i64, Number>) -> T {
    let result = guard(work);
    match result {
        // What does not fit is no result of a call with this type.
        Ok(ret) => T::try_from(ret).unwrap_or_else(|_| T::from(-1)),
        Err(number) => {
            // SAFETY: the function gives the calling thread's own errno, which lives as long as the thread.
            unsafe { *libc::__errno_location() = number };
            T::from(-1)
        }
    }
}

/// The result of a call of libc for a descriptor that is not ours.
pub(super) fn forwarded(ret: i64) -> Result<i64, Number> {
    if ret >= 0 { Ok(ret) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)) }
}

/// A number that changes whenever a child process was waited for: its page faults and switches count among those of the children.
/// system(), which runs a script's commands, waits.
pub(super) fn ended_children() -> u64 {
    // SAFETY: the structure is of integers alone, for which zeros are values.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: the call fills the structure that it is given, of exactly this type.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let counts = [usage.ru_minflt, usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw];
    counts.iter().fold(0, |sum: u64, n| sum.wrapping_add_signed(*n))
}

/// Lets a run that fails tell what the stack did last: packetdrill then ends the process without [`free`].
pub(super) fn speak_at_exit() {
    extern "C" fn last_words() {
        guard(|| SHARED.last_words());
    }
    static ONCE: Once = Once::new();
    // A process that runs several scripts comes here with each.
    ONCE.call_once(|| {
        // SAFETY: the function takes and gives nothing, and stays loaded: packetdrill passes RTLD_NODELETE.
        unsafe { libc::atexit(last_words) };
    });
}

/// The end of a run. packetdrill does not call it after a failure.
pub(super) extern "C" fn free(_: User) {
    guard(|| SHARED.end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_command_that_has_run_is_noticed() {
        // Other tests of this process run commands too, but not all the time.
        assert!((0..1_000).any(|_| ended_children() == ended_children()), "nothing has run");
        let before = ended_children();
        assert!(Command::new("true").status().unwrap().success());
        assert_ne!(ended_children(), before);
    }

    #[test]
    fn errno_is_set_by_failures_alone() {
        assert_eq!(give::<i32>(|| Err(libc::EPIPE)), -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPIPE));
        assert_eq!(give::<i64>(|| Ok(7)), 7);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPIPE));
    }
}
