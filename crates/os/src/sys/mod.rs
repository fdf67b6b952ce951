//! System calls without a safe wrapper, one argued `unsafe` block per call.
mod io;
mod ns;
mod ring;
mod sched;
pub mod socket;
#[cfg(feature = "tokio")]
mod tokio;
mod tun;

pub(crate) use io::read_into;
pub(crate) use ns::unshare_net;
pub(crate) use ring::{RingSize, SlotState, TxRing};
pub(crate) use sched::first_in_first_out;
#[cfg(feature = "tokio")]
pub(crate) use tokio::watch;
pub(crate) use tun::{
    TunFlags, attach, interface, set_little_endian, set_offload, set_sndbuf, set_vnet_hdr_len,
};
