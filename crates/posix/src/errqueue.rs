//! The error queue of a socket (`sk_error_queue`, `ip_recv_error`, `ipv6_recv_error`): what ICMP said, what became of sends without copies,
//! times of what was sent.
use crate::abi::{
    EPOLLERR, IP_RECVERR, IP_RECVERR_RFC4884, IPV6_RECVERR, IPV6_RECVERR_RFC4884, MSG_ERRQUEUE, MSG_TRUNC,
    SO_EE_CODE_ZEROCOPY_COPIED, SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, SO_EE_ORIGIN_TIMESTAMPING,
    SO_EE_ORIGIN_ZEROCOPY, SOL_IP, SOL_IPV6,
};
use crate::call::{Control, Fd, Reply, sockaddr};
use crate::errno::Errno;
use crate::files::{Kind, Sock};
use crate::host::Host;
use crate::recv::{Read, put_control};
use crate::timestamping::TxStamps;
use crate::zerocopy::ZeroCopy;
use bytes::{BufMut as _, Bytes, BytesMut};
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::truesize::Truesize;
use lowwater_core::base::{Instant, SocketId};
use lowwater_core::stack::IcmpHeard;
use std::collections::VecDeque;

mod extension;

/// What Linux 6.18 charges for an entry beside its data (`skb->truesize` of an empty buffer): to the receive buffer, or to the memory for
/// options while a send without a copy is under way.
pub(crate) const ENTRY_CHARGE: usize = 832;
/// Length of a sockaddr_in and of a sockaddr_in6.
const SOCKADDR: [usize; 2] = [16, 28];

/// struct sock_extended_err.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtendedErr {
    pub(crate) errno: i32,
    pub(crate) origin: i32,
    pub(crate) ty: u8,
    pub(crate) code: u8,
    pub(crate) info: u32,
    pub(crate) data: u32,
}

impl ExtendedErr {
    fn write(&self, out: &mut BytesMut) {
        out.put_slice(&self.errno.to_ne_bytes());
        out.put_slice(&[self.origin as u8, self.ty, self.code, 0]);
        out.put_slice(&self.info.to_ne_bytes());
        out.put_slice(&self.data.to_ne_bytes());
    }

    /// A send without a copy is over.
    pub(crate) const fn is_zerocopy(&self) -> bool {
        self.origin == SO_EE_ORIGIN_ZEROCOPY
    }

    /// ICMP said it (`is_icmp_err_skb`).
    const fn is_icmp(&self) -> bool {
        matches!(self.origin, SO_EE_ORIGIN_ICMP | SO_EE_ORIGIN_ICMP6)
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) err: ExtendedErr,
    /// Who said so.
    pub(crate) offender: Option<IpAddr>,
    /// Where the packet went.
    pub(crate) name: Option<SocketAddr>,
    /// When it happened, of what has a time.
    pub(crate) at: Option<Instant>,
    /// What is read.
    pub(crate) data: Bytes,
    /// `data` is of statistics, which come as a message, too (`opt_stats`).
    pub(crate) stats: bool,
    /// What it is charged: of a message of ICMP the packet that it came in.
    pub(crate) charge: usize,
}

impl Entry {
    /// The message of IP_RECVERR or IPV6_RECVERR, as an AF_INET or an AF_INET6 socket has it.
    fn control(&self, sock: &Sock) -> Control {
        let mut data = BytesMut::new();
        self.err.write(&mut data);
        let end = data.len() + SOCKADDR[usize::from(sock.v6)];
        if let Some(offender) = self.offender {
            data.put_slice(&sockaddr(sock.shown(SocketAddr::new(offender, 0))));
        }
        data.resize(end, 0);
        let (level, ty) = if sock.v6 { (SOL_IPV6, IPV6_RECVERR) } else { (SOL_IP, IP_RECVERR) };
        Control { level, ty, data: data.freeze() }
    }
}

/// What a socket tells besides its stream, and what it waits for to tell it. Made on first use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feedback {
    entries: VecDeque<Entry>,
    /// Charge of the entries that count for the receive buffer.
    charge: usize,
    pub(crate) zerocopy: ZeroCopy,
    pub(crate) stamps: TxStamps,
}

impl Feedback {
    /// Bytes of the receive buffer that entries hold.
    pub(crate) const fn held(&self) -> usize {
        self.charge
    }

    /// Something waits to be read.
    pub(crate) fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Something is on its way of which the application is to hear.
    pub(crate) fn is_watching(&self) -> bool {
        self.zerocopy.is_waiting() || self.stamps.is_waiting()
    }

    /// Entries that tell of sends without a copy.
    pub(crate) fn notifications(&self) -> usize {
        self.entries.iter().filter(|e| e.err.origin == SO_EE_ORIGIN_ZEROCOPY).count()
    }

    /// Adds an entry; false where the receive buffer, `taken` bytes of whose `rcvbuf` hold data, has no room (`sock_queue_err_skb`).
    fn push(&mut self, entry: Entry, taken: usize, rcvbuf: usize) -> bool {
        if self.charge + taken + entry.charge >= rcvbuf {
            return false;
        }
        self.charge += entry.charge;
        self.entries.push_back(entry);
        true
    }

    /// Sends `low..=high` without a copy are over. One entry tells of neighbours, if nothing came between
    /// (`skb_zerocopy_notify_extend`). What was not read is bounded by who counts sends (`zerocopy.rs`).
    pub(crate) fn push_zerocopy(&mut self, low: u32, high: u32) {
        if let Some(last) = self.entries.back_mut()
            && last.err.origin == SO_EE_ORIGIN_ZEROCOPY
            && last.err.data.wrapping_add(1) == low
            && high.wrapping_sub(last.err.info) < u32::MAX
        {
            last.err.data = high;
            return;
        }
        let err = ExtendedErr {
            errno: 0,
            origin: SO_EE_ORIGIN_ZEROCOPY,
            ty: 0,
            // The stack copies what a write hands over, as a kernel does whose device cannot gather.
            code: SO_EE_CODE_ZEROCOPY_COPIED as u8,
            info: low,
            data: high,
        };
        self.entries.push_back(Entry {
            err,
            offender: None,
            name: None,
            at: None,
            data: Bytes::new(),
            stats: false,
            charge: 0,
        });
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        if entry.err.origin != SO_EE_ORIGIN_ZEROCOPY {
            self.charge -= entry.charge;
        }
        Some(entry)
    }

    /// What ICMP said is forgotten (`skb_errqueue_purge`).
    fn purge_icmp(&mut self) {
        let is_kept = |e: &Entry| matches!(e.err.origin, SO_EE_ORIGIN_ZEROCOPY | SO_EE_ORIGIN_TIMESTAMPING);
        self.entries.retain(is_kept);
        let counted = self.entries.iter().filter(|e| e.err.origin != SO_EE_ORIGIN_ZEROCOPY);
        self.charge = counted.map(|entry| entry.charge).sum();
    }
}

impl Host {
    /// Reads the error queue (MSG_ERRQUEUE): its first entry, or EAGAIN, never waiting.
    pub(crate) fn read_errqueue(&mut self, read: &Read) -> Result<Reply, Errno> {
        let feedback = self.files.sock_mut(read.fd)?.knobs.feedback.as_mut();
        let Some(entry) = feedback.and_then(|feedback| feedback.pop()) else { return Err(Errno::EAGAIN) };
        self.charge_errors(read.fd);
        self.after_entry(read.fd, &entry)?;
        let copied = entry.data.len().min(read.want);
        if copied > read.good {
            return Err(Errno::EFAULT);
        }
        let cut = if entry.data.len() > copied { MSG_TRUNC } else { 0 };
        let sock = self.files.sock(read.fd)?;
        let addr = entry.name.map(|name| sock.shown(name));
        let data = entry.data.slice(..copied);
        let mut reply = Reply { data, addr, msg_flags: cut, ..Reply::ok(copied as i64) };
        let mut controls = match entry.err.is_icmp() {
            // It came in, as data does (`ip_recv_error`: `sock_recv_timestamp`).
            true => self.rx_time_controls(sock, entry.at),
            false => self.tx_time_controls(sock, &entry),
        };
        controls.push(entry.control(sock));
        for control in controls {
            put_control(&mut reply, read.control_len, control);
        }
        reply.msg_flags |= MSG_ERRQUEUE;
        Ok(reply)
    }

    /// The error that an entry told is told; that of the next one is the socket's. Who watches for edges hears that there is more
    /// (`sock_dequeue_err_skb`).
    fn after_entry(&mut self, fd: Fd, entry: &Entry) -> Result<(), Errno> {
        let sock = self.files.sock(fd)?;
        let (kind, feedback) = (sock.kind, sock.knobs.feedback.as_ref());
        let next = feedback.and_then(|f| f.entries.front()).map(|next| next.err);
        let next_icmp = next.filter(ExtendedErr::is_icmp);
        if entry.err.is_icmp() || next_icmp.is_some() {
            kind.id().and_then(|id| self.stack.take_error(id));
            self.files.sock_mut(fd)?.error = next_icmp.and_then(|err| Errno::from_number(err.errno));
        }
        if next.is_some() {
            self.report_error(fd);
        }
        Ok(())
    }

    /// Adds an entry where the receive buffer has room, and tells who waits for errors.
    pub(crate) fn queue_error(&mut self, fd: Fd, entry: Entry) {
        if self.push_error(fd, entry) {
            self.report_error(fd);
        }
    }

    /// Adds an entry; false where there is no room.
    fn push_error(&mut self, fd: Fd, entry: Entry) -> bool {
        let Ok(sock) = self.files.sock(fd) else { return false };
        let memory = self.memory_of(sock);
        let Ok(sock) = self.files.sock_mut(fd) else { return false };
        let feedback = sock.knobs.feedback.get_or_insert_default();
        let pushed = feedback.push(entry, memory.received as usize, memory.rcvbuf as usize);
        self.charge_errors(fd);
        pushed
    }

    /// Tells the stack what the error queue holds, for which a socket has that much less room.
    pub(crate) fn charge_errors(&mut self, fd: Fd) {
        let Ok(sock) = self.files.sock(fd) else { return };
        if let (Kind::Conn(id) | Kind::Udp(id), Some(feedback)) = (sock.kind, &sock.knobs.feedback) {
            self.stack.charge_errors(id, u32::try_from(feedback.held()).unwrap_or(u32::MAX));
        }
    }

    /// Wakes whoever waits for errors (`sk_error_report`).
    pub(crate) fn report_error(&mut self, fd: Fd) {
        self.wake_fd(fd, EPOLLERR);
        let id = self.files.sock(fd).ok().and_then(|sock| sock.kind.id());
        self.wake_blocked(&id.into_iter().collect::<Vec<_>>());
    }

    /// IP_RECVERR or IPV6_RECVERR was switched off.
    pub(crate) fn purge_errqueue(&mut self, fd: Fd) -> Result<(), Errno> {
        if let Some(feedback) = &mut self.files.sock_mut(fd)?.knobs.feedback {
            feedback.purge_icmp();
        }
        self.charge_errors(fd);
        Ok(())
    }

    /// Takes from the stack what ICMP has said about sockets, and says whether it had something. Calls that wait for these sockets are the
    /// caller's to go on with: they run when the message has done all that it does, the end of a connection among it.
    pub(crate) fn hear_icmp(&mut self) -> (bool, Vec<SocketId>) {
        let (mut any, mut woken) = (false, Vec::new());
        while let Some(heard) = self.stack.next_icmp() {
            any = true;
            let Some(fd) = self.files.fd_of(heard.id) else { continue };
            let extended = self.files.sock(fd).is_ok_and(|sock| wants_extension(sock, &heard));
            if icmp_entry(&heard, extended, self.now).is_none_or(|entry| self.push_error(fd, entry)) {
                self.wake_fd(fd, EPOLLERR);
                woken.push(heard.id);
            }
        }
        (any, woken)
    }
}

/// The socket has asked where extensions of messages of this family begin.
fn wants_extension(sock: &Sock, heard: &IcmpHeard) -> bool {
    let v6 = heard.message.as_ref().is_some_and(|error| error.from.is_ipv6());
    let (level, name) = if v6 { (SOL_IPV6, IPV6_RECVERR_RFC4884) } else { (SOL_IP, IP_RECVERR_RFC4884) };
    sock.plain(level, name) != 0
}

/// A message of ICMP as an entry: read is what it quotes, from the transport's header on (TCP), or behind it (UDP), and what stands behind that.
/// `extended` as [`wants_extension`] says.
fn icmp_entry(heard: &IcmpHeard, extended: bool, now: Instant) -> Option<Entry> {
    /// Of the transports that have sockets here.
    const UDP: u8 = 17;
    const UDP_HEADER: usize = 8;
    const ICMP_HEADER: usize = 8;
    /// Of IPv4 and IPv6, without options.
    const IP_HEADER: [usize; 2] = [20, 40];
    let error = heard.message.as_ref()?;
    let (message, embedded) = (&error.message, &error.embedded);
    let v6 = error.from.is_ipv6();
    let behind = if embedded.protocol == UDP { UDP_HEADER } else { 0 };
    let from = (embedded.l4_offset + behind).min(message.quoted.len());
    let packet = IP_HEADER[usize::from(v6)] + ICMP_HEADER + message.quoted.len();
    Some(Entry {
        err: ExtendedErr {
            errno: Errno::from(heard.error).number(),
            origin: if v6 { SO_EE_ORIGIN_ICMP6 } else { SO_EE_ORIGIN_ICMP },
            ty: message.ty,
            code: message.code,
            info: told_info(v6, message.ty, message.code, message.rest),
            data: if extended { extension::told(v6, message, from) } else { 0 },
        },
        offender: Some(error.from),
        name: Some(SocketAddr::new(embedded.dst, embedded.dst_port)),
        at: Some(now),
        data: message.quoted.slice(from..),
        stats: false,
        charge: Truesize::of_packet(u32::try_from(packet).unwrap_or(u32::MAX)).bytes() as usize,
    })
}

/// `ee_info`: the MTU of who needs smaller packets, the place of what is wrong in a header, else nothing (`icmp_unreach`, `icmpv6_notify`).
const fn told_info(v6: bool, ty: u8, code: u8, rest: u32) -> u32 {
    match (v6, ty, code) {
        (false, 3, 4) => rest & 0xffff,
        (false, 12, _) => rest >> 24,
        (false, ..) => 0,
        (true, ..) => rest,
    }
}
