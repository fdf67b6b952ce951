//! A device that is gone for good, and who loses the way to its peer with it.
use super::Stack;
use super::link::LOOPBACK;
use crate::base::{DeviceId, DropWhy, Error, Instant, SocketId};
use crate::packet::Packet;
use crate::qdisc::Qdisc as _;
use crate::socket::{Holder, RequestId, Socket, Turn};
use crate::tcp::Notice;
use core::net::IpAddr;

impl Stack {
    /// A device is gone for good, and its routes with it, as when Linux deletes one: [`Error::NoRoute`] to who connects or sends where it alone
    /// led to. Connections, associations and connected datagram sockets that have no other way end with that error at once, or hear it, and
    /// handshakes that have none give their place in the SYN queue back.
    /// Linux lets connections time out, since a device may come back; here none does.
    ///
    /// Its addresses stay this host's, and what waits before it is dropped, which its flows are told. What it has taken and not told of is the
    /// driver's to complete. The loopback device is never gone.
    pub fn lose_device(&mut self, now: Instant, dev: DeviceId) {
        self.enter(now);
        if dev == LOOPBACK {
            return;
        }
        let ids: Vec<SocketId> = self.sockets.iter().map(|(id, _)| id).collect();
        let led: Vec<SocketId> = ids.into_iter().filter(|&id| self.leads(id, |to| to == dev)).collect();
        self.ip.lose_device(dev, &mut self.down.outbox);
        self.dispatch();
        self.drop_backlog(dev);
        for id in led {
            if !self.leads(id, |_| true) {
                self.cut_off(id);
            }
        }
        let half_open: Vec<RequestId> = self.small.requests.iter().map(|(id, _)| id).collect();
        for id in half_open {
            self.drop_unreachable(id);
        }
        self.rehome(dev);
    }

    /// A handshake whose peer cannot be reached any more is dropped as for an error of ICMP that says so (`tcp_req_err`): no SYN-ACK
    /// could go again.
    fn drop_unreachable(&mut self, id: RequestId) {
        let Some(tuple) = self.small.requests.get(id).map(|entry| *entry.pending.tuple()) else { return };
        if self.route(Some(tuple.local_ip), tuple.remote_ip).is_err() {
            self.env.count.tcp_ext.listen_drops += 1;
            self.fail_request(id);
        }
    }

    /// What waits before the lost device never leaves: its flows hear so, and may send it again another way.
    fn drop_backlog(&mut self, dev: DeviceId) {
        let Some(link) = self.links.get_mut(usize::from(dev.0)) else { return };
        let mut left: Vec<Packet> = link.held.drain(..).collect();
        left.extend(core::iter::from_fn(|| link.qdisc.take().or_else(|| link.early.take())));
        for packet in left {
            self.packet_lost(&packet, DropWhy::NoRoute);
        }
    }

    /// Connections whose turn was to come on the lost device have it where they lead now.
    fn rehome(&mut self, dev: DeviceId) {
        let Some(link) = self.links.get_mut(usize::from(dev.0)) else { return };
        let waiting: Vec<SocketId> = core::iter::from_fn(|| link.ready.pop()).collect();
        for id in waiting {
            let Some(entry) = self.sockets.get_mut(id) else { continue };
            let why = core::mem::replace(&mut entry.turn, Turn::NONE);
            self.mark_ready(id, why);
        }
    }

    /// A way to one of the peer's addresses leads by such a device.
    fn leads(&self, id: SocketId, by: impl Fn(DeviceId) -> bool) -> bool {
        let leads = |src: Option<IpAddr>, dst: IpAddr| self.route(src, dst).is_ok_and(|to| by(to.device));
        match self.sockets.get(id).map(|entry| &entry.socket) {
            Some(Socket::Tcp(conn)) => leads(Some(conn.tuple().local_ip), conn.tuple().remote_ip),
            Some(Socket::Udp(udp)) => {
                udp.remote.is_some_and(|remote| leads(Some(udp.local.ip()), remote.ip()))
            }
            Some(Socket::Sctp(_)) => self.sctp_leads(id, by),
            Some(Socket::Listener(_) | Socket::SctpListener(_)) | None => false,
        }
    }

    /// Nothing leads to the peer any more: whoever waits for it hears so.
    fn cut_off(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let mut cx = self.env.cx(self.now, Some(id));
        match &mut entry.socket {
            Socket::Tcp(conn) => {
                conn.cut_off(&mut cx, Error::NoRoute);
                self.settle(id, Turn::INPUT);
            }
            Socket::Sctp(sctp) => {
                sctp.assoc.cut_off(&mut cx, Error::NoRoute);
                self.settle_sctp(id, Turn::INPUT);
            }
            Socket::Udp(udp) => {
                let v6 = udp.remote.is_some_and(|remote| remote.is_ipv6());
                if udp.on_icmp(Error::NoRoute, true, v6) && entry.holder == Holder::Owner {
                    self.events.push_notice(&mut entry.pending, id, Notice::READABLE);
                }
            }
            Socket::Listener(_) | Socket::SctpListener(_) => {}
        }
    }
}
