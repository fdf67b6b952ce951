//! Options of the level SOL_SCTP (RFC 6458 section 8; `sctp_setsockopt`, `sctp_getsockopt`).
use super::layout::{Layout, SOCKADDR_STORAGE, layout, sockaddr, sockaddr_bytes};
use super::life::shared;
use super::sizes::{may_get, may_set};
use crate::abi::*;
use crate::block::Progress;
use crate::call::{Fd, Optval, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::Kind;
use crate::host::Host;
use crate::sockopt::NAME_MAX;
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::SocketId;
use lowwater_core::base::sysctl::SctpCongestionKind;
use lowwater_core::sctp::{AssocInfo, PathInfo, PathOptions, PathState, SctpOptions, State, Subscriptions};

/// Most bytes of an option that are looked at.
pub(super) const VALUE_MAX: usize = 4_096;
/// Length of SCTP_PEER_ADDR_PARAMS before it knew flow labels (`sctp_setsockopt_peer_addr_params`).
const PADDRPARAMS_OLD: usize = 152;
/// Notifications by their types, with what subscribes to them.
const EVENTS: &[(i32, Subscriptions)] = &[
    (SCTP_ASSOC_CHANGE, Subscriptions::ASSOC),
    (SCTP_PEER_ADDR_CHANGE, Subscriptions::PATH),
    (SCTP_SEND_FAILED, Subscriptions::SEND_FAILED),
    (SCTP_SEND_FAILED_EVENT, Subscriptions::SEND_FAILED),
    (SCTP_REMOTE_ERROR, Subscriptions::REMOTE_ERROR),
    (SCTP_SHUTDOWN_EVENT, Subscriptions::SHUTDOWN),
    (SCTP_PARTIAL_DELIVERY_EVENT, Subscriptions::PARTIAL_DELIVERY),
    (SCTP_ADAPTATION_INDICATION, Subscriptions::ADAPTATION),
    (SCTP_SENDER_DRY_EVENT, Subscriptions::SENDER_DRY),
];
/// The same as the fields of SCTP_EVENTS, in their order from sctp_association_event on.
const SUBSCRIBE: &[(&str, i32)] = &[
    ("sctp_association_event", SCTP_ASSOC_CHANGE),
    ("sctp_address_event", SCTP_PEER_ADDR_CHANGE),
    ("sctp_send_failure_event", SCTP_SEND_FAILED),
    ("sctp_peer_error_event", SCTP_REMOTE_ERROR),
    ("sctp_shutdown_event", SCTP_SHUTDOWN_EVENT),
    ("sctp_partial_delivery_event", SCTP_PARTIAL_DELIVERY_EVENT),
    ("sctp_adaptation_layer_event", SCTP_ADAPTATION_INDICATION),
    ("sctp_sender_dry_event", SCTP_SENDER_DRY_EVENT),
    ("sctp_send_failure_event_event", SCTP_SEND_FAILED_EVENT),
];

/// A structure of an option with its bytes.
struct Arg<'a> {
    of: &'static Layout,
    bytes: &'a [u8],
}

impl<'a> Arg<'a> {
    /// # Errors
    /// EINVAL for less than the structure.
    fn new(name: &str, bytes: &'a [u8]) -> Result<Self, Errno> {
        let of = layout(name).ok_or(Errno::EINVAL)?;
        if bytes.len() < of.size { Err(Errno::EINVAL) } else { Ok(Self { of, bytes }) }
    }

    fn n(&self, field: &str) -> u32 {
        self.of.number(self.bytes, field) as u32
    }

    fn address(&self, field: &str) -> Option<IpAddr> {
        let address = self.of.address(self.bytes, field)?.ip().to_canonical();
        (!address.is_unspecified()).then_some(address)
    }
}

fn int(bytes: &[u8]) -> Result<i32, Errno> {
    bytes.first_chunk::<4>().map(|b| i32::from_le_bytes(*b)).ok_or(Errno::EINVAL)
}

/// A number that changes nothing when it is zero.
const fn or_keep(n: u32, before: u32) -> u32 {
    if n == 0 { before } else { n }
}

fn subscribed(events: Subscriptions, kind: Subscriptions, on: bool) -> Subscriptions {
    if on { events.with(kind) } else { Subscriptions(events.0 & !kind.0) }
}

/// The bytes of a structure of numbers.
fn told(name: &str, numbers: &[(&str, u64)]) -> Vec<u8> {
    layout(name).map_or_else(Vec::new, |of| of.build(numbers))
}

impl Host {
    /// Bytes that one message may have.
    pub(super) fn sctp_sndbuf(&self, fd: Fd) -> Result<usize, Errno> {
        Ok(self.sctp_options(fd)?.sndbuf as usize)
    }

    /// The options that hold: those of the association, or of associations to come.
    fn sctp_live(&self, fd: Fd) -> Result<SctpOptions, Errno> {
        let own = self.assocs_of(fd).into_iter().next().filter(|_| !self.sctp(fd).is_ok_and(|s| s.many));
        match own {
            Some(id) => Ok(self.stack.sctp_options(id)?.clone()),
            None => self.sctp_options(fd),
        }
    }

    /// Changes options: of associations to come, of the listener, and of the associations there are.
    fn sctp_change(&mut self, fd: Fd, change: impl Fn(&mut SctpOptions)) -> Result<(), Errno> {
        change(&mut self.sctp_mut(fd)?.options);
        let listener = self.files.sock(fd)?.kind.id();
        let mut ids = self.assocs_of(fd);
        ids.extend(listener.filter(|id| !ids.contains(id)));
        for id in ids {
            let mut options = self.stack.sctp_options(id)?.clone();
            change(&mut options);
            self.stack.sctp_set_options(self.now, id, options)?;
        }
        Ok(())
    }

    /// What SOL_SOCKET and SOL_IP have set reaches the associations too.
    pub(crate) fn sctp_share(&mut self, fd: Fd) -> Result<(), Errno> {
        let all = self.files.sock(fd)?.options.clone();
        self.sctp_change(fd, |options| shared(options, &all))
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
            SCTP_SOCKOPT_BINDX_REM if sockaddr(&bytes).is_none() => return Err(Errno::EINVAL),
            SCTP_SOCKOPT_BINDX_REM => return Err(Errno::EOPNOTSUPP),
            SCTP_SOCKOPT_CONNECTX | SCTP_SOCKOPT_CONNECTX_OLD => return self.sctp_connectx(fd, &bytes, p),
            SCTP_RTOINFO => self.set_rto(fd, &Arg::new("sctp_rtoinfo", &bytes)?)?,
            SCTP_ASSOCINFO => self.set_assoc(fd, &Arg::new("sctp_assocparams", &bytes)?)?,
            SCTP_INITMSG => self.set_init(fd, &Arg::new("sctp_initmsg", &bytes)?)?,
            SCTP_PEER_ADDR_PARAMS => self.set_peer(fd, &bytes)?,
            SCTP_REMOTE_UDP_ENCAPS_PORT => self.set_encap(fd, &Arg::new("sctp_udpencaps", &bytes)?)?,
            SCTP_AUTOCLOSE if self.sctp(fd)?.many && bytes.len() != 4 => return Err(Errno::EINVAL),
            SCTP_REUSE_PORT if self.sctp(fd)?.many => return Err(Errno::EOPNOTSUPP),
            SCTP_REUSE_PORT if self.sctp_has_port(fd)? => return Err(Errno::EFAULT),
            SCTP_PEER_ADDR_THLDS | SCTP_PEER_ADDR_THLDS_V2 => {
                self.set_thresholds(fd, &Arg::new("sctp_paddrthlds", &bytes)?)?;
            }
            SCTP_PRIMARY_ADDR => {
                let arg = Arg::new("sctp_prim", &bytes)?;
                let id = self.sctp_named(fd, arg.n("ssp_assoc_id"))?;
                let remote = arg.address("ssp_addr").ok_or(Errno::EINVAL)?;
                self.stack.sctp_set_primary(self.now, id, remote)?;
            }
            SCTP_EVENTS => self.set_events(fd, &bytes)?,
            SCTP_CONGESTION => self.set_sctp_congestion(fd, &bytes)?,
            SCTP_EVENT => {
                let arg = Arg::new("sctp_event", &bytes)?;
                self.set_event(fd, arg.n("se_type") as i32, arg.n("se_on") != 0)?;
            }
            SCTP_DELAYED_SACK => self.set_sack(fd, &bytes)?,
            SCTP_DEFAULT_SEND_PARAM => {
                let arg = Arg::new("sctp_sndrcvinfo", &bytes)?;
                let flags = arg.n("sinfo_flags");
                self.set_defaults(
                    fd,
                    (arg.n("sinfo_stream"), arg.n("sinfo_ppid"), arg.n("sinfo_context")),
                    flags,
                )?;
            }
            SCTP_DEFAULT_SNDINFO => {
                let arg = Arg::new("sctp_sndinfo", &bytes)?;
                let flags = arg.n("snd_flags");
                self.set_defaults(fd, (arg.n("snd_sid"), arg.n("snd_ppid"), arg.n("snd_context")), flags)?;
            }
            _ => self.set_number(fd, name, &bytes)?,
        }
        Ok(Some(Reply::ok(0)))
    }

    /// It was bound, by a call or because it was used.
    fn sctp_has_port(&self, fd: Fd) -> Result<bool, Errno> {
        Ok(self.files.sock(fd)?.kind != Kind::Fresh || !self.sctp(fd)?.bound.is_empty())
    }

    /// Options that are one number, some behind the identifier of an association.
    fn set_number(&mut self, fd: Fd, name: i32, bytes: &[u8]) -> Result<(), Errno> {
        let second = || match layout("sctp_assoc_value") {
            Some(of) if bytes.len() >= of.size => Ok(of.number(bytes, "assoc_value") as i32),
            _ => int(bytes),
        };
        match name {
            SCTP_NODELAY => {
                let on = int(bytes)? != 0;
                self.sctp_change(fd, |o| o.nodelay = on)
            }
            SCTP_DISABLE_FRAGMENTS => {
                let on = int(bytes)? != 0;
                self.sctp_change(fd, |o| o.disable_fragments = on)
            }
            SCTP_AUTOCLOSE => {
                if !self.sctp(fd)?.many {
                    return Err(Errno::EOPNOTSUPP);
                }
                let seconds = int(bytes)?.unsigned_abs();
                self.sctp_change(fd, |o| o.autoclose_secs = seconds)
            }
            SCTP_MAXSEG => {
                let n = u16::try_from(second()?).map_err(|_| Errno::EINVAL)?;
                self.sctp_change(fd, |o| o.maxseg = n)
            }
            SCTP_MAX_BURST => {
                let n = u32::try_from(second()?).map_err(|_| Errno::EINVAL)?;
                self.sctp_change(fd, |o| o.max_burst = n)
            }
            SCTP_PARTIAL_DELIVERY_POINT => {
                let n = u32::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?;
                self.sctp_change(fd, |o| o.pd_point = n)
            }
            SCTP_ADAPTATION_LAYER => {
                let n = int(bytes)? as u32;
                self.sctp_change(fd, |o| o.adaptation = Some(n))
            }
            SCTP_CONTEXT => {
                self.sctp_mut(fd)?.wants.context = second()? as u32;
                Ok(())
            }
            SCTP_RECVRCVINFO => {
                self.sctp_mut(fd)?.wants.rcvinfo = int(bytes)? != 0;
                Ok(())
            }
            // Mapped addresses are what an AF_INET6 socket shows; messages of streams are not mixed.
            SCTP_I_WANT_MAPPED_V4_ADDR | SCTP_FRAGMENT_INTERLEAVE | SCTP_REUSE_PORT => int(bytes).map(|_| ()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// SCTP_CONGESTION: a name, as for TCP_CONGESTION.
    fn set_sctp_congestion(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Err(Errno::EINVAL);
        }
        let name = bytes.split(|b| *b == 0).next().unwrap_or_default();
        let kind = SctpCongestionKind::ALL.into_iter().find(|k| k.name().as_bytes() == name);
        let kind = kind.ok_or(Errno::ENOENT)?;
        self.sctp_change(fd, |o| o.congestion = kind)
    }

    fn set_rto(&mut self, fd: Fd, arg: &Arg<'_>) -> Result<(), Errno> {
        let before = self.sctp_live(fd)?.rto;
        let (min, max) =
            (or_keep(arg.n("srto_min"), before.min_ms), or_keep(arg.n("srto_max"), before.max_ms));
        let initial = or_keep(arg.n("srto_initial"), before.initial_ms);
        if min > max {
            return Err(Errno::EINVAL);
        }
        self.sctp_change(fd, |o| (o.rto.initial_ms, o.rto.min_ms, o.rto.max_ms) = (initial, min, max))
    }

    fn set_assoc(&mut self, fd: Fd, arg: &Arg<'_>) -> Result<(), Errno> {
        let (retrans, life) = (arg.n("sasoc_asocmaxrxt"), arg.n("sasoc_cookie_life"));
        self.sctp_change(fd, |o| {
            o.association_max_retrans = or_keep(retrans, o.association_max_retrans.into()) as u16;
            o.cookie_life_ms = or_keep(life, o.cookie_life_ms);
        })
    }

    fn set_init(&mut self, fd: Fd, arg: &Arg<'_>) -> Result<(), Errno> {
        let (out, inn) = (arg.n("sinit_num_ostreams"), arg.n("sinit_max_instreams"));
        let (attempts, timeo) = (arg.n("sinit_max_attempts"), arg.n("sinit_max_init_timeo"));
        self.sctp_change(fd, |o| {
            o.num_ostreams = or_keep(out, o.num_ostreams.into()) as u16;
            o.max_instreams = or_keep(inn, o.max_instreams.into()) as u16;
            o.max_init_retransmits = or_keep(attempts, o.max_init_retransmits.into()) as u16;
            o.max_init_timeo_ms = or_keep(timeo, o.max_init_timeo_ms);
        })
    }

    /// SCTP_PEER_ADDR_PARAMS: of one path, of all paths of an association, or of paths to come.
    fn set_peer(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let of = layout("sctp_paddrparams").ok_or(Errno::EINVAL)?;
        if bytes.len() != of.size && bytes.len() != PADDRPARAMS_OLD {
            return Err(Errno::EINVAL);
        }
        let mut whole = bytes.to_vec();
        whole.resize(of.size, 0);
        let arg = Arg { of, bytes: &whole };
        let flags = arg.n("spp_flags") as i32;
        let both = |a, b| flags & (a | b) == (a | b);
        if both(SPP_HB_ENABLE, SPP_HB_DISABLE)
            || both(SPP_PMTUD_ENABLE, SPP_PMTUD_DISABLE)
            || both(SPP_SACKDELAY_ENABLE, SPP_SACKDELAY_DISABLE)
        {
            return Err(Errno::EINVAL);
        }
        let (interval, retrans) = (arg.n("spp_hbinterval"), arg.n("spp_pathmaxrxt") as u16);
        let change = |path: &mut PathOptions| {
            if flags & SPP_HB_ENABLE != 0 {
                path.hb_enable = true;
                path.hb_interval_ms = match interval {
                    _ if flags & SPP_HB_TIME_IS_ZERO != 0 => 0,
                    0 => path.hb_interval_ms,
                    ms => ms,
                };
            }
            path.hb_enable &= flags & SPP_HB_DISABLE == 0;
            path.max_retrans = if retrans == 0 { path.max_retrans } else { retrans };
        };
        if let Some(remote) = arg.address("spp_address") {
            let id = self.sctp_named(fd, arg.n("spp_assoc_id"))?;
            let mut path = self.path_of(id, remote)?.options;
            change(&mut path);
            self.stack.sctp_set_path(self.now, id, remote, path)?;
            if flags & SPP_HB_DEMAND != 0 {
                self.stack.sctp_heartbeat(self.now, id, remote)?;
            }
        } else {
            self.sctp_change(fd, |o| change(&mut o.path))?;
        }
        let delay = arg.n("spp_sackdelay");
        match flags & (SPP_SACKDELAY_ENABLE | SPP_SACKDELAY_DISABLE) {
            SPP_SACKDELAY_ENABLE if delay > 0 => self.sctp_change(fd, |o| o.sack_delay_ms = delay.min(500)),
            SPP_SACKDELAY_DISABLE => self.sctp_change(fd, |o| o.sack_delay_ms = 0),
            _ => Ok(()),
        }
    }

    fn set_thresholds(&mut self, fd: Fd, arg: &Arg<'_>) -> Result<(), Errno> {
        let (retrans, pf) = (arg.n("spt_pathmaxrxt") as u16, arg.n("spt_pathpfthld") as u16);
        let change = |path: &mut PathOptions| {
            path.max_retrans = if retrans == 0 { path.max_retrans } else { retrans };
            path.pf_retrans = pf;
        };
        match arg.address("spt_address") {
            Some(remote) => {
                let id = self.sctp_named(fd, arg.n("spt_assoc_id"))?;
                let mut path = self.path_of(id, remote)?.options;
                change(&mut path);
                Ok(self.stack.sctp_set_path(self.now, id, remote, path)?)
            }
            None => self.sctp_change(fd, |o| change(&mut o.path)),
        }
    }

    /// What is known of the path to this address.
    fn path_of(&self, id: SocketId, remote: IpAddr) -> Result<PathInfo, Errno> {
        let paths = self.stack.sctp_info(id)?.paths;
        paths.into_iter().find(|path| path.remote == remote).ok_or(Errno::EINVAL)
    }

    /// SCTP_REMOTE_UDP_ENCAPS_PORT: of one path, or of all and those to come.
    fn set_encap(&mut self, fd: Fd, arg: &Arg<'_>) -> Result<(), Errno> {
        let port = (arg.n("sue_port") as u16).swap_bytes();
        if let Some(remote) = arg.address("sue_address") {
            let id = self.sctp_named(fd, arg.n("sue_assoc_id"))?;
            return Ok(self.stack.sctp_set_encap_port(self.now, id, Some(remote), port)?);
        }
        self.sctp_change(fd, |o| o.encap_port = port)?;
        for id in self.assocs_of(fd) {
            self.stack.sctp_set_encap_port(self.now, id, None, port)?;
        }
        Ok(())
    }

    fn get_encap(&mut self, fd: Fd, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let arg = Arg::new("sctp_udpencaps", given)?;
        let port = match arg.address("sue_address") {
            Some(remote) => {
                let id = self.sctp_named(fd, arg.n("sue_assoc_id"))?;
                self.path_of(id, remote)?.encap_port
            }
            None => self.sctp_live(fd)?.encap_port,
        };
        let mut bytes = given[..arg.of.size].to_vec();
        arg.of.put(&mut bytes, "sue_port", port.swap_bytes().into());
        Ok(bytes)
    }

    /// SCTP_PEER_ADDR_THLDS: of one path, or of those to come. A third threshold, which is never reached, is the second form's.
    fn get_thresholds(&mut self, fd: Fd, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let arg = Arg::new("sctp_paddrthlds", given)?;
        let path = match arg.address("spt_address") {
            Some(remote) => {
                let id = self.sctp_named(fd, arg.n("spt_assoc_id"))?;
                self.path_of(id, remote)?.options
            }
            None => self.sctp_live(fd)?.path,
        };
        let mut bytes = given[..arg.of.size].to_vec();
        arg.of.put(&mut bytes, "spt_pathmaxrxt", path.max_retrans.into());
        arg.of.put(&mut bytes, "spt_pathpfthld", path.pf_retrans.into());
        bytes[140..142].copy_from_slice(&u16::MAX.to_le_bytes());
        Ok(bytes)
    }

    /// SCTP_EVENT: one kind.
    fn get_event(&mut self, fd: Fd, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let arg = Arg::new("sctp_event", given)?;
        let kind = arg.n("se_type") as i32;
        if !(SCTP_DATA_IO_EVENT..=SCTP_SEND_FAILED_EVENT).contains(&kind) {
            return Err(Errno::EINVAL);
        }
        let events = self.sctp_live(fd)?.events;
        let field =
            SUBSCRIBE.iter().find(|(_, ty)| *ty == kind).map_or("sctp_data_io_event", |(field, _)| field);
        let all = self.get_events(fd, events)?;
        let on = layout("sctp_event_subscribe").is_some_and(|of| of.number(&all, field) != 0);
        let known = kind == SCTP_DATA_IO_EVENT || SUBSCRIBE.iter().any(|(_, ty)| *ty == kind);
        let mut bytes = given[..arg.of.size].to_vec();
        arg.of.put(&mut bytes, "se_on", (on && known).into());
        Ok(bytes)
    }

    /// SCTP_DELAYED_SACK: a structure, or in the old form the delay alone.
    fn set_sack(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let (delay, freq) = match Arg::new("sctp_sack_info", bytes) {
            Ok(arg) => (arg.n("sack_delay"), arg.n("sack_freq")),
            Err(_) => (Arg::new("sctp_assoc_value", bytes)?.n("assoc_value"), 0),
        };
        if delay > 500 {
            return Err(Errno::EINVAL);
        }
        self.sctp_change(fd, |o| {
            o.sack_delay_ms = or_keep(delay, o.sack_delay_ms);
            // A frequency of one acknowledges every packet, which is no delay.
            match freq {
                0 => {}
                1 => o.sack_delay_ms = 0,
                n => o.sack_freq = n,
            }
        })
    }

    fn set_defaults(&mut self, fd: Fd, numbers: (u32, u32, u32), flags: u32) -> Result<(), Errno> {
        let defaults = &mut self.sctp_mut(fd)?.defaults;
        let (stream, ppid, context) = numbers;
        (defaults.stream, defaults.context) = (stream as u16, context);
        defaults.ppid = u32::from_be(ppid);
        defaults.unordered = flags as i32 & SCTP_UNORDERED != 0;
        defaults.immediate = flags as i32 & SCTP_SACK_IMMEDIATELY != 0;
        Ok(())
    }

    /// SCTP_EVENTS: a byte for each kind, as many as the caller knows.
    fn set_events(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let of = layout("sctp_event_subscribe").ok_or(Errno::EINVAL)?;
        if bytes.len() > of.size {
            return Err(Errno::EINVAL);
        }
        let on = |field| of.number(bytes, field) != 0;
        for (field, kind) in SUBSCRIBE.iter().filter(|(field, _)| *field != "sctp_send_failure_event_event") {
            self.set_event(fd, *kind, on(field))?;
        }
        if on("sctp_send_failure_event_event") {
            self.set_event(fd, SCTP_SEND_FAILED_EVENT, true)?;
        }
        self.sctp_mut(fd)?.wants.sndrcv = on("sctp_data_io_event");
        Ok(())
    }

    /// SCTP_EVENT: one kind.
    fn set_event(&mut self, fd: Fd, kind: i32, on: bool) -> Result<(), Errno> {
        if kind == SCTP_DATA_IO_EVENT {
            self.sctp_mut(fd)?.wants.sndrcv = on;
            return Ok(());
        }
        if matches!(kind, SCTP_SEND_FAILED | SCTP_SEND_FAILED_EVENT) {
            self.sctp_mut(fd)?.wants.failed_event = on && kind == SCTP_SEND_FAILED_EVENT;
        }
        match EVENTS.iter().find(|(ty, _)| *ty == kind) {
            Some((_, subscription)) => {
                self.sctp_change(fd, |o| o.events = subscribed(o.events, *subscription, on))
            }
            // Kinds of what is not there never come.
            None if (SCTP_DATA_IO_EVENT..=SCTP_SEND_FAILED_EVENT).contains(&kind) => Ok(()),
            None => Err(Errno::EINVAL),
        }
    }

    /// getsockopt(2); `given` is what the caller has in its room, of the length that it asks for.
    pub(super) fn get_sctp(&mut self, fd: Fd, name: i32, given: &[u8]) -> Result<Reply, Errno> {
        if name == SCTP_SOCKOPT_PEELOFF {
            return self.sctp_peeloff(fd, int(given)? as u32);
        }
        may_get(name, given.len())?;
        let bytes = match name {
            SCTP_REMOTE_UDP_ENCAPS_PORT => self.get_encap(fd, given)?,
            SCTP_PEER_ADDR_THLDS | SCTP_PEER_ADDR_THLDS_V2 => self.get_thresholds(fd, given)?,
            SCTP_EVENT => self.get_event(fd, given)?,
            SCTP_CONGESTION => {
                let mut name = self.sctp_live(fd)?.congestion.name().as_bytes().to_vec();
                name.resize(NAME_MAX, 0);
                name
            }
            // What is told of it, and of the bursts below, has the form that fits.
            SCTP_MAXSEG if given.len() < 8 => {
                let most = self.sctp_live(fd)?.maxseg;
                u32::from(most).to_le_bytes().to_vec()
            }
            SCTP_MAX_BURST => {
                let most = self.sctp_live(fd)?.max_burst.to_le_bytes();
                let mut bytes = if given.len() < 8 { most.to_vec() } else { [[0; 4], most].concat() };
                // The length stays as it was asked for.
                bytes.extend(given.get(8..).unwrap_or_default());
                bytes
            }
            SCTP_STATUS => self.get_status(fd, &Arg::new("sctp_status", given)?)?,
            SCTP_GET_PEER_ADDR_INFO => {
                let arg = Arg::new("sctp_paddrinfo", given)?;
                let id = self.sctp_named(fd, arg.n("spinfo_assoc_id"))?;
                let info = self.stack.sctp_info(id)?;
                let remote = arg.address("spinfo_address").ok_or(Errno::EINVAL)?;
                let path = info.paths.iter().find(|path| path.remote == remote).ok_or(Errno::EINVAL)?;
                self.path_bytes(fd, id, path)?
            }
            SCTP_PEER_ADDR_PARAMS => self.get_peer(fd, given)?,
            SCTP_GET_PEER_ADDRS | SCTP_GET_LOCAL_ADDRS => self.get_addrs(fd, name, given)?,
            // Who has no association is told so first.
            SCTP_PEER_AUTH_CHUNKS => {
                self.sctp_named(fd, 0)?;
                return Err(Errno::EACCES);
            }
            _ => self.get_options(fd, name, given.len())?,
        };
        let len = bytes.len().min(given.len());
        Ok(Reply { value: Bytes::from(bytes).slice(..len), ..Reply::ok(0) })
    }

    /// Options that an association has or a socket hands on.
    fn get_options(&mut self, fd: Fd, name: i32, room: usize) -> Result<Vec<u8>, Errno> {
        let o = self.sctp_live(fd)?;
        let sctp = self.sctp(fd)?;
        let wants = sctp.wants;
        let number = |n: u32| n.to_le_bytes().to_vec();
        let flag = |on: bool| number(on.into());
        let value = |n: u32| told("sctp_assoc_value", &[("assoc_value", n.into())]);
        Ok(match name {
            SCTP_RTOINFO => {
                let rto = o.rto;
                let pairs =
                    [("srto_initial", rto.initial_ms), ("srto_max", rto.max_ms), ("srto_min", rto.min_ms)];
                told("sctp_rtoinfo", &pairs.map(|(name, ms)| (name, u64::from(ms))))
            }
            SCTP_ASSOCINFO => self.get_assoc(fd, &o)?,
            SCTP_INITMSG => {
                let numbers = [
                    ("sinit_num_ostreams", o.num_ostreams.into()),
                    ("sinit_max_instreams", o.max_instreams.into()),
                    ("sinit_max_attempts", o.max_init_retransmits.into()),
                    ("sinit_max_init_timeo", or_keep(o.max_init_timeo_ms, o.rto.max_ms).into()),
                ];
                told("sctp_initmsg", &numbers)
            }
            SCTP_NODELAY => flag(o.nodelay),
            SCTP_DISABLE_FRAGMENTS => flag(o.disable_fragments),
            SCTP_AUTOCLOSE | SCTP_GET_ASSOC_NUMBER | SCTP_GET_ASSOC_ID_LIST if sctp.many && room < 4 => {
                return Err(Errno::EINVAL);
            }
            SCTP_AUTOCLOSE if sctp.many => number(o.autoclose_secs),
            SCTP_AUTOCLOSE => return Err(Errno::EOPNOTSUPP),
            SCTP_MAXSEG => value(o.maxseg.into()),
            SCTP_MAX_BURST => value(o.max_burst),
            SCTP_CONTEXT => value(wants.context),
            SCTP_PARTIAL_DELIVERY_POINT => number(o.pd_point),
            SCTP_ADAPTATION_LAYER => number(o.adaptation.unwrap_or_default()),
            SCTP_RECVRCVINFO => flag(wants.rcvinfo),
            SCTP_I_WANT_MAPPED_V4_ADDR => flag(true),
            SCTP_FRAGMENT_INTERLEAVE | SCTP_REUSE_PORT => flag(false),
            SCTP_DELAYED_SACK => {
                let freq = if o.sack_delay_ms == 0 { 1 } else { o.sack_freq };
                told("sctp_sack_info", &[("sack_delay", o.sack_delay_ms.into()), ("sack_freq", freq.into())])
            }
            SCTP_EVENTS => self.get_events(fd, o.events)?,
            SCTP_PRIMARY_ADDR => self.get_primary(fd)?,
            SCTP_GET_ASSOC_NUMBER | SCTP_GET_ASSOC_ID_LIST if !sctp.many => return Err(Errno::EOPNOTSUPP),
            SCTP_GET_ASSOC_ID_LIST => {
                let ids = self.assocs_of(fd);
                let mut bytes = number(ids.len() as u32);
                bytes.extend(ids.into_iter().flat_map(|id| self.assoc_ids.of(id).to_le_bytes()));
                bytes
            }
            SCTP_GET_ASSOC_NUMBER => number(self.assocs_of(fd).len() as u32),
            SCTP_DEFAULT_SEND_PARAM | SCTP_DEFAULT_SNDINFO => self.get_defaults(fd, name)?,
            _ => return Err(Errno::ENOPROTOOPT),
        })
    }

    /// What messages carry whose sender says nothing.
    fn get_defaults(&self, fd: Fd, name: i32) -> Result<Vec<u8>, Errno> {
        let defaults = self.sctp(fd)?.defaults;
        let (sid, context) = (u64::from(defaults.stream), u64::from(defaults.context));
        let ppid = u64::from(defaults.ppid.to_be());
        Ok(if name == SCTP_DEFAULT_SNDINFO {
            told("sctp_sndinfo", &[("snd_sid", sid), ("snd_ppid", ppid), ("snd_context", context)])
        } else {
            let numbers = [("sinfo_stream", sid), ("sinfo_ppid", ppid), ("sinfo_context", context)];
            told("sctp_sndrcvinfo", &numbers)
        })
    }

    fn get_events(&self, fd: Fd, events: Subscriptions) -> Result<Vec<u8>, Errno> {
        let wants = self.sctp(fd)?.wants;
        let on = |kind: i32| EVENTS.iter().any(|(ty, s)| *ty == kind && events.contains(*s));
        let mut numbers = vec![("sctp_data_io_event", u64::from(wants.sndrcv))];
        for (field, kind) in SUBSCRIBE {
            let fits = match *kind {
                SCTP_SEND_FAILED => !wants.failed_event,
                SCTP_SEND_FAILED_EVENT => wants.failed_event,
                _ => true,
            };
            numbers.push((field, u64::from(fits && on(*kind))));
        }
        Ok(told("sctp_event_subscribe", &numbers))
    }

    fn get_assoc(&mut self, fd: Fd, o: &SctpOptions) -> Result<Vec<u8>, Errno> {
        let info = self.assocs_of(fd).first().and_then(|id| self.stack.sctp_info(*id).ok());
        let live = |f: fn(&AssocInfo) -> u32| u64::from(info.as_ref().map_or(0, f));
        let numbers = [
            ("sasoc_asocmaxrxt", o.association_max_retrans.into()),
            ("sasoc_number_peer_destinations", live(|i| i.paths.len() as u32)),
            ("sasoc_peer_rwnd", live(|i| i.peer_rwnd)),
            ("sasoc_local_rwnd", live(|i| i.rwnd)),
            ("sasoc_cookie_life", o.cookie_life_ms.into()),
        ];
        Ok(told("sctp_assocparams", &numbers))
    }

    fn get_primary(&mut self, fd: Fd) -> Result<Vec<u8>, Errno> {
        let id = self.sctp_named(fd, 0)?;
        let peer = self.stack.peer_addr(id)?;
        let of = layout("sctp_prim").ok_or(Errno::EINVAL)?;
        let mut bytes = of.build(&[("ssp_assoc_id", self.assoc_ids.of(id).into())]);
        of.put_address(&mut bytes, "ssp_addr", self.files.sock(fd)?.shown(peer));
        Ok(bytes)
    }

    fn get_peer(&mut self, fd: Fd, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let of = layout("sctp_paddrparams").ok_or(Errno::EINVAL)?;
        let most = if given.len() < of.size { PADDRPARAMS_OLD } else { of.size };
        let mut bytes = given[..most].to_vec();
        bytes.resize(of.size, 0);
        let arg = Arg { of, bytes: &bytes.clone() };
        let mut o = self.sctp_live(fd)?;
        let mut mtu = 0;
        if let Some(remote) = arg.address("spp_address") {
            let id = self.sctp_named(fd, arg.n("spp_assoc_id"))?;
            let path = self.path_of(id, remote)?;
            (mtu, o.path) = (path.mtu, path.options);
        }
        let heartbeats = if o.path.hb_enable { SPP_HB_ENABLE } else { SPP_HB_DISABLE };
        let delay = if o.sack_delay_ms == 0 { SPP_SACKDELAY_DISABLE } else { SPP_SACKDELAY_ENABLE };
        let numbers = [
            ("spp_hbinterval", o.path.hb_interval_ms.into()),
            ("spp_pathmaxrxt", o.path.max_retrans.into()),
            ("spp_pathmtu", mtu.into()),
            ("spp_sackdelay", o.sack_delay_ms.into()),
            ("spp_flags", (heartbeats | SPP_PMTUD_ENABLE | delay) as u64),
        ];
        for (field, number) in numbers {
            of.put(&mut bytes, field, number);
        }
        bytes.truncate(most);
        Ok(bytes)
    }

    fn get_status(&mut self, fd: Fd, arg: &Arg<'_>) -> Result<Vec<u8>, Errno> {
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
            ("sstat_assoc_id", u64::from(self.assoc_ids.of(id))),
            ("sstat_state", state as u64),
            ("sstat_rwnd", info.peer_rwnd.into()),
            ("sstat_unackdata", info.unacked as u64),
            ("sstat_instrms", inbound.into()),
            ("sstat_outstrms", outbound.into()),
            ("sstat_fragmentation_point", info.fragment_point as u64),
        ];
        let mut bytes = told("sctp_status", &numbers);
        if let Some(path) = info.paths.iter().find(|path| path.primary)
            && let Some((at, size)) = arg.of.field("sstat_primary")
        {
            let path = self.path_bytes(fd, id, path)?;
            bytes[at..at + size].copy_from_slice(&path);
        }
        Ok(bytes)
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

    /// SCTP_GET_PEER_ADDRS, SCTP_GET_LOCAL_ADDRS: identifier, number, addresses one behind the other.
    fn get_addrs(&mut self, fd: Fd, name: i32, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let assoc = int(given)? as u32;
        let addrs = match (name, self.sctp_named(fd, assoc)) {
            (SCTP_GET_PEER_ADDRS, id) => self.stack.sctp_addrs(id?)?.1,
            (_, Ok(id)) => self.stack.sctp_addrs(id)?.0,
            (_, Err(_)) => self.sctp(fd)?.bound.clone(),
        };
        let mut bytes = assoc.to_le_bytes().to_vec();
        bytes.extend((addrs.len() as u32).to_le_bytes());
        let sock = self.files.sock(fd)?;
        for addr in addrs {
            bytes.extend(sockaddr_bytes(sock.shown(addr)));
        }
        if bytes.len() > given.len() { Err(Errno::ENOMEM) } else { Ok(bytes) }
    }
}

const _: () = assert!(SOCKADDR_STORAGE == 128, "the structures above have addresses of this size");
