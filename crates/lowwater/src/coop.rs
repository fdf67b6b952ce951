//! A task that always finds something must let others run: tokio's budget, as its own sockets spend it.
use std::future::poll_fn;
use std::task::{Context, Poll};

/// What `poll` is ready with, within the task's budget. Not for what a thread may wait for: on one of the runtime's, nothing would wake it when
/// the budget is spent.
pub(crate) async fn polled<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
    poll_fn(|cx| {
        #[cfg(feature = "tokio")]
        let budget = std::task::ready!(tokio::task::coop::poll_proceed(cx));
        let polled = poll(cx);
        #[cfg(feature = "tokio")]
        if polled.is_ready() {
            budget.made_progress();
        }
        polled
    })
    .await
}
