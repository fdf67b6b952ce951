//! The state cookie: all that a listener would have to remember of an INIT, signed and dated, kept by the peer instead.
//!
//! RFC 9260 section 5.1.3. The MAC is SipHash-2-4 with 128 bits under a key of the stack's own. Nothing in it is secret: the tie-tags
//! are random numbers beside the verification tags, not these.
use super::init::{Addresses, Features, Offer};
use crate::base::limits::SCTP_PATHS_MAX;
use crate::base::time::Duration;
use crate::base::{Instant, Rng};
use core::hash::Hasher as _;
use core::net::{IpAddr, Ipv6Addr};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

const MAC_LEN: usize = 16;
/// Format of the content, so that another release's cookies are refused.
const VERSION: u8 = 1;

/// How long a key signs cookies. It checks them for as long again, which is far longer than a cookie lives by default.
const KEY_TIME: Duration = Duration::from_secs(3_600);

/// Signs cookies and checks them.
#[derive(Clone, Debug)]
pub struct CookieKey {
    k0: u64,
    k1: u64,
}

/// The key that signs and the one before it: what is signed changes with time (section 5.1.3), and cookies that are under way stay
/// good.
#[derive(Clone, Debug)]
pub struct CookieKeys {
    young: CookieKey,
    old: CookieKey,
    /// When the young one is to become the old one.
    until: Instant,
    rng: Rng,
}

impl CookieKeys {
    /// Keys from this stream of chance.
    #[must_use]
    pub fn new(mut rng: Rng, now: Instant) -> Self {
        let (young, old) = (CookieKey::new(&mut rng), CookieKey::new(&mut rng));
        Self { young, old, until: now + KEY_TIME, rng }
    }

    /// A new key where it is time for one. After two times nothing of the past is good.
    pub fn renew(&mut self, now: Instant) {
        if now < self.until {
            return;
        }
        let overdue = now >= self.until + KEY_TIME;
        let young = CookieKey::new(&mut self.rng);
        self.old = core::mem::replace(&mut self.young, young);
        if overdue {
            self.old = CookieKey::new(&mut self.rng);
        }
        self.until = now + KEY_TIME;
    }

    /// The cookie of a ticket. Its length is a multiple of four.
    #[must_use]
    pub fn seal(&self, ticket: &Ticket) -> Vec<u8> {
        self.young.seal(ticket)
    }

    /// The ticket in a cookie of ours.
    ///
    /// # Errors
    /// As [`CookieKey::open`].
    pub fn open(&self, cookie: &[u8]) -> Result<Ticket, Bad> {
        self.young.open(cookie).or_else(|_| self.old.open(cookie))
    }
}

/// What a cookie holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// When it was made.
    pub made_at: Instant,
    /// How long it is good for, in milliseconds.
    pub life_ms: u32,
    /// Our port and the peer's.
    pub ports: (u16, u16),
    /// Our tag and the peer's.
    pub tags: (u32, u32),
    /// Our first TSN and the peer's.
    pub tsns: (u32, u32),
    /// Tie-tags of the association that there was already; zeros for none.
    pub ties: (u32, u32),
    /// Streams outbound and inbound, as agreed.
    pub streams: (u16, u16),
    /// The peer's window.
    pub peer_rwnd: u32,
    /// What both can do.
    pub features: Features,
    /// The peer's adaptation layer.
    pub adaptation: Option<u32>,
    /// Where the INIT went to.
    pub local: IpAddr,
    /// The peer's addresses; the first one sent the INIT.
    pub addresses: Addresses,
}

/// Why a cookie is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// Not ours, or changed on the way.
    Forged,
    /// Too old by this much.
    Stale(Duration),
}

impl CookieKey {
    /// A key from this stream of chance.
    #[must_use]
    pub fn new(rng: &mut Rng) -> Self {
        Self { k0: rng.next_u64(), k1: rng.next_u64() }
    }

    fn mac(&self, body: &[u8]) -> [u8; MAC_LEN] {
        let mut hasher = SipHasher24::new_with_keys(self.k0, self.k1);
        hasher.write(body);
        hasher.finish128().as_bytes()
    }

    /// The cookie of a ticket. Its length is a multiple of four.
    #[must_use]
    pub fn seal(&self, ticket: &Ticket) -> Vec<u8> {
        let mut out = vec![0; MAC_LEN];
        ticket.write(&mut out);
        let mac = self.mac(&out[MAC_LEN..]);
        out[..MAC_LEN].copy_from_slice(&mac);
        out
    }

    /// The ticket in a cookie that is ours; whether it is still good is another question: [`Ticket::check`].
    ///
    /// # Errors
    /// [`Bad::Forged`].
    pub fn open(&self, cookie: &[u8]) -> Result<Ticket, Bad> {
        let (mac, body) = cookie.split_at_checked(MAC_LEN).ok_or(Bad::Forged)?;
        let different = mac.iter().zip(self.mac(body)).fold(0, |d, (a, b)| d | (a ^ b));
        if different != 0 {
            return Err(Bad::Forged);
        }
        Ticket::read(body).ok_or(Bad::Forged)
    }
}

impl Ticket {
    /// Still good at `now`?
    ///
    /// # Errors
    /// [`Bad::Stale`].
    pub fn check(&self, now: Instant) -> Result<(), Bad> {
        let age = now.since(self.made_at);
        match age.checked_sub(Duration::from_millis(self.life_ms.into())) {
            Some(late) if late > Duration::ZERO => Err(Bad::Stale(late)),
            _ => Ok(()),
        }
    }

    /// What the peer's INIT says of it, in the form in which an INIT ACK would.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer {
            tag: self.tags.1,
            a_rwnd: self.peer_rwnd,
            outbound: self.streams.1,
            inbound: self.streams.0,
            tsn: self.tsns.1,
            addresses: self.addresses.clone(),
            cookie: None,
            unknown: Default::default(),
            features: self.features,
            adaptation: self.adaptation,
            preservative_ms: 0,
            families: Default::default(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let count = self.addresses.len().min(SCTP_PATHS_MAX);
        let flags = self.features.0 | u8::from(self.adaptation.is_some()) << 7;
        out.extend([VERSION, flags, count as u8, 0]);
        out.extend(self.made_at.as_nanos().to_be_bytes());
        for half in [self.ports.0, self.ports.1, self.streams.0, self.streams.1] {
            out.extend(half.to_be_bytes());
        }
        let adaptation = self.adaptation.unwrap_or(0);
        let (tags, tsns, ties) = (self.tags, self.tsns, self.ties);
        let words =
            [self.life_ms, tags.0, tags.1, tsns.0, tsns.1, ties.0, ties.1, self.peer_rwnd, adaptation];
        for word in words {
            out.extend(word.to_be_bytes());
        }
        for ip in core::iter::once(&self.local).chain(self.addresses.iter().take(count)) {
            let six = match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => *v6,
            };
            out.extend(six.octets());
        }
    }

    fn read(body: &[u8]) -> Option<Self> {
        let (head, mut rest) = body.split_first_chunk::<4>()?;
        let [version, flags, count, _] = *head;
        if version != VERSION || usize::from(count) > SCTP_PATHS_MAX {
            return None;
        }
        let mut long = [0; 8];
        long.copy_from_slice(rest.get(..8)?);
        rest = &rest[8..];
        let mut half = || -> Option<u16> {
            let (bytes, tail) = rest.split_first_chunk::<2>()?;
            rest = tail;
            Some(u16::from_be_bytes(*bytes))
        };
        let ports = (half()?, half()?);
        let streams = (half()?, half()?);
        let mut word = || -> Option<u32> {
            let (bytes, tail) = rest.split_first_chunk::<4>()?;
            rest = tail;
            Some(u32::from_be_bytes(*bytes))
        };
        let life_ms = word()?;
        let (tags, tsns, ties) = ((word()?, word()?), (word()?, word()?), (word()?, word()?));
        let (peer_rwnd, adaptation) = (word()?, word()?);
        let mut address = || -> Option<IpAddr> {
            let (bytes, tail) = rest.split_first_chunk::<16>()?;
            rest = tail;
            Some(Ipv6Addr::from_octets(*bytes).to_canonical())
        };
        let local = address()?;
        let addresses = (0..count).map(|_| address()).collect::<Option<Addresses>>()?;
        Some(Self {
            made_at: Instant::from_nanos(u64::from_be_bytes(long)),
            life_ms,
            ports,
            tags,
            tsns,
            ties,
            streams,
            peer_rwnd,
            features: Features(flags & 0x7f),
            adaptation: (flags & 0x80 != 0).then_some(adaptation),
            local,
            addresses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn ticket() -> Ticket {
        Ticket {
            made_at: Instant::from_millis(1_000),
            life_ms: 60_000,
            ports: (80, 40_000),
            tags: (1, 2),
            tsns: (3, 4),
            ties: (5, 6),
            streams: (7, 8),
            peer_rwnd: 9,
            features: Features(Features::ECN),
            adaptation: Some(10),
            local: IpAddr::from([10, 0, 0, 1]),
            addresses: smallvec![IpAddr::from([10, 0, 0, 2]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 2])],
        }
    }

    #[test]
    fn a_cookie_comes_back_as_it_was_and_every_changed_bit_is_seen() {
        let key = CookieKey::new(&mut Rng::new(1));
        let cookie = key.seal(&ticket());
        assert_eq!(cookie.len() % 4, 0);
        assert_eq!(key.open(&cookie), Ok(ticket()));
        for bit in 0..cookie.len() * 8 {
            let mut changed = cookie.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(&changed), Err(Bad::Forged), "bit {bit}");
        }
        assert_eq!(CookieKey::new(&mut Rng::new(2)).open(&cookie), Err(Bad::Forged));
        assert_eq!(key.open(&cookie[..10]), Err(Bad::Forged));
    }

    #[test]
    fn a_key_signs_for_an_hour_and_checks_for_another() {
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        let mut keys = CookieKeys::new(Rng::new(1), at(0));
        let first = keys.seal(&ticket());
        for (secs, same, good) in
            [(3_599, true, true), (3_600, false, true), (7_199, false, true), (7_200, false, false)]
        {
            keys.renew(at(secs));
            assert_eq!(keys.seal(&ticket()) == first, same, "after {secs} s");
            assert_eq!(keys.open(&first).is_ok(), good, "after {secs} s");
        }
        // Nobody came for a day: the keys of the day before sign nothing that is good.
        let last = keys.seal(&ticket());
        keys.renew(at(100_000));
        assert_eq!(keys.open(&last), Err(Bad::Forged));
    }

    #[test]
    fn it_is_good_for_its_life_and_then_says_how_late_it_is() {
        assert_eq!(ticket().check(Instant::from_millis(61_000)), Ok(()));
        let late = Duration::from_millis(5);
        assert_eq!(ticket().check(Instant::from_millis(61_005)), Err(Bad::Stale(late)));
    }
}
