//! Messages of SCTP from one stack to another in the same process: what the bench `sctp` and its counts of instructions run.
use crate::duo::Duo;
use crate::hash::Hash;
use bytes::Bytes;
use lowwater_core::base::{Instant, SocketId, Sysctl};
use lowwater_core::sctp::{SctpOptions, SendInfo};

/// SO_SNDBUF and SO_RCVBUF.
const BUFFER: u32 = 1 << 20;
/// Messages are cut from a pattern, each a little further: the same in all rows.
const PATTERN: usize = 4_096;
const STEP: u64 = 61;
/// Length of the longest message.
pub const MESSAGE_MAX: usize = 65_536;

/// The messages.
#[derive(Clone, Debug)]
pub struct Messages {
    pattern: Bytes,
    len: usize,
}

impl Messages {
    /// Messages of `len` bytes, [`MESSAGE_MAX`] at the most.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let pattern: Vec<u8> = (0..PATTERN + MESSAGE_MAX).map(|i| (i * 31 + (i >> 8)) as u8).collect();
        // As in the other rows it stays, and the writer counts no references to it.
        Self { pattern: Bytes::from_static(pattern.leak()), len: len.min(MESSAGE_MAX) }
    }

    /// Message `n`.
    #[must_use]
    pub fn get(&self, n: u64) -> Bytes {
        let at = (n * STEP) as usize % PATTERN;
        self.pattern.slice(at..at + self.len)
    }

    /// The hash over the first `bytes` bytes of all of them.
    #[must_use]
    pub fn hash(&self, bytes: u64) -> u64 {
        let mut hash = Hash::new();
        let mut left = bytes as usize;
        for n in 0.. {
            if left == 0 {
                break;
            }
            let part = left.min(self.len);
            hash.update(&self.get(n)[..part]);
            left -= part;
        }
        hash.value()
    }
}

/// An association that carries them.
#[derive(Debug)]
pub struct Carrier {
    /// The stacks.
    pub duo: Duo,
    /// The sending end.
    pub client: SocketId,
    server: SocketId,
    messages: Messages,
    sent: u64,
    /// Bytes of user data that came.
    pub received: u64,
    hash: Hash,
}

impl Carrier {
    /// Opens it. Both stacks have these settings.
    #[must_use]
    pub fn new(mtu: u16, message: usize, sysctl: &Sysctl) -> Self {
        let mut duo = Duo::new(mtu, sysctl);
        let defaults = SctpOptions::new(sysctl);
        let options = SctpOptions { sndbuf: BUFFER, rcvbuf: BUFFER, nodelay: true, ..defaults };
        let (client, server) = duo.associate(&options);
        Self {
            duo,
            client,
            server,
            messages: Messages::new(message),
            sent: 0,
            received: 0,
            hash: Hash::new(),
        }
    }

    /// Writes what fits, carries packets both ways, and reads and hashes what came, piece by piece as it lies in its packets.
    pub fn turn(&mut self, at: Instant) {
        while self.duo.stacks[0]
            .sctp_send(at, self.client, self.messages.get(self.sent), SendInfo::default())
            .is_ok()
        {
            self.sent += 1;
        }
        self.duo.turn(at);
        let (hash, received) = (&mut self.hash, &mut self.received);
        let read = self.duo.stacks[1].sctp_read(at, self.server, |data, _, _| {
            hash.update(data);
            *received += data.len() as u64;
        });
        debug_assert!(read.is_ok(), "the association is there");
    }

    /// What came is what was sent.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.received > 0 && self.hash.value() == self.messages.hash(self.received)
    }

    /// Packets of both hosts.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.duo.stacks.iter().map(|stack| stack.counters().sctp.out_sctp_packs).sum()
    }
}
