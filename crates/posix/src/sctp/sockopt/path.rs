//! Options of paths: of one, of all of an association, or of those to come.
use super::arg::Arg;
use super::assoc::SACK_DELAY_MAX;
use super::scope::Scope;
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::host::Host;
use core::net::SocketAddr;
use lowwater_core::sctp::PathOptions;

/// Length of SCTP_PEER_ADDR_PARAMS before it knew flow labels (`sctp_setsockopt_peer_addr_params`).
const PADDRPARAMS_OLD: usize = 152;
/// Least path MTU that can be fixed (`SCTP_DEFAULT_MINSEGMENT`).
const PMTU_MIN: u32 = 512;

/// A struct sctp_paddrparams that makes sense.
#[derive(Clone, Copy, Debug)]
struct Params {
    flags: i32,
    hb_interval_ms: u32,
    max_retrans: u16,
    pmtu: u16,
    sack_delay_ms: u32,
}

impl Params {
    /// # Errors
    /// EINVAL for flags that contradict one another and for numbers out of bounds.
    fn read(arg: &Arg) -> Result<Self, Errno> {
        let flags = arg.n("spp_flags") as i32;
        let both = |a, b| flags & (a | b) == (a | b);
        let (pmtu, sack_delay_ms) = (arg.n("spp_pathmtu"), arg.n("spp_sackdelay"));
        if both(SPP_HB_ENABLE, SPP_HB_DISABLE)
            || both(SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE)
            || both(SPP_SACKDELAY_ENABLE, SPP_SACKDELAY_DISABLE)
            || sack_delay_ms > SACK_DELAY_MAX
            || (pmtu > 0 && pmtu < PMTU_MIN)
        {
            return Err(Errno::EINVAL);
        }
        Ok(Self {
            flags,
            hb_interval_ms: arg.n("spp_hbinterval"),
            max_retrans: arg.n("spp_pathmaxrxt") as u16,
            pmtu: u16::try_from(pmtu).unwrap_or(u16::MAX),
            sack_delay_ms,
        })
    }

    const fn has(&self, flag: i32) -> bool {
        self.flags & flag != 0
    }

    fn apply(&self, path: &mut PathOptions) {
        if self.has(SPP_HB_ENABLE) {
            path.hb_enable = true;
            path.hb_interval_ms = match self.hb_interval_ms {
                _ if self.has(SPP_HB_TIME_IS_ZERO) => 0,
                0 => path.hb_interval_ms,
                ms => ms,
            };
        }
        path.hb_enable &= !self.has(SPP_HB_DISABLE);
        if self.has(SPP_PMTUD_DISABLE) && self.pmtu > 0 {
            path.pmtu = self.pmtu;
        } else if self.has(SPP_PMTUD_ENABLE) {
            path.pmtu = 0;
        }
        path.max_retrans = if self.max_retrans == 0 { path.max_retrans } else { self.max_retrans };
    }
}

impl Host {
    /// Changes one path where an address is named, else those of the scope.
    fn change_paths(
        &mut self,
        fd: Fd,
        assoc: u32,
        to: Option<SocketAddr>,
        change: impl Fn(&mut PathOptions),
    ) -> Result<Scope, Errno> {
        let Some(to) = to else {
            let scope = self.sctp_scope(fd, assoc, false)?;
            self.sctp_change(fd, &scope, |o| change(&mut o.path))?;
            return Ok(scope);
        };
        let (id, path) = self.sctp_path(fd, assoc, to)?;
        let mut options = path.options;
        change(&mut options);
        self.stack.sctp_set_path(self.now, id, to.ip(), options)?;
        Ok(Scope { future: false, of: vec![id] })
    }

    /// SCTP_PEER_ADDR_PARAMS.
    pub(super) fn set_peer(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let arg = Arg::padded("sctp_paddrparams", bytes, PADDRPARAMS_OLD)?;
        let params = Params::read(&arg)?;
        let (assoc, to) = (arg.n("spp_assoc_id"), arg.address("spp_address"));
        let of = match to {
            Some(to) => Some(self.sctp_path(fd, assoc, to)?.0),
            None => self.sctp_scope(fd, assoc, false)?.one(),
        };
        // Only who has an association has whom to ask.
        if params.has(SPP_HB_DEMAND) && of.is_none() {
            return Err(Errno::EINVAL);
        }
        let scope = self.change_paths(fd, assoc, to, |path| params.apply(path))?;
        if let (Some(id), true) = (of, params.has(SPP_HB_DEMAND)) {
            let all = self.stack.sctp_info(id)?.paths;
            let asked = all.iter().map(|path| path.remote).filter(|ip| to.is_none_or(|to| to.ip() == *ip));
            for remote in asked {
                self.stack.sctp_heartbeat(self.now, id, remote)?;
            }
        }
        self.change_sack(fd, &scope, |sack| {
            if params.has(SPP_SACKDELAY_ENABLE) {
                sack.delayed = true;
                sack.apply(params.sack_delay_ms, 0);
            }
            sack.delayed &= !params.has(SPP_SACKDELAY_DISABLE);
        })
    }

    pub(super) fn get_peer(&mut self, fd: Fd, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let arg = Arg::padded("sctp_paddrparams", given, PADDRPARAMS_OLD)?;
        let most = if given.len() < arg.layout().size { PADDRPARAMS_OLD } else { arg.layout().size };
        let assoc = arg.n("spp_assoc_id");
        let (path, mtu, sack) = if let Some(to) = arg.address("spp_address") {
            let (id, path) = self.sctp_path(fd, assoc, to)?;
            (path.options, path.mtu, self.sctp(fd)?.manner_of(id).sack)
        } else {
            let scope = self.sctp_scope(fd, assoc, false)?;
            let path = self.sctp_live(fd, &scope)?.path;
            let paths =
                scope.one().map_or_else(|| Ok(Vec::new()), |id| self.stack.sctp_info(id).map(|i| i.paths))?;
            let mtu = paths.iter().map(|path| path.mtu).min().unwrap_or(path.pmtu);
            (path, mtu, self.sctp_manner(fd, &scope)?.sack)
        };
        let heartbeats = if path.hb_enable { SPP_HB_ENABLE } else { SPP_HB_DISABLE };
        let discovery = if path.pmtu == 0 { SPP_PMTUD_ENABLE } else { SPP_PMTUD_DISABLE };
        let delay = if sack.delayed { SPP_SACKDELAY_ENABLE } else { SPP_SACKDELAY_DISABLE };
        let numbers = [
            ("spp_hbinterval", path.hb_interval_ms.into()),
            ("spp_pathmaxrxt", path.max_retrans.into()),
            ("spp_pathmtu", mtu.into()),
            ("spp_sackdelay", sack.delay_ms.into()),
            ("spp_flags", (heartbeats | discovery | delay) as u64),
        ];
        let mut bytes = arg.put(&numbers).into_bytes();
        bytes.truncate(most);
        Ok(bytes)
    }

    /// SCTP_PEER_ADDR_THLDS, and with a third threshold SCTP_PEER_ADDR_THLDS_V2.
    pub(super) fn set_thresholds(&mut self, fd: Fd, name: i32, arg: &Arg) -> Result<(), Errno> {
        let (retrans, pf) = (arg.n("spt_pathmaxrxt") as u16, arg.n("spt_pathpfthld") as u16);
        let primary = u16::from_le_bytes([arg.bytes()[140], arg.bytes()[141]]);
        if name == SCTP_PEER_ADDR_THLDS_V2 && pf > primary {
            return Err(Errno::EINVAL);
        }
        if let Some(to) = arg.address("spt_address") {
            self.sctp_known(fd, arg, to)?;
        }
        let change = |path: &mut PathOptions| {
            path.max_retrans = if retrans == 0 { path.max_retrans } else { retrans };
            path.pf_retrans = pf;
        };
        self.change_paths(fd, arg.n("spt_assoc_id"), arg.address("spt_address"), change).map(|_| ())
    }

    /// # Errors
    /// ENOENT where thresholds are asked of an address that nobody has.
    fn sctp_known(&mut self, fd: Fd, arg: &Arg, to: SocketAddr) -> Result<PathOptions, Errno> {
        let path = self.sctp_path(fd, arg.n("spt_assoc_id"), to);
        path.map(|(_, path)| path.options).map_err(|_| Errno::ENOENT)
    }

    /// A third threshold, which is never reached, is the second form's.
    pub(super) fn get_thresholds(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let assoc = arg.n("spt_assoc_id");
        let path = if let Some(to) = arg.address("spt_address") {
            self.sctp_known(fd, &arg, to)?
        } else {
            let scope = self.sctp_scope(fd, assoc, false)?;
            self.sctp_live(fd, &scope)?.path
        };
        let numbers =
            [("spt_pathmaxrxt", path.max_retrans.into()), ("spt_pathpfthld", path.pf_retrans.into())];
        let mut bytes = arg.put(&numbers).into_bytes();
        bytes[140..142].copy_from_slice(&u16::MAX.to_le_bytes());
        Ok(bytes)
    }

    /// SCTP_REMOTE_UDP_ENCAPS_PORT.
    pub(super) fn set_encap(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let port = (arg.n("sue_port") as u16).swap_bytes();
        let assoc = arg.n("sue_assoc_id");
        if let Some(to) = arg.address("sue_address") {
            let (id, _) = self.sctp_path(fd, assoc, to)?;
            return Ok(self.stack.sctp_set_encap_port(self.now, id, Some(to.ip()), port)?);
        }
        let scope = self.sctp_scope(fd, assoc, false)?;
        self.sctp_change(fd, &scope, |o| o.encap_port = port)?;
        for id in scope.of {
            self.stack.sctp_set_encap_port(self.now, id, None, port)?;
        }
        Ok(())
    }

    pub(super) fn get_encap(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let assoc = arg.n("sue_assoc_id");
        let port = if let Some(to) = arg.address("sue_address") {
            self.sctp_path(fd, assoc, to)?.1.encap_port
        } else {
            let scope = self.sctp_scope(fd, assoc, false)?;
            self.sctp_live(fd, &scope)?.encap_port
        };
        Ok(arg.put(&[("sue_port", port.swap_bytes().into())]).into_bytes())
    }

    /// SCTP_PRIMARY_ADDR.
    pub(super) fn set_primary(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let to = arg.address("ssp_addr").ok_or(Errno::EINVAL)?;
        let (id, _) = self.sctp_path(fd, arg.n("ssp_assoc_id"), to)?;
        Ok(self.stack.sctp_set_primary(self.now, id, to.ip())?)
    }

    pub(super) fn get_primary(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let id = self.sctp_named(fd, arg.n("ssp_assoc_id"))?;
        let port = self.stack.peer_addr(id)?.port();
        let paths = self.stack.sctp_info(id)?.paths;
        let primary = paths.iter().find(|path| path.primary).ok_or(Errno::EINVAL)?;
        let shown = self.files.sock(fd)?.shown(SocketAddr::new(primary.remote, port));
        Ok(arg.put_address("ssp_addr", shown).into_bytes())
    }
}
