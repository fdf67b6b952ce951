//! TCP Fast Open in the client's calls: MSG_FASTOPEN, and the first write after TCP_FASTOPEN_CONNECT (`tcp_sendmsg_fastopen`).
use crate::block::Progress;
use crate::call::{Name, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{Attempt, Kind, take_addr};
use crate::host::Host;
use crate::send::Write;
use lowwater_core::base::{Error, SocketId};

/// Bit of `tcp_fastopen` that lets clients send data with a SYN.
const CLIENT: u32 = 1;

impl Host {
    /// The part of a write that goes with the SYN. `Ok(None)` when the connection is there and the write goes on as any other.
    ///
    /// # Errors
    /// EOPNOTSUPP, EISCONN, EALREADY, EINPROGRESS when the SYN took nothing, or why connecting failed.
    pub(crate) fn send_fast(&mut self, write: &Write, p: &mut Progress) -> Result<Option<Answer>, Errno> {
        if self.stack.sysctl().tcp_fastopen & CLIENT == 0 || matches!(write.to, Some(Name::Unspec(..))) {
            return Err(Errno::EOPNOTSUPP);
        }
        let sock = self.files.sock(write.fd)?;
        let nonblocking = write.impatient(sock, p);
        // Before anything else (`tcp_sendmsg_fastopen`: `fastopen_req`).
        if matches!(sock.kind, Kind::Conn(_)) && sock.knobs.past.asked && !p.begun {
            return Err(Errno::EALREADY);
        }
        let deferred = matches!(sock.kind, Kind::Conn(id) if self.stack.tcp_is_deferred(id));
        // Before anybody asks how far the connection is (`__inet_stream_connect`), but where its SYN waits for this write.
        if matches!(write.to, Some(Name::Short(0, _))) && !deferred {
            return Err(Errno::EINVAL);
        }
        match sock.kind {
            // What it waited for was dissolved: what went with the SYN does not count.
            Kind::Fresh if p.begun && p.first => {
                let error = self.files.sock_mut(write.fd)?.take_error();
                Err(error.unwrap_or(Errno::EPIPE))
            }
            Kind::Fresh if p.begun => Ok(None),
            Kind::Fresh => {
                let remote = take_addr(sock.v6, write.to.ok_or(Errno::EINVAL)?)?;
                let (id, taken) = self.open_connection(write.fd, remote, Some(&write.data))?;
                p.done = taken;
                self.after_syn(write, id, nonblocking, p)
            }
            Kind::Conn(id) if self.stack.tcp_is_deferred(id) => {
                p.done = match self.stack.tcp_send(
                    self.now,
                    id,
                    &write.data,
                    write.send_flags(!nonblocking, p.begun, false),
                ) {
                    Ok(taken) => taken,
                    Err(Error::WouldBlock) => 0,
                    Err(e) => return Err(e.into()),
                };
                self.after_syn(write, id, nonblocking, p)
            }
            Kind::Conn(_) if sock.attempt == Attempt::Spoilt && !p.begun => Err(Errno::EINVAL),
            Kind::Conn(id) if sock.attempt != Attempt::None => {
                let still = if p.first { Errno::EINPROGRESS } else { Errno::EALREADY };
                if p.over() {
                    self.end_wait_to_write(write.fd, id)?;
                }
                match self.connect_result(write.fd, id, nonblocking, still, p) {
                    // What went with the SYN counts where the wait for the rest is over.
                    Err(Errno::EINPROGRESS) if p.done > 0 => Ok(Some(Ok(Some(Reply::ok(p.done as i64))))),
                    Err(errno) => Err(errno),
                    Ok(Some(_)) => {
                        // Whatever it looks at before a write it looks at now (`tcp_sendmsg_locked`).
                        p.first = true;
                        Ok(None)
                    }
                    Ok(None) => Ok(Some(Ok(None))),
                }
            }
            // The part before a wait is done; a call on what is connected must not ask for a connection.
            Kind::Conn(_) if p.begun => Ok(None),
            Kind::Conn(_) | Kind::Listener(_) | Kind::Udp(_) => Err(Errno::EISCONN),
        }
    }

    /// The SYN is on its way: who must not wait has what it took.
    fn after_syn(
        &mut self,
        write: &Write,
        id: SocketId,
        nonblocking: bool,
        p: &mut Progress,
    ) -> Result<Option<Answer>, Errno> {
        if nonblocking && p.done > 0 {
            return Ok(Some(Ok(Some(Reply::ok(p.done as i64)))));
        }
        if !nonblocking && p.done < write.data.len() {
            self.stack.tcp_expect_write(self.now, id, true)?;
        }
        p.first = true;
        match self.connect_result(write.fd, id, nonblocking, Errno::EINPROGRESS, p)? {
            Some(_) => Ok(None),
            None => Ok(Some(Ok(None))),
        }
    }
}
