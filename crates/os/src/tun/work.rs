//! Where the kernel processes what the stack writes to its device: in the writing thread, or beside it.
use crate::sys::TunFlags;
use crate::sysfs::Sysfs;

/// Where the kernel processes what is written to the device. Its work for a packet is the whole of its TCP: an ACK of ours
/// lets its sender send, and all of that runs in our write unless something moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KernelWork {
    /// In the thread that writes, before the write returns: the least latency and the least work in all.
    #[default]
    Inline,
    /// On processors chosen by a hash of the flow, of all there are (receive packet steering, `rps_cpus`).
    Spread,
    /// In a thread of the kernel for each queue, which takes packets by batches and merges them (NAPI, `threaded`). The thread
    /// that owns the stack does nothing but its own work; where processors are short, both compete for them.
    Thread,
}

impl KernelWork {
    /// What TUNSETIFF must say.
    pub(super) const fn flags(self) -> TunFlags {
        match self {
            Self::Inline | Self::Spread => 0,
            Self::Thread => libc::IFF_NAPI as TunFlags,
        }
    }

    /// Sets the attributes of the device. Where that is refused it stays as the kernel made it, and the reason is told.
    pub(super) fn arrange(self, name: &str, queues: usize) -> Result<(), String> {
        let told = |e: crate::sysfs::Refused| e.to_string();
        match self {
            Self::Inline => Ok(()),
            Self::Spread => {
                let (sysfs, cpus) = (Sysfs::mount().map_err(told)?, all_cpus());
                for queue in 0..queues {
                    sysfs.set(name, &format!("queues/rx-{queue}/rps_cpus"), &cpus).map_err(told)?;
                }
                Ok(())
            }
            Self::Thread => Sysfs::mount().and_then(|sysfs| sysfs.set(name, "threaded", "1")).map_err(told),
        }
    }
}

/// All processors as sysfs writes sets of them: words of 32 bits, the highest first.
fn all_cpus() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    cpu_mask(cpus)
}

fn cpu_mask(cpus: usize) -> String {
    let words: Vec<String> = (0..cpus.div_ceil(32))
        .rev()
        .map(|word| {
            format!("{:08x}", u64::MAX.checked_shr(64 - (cpus - word * 32).min(32) as u32).unwrap_or(0))
        })
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{NetNs, net_admin};
    use crate::tun::{Tun, TunOptions};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    #[test]
    fn sets_of_processors_are_written_as_sysfs_reads_them() {
        for (cpus, mask) in [
            (1, "00000001"),
            (2, "00000003"),
            (32, "ffffffff"),
            (33, "00000001,ffffffff"),
            (70, "0000003f,ffffffff,ffffffff"),
        ] {
            assert_eq!(cpu_mask(cpus), mask, "{cpus}");
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
            assert_eq!((queues.len(), queues[0].degraded()), (3, None));
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
