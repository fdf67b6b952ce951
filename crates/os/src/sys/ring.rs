//! The transmit ring of a packet socket (packet(7), TPACKET_V2): memory that this process and the kernel share.
use core::mem::size_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::fd::BorrowedFd;
use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of `struct tpacket2_hdr`, behind which a slot's frame begins: TPACKET2_HDRLEN without the address, for sending.
const HEADER: usize = 32;
/// Offsets of `tp_status` and `tp_len` in it.
const STATUS: usize = 0;
const LEN: usize = 4;

/// The kernel may have the slot: TP_STATUS_SEND_REQUEST.
const SEND_REQUEST: u32 = 1;

/// How large a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingSize {
    /// Slots.
    pub(crate) slots: usize,
    /// Bytes of each; a power of two of at least a page, so that a slot is a block of the kernel's.
    pub(crate) slot_bytes: usize,
}

impl RingSize {
    /// `struct tpacket_req`, for PACKET_TX_RING.
    pub(crate) fn request(self) -> [u8; 16] {
        let mut request = [0; 16];
        let fields = [self.slot_bytes, self.slots, self.slot_bytes, self.slots];
        for (at, field) in request.chunks_exact_mut(4).zip(fields) {
            at.copy_from_slice(&(field as u32).to_ne_bytes());
        }
        request
    }

    /// Bytes of a frame, virtio-net header included, that fit a slot.
    pub(crate) const fn frame_bytes(self) -> usize {
        self.slot_bytes - HEADER
    }
}

/// Who has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// This process.
    Ours,
    /// The kernel: its frame has not left.
    Kernels,
}

/// A ring as this process sees it.
#[derive(Debug)]
pub(crate) struct TxRing {
    base: NonNull<u8>,
    size: RingSize,
}

// SAFETY: the mapping belongs to the process and to this value alone; what the kernel writes are statuses, which are
// read and written as atomics.
unsafe impl Send for TxRing {}

impl TxRing {
    /// Maps the ring of `fd`, whose PACKET_VERSION is TPACKET_V2 and whose PACKET_TX_RING was set to
    /// [`RingSize::request`].
    pub(crate) fn map(fd: BorrowedFd<'_>, size: RingSize) -> io::Result<Self> {
        let (len, access) = (size.slots * size.slot_bytes, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours. The kernel refuses a
        // length that is not that of the ring.
        let base = unsafe { mmap(core::ptr::null_mut(), len, access, MapFlags::SHARED, fd, 0)? };
        NonNull::new(base.cast()).map(|base| Self { base, size }).ok_or(io::Errno::NOMEM)
    }

    /// Number of slots.
    pub(crate) const fn slots(&self) -> usize {
        self.size.slots
    }

    /// Bytes that fit a slot, virtio-net header included.
    pub(crate) const fn frame_bytes(&self) -> usize {
        self.size.frame_bytes()
    }

    /// Who has `slot`.
    ///
    /// # Panics
    /// When there is no such slot.
    pub(crate) fn state(&self, slot: usize) -> SlotState {
        match self.word(slot, STATUS).load(Ordering::Acquire) {
            0 => SlotState::Ours,
            // Flags of time stamps may stand beside "ours" in high bits; SEND_REQUEST and SENDING are the low ones.
            status if status & 3 == 0 => SlotState::Ours,
            _ => SlotState::Kernels,
        }
    }

    /// The kernel may have `slot` and has not begun with it.
    ///
    /// # Panics
    /// When there is no such slot.
    pub(crate) fn is_offered(&self, slot: usize) -> bool {
        self.word(slot, STATUS).load(Ordering::Relaxed) & SEND_REQUEST != 0
    }

    /// Fills `slot`, which must be ours, with the `parts` of a frame and gives it to the kernel. False, and nothing
    /// happens, when they do not fit or the slot is the kernel's.
    ///
    /// # Panics
    /// When there is no such slot.
    pub(crate) fn fill(&mut self, slot: usize, parts: [&[u8]; 3]) -> bool {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if len > self.frame_bytes() || self.state(slot) == SlotState::Kernels {
            return false;
        }
        // SAFETY: `word` has checked that the slot exists, so that its bytes behind the header are within the mapping; `len`
        // bytes fit. The kernel reads them only after the status below has told it to, and this value is borrowed alone.
        let room = unsafe {
            let frame = self.base.as_ptr().add(slot * self.size.slot_bytes + HEADER);
            core::slice::from_raw_parts_mut(frame, len)
        };
        let mut at = 0;
        for part in parts {
            room[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.word(slot, LEN).store(len as u32, Ordering::Relaxed);
        self.word(slot, STATUS).store(SEND_REQUEST, Ordering::Release);
        true
    }

    /// A field of a slot's header.
    fn word(&self, slot: usize, offset: usize) -> &AtomicU32 {
        assert!(slot < self.size.slots && offset + size_of::<u32>() <= HEADER, "a slot of the ring");
        // SAFETY: slot and offset are within the mapping, which lives as long as this value and is page-aligned, so that
        // the field is aligned; it is only ever accessed as an atomic, by the kernel too.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(slot * self.size.slot_bytes + offset).cast()) }
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and no reference into it is left. It can only fail for wrong arguments.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.size.slots * self.size.slot_bytes) };
    }
}
