//! Writing to an SCTP socket: one message per call, with what RFC 6458 section 5.3 says about it (`sctp_sendmsg`).
use super::address::{sctp_addr, speaks};
use super::layout::layout;
use super::manner::Sinfo;
use super::sockopt::Init;
use super::{ADDRESSES_MAX, Style};
use crate::abi::*;
use crate::block::Progress;
use crate::call::{Call, Control, Fd, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::Kind;
use crate::host::Host;
use crate::send::Write;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::{Error, SocketId};
use lowwater_core::sctp::{SendInfo, State};

/// Flags that a message may have.
const FLAGS: i32 = SCTP_UNORDERED
    | SCTP_ADDR_OVER
    | SCTP_ABORT
    | SCTP_SACK_IMMEDIATELY
    | SCTP_SENDALL
    | SCTP_PR_SCTP_MASK
    | SCTP_EOF;

/// What a call says about its message; the rest is for the defaults of the association to say.
#[derive(Clone, Debug, Default)]
struct Said {
    /// SCTP_SNDINFO or SCTP_SNDRCV.
    sinfo: Option<Sinfo>,
    /// SCTP_SNDRCV also says how long it lives.
    lives: bool,
    /// SCTP_PRINFO.
    policy: Option<(i32, u32)>,
    /// SCTP_INIT, of an association that this call makes.
    init: Option<Init>,
    /// SCTP_DSTADDRV4 and V6: further addresses of the peer of such a one.
    addresses: Vec<IpAddr>,
}

impl Said {
    /// # Errors
    /// EINVAL for messages of the wrong length, unknown ones and unknown flags (`sctp_msghdr_parse`).
    fn of(control: &[Control]) -> Result<Self, Errno> {
        let mut said = Self::default();
        for c in control.iter().filter(|c| c.level == IPPROTO_SCTP) {
            said.take(c)?;
        }
        if said.flags() & !FLAGS != 0 || said.addresses.len() >= ADDRESSES_MAX {
            return Err(Errno::EINVAL);
        }
        Ok(said)
    }

    fn take(&mut self, c: &Control) -> Result<(), Errno> {
        let name = match c.ty {
            SCTP_SNDRCV => "sctp_sndrcvinfo",
            SCTP_SNDINFO => "sctp_sndinfo",
            SCTP_PRINFO => "sctp_prinfo",
            SCTP_INIT => "sctp_initmsg",
            SCTP_DSTADDRV4 | SCTP_DSTADDRV6 => {
                self.addresses.push(destination(c)?);
                return Ok(());
            }
            _ => return Err(Errno::EINVAL),
        };
        let of = layout(name).ok_or(Errno::EINVAL)?;
        if c.data.len() != of.size {
            return Err(Errno::EINVAL);
        }
        match c.ty {
            SCTP_SNDRCV => (self.sinfo, self.lives) = (Some(Sinfo::of_sndrcvinfo(of, &c.data)), true),
            SCTP_SNDINFO => (self.sinfo, self.lives) = (Some(Sinfo::of_sndinfo(of, &c.data)), false),
            SCTP_INIT => self.init = Some(Init::read(of, &c.data)),
            _ => {
                let (policy, value) = (of.number(&c.data, "pr_policy"), of.number(&c.data, "pr_value"));
                if policy as i32 & !SCTP_PR_SCTP_MASK != 0 {
                    return Err(Errno::EINVAL);
                }
                self.policy = Some((policy as i32, value as u32));
            }
        }
        Ok(())
    }

    /// Its flags; those of the defaults say nothing of what the call does.
    fn flags(&self) -> i32 {
        self.sinfo.map_or(0, |sinfo| sinfo.flags)
    }

    fn has(&self, flag: i32) -> bool {
        self.flags() & flag != 0
    }

    /// It ends its association.
    fn ends(&self) -> bool {
        self.has(SCTP_EOF | SCTP_ABORT)
    }

    fn assoc(&self) -> u32 {
        self.sinfo.map_or(0, |sinfo| sinfo.assoc)
    }

    /// What the message carries, with the defaults of its association where the call is silent (`sctp_sendmsg_update_sinfo`).
    fn message(&self, defaults: Sinfo) -> SendInfo {
        let mut sinfo = self.sinfo.unwrap_or(defaults);
        if self.sinfo.is_none() && self.policy.is_some() {
            sinfo.flags = 0;
        }
        if !self.lives {
            sinfo.timetolive = defaults.timetolive;
        }
        if let Some((policy, value)) = self.policy {
            sinfo.set_policy(policy, value);
        }
        SendInfo {
            stream: sinfo.stream,
            // The application's, byte for byte.
            ppid: u32::from_be(sinfo.ppid),
            unordered: sinfo.has(SCTP_UNORDERED),
            immediate: sinfo.has(SCTP_SACK_IMMEDIATELY),
            reliability: sinfo.reliability(),
            context: sinfo.context,
            to: None,
            more: false,
        }
    }
}

/// SCTP_DSTADDRV4, SCTP_DSTADDRV6: an address without a port.
fn destination(c: &Control) -> Result<IpAddr, Errno> {
    let v4: Result<[u8; 4], _> = c.data[..].try_into();
    let v6: Result<[u8; 16], _> = c.data[..].try_into();
    match (c.ty, v4, v6) {
        (SCTP_DSTADDRV4, Ok(v4), _) => Ok(v4.into()),
        (SCTP_DSTADDRV6, _, Ok(v6)) => Ok(IpAddr::from(v6).to_canonical()),
        _ => Err(Errno::EINVAL),
    }
}

impl Host {
    pub(super) fn sctp_send(&mut self, call: &Call, p: &mut Progress) -> Answer {
        let Call::Send { control, .. } = call else { return Err(Errno::EINVAL) };
        let write = Write::of(call)?;
        let said = Said::of(control)?;
        // Who has waited was told already that he may.
        if !p.begun {
            self.sctp_may_send(&write, &said)?;
        }
        if p.done > 0 {
            return self.sctp_sent(&write, p);
        }
        let sctp = self.sctp(write.fd)?;
        let (style, shut) = (sctp.style, sctp.shut);
        if shut {
            return Ok(Some(write.fail(Errno::EPIPE)));
        }
        if said.has(SCTP_SENDALL) && style.is_many() {
            return self.sctp_send_all(&write, &said).map(Some);
        }
        // What was peeled off has one peer, whatever a call names.
        let name = write.to.filter(|_| style != Style::Peeled);
        let to = match name {
            Some(name) => {
                let bound = self.sctp(write.fd)?.bound.first().copied();
                Some(Self::stack_remote(sctp_addr(self.files.sock(write.fd)?, name)?, bound))
            }
            None => None,
        };
        let target = match p.assoc {
            // What it waited for is gone: nothing begins in its place.
            Some(id) => Some((id, false)).filter(|_| self.has_assoc(write.fd, id)),
            None => self.sctp_target(&write, &said, to)?,
        };
        let Some((id, begun)) = target else {
            let error = self.files.sock_mut(write.fd)?.take_error();
            return Ok(Some(write.fail(error.unwrap_or(Errno::EPIPE))));
        };
        if said.ends() {
            return self.sctp_end(id, &write, &said).map(Some);
        }
        let chosen = style == Style::One || said.has(SCTP_ADDR_OVER);
        let path = to.filter(|_| chosen).map(|to| to.ip());
        match self.sctp_hand_over(id, &write, &said, path) {
            Ok(n) if begun => {
                (p.assoc, p.done) = (Some(id), n);
                self.sctp_sent(&write, p)
            }
            Ok(n) => Ok(Some(Reply::ok(n as i64))),
            Err(Error::WouldBlock) => {
                let sock = self.files.sock(write.fd)?;
                let (impatient, timeout) = (write.impatient(sock, p), sock.knobs.sndtimeo);
                if impatient && begun {
                    self.sctp_unbegin(write.fd, id)?;
                }
                if impatient {
                    return Err(Errno::EAGAIN);
                }
                p.assoc = Some(id);
                p.wait(self.now, timeout)
            }
            Err(e) => {
                if begun {
                    self.sctp_unbegin(write.fd, id)?;
                }
                Ok(Some(write.fail(e.into())))
            }
        }
    }

    /// The message that began an association was refused: nobody hears of either (`sctp_sendmsg` frees the association).
    fn sctp_unbegin(&mut self, fd: Fd, id: SocketId) -> Result<(), Errno> {
        if !self.sctp(fd)?.style.is_many() {
            return self.sctp_dissolve(fd, id);
        }
        let sctp = self.sctp_mut(fd)?;
        sctp.members.leave(id);
        sctp.inbox.note(id, None);
        self.sctp_forget(id);
        Ok(())
    }

    /// A message was queued that has begun its association: who may wait does so until that is up, or was refused; what became of it
    /// is told by notifications (`sctp_wait_for_connect`).
    fn sctp_sent(&self, write: &Write, p: &mut Progress) -> Answer {
        let sock = self.files.sock(write.fd)?;
        let state = p.assoc.map(|id| self.stack.sctp_state(id));
        let opening = matches!(state, Some(Ok(State::CookieWait | State::CookieEchoed)));
        if !opening || write.impatient(sock, p) || p.over() {
            return Ok(Some(Reply::ok(p.done as i64)));
        }
        p.arm(self.now, sock.knobs.sndtimeo);
        Ok(None)
    }

    /// # Errors
    /// What is wrong with a message whoever is to get it (`sctp_sendmsg_parse`).
    fn sctp_may_send(&self, write: &Write, said: &Said) -> Result<(), Errno> {
        if write.len > self.sctp_sndbuf(write.fd)? {
            return Err(Errno::EMSGSIZE);
        }
        if write.bad {
            return Err(Errno::EFAULT);
        }
        // One-to-one sockets end their association by shutdown() and close().
        let foreign = said.ends() && self.sctp(write.fd)?.style == Style::One;
        let empty = write.data.is_empty() && !said.ends();
        let reason = said.has(SCTP_EOF) && !write.data.is_empty();
        let nowhere = said.has(SCTP_ADDR_OVER) && write.to.is_none();
        if foreign || empty || reason || nowhere { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Queues the message for one association.
    fn sctp_hand_over(
        &mut self,
        id: SocketId,
        write: &Write,
        said: &Said,
        to: Option<IpAddr>,
    ) -> Result<usize, Error> {
        let defaults = self.sctp(write.fd).map_or_else(|_| Sinfo::default(), |s| s.manner_of(id).defaults);
        let info = SendInfo { to, more: write.has(MSG_MORE), ..said.message(defaults) };
        self.sctp_touch(write.fd, id);
        self.stack.sctp_send(self.now, id, write.data.clone(), info)
    }

    /// SCTP_EOF, which comes first (`sctp_sendmsg_check_sflags`), or SCTP_ABORT with the message as reason.
    fn sctp_end(&mut self, id: SocketId, write: &Write, said: &Said) -> Result<Reply, Errno> {
        self.sctp_touch(write.fd, id);
        if said.has(SCTP_EOF) {
            self.stack.sctp_shutdown(self.now, id)?;
        } else {
            self.stack.sctp_abort(self.now, id, &write.data)?;
        }
        Ok(Reply::ok(0))
    }

    /// SCTP_SENDALL: to every association that is up, as far as they take it; who waits for one of them would hold up the others.
    fn sctp_send_all(&mut self, write: &Write, said: &Said) -> Result<Reply, Errno> {
        let mut last = Reply::ok(0);
        for id in self.assocs_of(write.fd) {
            if self.stack.sctp_state(id) != Ok(State::Established) {
                last = Reply::ok(0);
                continue;
            }
            last = match said.ends() {
                true => self.sctp_end(id, write, said)?,
                false => Reply::ok(self.sctp_hand_over(id, write, said, None)? as i64),
            };
        }
        Ok(last)
    }

    /// The association that a message goes to, and whether that begins with it (`sctp_sendmsg_new_asoc`).
    fn sctp_target(
        &mut self,
        write: &Write,
        said: &Said,
        to: Option<SocketAddr>,
    ) -> Result<Option<(SocketId, bool)>, Errno> {
        let many = self.sctp(write.fd)?.style.is_many();
        match (self.files.sock(write.fd)?.kind, to) {
            (Kind::Conn(_), Some(to)) if self.sctp_with(write.fd, to).is_none() => {
                return Err(Errno::EADDRNOTAVAIL);
            }
            (Kind::Conn(id), _) => return Ok(Some((id, false))),
            (Kind::Listener(_), _) if !many => return Ok(None),
            _ => {}
        }
        let Some(to) = to else {
            let named = self.sctp_named(write.fd, said.assoc()).ok();
            return Ok(named.filter(|_| many).map(|id| (id, false)));
        };
        if let Some(id) = self.sctp_with(write.fd, to) {
            return Ok(Some((id, false)));
        }
        if said.ends() {
            return Err(Errno::EINVAL);
        }
        Ok(Some((self.sctp_begin(write.fd, said, to)?, true)))
    }

    /// Begins the association that a message asks for.
    fn sctp_begin(&mut self, fd: Fd, said: &Said, to: SocketAddr) -> Result<SocketId, Errno> {
        let sctp = self.sctp_mut(fd)?;
        let (before, defaults) = (sctp.options.clone(), sctp.manner.defaults);
        let mut options = before.clone();
        if let Some(init) = said.init {
            init.apply(&mut options);
        }
        let stream = said.message(defaults).stream;
        let sock = self.files.sock(fd)?;
        if stream >= options.num_ostreams || !said.addresses.iter().all(|ip| speaks(sock, *ip)) {
            return Err(Errno::EINVAL);
        }
        self.sctp_mut(fd)?.options = options;
        let mut remotes = vec![to];
        remotes.extend(said.addresses.iter().map(|ip| SocketAddr::new(*ip, to.port())));
        let opened = self.sctp_open(fd, &remotes);
        self.sctp_mut(fd)?.options = before;
        opened
    }
}
