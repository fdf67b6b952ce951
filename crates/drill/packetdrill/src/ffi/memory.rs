//! Memory of the caller: copied in and out, with EFAULT for pointers into the first page, as a script's NULL is.
use super::system::Number;
use bytes::Bytes;
use core::ffi::c_void;
use core::ptr::copy_nonoverlapping;
use core::slice;
use lowwater_posix::{Piece, Room};

/// No object of C lies below.
const FIRST_PAGE: usize = 4_096;
/// What one call moves at most, as Linux's MAX_RW_COUNT.
pub(super) const RW_MAX: usize = 0x7fff_f000;

/// The pointer cannot be one to an object.
pub(super) fn is_bad<T>(at: *const T) -> bool {
    at.addr() < FIRST_PAGE
}

/// A pointer to a value, or EFAULT.
///
/// # Safety
/// A pointer beyond the first page points to a value of `T` (aligned or not), as the manual page of the call demands.
pub(super) unsafe fn value<T: Copy>(at: *const T) -> Result<T, Number> {
    if is_bad(at) {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller's promise; the read asks for no alignment (epoll_event is packed on x86-64).
    Ok(unsafe { at.read_unaligned() })
}

/// Writes a value, or EFAULT.
///
/// # Safety
/// A pointer beyond the first page points to room for a `T` (aligned or not).
pub(super) unsafe fn put<T: Copy>(at: *mut T, value: T) -> Result<(), Number> {
    if is_bad(at) {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller's promise; the write asks for no alignment.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// Copies `len` bytes of the caller's; `None` when they cannot be read.
///
/// # Safety
/// A pointer beyond the first page points to `len` bytes.
pub(super) unsafe fn bytes(at: *const c_void, len: usize) -> Option<Bytes> {
    if len == 0 {
        return Some(Bytes::new());
    }
    if is_bad(at) || isize::try_from(len).is_err() {
        return None;
    }
    // SAFETY: the caller's promise, and the length fits an isize; the slice ends before we return.
    Some(Bytes::copy_from_slice(unsafe { slice::from_raw_parts(at.cast(), len) }))
}

/// Copies an array of the caller's; EFAULT when it cannot be read.
///
/// # Safety
/// A pointer beyond the first page points to `len` values of `T` (aligned or not).
pub(super) unsafe fn array<T: Copy>(at: *const T, len: usize) -> Result<Vec<T>, Number> {
    // SAFETY: the caller's promise covers each element.
    (0..len).map(|i| unsafe { value(at.wrapping_add(i)) }).collect()
}

/// Copies `data` to the caller; EFAULT when nobody can write there.
///
/// # Safety
/// A pointer beyond the first page points to room for as many bytes.
pub(super) unsafe fn fill(at: *mut c_void, data: &[u8]) -> Result<(), Number> {
    if data.is_empty() {
        return Ok(());
    }
    if is_bad(at) {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller's promise; `data` is memory of ours, which theirs does not overlap.
    unsafe { copy_nonoverlapping(data.as_ptr(), at.cast(), data.len()) };
    Ok(())
}

/// One buffer to read into.
pub(super) fn room(at: *const c_void, len: usize) -> Room {
    let nowhere = is_bad(at) || isize::try_from(len).is_err();
    let len = len.min(RW_MAX);
    if nowhere { Room::bad(len) } else { Room::new(len) }
}

/// One buffer to write from.
///
/// # Safety
/// As for [`bytes`].
pub(super) unsafe fn piece(at: *const c_void, len: usize) -> Piece {
    if isize::try_from(len).is_err() {
        return Piece::Bad(RW_MAX);
    }
    let len = len.min(RW_MAX);
    // SAFETY: the caller's promise.
    unsafe { bytes(at, len) }.map_or(Piece::Bad(len), Piece::Data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::{null, null_mut};

    #[test]
    fn null_is_a_fault_and_nothing_is_not() {
        let somewhere = 0_u8;
        // SAFETY: every pointer is NULL.
        unsafe {
            assert_eq!(value::<i32>(null()), Err(libc::EFAULT));
            assert_eq!(put::<i32>(null_mut(), 1), Err(libc::EFAULT));
            assert_eq!(fill(null_mut(), b"x"), Err(libc::EFAULT));
            assert_eq!(fill(null_mut(), b""), Ok(()));
            assert_eq!(bytes(null(), 0), Some(Bytes::new()));
            assert_eq!(piece(null(), 7), Piece::Bad(7));
        }
        assert_eq!(room(null(), 7), Room::bad(7));
        assert_eq!(
            room((&raw const somewhere).cast(), usize::MAX),
            Room::bad(RW_MAX),
            "no object is so long"
        );
    }

    #[test]
    fn values_of_any_alignment_go_in_and_out() {
        let mut memory = [0_u8; 16];
        let odd = memory.as_mut_ptr().wrapping_add(3).cast::<u64>();
        // SAFETY: eight bytes from the third on lie within the array.
        unsafe {
            put(odd, 0x0102_0304_0506_0708).unwrap();
            assert_eq!(value(odd.cast_const()), Ok(0x0102_0304_0506_0708));
            fill(memory.as_mut_ptr().cast(), b"abc").unwrap();
            assert_eq!(bytes(memory.as_ptr().cast(), 3), Some(Bytes::from_static(b"abc")));
        }
    }
}
