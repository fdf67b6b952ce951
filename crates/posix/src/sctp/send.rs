//! Writing to an SCTP socket: one message per call, with what RFC 6458 section 5.3 says about it (`sctp_sendmsg`).
use super::layout::layout;
use crate::abi::{
    IPPROTO_SCTP, SCTP_ABORT, SCTP_ADDR_OVER, SCTP_EOF, SCTP_INIT, SCTP_PR_SCTP_TTL, SCTP_PRINFO,
    SCTP_SACK_IMMEDIATELY, SCTP_SNDINFO, SCTP_SNDRCV, SCTP_UNORDERED,
};
use crate::block::Progress;
use crate::call::{Call, Control, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{Kind, take_addr};
use crate::host::Host;
use crate::send::Write;
use core::net::SocketAddr;
use lowwater_core::base::{Duration, Error, SocketId};
use lowwater_core::sctp::SendInfo;

/// What a call says about its message.
#[derive(Clone, Copy, Debug)]
struct About {
    info: SendInfo,
    flags: i32,
    assoc: u32,
    /// Streams to send on and to receive on of an association that this call makes (SCTP_INIT).
    init: Option<(u16, u16)>,
}

impl About {
    /// # Errors
    /// EINVAL for messages of the wrong length and unknown ones (`sctp_msghdr_parse`).
    fn of(defaults: SendInfo, control: &[Control]) -> Result<Self, Errno> {
        let mut about = Self { info: defaults, flags: 0, assoc: 0, init: None };
        for c in control.iter().filter(|c| c.level == IPPROTO_SCTP) {
            let name = match c.ty {
                SCTP_SNDRCV => "sctp_sndrcvinfo",
                SCTP_SNDINFO => "sctp_sndinfo",
                SCTP_PRINFO => "sctp_prinfo",
                SCTP_INIT => "sctp_initmsg",
                _ => return Err(Errno::EINVAL),
            };
            let of = layout(name).ok_or(Errno::EINVAL)?;
            if c.data.len() != of.size {
                return Err(Errno::EINVAL);
            }
            let n = |field| of.number(&c.data, field);
            match c.ty {
                SCTP_SNDRCV => {
                    about.take(n("sinfo_stream"), n("sinfo_ppid"), n("sinfo_context"));
                    about.lifetime(n("sinfo_timetolive"));
                    (about.flags, about.assoc) = (n("sinfo_flags") as i32, n("sinfo_assoc_id") as u32);
                }
                SCTP_SNDINFO => {
                    about.take(n("snd_sid"), n("snd_ppid"), n("snd_context"));
                    (about.flags, about.assoc) = (n("snd_flags") as i32, n("snd_assoc_id") as u32);
                }
                SCTP_PRINFO if n("pr_policy") as i32 == SCTP_PR_SCTP_TTL => about.lifetime(n("pr_value")),
                SCTP_PRINFO => {}
                _ => {
                    about.init = Some((n("sinit_num_ostreams") as u16, n("sinit_max_instreams") as u16));
                }
            }
        }
        about.info.unordered |= about.flags & SCTP_UNORDERED != 0;
        about.info.immediate |= about.flags & SCTP_SACK_IMMEDIATELY != 0;
        Ok(about)
    }

    fn take(&mut self, stream: u64, ppid: u64, context: u64) {
        self.info.stream = stream as u16;
        // The application's, byte for byte.
        self.info.ppid = u32::from_be(ppid as u32);
        self.info.context = context as u32;
    }

    fn lifetime(&mut self, ms: u64) {
        self.info.lifetime = (ms > 0).then(|| Duration::from_millis(ms));
    }

    const fn has(&self, flag: i32) -> bool {
        self.flags & flag != 0
    }
}

impl Host {
    pub(super) fn sctp_send(&mut self, call: &Call, p: &mut Progress) -> Answer {
        let Call::Send { control, .. } = call else { return Err(Errno::EINVAL) };
        let write = Write::of(call)?;
        let sctp = self.sctp(write.fd)?;
        let (many, shut) = (sctp.many, sctp.shut);
        let about = About::of(sctp.defaults, control)?;
        if write.data.len() > self.sctp_sndbuf(write.fd)? {
            return Err(Errno::EMSGSIZE);
        }
        if write.bad {
            return Err(Errno::EFAULT);
        }
        // Only one-to-many sockets end an association by a message (`sctp_sendmsg_parse`).
        let ends = about.has(SCTP_EOF) || about.has(SCTP_ABORT);
        if (ends && !many)
            || (write.data.is_empty() && !ends)
            || (about.has(SCTP_EOF) && !write.data.is_empty())
        {
            return Err(Errno::EINVAL);
        }
        if shut {
            return Ok(Some(write.fail(Errno::EPIPE)));
        }
        let to = match write.to {
            Some(name) => {
                let bound = self.sctp(write.fd)?.bound.first().copied();
                Some(Self::stack_remote(take_addr(self.files.sock(write.fd)?.v6, name)?, bound))
            }
            None => None,
        };
        let target = match p.assoc {
            // What it waited for is gone: nothing begins in its place.
            Some(id) => Some(id).filter(|id| self.assocs_of(write.fd).contains(id)),
            None => self.sctp_target(&write, &about, to)?,
        };
        let Some(id) = target else {
            let error = self.files.sock_mut(write.fd)?.take_error();
            return Ok(Some(write.fail(error.unwrap_or(Errno::EPIPE))));
        };
        if about.has(SCTP_ABORT) {
            self.stack.sctp_abort(self.now, id, &write.data)?;
            return Ok(Some(Reply::ok(write.data.len() as i64)));
        }
        if about.has(SCTP_EOF) {
            self.stack.sctp_shutdown(self.now, id)?;
            return Ok(Some(Reply::ok(0)));
        }
        let mut info = about.info;
        info.to = to.filter(|_| about.has(SCTP_ADDR_OVER)).map(|to| to.ip());
        match self.stack.sctp_send(self.now, id, write.data.clone(), info) {
            Ok(n) => Ok(Some(Reply::ok(n as i64))),
            Err(Error::WouldBlock) => {
                let sock = self.files.sock(write.fd)?;
                if write.impatient(sock) {
                    return Err(Errno::EAGAIN);
                }
                let timeout = sock.knobs.sndtimeo;
                p.assoc = Some(id);
                p.wait(self.now, timeout)
            }
            Err(e) => Ok(Some(write.fail(e.into()))),
        }
    }

    /// The association that a message goes to; one that has no address makes one (`sctp_sendmsg_new_asoc`).
    fn sctp_target(
        &mut self,
        write: &Write,
        about: &About,
        to: Option<SocketAddr>,
    ) -> Result<Option<SocketId>, Errno> {
        let many = self.sctp(write.fd)?.many;
        match self.files.sock(write.fd)?.kind {
            Kind::Conn(id) => return Ok(Some(id)),
            Kind::Listener(_) if !many => return Ok(None),
            _ => {}
        }
        let Some(to) = to else {
            return Ok(if many { self.sctp_named(write.fd, about.assoc).ok() } else { None });
        };
        if let Some(id) = self.sctp_with(write.fd, to) {
            return Ok(Some(id));
        }
        if about.has(SCTP_EOF) || about.has(SCTP_ABORT) {
            return Ok(None);
        }
        let before = self.sctp(write.fd)?.options.clone();
        if let Some((out, inn)) = about.init {
            let options = &mut self.sctp_mut(write.fd)?.options;
            options.num_ostreams = if out > 0 { out } else { options.num_ostreams };
            options.max_instreams = if inn > 0 { inn } else { options.max_instreams };
        }
        let opened = self.sctp_open(write.fd, &[to]);
        self.sctp_mut(write.fd)?.options = before;
        opened.map(Some)
    }
}
