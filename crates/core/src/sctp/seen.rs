//! What the flight recorder has seen of an association, so that it notes what changed: states, paths, windows.
use super::assoc::Assoc;
use super::paths::{PathId, PathState};
use super::state::State;
use crate::base::Cx;
use crate::base::trace::Ev;
use crate::base::why::Wait;

/// What it saw last. There is none where nothing is recorded.
#[derive(Clone, Debug)]
pub struct Seen {
    state: State,
    wait: Wait,
    paths: Vec<Option<(PathState, u32, u32)>>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { state: State::Closed, wait: Wait::Empty, paths: Vec::new() }
    }
}

impl Assoc {
    /// Records what changed since the last time.
    pub fn record_changes(&self, cx: &mut Cx<'_>, seen: &mut Seen) {
        if seen.state != self.state {
            cx.trace(Ev::State(seen.state.name(), self.state.name()));
            seen.state = self.state;
        }
        let wait = self.tx.hold.0;
        if seen.wait != wait {
            cx.trace(Ev::Wait(wait.name()));
            seen.wait = wait;
        }
        seen.paths.resize(self.paths.len(), None);
        for (id, last) in seen.paths.iter_mut().enumerate() {
            let path = self.paths.get(id as PathId);
            let (state, cwnd, ssthresh) = (path.state(), path.cwnd.cwnd, path.cwnd.ssthresh);
            let (before, window) = last.map_or((None, None), |(state, c, s)| (Some(state), Some((c, s))));
            if before != Some(state) {
                cx.trace(Ev::Path(id as u8, before.map_or("none", PathState::name), state.name()));
            }
            if window != Some((cwnd, ssthresh)) {
                cx.trace(Ev::PathCwnd(id as u8, cwnd, ssthresh));
            }
            *last = Some((state, cwnd, ssthresh));
        }
    }
}
