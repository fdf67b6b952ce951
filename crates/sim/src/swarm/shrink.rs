//! Makes a failing world smaller while it keeps failing in the same way: fewer programs, bytes, faults and settings.
use super::draw::{AppDraw, Faults, WorldSpec};
use super::sctp::TalkDraw;
use crate::app::messages::Reads;
use crate::link::nic::Telling;

/// Rounds of shrinking; each tries every step once.
const ROUNDS: usize = 8;

/// The smallest draw found for which `fails` still holds.
pub fn shrink(draw: &WorldSpec, fails: &mut dyn FnMut(&WorldSpec) -> bool) -> WorldSpec {
    let mut best = draw.clone();
    for _ in 0..ROUNDS {
        let before = best.clone();
        for step in steps(&best) {
            let mut smaller = best.clone();
            step(&mut smaller);
            if smaller != best && fails(&smaller) {
                best = smaller;
            }
        }
        if best == before {
            break;
        }
    }
    best
}

type Change = Box<dyn Fn(&mut WorldSpec)>;

fn steps(draw: &WorldSpec) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    // From the back, so that an earlier removal does not move a later one.
    for i in (0..draw.apps.len()).rev() {
        all.push(Box::new(move |d| {
            if d.apps.len() + d.sctp.talks.len() > 1 && i < d.apps.len() {
                d.apps.remove(i);
            }
        }));
        all.push(Box::new(move |d| {
            if let Some(app) = d.apps.get_mut(i) {
                halve(app);
            }
        }));
    }
    associations(&mut all, draw);
    for side in [0, 1] {
        all.push(Box::new(move |d| d.qdiscs[side].clear()));
        all.push(Box::new(move |d| d.faults[side] = Faults::default()));
        let each: [fn(&mut Faults); 7] = [
            |f| f.loss_ppm = 0,
            |f| f.burst_ppm = (0, 0, 0),
            |f| f.blackouts_ms.clear(),
            |f| f.jitter_ns = 0,
            |f| f.reorder = (0, 0),
            |f| f.duplicate_ppm = 0,
            |f| f.corrupt_ppm = 0,
        ];
        all.extend(each.map(|clear| -> Change { Box::new(move |d| clear(&mut d.faults[side])) }));
    }
    settings(&mut all, draw);
    let plain: [fn(&mut WorldSpec); 19] = [
        |d| d.seldom.more = 0,
        |d| d.seldom.urgent = 0,
        |d| d.seldom.fast_open = false,
        |d| d.seldom.stall = (0, 0),
        |d| d.seldom.black_hole = false,
        |d| d.options[0] = 0,
        |d| d.options[1] = 0,
        |d| d.clients = 1,
        |d| d.v6 = false,
        |d| d.mark_bytes = 0,
        |d| d.hop_mtu = 0,
        |d| d.mtu = 1500,
        |d| d.not_now_ppm = 0,
        |d| d.telling = Telling::default(),
        |d| d.rx_coalesce_ns = 0,
        |d| d.sndbuf = 0,
        |d| d.rcvbuf = 0,
        |d| d.nic_packets = 1_000,
        |d| d.queue_packets = 1_000,
    ];
    all.extend(plain.map(|change| -> Change { Box::new(change) }));
    all
}

fn settings(all: &mut Vec<Change>, draw: &WorldSpec) {
    for i in (0..draw.client_sysctl.len()).rev() {
        all.push(Box::new(move |d| {
            if i < d.client_sysctl.len() {
                d.client_sysctl.remove(i);
            }
        }));
    }
    for i in (0..draw.server_sysctl.len()).rev() {
        all.push(Box::new(move |d| {
            if i < d.server_sysctl.len() {
                d.server_sysctl.remove(i);
            }
        }));
    }
    for i in (0..draw.seldom.sysctl.len()).rev() {
        all.push(Box::new(move |d| {
            // Without a search for the path's MTU nothing passes a hop that says nothing.
            if i < d.seldom.sysctl.len() {
                d.seldom.sysctl.remove(i);
                d.seldom.black_hole = false;
            }
        }));
    }
}

fn associations(all: &mut Vec<Change>, draw: &WorldSpec) {
    for i in (0..draw.sctp.talks.len()).rev() {
        all.push(Box::new(move |d| {
            if d.apps.len() + d.sctp.talks.len() > 1 && i < d.sctp.talks.len() {
                d.sctp.talks.remove(i);
            }
        }));
        let each: [fn(&mut TalkDraw); 5] = [
            |t| t.writes.iter_mut().for_each(|w| w.count /= 2),
            |t| t.writes.iter_mut().for_each(|w| (w.limited, w.addressed, w.unordered) = (0, 0, 0)),
            |t| t.writes.iter_mut().for_each(|w| (w.burst, w.whims) = (0, 0)),
            |t| t.reads = [Reads::Messages; 2],
            |t| t.buffers = [(0, 0); 2],
        ];
        all.extend(each.map(|change| -> Change {
            Box::new(move |d| d.sctp.talks.get_mut(i).into_iter().for_each(change))
        }));
    }
    for side in [0, 1] {
        for i in (0..draw.sctp.sysctl[side].len()).rev() {
            all.push(Box::new(move |d| {
                if i < d.sctp.sysctl[side].len() {
                    d.sctp.sysctl[side].remove(i);
                }
            }));
        }
    }
    all.push(Box::new(|d| d.sctp.trains = false));
    all.push(Box::new(|d| d.sctp.second = None));
    all.push(Box::new(|d| {
        if let Some(second) = &mut d.sctp.second {
            second.faults = [Faults::default(), Faults::default()];
            second.dark_ms = [(0, 0); 2];
        }
    }));
}

fn halve(app: &mut AppDraw) {
    match app {
        AppDraw::Bulk { bytes, start_ms, .. } => {
            *bytes = (*bytes / 2).max(16);
            *start_ms /= 2;
        }
        AppDraw::Rr { rounds, start_ms, .. } | AppDraw::Churn { rounds, start_ms, .. } => {
            *rounds = (*rounds / 2).max(1);
            *start_ms /= 2;
        }
        AppDraw::Udp { count, start_ms, .. } => {
            *count = (*count / 2).max(1);
            *start_ms /= 2;
        }
    }
}
