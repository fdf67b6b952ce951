//! Neighbour discovery messages (RFC 4861 sections 4.1 to 4.4), as far as resolving neighbours and finding routers needs.
use super::nd_option::{NdOption, NdOptions, PrefixInfo};
use super::{HEADER_LEN, Icmp6View, NEIGHBOUR_ADVERT, NEIGHBOUR_SOLICIT, ROUTER_ADVERT, ROUTER_SOLICIT};
use crate::Malformed;
use crate::ether::EtherAddr;
use core::net::Ipv6Addr;

const ADDRESS_LEN: usize = 16;
/// Reachable and retransmission time in a router advertisement.
const TIMES_LEN: usize = 8;
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const MANAGED: u8 = 0x80;
const OTHER_CONFIG: u8 = 0x40;

/// A router advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvert {
    /// Hop limit that hosts should use; 0 if the router does not say.
    pub hop_limit: u8,
    /// Addresses come from DHCPv6.
    pub managed: bool,
    /// Other configuration comes from DHCPv6.
    pub other_config: bool,
    /// Seconds for which it is a default router; 0 if it is none.
    pub router_lifetime: u16,
    /// Milliseconds for which a confirmed neighbour counts as reachable; 0 if the router does not say.
    pub reachable_time: u32,
    /// Milliseconds between solicitations; 0 if the router does not say.
    pub retrans_timer: u32,
    /// The router's link address.
    pub source_link: Option<EtherAddr>,
    /// MTU of the link in bytes.
    pub mtu: Option<u32>,
    /// The first prefix; [`NdOptions`] over the message shows all.
    pub prefix: Option<PrefixInfo>,
}

/// A neighbour discovery message. Options that are not represented are left out; of a repeated one the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdRepr {
    /// Router solicitation.
    RouterSolicit {
        /// The sender's link address; absent if the source is unspecified.
        source_link: Option<EtherAddr>,
    },
    /// Router advertisement.
    RouterAdvert(RouterAdvert),
    /// Neighbour solicitation.
    NeighbourSolicit {
        /// Whose link address is sought.
        target: Ipv6Addr,
        /// The sender's link address; absent in duplicate address detection.
        source_link: Option<EtherAddr>,
    },
    /// Neighbour advertisement.
    NeighbourAdvert {
        /// The sender is a router.
        router: bool,
        /// This answers a solicitation; never towards a multicast address.
        solicited: bool,
        /// The link address replaces a cached one.
        override_cached: bool,
        /// Whose link address this is.
        target: Ipv6Addr,
        /// The link address; may be absent when answering a unicast solicitation.
        target_link: Option<EtherAddr>,
    },
}

#[derive(Default)]
struct Known {
    source_link: Option<EtherAddr>,
    target_link: Option<EtherAddr>,
    mtu: Option<u32>,
    prefix: Option<PrefixInfo>,
}

/// All options are checked, since one malformed makes the message invalid (RFC 4861 sections 6.1 and 7.1).
fn known(bytes: &[u8]) -> Result<Known, Malformed> {
    let mut known = Known::default();
    for option in NdOptions::new(bytes) {
        match option? {
            NdOption::SourceLink(address) => known.source_link = known.source_link.or(Some(address)),
            NdOption::TargetLink(address) => known.target_link = known.target_link.or(Some(address)),
            NdOption::Mtu(mtu) => known.mtu = known.mtu.or(Some(mtu)),
            NdOption::Prefix(info) => known.prefix = known.prefix.or(Some(info)),
            NdOption::Other { .. } => {}
        }
    }
    Ok(known)
}

/// Splits the target address off; a multicast one makes the message invalid (RFC 4861 section 7.1).
fn target(data: &[u8]) -> Result<(Ipv6Addr, &[u8]), Malformed> {
    let (octets, options) = data.split_first_chunk::<ADDRESS_LEN>().ok_or(Malformed::Truncated)?;
    let target = Ipv6Addr::from_octets(*octets);
    if target.is_multicast() { Err(Malformed::Field) } else { Ok((target, options)) }
}

impl NdRepr {
    /// The message's fields. The caller checks that the hop limit is 255.
    ///
    /// # Errors
    /// For other types, and for a message that RFC 4861 calls invalid.
    pub fn parse(view: &Icmp6View<'_>) -> Result<Self, Malformed> {
        if !matches!(view.kind(), ROUTER_SOLICIT | ROUTER_ADVERT | NEIGHBOUR_SOLICIT | NEIGHBOUR_ADVERT) {
            return Err(Malformed::Unsupported);
        }
        if view.code() != 0 {
            return Err(Malformed::Field);
        }
        match view.kind() {
            ROUTER_SOLICIT => Ok(Self::RouterSolicit { source_link: known(view.data())?.source_link }),
            ROUTER_ADVERT => router_advert(view),
            NEIGHBOUR_SOLICIT => {
                let (target, options) = target(view.data())?;
                Ok(Self::NeighbourSolicit { target, source_link: known(options)?.source_link })
            }
            _ => {
                let (target, options) = target(view.data())?;
                let [flags, ..] = view.rest_of_header();
                Ok(Self::NeighbourAdvert {
                    router: flags & ROUTER != 0,
                    solicited: flags & SOLICITED != 0,
                    override_cached: flags & OVERRIDE != 0,
                    target,
                    target_link: known(options)?.target_link,
                })
            }
        }
    }

    /// The common header, checksum 0.
    pub(super) fn header(&self) -> [u8; HEADER_LEN] {
        match *self {
            Self::RouterSolicit { .. } => [ROUTER_SOLICIT, 0, 0, 0, 0, 0, 0, 0],
            Self::RouterAdvert(advert) => {
                let managed = if advert.managed { MANAGED } else { 0 };
                let other = if advert.other_config { OTHER_CONFIG } else { 0 };
                let [a, b] = advert.router_lifetime.to_be_bytes();
                [ROUTER_ADVERT, 0, 0, 0, advert.hop_limit, managed | other, a, b]
            }
            Self::NeighbourSolicit { .. } => [NEIGHBOUR_SOLICIT, 0, 0, 0, 0, 0, 0, 0],
            Self::NeighbourAdvert { router, solicited, override_cached, .. } => {
                let flags = if router { ROUTER } else { 0 }
                    | if solicited { SOLICITED } else { 0 }
                    | if override_cached { OVERRIDE } else { 0 };
                [NEIGHBOUR_ADVERT, 0, 0, 0, flags, 0, 0, 0]
            }
        }
    }

    fn options(&self) -> impl Iterator<Item = NdOption<'static>> {
        let (source, target, mtu, prefix) = match *self {
            Self::RouterSolicit { source_link } | Self::NeighbourSolicit { source_link, .. } => {
                (source_link, None, None, None)
            }
            Self::RouterAdvert(advert) => (advert.source_link, None, advert.mtu, advert.prefix),
            Self::NeighbourAdvert { target_link, .. } => (None, target_link, None, None),
        };
        let links = source.map(NdOption::SourceLink).into_iter().chain(target.map(NdOption::TargetLink));
        links.chain(mtu.map(NdOption::Mtu)).chain(prefix.map(NdOption::Prefix))
    }

    /// Bytes that [`Self::emit_body`] writes.
    pub(super) fn body_len(&self) -> usize {
        let fixed = match self {
            Self::RouterSolicit { .. } => 0,
            Self::RouterAdvert(_) => TIMES_LEN,
            Self::NeighbourSolicit { .. } | Self::NeighbourAdvert { .. } => ADDRESS_LEN,
        };
        fixed + self.options().map(|option| option.buffer_len()).sum::<usize>()
    }

    /// Writes what follows the common header to `out`, which is exactly [`Self::body_len`] long.
    pub(super) fn emit_body(&self, out: &mut [u8]) {
        let mut at = match self {
            Self::RouterSolicit { .. } => 0,
            Self::RouterAdvert(advert) => {
                out[..4].copy_from_slice(&advert.reachable_time.to_be_bytes());
                out[4..TIMES_LEN].copy_from_slice(&advert.retrans_timer.to_be_bytes());
                TIMES_LEN
            }
            Self::NeighbourSolicit { target, .. } | Self::NeighbourAdvert { target, .. } => {
                out[..ADDRESS_LEN].copy_from_slice(&target.octets());
                ADDRESS_LEN
            }
        };
        for option in self.options() {
            let len = option.buffer_len();
            option.emit(&mut out[at..at + len]);
            at += len;
        }
    }
}

fn router_advert(view: &Icmp6View<'_>) -> Result<NdRepr, Malformed> {
    let [hop_limit, flags, c, d] = view.rest_of_header();
    let (times, options) = view.data().split_first_chunk::<TIMES_LEN>().ok_or(Malformed::Truncated)?;
    let [e, f, g, h, i, j, k, l] = *times;
    let known = known(options)?;
    Ok(NdRepr::RouterAdvert(RouterAdvert {
        hop_limit,
        managed: flags & MANAGED != 0,
        other_config: flags & OTHER_CONFIG != 0,
        router_lifetime: u16::from_be_bytes([c, d]),
        reachable_time: u32::from_be_bytes([e, f, g, h]),
        retrans_timer: u32::from_be_bytes([i, j, k, l]),
        source_link: known.source_link,
        mtu: known.mtu,
        prefix: known.prefix,
    }))
}
