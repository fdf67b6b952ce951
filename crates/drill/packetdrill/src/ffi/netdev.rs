//! The device and the clock.
use super::User;
use super::memory;
use super::system::give;
use crate::shared::SHARED;
use core::ffi::{c_int, c_longlong, c_uint, c_void};
use libc::{size_t, timeval};

/// Microseconds in a second.
const SECOND: u64 = 1_000_000;

/// A whole IP packet of the peer. What the stack does not like it drops and counts, as from any device.
pub(super) unsafe extern "C" fn send(_: User, packet: *const c_void, len: size_t) -> c_int {
    give(|| {
        // SAFETY: packetdrill passes a packet of this length.
        let packet = unsafe { memory::bytes(packet, len) }.ok_or(libc::EFAULT)?;
        SHARED.inject(packet);
        Ok(0)
    })
}

/// The next packet that leaves the stack, with the time at which it left; a length of 0 when there will never be one.
pub(super) unsafe extern "C" fn receive(
    _: User,
    buf: *mut c_void,
    len: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    give(|| {
        // SAFETY: packetdrill passes the room in `buf`.
        let room = unsafe { memory::value(len.cast_const()) }?;
        let Some(sniffed) = SHARED.next_packet() else {
            // SAFETY: as above.
            unsafe { memory::put(len, 0) }?;
            return Ok(0);
        };
        let fits = &sniffed.bytes[..sniffed.bytes.len().min(room)];
        // SAFETY: no more than there is room.
        unsafe { memory::fill(buf, fits) }?;
        // SAFETY: packetdrill passes a pointer to a length ...
        unsafe { memory::put(len, fits.len()) }?;
        // SAFETY: ... and one to a time.
        unsafe { memory::put(time_us, sniffed.at_us.cast_signed()) }?;
        Ok(0)
    })
}

pub(super) extern "C" fn usleep(_: User, us: c_uint) -> c_int {
    give(|| {
        SHARED.sleep(us.into());
        Ok(0)
    })
}

pub(super) unsafe extern "C" fn gettimeofday(_: User, at: *mut timeval, _zone: *mut c_void) -> c_int {
    give(|| {
        let now = SHARED.clock();
        let now = timeval { tv_sec: (now / SECOND).cast_signed(), tv_usec: (now % SECOND).cast_signed() };
        // SAFETY: gettimeofday(2) demands room for a time.
        unsafe { memory::put(at, now) }?;
        Ok(0)
    })
}
