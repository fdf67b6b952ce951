//! What an association and its paths are asked: their state, addresses, number.
use super::arg::{Arg, int};
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::host::Host;
use crate::sctp::Style;
use crate::sctp::layout::{layout, sockaddr_bytes};
use core::net::SocketAddr;
use lowwater_core::base::SocketId;
use lowwater_core::sctp::{PathInfo, PathState, State};

/// Milliseconds in the unit of `sas_maxrto`, a tick of Linux at 100 Hz.
const TICK_MS: u64 = 10;

impl Host {
    /// SCTP_STATUS.
    pub(super) fn get_status(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let id = self.sctp_named(fd, arg.n("sstat_assoc_id"))?;
        let info = self.stack.sctp_info(id)?;
        let state = match info.state {
            State::Closed => SCTP_CLOSED,
            State::CookieWait => SCTP_COOKIE_WAIT,
            State::CookieEchoed => SCTP_COOKIE_ECHOED,
            State::Established => SCTP_ESTABLISHED,
            State::ShutdownPending => SCTP_SHUTDOWN_PENDING,
            State::ShutdownSent => SCTP_SHUTDOWN_SENT,
            State::ShutdownReceived => SCTP_SHUTDOWN_RECEIVED,
            State::ShutdownAckSent => SCTP_SHUTDOWN_ACK_SENT,
        };
        let (outbound, inbound) = info.streams;
        let numbers = [
            ("sstat_assoc_id", self.assoc_ids.of(id).into()),
            ("sstat_state", state as u64),
            ("sstat_rwnd", info.peer_rwnd.into()),
            ("sstat_unackdata", info.unacked as u64),
            ("sstat_penddata", info.missing),
            ("sstat_instrms", inbound.into()),
            ("sstat_outstrms", outbound.into()),
            ("sstat_fragmentation_point", info.fragment_point as u64),
        ];
        let arg = arg.put(&numbers);
        let Some(path) = info.paths.iter().find(|path| path.primary) else { return Ok(arg.into_bytes()) };
        let path = self.path_bytes(fd, id, path)?;
        Ok(arg.put_bytes("sstat_primary", &path).into_bytes())
    }

    /// SCTP_GET_PEER_ADDR_INFO.
    pub(super) fn get_peer_info(&mut self, fd: Fd, arg: &Arg) -> Result<Vec<u8>, Errno> {
        let to = arg.address("spinfo_address").ok_or(Errno::EINVAL)?;
        let (id, path) = self.sctp_path(fd, arg.n("spinfo_assoc_id"), to)?;
        self.path_bytes(fd, id, &path)
    }

    /// struct sctp_paddrinfo of a path.
    fn path_bytes(&mut self, fd: Fd, id: SocketId, path: &PathInfo) -> Result<Vec<u8>, Errno> {
        let state = match path.state {
            PathState::Unconfirmed => SCTP_UNCONFIRMED,
            PathState::Active => SCTP_ACTIVE,
            PathState::PotentiallyFailed => SCTP_PF,
            PathState::Inactive => SCTP_INACTIVE,
        };
        let of = layout("sctp_paddrinfo").ok_or(Errno::EINVAL)?;
        let numbers = [
            ("spinfo_assoc_id", u64::from(self.assoc_ids.of(id))),
            ("spinfo_state", state as u64),
            ("spinfo_cwnd", path.cwnd.into()),
            ("spinfo_srtt", path.srtt.map_or(0, |srtt| srtt.as_millis() as u64)),
            ("spinfo_rto", path.rto.as_millis() as u64),
            ("spinfo_mtu", path.mtu.into()),
        ];
        let mut bytes = of.build(&numbers);
        let port = self.stack.peer_addr(id)?.port();
        let address = self.files.sock(fd)?.shown(SocketAddr::new(path.remote, port));
        of.put_address(&mut bytes, "spinfo_address", address);
        Ok(bytes)
    }

    /// SCTP_GET_ASSOC_STATS: as much of the structure as there is room for.
    pub(super) fn get_counts(&mut self, fd: Fd, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let id = self.sctp_named(fd, int(given)? as u32)?;
        let counts = self.stack.sctp_take_counts(id)?.unwrap_or_default();
        let of = layout("sctp_assoc_stats").ok_or(Errno::EINVAL)?;
        let mut bytes = of.build(&[
            ("sas_assoc_id", self.assoc_ids.of(id).into()),
            ("sas_maxrto", counts.maxrto.as_millis() as u64 / TICK_MS),
            ("sas_isacks", counts.isacks),
            ("sas_osacks", counts.osacks),
            ("sas_opackets", counts.opackets),
            ("sas_ipackets", counts.ipackets),
            ("sas_rtxchunks", counts.rtxchunks),
            ("sas_outofseqtsns", counts.outofseqtsns),
            ("sas_idupchunks", counts.idupchunks),
            ("sas_gapcnt", counts.gapcnt),
            ("sas_ouodchunks", counts.ouodchunks),
            ("sas_iuodchunks", counts.iuodchunks),
            ("sas_oodchunks", counts.oodchunks),
            ("sas_iodchunks", counts.iodchunks),
            ("sas_octrlchunks", counts.octrlchunks),
            ("sas_ictrlchunks", counts.ictrlchunks),
        ]);
        // An identifier is what it was on a one-to-one socket, where any number is its own.
        bytes[..4].copy_from_slice(&given[..4]);
        if let Some(ip) = counts.obs_rto_ipaddr {
            let port = self.stack.peer_addr(id)?.port();
            let address = self.files.sock(fd)?.shown(SocketAddr::new(ip, port));
            of.put_address(&mut bytes, "sas_obs_rto_ipaddr", address);
        }
        Ok(bytes)
    }

    /// SCTP_PR_ASSOC_STATUS, SCTP_PR_STREAM_STATUS: messages that one policy has given up, or all of them
    /// (`sctp_getsockopt_pr_assocstatus`).
    pub(super) fn get_abandoned(&mut self, fd: Fd, name: i32, arg: Arg) -> Result<Vec<u8>, Errno> {
        let policy = arg.n("sprstat_policy") as i32;
        let known = [SCTP_PR_SCTP_TTL, SCTP_PR_SCTP_RTX, SCTP_PR_SCTP_PRIO, SCTP_PR_SCTP_ALL];
        if !known.contains(&policy) {
            return Err(Errno::EINVAL);
        }
        let id = self.sctp_named(fd, arg.n("sprstat_assoc_id"))?;
        let stream = (name == SCTP_PR_STREAM_STATUS).then(|| arg.n("sprstat_sid") as u16);
        if stream.is_some_and(|stream| self.stack.sctp_info(id).is_ok_and(|info| stream >= info.streams.0)) {
            return Err(Errno::EINVAL);
        }
        let counts = self.stack.sctp_abandoned(id, stream)?;
        let each = [
            (SCTP_PR_SCTP_TTL, counts.lifetime),
            (SCTP_PR_SCTP_RTX, counts.retransmissions),
            (SCTP_PR_SCTP_PRIO, counts.priority),
        ];
        let asked = each.into_iter().filter(|(of, _)| policy == SCTP_PR_SCTP_ALL || policy == *of);
        let sum = asked.fold((0, 0), |(unsent, sent), (_, one)| (unsent + one.unsent, sent + one.sent));
        Ok(arg.put(&[("sprstat_abandoned_unsent", sum.0), ("sprstat_abandoned_sent", sum.1)]).into_bytes())
    }

    /// SCTP_GET_PEER_ADDRS, SCTP_GET_LOCAL_ADDRS: identifier, number, addresses one behind the other.
    pub(super) fn get_addrs(&mut self, fd: Fd, name: i32, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let assoc = int(given)? as u32;
        // What a socket is bound to, unless that is any address: then what its association uses, if it has one.
        let bound = &self.sctp(fd)?.bound;
        let own = assoc == 0 && !bound.is_empty() && bound.iter().all(|addr| !addr.ip().is_unspecified());
        let addrs = match (name, self.sctp_named(fd, assoc)) {
            (SCTP_GET_PEER_ADDRS, id) => self.stack.sctp_addrs(id?)?.1,
            _ if own => self.sctp(fd)?.bound.clone(),
            (_, Ok(id)) => self.stack.sctp_addrs(id)?.0,
            (_, Err(errno)) if assoc != 0 && self.sctp(fd)?.style.is_many() => return Err(errno),
            (_, Err(_)) => self.sctp_bound(fd)?,
        };
        let mut bytes = assoc.to_le_bytes().to_vec();
        bytes.extend((addrs.len() as u32).to_le_bytes());
        let sock = self.files.sock(fd)?;
        for addr in addrs {
            bytes.extend(sockaddr_bytes(sock.shown(addr)));
        }
        if bytes.len() > given.len() { Err(Errno::ENOMEM) } else { Ok(bytes) }
    }

    /// SCTP_GET_ASSOC_NUMBER, SCTP_GET_ASSOC_ID_LIST.
    pub(super) fn get_assocs(&mut self, fd: Fd, name: i32, room: usize) -> Result<Vec<u8>, Errno> {
        if self.sctp(fd)?.style == Style::One {
            return Err(Errno::EOPNOTSUPP);
        }
        if room < 4 {
            return Err(Errno::EINVAL);
        }
        let ids = self.assocs_of(fd);
        let mut bytes = (ids.len() as u32).to_le_bytes().to_vec();
        if name == SCTP_GET_ASSOC_ID_LIST {
            bytes.extend(ids.into_iter().flat_map(|id| self.assoc_ids.of(id).to_le_bytes()));
            // All or none: who asks believes the number.
            if room < bytes.len() {
                return Err(Errno::EINVAL);
            }
        }
        Ok(bytes)
    }
}
