//! Frames in and out of one queue: one system call each, without a copy for super-packets.
use super::Tun;
use super::vnet::{self, VNET_HDR_LEN};
use crate::clock::Clock;
use bytes::Bytes;
use lowwater_core::base::Instant;
use lowwater_core::device::{Device, Direction, Submit};
use lowwater_core::packet::{Offload, Packet};
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read, retry_on_intr, writev};
use std::io::{self, IoSlice};

/// One read.
enum Read {
    Frame(Packet),
    Malformed,
    Empty,
}

impl Tun {
    /// The next frame, as having arrived `at`; `None` when none waits. Frames with a virtio-net header that contradicts
    /// them are counted and passed over.
    ///
    /// # Errors
    /// When the device is gone (EBADFD) or down (EIO).
    pub fn recv(&mut self, at: Instant) -> io::Result<Option<Packet>> {
        loop {
            match self.read_frame(at)? {
                Read::Frame(packet) => return Ok(Some(packet)),
                Read::Malformed => {}
                Read::Empty => return Ok(None),
            }
        }
    }

    /// Appends up to `max` frames to `into`, each with the time at which it was read; returns how many reads met a
    /// frame. Fewer than `max` means that the device is empty.
    ///
    /// # Errors
    /// As [`Tun::recv`]; frames read before are in `into`.
    pub fn recv_batch(&mut self, clock: &Clock, max: usize, into: &mut Vec<Packet>) -> io::Result<usize> {
        for n in 0..max {
            match self.read_frame(clock.now())? {
                Read::Frame(packet) => into.push(packet),
                Read::Malformed => {}
                Read::Empty => return Ok(n),
            }
        }
        Ok(max)
    }

    fn read_frame(&mut self, at: Instant) -> io::Result<Read> {
        self.buffer.clear();
        match retry_on_intr(|| read(&self.fd, spare_capacity(&mut self.buffer))) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(Read::Empty),
            Err(e) => return Err(e.into()),
        }
        let Some(offload) = self.offload_of_frame() else {
            self.counters.malformed += 1;
            return Ok(Read::Malformed);
        };
        let packet = Packet::received(self.take_frame(), offload, at);
        self.counters.frames_in += 1;
        self.counters.bytes_in += packet.len() as u64;
        if let Some(observer) = &mut self.observer {
            observer(Direction::In, &packet);
        }
        Ok(Read::Frame(packet))
    }

    /// The offload state of the frame in the buffer; `None` when the header is wrong.
    fn offload_of_frame(&self) -> Option<Offload> {
        let link_len = self.layer.link_len();
        if !self.vnet {
            return (self.buffer.len() > link_len).then(Offload::default);
        }
        let (header, frame) = self.buffer.split_first_chunk::<VNET_HDR_LEN>()?;
        vnet::decode(header, frame, link_len).ok()
    }

    /// The frame in the buffer as bytes that pin at most twice their size: a frame that fills less than half of the
    /// buffer is copied, which takes under a microsecond, and the buffer, warm in the cache, serves the next read.
    fn take_frame(&mut self) -> Bytes {
        let skip = if self.vnet { VNET_HDR_LEN } else { 0 };
        let frame = &self.buffer[skip..];
        if frame.len() * 2 < self.buffer.capacity() {
            self.counters.copied += 1;
            return Bytes::copy_from_slice(frame);
        }
        let full = core::mem::replace(&mut self.buffer, self.pool.take());
        self.pool.freeze(full, skip)
    }
}

impl Device for Tun {
    /// The kernel runs its receive path within the call and keeps nothing of ours, hence never [`Submit::Sent`].
    /// After [`Submit::NotNow`] the descriptor becomes writable when there is room; only where the kernel was short of
    /// memory (ENOBUFS) it is so at once, and a driver does well to wait a moment.
    fn submit(&mut self, _: Instant, packet: Packet) -> Submit {
        let header = if self.vnet { vnet::encode(&packet, self.layer.link_len()) } else { [0; _] };
        let header = &header[..if self.vnet { VNET_HDR_LEN } else { 0 }];
        let parts =
            [IoSlice::new(header), IoSlice::new(packet.head.as_slice()), IoSlice::new(&packet.payload)];
        match retry_on_intr(|| writev(&self.fd, &parts)) {
            Ok(_) => {
                self.counters.frames_out += 1;
                self.counters.bytes_out += packet.len() as u64;
                if let Some(observer) = &mut self.observer {
                    observer(Direction::Out, &packet);
                }
                Submit::Completed
            }
            Err(Errno::AGAIN | Errno::NOBUFS) => {
                self.counters.not_now += 1;
                Submit::NotNow(packet)
            }
            Err(_) => {
                self.counters.dropped += 1;
                Submit::Dropped
            }
        }
    }
}
