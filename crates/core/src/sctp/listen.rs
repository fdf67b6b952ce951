//! The listener's side of a handshake, without a word remembered: INIT is answered with a cookie (RFC 9260 sections 5.1, 5.2.1, 5.2.2).
use super::assoc::{Assoc, draw_tag};
use super::blue::{self, BlueAnswer};
use super::handshake::cookie::{Bad, CookieKeys, Ticket};
use super::handshake::init::{Addresses, Announce, EDM_DTLS, Offer, Refusal};
use super::options::SctpOptions;
use super::output::bundle::TlvList;
use super::receiver::initial_window;
use super::state::State;
use crate::base::{Carrier, Cx};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::sctp::{Cause, Chunk, Init, Param, Tlvs};

/// What answers an INIT: our side.
#[derive(Debug)]
pub struct Local<'a> {
    /// Signs the cookie.
    pub keys: &'a CookieKeys,
    /// Our addresses, to be announced.
    pub locals: &'a [IpAddr],
    /// The listener's options.
    pub options: &'a SctpOptions,
    /// What the INIT came in.
    pub carrier: Carrier,
}

/// The INIT and the way it came.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Our port and the peer's.
    pub ports: (u16, u16),
    /// Our address and the peer's, as the packet has them.
    pub ips: (IpAddr, IpAddr),
    /// The UDP port that it came from; 0 without UDP.
    pub encap: u16,
    /// The association that there is with this peer.
    pub assoc: Option<&'a Assoc>,
}

/// What becomes of an INIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This packet answers it.
    Reply(BlueAnswer),
    /// The association sends SHUTDOWN ACK again (section 9.2).
    Shutdown,
}

/// Most milliseconds by which a peer may have its cookie live longer (section 5.2.6: half a minute beyond the usual).
const PRESERVE_MAX_MS: u32 = 30_000;

/// Answers an INIT with an INIT ACK, or an ABORT.
#[must_use]
pub fn on_init(cx: &mut Cx<'_>, local: &Local<'_>, known: &Known<'_>, init: &Init<'_>) -> Answer {
    let offer = match Offer::read(init, false, local.options.features.over(local.carrier)) {
        Ok(offer) => offer,
        Err(Refusal(causes)) => return Answer::Reply(blue::refuse(init.initiate_tag, &causes)),
    };
    let mut addresses = Addresses::new();
    addresses.push(known.ips.1);
    let named = offer.addresses.iter().filter(|_| local.carrier.has_addresses());
    addresses.extend(named.copied().filter(|ip| *ip != known.ips.1));
    let (mut tags, mut ties) = ((draw_tag(cx), offer.tag), (0, 0));
    let mut tsn = cx.rng.next_u32();
    if let Some(assoc) = known.assoc {
        if let Some(cause) = other_encap(assoc, known) {
            return Answer::Reply(blue::refuse(offer.tag, &cause));
        }
        if assoc.state() == State::ShutdownAckSent {
            return Answer::Shutdown;
        }
        if assoc.state() != State::CookieWait
            && let Some(causes) = new_addresses(assoc, &addresses)
        {
            return Answer::Reply(blue::refuse(offer.tag, &causes));
        }
        if assoc.state().is_opening() {
            // Both open at once: our INIT stands (section 5.2.1).
            tags.0 = assoc.tags().0;
            tsn = assoc.initial_tsn();
        } else {
            ties = assoc.known_tags().ties;
        }
    }
    let mut life_ms = local.options.cookie_life_ms;
    if cx.sysctl.sctp_cookie_preserve_enable {
        life_ms = life_ms.saturating_add(offer.preservative_ms.min(PRESERVE_MAX_MS));
    }
    let outbound = local.options.num_ostreams.min(offer.inbound);
    let inbound = local.options.max_instreams.min(offer.outbound);
    let ticket = Ticket {
        made_at: cx.now,
        life_ms,
        ports: known.ports,
        tags,
        tsns: (tsn, offer.tsn),
        ties,
        streams: (outbound, inbound),
        peer_rwnd: offer.a_rwnd,
        features: offer.features,
        adaptation: offer.adaptation,
        local: known.ips.0,
        addresses,
    };
    Answer::Reply(init_ack(local, &ticket, &offer))
}

/// The cause that names both UDP ports where an INIT for an association comes from another one than its path has: no tag shows
/// who sent it, so that nobody may move an association that way (draft-tuexen-tsvwg-sctp-udp-encaps-cons section 4).
fn other_encap(assoc: &Assoc, known: &Known<'_>) -> Option<Vec<u8>> {
    let path = assoc.paths().get(assoc.paths().find(known.ips.1)?);
    let moved = path.encap() != known.encap;
    moved.then(|| Refusal::new(&Cause::NewEncapPort(path.encap(), known.encap)).0)
}

fn init_ack(local: &Local<'_>, ticket: &Ticket, offer: &Offer) -> BlueAnswer {
    let cookie = local.keys.seal(ticket);
    let mut params = TlvList::default();
    let mut push = |param: &Param<'_>| params.push(param.stated_len(), |out| param.emit(out));
    push(&Param::StateCookie(&cookie));
    for param in ticket.features.params() {
        push(&param);
    }
    if let Some(layer) = local.options.adaptation {
        push(&Param::Adaptation(layer));
    }
    if local.carrier.detects_errors() {
        push(&Param::ZeroChecksum(EDM_DTLS));
    }
    for unknown in offer.unknown.iter() {
        push(&Param::Unrecognized(unknown));
    }
    let source = ticket.addresses.first().copied().unwrap_or(ticket.local);
    let taken = |ip: &IpAddr| offer.families.takes(*ip, source);
    let locals: Addresses = local.locals.iter().copied().filter(taken).collect();
    let announce = Announce {
        tag: ticket.tags.0,
        a_rwnd: initial_window(local.options),
        outbound: ticket.streams.0,
        inbound: local.options.max_instreams,
        tsn: ticket.tsns.0,
        addresses: &locals,
        params,
    };
    let chunks = announce.write(|init| {
        let chunk = Chunk::InitAck(init);
        let mut out = vec![0; chunk.buffer_len()];
        chunk.emit(&mut out);
        Bytes::from(out)
    });
    BlueAnswer { vtag: ticket.tags.1, chunks }
}

/// The cause that names the addresses which this peer did not have before: nobody may add himself to an association that way
/// (section 5.2.2).
#[must_use]
pub fn new_addresses(assoc: &Assoc, addresses: &[IpAddr]) -> Option<Vec<u8>> {
    let mut list = TlvList::default();
    for ip in addresses.iter().filter(|ip| assoc.paths().find(**ip).is_none()) {
        let param = super::handshake::init::address_param(*ip);
        list.push(param.stated_len(), |out| param.emit(out));
    }
    (!list.is_empty()).then(|| Refusal::new(&Cause::Restart(Tlvs::new(list.as_slice()))).0)
}

/// The ticket in the cookie of a COOKIE ECHO that came with this tag between these ports.
///
/// # Errors
/// [`Bad::Forged`] also when the cookie was made for another flow.
pub fn on_cookie_echo(keys: &CookieKeys, ports: (u16, u16), vtag: u32, cookie: &[u8]) -> Result<Ticket, Bad> {
    let ticket = keys.open(cookie)?;
    if ticket.ports == ports && ticket.tags.0 == vtag { Ok(ticket) } else { Err(Bad::Forged) }
}
