//! Options of the level SOL_TCP (`do_tcp_setsockopt`, `do_tcp_getsockopt`).
use super::{Told, Value};
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::{Attempt, Kind, Residue, Sock};
use crate::host::Host;
use bytes::Bytes;
use lowwater_core::base::sysctl::CongestionKind;
use lowwater_core::base::{FastOpenKeys, SocketId};
use lowwater_core::path::congestion::Window;
use lowwater_core::tcp::options::{retrans_to_secs, secs_to_retrans};
use lowwater_core::tcp::{SocketOptions, State, TcpInfo};

/// Bytes of a congestion controller's name, the NUL included (`TCP_CA_NAME_MAX`).
pub(crate) const NAME_MAX: usize = 16;
/// Smallest and largest TCP_MAXSEG (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
const MSS_RANGE: (u32, u32) = (88, 32_767);
/// Bits of `tcpi_options`: TCPI_OPT_ECN and TCPI_OPT_ECN_SEEN.
const ECN_BITS: u8 = 8 | 16;
/// Shortest and longest TCP_RTO_MIN_US and TCP_DELACK_MAX_US: more than one jiffy of a millisecond (`TCP_TIMEOUT_MIN`), 200 ms at
/// most (`TCP_RTO_MIN`, `TCP_DELACK_MAX`).
pub(crate) const TIMER_US: (u32, u32) = (1_001, 200_000);
/// The MSS before there is a peer (`TCP_MSS_DEFAULT`).
const MSS_DEFAULT: i32 = 536;
/// Largest TCP_LINGER2 in seconds (`TCP_FIN_TIMEOUT_MAX`).
const LINGER2_MAX: i32 = 120;
/// Smallest TCP_WINDOW_CLAMP but 0: half of the smallest receive buffer.
const CLAMP_MIN: u32 = 1_152;

/// Bytes of a key of Fast Open.
const KEY_LEN: usize = 16;

impl Host {
    pub(super) fn get_tcp(&mut self, fd: Fd, name: i32, len: usize) -> Result<Told, Errno> {
        let sock = self.files.sock(fd)?;
        let o = self.options_of(sock);
        let sysctl = self.stack.sysctl();
        let or = |value: u32, default: u32| Told::Int(if value == 0 { default } else { value } as i32);
        Ok(match name {
            TCP_NODELAY => Told::Int(o.nodelay.into()),
            TCP_CORK => Told::Int(o.cork.into()),
            TCP_KEEPIDLE => or(o.keepidle, sysctl.tcp_keepalive_time),
            TCP_KEEPINTVL => or(o.keepintvl, sysctl.tcp_keepalive_intvl),
            TCP_KEEPCNT => or(o.keepcnt, sysctl.tcp_keepalive_probes),
            TCP_SYNCNT => or(o.syncnt.into(), sysctl.tcp_syn_retries),
            TCP_LINGER2 if o.linger2 == 0 => Told::Int(sysctl.tcp_fin_timeout as i32),
            TCP_LINGER2 => Told::Int(o.linger2),
            TCP_USER_TIMEOUT => Told::Int(o.user_timeout_ms as i32),
            TCP_NOTSENT_LOWAT => Told::Int(o.notsent_lowat as i32),
            TCP_WINDOW_CLAMP => match sock.kind {
                // A connection tells the bound as it is, whoever set it.
                Kind::Conn(id) => Told::Int(self.stack.tcp_window_clamp(id)? as i32),
                _ => Told::Int(o.window_clamp as i32),
            },
            TCP_DEFER_ACCEPT => Told::Int(retrans_to_secs(o.defer_accept) as i32),
            TCP_FASTOPEN => Told::Int(o.fastopen as i32),
            TCP_FASTOPEN_CONNECT => Told::Int(o.fastopen_connect.into()),
            TCP_FASTOPEN_NO_COOKIE => Told::Int(o.fastopen_no_cookie.into()),
            TCP_FASTOPEN_KEY => {
                // Those of the system are told by the sysctl alone (`tcp_fastopen_get_cipher`).
                Told::Bytes(o.fastopen_key.map_or_else(Bytes::new, |keys| Bytes::from(keys.to_bytes())))
            }
            TCP_THIN_DUPACK => Told::Int(0),
            TCP_THIN_LINEAR_TIMEOUTS => Told::Int(o.thin_linear_timeouts.into()),
            TCP_QUICKACK => Told::Int(self.quickack(sock)),
            TCP_MAXSEG => Told::Int(self.maxseg(fd, &o)?),
            TCP_INFO => Told::copy(&self.info(fd)?.emit()),
            TCP_CC_INFO => self.congestion_info(fd)?,
            TCP_SAVED_SYN => self.saved_syn(fd, len)?,
            TCP_ULP => Told::Bytes(Bytes::new()),
            TCP_CONGESTION => {
                let mut name = [0; NAME_MAX];
                for (to, from) in name.iter_mut().zip(o.congestion.name().bytes()) {
                    *to = from;
                }
                Told::copy(&name)
            }
            TCP_REPAIR_OPTIONS => return Err(Errno::ENOPROTOOPT),
            TCP_RTO_MAX_MS => or(o.rto_max_ms, sysctl.tcp_rto_max_ms),
            TCP_RTO_MIN_US => or(o.rto_min_us, sysctl.tcp_rto_min_us),
            TCP_DELACK_MAX_US => or(o.delack_max_us, sysctl.tcp_delack_max_us),
            TCP_ZEROCOPY_RECEIVE => return Err(Errno::EINVAL),
            _ => self.get_plain(fd, SOL_TCP, name)?,
        })
    }

    /// TCP_QUICKACK is on until the application answers (`inet_csk_in_pingpong_mode`).
    fn quickack(&self, sock: &Sock) -> i32 {
        match sock.kind {
            Kind::Conn(id) => self.stack.tcp_quickack(id).map_or(1, i32::from),
            _ => i32::from(!sock.options.interactive),
        }
    }

    fn maxseg(&mut self, fd: Fd, o: &SocketOptions) -> Result<i32, Errno> {
        if let Some(id) = self.conn(fd)?
            && let Ok(info) = self.stack.tcp_info(self.now, id)
            && (info.state != State::Close as u8 || o.maxseg == 0)
        {
            return Ok(info.snd_mss as i32);
        }
        if o.maxseg > 0 {
            return Ok(o.maxseg.into());
        }
        // That of the connection that there was (`mss_cache`).
        let residue = self.files.sock(fd)?.knobs.residue.as_ref();
        Ok(residue.map_or(MSS_DEFAULT, |residue| residue.info.snd_mss as i32))
    }

    /// TCP_CC_INFO: `struct tcp_bbr_info` where BBR is at work, nothing for controllers that tell nothing.
    fn congestion_info(&mut self, fd: Fd) -> Result<Told, Errno> {
        let info = match self.conn(fd)? {
            Some(id) => self.stack.tcp_bbr_info(id)?,
            None => None,
        };
        Ok(info.map_or(Told::Bytes(Bytes::new()), |bbr| Told::copy(&bbr.emit())))
    }

    /// TCP_SAVED_SYN: the headers of the SYN once, if there is room for them; else how much they need.
    fn saved_syn(&mut self, fd: Fd, len: usize) -> Result<Told, Errno> {
        let Some(id) = self.conn(fd)? else { return Ok(Told::Bytes(Bytes::new())) };
        let Some(head) = self.stack.tcp_saved_syn(id)?.map(Bytes::copy_from_slice) else {
            return Ok(Told::Bytes(Bytes::new()));
        };
        if len < head.len() {
            return Ok(Told::NoRoom(head.len() as u32));
        }
        self.stack.tcp_forget_syn(id)?;
        Ok(Told::Bytes(head))
    }

    /// TCP_INFO of a socket in any state.
    fn info(&mut self, fd: Fd) -> Result<TcpInfo, Errno> {
        let sock = self.files.sock(fd)?;
        let options = self.options_of(sock);
        let (kind, reordering, fastest) = (sock.kind, options.reordering, options.max_pacing_rate);
        let mut info = match kind {
            Kind::Conn(id) => {
                let info = self.stack.tcp_info(self.now, id)?;
                self.unanswered(fd, id, info)
            }
            Kind::Listener(id) => {
                // Of a listener: connections that wait to be accepted, and the backlog.
                let (unacked, sacked) = self.stack.tcp_backlog(id)?;
                TcpInfo { state: State::Listen as u8, unacked, sacked, ..Self::info_at_rest(0, reordering) }
            }
            Kind::Fresh | Kind::Udp(_) => match &self.files.sock(fd)?.knobs.residue {
                Some(residue) => self.after(residue),
                None => self.unused(reordering),
            },
        };
        // SO_MAX_PACING_RATE lowers the rate before there is one, and never raises it (`sk_setsockopt`).
        let pace = self.files.sock(fd)?.knobs.pace.unwrap_or(u64::MAX);
        if !matches!(kind, Kind::Conn(_)) {
            (info.pacing_rate, info.max_pacing_rate) = (pace, fastest);
        } else if Self::has_come_to_nothing(&info) {
            info.pacing_rate = info.pacing_rate.min(pace);
        }
        // Who holds a connection in TIME-WAIT sees a closed one (`tcp_time_wait`).
        if info.state == State::TimeWait as u8 {
            info.state = State::Close as u8;
        }
        Ok(info)
    }

    /// No peer has answered, or not yet: there was no round trip that a rate could follow from.
    pub(crate) fn has_come_to_nothing(info: &TcpInfo) -> bool {
        let unanswered = info.state == State::SynSent as u8 || info.state == State::Close as u8;
        unanswered && info.rtt == 0
    }

    /// What `tcp_init_sock` leaves.
    pub(crate) fn unused(&self, reordering: u32) -> TcpInfo {
        TcpInfo {
            state: State::Close as u8,
            delivery_rate_app_limited: 1,
            rto: 1_000_000,
            rttvar: 250_000,
            snd_mss: MSS_DEFAULT.unsigned_abs(),
            snd_ssthresh: i32::MAX as u32,
            min_rtt: u32::MAX,
            // Nothing has ever happened: that is as long ago as the clock is old.
            ..Self::info_at_rest(u32::try_from(self.now.as_millis()).unwrap_or(u32::MAX), reordering)
        }
    }

    /// A connection that the peer has not accepted, nor ever will where it is over, tells what the one before it left (`tcp_connect_init`).
    pub(crate) fn unanswered(&self, fd: Fd, id: SocketId, info: TcpInfo) -> TcpInfo {
        let Ok(sock) = self.files.sock(fd) else { return info };
        // A SYN that crosses ours acknowledges nothing: what is measured begins when ours is (`tcp_rcv_state_process`).
        let crossed = info.state == State::SynRecv as u8 && sock.attempt != Attempt::None;
        let open = info.state == State::SynSent as u8 || info.state == State::Close as u8;
        let unanswered = crossed || (open && !self.stack.tcp_was_accepted(id));
        let Some(residue) = sock.knobs.residue.as_ref().filter(|_| unanswered) else { return info };
        let old = self.after(residue);
        // Half of the old window, and no more than before there is a peer (`tcp_initialize_rcv_mss`).
        let guess = info.snd_mss.min(old.rcv_wnd / 2).min(MSS_DEFAULT.unsigned_abs());
        TcpInfo {
            rcv_mss: if crossed { info.rcv_mss } else { guess.max(MSS_RANGE.0) },
            rcv_space: old.rcv_space,
            min_rtt: old.min_rtt,
            // Data in the SYN is data (`tcp_send_syn_data`).
            last_data_sent: if info.data_segs_out > 0 { info.last_data_sent } else { old.last_data_sent },
            last_ack_recv: old.last_ack_recv,
            ..info
        }
    }

    /// What `tcp_disconnect` leaves.
    fn after(&self, residue: &Residue) -> TcpInfo {
        let (old, passed) = (&residue.info, self.now.since(residue.at).as_millis());
        TcpInfo {
            // What was agreed on about ECN is forgotten by the next SYN (`tcp_ecn_send_syn`).
            options: old.options & ECN_BITS,
            retransmits: old.retransmits,
            snd_mss: old.snd_mss,
            rcv_mss: residue.rcv_mss,
            pmtu: old.pmtu,
            rcv_ssthresh: old.rcv_ssthresh,
            advmss: old.advmss,
            rcv_space: old.rcv_space,
            rehash: old.rehash,
            notsent_bytes: residue.unsent,
            snd_wnd: old.snd_wnd,
            rcv_wnd: old.rcv_wnd,
            busy_time: old.busy_time,
            min_rtt: old.min_rtt,
            delivery_rate: old.delivery_rate,
            max_pacing_rate: old.max_pacing_rate,
            last_data_sent: old.last_data_sent.saturating_add(passed as u32),
            last_ack_recv: old.last_ack_recv.saturating_add(passed as u32),
            ..self.unused(old.reordering)
        }
    }

    /// What TCP_INFO tells of a socket without a connection: the initial window and what it began with.
    /// `ever`: milliseconds since anything happened.
    fn info_at_rest(ever: u32, reordering: u32) -> TcpInfo {
        TcpInfo {
            last_data_sent: ever,
            last_data_recv: ever,
            last_ack_recv: ever,
            snd_cwnd: Window::INITIAL,
            reordering,
            pacing_rate: u64::MAX,
            max_pacing_rate: u64::MAX,
            ..TcpInfo::default()
        }
    }

    pub(super) fn set_tcp(&mut self, fd: Fd, name: i32, value: &Value<'_>) -> Result<(), Errno> {
        match name {
            TCP_CONGESTION => return self.set_congestion(fd, value),
            // Its length is looked at before it is read (`do_tcp_setsockopt`).
            TCP_FASTOPEN_KEY if ![KEY_LEN, 2 * KEY_LEN].contains(&value.len()) => return Err(Errno::EINVAL),
            TCP_FASTOPEN_KEY => {
                let keys = FastOpenKeys::from_bytes(value.bytes()?).ok_or(Errno::EINVAL)?;
                return self.change(fd, |o| o.fastopen_key = Some(keys));
            }
            TCP_ULP if value.len() == 0 => return Err(Errno::EINVAL),
            TCP_ULP => return value.bytes().and(Err(Errno::ENOENT)),
            _ => {}
        }
        let n = value.int()?;
        let within = |low: u32, high: u32| match u32::try_from(n) {
            Ok(v) if (low..=high).contains(&v) => Ok(v),
            _ => Err(Errno::EINVAL),
        };
        match name {
            // Said again it pushes again (`__tcp_sock_set_nodelay`, `__tcp_sock_set_cork`): a change is what the stack acts on.
            TCP_NODELAY => {
                self.change(fd, |o| o.nodelay &= n == 0)?;
                self.change(fd, |o| o.nodelay = n != 0)
            }
            TCP_CORK => {
                self.change(fd, |o| o.cork |= n == 0)?;
                self.change(fd, |o| o.cork = n != 0)
            }
            TCP_KEEPIDLE => within(1, 32_767).and_then(|v| self.set_keepidle(fd, v)),
            TCP_KEEPINTVL => within(1, 32_767).and_then(|v| self.change(fd, |o| o.keepintvl = v)),
            TCP_KEEPCNT => within(1, 127).and_then(|v| self.change(fd, |o| o.keepcnt = v)),
            TCP_SYNCNT => within(1, 127).and_then(|v| self.change(fd, |o| o.syncnt = v as u8)),
            TCP_USER_TIMEOUT => {
                within(0, i32::MAX as u32).and_then(|v| self.change(fd, |o| o.user_timeout_ms = v))
            }
            TCP_NOTSENT_LOWAT => self.set_notsent_lowat(fd, n as u32),
            TCP_LINGER2 => self.change(fd, |o| o.linger2 = n.clamp(-1, LINGER2_MAX)),
            TCP_MAXSEG if n == 0 => self.change(fd, |o| o.maxseg = 0),
            TCP_MAXSEG => {
                within(MSS_RANGE.0, MSS_RANGE.1).and_then(|v| self.change(fd, |o| o.maxseg = v as u16))
            }
            TCP_WINDOW_CLAMP => self.set_window_clamp(fd, n),
            TCP_DEFER_ACCEPT => {
                let timeouts = secs_to_retrans(u32::try_from(n).unwrap_or(0));
                self.change(fd, |o| o.defer_accept = timeouts)
            }
            TCP_FASTOPEN | TCP_FASTOPEN_CONNECT | TCP_FASTOPEN_NO_COOKIE => self.set_fastopen(fd, name, n),
            TCP_QUICKACK => self.set_quickack(fd, n),
            TCP_THIN_LINEAR_TIMEOUTS => {
                within(0, 1).and_then(|v| self.change(fd, |o| o.thin_linear_timeouts = v != 0))
            }
            TCP_SAVE_SYN => {
                self.set_plain_int(fd, SOL_TCP, name, value)?;
                self.change(fd, |o| o.save_syn = n != 0)
            }
            // Not of a living connection, nor of a listener (`do_tcp_setsockopt`).
            TCP_QUEUE_SEQ if self.is_in_use(fd)? => Err(Errno::EPERM),
            TCP_THIN_DUPACK => within(0, 1).map(|_| ()),
            TCP_RTO_MAX_MS => within(1_000, 120_000).and_then(|v| self.change(fd, |o| o.rto_max_ms = v)),
            TCP_RTO_MIN_US => {
                within(TIMER_US.0, TIMER_US.1).and_then(|v| self.change(fd, |o| o.rto_min_us = v))
            }
            TCP_DELACK_MAX_US => {
                within(TIMER_US.0, TIMER_US.1).and_then(|v| self.change(fd, |o| o.delack_max_us = v))
            }
            _ => self.set_plain_int(fd, SOL_TCP, name, value),
        }
    }

    /// Writers hear of the room that there is, whatever it was before (`do_tcp_setsockopt`).
    fn set_notsent_lowat(&mut self, fd: Fd, bytes: u32) -> Result<(), Errno> {
        self.change(fd, |o| o.notsent_lowat = bytes)?;
        let sock = self.files.sock(fd)?.clone();
        self.tell_of_room(fd, &sock);
        Ok(())
    }

    /// The socket is in another state than TCP_CLOSE.
    fn is_in_use(&self, fd: Fd) -> Result<bool, Errno> {
        Ok(match self.files.sock(fd)?.kind {
            Kind::Conn(id) => !self.is_over(id),
            Kind::Listener(_) => true,
            Kind::Fresh | Kind::Udp(_) => false,
        })
    }

    fn set_quickack(&mut self, fd: Fd, n: i32) -> Result<(), Errno> {
        match self.conn(fd)? {
            Some(id) => Ok(self.stack.tcp_set_quickack(self.now, id, n as u32)?),
            // A listener's connections have it from the moment they are made (`inet_csk_clone_lock`).
            None => self.change(fd, |o| o.interactive = n == 0),
        }
    }

    /// Said again it starts the timer again, so it is a change even with the old value (`tcp_sock_set_keepidle_locked`).
    fn set_keepidle(&mut self, fd: Fd, seconds: u32) -> Result<(), Errno> {
        self.change(fd, |o| o.keepidle = 0)?;
        self.change(fd, |o| o.keepidle = seconds)
    }

    /// Fast Open's numbers, each in its states (`do_tcp_setsockopt`).
    fn set_fastopen(&mut self, fd: Fd, name: i32, n: i32) -> Result<(), Errno> {
        let kind = self.files.sock(fd)?.kind;
        let closed = kind == Kind::Fresh || matches!(kind, Kind::Conn(id) if self.is_over(id));
        let listens = matches!(kind, Kind::Listener(_));
        let flag = (0..=1).contains(&n);
        match name {
            TCP_FASTOPEN if n >= 0 && (closed || listens) => {
                let most = self.stack.sysctl().somaxconn;
                self.change(fd, |o| o.fastopen = n.unsigned_abs().min(most))
            }
            TCP_FASTOPEN_CONNECT if !flag => Err(Errno::EINVAL),
            TCP_FASTOPEN_CONNECT if self.stack.sysctl().tcp_fastopen & 1 == 0 => Err(Errno::EOPNOTSUPP),
            TCP_FASTOPEN_CONNECT if closed => self.change(fd, |o| o.fastopen_connect = n != 0),
            TCP_FASTOPEN_NO_COOKIE if flag && (closed || listens) => {
                self.change(fd, |o| o.fastopen_no_cookie = n != 0)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn set_window_clamp(&mut self, fd: Fd, n: i32) -> Result<(), Errno> {
        if n == 0 {
            let closed = match self.files.sock(fd)?.kind {
                Kind::Conn(id) => self.is_over(id),
                kind => kind == Kind::Fresh,
            };
            if !closed {
                return Err(Errno::EINVAL);
            }
        }
        // Below zero is below the smallest.
        let clamp = if n == 0 { 0 } else { u32::try_from(n).unwrap_or(0).max(CLAMP_MIN) };
        let old = self.files.sock(fd)?.options.window_clamp;
        self.change(fd, |o| o.window_clamp = clamp)?;
        match self.conn(fd)? {
            Some(id) => Ok(self.stack.tcp_clamp_window(self.now, id)?),
            None => self.clamp_residue(fd, old, clamp),
        }
    }

    /// The bound that a dissolved connection had for its window follows, as that of a connection does (`tcp_set_window_clamp`).
    fn clamp_residue(&mut self, fd: Fd, old: u32, clamp: u32) -> Result<(), Errno> {
        if let Some(residue) = self.files.sock_mut(fd)?.knobs.residue.as_mut().filter(|_| clamp != 0) {
            let info = &mut residue.info;
            info.rcv_ssthresh = match clamp < old {
                true => info.rcv_ssthresh.min(clamp),
                false if clamp > old => info.rcv_ssthresh.max(info.rcv_wnd.min(clamp)),
                false => info.rcv_ssthresh,
            };
        }
        Ok(())
    }

    fn set_congestion(&mut self, fd: Fd, value: &Value<'_>) -> Result<(), Errno> {
        if value.len() == 0 {
            return Err(Errno::EINVAL);
        }
        let bytes = value.bytes()?;
        let name = bytes.get(..bytes.len().min(NAME_MAX - 1)).unwrap_or_default();
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let kind =
            CongestionKind::ALL.into_iter().find(|k| k.name().as_bytes() == name).ok_or(Errno::ENOENT)?;
        self.change(fd, |o| o.congestion = kind)
    }
}
