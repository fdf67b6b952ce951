//! The receive path: from a device's frame to the object that it belongs to.
//!
//! ```text
//! receive ─▶ link header ─▶ gro ─▶ ip.input ─▶ demux ─┬▶ connection   ─▶ settle (events, turn, timer, fate)
//!            (ARP, ND ◀──────────┘   │  │             ├▶ request      ─▶ reply, or spawn a connection
//!             answers leave by       │  │             ├▶ TIME-WAIT    ─▶ reply, or reopen
//!             dispatch)              │  └▶ UDP socket └▶ listener, or a reset
//!                                    ├▶ SCTP, also behind UDP: association, listener, or out of the blue (`sctp/input.rs`)
//!                                    └▶ ICMP error ─▶ its flow; echo is answered inside ip
//! ```
use super::Stack;
use super::demux::Flow;
use crate::base::{DeviceId, DropWhy, SocketId, Tuple};
use crate::ip::{FrameInput, Ingress, Input, Unreachable};
use crate::offload::Coalesced;
use crate::packet::{Csum, Packet};
use crate::socket::{Holder, Socket};
use crate::tcp::{Chunks, Layout, Notice, Segment, Seq};
use crate::udp::Datagram;
use core::net::SocketAddr;
use lowwater_wire::protocol;
use lowwater_wire::tcp::{Signature, TcpFlags, TcpView};
use lowwater_wire::udp::HEADER_LEN as UDP_HEADER_LEN;

impl Stack {
    /// Takes the link header off and gathers the packet with its neighbours in the batch.
    pub(super) fn ingress_frame(&mut self, dev: DeviceId, frame: Packet) {
        if self.batch.device.is_some_and(|d| d != dev) {
            self.ingress_flush();
        }
        let mut cx = self.env.cx(self.now, None);
        match self.ip.input_frame(&mut cx, dev, frame, &mut self.down.outbox) {
            FrameInput::Packet(packet) if self.batch.gro.passes_by(&packet) => {
                self.ingress_packet(dev, Coalesced::single(packet));
            }
            FrameInput::Packet(packet) => {
                self.batch.device = Some(dev);
                self.batch.gro.receive(packet, &mut self.batch.merged);
                self.ingress_merged(dev);
            }
            FrameInput::ToGroup(packet) => {
                // It merges with nothing, and passes nothing by.
                self.ingress_flush();
                let input = self.ip.input_to_group(
                    &mut self.env.cx(self.now, None),
                    dev,
                    packet,
                    &mut self.down.outbox,
                );
                self.ingress_input(input, [], false);
            }
            FrameInput::Consumed => {}
            FrameInput::Drop(why) => cx.count.dropped(why),
        }
        self.dispatch();
    }

    /// Ends the batch: nothing waits for more packets to merge with.
    pub(super) fn ingress_flush(&mut self) {
        if let Some(dev) = self.batch.device.take() {
            self.batch.gro.flush(&mut self.batch.merged);
            self.ingress_merged(dev);
        }
    }

    fn ingress_merged(&mut self, dev: DeviceId) {
        let mut merged = core::mem::take(&mut self.batch.merged);
        for coalesced in merged.drain(..) {
            self.env.count.own.gro_merged += coalesced.more.len() as u64;
            self.ingress_packet(dev, coalesced);
        }
        self.batch.merged = merged;
    }

    /// One IP packet, possibly of several segments.
    pub(super) fn ingress_packet(&mut self, dev: DeviceId, coalesced: Coalesced) {
        let Coalesced { packet, more, push, .. } = coalesced;
        let input = self.ip.input(&mut self.env.cx(self.now, None), dev, packet, &mut self.down.outbox);
        self.ingress_input(input, more, push);
        self.dispatch();
    }

    /// What IP has made of a packet.
    fn ingress_input(&mut self, input: Input, more: impl IntoIterator<Item = bytes::Bytes>, push: bool) {
        match input {
            Input::Deliver(ingress) => match ingress.protocol {
                protocol::TCP => self.tcp_input(&ingress, more, push),
                protocol::UDP => self.udp_input(&ingress),
                protocol::SCTP => self.sctp_ip_input(&ingress),
                _ => {
                    let mut cx = self.env.cx(self.now, None);
                    cx.count.ip.in_unknown_protos += 1;
                    cx.count.dropped(DropWhy::Protocol);
                    self.ip.unreachable(&mut cx, &ingress, Unreachable::Protocol, &mut self.down.outbox);
                }
            },
            Input::Error(error) => self.icmp_error(&error),
            Input::Consumed => {}
            Input::Drop(why) => self.env.count.dropped(why),
        }
    }

    fn tcp_input(&mut self, ingress: &Ingress, more: impl IntoIterator<Item = bytes::Bytes>, push: bool) {
        let count = &mut self.env.count;
        count.tcp.in_segs += 1;
        // Neither SYNs nor data for a group make sense (RFC 9293 section 3.9.2.3, MUST-57).
        if ingress.to_group {
            return count.dropped(DropWhy::NotForUs);
        }
        let Ok(view) = TcpView::parse(ingress.l4()) else {
            count.tcp.in_errs += 1;
            return count.dropped(DropWhy::Malformed);
        };
        if !ingress.checksum_ok() {
            count.tcp.in_errs += 1;
            count.tcp.in_csum_errors += 1;
            return count.dropped(DropWhy::Checksum);
        }
        let mut payload = Chunks::new();
        let first = ingress.payload(view.header_len());
        if !first.is_empty() {
            payload.push(first);
        }
        payload.extend(more);
        // Of a merged packet each part was one segment; of a super-packet its size tells.
        count.tcp.in_segs += payload.len().saturating_sub(1) as u64 + gso_segments(ingress, &payload) - 1;
        let mut flags = view.flags();
        if push {
            flags.insert(TcpFlags::PSH);
        }
        let mut seg = Segment {
            at: ingress.packet.at,
            seq: Seq(view.seq()),
            ack: Seq(view.ack()),
            flags,
            window: view.window(),
            urgent: view.urgent(),
            options: view.options(),
            tos: ingress.tos,
            ttl: ingress.ttl,
            layout: Layout {
                header_bytes: view.header_len() as u8,
                usual: view.has_usual_options(),
                gso_size: segment_size(ingress, &payload),
                pinned_bytes: ingress.packet.payload.len() as u32,
                flow_label: ingress.flow_label(),
            },
            payload,
        };
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            ingress.copy_headers(view.header_len(), &mut self.openers.syn_head);
        }
        let tuple = tuple_of(ingress, view.src_port(), view.dst_port());
        self.tcp_segment(&tuple, &mut seg);
    }

    /// The one place that decides whose segment it is.
    fn tcp_segment(&mut self, tuple: &Tuple, seg: &mut Segment) {
        match self.flow(tuple) {
            Some(Flow::Conn(id)) => self.conn_input(id, tuple, seg),
            Some(Flow::Request(id)) => match seg.options.signed {
                Some(signature) => self.signed(signature),
                None => self.request_input(id, tuple, seg),
            },
            Some(Flow::TimeWait(id)) => self.time_wait_input(id, tuple, seg),
            None => self.segment_without_flow(tuple, seg, None),
        }
    }

    /// A segment with a signature, or with what might be one, is dropped without a word before more than its way is looked at: there are no
    /// keys (`tcp_inbound_hash`).
    pub(super) fn signed(&mut self, signature: Signature) {
        self.env.count.tcp_ext.tcp_md5_unexpected += u64::from(signature == Signature::Md5);
        self.env.count.dropped(DropWhy::TcpSigned);
    }

    /// A segment or an error has come further than its socket allows (RFC 5082).
    pub(super) fn come_too_far(&mut self) {
        self.env.count.tcp_ext.tcp_min_ttl_drop += 1;
        self.env.count.dropped(DropWhy::TcpMinTtl);
    }

    fn udp_input(&mut self, ingress: &Ingress) {
        let count = &mut self.env.count;
        let l4 = ingress.l4();
        let (len, stated) = (ingress.l4_len(), l4.get(4..6).map_or(0, |b| usize::from(u16_of(b))));
        if l4.len() < UDP_HEADER_LEN || stated < UDP_HEADER_LEN || stated > len {
            count.udp.in_errors += 1;
            return count.dropped(DropWhy::Malformed);
        }
        let whole;
        let ingress = if stated < len {
            // What lies behind the datagram is no part of it, nor of its checksum (`udp4_csum_init`).
            whole = ingress.cut(stated);
            &whole
        } else {
            ingress
        };
        // Over IPv4 a sender may leave the checksum out (RFC 768); over IPv6 it may not (RFC 8200 section 8.1).
        let absent = ingress.packet.offload.csum == Csum::None && u16_of(&l4[6..8]) == 0;
        if if absent { ingress.src.is_ipv6() } else { !ingress.checksum_ok() } {
            count.udp.in_errors += 1;
            count.udp.in_csum_errors += 1;
            return count.dropped(DropWhy::Checksum);
        }
        let tuple = tuple_of(ingress, u16_of(&l4[..2]), u16_of(&l4[2..4]));
        if self.is_sctp_over_udp(tuple.local_port) {
            self.env.count.udp.in_datagrams += 1;
            return self.sctp_udp_input(ingress, tuple.remote_port, stated);
        }
        let mut data = ingress.payload(UDP_HEADER_LEN);
        data.truncate(stated - UDP_HEADER_LEN);
        let local = SocketAddr::new(ingress.dst, tuple.local_port);
        let datagram = Datagram { data, peer: tuple.remote(), local };
        if ingress.to_group && self.ip.is_group(ingress.dst) {
            return self.udp_to_all(&tuple, &datagram);
        }
        match self.udp_receiver(&tuple) {
            Some(id) => self.udp_deliver(id, datagram),
            None => {
                let count = &mut self.env.count;
                count.udp.no_ports += 1;
                count.dropped(DropWhy::NoSocket);
                let mut cx = self.env.cx(self.now, None);
                self.ip.unreachable(&mut cx, ingress, Unreachable::Port, &mut self.down.outbox);
            }
        }
    }

    /// One for each who listens there (`__udp4_lib_mcast_deliver`).
    fn udp_to_all(&mut self, tuple: &Tuple, datagram: &Datagram) {
        let all = self.demux.udp_all(tuple);
        if all.is_empty() {
            self.env.count.udp.ignored_multi += 1;
            self.env.count.dropped(DropWhy::NoSocket);
        }
        all.into_iter().for_each(|id| self.udp_deliver(id, datagram.clone()));
    }

    fn udp_deliver(&mut self, id: SocketId, datagram: Datagram) {
        let count = &mut self.env.count;
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Udp(udp) = &mut entry.socket else { return };
        if !udp.deliver(datagram) {
            count.udp.in_errors += 1;
            count.udp.rcvbuf_errors += 1;
            return count.dropped(DropWhy::ReceiveBufferFull);
        }
        count.udp.in_datagrams += 1;
        if entry.holder == Holder::Owner {
            self.events.push_notice(&mut entry.pending, id, Notice::READABLE);
        }
    }
}

/// Payload of one segment in what was coalesced, here or by the device; 0 for a single segment.
fn segment_size(ingress: &Ingress, payload: &Chunks) -> u16 {
    match payload.as_slice() {
        [first, _, ..] => first.len() as u16,
        _ => ingress.packet.offload.gso_size,
    }
}

/// Segments that a super-packet stands for.
fn gso_segments(ingress: &Ingress, payload: &Chunks) -> u64 {
    let size = u64::from(ingress.packet.offload.gso_size);
    match payload.first() {
        Some(first) if size > 0 => (first.len() as u64).div_ceil(size).max(1),
        _ => 1,
    }
}

const fn tuple_of(ingress: &Ingress, src_port: u16, dst_port: u16) -> Tuple {
    Tuple { local_ip: ingress.dst, remote_ip: ingress.src, local_port: dst_port, remote_port: src_port }
}

const fn u16_of(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}
