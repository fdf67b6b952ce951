//! Options of an association as a whole: timeouts, retransmissions, streams, sizes, acknowledgements, controllers.
use super::arg::{Arg, int, or_keep};
use super::assoc_value;
use super::scope::Scope;
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::host::Host;
use crate::sctp::layout::layout;
use crate::sockopt::NAME_MAX;
use lowwater_core::base::sysctl::SctpCongestionKind;
use lowwater_core::sctp::handshake::init::Features;
use lowwater_core::sctp::{AssocInfo, Reconfigurable, SctpOptions};

/// Longest delay of an acknowledgement in milliseconds (RFC 9260 section 6.2).
pub(super) const SACK_DELAY_MAX: u32 = 500;
/// Bytes of a packet that is always large enough (`SCTP_DEFAULT_MINSEGMENT`), and what of it is no data.
const MINSEGMENT: i32 = 512;
const HEADERS: i32 = 12 + 16;
/// Largest user data of one chunk (`SCTP_MAX_CHUNK_LEN` without the header).
const MAXSEG_MAX: i32 = 65_532 - 16;

impl Host {
    pub(super) fn set_rto(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let scope = self.sctp_scope(fd, arg.n("srto_assoc_id"), false)?;
        let before = self.sctp_live(fd, &scope)?.rto;
        let (min, max) =
            (or_keep(arg.n("srto_min"), before.min_ms), or_keep(arg.n("srto_max"), before.max_ms));
        let initial = or_keep(arg.n("srto_initial"), before.initial_ms);
        if min > max {
            return Err(Errno::EINVAL);
        }
        let rto = |o: &mut SctpOptions| (o.rto.initial_ms, o.rto.min_ms, o.rto.max_ms) = (initial, min, max);
        self.sctp_change(fd, &scope, rto)
    }

    pub(super) fn get_rto(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let scope = self.sctp_scope(fd, arg.n("srto_assoc_id"), false)?;
        let rto = self.sctp_live(fd, &scope)?.rto;
        let pairs = [("srto_initial", rto.initial_ms), ("srto_max", rto.max_ms), ("srto_min", rto.min_ms)];
        Ok(arg.put(&pairs.map(|(name, ms)| (name, u64::from(ms)))).into_bytes())
    }

    /// SCTP_ASSOCINFO. The association cannot have more patience than all of its paths, if they are several
    /// (`sctp_setsockopt_associnfo`).
    pub(super) fn set_assoc(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let scope = self.sctp_scope(fd, arg.n("sasoc_assoc_id"), false)?;
        let (retrans, life) = (arg.n("sasoc_asocmaxrxt"), arg.n("sasoc_cookie_life"));
        if let Some(id) = scope.one() {
            let paths = self.stack.sctp_info(id)?.paths;
            let sum: u32 = paths.iter().map(|path| u32::from(path.options.max_retrans)).sum();
            if paths.len() > 1 && retrans > sum {
                return Err(Errno::EINVAL);
            }
        }
        self.sctp_change(fd, &scope, |o| {
            o.association_max_retrans = or_keep(retrans, o.association_max_retrans.into()) as u16;
            o.cookie_life_ms = or_keep(life, o.cookie_life_ms);
        })
    }

    pub(super) fn get_assoc(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let scope = self.sctp_scope(fd, arg.n("sasoc_assoc_id"), false)?;
        let o = self.sctp_live(fd, &scope)?;
        let info = scope.one().and_then(|id| self.stack.sctp_info(id).ok());
        let live = |f: fn(&AssocInfo) -> u32| u64::from(info.as_ref().map_or(0, f));
        let numbers = [
            ("sasoc_asocmaxrxt", o.association_max_retrans.into()),
            ("sasoc_number_peer_destinations", live(|i| i.paths.len() as u32)),
            ("sasoc_peer_rwnd", live(|i| i.peer_rwnd)),
            ("sasoc_local_rwnd", live(|i| i.rwnd)),
            ("sasoc_cookie_life", o.cookie_life_ms.into()),
        ];
        Ok(arg.put(&numbers).into_bytes())
    }

    /// SCTP_INITMSG: of associations to come.
    pub(super) fn set_init(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let init = Init::of(arg);
        self.sctp_change(fd, &Scope::FUTURE, |o| init.apply(o))
    }

    pub(super) fn get_init(&self, o: &SctpOptions) -> Vec<u8> {
        let numbers = [
            ("sinit_num_ostreams", o.num_ostreams.into()),
            ("sinit_max_instreams", o.max_instreams.into()),
            ("sinit_max_attempts", o.max_init_retransmits.into()),
            ("sinit_max_init_timeo", or_keep(o.max_init_timeo_ms, o.rto.max_ms).into()),
        ];
        layout("sctp_initmsg").map_or_else(Vec::new, |of| of.build(&numbers))
    }

    /// Numbers behind an identifier.
    pub(super) fn set_value(&mut self, fd: Fd, name: i32, bytes: &[u8]) -> Result<(), Errno> {
        let (assoc, value) = assoc_value(bytes)?;
        let several = matches!(name, SCTP_MAX_BURST | SCTP_CONTEXT | SCTP_ENABLE_STREAM_RESET);
        let scope = self.sctp_scope(fd, assoc, several)?;
        match name {
            SCTP_MAX_BURST => {
                let n = u32::try_from(value).map_err(|_| Errno::EINVAL)?;
                self.sctp_change(fd, &scope, |o| o.max_burst = n)
            }
            SCTP_CONTEXT => self.sctp_change_manner(fd, &scope, |manner| manner.context = value as u32),
            SCTP_ENABLE_STREAM_RESET => {
                let rights = u8::try_from(value).map_or(Reconfigurable(u8::MAX), Reconfigurable);
                if rights.0 & !Reconfigurable::ALL.0 != 0 {
                    return Err(Errno::EINVAL);
                }
                self.sctp_change(fd, &scope, |o| o.reconfigurable = rights)
            }
            SCTP_PR_SUPPORTED | SCTP_ECN_SUPPORTED | SCTP_RECONFIG_SUPPORTED => {
                let bit = feature(name);
                let on = if value == 0 { 0 } else { bit };
                let change = |o: &mut SctpOptions| o.features.0 = o.features.0 & !bit | on;
                self.sctp_change(fd, &Scope::FUTURE, change)
            }
            _ => {
                let ip = if self.files.sock(fd)?.v6 { 40 } else { 20 };
                let fits = MINSEGMENT - ip - HEADERS..=MAXSEG_MAX;
                if value != 0 && !fits.contains(&value) {
                    return Err(Errno::EINVAL);
                }
                self.sctp_change(fd, &scope, |o| o.maxseg = value as u16)
            }
        }
    }

    pub(super) fn get_value(&mut self, fd: Fd, name: i32, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let whole = layout("sctp_assoc_value").is_some_and(|of| given.len() >= of.size);
        let assoc = if whole { int(given)? as u32 } else { SCTP_FUTURE_ASSOC as u32 };
        let scope = self.sctp_scope(fd, assoc, false)?;
        let o = self.sctp_live(fd, &scope)?;
        let value = match name {
            SCTP_MAX_BURST => o.max_burst,
            SCTP_CONTEXT => self.sctp_manner(fd, &scope)?.context,
            SCTP_ENABLE_STREAM_RESET => o.reconfigurable.0.into(),
            // What both sides have offered, where there are two.
            SCTP_PR_SUPPORTED | SCTP_ECN_SUPPORTED | SCTP_RECONFIG_SUPPORTED => match scope.one() {
                Some(id) => self.stack.sctp_info(id)?.features.has(feature(name)).into(),
                None => o.features.has(feature(name)).into(),
            },
            _ => match scope.one() {
                Some(id) => self.stack.sctp_info(id)?.fragment_point as u32,
                None => o.maxseg.into(),
            },
        };
        let mut bytes = value.to_le_bytes().to_vec();
        if whole {
            bytes = [assoc.to_le_bytes(), value.to_le_bytes()].concat();
        }
        if name == SCTP_MAX_BURST {
            // The length stays as it was asked for.
            bytes.extend(given.get(8..).unwrap_or_default());
        }
        Ok(bytes)
    }

    /// SCTP_DELAYED_SACK: a structure, or in the old form the delay alone, of which none is none.
    pub(super) fn set_sack(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let (assoc, delay, freq) = match Arg::new("sctp_sack_info", bytes) {
            Ok(arg) => (arg.n("sack_assoc_id"), arg.n("sack_delay"), arg.n("sack_freq")),
            Err(_) => {
                let (assoc, delay) = assoc_value(bytes)?;
                (assoc, delay as u32, u32::from(delay == 0))
            }
        };
        if delay > SACK_DELAY_MAX {
            return Err(Errno::EINVAL);
        }
        let scope = self.sctp_scope(fd, assoc, true)?;
        self.change_sack(fd, &scope, |sack| sack.apply(delay, freq))
    }

    /// Changes when acknowledgements leave.
    pub(super) fn change_sack(
        &mut self,
        fd: Fd,
        scope: &Scope,
        change: impl Fn(&mut crate::sctp::manner::Sack),
    ) -> Result<(), Errno> {
        self.sctp_change_manner(fd, scope, |manner| change(&mut manner.sack))?;
        let future = Scope { future: scope.future, of: Vec::new() };
        if scope.future {
            let sack = self.sctp(fd)?.manner.sack;
            self.sctp_change(fd, &future, |o| sack.tell(o))?;
        }
        for id in &scope.of {
            let sack = self.sctp(fd)?.manner_of(*id).sack;
            self.sctp_change(fd, &Scope { future: false, of: vec![*id] }, |o| sack.tell(o))?;
        }
        Ok(())
    }

    pub(super) fn get_sack(&mut self, fd: Fd, given: &[u8]) -> Result<Vec<u8>, Errno> {
        let whole = Arg::new("sctp_sack_info", given);
        let assoc = int(given)? as u32;
        let scope = self.sctp_scope(fd, assoc, false)?;
        let sack = self.sctp_manner(fd, &scope)?.sack;
        let (delay, freq) = if sack.delayed { (sack.delay_ms, sack.freq) } else { (0, 1) };
        Ok(match whole {
            Ok(arg) => arg.put(&[("sack_delay", delay.into()), ("sack_freq", freq.into())]).into_bytes(),
            Err(_) => [assoc.to_le_bytes(), delay.to_le_bytes()].concat(),
        })
    }

    /// SCTP_CONGESTION: a name, as for TCP_CONGESTION.
    pub(super) fn set_sctp_congestion(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Err(Errno::EINVAL);
        }
        let name = bytes.split(|b| *b == 0).next().unwrap_or_default();
        let kind = SctpCongestionKind::ALL.into_iter().find(|k| k.name().as_bytes() == name);
        let kind = kind.ok_or(Errno::ENOENT)?;
        let everywhere = self.sctp_everywhere(fd);
        self.sctp_change(fd, &everywhere, |o| o.congestion = kind)
    }

    pub(super) fn get_sctp_congestion(o: &SctpOptions) -> Vec<u8> {
        let mut name = o.congestion.name().as_bytes().to_vec();
        name.resize(NAME_MAX, 0);
        name
    }
}

/// The extension that an option is about.
const fn feature(name: i32) -> u8 {
    match name {
        SCTP_ECN_SUPPORTED => Features::ECN,
        SCTP_RECONFIG_SUPPORTED => Features::RECONF,
        _ => Features::FORWARD_TSN,
    }
}

/// A struct sctp_initmsg; zeros change nothing.
#[derive(Clone, Copy, Debug)]
pub(in crate::sctp) struct Init {
    pub(in crate::sctp) ostreams: u32,
    instreams: u32,
    attempts: u32,
    timeo_ms: u32,
}

impl Init {
    fn of(arg: &Arg) -> Self {
        Self::read(arg.layout(), arg.bytes())
    }

    pub(in crate::sctp) fn read(of: &crate::sctp::layout::Layout, bytes: &[u8]) -> Self {
        let n = |field| of.number(bytes, field) as u32;
        Self {
            ostreams: n("sinit_num_ostreams"),
            instreams: n("sinit_max_instreams"),
            attempts: n("sinit_max_attempts"),
            timeo_ms: n("sinit_max_init_timeo"),
        }
    }

    pub(in crate::sctp) fn apply(&self, o: &mut SctpOptions) {
        o.num_ostreams = or_keep(self.ostreams, o.num_ostreams.into()) as u16;
        o.max_instreams = or_keep(self.instreams, o.max_instreams.into()) as u16;
        o.max_init_retransmits = or_keep(self.attempts, o.max_init_retransmits.into()) as u16;
        o.max_init_timeo_ms = or_keep(self.timeo_ms, o.max_init_timeo_ms);
    }
}
