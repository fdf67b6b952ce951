//! What a FORWARD TSN would say: how far everything was given up, and the last message of each stream among it (RFC 3758 section 3.5).
//!
//! A peer may have it said again with each SACK, so that each chunk is looked at once, however often that is. What was given up stays so.
use super::{Chunk, Mark};
use crate::base::steps;
use crate::sctp::tsn::Tsn;
use lowwater_wire::sctp::ForwardStream;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Streams that one FORWARD TSN names.
const FORWARD_STREAMS_MAX: usize = 10;

/// What was looked at of the run behind the cumulative TSN. Where nothing was given up, as nearly always, it is one word.
#[derive(Debug, Default)]
pub(super) struct Skip {
    some: Option<Box<Run>>,
}

#[derive(Debug)]
struct Run {
    /// The last one of it.
    point: Tsn,
    /// The streams of the ordered messages among it, each with the last of its TSNs.
    streams: SmallVec<[(ForwardStream, Tsn); 4]>,
}

impl Skip {
    /// Nothing was looked at.
    pub(super) const fn new() -> Self {
        Self { some: None }
    }

    /// No stream of anything up to here needs to be named.
    pub(super) fn forget_streams(&mut self, last: Tsn) {
        if let Some(run) = &mut self.some {
            run.streams.retain(|(_, tsn)| *tsn > last);
        }
    }

    /// What is acknowledged cumulatively up to here need not be skipped.
    pub(super) fn remove_up_to(&mut self, cum: Tsn) {
        self.some.take_if(|run| run.point <= cum);
        if let Some(run) = &mut self.some {
            run.streams.retain(|(_, last)| *last > cum);
        }
    }

    /// How far everything is given up of these `chunks` behind `cum`, and the streams of what lies behind `heard`. One FORWARD TSN names ten
    /// streams at the most, as in Linux: the next goes further.
    pub(super) fn look(
        &mut self,
        (cum, heard): (Tsn, Tsn),
        chunks: &VecDeque<Chunk>,
    ) -> (Tsn, SmallVec<[ForwardStream; 4]>) {
        let at = self.some.as_ref().map_or(cum, |run| run.point);
        let new = chunks.range((at.0 - cum.0) as usize..).take_while(|chunk| chunk.mark == Mark::Abandoned);
        for (tsn, chunk) in (at.0 + 1..).map(Tsn).zip(new) {
            steps::step();
            let run = self.some.get_or_insert_with(|| Box::new(Run { point: at, streams: SmallVec::new() }));
            if tsn > heard && !run.adds(tsn, chunk) {
                break;
            }
            run.point = tsn;
        }
        let Some(run) = &self.some else { return (cum, SmallVec::new()) };
        (run.point, run.streams.iter().map(|(stream, _)| *stream).collect())
    }
}

impl Run {
    /// The next chunk joins it; false where its stream is one too many.
    fn adds(&mut self, tsn: Tsn, chunk: &Chunk) -> bool {
        if chunk.flags.unordered() {
            return true;
        }
        let stream = ForwardStream::new(chunk.stream, chunk.ssn);
        match self.streams.iter().position(|(known, _)| known.sid() == chunk.stream) {
            Some(known) => self.streams[known] = (stream, tsn),
            None if self.streams.len() < FORWARD_STREAMS_MAX => self.streams.push((stream, tsn)),
            None => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;

    fn given_up(stream: u16, ssn: u16) -> Chunk {
        Chunk { mark: Mark::Abandoned, stream, ssn, ..Chunk::whole(0, Instant::ZERO, b"") }
    }

    fn said(skip: &mut Skip, cum: Tsn, chunks: &VecDeque<Chunk>) -> (u64, Vec<(u16, u16)>) {
        let (point, streams) = skip.look((cum, Tsn(0)), chunks);
        (point.0, streams.iter().map(|one| (one.sid(), one.ssn())).collect())
    }

    #[test]
    fn a_run_grows_and_shrinks_and_each_chunk_of_it_is_looked_at_once() {
        assert!(size_of::<Skip>() <= 8);
        let (mut skip, mut cum) = (Skip::new(), Tsn(100));
        let mut chunks: VecDeque<Chunk> = (0..30).map(|n| given_up(n % 3, n)).collect();
        chunks.push_back(Chunk::whole(0, Instant::ZERO, b"x"));
        let all = (130, vec![(0, 27), (1, 28), (2, 29)]);
        assert_eq!(said(&mut skip, cum, &chunks), all);
        // The last one of stream 0 is acknowledged, so that nothing of it is to be skipped.
        for _ in 0..28 {
            chunks.pop_front();
            cum = cum.next();
            skip.remove_up_to(cum);
        }
        let mut what = (0, Vec::new());
        assert_eq!(steps::of(|| what = said(&mut skip, cum, &chunks)), 0);
        assert_eq!(what, (130, vec![(1, 28), (2, 29)]));
        chunks[2].mark = Mark::Abandoned;
        assert_eq!(said(&mut skip, cum, &chunks), (131, vec![(1, 28), (2, 29), (0, 0)]));
        chunks.clear();
        skip.remove_up_to(Tsn(131));
        assert_eq!((said(&mut skip, Tsn(131), &chunks), skip.some.is_none()), ((131, vec![]), true));
    }

    #[test]
    fn the_eleventh_stream_is_said_once_there_is_room() {
        let (mut skip, chunks) = (Skip::new(), (0..25).map(|n| given_up(n, 0)).collect::<VecDeque<_>>());
        let first = said(&mut skip, Tsn(100), &chunks);
        assert_eq!((first.0, first.1.len()), (110, 10));
        skip.remove_up_to(Tsn(104));
        let rest: VecDeque<Chunk> = chunks.iter().skip(4).cloned().collect();
        let next = said(&mut skip, Tsn(104), &rest);
        assert_eq!((next.0, next.1.first(), next.1.last()), (114, Some(&(4, 0)), Some(&(13, 0))));
        // One that has overtaken the run.
        skip.remove_up_to(Tsn(120));
        let rest: VecDeque<Chunk> = chunks.iter().skip(20).cloned().collect();
        assert_eq!(said(&mut skip, Tsn(120), &rest).0, 125);
    }
}
