//! ICMP errors about a connection (RFC 5461, RFC 5927 section 4, RFC 1191; `tcp_v4_err`).
use super::conn::Conn;
use super::fastopen::fact;
use super::options::{PmtuBelief, SocketOptions};
use super::ready::Notice;
use super::segment::Whole;
use super::seq::Seq;
use super::state::State;
use crate::base::limits::MIN_PMTU_V6;
use crate::base::{Cx, Error};
use std::sync::Arc;

/// What the application hears of an ICMP error at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing, or nothing but that the connection is over.
    Nothing,
    /// The error, by its next call.
    Error,
    /// The error, and the message that it came in, by its error queue (`ip_icmp_error`).
    Message,
}

impl Conn {
    /// An error that names this flow. During the handshake it ends the attempt; later it only explains a timeout, since anybody
    /// could have sent it, unless the application has asked for it (IP_RECVERR): then the next call fails with it, and the connection
    /// goes on. So it is once a connection that came with its SYN is `accepted`.
    pub fn on_icmp(&mut self, cx: &mut Cx<'_>, error: Error, seq: Option<Seq>, accepted: bool) -> Heard {
        // There is nothing left that it could end (`tcp_v4_err` looks at the number later).
        if self.is_past() {
            return Heard::Nothing;
        }
        if !self.names_our_data(seq) {
            cx.count.tcp_ext.out_of_window_icmps += 1;
            return Heard::Nothing;
        }
        let asked = self.options.hears_icmp(self.tuple.is_v6());
        match self.state {
            State::SynSent | State::SynRecv if !(self.is_child() && accepted) => {
                cx.count.tcp.attempt_fails += 1;
                self.finish(cx, Some(error));
                // Over IPv6 only for who asked (`ipv6_icmp_error`).
                if asked || !self.tuple.is_v6() { Heard::Message } else { Heard::Nothing }
            }
            _ if asked => {
                self.app.error = Some(error);
                self.app.notice.insert(Notice::READABLE);
                Heard::Error
            }
            _ => {
                self.app.soft_error = Some(error);
                Heard::Nothing
            }
        }
    }

    /// A router says that it does not know the way any more, and quotes what timed out: that was no congestion (RFC 6069 section 4.2).
    pub fn on_disconnection(&mut self, cx: &mut Cx<'_>, seq: Option<Seq>) {
        // What a child without its last ACK waits for is its SYN-ACK (`tcp_v4_err`).
        if self.is_child() && self.state == State::SynRecv {
            return;
        }
        if seq == Some(self.tx.snd_una()) && self.path.rtt.backoff() > 0 {
            self.timers.look(cx.now);
        }
        if seq == Some(self.tx.snd_una()) && self.tx.revert_backoff(cx, &mut self.path) {
            self.on_rto(cx);
        }
    }

    /// A router says that packets above `mtu` bytes do not pass, and of all that was heard of the path `known` is the least: what is in flight
    /// in larger ones is cut and sent again, unless the application forbade it (IP_MTU_DISCOVER). False when the error is none of this
    /// connection's or not to be believed, so that nobody else should believe it either.
    pub fn on_pmtu(&mut self, cx: &mut Cx<'_>, (mtu, known): (u16, u16), seq: Option<Seq>) -> bool {
        if self.is_past() {
            return false;
        }
        if !self.names_our_data(seq) {
            cx.count.tcp_ext.out_of_window_icmps += 1;
            return false;
        }
        if self.tuple.is_v6() && mtu < MIN_PMTU_V6 {
            return false;
        }
        match self.options.pmtu_belief(self.tuple.is_v6()) {
            PmtuBelief::Full => {}
            PmtuBelief::Route => return true,
            PmtuBelief::None => return false,
        }
        if self.tuple.is_v6() && !self.shortens(mtu) {
            return false;
        }
        let lowered = self.path.pmtu.too_big(u32::from(known)).is_some();
        // Below what is believed of any path, nothing passes whole: who forbade to cut is told (`tcp_v4_mtu_reduced`).
        if mtu < self.path.pmtu.mtu() && self.options.whole() == Whole::Always && !self.tuple.is_v6() {
            self.app.soft_error = Some(Error::MessageTooLong);
        }
        if !lowered {
            return true;
        }
        self.settle_mss(cx);
        // What is too long beside the SACK blocks of now is lost, too (`tcp_simple_retransmit` asks `tcp_current_mss`).
        self.tx.set_mss(self.mss_now());
        let with_data = self.syn_has_data();
        if self.tx.on_mss_reduced(cx, &mut self.path, with_data) {
            // And nothing new, which waits for the next acknowledgement or write.
            // It counts as sent when the clock was last looked at (`tcp_v4_mtu_reduced` does not renew `tcp_mstamp`), so that its
            // delivery says nothing about what left with it.
            self.out.try_resend_late();
        }
        true
    }

    /// A path with that MTU makes segments shorter (`tcp_v6_mtu_reduced`). Before the SYN-ACK none is counted on that is longer than what
    /// every path of IPv6 carries (`tcp_v6_connect`), but for the data of a SYN (`tcp_send_syn_data`).
    fn shortens(&self, mtu: u16) -> bool {
        let mss = self.path.pmtu.mss_at(mtu, self.peer.data_option_bytes());
        (self.state != State::SynSent || self.syn_has_data()) && mss < self.mss()
    }

    /// The SYN that is out has data (Fast Open).
    const fn syn_has_data(&self) -> bool {
        matches!(self.state, State::SynSent) && self.rest.stats.fast.has(fact::DATA)
    }

    /// The route has another MTU: an error about another connection to the same host lowered it, or what was learnt grew too old
    /// (RFC 1191 section 6.3). What leaves from now on has its size; what is in flight stays (`tcp_current_mss`).
    pub fn follow_route_mtu(&mut self, cx: &Cx<'_>, mtu: u16) {
        // Linux asks the route before a write cuts packets, so that half of the window is as many segments of the new size.
        self.tx.queue().unsent.forget_pushed();
        self.path.pmtu.reset(mtu);
        self.settle_mss(cx);
    }

    /// The route asks for something else by now: the same options with that. Its controller is for connections to come (`tcp_ca_dst_init`).
    pub fn follow_route(&mut self, options: Arc<SocketOptions>) {
        self.options = options;
        self.path.rtt.set_bounds(self.options.rto_bounds());
        self.tx.set_initial_cwnd(self.options.initial_cwnd());
    }

    /// The size of segments follows what is known of the path, and the floor that the sysctl is by now (`tcp_sync_mss`).
    pub(in crate::tcp) fn settle_mss(&mut self, cx: &Cx<'_>) {
        self.path.pmtu.set_min_mss(cx.sysctl.tcp_min_snd_mss);
        self.path.settle_mtu();
        self.child_settled();
        let mss = self.mss();
        self.tx.set_mss(mss);
    }

    /// It has ended, or waits for what is left of it to die away (TIME-WAIT of RFC 9293 section 3.3.2).
    const fn is_past(&self) -> bool {
        matches!(self.state, State::Close | State::TimeWait)
    }

    /// Between SND.UNA and SND.NXT: nobody off the path knows such a number (RFC 5927 section 4.1). Of a connection that came with its SYN also
    /// the number of its SYN-ACK.
    fn names_our_data(&self, seq: Option<Seq>) -> bool {
        let first = self.tx.snd_una() - u32::from(self.is_child());
        seq.is_none_or(|seq| seq.between(first, self.tx.snd_nxt()))
    }
}
