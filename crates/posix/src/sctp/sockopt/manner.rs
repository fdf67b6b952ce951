//! Options about messages and notifications: what is told, and what a message carries whose sender says nothing.
use super::arg::Arg;
use super::scope::Scope;
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::host::Host;
use crate::sctp::Manner;
use crate::sctp::manner::{Events, Sinfo};

/// Flags that a default may have (`sctp_setsockopt_default_sndinfo`).
const DEFAULT_FLAGS: i32 = SCTP_UNORDERED | SCTP_ADDR_OVER | SCTP_ABORT | SCTP_EOF;

impl Host {
    /// SCTP_EVENTS: a byte for each type, as many as the caller knows; the others stay.
    pub(super) fn set_events(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.len() > Events::COUNT {
            return Err(Errno::EINVAL);
        }
        let mut events = self.sctp(fd)?.manner.events;
        for (ty, byte) in (SCTP_SN_TYPE_BASE..).zip(bytes) {
            events.set(ty, *byte != 0);
        }
        let everywhere = self.sctp_everywhere(fd);
        self.change_events(fd, &everywhere, |wanted| *wanted = events)
    }

    pub(super) fn get_events(&self, fd: Fd) -> Result<Vec<u8>, Errno> {
        let events = self.sctp(fd)?.manner.events;
        Ok((SCTP_SN_TYPE_BASE..).take(Events::COUNT).map(|ty| u8::from(events.has(ty))).collect())
    }

    /// SCTP_EVENT: one type.
    pub(super) fn set_event(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let (ty, on) = (arg.n("se_type") as i32, arg.n("se_on") != 0);
        if !Events::knows(ty) {
            return Err(Errno::EINVAL);
        }
        let scope = self.sctp_scope(fd, arg.n("se_assoc_id"), true)?;
        self.change_events(fd, &scope, |events| events.set(ty, on))
    }

    fn change_events(&mut self, fd: Fd, scope: &Scope, change: impl Fn(&mut Events)) -> Result<(), Errno> {
        self.sctp_change_manner(fd, scope, |manner| change(&mut manner.events))?;
        if scope.future {
            let wanted = self.sctp(fd)?.manner.events.subscriptions();
            self.sctp_change(fd, &Scope::FUTURE, |o| o.events = wanted)?;
        }
        for id in &scope.of {
            let wanted = self.sctp(fd)?.manner_of(*id).events.subscriptions();
            self.sctp_change(fd, &Scope { future: false, of: vec![*id] }, |o| o.events = wanted)?;
        }
        Ok(())
    }

    pub(super) fn get_event(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let ty = arg.n("se_type") as i32;
        if !Events::knows(ty) {
            return Err(Errno::EINVAL);
        }
        let scope = self.sctp_scope(fd, arg.n("se_assoc_id"), false)?;
        let on = self.sctp_manner(fd, &scope)?.events.has(ty);
        Ok(arg.put(&[("se_on", on.into())]).into_bytes())
    }

    fn set_defaults(
        &mut self,
        fd: Fd,
        sinfo: Sinfo,
        change: impl Fn(&mut Sinfo, Sinfo),
    ) -> Result<(), Errno> {
        if sinfo.flags & !DEFAULT_FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        let scope = self.sctp_scope(fd, sinfo.assoc, true)?;
        self.sctp_change_manner(fd, &scope, |manner| change(&mut manner.defaults, sinfo))
    }

    /// SCTP_DEFAULT_SEND_PARAM.
    pub(super) fn set_send_param(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let sinfo = Sinfo::of_sndrcvinfo(arg.layout(), arg.bytes());
        self.set_defaults(fd, sinfo, |defaults, new| *defaults = new)
    }

    /// SCTP_DEFAULT_SNDINFO: the lifetime stays.
    pub(super) fn set_sndinfo(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let sinfo = Sinfo::of_sndinfo(arg.layout(), arg.bytes());
        let change = |defaults: &mut Sinfo, new| *defaults = Sinfo { timetolive: defaults.timetolive, ..new };
        self.set_defaults(fd, sinfo, change)
    }

    fn manner_named(&mut self, fd: Fd, assoc: u32) -> Result<Manner, Errno> {
        let scope = self.sctp_scope(fd, assoc, false)?;
        self.sctp_manner(fd, &scope)
    }

    pub(super) fn get_send_param(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let sinfo = self.manner_named(fd, arg.n("sinfo_assoc_id"))?.defaults;
        let numbers = [
            ("sinfo_stream", sinfo.stream.into()),
            ("sinfo_flags", sinfo.flags as u64),
            ("sinfo_ppid", sinfo.ppid.into()),
            ("sinfo_context", sinfo.context.into()),
            ("sinfo_timetolive", sinfo.timetolive.into()),
        ];
        Ok(arg.put(&numbers).into_bytes())
    }

    pub(super) fn get_sndinfo(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let sinfo = self.manner_named(fd, arg.n("snd_assoc_id"))?.defaults;
        let numbers = [
            ("snd_sid", sinfo.stream.into()),
            ("snd_flags", sinfo.flags as u64),
            ("snd_ppid", sinfo.ppid.into()),
            ("snd_context", sinfo.context.into()),
        ];
        Ok(arg.put(&numbers).into_bytes())
    }

    /// SCTP_DEFAULT_PRINFO: when messages are given up.
    pub(super) fn set_prinfo(&mut self, fd: Fd, arg: &Arg) -> Result<(), Errno> {
        let (policy, value) = (arg.n("pr_policy") as i32, arg.n("pr_value"));
        if policy & !SCTP_PR_SCTP_MASK != 0 {
            return Err(Errno::EINVAL);
        }
        let scope = self.sctp_scope(fd, arg.n("pr_assoc_id"), true)?;
        self.sctp_change_manner(fd, &scope, |manner| manner.defaults.set_policy(policy, value))
    }

    pub(super) fn get_prinfo(&mut self, fd: Fd, arg: Arg) -> Result<Vec<u8>, Errno> {
        let sinfo = self.manner_named(fd, arg.n("pr_assoc_id"))?.defaults;
        let policy = sinfo.policy();
        let value = if policy == SCTP_PR_SCTP_NONE { 0 } else { sinfo.timetolive };
        Ok(arg.put(&[("pr_policy", policy as u64), ("pr_value", value.into())]).into_bytes())
    }
}
