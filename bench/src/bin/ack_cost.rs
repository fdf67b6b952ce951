//! Work per acknowledgement at a given window: run under callgrind, which counts only what `acknowledge` does.
#![forbid(unsafe_code)]
//!
//! `ack_cost WINDOW MODE` with MODE `ack` (each ACK takes one segment off the front), `sack` (every second segment is reported
//! by SACK, then the holes are filled) or `grow` (the first segment is missing, and one block behind it grows by a segment each).
use bytes::Bytes;
use lowwater_core::base::trace::Trace;
use lowwater_core::base::{Counters, Cx, Duration, Instant, Pool, Rng, Sysctl};
use lowwater_core::path::Path;
use lowwater_core::path::pmtu::Pmtu;
use lowwater_core::tcp::Seq;
use lowwater_core::tcp::sender::{AckIn, Sender};

const MSS: u16 = 1448;
/// Acknowledgements that are measured.
const MEASURED: u32 = 2_000;

struct World {
    rng: Rng,
    sysctl: Sysctl,
    count: Counters,
    trace: Trace,
    pool: Pool,
    path: Path,
    sender: Sender,
    now: Instant,
}

impl World {
    fn new(window: u32) -> Self {
        let (mut rng, sysctl) = (Rng::new(1), Sysctl::default());
        let (mut count, mut trace) = (Counters::default(), Trace::default());
        let mut cx = Cx {
            now: Instant::ZERO,
            rng: &mut rng,
            sysctl: &sysctl,
            count: &mut count,
            trace: &mut trace,
            pool: &mut Pool::default(),
            pressure: lowwater_core::base::Pressure::Low,
            share: u64::MAX,
            orphans: 0,
            socket: None,
        };
        let mut path = Path::new(&cx, Pmtu::new(1500, false));
        let mut sender = Sender::established(sysctl.tcp_reordering, Seq(0), MSS);
        sender.set_sack(true);
        sender.note_window(u32::MAX >> 2);
        sender.init_transfer(&mut cx, &mut path, 10);
        path.window.set_cwnd(&mut cx, window);
        path.window.set_ssthresh(&mut cx, window);
        let mut world = Self {
            rng,
            sysctl,
            count,
            trace,
            pool: Pool::default(),
            path,
            sender,
            now: Instant::from_millis(1_000),
        };
        let data = Bytes::from(vec![0; usize::from(MSS)]);
        for _ in 0..window + MEASURED {
            world.sender.queue().unsent.append_bytes(&mut world.pool, data.clone(), usize::from(MSS));
        }
        world
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Cx<'_>, &mut Path, &mut Sender) -> R) -> R {
        let mut cx = Cx {
            now: self.now,
            rng: &mut self.rng,
            sysctl: &self.sysctl,
            count: &mut self.count,
            trace: &mut self.trace,
            pool: &mut self.pool,
            pressure: lowwater_core::base::Pressure::Low,
            share: u64::MAX,
            orphans: 0,
            socket: None,
        };
        f(&mut cx, &mut self.path, &mut self.sender)
    }

    #[inline(never)]
    fn send(&mut self) {
        self.now = self.now.plus_nanos(1_000);
        self.with(|cx, path, sender| {
            sender.commit_send(cx, path, usize::from(MSS)).expect("data is queued");
            sender.after_write(cx, path, 1, false, false);
        });
    }

    fn ack(&mut self, ack: u32, sack: &[(Seq, Seq)]) {
        self.now = self.now.plus_nanos(1_000);
        acknowledge(self, ack, sack);
    }
}

/// What callgrind counts.
#[inline(never)]
fn acknowledge(world: &mut World, ack: u32, sack: &[(Seq, Seq)]) {
    let at = world.now;
    world.with(|cx, path, sender| {
        let input = AckIn {
            ack: Seq(ack),
            sack,
            tsecr: None,
            at,
            has_data: false,
            crossed: false,
            window_taken: false,
            ece: false,
            child: false,
            wnd_end: Seq(ack.wrapping_add(u32::MAX >> 2)),
        };
        sender.on_ack(cx, path, &input);
        let end = Seq(ack.wrapping_add(u32::MAX >> 2));
        while let Some(resend) = sender.next_lost(path, 1, end).and_then(|lost| sender.fit(&lost)) {
            sender.commit_retransmit(cx, path, &resend);
        }
    });
}

fn main() {
    let mut args = std::env::args().skip(1);
    let window: u32 = args.next().and_then(|w| w.parse().ok()).expect("a window in segments");
    let mode = args.next().unwrap_or_default();
    let mut world = World::new(window);
    for _ in 0..window {
        world.send();
    }
    world.now += Duration::from_millis(50);
    let mss = u32::from(MSS);
    let seq = |segment: u32| 1 + segment * mss;
    match mode.as_str() {
        "ack" => {
            for i in 1..=MEASURED {
                world.ack(seq(i), &[]);
                world.send();
            }
        }
        "sack" => {
            // Every second segment is reported, newest block first, as a receiver does; then each hole is filled.
            let blocks = MEASURED.min(window / 2 - 1);
            for i in 0..blocks {
                let start = 2 * i + 1;
                let block = (Seq(seq(start)), Seq(seq(start + 1)));
                world.ack(1, &[block]);
            }
            for i in 0..blocks {
                world.ack(seq(2 * i + 2), &[]);
            }
        }
        "grow" => {
            for i in 1..=MEASURED.min(window - 1) {
                world.ack(1, &[(Seq(seq(1)), Seq(seq(i + 1)))]);
            }
        }
        other => panic!("MODE {other} is not known: ack, sack or grow"),
    }
    println!("window {window} mode {mode}: in flight {}", world.sender.in_flight());
}
