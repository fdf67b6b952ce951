//! Snapshots of an association for people and tools (SCTP_STATUS, SCTP_GET_PEER_ADDR_INFO, `ss`).
use super::assoc::Assoc;
use super::congestion::Snapshot;
use super::handshake::init::Features;
use super::options::PathOptions;
use super::paths::{PathId, PathState};
use super::state::State;
use crate::base::Wait;
use crate::base::sysctl::SctpCongestionKind;
use crate::base::time::Duration;
use core::net::IpAddr;

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// The peer's address.
    pub remote: IpAddr,
    /// Ours.
    pub local: Option<IpAddr>,
    /// Its state.
    pub state: PathState,
    /// It is the primary one.
    pub primary: bool,
    /// Data goes there.
    pub active: bool,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes.
    pub ssthresh: u32,
    /// Bytes in flight.
    pub flight: u32,
    /// `partial_bytes_acked`.
    pub partial_bytes_acked: u32,
    /// What moves the window.
    pub congestion: SctpCongestionKind,
    /// What its controller knows; `None` for RFC 9260's own rules, and before data was sent there.
    pub controller: Option<Snapshot>,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Smallest round-trip time.
    pub min_rtt: Option<Duration>,
    /// Timeout.
    pub rto: Duration,
    /// Path MTU in bytes of an IP packet.
    pub mtu: u16,
    /// Its bounds and its heartbeats.
    pub options: PathOptions,
    /// UDP port of the peer; 0 for packets without UDP.
    pub encap_port: u16,
    /// Errors in a row.
    pub errors: u16,
    /// Pacing rate in bytes per second.
    pub pacing_rate: u64,
    /// Charge below the transport, in bytes.
    pub below: u32,
}

/// An association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssocInfo {
    /// Its state.
    pub state: State,
    /// Our verification tag and the peer's.
    pub tags: (u32, u32),
    /// The last TSN of the peer's up to which everything has come.
    pub cum_tsn: u32,
    /// What the peer has room for beyond what is in flight.
    pub peer_rwnd: u32,
    /// Our window.
    pub rwnd: u32,
    /// Chunks not acknowledged.
    pub unacked: usize,
    /// The peer's chunks that are missing below those that have come.
    pub missing: u64,
    /// Messages that wait to be sent, in bytes.
    pub unsent_bytes: usize,
    /// Streams that we may send on, and the peer.
    pub streams: (u16, u16),
    /// Largest user data of one chunk.
    pub fragment_point: usize,
    /// Extensions that both sides have offered.
    pub features: Features,
    /// Errors in a row.
    pub errors: u16,
    /// Why nothing was sent in the last turn.
    pub wait: Wait,
    /// Its paths.
    pub paths: Vec<PathInfo>,
}

impl Assoc {
    /// A snapshot.
    #[must_use]
    pub fn info(&self) -> AssocInfo {
        AssocInfo {
            state: self.state,
            tags: self.id.tags,
            cum_tsn: self.rx.map.cum().wire(),
            peer_rwnd: self.tx.peer_rwnd,
            rwnd: self.rx.window(&self.options),
            unacked: self.tx.out.len(),
            missing: self.rx.map.missing(),
            unsent_bytes: self.unsent_bytes(),
            streams: self.streams(),
            fragment_point: self.paths.fragment_point(self.options.maxseg),
            features: self.id.features,
            errors: self.errors,
            wait: self.tx.hold.0,
            paths: self.paths.iter().map(|(id, _)| self.path_info(id)).collect(),
        }
    }

    /// Streams that we send on and that the peer does, without the rest of [`Assoc::info`]; no memory is asked for.
    #[must_use]
    pub const fn streams(&self) -> (u16, u16) {
        (self.tx.streams, self.rx.inbound)
    }

    /// Bytes of messages that were not sent yet, likewise.
    #[must_use]
    pub const fn unsent_bytes(&self) -> usize {
        self.tx.queue.bytes()
    }

    fn path_info(&self, id: PathId) -> PathInfo {
        let path = self.paths.get(id);
        PathInfo {
            remote: path.remote,
            local: path.local(),
            state: path.state(),
            primary: id == self.paths.primary(),
            active: id == self.paths.active(),
            cwnd: path.cwnd.cwnd,
            ssthresh: path.cwnd.ssthresh,
            flight: path.cwnd.flight(),
            partial_bytes_acked: path.cwnd.partial_bytes_acked,
            congestion: path.cwnd.kind(),
            controller: path.cwnd.snapshot(),
            srtt: path.rto.srtt(),
            min_rtt: path.rto.min_rtt(),
            rto: path.rto.get(),
            mtu: path.mtu(),
            options: path.options,
            encap_port: path.encap(),
            errors: path.errors,
            pacing_rate: path.flow.pacing.rate(),
            below: path.flow.credit.below(),
        }
    }
}
