//! Frames from the interface: one system call each, without a copy for super-packets.
use super::{PacketDevice, datagrams};
use crate::pool::Pool;
use crate::sys;
use crate::vnet::{self, VNET_HDR_SHORT};
use bytes::BytesMut;
use lowwater_core::base::Instant;
use lowwater_core::packet::{Offload, Packet};
use lowwater_wire::vnet_hdr::VnetHdr;
use rustix::io::{Errno, retry_on_intr};
use std::io;

/// Largest read: virtio-net header, Ethernet header, the largest IP packet, rounded up.
const READ_BYTES: usize = 65_536 + 64;
/// Length of an Ethernet header.
pub(super) const ETHERNET_HEADER: usize = 14;

/// Buffers for reads.
#[derive(Debug)]
pub(super) struct Reader {
    pool: Pool,
    buffer: BytesMut,
}

impl Reader {
    pub(super) fn new() -> Self {
        let mut pool = Pool::new(READ_BYTES);
        let buffer = pool.take();
        Self { pool, buffer }
    }

    /// The offload state of the frame in the buffer; `None` when its header is wrong or there is no frame.
    fn offload(&self) -> Option<Offload> {
        let (header, frame) = self.buffer.split_at_checked(VNET_HDR_SHORT)?;
        // Frames that are not IP have no version to agree with: they carry no super-packet.
        vnet::decode(header, frame, ETHERNET_HEADER).ok()
    }
}

impl PacketDevice {
    /// Appends frames to `into`, as having arrived `at`, until `max` of them or more than `max_bytes` are there; one with several datagrams of UDP
    /// is appended as these, and counts once. True when more may wait.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when the interface was deleted, or has left the network namespace; else what the kernel says of the socket.
    /// Frames read before are in `into`. An interface that is down has no frames, and may come back.
    pub fn recv_batch(
        &mut self,
        at: Instant,
        max: usize,
        max_bytes: usize,
        into: &mut Vec<Packet>,
    ) -> io::Result<bool> {
        self.now = at;
        if !self.input.may_wait() {
            return self.at_rest(false);
        }
        let (mut frames, mut bytes) = (0, 0);
        while frames < max && bytes <= max_bytes {
            frames += 1;
            let reader = &mut self.reader;
            reader.buffer.clear();
            match retry_on_intr(|| sys::read_into(&self.input.socket, &mut reader.buffer)) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return self.at_rest(frames > 1),
                // The interface went down: it may come back, unless that was the first step of its deletion. What it had received is behind that.
                Err(Errno::NETDOWN) => {
                    self.input.went_down();
                    continue;
                }
                // A kind of super-packet that the header cannot describe; the kernel has dropped it.
                Err(Errno::INVAL) => {
                    self.counters.malformed += 1;
                    continue;
                }
                Err(e) => return Err(e.into()),
            }
            if let Some(header) = reader.buffer.get_mut(..VNET_HDR_SHORT) {
                vnet::turn(header, vnet::Order::HERE);
            }
            let Some(offload) = reader.offload() else {
                bytes += self.take_datagrams(at, into);
                continue;
            };
            let (frame, _) = reader.pool.freeze(&mut reader.buffer, VNET_HDR_SHORT);
            let packet = Packet::received(frame, offload, at);
            bytes += packet.len();
            self.counters.frames_in += 1;
            self.counters.bytes_in += packet.len() as u64;
            into.push(packet);
        }
        Ok(true)
    }

    /// Appends the datagrams of a frame that has several of them, or counts it as malformed; their bytes.
    fn take_datagrams(&mut self, at: Instant, into: &mut Vec<Packet>) -> usize {
        let before = into.len();
        if let Some((header, frame)) = self.reader.buffer.split_at_checked(VNET_HDR_SHORT)
            && let Some(datagrams) = VnetHdr::parse(header).ok().and_then(|h| datagrams::cut(&h, frame))
        {
            into.extend(datagrams.map(|(bytes, offload)| Packet::received(bytes, offload, at)));
        }
        let bytes = into[before..].iter().map(Packet::len).sum();
        self.counters.frames_in += (into.len() - before) as u64;
        self.counters.bytes_in += bytes as u64;
        self.counters.malformed += u64::from(into.len() == before);
        bytes
    }

    /// Nothing waits any more.
    fn at_rest(&mut self, came: bool) -> io::Result<bool> {
        if self.input.is_gone(came) {
            let why =
                format!("the interface {} is gone: deleted, or in another network namespace", self.name);
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(false)
    }
}
