//! The messages of `sctp-send`: slices of one random block, so that sending copies nothing and each differs from its neighbours.
use super::digest::{Digest, Sum};
use crate::args::Messages;
use bytes::Bytes;
use indicatif::ProgressBar;
use lowwater::SctpAssociation;
use lowwater::sctp::{Reliability, SendInfo};
use lowwater_core::base::Rng;
use std::io;
use std::time::{Duration, Instant};

/// Messages where neither a count nor a time is given.
const COUNT: u64 = 1_000;
/// What is sent so shortly before the time is over may be the last.
const NEAR_END: Duration = Duration::from_millis(10);
/// Different beginnings of messages in the block.
const BEGINNINGS: usize = 4_099;

impl Messages {
    /// How many there are, if no time ends them.
    pub(super) fn count(&self) -> u64 {
        match self.duration {
            Some(_) => u64::MAX,
            None => self.count.unwrap_or(COUNT),
        }
    }
}

/// What is sent, and what was.
pub(super) struct Load {
    messages: Messages,
    block: Bytes,
    pub(super) sent: u64,
    pub(super) bytes: u64,
    pub(super) digest: Option<Sum>,
}

impl Load {
    /// `hashed`: what is sent is hashed.
    pub(super) fn new(messages: Messages, hashed: bool) -> Self {
        let mut rng = Rng::new(messages.size.into());
        let len = messages.size as usize + BEGINNINGS;
        let block = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        Self { messages, block, sent: 0, bytes: 0, digest: hashed.then(Sum::default) }
    }

    /// Sends until the count or the time is reached. Cancel-safe: what was sent was counted.
    pub(super) async fn send(&mut self, assoc: &SctpAssociation, bar: &ProgressBar) -> io::Result<()> {
        let end = self.messages.duration.and_then(|d| Instant::now().checked_add(d));
        loop {
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if self.sent >= self.messages.count() || left.is_zero() {
                return Ok(());
            }
            let (data, info) = self.next(left);
            let sending = assoc.send_bytes(data.clone(), info);
            match end {
                // A peer that takes nothing does not make it longer.
                Some(end) => match tokio::time::timeout_at(end.into(), sending).await {
                    Ok(sent) => sent?,
                    Err(_) => return Ok(()),
                },
                None => sending.await?,
            }
            self.count(&data, info);
            bar.inc(data.len() as u64);
        }
    }

    /// The next message, where so much time is left.
    fn next(&self, left: Duration) -> (Bytes, SendInfo) {
        let Messages { streams, ppid, unordered, lifetime, .. } = self.messages;
        let from = (self.sent % BEGINNINGS as u64) as usize;
        let data = self.block.slice(from..from + self.messages.size as usize);
        let lives = |ms: u32| Reliability::Lifetime(Duration::from_millis(ms.into()));
        let reliability = lifetime.map_or(Reliability::Full, lives);
        let stream = (self.sent % u64::from(streams)) as u16;
        // Nothing follows that would end the wait of a delayed SACK, which would be all that the end tells of the path (RFC 7053
        // section 4.1).
        let immediate = self.sent + 1 == self.messages.count() || left < NEAR_END;
        (data, SendInfo { stream, ppid, unordered, immediate, reliability, ..SendInfo::default() })
    }

    fn count(&mut self, data: &Bytes, info: SendInfo) {
        if let Some(sum) = &mut self.digest {
            let place = self.sent / u64::from(self.messages.streams);
            let mut digest = Digest::new(info.stream, (!info.unordered).then_some(place));
            digest.update(data);
            sum.add(digest);
        }
        self.sent += 1;
        self.bytes += data.len() as u64;
    }
}
