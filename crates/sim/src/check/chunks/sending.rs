//! What a host sends: its numbers, and how much of it is out.
use lowwater_core::sctp::tsn::Tsn;
use lowwater_wire::sctp::{DATA_HEADER_LEN, DataFlags, DataRepr, Sack, padded};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The least that an initial window may be, with more than one packet in it (section 7.2.1).
const WINDOW: usize = 4_404;

/// What holds a host back, or does not.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of the longest packet of IP.
    pub(super) mtu: usize,
    /// Packets of the least window that a controller goes on from: two that RFC 9260 lets go first, or the four of BBR
    /// (BBRMinPipeCwnd; Linux `bbr_cwnd_min_target`), which has them from its first acknowledgement on.
    pub(super) least: usize,
    /// Numbers may be left out.
    pub(super) left_out: bool,
}

/// One TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    flags: DataFlags,
    place: (u16, u16, u32),
    len: u32,
}

/// The TSNs of a host.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// The next one that was never sent; none before the first.
    next: Option<Tsn>,
    /// All up to here is acknowledged.
    cum: Tsn,
    /// What is not acknowledged cumulatively, and whether a gap block has named it.
    out: BTreeMap<Tsn, (Sent, bool)>,
    /// The last of a message has not been sent yet, of which the newest number is a part.
    unfinished: bool,
    /// What FORWARD TSN has named before it ever left.
    never: BTreeSet<Tsn>,
    /// Bytes of user data that were sent, each once, and that were acknowledged.
    bytes: u64,
    acked: u64,
    /// How many may be sent by the SACK that offered most.
    edge: u64,
    /// The same as `bytes` and `acked`, with the headers of the chunks and their padding.
    load: u64,
    acked_load: u64,
    /// Where data has gone to.
    paths: BTreeSet<IpAddr>,
    /// SHUTDOWN or SHUTDOWN ACK has left.
    ended: bool,
}

impl Sending {
    /// Nothing sent; the peer takes so many bytes.
    pub(super) fn new(a_rwnd: u32) -> Self {
        Self { edge: a_rwnd.into(), ..Self::default() }
    }

    fn ack(&mut self, tsn: Tsn) {
        if let Some((sent, acked)) = self.out.get_mut(&tsn)
            && !core::mem::replace(acked, true)
        {
            self.acked += u64::from(sent.len);
            self.acked_load += sent.load();
        }
    }

    fn advance(&mut self, cum: Tsn) {
        while let Some(tsn) = self.out.first_key_value().map(|(tsn, _)| *tsn).filter(|tsn| *tsn <= cum) {
            self.ack(tsn);
            self.out.remove(&tsn);
        }
        self.never.retain(|tsn| *tsn > cum);
        self.cum = cum;
    }

    /// The cumulative TSN of a SACK or SHUTDOWN that counts.
    fn counts(&self, cum: u32) -> Option<Tsn> {
        let cum = self.cum.near(cum);
        (cum >= self.cum && self.next.is_some_and(|next| cum < next)).then_some(cum)
    }

    /// A SACK has come.
    pub(super) fn acknowledged(&mut self, sack: &Sack<'_>) {
        if self.next.is_none() {
            // Before the first data it says no more than what there is room for.
            self.edge = self.edge.max(sack.a_rwnd.into());
            return;
        }
        let Some(cum) = self.counts(sack.cum_tsn) else { return };
        self.advance(cum);
        for gap in sack.gaps {
            for tsn in (gap.start()..=gap.end()).map(|offset| cum.plus(offset.into())) {
                self.ack(tsn);
            }
        }
        self.edge = self.edge.max(self.acked + u64::from(sack.a_rwnd));
    }

    /// A SHUTDOWN has come, which names no window: what it acknowledges has left that.
    pub(super) fn shut_down(&mut self, cum: u32) {
        let Some(cum) = self.counts(cum) else { return };
        let before = self.acked;
        self.advance(cum);
        self.edge += self.acked - before;
    }

    /// The host says that it has no more data.
    pub(super) fn ends(&mut self) -> Result<(), String> {
        self.ended = true;
        let waits = self.out.first_key_value();
        waits.map_or(Ok(()), |(tsn, _)| Err(format!("{} is not acknowledged", tsn.wire())))
    }

    /// FORWARD TSN leaves. The rest of a message of which some has left gets one number, which never leaves, so that there is something to skip:
    /// it is the next one, for what else has a number has left (RFC 3758 section 3.5; what it may name is all that was given up). Only the message
    /// of the newest number can be unfinished.
    pub(super) fn gives_up(&mut self, point: u32, left_out: bool) -> Result<(), String> {
        let Some(next) = self.next.filter(|_| left_out) else {
            return Err(String::from("nothing may be given up"));
        };
        let point = next.near(point);
        if point > next {
            return Err(format!("{} has not been sent yet, and {} is given up", next.wire(), point.wire()));
        }
        if point == next {
            if !core::mem::take(&mut self.unfinished) {
                return Err(format!("{} is given up, and no message lacks a part", next.wire()));
            }
            self.never.insert(point);
            self.next = Some(next.next());
        }
        Ok(())
    }

    /// A DATA chunk leaves. `ours` are the first numbers that the host may have.
    pub(super) fn data(
        &mut self,
        to: IpAddr,
        (header, len): (&DataRepr, usize),
        ours: &[(u32, u32)],
        limits: Limits,
    ) -> Result<(), String> {
        if self.ended {
            return Err(String::from("it comes behind SHUTDOWN"));
        }
        let first = |tsn: u32| ours.iter().map(|own| own.1).find(|own| tsn.wrapping_sub(*own) < 1 << 16);
        let next = match self.next {
            Some(next) => next,
            None => {
                let next = Tsn::initial(first(header.tsn).ok_or("its number is none to begin with")?);
                self.cum = next.prev();
                next
            }
        };
        self.paths.insert(to);
        let tsn = next.near(header.tsn);
        let place = (header.sid, header.ssn, header.ppid);
        let sent = Sent { flags: header.flags, place, len: len as u32 };
        if self.never.contains(&tsn) {
            return Err(format!("{} was given up before it left", tsn.wire()));
        }
        if tsn < next {
            // One that was acknowledged may have waited for its device.
            let other = self.out.get(&tsn).filter(|(before, _)| *before != sent);
            return other
                .map_or(Ok(()), |(before, _)| Err(format!("it was {before:?} before, and is {sent:?}")));
        }
        if tsn > next && !limits.left_out {
            return Err(format!("{} has not been sent yet", next.wire()));
        }
        self.next = Some(tsn.next());
        self.unfinished = !header.flags.contains(DataFlags::END);
        // What was given up is out for nobody, and no packet says which that is.
        let checked = if limits.left_out { Ok(()) } else { self.fits(limits, &sent) };
        self.bytes += u64::from(sent.len);
        self.load += sent.load();
        self.out.insert(tsn, (sent, false));
        checked
    }

    /// A new chunk may leave, by windows.
    fn fits(&self, Limits { mtu, least, .. }: Limits, sent: &Sent) -> Result<(), String> {
        // One may probe a window that has no room for it.
        if self.bytes > self.edge {
            return Err(format!("the peer takes {} bytes, and {} were sent", self.edge, self.bytes));
        }
        let paths = self.paths.len() as u64;
        let most = paths * (WINDOW.max(least * mtu) + mtu) as u64 + self.acked_load;
        let out = self.load - self.acked_load;
        if out + sent.load() > most {
            return Err(format!(
                "{out} bytes of chunks are out on {paths} paths, and {} came back",
                self.acked_load
            ));
        }
        Ok(())
    }
}

impl Sent {
    /// Bytes of its chunk.
    fn load(&self) -> u64 {
        (DATA_HEADER_LEN + padded(self.len as usize)) as u64
    }
}
