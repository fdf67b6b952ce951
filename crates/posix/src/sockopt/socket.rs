//! Options of the level SOL_SOCKET (`sk_setsockopt`, `sk_getsockopt`).
use super::{Told, Value, stamps};
use crate::abi::*;
use crate::call::{Fd, sockaddr};
use crate::errno::Errno;
use crate::files::{Kind, Sock};
use crate::host::Host;
use crate::poll::WRITE_SPACE;
use bytes::{BufMut as _, Bytes, BytesMut};
use lowwater_core::base::Duration;
use lowwater_core::tcp::Memory;
use lowwater_core::tcp::window::Ratio;

/// Smallest SO_SNDBUF and SO_RCVBUF as they read back (`SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`).
const SNDBUF_MIN: u32 = 4_608;
const RCVBUF_MIN: u32 = 2_304;
/// Bytes of struct ucred: no process, nobody, no group.
const NO_PEER: [i32; 3] = [0, -1, -1];

/// Bytes of the longest name of a device with its NUL.
const IFNAMSIZ: usize = 16;

/// Bytes of a `struct dmabuf_token`, and of as many as one call takes (`MAX_DONTNEED_TOKENS`).
const DMABUF_TOKEN: usize = 8;
const DMABUF_TOKENS_MAX: usize = 128 * DMABUF_TOKEN;

/// struct timeval of a timeout; zero for none.
fn timeval(timeout: Option<Duration>) -> Told {
    let mut out = BytesMut::new();
    let t = timeout.unwrap_or_default();
    out.put_slice(&t.as_secs().to_ne_bytes());
    out.put_slice(&u64::from(t.subsec_micros()).to_ne_bytes());
    Told::Bytes(out.freeze())
}

/// Seconds from which on a timeout is none, as more than fits into jiffies (`MAX_SCHEDULE_TIMEOUT`, of a kernel of 250 Hz).
const FOR_EVER: u64 = i64::MAX as u64 / 250 - 1;

/// `sock_set_timeout`: zero waits for ever, below zero does not wait at all.
fn read_timeval(value: &Value<'_>) -> Result<Option<Duration>, Errno> {
    if value.len() < 16 {
        return Err(Errno::EINVAL);
    }
    let (seconds, micros) = (value.long(0)?, value.long(1)?);
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno::EDOM);
    }
    let Ok(seconds) = u64::try_from(seconds) else { return Ok(Some(Duration::ZERO)) };
    if seconds >= FOR_EVER {
        return Ok(None);
    }
    let t = Duration::from_secs(seconds) + Duration::from_micros(micros.unsigned_abs());
    Ok((!t.is_zero()).then_some(t))
}

fn clamp(n: i32, max: u32, min: u32) -> u32 {
    // A number below zero is a very large one (`sk_setsockopt` compares it without a sign).
    (n as u32).min(max).min(i32::MAX as u32 / 2).saturating_mul(2).max(min)
}

impl Host {
    pub(super) fn get_socket(&mut self, fd: Fd, name: i32, len: usize) -> Result<Told, Errno> {
        let sock = self.files.sock(fd)?;
        let options = self.options_of(sock);
        Ok(match name {
            SO_TYPE => Told::Int(sock.ty()),
            SO_PROTOCOL => Told::Int(sock.protocol()),
            SO_DOMAIN => Told::Int(if sock.v6 { AF_INET6 } else { AF_INET }),
            SO_ACCEPTCONN => Told::Int(matches!(sock.kind, Kind::Listener(_)).into()),
            SO_ERROR => Told::Int(self.take_error(fd)?),
            SO_PRIORITY => Told::Int(options.priority.unwrap_or(0) as i32),
            SO_KEEPALIVE => Told::Int(options.keepalive.into()),
            SO_OOBINLINE => Told::Int(options.oobinline.into()),
            SO_SNDBUF => Told::Int(self.memory_of(sock).sndbuf as i32),
            SO_RCVBUF => Told::Int(self.memory_of(sock).rcvbuf as i32),
            SO_RCVLOWAT => Told::Int(sock.plain(SOL_SOCKET, SO_RCVLOWAT).max(1)),
            SO_BSDCOMPAT => Told::Int(0),
            SO_LINGER => {
                let on = i32::from(options.linger.is_some());
                // The time stays when lingering is switched off.
                let last = sock.plain(SOL_SOCKET, SO_LINGER);
                let seconds = options.linger.map_or(last, |l| i32::try_from(l.as_secs()).unwrap_or(i32::MAX));
                Told::copy(&[on.to_ne_bytes(), seconds.to_ne_bytes()].concat())
            }
            SO_RCVTIMEO | SO_RCVTIMEO_NEW => timeval(sock.knobs.rcvtimeo),
            SO_SNDTIMEO | SO_SNDTIMEO_NEW => timeval(sock.knobs.sndtimeo),
            SO_BINDTODEVICE if sock.plain(SOL_SOCKET, name) == 0 => Told::Bytes(Bytes::new()),
            SO_BINDTODEVICE if len < IFNAMSIZ => return Err(Errno::EINVAL),
            SO_BINDTODEVICE => Told::copy(format!("{}\0", self.device.name).as_bytes()),
            SO_ATTACH_FILTER => Told::Bytes(Bytes::new()),
            SO_PEERCRED => Told::copy(&NO_PEER.map(i32::to_ne_bytes).concat()),
            SO_PEERNAME => {
                // Also while connecting and when the connection is over, unlike getpeername() (`inet_getname`).
                let addr = match sock.kind {
                    Kind::Conn(id) => self.stack.peer_addr(id).ok().map(|addr| sock.shown(addr)),
                    _ => self.getpeername(fd)?.addr,
                };
                let name = sockaddr(addr.ok_or(Errno::ENOTCONN)?);
                if name.len() < len {
                    return Err(Errno::EINVAL);
                }
                Told::Bytes(name)
            }
            SO_MAX_PACING_RATE if len >= 8 => Told::copy(&options.max_pacing_rate.to_ne_bytes()),
            SO_MAX_PACING_RATE => {
                Told::Int(u32::try_from(options.max_pacing_rate).unwrap_or(u32::MAX) as i32)
            }
            SO_TXTIME => Told::copy(&sock.knobs.txtime.unwrap_or_default().map(i32::to_ne_bytes).concat()),
            SO_TXREHASH | SO_PEEK_OFF if !sock.is_tcp() => return Err(Errno::EOPNOTSUPP),
            SO_MEMINFO => {
                let errors = sock.knobs.feedback.as_ref().map_or(0, |feedback| feedback.held() as u32);
                meminfo(self.memory_of(sock), errors)
            }
            SO_COOKIE if len < 8 => return Err(Errno::EINVAL),
            SO_NETNS_COOKIE if len != 8 => return Err(Errno::EINVAL),
            // No two files have the same, and there is one network.
            SO_COOKIE => Told::copy(&self.files.serial(fd).unwrap_or(0).to_ne_bytes()),
            SO_NETNS_COOKIE => Told::copy(&1_u64.to_ne_bytes()),
            SO_TIMESTAMP | SO_TIMESTAMPNS | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW | SO_TIMESTAMPING
            | SO_TIMESTAMPING_NEW => stamps::get(sock.knobs.stamping, name),
            _ => self.get_plain(fd, SOL_SOCKET, name)?,
        })
    }

    pub(crate) fn memory_of(&self, sock: &Sock) -> Memory {
        let live = match sock.kind {
            Kind::Conn(id) | Kind::Udp(id) => self.stack.memory(id).ok(),
            // A listener's buffers are those that it hands on.
            Kind::Fresh | Kind::Listener(_) => None,
        };
        let options = self.options_of(sock);
        let (rcv, snd) = match &sock.sctp {
            Some(sctp) => (sctp.options.rcvbuf, sctp.options.sndbuf),
            None => (options.rmem.max(options.rcvlowat_room), options.wmem),
        };
        live.unwrap_or(Memory {
            rcvbuf: options.rcvbuf.unwrap_or(rcv),
            sndbuf: options.sndbuf.unwrap_or(snd),
            ..Memory::default()
        })
    }

    /// The pending error, once.
    fn take_error(&mut self, fd: Fd) -> Result<i32, Errno> {
        let sock = self.files.sock_mut(fd)?;
        let kind = sock.kind;
        if let Some(errno) = sock.take_error() {
            return Ok(errno.number());
        }
        let soft = sock.knobs.soft.take();
        let error = kind.id().and_then(|id| self.stack.take_any_error(id));
        Ok(error.or(soft).map(Errno::from).map_or(0, Errno::number))
    }

    fn set_max_pacing_rate(&mut self, fd: Fd, rate: u64) -> Result<(), Errno> {
        let pace = &mut self.files.sock_mut(fd)?.knobs.pace;
        *pace = Some(pace.map_or(rate, |pace| pace.min(rate)));
        self.change(fd, |o| {
            o.max_pacing_rate = rate;
            // Nothing takes that back (`sk_setsockopt`).
            o.paced |= rate != u64::MAX;
        })
    }

    fn set_linger(&mut self, fd: Fd, on: bool, value: &Value<'_>) -> Result<(), Errno> {
        if value.len() < 8 {
            return Err(Errno::EINVAL);
        }
        let word = value.bytes()?.get(4..8).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
        let seconds = word.ok_or(Errno::EINVAL)?;
        if on {
            // Below zero is for ever.
            let told = if seconds < 0 { i32::MAX } else { seconds };
            self.files.sock_mut(fd)?.knobs.plain.insert((SOL_SOCKET, SO_LINGER), told);
        }
        // A number below zero is one of 32 bits without a sign: more years than anybody waits.
        let linger = on.then(|| Duration::from_secs(u64::from(seconds as u32)));
        self.change(fd, |o| o.linger = linger)
    }

    pub(super) fn set_socket(&mut self, fd: Fd, name: i32, value: &Value<'_>) -> Result<(), Errno> {
        if name == SO_BINDTODEVICE {
            return self.bind_to_device(fd, value.bytes()?);
        }
        let n = value.int()?;
        let (rmem_max, wmem_max) = (self.stack.sysctl().rmem_max, self.stack.sysctl().wmem_max);
        match name {
            SO_TYPE | SO_PROTOCOL | SO_DOMAIN | SO_ERROR | SO_ACCEPTCONN | SO_PEERNAME | SO_PEERCRED => {
                Err(Errno::ENOPROTOOPT)
            }
            SO_PRIORITY => {
                self.change(fd, |o| o.priority = Some(n as u32))?;
                self.renew_udp(fd)
            }
            SO_KEEPALIVE => self.change(fd, |o| o.keepalive = n != 0),
            SO_OOBINLINE => self.change(fd, |o| o.oobinline = n != 0),
            SO_SNDBUF => self.set_buffer(fd, None, Some(clamp(n, wmem_max, SNDBUF_MIN))),
            SO_RCVBUF => self.set_buffer(fd, Some(clamp(n, rmem_max, RCVBUF_MIN)), None),
            SO_SNDBUFFORCE => self.set_buffer(fd, None, Some(clamp(n.max(0), u32::MAX, SNDBUF_MIN))),
            SO_RCVBUFFORCE => self.set_buffer(fd, Some(clamp(n.max(0), u32::MAX, RCVBUF_MIN)), None),
            SO_BUF_LOCK => self.lock_buffers(fd, value),
            SO_RCVLOWAT => self.set_rcvlowat(fd, n),
            SO_BSDCOMPAT | SO_CNX_ADVICE => Ok(()),
            SO_BUSY_POLL_BUDGET if (0..=0xffff).contains(&n) => Ok(()),
            SO_BUSY_POLL_BUDGET => Err(Errno::EINVAL),
            SO_LINGER => self.set_linger(fd, n != 0, value),
            SO_RCVTIMEO | SO_RCVTIMEO_NEW => {
                self.files.sock_mut(fd)?.knobs.rcvtimeo = read_timeval(value)?;
                Ok(())
            }
            SO_SNDTIMEO | SO_SNDTIMEO_NEW => {
                self.files.sock_mut(fd)?.knobs.sndtimeo = read_timeval(value)?;
                Ok(())
            }
            SO_MAX_PACING_RATE => {
                let rate = match (value.len(), n) {
                    (8.., _) => value.long(0)? as u64,
                    (_, -1) => u64::MAX,
                    (_, n) => u64::from(n as u32),
                };
                self.set_max_pacing_rate(fd, rate)
            }
            SO_TXTIME => self.set_txtime(fd, value),
            SO_TXREHASH | SO_PEEK_OFF if !self.files.sock(fd)?.is_tcp() => Err(Errno::EOPNOTSUPP),
            SO_ZEROCOPY if self.is_sctp(fd) => Err(Errno::EOPNOTSUPP),
            SO_TIMESTAMP | SO_TIMESTAMPNS | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW | SO_TIMESTAMPING
            | SO_TIMESTAMPING_NEW => self.set_stamps(fd, name, value),
            SO_RESERVE_MEM if n < 0 => Err(Errno::EINVAL),
            // Below zero it is what the sysctl says, which is on.
            SO_TXREHASH if n == -1 => self.set_plain(fd, SOL_SOCKET, name, 1),
            SO_DETACH_FILTER => Err(Errno::ENOENT),
            SO_DETACH_REUSEPORT_BPF if self.shares_port(fd)? => Err(Errno::ENOENT),
            SO_ATTACH_FILTER
            | SO_ATTACH_BPF
            | SO_ATTACH_REUSEPORT_CBPF
            | SO_ATTACH_REUSEPORT_EBPF
            | SO_DETACH_REUSEPORT_BPF => Err(Errno::EINVAL),
            SO_BINDTOIFINDEX if n > 0 => Err(Errno::ENODEV),
            // Memory of a device, of which there is none to give back (`sock_devmem_dontneed`).
            SO_DEVMEM_DONTNEED if !self.files.sock(fd)?.is_tcp() => Err(Errno::EBADF),
            SO_DEVMEM_DONTNEED
                if !value.len().is_multiple_of(DMABUF_TOKEN) || value.len() > DMABUF_TOKENS_MAX =>
            {
                Err(Errno::EINVAL)
            }
            SO_DEVMEM_DONTNEED => Ok(()),
            _ => self.set_plain_int(fd, SOL_SOCKET, name, value),
        }
    }

    /// The socket is one of a group (SO_REUSEPORT), which has no program that could be taken away (`reuseport_detach_prog`).
    fn shares_port(&self, fd: Fd) -> Result<bool, Errno> {
        Ok(self.files.sock(fd)?.plain(SOL_SOCKET, SO_REUSEPORT) != 0)
    }

    /// Binds to the one device by its name, or with the empty name to none. Everything comes and goes by that device in any case
    /// (`sock_setbindtodevice`).
    fn bind_to_device(&mut self, fd: Fd, value: &[u8]) -> Result<(), Errno> {
        let room = &value[..value.len().min(IFNAMSIZ - 1)];
        let name = room.split(|b| *b == 0).next().unwrap_or_default();
        if !name.is_empty() && name != self.device.name.as_bytes() {
            return Err(Errno::ENODEV);
        }
        let plain = &mut self.files.sock_mut(fd)?.knobs.plain;
        plain.insert((SOL_SOCKET, SO_BINDTODEVICE), i32::from(!name.is_empty()));
        Ok(())
    }

    /// A clock that may be CLOCK_REALTIME, CLOCK_MONOTONIC or CLOCK_TAI, and two flags.
    fn set_txtime(&mut self, fd: Fd, value: &Value<'_>) -> Result<(), Errno> {
        let two: [u8; 8] = value.bytes()?.try_into().map_err(|_| Errno::EINVAL)?;
        let [c0, c1, c2, c3, f0, f1, f2, f3] = two;
        let (clock, flags) = (i32::from_ne_bytes([c0, c1, c2, c3]), i32::from_ne_bytes([f0, f1, f2, f3]));
        if !matches!(clock, 0 | 1 | 11) || flags & !3 != 0 {
            return Err(Errno::EINVAL);
        }
        self.files.sock_mut(fd)?.knobs.txtime = Some([clock, flags]);
        Ok(())
    }

    fn set_buffer(&mut self, fd: Fd, rcvbuf: Option<u32>, sndbuf: Option<u32>) -> Result<(), Errno> {
        self.change(fd, |o| {
            o.rcvbuf = rcvbuf.or(o.rcvbuf);
            o.sndbuf = sndbuf.or(o.sndbuf);
        })?;
        // Which of the two somebody has set (`SOCK_SNDBUF_LOCK`, `SOCK_RCVBUF_LOCK`).
        let set = i32::from(sndbuf.is_some()) | i32::from(rcvbuf.is_some()) << 1;
        *self.files.sock_mut(fd)?.knobs.plain.entry((SOL_SOCKET, SO_BUF_LOCK)).or_insert(0) |= set;
        let sock = self.files.sock(fd)?.clone();
        if let Kind::Udp(id) = sock.kind {
            self.apply_udp_options(&sock, id);
        }
        if sndbuf.is_some() {
            self.tell_of_room(fd, &sock);
        }
        Ok(())
    }

    /// SO_BUF_LOCK: which of the two buffers stays as it is by now, and which tunes itself from there on (`sk_userlocks`).
    fn lock_buffers(&mut self, fd: Fd, value: &Value<'_>) -> Result<(), Errno> {
        self.set_plain_int(fd, SOL_SOCKET, SO_BUF_LOCK, value)?;
        let sock = self.files.sock(fd)?;
        if !sock.is_tcp() {
            return Ok(());
        }
        let (locks, now) = (sock.plain(SOL_SOCKET, SO_BUF_LOCK), self.memory_of(sock));
        self.change(fd, |o| {
            (o.rmem, o.wmem) = (now.rcvbuf, now.sndbuf);
            o.sndbuf = (locks & 1 != 0).then_some(now.sndbuf);
            o.rcvbuf = (locks & 2 != 0).then_some(now.rcvbuf);
        })
    }

    /// Whoever watches for edges is told of room, also of what was there before (`sk_stream_write_space`).
    pub(super) fn tell_of_room(&mut self, fd: Fd, sock: &Sock) {
        // In this order: who asks a full socket waits for room from then on, and nobody has asked. A listener has room all the time.
        let listens = matches!(sock.kind, Kind::Listener(_));
        let writable =
            self.has_room(sock) && (listens || self.readiness(fd).is_some_and(|ready| ready & EPOLLOUT != 0));
        if writable {
            self.wake_fd(fd, WRITE_SPACE);
            self.wake_waiters(fd);
        }
    }

    /// There is room to write, which poll() does not ask of a socket that is shut.
    fn has_room(&mut self, sock: &Sock) -> bool {
        if let Kind::Conn(id) = sock.kind
            && let Some(room) = self.stack.tcp_has_room(id)
        {
            return room;
        }
        let memory = self.memory_of(sock);
        let room = memory.sndbuf.saturating_sub(memory.queued);
        room >= memory.queued / 2 && memory.sndbuf > memory.queued
    }

    fn set_rcvlowat(&mut self, fd: Fd, n: i32) -> Result<(), Errno> {
        // Below zero is without bound, zero is one (`sk_setsockopt`).
        let lowat = if n < 0 { i32::MAX } else { n.max(1) };
        let sock = self.files.sock(fd)?;
        // No more than half of the buffer can be waited for (`tcp_set_rcvlowat`).
        let buffer = self.options_of(sock).rcvbuf.unwrap_or(self.stack.sysctl().tcp_rmem.max) / 2;
        let lowat = if sock.is_tcp() { lowat.min(i32::try_from(buffer).unwrap_or(i32::MAX)) } else { lowat };
        let tcp = sock.is_tcp();
        self.files.sock_mut(fd)?.knobs.plain.insert((SOL_SOCKET, SO_RCVLOWAT), lowat);
        if !tcp {
            return Ok(());
        }
        let mark = lowat.unsigned_abs();
        if let Some(id) = self.conn(fd)? {
            self.stack.tcp_set_rcvlowat(self.now, id, mark)?;
            // For the connection that may follow this one (`tcp_disconnect` keeps it).
            self.change(fd, |o| o.rcvlowat = mark)?;
        } else {
            // The buffer grows for it at once, and does not shrink again (`tcp_set_rcvlowat`).
            let room = Ratio::initial(self.stack.sysctl()).space_from_win(mark.into());
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            self.change(fd, |o| {
                o.rcvlowat = mark;
                if o.rcvbuf.is_none() && room > o.rmem.max(o.rcvlowat_room) {
                    o.rcvlowat_room = room;
                    // And so does a bound of the window.
                    if o.window_clamp != 0 {
                        o.window_clamp = o.window_clamp.max(mark);
                    }
                }
            })?;
        }
        Ok(())
    }
}

/// The nine numbers of SO_MEMINFO, `errors` bytes of the receive buffer being the error queue's: what the stack does not count is 0.
fn meminfo(m: Memory, errors: u32) -> Told {
    let (forward, optmem, backlog, drops, wmem_alloc) = (0, 0, 0, 0, 0);
    let words: [u32; 9] = [
        m.received.saturating_add(errors),
        m.rcvbuf,
        wmem_alloc,
        m.sndbuf,
        forward,
        m.queued,
        optmem,
        backlog,
        drops,
    ];
    Told::copy(&words.map(u32::to_ne_bytes).concat())
}

#[cfg(test)]
mod tests {
    use crate::abi::{SO_BINDTODEVICE, SO_RCVBUF, SO_SNDBUF, SOL_SOCKET};
    use crate::{Call, Errno, Host, Name, Optval, Reply, Settings, Started};

    fn done(host: &mut Host, call: Call) -> Reply {
        match host.call(call) {
            Started::Done(reply) => reply,
            Started::Blocked(_) => Reply::default(),
        }
    }

    #[test]
    fn so_sndbuf_and_so_rcvbuf_are_bounded_by_sysctls() {
        let mut host = Host::new(Settings::default()).expect("a host");
        let fd = done(&mut host, Call::Socket { domain: 2, ty: 1, protocol: 0 }).ret as i32;
        let ask = |host: &mut Host, name, bytes| {
            done(host, Call::Setsockopt { fd, level: SOL_SOCKET, name, value: Optval::int(bytes) });
            done(host, Call::Getsockopt { fd, level: SOL_SOCKET, name, len: 4 }).int()
        };
        for name in [SO_SNDBUF, SO_RCVBUF] {
            assert_eq!(ask(&mut host, name, 100_000), Some(200_000));
            assert_eq!(ask(&mut host, name, i32::MAX), Some(8_388_608));
        }
        host.set_sysctl("net.core.wmem_max", "50000").expect("bytes");
        host.set_sysctl("net.core.rmem_max", "60000").expect("bytes");
        assert_eq!(ask(&mut host, SO_SNDBUF, 100_000), Some(100_000));
        assert_eq!(ask(&mut host, SO_RCVBUF, 100_000), Some(120_000));
    }

    #[test]
    fn the_one_device_has_a_name() {
        let name = SO_BINDTODEVICE;
        let mut host =
            Host::new(Settings { device_name: "tun0".to_owned(), ..Settings::default() }).expect("a host");
        let fd = done(&mut host, Call::Socket { domain: 2, ty: 1, protocol: 0 }).ret as i32;
        let bind = |host: &mut Host, to: &'static [u8]| {
            done(host, Call::Setsockopt { fd, level: SOL_SOCKET, name, value: Optval::Bytes(to.into()) })
                .errno
        };
        let told = |host: &mut Host, len| done(host, Call::Getsockopt { fd, level: SOL_SOCKET, name, len });
        assert_eq!(told(&mut host, 4).value, "");
        for other in [&b"tun1"[..], b"tun", b"tun00", b"a name longer than any"] {
            assert_eq!(bind(&mut host, other), Some(Errno::ENODEV));
        }
        for same in [&b"tun0"[..], b"tun0\0", b"tun0\0and more than a name has"] {
            assert_eq!(bind(&mut host, same), None);
            assert_eq!(
                (told(&mut host, 16).value, told(&mut host, 15).errno),
                ("tun0\0".into(), Some(Errno::EINVAL))
            );
            assert_eq!(bind(&mut host, b""), None);
            assert_eq!(told(&mut host, 16).value, "");
        }
        let fd = done(&mut host, Call::Socket { domain: 2, ty: 2, protocol: 0 }).ret as i32;
        let value = Optval::Bytes(b"tun0"[..].into());
        assert_eq!(done(&mut host, Call::Setsockopt { fd, level: SOL_SOCKET, name, value }).errno, None);
        assert_eq!(done(&mut host, Call::Connect { fd, addr: Name::UNSPEC }).errno, None);
        let told = done(&mut host, Call::Getsockopt { fd, level: SOL_SOCKET, name, len: 16 });
        assert_eq!(told.value, "", "a datagram socket that is nobody's is of no device, either");
    }
}
