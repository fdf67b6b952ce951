//! SYN cookies: a full SYN queue costs new peers their options, not their connection (RFC 4987 section 3.6; Linux's layout).
//!
//! The ISN of the SYN-ACK carries the minute and an index of the peer's MSS under two keyed hashes; with timestamps, the low bits
//! of TSval carry the other options. The final ACK brings all of it back, and nothing was kept meanwhile.
use super::Setup;
use super::accecn::{ACE, Learned, ace};
use super::conn::Conn;
use super::negotiated::{EcnMode, Negotiated};
use super::options::SocketOptions;
use super::request::{Accepted, Request};
use super::segment::{Outgoing, Segment};
use super::seq::Seq;
use super::window;
use crate::base::time::{Duration, Instant};
use crate::base::{Cx, DropWhy, Rng, Tuple};
use core::hash::{Hash as _, Hasher as _};
use lowwater_wire::tcp::TcpOptions;
use siphasher::sip::SipHasher24;

/// Bits of the ISN that hold the hash and the index; those above count minutes.
const COOKIE_BITS: u32 = 24;
/// How long a cookie lives, in counts of the clock (`MAX_SYNCOOKIE_AGE`, `TCP_SYNCOOKIE_PERIOD`).
const MAX_AGE: u32 = 2;
const PERIOD: Duration = Duration::from_secs(60);
/// How long after the last cookie left, acknowledgements are looked at for one.
pub const VALID: Duration = Duration::from_secs(60 * MAX_AGE as u64);
/// The MSS values that a cookie can name, by family.
const MSS_V4: [u16; 4] = [536, 1_300, 1_440, 1_460];
const MSS_V6: [u16; 4] = [1_280 - 60, 1_480 - 60, 1_500 - 60, 9_000 - 60];

/// Low bits of TSval: window scale (15 for none), SACK, ECN.
const TS_BITS: u32 = 6;
const TS_WSCALE: u32 = 0xf;
const TS_SACK: u32 = 1 << 4;
const TS_ECN: u32 = 1 << 5;

/// The secrets of a stack's cookies.
#[derive(Debug)]
pub struct SynCookies {
    keys: [(u64, u64); 2],
}

const fn table(tuple: &Tuple) -> &'static [u16; 4] {
    if tuple.is_v6() { &MSS_V6 } else { &MSS_V4 }
}

const fn minute(now: Instant) -> u32 {
    (now.as_nanos() / PERIOD.as_nanos() as u64) as u32
}

impl SynCookies {
    /// Draws the secrets.
    pub fn new(rng: &mut Rng) -> Self {
        Self { keys: [(); 2].map(|()| (rng.next_u64(), rng.next_u64())) }
    }

    fn hash(&self, tuple: &Tuple, count: u32, key: usize) -> u32 {
        let (k0, k1) = self.keys[key];
        let mut hash = SipHasher24::new_with_keys(k0, k1);
        tuple.hash(&mut hash);
        hash.write_u32(count);
        hash.finish() as u32
    }

    /// The ISN that remembers the index `data` for the peer with this ISN (`secure_tcp_syn_cookie`).
    fn make(&self, tuple: &Tuple, irs: Seq, data: u32, now: Instant) -> Seq {
        let count = minute(now);
        let low = self.hash(tuple, count, 1).wrapping_add(data) & mask();
        let base = self.hash(tuple, 0, 0).wrapping_add(irs.0);
        Seq(base.wrapping_add(count << COOKIE_BITS).wrapping_add(low))
    }

    /// The MSS that a cookie remembers; none when it is no cookie of ours, or too old (`check_tcp_syn_cookie`).
    #[must_use]
    pub fn check(&self, tuple: &Tuple, seg: &Segment, now: Instant) -> Option<u16> {
        let (cookie, irs) = (seg.ack - 1, seg.seq - 1);
        let bare = cookie.0.wrapping_sub(self.hash(tuple, 0, 0).wrapping_add(irs.0));
        let count = minute(now);
        let age = count.wrapping_sub(bare >> COOKIE_BITS) & (u32::MAX >> COOKIE_BITS);
        if age >= MAX_AGE {
            return None;
        }
        let data = bare.wrapping_sub(self.hash(tuple, count.wrapping_sub(age), 1)) & mask();
        table(tuple).get(data as usize).copied()
    }

    /// The SYN-ACK with a cookie (`tcp_conn_request` with `want_cookie`).
    ///
    /// # Errors
    /// A reason to drop the segment when it is no SYN.
    pub fn answer(&self, cx: &mut Cx<'_>, mut setup: Setup, syn: &Segment) -> Result<Outgoing, DropWhy> {
        let mut syn = syn.clone();
        if syn.options.timestamps.is_none() || cx.sysctl.tcp_timestamps == 0 {
            // Where timestamps are not agreed on there is no room for any other option, nor for ECN.
            syn.options = TcpOptions { mss: syn.options.mss, ..TcpOptions::EMPTY };
            syn.flags.remove(ACE);
        }
        let tuple = setup.tuple;
        let probe = Request::new(cx, setup.clone(), &syn)?;
        let mss = probe.peer().mss_clamp;
        let index = table(&tuple).iter().rposition(|&known| mss >= known).unwrap_or(0);
        setup.isn = self.make(&tuple, syn.seq, index as u32, cx.now);
        let mut request = Request::new(cx, setup, &syn)?;
        let mut out = request.syn_ack(cx, None);
        let peer = request.peer();
        if let Some(ts) = out.repr.options.timestamps.as_mut() {
            let clock = ts.value.wrapping_sub(peer.stamps.offset);
            ts.value = encode(clock, peer).wrapping_add(peer.stamps.offset);
        }
        Ok(out)
    }

    /// The connection of a final ACK whose cookie remembers `mss` (`cookie_v4_check`); none when it claims an option that is
    /// switched off here.
    pub fn accept(&self, cx: &mut Cx<'_>, setup: Setup, seg: &Segment, mss: u16) -> Option<Conn> {
        let options = &setup.options;
        let mut peer = Negotiated::offer(cx.sysctl, &setup.tuple, setup.mtu, options, setup.ts_offset);
        decode(&mut peer, seg)?;
        peer.mss_clamp = mss;
        peer.ecn = match peer.ecn.capable() && options.grants_ecn(cx.sysctl) {
            // The ACE field of the last ACK is never below two (RFC 9768 section 5.1; `cookie_accecn_ok`).
            true if SocketOptions::grants_accurate_ecn(cx.sysctl) && ace(seg.flags) > 1 => EcnMode::Accurate,
            true => EcnMode::Classic,
            false => EcnMode::Off,
        };
        let window = window::initial(cx.sysctl, options, mss, peer.wscale);
        peer.rcv_wscale = if peer.wscale { window.wscale } else { 0 };
        let (irs, isn) = (seg.seq - 1, seg.ack - 1);
        let setup = Setup { isn, ..setup };
        let mut conn =
            Conn::accept(cx, Accepted { setup, peer, window, irs, snd_wnd: seg.window, sent: None });
        // Nobody knows how the SYN came.
        let mut learned = Learned::default();
        learned.look(seg.options.accecn().as_ref());
        conn.begin_accurate(learned, cx.sysctl.tcp_ecn_fallback, seg);
        Some(conn)
    }
}

const fn mask() -> u32 {
    (1 << COOKIE_BITS) - 1
}

/// The last timestamp before `clock` whose low bits say what was agreed (`cookie_init_timestamp`).
fn encode(clock: u32, peer: &Negotiated) -> u32 {
    let mut bits = if peer.wscale { u32::from(peer.snd_wscale) } else { TS_WSCALE };
    bits |= if peer.sack { TS_SACK } else { 0 };
    bits |= if peer.ecn.capable() { TS_ECN } else { 0 };
    let ts = (clock >> TS_BITS << TS_BITS) | bits;
    if ts > clock { ts.wrapping_sub(1 << TS_BITS) } else { ts }
}

/// Takes the options out of the echoed timestamp; `peer` is what we would offer (`cookie_timestamp_decode`).
fn decode(peer: &mut Negotiated, seg: &Segment) -> Option<()> {
    // Whoever has switched them off meanwhile sees none.
    let Some(ts) = seg.options.timestamps.filter(|_| peer.ts) else {
        (peer.ts, peer.sack, peer.wscale) = (false, false, false);
        return Some(());
    };
    // An echo of nothing is taken as it is (`cookie_tcp_check`): no SACK, no ECN, windows as they are. Our clock keeps the
    // offset that the peer has seen, which Linux loses here.
    let bits = if ts.echo == 0 { 0 } else { ts.echo.wrapping_sub(peer.stamps.offset) };
    let (sack, scale) = (bits & TS_SACK != 0, bits & TS_WSCALE);
    let wscale = scale != TS_WSCALE;
    if (sack && !peer.sack) || (wscale && !peer.wscale) {
        return None;
    }
    (peer.sack, peer.wscale) = (sack, wscale);
    peer.ecn = if bits & TS_ECN != 0 { EcnMode::Classic } else { EcnMode::Off };
    peer.snd_wscale = if wscale { scale as u8 } else { 0 };
    (peer.stamps.recent, peer.stamps.recent_at) = (ts.value, Some(seg.at));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;
    use crate::tcp::{Chunks, Layout};
    use core::net::SocketAddr;
    use lowwater_wire::tcp::TcpFlags;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    fn tuple(port: u16) -> Tuple {
        Tuple::new(SocketAddr::from(([10, 0, 0, 1], 80)), SocketAddr::from(([10, 0, 0, 2], port)))
    }

    fn ack(isn: Seq, irs: Seq) -> Segment {
        Segment {
            at: Instant::ZERO,
            seq: irs + 1,
            ack: isn + 1,
            flags: TcpFlags::ACK,
            window: 100,
            urgent: 0,
            options: TcpOptions::EMPTY,
            tos: 0,
            ttl: 64,
            layout: Layout::default(),
            payload: Chunks::new(),
        }
    }

    #[test]
    fn a_cookie_lives_into_the_next_minute_and_no_longer() {
        let cookies = SynCookies::new(&mut Rng::new(1));
        let (made, irs) = (Instant::from_millis(59_000), Seq(77));
        for (index, &mss) in MSS_V4.iter().enumerate() {
            let seg = ack(cookies.make(&tuple(5), irs, index as u32, made), irs);
            for (ms, want) in [(59_000, Some(mss)), (119_999, Some(mss)), (120_000, None)] {
                assert_eq!(cookies.check(&tuple(5), &seg, Instant::from_millis(ms)), want, "{ms}");
            }
            assert_eq!(cookies.check(&tuple(6), &seg, made), None, "another port");
        }
    }

    proptest! {
        #[test]
        fn few_guesses_are_cookies(isn: u32, irs: u32) {
            // Two of 256 minutes, four of 2^24 indices: one guess in 5 * 10^8.
            let cookies = SynCookies::new(&mut Rng::new(2));
            prop_assert_eq!(cookies.check(&tuple(5), &ack(Seq(isn), Seq(irs)), Instant::ZERO), None);
        }

        #[test]
        fn timestamps_bring_back_what_was_agreed_and_are_not_of_the_future(
            clock in 64u32.., scale in prop::option::of(0u8..=14), sack: bool, ecn: bool,
        ) {
            let agreed = Negotiated {
                ts: true,
                sack,
                ecn: if ecn { EcnMode::Classic } else { EcnMode::Off },
                wscale: scale.is_some(),
                snd_wscale: scale.unwrap_or(0),
                ..Negotiated::default()
            };
            let echo = encode(clock, &agreed);
            prop_assert!(echo <= clock && clock - echo <= 127);
            let mut seg = ack(Seq(1), Seq(1));
            seg.options.timestamps = Some(lowwater_wire::tcp::Timestamps { value: 9, echo });
            let mut peer = Negotiated { ts: true, sack: true, wscale: true, ..Negotiated::default() };
            prop_assert!(decode(&mut peer, &seg).is_some());
            let took = (peer.sack, peer.ecn.capable(), peer.wscale.then_some(peer.snd_wscale), peer.stamps.recent);
            prop_assert_eq!(took, (sack, ecn, scale, 9));
        }
    }
}
