//! What packetdrill calls in libc although the descriptor is ours: getsockopt() of its snippets, close() of sockets that a script leaves
//! open, sendfile(); and system(), whose commands shall see our counters. Our own versions take their place in the main program, and pass on
//! what is not ours.
use super::calls::foreign;
use super::files;
use super::got;
use super::memory;
use super::sockets;
use super::system::{Number, forwarded, give};
use crate::failure::guard;
use crate::shared::SHARED;
use core::ffi::{CStr, c_char, c_int, c_void};
use libc::{off_t, size_t, socklen_t, ssize_t};
use std::ffi::CString;

/// Redirects the main program's calls; returns the names that it has and that could not be redirected.
pub(super) fn install() -> Vec<&'static str> {
    let close = close as extern "C" fn(c_int) -> c_int as *const c_void;
    let getsockopt = getsockopt
        as unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int
        as *const c_void;
    let sendfile =
        sendfile as unsafe extern "C" fn(c_int, c_int, *mut off_t, size_t) -> ssize_t as *const c_void;
    let system = system as unsafe extern "C" fn(*const c_char) -> c_int as *const c_void;
    let table: [(&'static CStr, *const c_void); 5] = [
        (c"close", close),
        (c"getsockopt", getsockopt),
        (c"sendfile", sendfile),
        (c"sendfile64", sendfile),
        (c"system", system),
    ];
    // SAFETY: each function has the type of libc's function of that name, and does what that does for all descriptors but ours.
    let failed = unsafe { got::redirect(&table) };
    failed.into_iter().filter_map(|name| name.to_str().ok()).collect()
}

extern "C" fn close(fd: c_int) -> c_int {
    give(|| files::close_of(fd))
}

unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    give(|| {
        if foreign(fd) {
            // SAFETY: getsockopt(2)'s demands are the caller's to keep.
            return forwarded(unsafe { libc::getsockopt(fd, level, name, value, len) }.into());
        }
        // SAFETY: the same.
        unsafe { sockets::getsockopt_of(fd, level, name, value, len) }
    })
}

unsafe extern "C" fn sendfile(out: c_int, file: c_int, offset: *mut off_t, len: size_t) -> ssize_t {
    give(|| {
        if foreign(out) {
            // SAFETY: sendfile(2)'s demands are the caller's to keep.
            return forwarded(unsafe { libc::sendfile(out, file, offset, len) } as i64);
        }
        // SAFETY: sendfile(2) demands NULL or an offset.
        unsafe { sendfile_of(out, file, offset, len) }
    })
}

/// A command of the script: `nstat` finds the stack's counters.
///
/// # Safety
/// As system(3) demands.
unsafe extern "C" fn system(command: *const c_char) -> c_int {
    // SAFETY: system(3) demands NULL, which asks whether there is a shell, or a string.
    let told = (!command.is_null()).then(|| unsafe { CStr::from_ptr(command) });
    let longer = told.and_then(|told| {
        let exports = guard(|| SHARED.before_command())?;
        CString::new([exports.as_slice(), told.to_bytes()].concat()).ok()
    });
    let run = longer.as_ref().map_or(command, |longer| longer.as_ptr());
    // SAFETY: the caller's own string, or one that lives until the call is over.
    unsafe { libc::system(run) }
}

/// # Safety
/// As sendfile(2) demands.
unsafe fn sendfile_of(out: c_int, file: c_int, offset: *mut off_t, len: size_t) -> Result<i64, Number> {
    if !foreign(file) {
        // Linux reads from regular files and block devices here.
        return Err(libc::EINVAL);
    }
    if offset.is_null() {
        return files::move_in(file, None, out, len);
    }
    // SAFETY: the caller's promise.
    let from = unsafe { memory::value(offset.cast_const()) }?;
    let sent = files::move_in(file, Some(from), out, len)?;
    // SAFETY: the caller's promise.
    unsafe { memory::put(offset, from.saturating_add(sent)) }?;
    Ok(sent)
}
