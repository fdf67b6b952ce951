//! Packets that belong to no association, "out of the blue": what, if anything, answers them (RFC 9260 section 8.4).
use super::input::one_cause;
use bytes::Bytes;
use lowwater_wire::sctp::{Cause, Chunk, Chunks, Tlvs};

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlueAnswer {
    /// Its verification tag.
    pub vtag: u32,
    /// Its one chunk.
    pub chunks: Bytes,
}

fn answer(vtag: u32, chunk: &Chunk<'_>) -> BlueAnswer {
    let mut out = vec![0; chunk.buffer_len()];
    chunk.emit(&mut out);
    BlueAnswer { vtag, chunks: Bytes::from(out) }
}

/// Answers a packet with this tag and these chunks, which fits no association and, if it is an INIT, no listener. The source is
/// one that may be answered.
#[must_use]
pub fn respond(vtag: u32, chunks: &Bytes) -> Option<BlueAnswer> {
    let (mut first, mut shutdown_ack, mut silent) = (true, false, false);
    // What cannot be read ends it, and the rules hold for what was read (Linux `sctp_sf_ootb`).
    for raw in Chunks::new(chunks).map_while(Result::ok) {
        let Ok(chunk) = Chunk::parse(&raw) else { break };
        match chunk {
            // Rule 2.
            Chunk::Abort(..) => return None,
            // Rules 6 and 7: answers to what was never asked.
            Chunk::ShutdownComplete(_) | Chunk::CookieAck => silent = true,
            // Rule 8 for an INIT whose packet has a tag (Linux `sctp_sf_tabort_8_4_8`).
            Chunk::Init(_) if first && vtag != 0 => return Some(reflect(vtag, &[])),
            // Rule 3: an INIT that nobody wants; its tag is inside.
            Chunk::Init(init) if first => {
                return (init.initiate_tag != 0)
                    .then(|| answer(init.initiate_tag, &Chunk::Abort(false, Tlvs::EMPTY)));
            }
            Chunk::ShutdownAck => shutdown_ack = true,
            // Rule 7: an ERROR about a stale cookie, or a COOKIE ECHO in the wrong place.
            Chunk::Error(causes) if stale(causes) => silent = true,
            _ => {}
        }
        first = false;
    }
    // Nobody has this tag (section 8.5.1 A).
    if vtag == 0 {
        return None;
    }
    // Rule 5, before 6 and 7.
    if shutdown_ack {
        return Some(answer(vtag, &Chunk::ShutdownComplete(true)));
    }
    // Rule 8: with the T bit, for the tag is the sender's own.
    (!first && !silent).then(|| answer(vtag, &Chunk::Abort(true, Tlvs::EMPTY)))
}

fn stale(causes: Tlvs<'_>) -> bool {
    causes.into_iter().flatten().any(|tlv| matches!(Cause::parse(&tlv), Ok(Cause::StaleCookie(_))))
}

/// The ABORT that refuses an INIT: the causes come from [`super::handshake::init::Refusal`].
#[must_use]
pub fn refuse(vtag: u32, causes: &[u8]) -> BlueAnswer {
    answer(vtag, &Chunk::Abort(false, Tlvs::new(causes)))
}

/// The ABORT that answers a packet with this tag, whose sender's own tag nobody knows: its T bit says so.
#[must_use]
pub fn reflect(vtag: u32, causes: &[u8]) -> BlueAnswer {
    answer(vtag, &Chunk::Abort(true, Tlvs::new(causes)))
}

/// The ERROR that says how late a cookie came, in microseconds (section 5.2.6).
#[must_use]
pub fn stale_cookie(vtag: u32, late_us: u32) -> BlueAnswer {
    let causes = one_cause(&Cause::StaleCookie(late_us));
    answer(vtag, &Chunk::Error(Tlvs::new(&causes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(chunks: &[Chunk<'_>]) -> Bytes {
        let mut all = Vec::new();
        for chunk in chunks {
            let at = all.len();
            all.resize(at + chunk.buffer_len(), 0);
            chunk.emit(&mut all[at..]);
        }
        all.into()
    }

    #[test]
    fn what_may_be_answered_is_and_nothing_else() {
        let answered =
            |chunks: &[Chunk<'_>]| respond(7, &packet(chunks)).map(|a| (a.vtag, a.chunks[0], a.chunks[1]));
        assert_eq!(answered(&[Chunk::Abort(false, Tlvs::EMPTY)]), None);
        assert_eq!(answered(&[Chunk::ShutdownComplete(true)]), None);
        assert_eq!(answered(&[Chunk::CookieAck]), None);
        assert_eq!(answered(&[Chunk::ShutdownAck]), Some((7, 14, 1)));
        let forgotten = one_cause(&Cause::CookieInShutdown);
        assert_eq!(answered(&[Chunk::Error(Tlvs::new(&forgotten)), Chunk::ShutdownAck]), Some((7, 14, 1)));
        assert_eq!(answered(&[Chunk::Shutdown(1)]), Some((7, 6, 1)));
        assert_eq!(answered(&[Chunk::CookieEcho(b"x")]), Some((7, 6, 1)));
        assert_eq!(answered(&[Chunk::CookieEcho(b"x"), Chunk::Abort(true, Tlvs::EMPTY)]), None);
        assert_eq!(answered(&[]), None);
        let stale = one_cause(&Cause::StaleCookie(5));
        assert_eq!(answered(&[Chunk::Error(Tlvs::new(&stale))]), None);
        // Rule 5 goes before rules 6 and 7, rule 2 before all of them.
        for silent in [Chunk::CookieAck, Chunk::ShutdownComplete(false), Chunk::Error(Tlvs::new(&stale))] {
            assert_eq!(answered(&[silent, Chunk::ShutdownAck]), Some((7, 14, 1)));
        }
        assert_eq!(answered(&[Chunk::ShutdownAck, Chunk::Abort(true, Tlvs::EMPTY)]), None);
        // Behind what can be read something that cannot.
        let mut broken = packet(&[Chunk::Shutdown(1)]).to_vec();
        broken.extend([0, 0, 0, 3]);
        assert!(respond(7, &broken.into()).is_some());
        for chunk in [Chunk::ShutdownAck, Chunk::Shutdown(1), Chunk::CookieEcho(b"x")] {
            assert_eq!(respond(0, &packet(&[chunk])), None);
        }
    }
}
