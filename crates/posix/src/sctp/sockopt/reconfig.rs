//! What is asked of the peer about streams (RFC 6525 section 6.3; `sctp_send_reset_streams` and its kin).
use super::arg::Arg;
use crate::call::Fd;
use crate::errno::Errno;
use crate::host::Host;
use lowwater_core::base::Error;

/// `srs_flags`.
const SCTP_STREAM_RESET_INCOMING: i32 = 1;
const SCTP_STREAM_RESET_OUTGOING: i32 = 2;

/// What Linux answers where there is nothing to be asked yet.
fn errno(error: Error) -> Errno {
    if error == Error::NotConnected { Errno::EINVAL } else { error.into() }
}

impl Host {
    /// SCTP_RESET_STREAMS.
    pub(super) fn reset_streams(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let arg = Arg::new("sctp_reset_streams", bytes)?;
        let (count, flags) = (arg.n("srs_number_streams") as usize, arg.n("srs_flags") as i32);
        let list = bytes.get(8..8 + 2 * count).ok_or(Errno::EINVAL)?;
        let streams: Vec<u16> = list.chunks_exact(2).map(|s| u16::from_le_bytes([s[0], s[1]])).collect();
        let id = self.sctp_named(fd, arg.n("srs_assoc_id"))?;
        let which = (flags & SCTP_STREAM_RESET_OUTGOING != 0, flags & SCTP_STREAM_RESET_INCOMING != 0);
        self.stack.sctp_reset_streams(self.now, id, &streams, which).map_err(errno)
    }

    /// SCTP_RESET_ASSOC.
    pub(super) fn reset_assoc(&mut self, fd: Fd, assoc: u32) -> Result<(), Errno> {
        let id = self.sctp_named(fd, assoc)?;
        self.stack.sctp_reset_association(self.now, id).map_err(errno)
    }

    /// SCTP_ADD_STREAMS.
    pub(super) fn add_streams(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let id = self.sctp_named(fd, arg.n("sas_assoc_id"))?;
        let (outgoing, incoming) = (arg.n("sas_outstrms") as u16, arg.n("sas_instrms") as u16);
        self.stack.sctp_add_streams(self.now, id, outgoing, incoming).map_err(errno)
    }
}
