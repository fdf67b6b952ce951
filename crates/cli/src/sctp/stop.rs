//! Ctrl-C while `sctp-send` runs: the first ends in good order, the second, or a time after the first, at once.
use std::cell::Cell;
use std::time::Duration;
use tokio::sync::Notify;

/// How long the association may take to close after Ctrl-C.
const CLOSE: Duration = Duration::from_secs(5);

/// What was asked for.
#[derive(Default)]
pub(super) struct Stop {
    times: Cell<u32>,
    news: Notify,
}

impl Stop {
    /// Ctrl-C was pressed.
    pub(super) fn again(&self) {
        self.times.set(self.times.get().saturating_add(1));
        self.news.notify_waiters();
    }

    /// It was pressed at least once.
    pub(super) fn asked(&self) -> bool {
        self.times.get() > 0
    }

    /// Waits for the first.
    pub(super) async fn first(&self) {
        self.reached(1).await;
    }

    /// Waits for the second, or for the time that closing has after the first.
    pub(super) async fn hurry(&self) {
        self.first().await;
        let _ = tokio::time::timeout(CLOSE, self.reached(2)).await;
    }

    async fn reached(&self, times: u32) {
        loop {
            // Who is not waiting yet hears nothing: first the place in the queue, then the look.
            let news = self.news.notified();
            if self.times.get() >= times {
                return;
            }
            news.await;
        }
    }
}
