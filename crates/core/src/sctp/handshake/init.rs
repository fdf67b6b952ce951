//! What INIT and INIT ACK say, read once and checked, and how ours are written (RFC 9260 sections 3.3.2, 3.3.3, 5.1.2).
use crate::base::limits::{SCTP_PATHS_MAX, SCTP_UNKNOWN_BYTES_MAX};
use crate::base::{Carrier, Sysctl};
use crate::sctp::output::bundle::TlvList;
use core::net::IpAddr;
use lowwater_wire::sctp::{Cause, Init, Param, Tlv, chunk_kind, param_kind};
use smallvec::SmallVec;
use zerocopy::network_endian::U16;

/// Addresses of one side.
pub type Addresses = SmallVec<[IpAddr; 2]>;

/// What the sender can do beyond RFC 9260.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u8);

impl Features {
    /// ECN (RFC 4960 appendix A; RFC 9260 only keeps its numbers).
    pub const ECN: u8 = 1;
    /// FORWARD TSN (RFC 3758).
    pub const FORWARD_TSN: u8 = 2;
    /// Takes packets without CRC32c that came by DTLS (RFC 9653).
    pub const ZERO_CHECKSUM: u8 = 4;
    /// RE-CONFIG (RFC 6525).
    pub const RECONF: u8 = 8;

    /// What the sysctls say.
    #[must_use]
    pub const fn new(sysctl: &Sysctl) -> Self {
        let ecn = if sysctl.sctp_ecn_enable { Self::ECN } else { 0 };
        let forward = if sysctl.sctp_prsctp_enable { Self::FORWARD_TSN } else { 0 };
        let reconf = if sysctl.sctp_reconf_enable { Self::RECONF } else { 0 };
        Self(ecn | forward | reconf)
    }

    /// It is among them.
    #[must_use]
    pub const fn has(self, feature: u8) -> bool {
        self.0 & feature != 0
    }

    /// What is offered by this carrier: without a header of IP nobody can mark a packet.
    #[must_use]
    pub const fn over(self, carrier: Carrier) -> Self {
        Self(if carrier.has_addresses() { self.0 } else { self.0 & !Self::ECN })
    }

    /// The parameters that offer them.
    pub(crate) fn params(self) -> impl Iterator<Item = Param<'static>> {
        // Extensions that have no parameter of their own (RFC 5061 section 4.2.7).
        let listed = Param::SupportedExtensions(&[chunk_kind::RE_CONFIG]);
        let all = [
            (Self::ECN, Param::EcnCapable),
            (Self::RECONF, listed),
            (Self::FORWARD_TSN, Param::ForwardTsnSupported),
        ];
        all.into_iter().filter(move |(bit, _)| self.has(*bit)).map(|(_, param)| param)
    }
}

/// DTLS as a method of error detection (RFC 9653 section 8.2).
pub(in crate::sctp) const EDM_DTLS: u32 = 1;
/// Least window that a side may offer.
pub(in crate::sctp) const WINDOW_MIN: u32 = 1_500;

/// An INIT or INIT ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The sender's verification tag.
    pub tag: u32,
    /// Its window in bytes.
    pub a_rwnd: u32,
    /// Streams that it wants to send on.
    pub outbound: u16,
    /// Streams that it takes.
    pub inbound: u16,
    /// Its first TSN.
    pub tsn: u32,
    /// Its addresses beside the one that the packet came from.
    pub addresses: Addresses,
    /// The cookie of an INIT ACK, padding excluded.
    pub cookie: Option<Vec<u8>>,
    /// Parameters that we do not know and have to report, each whole.
    pub unknown: TlvReport,
    /// What it can do.
    pub features: Features,
    /// Its adaptation layer.
    pub adaptation: Option<u32>,
    /// Milliseconds that it would like its cookie to live longer.
    pub preservative_ms: u32,
    /// Families of addresses that it takes; none for all (section 5.1.2).
    pub families: Families,
}

/// Families of addresses that a side takes, as Supported Address Types names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families {
    v4: bool,
    v6: bool,
}

impl Families {
    fn of(types: &[U16]) -> Self {
        let has = |kind: u16| types.iter().any(|one| one.get() == kind);
        Self { v4: has(param_kind::IPV4), v6: has(param_kind::IPV6) }
    }

    /// An address of ours may be named to this side, whose packet came from `source`: it takes what it sends from in any case (Linux
    /// `sctp_process_param`).
    #[must_use]
    pub const fn takes(self, ip: IpAddr, source: IpAddr) -> bool {
        let named = if ip.is_ipv4() { self.v4 } else { self.v6 };
        let unsaid = !self.v4 && !self.v6;
        unsaid || named || ip.is_ipv4() == source.is_ipv4()
    }
}

/// Parameters to be reported, each whole; bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlvReport {
    list: Vec<Vec<u8>>,
    /// Bytes in it: anybody may send thousands that find no room.
    used: usize,
}

impl TlvReport {
    fn push(&mut self, tlv: &Tlv<'_>) {
        let used = self.used + tlv.bytes().len();
        if used <= SCTP_UNKNOWN_BYTES_MAX {
            self.list.push(tlv.bytes().to_vec());
            self.used = used;
        }
    }

    /// The parameters.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.list.iter().map(Vec::as_slice)
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Why an INIT or INIT ACK opens nothing: the causes of the ABORT that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub Vec<u8>);

impl Refusal {
    /// An ABORT with this cause.
    #[must_use]
    pub fn new(cause: &Cause<'_>) -> Self {
        let mut list = TlvList::default();
        list.push(cause.stated_len(), |out| cause.emit(out));
        Self(list.into_bytes().to_vec())
    }
}

impl Offer {
    /// Reads and checks. `ack` for an INIT ACK, which must have a cookie; an extension that is not among `ours` is not known.
    ///
    /// # Errors
    /// What the sender has to hear in an ABORT (sections 3.3.2, 3.3.3).
    pub fn read(init: &Init<'_>, ack: bool, ours: Features) -> Result<Self, Refusal> {
        let streams = init.outbound_streams > 0 && init.inbound_streams > 0;
        if init.initiate_tag == 0 || !streams || init.a_rwnd < WINDOW_MIN {
            return Err(Refusal::new(&Cause::InvalidMandatory));
        }
        let mut offer = Self {
            tag: init.initiate_tag,
            a_rwnd: init.a_rwnd,
            outbound: init.outbound_streams,
            inbound: init.inbound_streams,
            tsn: init.initial_tsn,
            addresses: Addresses::new(),
            cookie: None,
            unknown: TlvReport::default(),
            features: Features::default(),
            adaptation: None,
            preservative_ms: 0,
            families: Families::default(),
        };
        let mut edm = None;
        for tlv in init.params {
            let violation = || Refusal::new(&Cause::ProtocolViolation(b"parameter length"));
            let tlv = tlv.map_err(|_| violation())?;
            let param = Param::parse(&tlv).map_err(|_| violation())?;
            if let Param::ZeroChecksum(method) = param {
                // The first one counts (RFC 9653 section 5.1).
                edm = edm.or(Some(method));
            }
            if !offer.take(&param, &tlv, ours)? {
                break;
            }
        }
        if edm == Some(EDM_DTLS) {
            offer.features.0 |= Features::ZERO_CHECKSUM;
        }
        if ack && offer.cookie.is_none() {
            return Err(Refusal::new(&Cause::MissingParams(&[param_kind::STATE_COOKIE.into()])));
        }
        Ok(offer)
    }

    /// One parameter; false when nothing behind it counts.
    fn take(&mut self, param: &Param<'_>, tlv: &Tlv<'_>, ours: Features) -> Result<bool, Refusal> {
        match *param {
            Param::Ipv4(ip) => self.address(ip.into()),
            Param::Ipv6(ip) => self.address(ip.into()),
            Param::StateCookie(cookie) => self.cookie = Some(cookie.to_vec()),
            Param::CookiePreservative(ms) => self.preservative_ms = ms,
            // Section 3.3.2.1.4: whoever gets one must not look the name up.
            Param::HostName(_) => return Err(Refusal::new(&Cause::UnresolvableAddress(tlv.bytes()))),
            Param::EcnCapable => self.features.0 |= Features::ECN & ours.0,
            Param::ForwardTsnSupported if ours.has(Features::FORWARD_TSN) => {
                self.features.0 |= Features::FORWARD_TSN;
            }
            Param::Adaptation(layer) => self.adaptation = Some(layer),
            Param::SupportedAddressTypes(types) => self.families = Families::of(types),
            Param::SupportedExtensions(types) => {
                if types.contains(&chunk_kind::RE_CONFIG) {
                    self.features.0 |= Features::RECONF & ours.0;
                }
            }
            // Known, and of no consequence here; what an INIT ACK reports about ours too.
            Param::ZeroChecksum(_) | Param::Padding(_) | Param::Unrecognized(_) => {}
            _ => {
                let unknown = tlv.unknown();
                if unknown.reports() {
                    self.unknown.push(tlv);
                }
                return Ok(!unknown.stops());
            }
        }
        Ok(true)
    }

    fn address(&mut self, ip: IpAddr) {
        let sane = !ip.is_unspecified() && !ip.is_multicast();
        let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        if sane && !broadcast && self.addresses.len() < SCTP_PATHS_MAX && !self.addresses.contains(&ip) {
            self.addresses.push(ip);
        }
    }
}

/// The addresses that an INIT names, before anything else of it is looked at.
pub fn named_addresses<'a>(init: &Init<'a>) -> impl Iterator<Item = IpAddr> + 'a {
    let params = init.params.map_while(Result::ok).filter_map(|tlv| match Param::parse(&tlv) {
        Ok(Param::Ipv4(ip)) => Some(IpAddr::V4(ip)),
        Ok(Param::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        _ => None,
    });
    params.take(SCTP_PATHS_MAX)
}

/// What our INIT or INIT ACK says.
#[derive(Debug)]
pub(crate) struct Announce<'a> {
    /// Our tag.
    pub(crate) tag: u32,
    /// Our window.
    pub(crate) a_rwnd: u32,
    /// Streams that we want to send on.
    pub(crate) outbound: u16,
    /// Streams that we take.
    pub(crate) inbound: u16,
    /// Our first TSN.
    pub(crate) tsn: u32,
    /// Our addresses; a single one needs no mention.
    pub(crate) addresses: &'a [IpAddr],
    /// Parameters behind them.
    pub(crate) params: TlvList,
}

impl Announce<'_> {
    /// Writes it: `emit` gets the chunk's content.
    pub(crate) fn write<R>(mut self, emit: impl FnOnce(Init<'_>) -> R) -> R {
        let mut params = TlvList::default();
        if self.addresses.len() > 1 {
            for ip in self.addresses {
                let param = address_param(*ip);
                params.push(param.stated_len(), |out| param.emit(out));
            }
        }
        let rest = core::mem::take(&mut self.params);
        if !rest.is_empty() {
            let bytes = rest.as_slice();
            params.push(bytes.len(), |out| out[..bytes.len()].copy_from_slice(bytes));
        }
        emit(Init {
            initiate_tag: self.tag,
            a_rwnd: self.a_rwnd,
            outbound_streams: self.outbound,
            inbound_streams: self.inbound,
            initial_tsn: self.tsn,
            params: lowwater_wire::sctp::Tlvs::new(params.as_slice()),
        })
    }
}

/// An address as a parameter.
#[must_use]
pub const fn address_param(ip: IpAddr) -> Param<'static> {
    match ip {
        IpAddr::V4(ip) => Param::Ipv4(ip),
        IpAddr::V6(ip) => Param::Ipv6(ip),
    }
}
