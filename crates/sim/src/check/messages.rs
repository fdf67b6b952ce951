//! Checks that every message of an association arrives once, whole, and in the order of its stream, and all that must.
use crate::app::pattern;
use lowwater_core::sctp::{Notification, Outcome, RecvInfo, ResetWhat};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The checker's name in reports.
pub const NAME: &str = "messages";

/// One direction of an association: its number in the world, and who writes (0 the client, 1 the server).
pub type Way = (u32, u8);

/// A message that a stack has taken from its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its stream.
    pub stream: u16,
    /// It has no place there.
    pub unordered: bool,
    /// Bytes.
    pub len: usize,
    /// Nothing limits it: it is not given up while the association lives.
    pub reliable: bool,
}

/// A message, and what became of it.
#[derive(Clone, Copy, Debug)]
struct Taken {
    message: Message,
    /// Some of it has come; all of it.
    begun: bool,
    came: bool,
    /// Its writer was told that it failed before any of it was sent.
    failed: bool,
}

impl Taken {
    /// It may be missing.
    const fn may_miss(&self) -> bool {
        !self.message.reliable || self.failed
    }
}

#[derive(Debug, Default)]
struct Flow {
    sent: Vec<Taken>,
    /// What a request of the writer (RFC 6525) that came to nothing may have cost: messages before this one, of these streams; of all of them.
    undone: (BTreeMap<u16, u32>, u32),
    /// Ordered messages of each stream that have not come, nor were passed.
    order: BTreeMap<u16, VecDeque<u32>>,
    received: u64,
    received_bytes: u64,
    /// It was closed in good order: what is reliable must have come.
    complete: bool,
}

/// All messages of a world.
#[derive(Debug, Default)]
pub struct Messages {
    flows: BTreeMap<Way, Flow>,
    /// Associations that are up, or were, at their servers.
    accepted: BTreeSet<u32>,
}

/// The key of a message's bytes.
#[must_use]
pub fn key((number, writer): Way, index: u32) -> u64 {
    u64::from(number) << 40 | u64::from(writer) << 32 | u64::from(index)
}

/// What the payload protocol identifier of a message says: association, writer, number of the message. 255 associations of
/// eight million messages can be told apart.
#[must_use]
pub const fn ppid((number, writer): Way, index: u32) -> u32 {
    number << 24 | (writer as u32) << 23 | index
}

/// The streams, none for all of them, messages of which may fail with the request of which this tells: nobody knows whether it was carried
/// out, or the streams that it was to add are not there, behind the `first` ones and at most so many others. One that was refused changes nothing
/// else.
#[must_use]
pub fn cost(note: &Notification, (first, others): (u16, u16)) -> Option<Cow<'_, [u16]>> {
    match note {
        Notification::StreamReset { what: ResetWhat::Outgoing, outcome: Outcome::Failed, streams } => {
            Some(streams.into())
        }
        Notification::AssocReset { outcome: Outcome::Failed, .. } => Some(Cow::Borrowed(&[])),
        Notification::StreamChange {
            outcome: Outcome::Failed | Outcome::Denied,
            outgoing: count @ 1..,
            ..
        } => Some((first..first.saturating_add(others).saturating_add(*count)).collect()),
        _ => None,
    }
}

const fn parse(ppid: u32) -> (Way, u32) {
    ((ppid >> 24, (ppid >> 23 & 1) as u8), ppid & 0x7f_ffff)
}

impl Messages {
    /// The number that the next message of this way has.
    #[must_use]
    pub fn next(&self, way: Way) -> u32 {
        self.flows.get(&way).map_or(0, |f| f.sent.len() as u32)
    }

    /// The association of this number has come up at its server.
    pub fn accept(&mut self, number: u32) {
        self.accepted.insert(number);
    }

    /// It has: the server may end it before its client hears that it is up.
    #[must_use]
    pub fn was_accepted(&self, number: u32) -> bool {
        self.accepted.contains(&number)
    }

    /// The stack took the next message.
    pub fn sent(&mut self, way: Way, message: Message) {
        let flow = self.flows.entry(way).or_default();
        if !message.unordered {
            flow.order.entry(message.stream).or_default().push_back(flow.sent.len() as u32);
        }
        flow.sent.push(Taken { message, begun: false, came: false, failed: false });
    }

    /// The writer was told that so many bytes of a message were not sent, and never will be. It has failed where that is all of it.
    ///
    /// # Errors
    /// When it has come, or some of it.
    pub fn failed(&mut self, way: Way, index: u32, unsent: usize) -> Result<(), String> {
        let flow = self.flows.entry(way).or_default();
        let Some(taken) = flow.sent.get_mut(index as usize) else {
            return Err(format!("message {index} of {way:?} was never sent, and is said to have failed"));
        };
        let whole = unsent == taken.message.len;
        taken.failed |= whole;
        if taken.came && unsent > 0 || taken.begun && whole {
            Err(format!("message {index} of {way:?} failed, and has come"))
        } else {
            Ok(())
        }
    }

    /// The writer was told that a request of its own for these streams came to nothing, or for all of them: it costs nothing that is written later.
    pub fn undone(&mut self, way: Way, streams: &[u16]) {
        let flow = self.flows.entry(way).or_default();
        let (written, (some, all)) = (flow.sent.len() as u32, &mut flow.undone);
        some.extend(streams.iter().map(|stream| (*stream, written)));
        if streams.is_empty() {
            *all = written;
        }
    }

    /// The reader of `way` got a part of a message at `offset`, the last one where `eor` says so.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn part(
        &mut self,
        way: Way,
        info: &RecvInfo,
        (offset, eor): (usize, bool),
        data: &[u8],
    ) -> Result<(), String> {
        let (from, index) = parse(info.ppid);
        let what = || format!("message {index} of {from:?}, TSN {}", info.tsn);
        if from != way {
            return Err(format!("{} came to the reader of {way:?}", what()));
        }
        let flow = self.flows.entry(way).or_default();
        let Some(taken) = flow.sent.get_mut(index as usize) else {
            return Err(format!("{} was never sent", what()));
        };
        if taken.came || taken.failed {
            return Err(format!(
                "{} {}",
                what(),
                if taken.came { "came twice" } else { "failed, and has come" }
            ));
        }
        let sent = taken.message;
        if (sent.stream, sent.unordered) != (info.stream, info.unordered) {
            return Err(format!("{} was {sent:?} and came as {info:?}", what()));
        }
        if let Some(at) = pattern::mismatch(key(way, index), offset as u64, data) {
            return Err(format!("{}: wrong byte at {} of {}", what(), offset + at, sent.len));
        }
        let end = offset + data.len();
        if end > sent.len || (end == sent.len) != eor {
            return Err(format!("{}: {end} of {} bytes, its end there: {eor}", what(), sent.len));
        }
        flow.received_bytes += data.len() as u64;
        taken.begun = true;
        if eor {
            taken.came = true;
            flow.received += 1;
        }
        // Its turn has come with its first part.
        if offset == 0 && !info.unordered {
            flow.in_order(info.stream, index).map_err(|e| format!("{}: {e}", what()))
        } else {
            Ok(())
        }
    }

    /// A message was read in part and then another came: nobody will read the rest of it.
    ///
    /// # Errors
    /// When nothing allowed that.
    pub fn torn(&self, way: Way, ppid: u32) -> Result<(), String> {
        let (_, index) = parse(ppid);
        match self.flows.get(&way).and_then(|f| f.sent.get(index as usize)) {
            Some(taken) if taken.message.reliable => {
                Err(format!("message {index} of {way:?} was read in part, and then another one came"))
            }
            _ => Ok(()),
        }
    }

    /// An association ended in good order: all that its stack had taken this way must have come.
    pub fn complete(&mut self, way: Way) {
        self.flows.entry(way).or_default().complete = true;
    }

    /// Bytes that readers got.
    #[must_use]
    pub fn total_received(&self) -> u64 {
        self.flows.values().map(|f| f.received_bytes).sum()
    }

    /// Of one way: messages that the stack took, and that came.
    #[must_use]
    pub fn counts(&self, way: Way) -> (usize, u64) {
        self.flows.get(&way).map_or((0, 0), |f| (f.sent.len(), f.received))
    }

    /// Everything has come that had to.
    ///
    /// # Errors
    /// The first message that has not.
    pub fn finish(&self) -> Result<(), String> {
        for (way, flow) in self.flows.iter().filter(|(_, f)| f.complete) {
            let lost = |taken: &Taken| !taken.came && !taken.may_miss();
            if let Some(at) = flow.sent.iter().position(lost) {
                let (sent, got) = self.counts(*way);
                return Err(format!(
                    "{way:?}: message {at} ({:?}) never came; {got} of {sent} did, and the end was a good one",
                    flow.sent[at].message
                ));
            }
            // Only a request whose answer nobody waits for any more costs messages that nothing limits.
            let groundless = |at: &usize| flow.sent[*at].message.reliable && !flow.may_have_cost(*at as u32);
            let failed = |at: &usize| flow.sent[*at].failed;
            if let Some(at) = (0..flow.sent.len()).filter(failed).find(groundless) {
                let message = flow.sent[at].message;
                return Err(format!(
                    "{way:?}: message {at} ({message:?}) failed, and no request of its stream"
                ));
            }
        }
        Ok(())
    }
}

impl Flow {
    /// A request that came to nothing may be why this message failed.
    fn may_have_cost(&self, index: u32) -> bool {
        let (some, all) = &self.undone;
        let stream = self.sent[index as usize].message.stream;
        index < some.get(&stream).copied().unwrap_or_default().max(*all)
    }

    /// Messages that were given up may be missing before this one, others may not.
    fn in_order(&mut self, stream: u16, index: u32) -> Result<(), String> {
        let waiting = self.order.entry(stream).or_default();
        while let Some(first) = waiting.pop_front() {
            if first == index {
                return Ok(());
            }
            if !self.sent[first as usize].may_miss() {
                return Err(format!("it has overtaken message {first} in stream {stream}"));
            }
        }
        Err(format!("a later one of stream {stream} came before it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Way = (3, 1);

    fn message(stream: u16, reliable: bool) -> Message {
        Message { stream, unordered: false, len: 10, reliable }
    }

    fn three() -> Messages {
        let mut m = Messages::default();
        for (stream, reliable) in [(0, true), (0, false), (0, true)] {
            m.sent(WAY, message(stream, reliable));
        }
        m
    }

    fn come(m: &mut Messages, index: u32, stream: u16) -> Result<(), String> {
        let mut data = [0; 10];
        pattern::fill(key(WAY, index), 0, &mut data);
        let info = RecvInfo { stream, ppid: ppid(WAY, index), ..RecvInfo::default() };
        m.part(WAY, &info, (0, false), &data[..4])?;
        m.part(WAY, &info, (4, true), &data[4..])
    }

    #[test]
    fn what_was_given_up_may_be_missing_and_nothing_else() {
        let mut m = three();
        m.complete(WAY);
        assert!(m.finish().is_err());
        assert_eq!((come(&mut m, 0, 0), come(&mut m, 2, 0), m.finish()), (Ok(()), Ok(()), Ok(())));
        assert!(come(&mut m, 1, 0).is_err(), "it was passed");
    }

    #[test]
    fn what_was_told_as_failed_with_its_request_need_not_come_and_must_not() {
        let mut m = three();
        m.complete(WAY);
        assert_eq!((come(&mut m, 0, 0), m.failed(WAY, 2, 10)), (Ok(()), Ok(())));
        assert!(m.finish().is_err_and(|what| what.contains("no request")), "no request of its stream");
        m.undone(WAY, &[1]);
        assert!(m.finish().is_err(), "another stream");
        m.undone(WAY, &[0]);
        assert_eq!(m.finish(), Ok(()));
        assert!(come(&mut m, 2, 0).is_err(), "nothing of it was sent");
        let mut m = three();
        m.complete(WAY);
        m.undone(WAY, &[]);
        assert!(m.failed(WAY, 0, 9).is_ok() && !m.flows[&WAY].sent[0].failed, "some of it was sent");
        assert!(m.failed(WAY, 0, 10).is_ok() && m.finish().is_err(), "nobody was told of the third");
        assert_eq!(come(&mut m, 2, 0), Ok(()), "it passes what failed");
        assert_eq!(m.finish(), Ok(()));
        assert!(m.failed(WAY, 2, 10).is_err() && m.failed(WAY, 7, 10).is_err());
    }

    #[test]
    fn a_request_costs_nothing_that_was_written_later_or_of_which_some_has_come() {
        let mut m = three();
        m.complete(WAY);
        m.undone(WAY, &[0]);
        assert_eq!((come(&mut m, 0, 0), m.failed(WAY, 2, 10), m.finish()), (Ok(()), Ok(()), Ok(())));
        m.sent(WAY, message(0, true));
        assert_eq!(m.failed(WAY, 3, 10), Ok(()));
        assert!(m.finish().is_err_and(|what| what.contains("no request")), "written later");
        m.undone(WAY, &[]);
        assert_eq!(m.finish(), Ok(()));
        let mut m = three();
        let info = RecvInfo { ppid: ppid(WAY, 0), ..RecvInfo::default() };
        let mut data = [0; 10];
        pattern::fill(key(WAY, 0), 0, &mut data);
        assert_eq!(m.part(WAY, &info, (0, false), &data[..4]), Ok(()));
        assert_eq!(m.failed(WAY, 0, 6), Ok(()), "the rest of it");
        assert!(m.failed(WAY, 0, 10).is_err_and(|what| what.contains("has come")));
    }

    #[test]
    fn only_what_nobody_knows_and_streams_that_are_not_added_cost_messages() {
        let reset = |what, outcome| Notification::StreamReset { what, outcome, streams: vec![3] };
        let all = |outcome| Notification::AssocReset { outcome, local_tsn: 0, remote_tsn: 0 };
        let add = |incoming, outgoing, outcome| Notification::StreamChange { outcome, incoming, outgoing };
        let (outgoing, failed, denied) = (ResetWhat::Outgoing, Outcome::Failed, Outcome::Denied);
        let of = |note: &Notification| cost(note, (10, 1)).map(Cow::into_owned);
        assert_eq!(of(&reset(outgoing, failed)), Some(vec![3]));
        assert_eq!(of(&all(failed)), Some(Vec::new()), "all of them");
        for note in [add(0, 2, failed), add(0, 2, denied)] {
            assert_eq!(of(&note), Some(vec![10, 11, 12]), "{note:?}");
        }
        let free = [reset(outgoing, denied), reset(ResetWhat::IncomingAsked, failed), all(denied)];
        for note in free.into_iter().chain([add(2, 0, failed), add(2, 0, denied), add(0, 2, Outcome::Done)]) {
            assert_eq!(of(&note), None, "{note:?}");
        }
    }

    #[test]
    fn repetition_disorder_and_foreign_bytes_are_seen() {
        let mut m = three();
        assert!(come(&mut m, 2, 0).is_err(), "0 is missing");
        let mut m = three();
        assert!(come(&mut m, 0, 0).is_ok() && come(&mut m, 0, 0).is_err(), "twice");
        let mut m = three();
        assert!(come(&mut m, 0, 1).is_err(), "another stream");
        assert!(come(&mut m, 7, 0).is_err(), "never sent");
        let info = RecvInfo { ppid: ppid(WAY, 0), ..RecvInfo::default() };
        assert!(three().part(WAY, &info, (0, true), &[0; 10]).is_err(), "wrong bytes");
        assert!(three().part((3, 0), &info, (0, true), &[0; 10]).is_err(), "the other side's");
    }
}
