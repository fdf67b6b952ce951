//! A snapshot of a connection under the names of Linux's `struct tcp_info`.
use super::conn::Conn;
use crate::base::Cx;
use crate::base::time::Duration;

/// What TCP_INFO reports; times in microseconds unless the name says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of Linux's struct tcp_info")]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent_ms: u32,
    pub last_data_recv_ms: u32,
    pub last_ack_recv_ms: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub delivered: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub reord_seen: u32,
    pub snd_wnd: u32,
}

fn micros(d: Duration) -> u32 {
    u32::try_from(d.as_micros()).unwrap_or(u32::MAX)
}

impl Conn {
    /// Bytes that wait to be read, and bytes written that the peer has not acknowledged: the queues as `ss` shows them.
    #[must_use]
    pub fn queues(&self) -> (u64, u64) {
        (u64::from(self.rx.readable_bytes()), self.tx.queue_ref().write_seq() - self.tx.una_offset())
    }

    /// TCP_INFO.
    #[must_use]
    pub fn info(&self, cx: &Cx<'_>) -> TcpInfo {
        let flight = self.tx.flight();
        let ms_since = |at| cx.now.since(at).as_millis() as u32;
        let mut options = u8::from(self.peer.ts);
        options |= u8::from(self.peer.sack) << 1;
        options |= u8::from(self.peer.wscale) << 2;
        options |= u8::from(self.peer.ecn) << 3;
        TcpInfo {
            state: self.state as u8,
            ca_state: self.tx.ca_state() as u8,
            retransmits: self.tx.retransmits(),
            probes: self.timers.probes_out,
            backoff: self.path.rtt.backoff(),
            options,
            snd_wscale: self.peer.snd_wscale,
            rcv_wscale: self.peer.rcv_wscale,
            rto: micros(self.path.rtt.rto(cx.sysctl)),
            ato: micros(self.rx.ack.ato()),
            snd_mss: u32::from(self.mss()),
            rcv_mss: self.rx.ack.rcv_mss(),
            unacked: flight.packets_out,
            sacked: flight.sacked_out,
            lost: flight.lost_out,
            retrans: flight.retrans_out,
            last_data_sent_ms: ms_since(self.snd.last_data),
            last_data_recv_ms: ms_since(self.rest.stats.last_data_recv),
            last_ack_recv_ms: ms_since(self.rest.stats.last_ack_recv),
            pmtu: u32::from(self.path.pmtu.mtu()),
            rcv_ssthresh: self.rx.window().ssthresh(),
            rtt: micros(self.path.rtt.srtt().unwrap_or_default()),
            rttvar: micros(self.path.rtt.mdev()),
            snd_ssthresh: self.path.window.ssthresh,
            snd_cwnd: self.path.window.cwnd,
            advmss: u32::from(self.peer.advmss),
            reordering: self.tx.reordering().degree,
            rcv_rtt: micros(self.rx.rtt()),
            rcv_space: self.rx.rcv_space(),
            total_retrans: self.tx.total_retrans(),
            pacing_rate: self.path.pacing.rate(),
            max_pacing_rate: self.path.pacing.max_rate(),
            bytes_acked: self.tx.una_offset().saturating_sub(1),
            bytes_received: self.rest.stats.bytes_received,
            segs_out: self.rest.stats.segs_out,
            segs_in: self.rest.stats.segs_in,
            notsent_bytes: u32::try_from(self.tx.queue_ref().unsent_bytes()).unwrap_or(u32::MAX),
            min_rtt: self.path.rtt.min_rtt().map_or(u32::MAX, micros),
            data_segs_in: self.rest.stats.data_segs_in,
            data_segs_out: self.rest.stats.data_segs_out,
            delivery_rate: self.path.rate.best().map_or(0, |r| r.bytes_per_second(u32::from(self.mss()))),
            delivered: self.path.rate.delivered(),
            bytes_sent: self.rest.stats.bytes_sent,
            bytes_retrans: self.rest.stats.bytes_retrans,
            reord_seen: self.tx.reordering().seen,
            snd_wnd: self.snd.wnd,
        }
    }
}
