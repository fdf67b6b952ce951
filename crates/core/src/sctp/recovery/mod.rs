//! What was lost and goes again: by time (T3-rtx), by SACKs (fast retransmission).
pub(crate) mod fast;
pub(crate) mod t3;
