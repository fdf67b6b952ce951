//! Reading into memory that was never written, which `BytesMut` offers and no safe call takes over.
use bytes::BytesMut;
use rustix::fd::AsFd;
use rustix::io::{self, read};

/// Reads once into the room behind what is in `buffer`; the bytes read belong to it then. How many there were.
pub(crate) fn read_into(fd: impl AsFd, buffer: &mut BytesMut) -> io::Result<usize> {
    let before = buffer.len();
    let read = read(fd, buffer.spare_capacity_mut())?.0.len();
    // SAFETY: the call has filled that many bytes at the front of the spare capacity, so `before + read` is within the
    // capacity and initialised.
    unsafe { buffer.set_len(before + read) };
    Ok(read)
}
