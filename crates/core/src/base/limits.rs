//! Every bound of the core that is not a sysctl, with the reason for its size.
use super::Duration;

/// Largest IP packet, super-packets included (`IP_MAX_MTU`).
pub const MAX_PACKET_BYTES: usize = 65_535;
/// Room for link, IP and transport headers in one packet: 14 + 40 + 8 (fragment) + 60, rounded up so that a packet takes 200 bytes.
pub const HEAD_BYTES: usize = 124;
/// Largest super-packet that a device may announce (`GSO_LEGACY_MAX_SIZE`).
pub const GSO_MAX_SIZE: usize = 65_536;
/// Most segments in one super-packet (`GSO_MAX_SEGS`).
pub const GSO_MAX_SEGS: u16 = 65_535;
/// Smallest MSS that is honoured, so that a peer cannot make us send tiny segments (`TCP_MIN_SND_MSS`).
pub const TCP_MIN_SND_MSS: u16 = 48;
/// Smallest path MTU that an ICMPv4 error may set (`ip_rt_min_pmtu`).
pub const MIN_PMTU_V4: u16 = 552;
/// Smallest IPv6 MTU (RFC 8200 section 5).
pub const MIN_PMTU_V6: u16 = 1_280;
/// Packets that wait for one neighbour's link address; the oldest goes first (`unres_qlen_bytes` in packets).
pub const NEIGHBOUR_QUEUE_PACKETS: usize = 64;
/// Neighbours per stack (`gc_thresh3`).
pub const NEIGHBOURS_MAX: usize = 1_024;
/// Destinations that an unconnected UDP socket remembers, so that what a router says of the way there can be about a datagram of ours.
pub const UDP_RECENT_MAX: usize = 256;
/// How long: queues on the way are shorter.
pub const UDP_RECENT_TIME: Duration = Duration::from_secs(60);
/// Path MTU entries per stack.
pub const PMTU_ENTRIES_MAX: usize = 1_024;
/// Servers whose Fast Open cookie a stack remembers; the oldest is forgotten first.
pub const FASTOPEN_SERVERS_MAX: usize = 1_024;
/// Routes per stack.
pub const ROUTES_MAX: usize = 4_096;
/// Records of the flight recorder before new ones overwrite old ones.
pub const TRACE_RECORDS: usize = 256;
/// Sockets whose end the driver has not heard of, before nobody gets another socket: as many as there may be orphans.
pub const GONE_EVENTS_MAX: usize = 65_536;
/// Messages of ICMP that wait for a driver who asked to hear them; later ones are not told (`Stack::hear_icmp`).
pub const ICMP_HEARD_MAX: usize = 64;
/// Addresses of one side of an association.
pub const SCTP_PATHS_MAX: usize = 16;
/// Bytes of the reason in an ABORT: what a packet of IP can hold, with headers to spare.
pub const SCTP_ABORT_REASON_MAX: usize = 65_000;
/// SACKs of one packet that are read; an honest peer's has one.
pub const SCTP_SACKS_MAX: u8 = 4;
/// Duplicate TSNs that one SACK reports (`SCTP_MAX_DUP_TSNS`).
pub const SCTP_DUPS_MAX: usize = 16;
/// TSNs beyond the cumulative one that are kept: a gap block counts them in 16 bits.
pub const SCTP_TSN_AHEAD_MAX: u64 = 32_768;
/// Holes in what has come, beyond which only their filling is taken.
pub const SCTP_TSN_HOLES_MAX: usize = 1_024;
/// What a received DATA chunk costs beside its bytes.
pub const SCTP_CHUNK_OVERHEAD: usize = 128;
/// Notifications that a peer may cause at will and that wait to be read; later ones are dropped and counted.
pub const SCTP_NOTES_MAX: usize = 64;
/// Bytes of causes in them.
pub const SCTP_NOTE_BYTES_MAX: u32 = 65_536;
/// Send buffers whose worth of messages that failed may wait to be read, as notifications; later ones are dropped and counted.
pub const SCTP_FAILED_SNDBUFS: usize = 2;
/// Cookies of SCTP that a stack remembers to have used, to know copies of them.
pub const SCTP_USED_COOKIES_MAX: usize = 1_024;
/// Answers of one kind that wait to be sent to one peer.
pub const SCTP_REPLIES_MAX: usize = 8;
/// Bytes of parameters that we do not know and report to their sender.
pub const SCTP_UNKNOWN_BYTES_MAX: usize = 512;
/// Bytes of spare send buffers that a stack keeps: a few dozen super-packets.
pub const POOL_BYTES_MAX: usize = 4 << 20;
