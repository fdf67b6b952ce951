//! Where the kernel processes what the stack writes to its device: in the writing thread, or beside it.
use super::trial::Trial;
use crate::sys::TunFlags;
use crate::sysfs::{Attribute, Refused, Sysfs};
use core::time::Duration;
use lowwater_core::base::Instant;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu};

/// Batches that must end at their bound before the stack's thread counts as what holds everything up; one that does not
/// halves their number.
const BUSY_BATCHES: u32 = 8;
/// How long after the last such batch the work comes back.
const CALM: Duration = Duration::from_secs(1);
/// How long a set of processors stays as it is, wherever the thread goes: a new one costs a system call and a lock of all devices in the
/// kernel, and packets of flows whose processor changes may overtake each other.
const STAY: Duration = Duration::from_millis(10);

/// Where the kernel processes what is written to the device. Its work for a packet is the whole of its TCP: an ACK of ours
/// lets its sender send, and all of that runs in our write unless something moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KernelWork {
    /// Inline, but spread while packets queue up before the stack and more come that way, which is tried once a second: least latency for
    /// those who ask and answer, and the stack's thread for itself when it is the bottleneck. On one processor it is inline.
    #[default]
    Auto,
    /// In the thread that writes, before the write returns: the least latency and the least work in all.
    Inline,
    /// On processors chosen by a hash of the flow, of all but the one of the thread that reads (receive packet steering, `rps_cpus`),
    /// which it follows: what is written on a processor that the set names is processed there inline after all.
    Spread,
    /// In a thread of the kernel for each queue, which takes packets by batches and merges them (NAPI, `threaded`). The thread
    /// that owns the stack does nothing but its own work; where processors are short, both compete for them.
    Thread,
}

impl KernelWork {
    /// What TUNSETIFF must say.
    pub(super) const fn flags(self) -> TunFlags {
        match self {
            Self::Auto | Self::Inline | Self::Spread => 0,
            Self::Thread => libc::IFF_NAPI as TunFlags,
        }
    }

    /// Sets the attributes of a queue. Where that is refused it stays as the kernel made it, and the reason is told.
    pub(super) fn arrange(self, name: &str, queue: usize) -> Arranged {
        match self.try_to_arrange(name, queue) {
            Ok(steering) => Arranged { steering, degraded: None },
            Err(refused) => Arranged { steering: None, degraded: Some(refused.to_string()) },
        }
    }

    fn try_to_arrange(self, name: &str, queue: usize) -> Result<Option<Steering>, Refused> {
        if self == Self::Inline || (self == Self::Auto && cpus() == 1) {
            return Ok(None);
        }
        let sysfs = Sysfs::mount()?;
        if self == Self::Thread {
            return sysfs.set(name, "threaded", "1").map(|()| None);
        }
        let attribute = sysfs.open(name, &format!("queues/rx-{queue}/rps_cpus"))?;
        let mut steering = Steering { always: self == Self::Spread, ..Steering::new(attribute) };
        if steering.always {
            steering.leave_out(Some(sched_getcpu()))?;
        }
        Ok(Some(steering))
    }
}

/// What came of [`KernelWork`] on one queue.
#[derive(Debug, Default)]
pub(super) struct Arranged {
    /// Where the work moves with the load or with the thread.
    pub(super) steering: Option<Steering>,
    /// Why it could not be arranged.
    pub(super) degraded: Option<String>,
}

/// Receive packet steering of one queue: while batches end at their bound it is on where that brings more, or it always is.
#[derive(Debug)]
pub(super) struct Steering {
    attribute: Attribute,
    always: bool,
    /// It is on, for all processors but this one, since then.
    left_out: Option<usize>,
    since: Instant,
    /// Batches that ended at their bound, halved by each that did not.
    busy: u32,
    last_busy: Instant,
    /// While there are such: whether it brings more. Where one sender has one processor to itself, what is moved there only takes turns
    /// with it; many senders gain, and how much depends on the machine.
    trial: Option<Trial>,
}

/// What a batch of frames was like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// When it ended.
    pub(super) at: Instant,
    /// At its bound; else the device was empty.
    pub(super) full: bool,
    /// Bytes of its frames.
    pub(super) bytes: u64,
}

impl Steering {
    const fn new(attribute: Attribute) -> Self {
        Self {
            attribute,
            always: false,
            left_out: None,
            since: Instant::ZERO,
            busy: 0,
            last_busy: Instant::ZERO,
            trial: None,
        }
    }

    /// A batch has been read on processor `cpu`.
    ///
    /// The scheduler moves the thread, and nothing moves it back from a processor that the set names: there each write is processed
    /// inline, so the thread is the busier for it, and stays where it is. So the set follows.
    ///
    /// # Errors
    /// The set was refused, as to a program that has given up its rights (CAP_NET_ADMIN), and is as it was.
    pub(super) fn on_batch(&mut self, batch: Batch, cpu: usize) -> Result<(), Refused> {
        let wanted = (self.always || self.spreads(batch)).then_some(cpu);
        let moved = wanted.is_some() && self.left_out.is_some();
        if wanted == self.left_out || (moved && batch.at.since(self.since) < STAY) {
            return Ok(());
        }
        self.since = batch.at;
        self.leave_out(wanted)
    }

    fn spreads(&mut self, Batch { at, full, bytes }: Batch) -> bool {
        if full {
            self.busy = (self.busy + 1).min(2 * BUSY_BATCHES);
            self.last_busy = at;
        } else {
            self.busy /= 2;
        }
        let lasts = self.trial.is_some() && at.since(self.last_busy) < CALM;
        if self.busy < BUSY_BATCHES && !lasts {
            self.trial = None;
            return false;
        }
        self.trial.get_or_insert_with(|| Trial::new(at)).on_bytes(at, bytes)
    }

    fn leave_out(&mut self, cpu: Option<usize>) -> Result<(), Refused> {
        self.attribute.set(&cpu.map_or_else(|| "0".into(), all_but))?;
        self.left_out = cpu;
        Ok(())
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processors that this thread may run on, but `own`; that one where there is no other.
fn all_but(own: usize) -> String {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let others: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| cpu != own && allowed.is_set(cpu)).collect();
    if others.is_empty() { cpu_mask(&[own]) } else { cpu_mask(&others) }
}

/// Processors, in ascending order, as sysfs reads sets of them: words of 32 bits, the highest first.
fn cpu_mask(cpus: &[usize]) -> String {
    let words = cpus.last().map_or(1, |last| last / 32 + 1);
    let word = |word: usize| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == word).fold(0u32, |set, cpu| set | 1 << (cpu % 32));
        format!("{bits:08x}")
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::REQUIRE_NET;
    use crate::netns::{NetNs, net_admin};
    use crate::tun::{Tun, TunOptions};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    #[test]
    fn sets_of_processors_are_written_as_sysfs_reads_them() {
        for (cpus, mask) in [
            (&[0][..], "00000001"),
            (&[1], "00000002"),
            (&[0, 31], "80000001"),
            (&[32], "00000001,00000000"),
            (&[2, 3, 69], "00000020,00000000,0000000c"),
        ] {
            assert_eq!(cpu_mask(cpus), mask, "{cpus:?}");
        }
    }

    #[test]
    fn the_device_is_arranged_in_its_own_namespace() {
        if !net_admin() {
            return;
        }
        NetNs::new().unwrap().run(|| {
            let open = |work| Tun::open(&TunOptions { work, ..TunOptions::new("") }).unwrap();
            let shown = |tun: &Tun| {
                assert_eq!(tun.degraded(), None);
                let get = |attribute| Sysfs::mount().unwrap().get(tun.name(), attribute);
                let spread = get("queues/rx-0/rps_cpus").contains(|c| c != '0' && c != ',');
                (spread, get("threaded") == "1")
            };
            assert_eq!(shown(&open(KernelWork::Inline)), (false, false));
            assert_eq!(shown(&open(KernelWork::Spread)), (true, false));
            assert_eq!(shown(&open(KernelWork::Thread)), (false, true));
            let several = TunOptions { work: KernelWork::Spread, ..TunOptions::new("") };
            let queues = Tun::open_queues(&several, 3).unwrap();
            assert!(queues.len() == 3 && queues.iter().all(|tun| tun.degraded().is_none()));
        });
    }

    /// From batch to batch, and how many of them make the time for which a way is measured.
    const MOMENT: Duration = Duration::from_millis(1);
    const WINDOW: u32 = 50;

    /// Two processors that this thread may run on, where there are two, and what else such tests need.
    fn two_processors() -> Option<(usize, usize)> {
        let allowed = sched_getaffinity(None).unwrap();
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let two = cpus.next().zip(cpus.next());
        if two.is_none() {
            assert!(std::env::var_os(REQUIRE_NET).is_none_or(|v| v != "1"), "this test needs two processors");
            eprintln!("skipped: needs two processors");
        }
        two.filter(|_| net_admin())
    }

    #[test]
    fn the_work_is_spread_while_packets_queue_up_and_comes_back() {
        if two_processors().is_none() {
            return;
        }
        NetNs::new().unwrap().run(|| {
            let mut tun = Tun::open(&TunOptions::new("")).unwrap();
            assert_eq!(tun.degraded(), None);
            let name = tun.name().to_owned();
            let spread = || {
                Sysfs::mount().unwrap().get(&name, "queues/rx-0/rps_cpus").contains(|c| c != '0' && c != ',')
            };
            let steering = tun.arranged.steering.as_mut().unwrap();
            let mut at = Instant::from_millis(1_000);
            let mut batches = |n: u32, full, bytes| {
                for _ in 0..n {
                    at += MOMENT;
                    steering.on_batch(Batch { at, full, bytes }, 0).unwrap();
                }
            };
            batches(BUSY_BATCHES - 1, true, 1_000);
            // A device that is empty every other time is not what holds everything up.
            for _ in 0..1_000 {
                batches(1, false, 0);
                batches(1, true, 1_000);
            }
            assert!(!spread());
            batches(BUSY_BATCHES + WINDOW, true, 1_000);
            assert!(spread(), "it is tried");
            batches(WINDOW, true, 1_000);
            assert!(!spread(), "it brings no more");
            batches(21 * WINDOW + WINDOW / 2, true, 1_000);
            assert!(spread(), "it is tried again");
            batches(10 * WINDOW, true, 2_000);
            assert!(spread(), "it brings more");
            batches(1, false, 0);
            assert!(spread(), "not at the first pause");
            at += CALM;
            steering.on_batch(Batch { at, full: false, bytes: 0 }, 0).unwrap();
            assert!(!spread());
        });
    }

    #[test]
    fn where_the_work_goes_follows_the_thread() {
        let Some((first, second)) = two_processors() else { return };
        NetNs::new().unwrap().run(|| {
            for work in [KernelWork::Spread, KernelWork::Auto] {
                let mut tun = Tun::open(&TunOptions { work, ..TunOptions::new("") }).unwrap();
                assert_eq!(tun.degraded(), None);
                let name = tun.name().to_owned();
                let named = |cpu: usize| {
                    let set = Sysfs::mount().unwrap().get(&name, "queues/rx-0/rps_cpus");
                    // Words of 32 bits, the lowest last; as many as the kernel knows processors.
                    let word =
                        set.rsplit(',').nth(cpu / 32).map_or(0, |w| u32::from_str_radix(w, 16).unwrap());
                    word >> (cpu % 32) & 1 == 1
                };
                let steering = tun.arranged.steering.as_mut().unwrap();
                let at = Instant::from_millis(1_000);
                let batch = Batch { at, full: true, bytes: 1_000 };
                (0..BUSY_BATCHES).for_each(|_| steering.on_batch(batch, first).unwrap());
                let at = at + MOMENT * WINDOW;
                steering.on_batch(Batch { at, ..batch }, first).unwrap();
                assert!(!named(first) && named(second), "{work:?}");
                let at = at + STAY;
                steering.on_batch(Batch { at, ..batch }, second).unwrap();
                assert!(named(first) && !named(second), "{work:?}: it has moved");
                steering.on_batch(Batch { at, ..batch }, first).unwrap();
                assert!(named(first) && !named(second), "{work:?}: not at once again");
                // So long after the last full batch it ends.
                steering.on_batch(Batch { at: at + CALM, full: false, bytes: 0 }, first).unwrap();
                assert_eq!(
                    (named(first), named(second)),
                    (false, work == KernelWork::Spread),
                    "{work:?}: calm"
                );
            }
        });
    }

    #[test]
    fn who_may_not_move_the_work_any_more_is_told_once() {
        let Some((first, second)) = two_processors() else { return };
        NetNs::new().unwrap().run(|| {
            let mut tun = Tun::open(&TunOptions { work: KernelWork::Spread, ..TunOptions::new("") }).unwrap();
            // Of this thread alone, which ends.
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::NET_ADMIN);
            set_capabilities(None, sets).unwrap();
            let batch = Batch { at: Instant::from_millis(1_000), full: true, bytes: 1_000 };
            let steering = tun.arranged.steering.as_mut().unwrap();
            let on = steering.left_out;
            let elsewhere = if on == Some(first) { second } else { first };
            assert!(steering.on_batch(batch, elsewhere).is_err());
            assert_eq!(steering.left_out, on, "it is as it was");
            // Wherever the thread is now, the set is of another processor.
            steering.left_out = Some(CpuSet::MAX_CPU);
            tun.note_batch(Batch { at: batch.at + STAY, ..batch });
            assert!(
                tun.arranged.steering.is_none() && tun.degraded().is_some_and(|why| why.contains("rps_cpus"))
            );
        });
    }

    #[test]
    fn who_may_not_mount_gets_a_device_and_the_reason() {
        if !net_admin() {
            return;
        }
        NetNs::new().unwrap().run(|| {
            // Of this thread alone, which ends.
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::SYS_ADMIN);
            set_capabilities(None, sets).unwrap();
            let tun = Tun::open(&TunOptions { work: KernelWork::Spread, ..TunOptions::new("") }).unwrap();
            assert!(tun.degraded().is_some_and(|why| why.starts_with("mounting sysfs is refused")));
        });
    }
}
