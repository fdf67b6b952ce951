//! Options of the level SOL_SCTP (RFC 6458 section 8; `sctp_setsockopt`, `sctp_getsockopt`).
mod arg;
mod assoc;
mod manner;
mod path;
mod reconfig;
mod scope;
mod status;

use super::sizes::{may_get, may_set};
use crate::abi::*;
use crate::block::Progress;
use crate::call::{Fd, Optval, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::Kind;
use crate::host::Host;
use crate::sctp::Style;
use crate::sctp::layout::layout;
use crate::sctp::life::shared;
use arg::{Arg, int};
pub(super) use assoc::Init;
use bytes::Bytes;
use scope::Scope;

/// Most bytes of an option that are looked at.
pub(super) const VALUE_MAX: usize = 4_096;
/// Longest time in seconds that SCTP_AUTOCLOSE takes (`max_autoclose`, with a hundred ticks a second).
const AUTOCLOSE_MAX: u32 = i32::MAX as u32 / 100;

/// Options of an association that are one number, which `struct sctp_assoc_value` holds.
const VALUES: [i32; 7] = [
    SCTP_PR_SUPPORTED,
    SCTP_ECN_SUPPORTED,
    SCTP_RECONFIG_SUPPORTED,
    SCTP_ENABLE_STREAM_RESET,
    SCTP_MAXSEG,
    SCTP_MAX_BURST,
    SCTP_CONTEXT,
];

/// A number behind the identifier of an association, or alone for associations to come (struct sctp_assoc_value).
fn assoc_value(bytes: &[u8]) -> Result<(u32, i32), Errno> {
    match layout("sctp_assoc_value") {
        Some(of) if bytes.len() >= of.size => {
            Ok((of.number(bytes, "assoc_id") as u32, of.number(bytes, "assoc_value") as i32))
        }
        _ => Ok((SCTP_FUTURE_ASSOC as u32, int(bytes)?)),
    }
}

impl Host {
    /// Bytes that one message may have.
    pub(super) fn sctp_sndbuf(&self, fd: Fd) -> Result<usize, Errno> {
        Ok(self.sctp_options(fd)?.sndbuf as usize)
    }

    /// What SOL_SOCKET and SOL_IP have set reaches the associations too.
    pub(crate) fn sctp_share(&mut self, fd: Fd) -> Result<(), Errno> {
        let all = self.files.sock(fd)?.options.clone();
        let everywhere = self.sctp_everywhere(fd);
        self.sctp_change(fd, &everywhere, |options| shared(options, &all))
    }

    /// setsockopt(2).
    pub(super) fn set_sctp(&mut self, fd: Fd, name: i32, value: &Optval, p: &mut Progress) -> Answer {
        let bytes = match value {
            Optval::Bytes(bytes) => bytes.clone(),
            Optval::Bad(len) if *len < 0 => return Err(Errno::EINVAL),
            Optval::Bad(_) => return Err(Errno::EFAULT),
        };
        may_set(name, bytes.len())?;
        match name {
            SCTP_SOCKOPT_BINDX_ADD => self.sctp_bindx(fd, &bytes)?,
            SCTP_SOCKOPT_BINDX_REM => self.sctp_unbindx(fd, &bytes)?,
            SCTP_SOCKOPT_CONNECTX | SCTP_SOCKOPT_CONNECTX_OLD => {
                return self.sctp_connectx(fd, &bytes, name == SCTP_SOCKOPT_CONNECTX, p);
            }
            SCTP_RTOINFO => self.set_rto(fd, &Arg::new("sctp_rtoinfo", &bytes)?)?,
            SCTP_ASSOCINFO => self.set_assoc(fd, &Arg::new("sctp_assocparams", &bytes)?)?,
            SCTP_INITMSG => self.set_init(fd, &Arg::new("sctp_initmsg", &bytes)?)?,
            SCTP_PEER_ADDR_PARAMS => self.set_peer(fd, &bytes)?,
            SCTP_REMOTE_UDP_ENCAPS_PORT => self.set_encap(fd, &Arg::new("sctp_udpencaps", &bytes)?)?,
            SCTP_REUSE_PORT if self.sctp(fd)?.style.is_many() => return Err(Errno::EOPNOTSUPP),
            SCTP_REUSE_PORT if self.sctp_has_port(fd)? => return Err(Errno::EFAULT),
            SCTP_PEER_ADDR_THLDS | SCTP_PEER_ADDR_THLDS_V2 => {
                self.set_thresholds(fd, name, &Arg::new("sctp_paddrthlds", &bytes)?)?;
            }
            SCTP_PRIMARY_ADDR => self.set_primary(fd, &Arg::new("sctp_prim", &bytes)?)?,
            SCTP_EVENTS => self.set_events(fd, &bytes)?,
            SCTP_EVENT => self.set_event(fd, &Arg::new("sctp_event", &bytes)?)?,
            SCTP_CONGESTION => self.set_sctp_congestion(fd, &bytes)?,
            SCTP_DELAYED_SACK => self.set_sack(fd, &bytes)?,
            SCTP_DEFAULT_SEND_PARAM => self.set_send_param(fd, &Arg::new("sctp_sndrcvinfo", &bytes)?)?,
            SCTP_DEFAULT_SNDINFO => self.set_sndinfo(fd, &Arg::new("sctp_sndinfo", &bytes)?)?,
            SCTP_DEFAULT_PRINFO => self.set_prinfo(fd, &Arg::new("sctp_default_prinfo", &bytes)?)?,
            name if VALUES.contains(&name) => self.set_value(fd, name, &bytes)?,
            SCTP_RESET_STREAMS => self.reset_streams(fd, &bytes)?,
            SCTP_RESET_ASSOC => self.reset_assoc(fd, int(&bytes)? as u32)?,
            SCTP_ADD_STREAMS => self.add_streams(fd, &Arg::new("sctp_add_streams", &bytes)?)?,
            _ => self.set_number(fd, name, &bytes)?,
        }
        Ok(Some(Reply::ok(0)))
    }

    /// It was bound, by a call or because it was used.
    fn sctp_has_port(&self, fd: Fd) -> Result<bool, Errno> {
        Ok(self.files.sock(fd)?.kind != Kind::Fresh || !self.sctp(fd)?.bound.is_empty())
    }

    /// Options of the whole socket that are one number.
    fn set_number(&mut self, fd: Fd, name: i32, bytes: &[u8]) -> Result<(), Errno> {
        let everywhere = self.sctp_everywhere(fd);
        match name {
            SCTP_NODELAY => {
                let on = int(bytes)? != 0;
                self.sctp_change(fd, &everywhere, |o| o.nodelay = on)
            }
            SCTP_DISABLE_FRAGMENTS => {
                let on = int(bytes)? != 0;
                self.sctp_change(fd, &everywhere, |o| o.disable_fragments = on)
            }
            SCTP_AUTOCLOSE => self.set_autoclose(fd, bytes),
            SCTP_PARTIAL_DELIVERY_POINT => {
                let n = u32::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?;
                if n > self.sctp_options(fd)?.rcvbuf / 2 {
                    return Err(Errno::EINVAL);
                }
                self.sctp_change(fd, &everywhere, |o| o.pd_point = n)
            }
            SCTP_ADAPTATION_LAYER => {
                let n = int(bytes)? as u32;
                self.sctp_change(fd, &Scope::FUTURE, |o| o.adaptation = Some(n))
            }
            SCTP_RECVRCVINFO => {
                self.sctp_mut(fd)?.wants.rcvinfo = int(bytes)? != 0;
                Ok(())
            }
            SCTP_RECVNXTINFO => {
                self.sctp_mut(fd)?.wants.nxtinfo = int(bytes)? != 0;
                Ok(())
            }
            SCTP_FRAGMENT_INTERLEAVE => {
                self.sctp_mut(fd)?.inbox.interleave = int(bytes)? != 0;
                Ok(())
            }
            SCTP_I_WANT_MAPPED_V4_ADDR => {
                self.sctp_mut(fd)?.wants.mapped = int(bytes)? != 0;
                Ok(())
            }
            SCTP_REUSE_PORT => int(bytes).map(|_| ()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn set_autoclose(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        if self.sctp(fd)?.style == Style::One {
            return Err(Errno::EOPNOTSUPP);
        }
        if bytes.len() != 4 {
            return Err(Errno::EINVAL);
        }
        let seconds = (int(bytes)? as u32).min(AUTOCLOSE_MAX);
        self.sctp_change(fd, &Scope::FUTURE, |o| o.autoclose_secs = seconds)
    }

    /// getsockopt(2); `given` is what the caller has in its room, of the length that it asks for.
    pub(super) fn get_sctp(&mut self, fd: Fd, name: i32, given: &[u8]) -> Result<Reply, Errno> {
        may_get(name, given.len())?;
        if let SCTP_SOCKOPT_PEELOFF | SCTP_SOCKOPT_PEELOFF_FLAGS = name {
            return self.get_peeloff(fd, name, given);
        }
        let bytes = match name {
            SCTP_RTOINFO => self.get_rto(fd, Arg::new("sctp_rtoinfo", given)?)?,
            SCTP_ASSOCINFO => self.get_assoc(fd, Arg::new("sctp_assocparams", given)?)?,
            SCTP_REMOTE_UDP_ENCAPS_PORT => self.get_encap(fd, Arg::new("sctp_udpencaps", given)?)?,
            SCTP_PEER_ADDR_THLDS | SCTP_PEER_ADDR_THLDS_V2 => {
                self.get_thresholds(fd, Arg::new("sctp_paddrthlds", given)?)?
            }
            SCTP_PEER_ADDR_PARAMS => self.get_peer(fd, given)?,
            SCTP_PRIMARY_ADDR => self.get_primary(fd, Arg::new("sctp_prim", given)?)?,
            SCTP_EVENT => self.get_event(fd, Arg::new("sctp_event", given)?)?,
            SCTP_DELAYED_SACK => self.get_sack(fd, given)?,
            SCTP_DEFAULT_SEND_PARAM => self.get_send_param(fd, Arg::new("sctp_sndrcvinfo", given)?)?,
            SCTP_DEFAULT_SNDINFO => self.get_sndinfo(fd, Arg::new("sctp_sndinfo", given)?)?,
            SCTP_DEFAULT_PRINFO => self.get_prinfo(fd, Arg::new("sctp_default_prinfo", given)?)?,
            name if VALUES.contains(&name) => self.get_value(fd, name, given)?,
            SCTP_STATUS => self.get_status(fd, Arg::new("sctp_status", given)?)?,
            SCTP_GET_PEER_ADDR_INFO => self.get_peer_info(fd, &Arg::new("sctp_paddrinfo", given)?)?,
            SCTP_GET_PEER_ADDRS | SCTP_GET_LOCAL_ADDRS => self.get_addrs(fd, name, given)?,
            SCTP_GET_ASSOC_STATS => self.get_counts(fd, given)?,
            SCTP_PR_ASSOC_STATUS | SCTP_PR_STREAM_STATUS => {
                self.get_abandoned(fd, name, Arg::new("sctp_prstatus", given)?)?
            }
            SCTP_GET_ASSOC_NUMBER | SCTP_GET_ASSOC_ID_LIST => self.get_assocs(fd, name, given.len())?,
            // Who has no association is told so first.
            SCTP_PEER_AUTH_CHUNKS => {
                self.sctp_named(fd, 0)?;
                return Err(Errno::EACCES);
            }
            _ => self.get_number(fd, name, given.len())?,
        };
        let len = bytes.len().min(given.len());
        Ok(Reply { value: Bytes::from(bytes).slice(..len), ..Reply::ok(0) })
    }

    /// SCTP_SOCKOPT_PEELOFF and its form with flags: the new descriptor is the result, and stands in the structure.
    fn get_peeloff(&mut self, fd: Fd, name: i32, given: &[u8]) -> Result<Reply, Errno> {
        let flagged = Arg::padded("sctp_peeloff_flags_arg", given.get(..12).unwrap_or(given), 8)?;
        let whole = name == SCTP_SOCKOPT_PEELOFF_FLAGS;
        let flags = if whole { flagged.n("flags") as i32 } else { 0 };
        let new = self.sctp_peeloff(fd, flagged.n("associd"), flags)?;
        let mut value = flagged.put(&[("sd", new as u64)]).into_bytes();
        value.truncate(if whole { value.len() } else { 8 });
        Ok(Reply { value: value.into(), ..Reply::ok(new.into()) })
    }

    /// Options of the whole socket that are one number, or a structure without an identifier.
    fn get_number(&mut self, fd: Fd, name: i32, room: usize) -> Result<Vec<u8>, Errno> {
        let everywhere = self.sctp_everywhere(fd);
        let sctp = self.sctp(fd)?;
        let (many, wants, interleave) = (sctp.style.is_many(), sctp.wants, sctp.inbox.interleave);
        let alone = sctp.style == Style::One;
        let o = if many { self.sctp_options(fd)? } else { self.sctp_live(fd, &everywhere)? };
        let number = |n: u32| Ok(n.to_le_bytes().to_vec());
        let flag = |on: bool| number(on.into());
        match name {
            SCTP_INITMSG => Ok(self.get_init(&o)),
            SCTP_CONGESTION => Ok(Self::get_sctp_congestion(&o)),
            SCTP_NODELAY => flag(o.nodelay),
            SCTP_DISABLE_FRAGMENTS => flag(o.disable_fragments),
            SCTP_AUTOCLOSE if alone => Err(Errno::EOPNOTSUPP),
            SCTP_AUTOCLOSE if room < 4 => Err(Errno::EINVAL),
            SCTP_AUTOCLOSE => number(o.autoclose_secs),
            SCTP_PARTIAL_DELIVERY_POINT => number(o.pd_point),
            SCTP_ADAPTATION_LAYER => number(o.adaptation.unwrap_or_default()),
            SCTP_RECVRCVINFO => flag(wants.rcvinfo),
            SCTP_RECVNXTINFO => flag(wants.nxtinfo),
            SCTP_I_WANT_MAPPED_V4_ADDR => flag(wants.mapped),
            SCTP_FRAGMENT_INTERLEAVE => flag(interleave),
            SCTP_REUSE_PORT => flag(false),
            SCTP_EVENTS => self.get_events(fd),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}
