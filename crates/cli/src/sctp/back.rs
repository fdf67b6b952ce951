//! What comes from the peer while `sctp-send` sends.
use super::digest::{Digest, Sum};
use lowwater::SctpAssociation;
use lowwater::sctp::{Received, Subscriptions};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::sync::Notify;

/// How long nothing may come back, with everything acknowledged, before a word is said.
const SILENCE: Duration = Duration::from_secs(3);
/// How often acknowledgements are looked at, should their notification have found no room.
const LOOK: Duration = Duration::from_millis(100);

/// Counts, shared by who reads and who waits for an echo.
pub(super) struct Back {
    pub(super) messages: Cell<u64>,
    pub(super) bytes: Cell<u64>,
    pub(super) digest: RefCell<Option<Sum>>,
    ended: Cell<bool>,
    news: Notify,
}

impl Back {
    /// Nothing has come; `hashed`: what comes is hashed.
    pub(super) fn new(hashed: bool) -> Self {
        Self {
            messages: Cell::new(0),
            bytes: Cell::new(0),
            digest: RefCell::new(hashed.then(Sum::default)),
            ended: Cell::new(false),
            news: Notify::new(),
        }
    }

    /// Reads to the end of the association.
    pub(super) async fn receive(&self, assoc: &SctpAssociation) -> io::Result<()> {
        let mut numbers = BTreeMap::<u16, u64>::new();
        let mut begun: Option<Digest> = None;
        while let Some(received) = assoc.recv().await? {
            let (data, info, eor) = match received {
                Received::Data { data, info, eor } => (data, info, eor),
                Received::Notification(_) => {
                    self.news.notify_one();
                    continue;
                }
            };
            self.bytes.set(self.bytes.get() + data.len() as u64);
            if let Some(sum) = self.digest.borrow_mut().as_mut() {
                let number = numbers.entry(info.stream).or_default();
                let place = (!info.unordered).then_some(*number);
                let mut digest = begun.take().unwrap_or_else(|| Digest::new(info.stream, place));
                digest.update(&data);
                if eor {
                    sum.add(digest);
                    *number += 1;
                } else {
                    begun = Some(digest);
                }
            }
            self.messages.set(self.messages.get() + u64::from(eor));
            self.news.notify_one();
        }
        self.ended.set(true);
        self.news.notify_one();
        Ok(())
    }

    /// Waits until nothing is unsent or in flight, or the peer has closed.
    pub(super) async fn all_acknowledged(&self, assoc: &SctpAssociation) -> io::Result<()> {
        // SCTP_SENDER_DRY_EVENT comes at once where that is so already.
        assoc.set_options(|options| options.events = options.events.with(Subscriptions::SENDER_DRY))?;
        while !self.ended.get() && !super::acknowledged(&assoc.info()?) {
            let _ = tokio::time::timeout(LOOK, self.news.notified()).await;
        }
        Ok(())
    }

    /// Waits until `sent` messages have come, and says once when nothing comes for a while.
    pub(super) async fn wait_for(&self, sent: u64) -> io::Result<()> {
        let mut told = false;
        while self.messages.get() < sent {
            let came = self.messages.get();
            if self.ended.get() {
                return Err(io::Error::other(format!("the peer closed when {came} of {sent} had come back")));
            }
            let before = self.bytes.get();
            let quiet = tokio::time::timeout(SILENCE, self.news.notified()).await.is_err();
            if quiet && !told && self.bytes.get() == before {
                told = true;
                eprintln!("lowwater: {}", silence(came, sent));
            }
        }
        Ok(())
    }
}

/// What it looks like when everything was acknowledged and no more comes back.
fn silence(came: u64, sent: u64) -> String {
    match came {
        0 => "all acknowledged, nothing came back: is that the discard port? Ctrl-C ends it".to_owned(),
        came => format!("all acknowledged, {came} of {sent} came back and no more: Ctrl-C ends it"),
    }
}
