//! Frames in and out of one queue: one system call each, without a copy for super-packets.
use super::Tun;
use super::work::{Arranged, Batch};
use crate::sys;
use crate::vnet::{self, VNET_HDR_LEN};
use bytes::Bytes;
use lowwater_core::base::Instant;
use lowwater_core::device::{Device, Direction, Submit};
use lowwater_core::packet::{Offload, Packet};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, retry_on_intr, write, writev};
use rustix::thread::sched_getcpu;
use std::io::{self, IoSlice};

/// Frames up to this length are written from one buffer: headers and a little payload.
const SHORT_FRAME: usize = 256;

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
    /// When the device is gone (EBADFD); one that is down has no frames.
    pub fn recv(&mut self, at: Instant) -> io::Result<Option<Packet>> {
        loop {
            match self.read_frame(at)? {
                Read::Frame(packet) => return Ok(Some(packet)),
                Read::Malformed => {}
                Read::Empty => return Ok(None),
            }
        }
    }

    /// Appends frames to `into`, as having arrived `at`, until `max` of them or more than `max_bytes` are there. True when more
    /// may wait. False means that the device was empty, or is likely to be: where single frames come and are answered, the
    /// read that would meet nothing is left out, and who sleeps until the descriptor is readable misses nothing.
    ///
    /// # Errors
    /// As [`Tun::recv`]; frames read before are in `into`.
    pub fn recv_batch(
        &mut self,
        at: Instant,
        max: usize,
        max_bytes: usize,
        into: &mut Vec<Packet>,
    ) -> io::Result<bool> {
        let (mut frames, mut bytes) = (0, 0);
        while frames < max && bytes <= max_bytes {
            match self.read_frame(at)? {
                Read::Frame(packet) => {
                    bytes += packet.len();
                    into.push(packet);
                }
                Read::Malformed => {}
                Read::Empty => {
                    self.pace.met_none(frames);
                    self.note_batch(Batch { at, full: false, bytes: bytes as u64 });
                    return Ok(false);
                }
            }
            frames += 1;
            if frames == 1 && self.pace.is_single() {
                return Ok(false);
            }
        }
        self.pace = Pace::default();
        self.note_batch(Batch { at, full: true, bytes: bytes as u64 });
        Ok(true)
    }

    pub(super) fn note_batch(&mut self, batch: Batch) {
        let Some(steering) = &mut self.arranged.steering else { return };
        if let Err(refused) = steering.on_batch(batch, sched_getcpu()) {
            // Not asked again. The device works all the same, and says why it is slower.
            self.arranged = Arranged { steering: None, degraded: Some(refused.to_string()) };
        }
    }

    fn read_frame(&mut self, at: Instant) -> io::Result<Read> {
        self.buffer.clear();
        match retry_on_intr(|| sys::read_into(&self.fd, &mut self.buffer)) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(Read::Empty),
            // A kind of super-packet that the header cannot describe; the kernel has dropped it.
            Err(Errno::INVAL) => {
                self.counters.malformed += 1;
                return Ok(Read::Malformed);
            }
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

    /// The frame in the buffer; a small one is copied, so that it does not pin the whole buffer.
    fn take_frame(&mut self) -> Bytes {
        let skip = if self.vnet { VNET_HDR_LEN } else { 0 };
        let (frame, copied) = self.pool.freeze(&mut self.buffer, skip);
        if copied {
            self.counters.copied += 1;
            self.counters.copied_bytes += frame.len() as u64;
        }
        frame
    }
}

/// Whether frames come one by one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Batches in a row that may end after one frame without looking for a second.
    single: u8,
}

impl Pace {
    /// After that many single frames the device is asked again whether there is a second.
    const UNASKED: u8 = 15;

    /// A read met none after so many frames of one batch. A look that met none at all says nothing new.
    const fn met_none(&mut self, frames: usize) {
        self.single = match frames {
            0 => self.single,
            1 => Self::UNASKED,
            _ => 0,
        };
    }

    const fn is_single(&mut self) -> bool {
        let single = self.single > 0;
        self.single = self.single.saturating_sub(1);
        single
    }
}

/// Writes the parts as one frame. A short one is put together first: the kernel takes one piece in less time than three.
fn write_frame(fd: &OwnedFd, parts: [&[u8]; 3]) -> Result<usize, Errno> {
    let len = parts.iter().map(|part| part.len()).sum();
    let mut whole = [0; SHORT_FRAME];
    let Some(frame) = whole.get_mut(..len) else {
        let parts = parts.map(IoSlice::new);
        return retry_on_intr(|| writev(fd, &parts));
    };
    let mut rest = &mut *frame;
    for part in parts {
        let (front, behind) = rest.split_at_mut(part.len());
        front.copy_from_slice(part);
        rest = behind;
    }
    retry_on_intr(|| write(fd, frame))
}

impl Device for Tun {
    /// The kernel runs its receive path within the call and keeps nothing of ours, hence never [`Submit::Sent`].
    /// After [`Submit::NotNow`] the descriptor becomes writable when there is room; only where the kernel was short of
    /// memory (ENOBUFS) it is so at once, and a driver does well to wait a moment.
    fn submit(&mut self, _: Instant, packet: Packet) -> Submit {
        let header = if self.vnet { vnet::encode(&packet, self.layer.link_len()) } else { [0; _] };
        let header = &header[..if self.vnet { VNET_HDR_LEN } else { 0 }];
        match write_frame(&self.fd, [header, packet.head.as_slice(), &packet.payload]) {
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
