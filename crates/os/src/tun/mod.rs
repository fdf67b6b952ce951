//! TUN and TAP devices: creation, queues, and the options of both.
//!
//! The ioctls are our own because no crate at hand makes the device that the stack needs: tun-rs 2 asks for UDP
//! super-packets together with TCP ones, which the core does not read, cannot ask for TSO with ECN, and would bring a
//! second system-call layer (nix) and address handling beside rustix for three ioctls.
mod io;
mod trial;
mod work;

pub use work::KernelWork;

use crate::entropy;
use crate::error::SetupError;
use crate::netlink::{Link, LinkWatch, MTU_MIN};
use crate::pool::Pool;
use crate::sys::{self, TunFlags};
use crate::vnet;
use bytes::BytesMut;
use core::fmt;
use lowwater_core::device::{DeviceCaps, Direction};
use lowwater_core::packet::Packet;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// Largest read: a virtio-net header, an Ethernet header with a VLAN tag, and the largest IP packet, rounded up.
const READ_BYTES: usize = 65_536 + 64;
/// Length of an Ethernet header.
const ETHERNET_HEADER: usize = 14;
/// Queues that one device can have (MAX_TAP_QUEUES).
pub const QUEUES_MAX: usize = 256;

const TUN_F_CSUM: u32 = 1;
const TUN_F_TSO4: u32 = 2;
const TUN_F_TSO6: u32 = 4;
const TUN_F_TSO_ECN: u32 = 8;

/// What a frame starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layer {
    /// The IP header: TUN.
    #[default]
    Ip,
    /// The Ethernet header: TAP.
    Ethernet,
}

impl Layer {
    const fn link_len(self) -> usize {
        match self {
            Self::Ip => 0,
            Self::Ethernet => ETHERNET_HEADER,
        }
    }
}

/// How to make a device.
#[derive(Clone, Debug)]
pub struct TunOptions {
    /// Name, at most 15 bytes; empty or with `%d`, the kernel chooses. A device of that name that exists is joined.
    pub name: String,
    /// TUN or TAP.
    pub layer: Layer,
    /// Super-packets (TSO4, TSO6, with ECN) and unfinished checksums in both directions, by a virtio-net header.
    pub offload: bool,
    /// MTU in bytes. A device that was made for this user by somebody else keeps its own: see [`Tun::mtu`].
    pub mtu: u32,
    /// Packets that wait in the device towards the stack. The kernel's own sender is not held back by them (the driver
    /// orphans packets, so that small queues do not act), hence the room for a whole window of single packets.
    pub txqueuelen: u32,
    /// Bytes on their way into the kernel above which a write answers "not now"; `None`: no bound. (TUNSETSNDBUF)
    pub sndbuf: Option<u32>,
    /// Where the kernel processes what the stack writes.
    pub work: KernelWork,
}

impl TunOptions {
    /// A TUN of this name with offloads, MTU 1500 and 5,000 packets of queue.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let (layer, offload, mtu, txqueuelen, sndbuf) = (Layer::Ip, true, 1_500, 5_000, None);
        Self { name: name.into(), layer, offload, mtu, txqueuelen, sndbuf, work: KernelWork::default() }
    }
}

/// Sees every packet that passes, super-packets and unfinished checksums as they are: for captures.
pub type Observer = Box<dyn FnMut(Direction, &Packet) + Send>;

/// What has passed through one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunCounters {
    /// Frames read.
    pub frames_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Frames copied into an allocation of their own size, because they filled less than half of the read buffer.
    pub copied: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Frames dropped because their virtio-net header contradicts them.
    pub malformed: u64,
    /// Frames written.
    pub frames_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Writes that the device did not take for now.
    pub not_now: u64,
    /// Frames that the kernel refused.
    pub dropped: u64,
}

/// One queue of a TUN or TAP. The device disappears with its last queue, unless it was made persistent elsewhere.
pub struct Tun {
    fd: OwnedFd,
    name: String,
    layer: Layer,
    vnet: bool,
    size: Size,
    ethernet: Option<[u8; 6]>,
    pool: Pool,
    buffer: BytesMut,
    /// Frames since the last read that met none: see [`Tun::recv_batch`].
    pace: io::Pace,
    observer: Option<Observer>,
    counters: TunCounters,
    arranged: work::Arranged,
}

/// The device's MTU in bytes, as far as it is known.
#[derive(Debug)]
struct Size {
    mtu: u32,
    /// Who tells of another one, where the device is one of this process's namespace.
    watch: Option<LinkWatch>,
    /// Why nobody does, where it was to be.
    unfollowed: Option<String>,
}

impl Tun {
    /// Makes a device with one queue, or joins the one that exists, in the calling thread's network namespace. It is
    /// down and has no address: see [`Tun::link`].
    ///
    /// # Errors
    /// Every variant of [`SetupError`].
    pub fn open(options: &TunOptions) -> Result<Self, SetupError> {
        let mut tun = Self::attach(options, 0)?;
        tun.configure(options)?;
        tun.arranged = options.work.arrange(&tun.name, 0);
        Ok(tun)
    }

    /// Makes a device with `queues` queues. The kernel steers by flow: packets of a flow come out of the queue through
    /// which the stack last sent on that flow, or of one chosen by a hash until then.
    ///
    /// # Errors
    /// As [`Tun::open`]; no queue, or more than [`QUEUES_MAX`], is EINVAL.
    pub fn open_queues(options: &TunOptions, queues: usize) -> Result<Vec<Self>, SetupError> {
        if !(1..=QUEUES_MAX).contains(&queues) {
            let doing = format!("making a device with {queues} queues (1 to {QUEUES_MAX} are possible)");
            return Err(SetupError::from_errno(doing, Errno::INVAL));
        }
        let mut first = Self::attach(options, libc::IFF_MULTI_QUEUE as TunFlags)?;
        first.configure(options)?;
        let same = TunOptions { name: first.name.clone(), mtu: first.size.mtu, ..options.clone() };
        let mut all = vec![first];
        while all.len() < queues {
            let mut next = Self::attach(&same, libc::IFF_MULTI_QUEUE as TunFlags)?;
            next.ethernet = all[0].ethernet;
            next.follow_if_possible();
            all.push(next);
        }
        // The attributes of a queue are there once all are attached.
        for (index, tun) in all.iter_mut().enumerate() {
            tun.arranged = options.work.arrange(&tun.name, index);
        }
        Ok(all)
    }

    /// Takes over a descriptor that somebody with more privileges has attached to a device without packet information
    /// (IFF_NO_PI). Offloads are used when it was attached with IFF_VNET_HDR. Its MTU stays the one that is told here, unless it is to be
    /// followed ([`Tun::follow`]).
    ///
    /// # Errors
    /// [`SetupError::Os`] when the descriptor is not attached to a device.
    pub fn from_fd(fd: OwnedFd, mtu: u32) -> Result<Self, SetupError> {
        let failed = |e| SetupError::from_errno("taking over a TUN descriptor", e);
        let (name, flags) = sys::interface(&fd).map_err(failed)?;
        let mode = rustix::fs::fcntl_getfl(&fd).map_err(failed)?;
        rustix::fs::fcntl_setfl(&fd, mode | rustix::fs::OFlags::NONBLOCK).map_err(failed)?;
        let layer = if flags & libc::IFF_TAP as TunFlags != 0 { Layer::Ethernet } else { Layer::Ip };
        let mut tun = Self::over(fd, name, layer, flags & libc::IFF_VNET_HDR as TunFlags != 0, mtu);
        tun.negotiate(None).map_err(failed)?;
        tun.choose_ethernet()?;
        Ok(tun)
    }

    /// The kernel's side of the device. To be called in the namespace of [`Tun::open`].
    ///
    /// # Errors
    /// As [`Link::by_name`].
    pub fn link(&self) -> Result<Link, SetupError> {
        Link::by_name(&self.name)
    }

    /// From now on [`Tun::new_mtu`] hears of changes, as it does after [`Tun::open`]. To be called in the namespace that the device is in: what has its
    /// name there is watched, as long as it stays there.
    ///
    /// # Errors
    /// As [`Link::by_name`], and [`SetupError::Os`] where that cannot be watched.
    pub fn follow(&mut self) -> Result<(), SetupError> {
        let failed = |source| SetupError::Os { doing: format!("watching {}", self.name), source };
        self.size.watch = Some(LinkWatch::new(self.link()?.index(), self.size.mtu).map_err(failed)?);
        Ok(())
    }

    /// The descriptor that tells, edge-triggered ([`crate::Interest::News`]), that the device may have another MTU, where that is followed. It is not
    /// to be read.
    #[must_use]
    pub fn watch_fd(&self) -> Option<BorrowedFd<'_>> {
        self.size.watch.as_ref().map(LinkWatch::fd)
    }

    /// The device's MTU, where it has changed since this was last asked or the device was opened: for `Stack::set_mtu`. A system call where it is
    /// followed; to be asked when [`Tun::watch_fd`] has told of something. One below the 68 bytes that every device of IPv4 takes (RFC 791) counts as 68.
    pub fn new_mtu(&mut self) -> Option<u16> {
        let heard = self.size.watch.as_mut()?.hear();
        if heard.gone {
            // Into another namespace, or for good, which reading tells.
            self.size.watch = None;
        }
        let before = self.caps().mtu;
        self.size.mtu = heard.mtu?.max(MTU_MIN);
        Some(self.caps().mtu).filter(|mtu| *mtu != before)
    }

    /// From now on what comes out of the device is complete: no super-packets, no checksums to be filled in. What goes in may still be either.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn receive_plain(&self) -> Result<(), SetupError> {
        sys::set_offload(&self.fd, 0).map_err(|e| SetupError::from_errno("taking back a TUN's offloads", e))
    }

    /// Name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What frames start with.
    #[must_use]
    pub const fn layer(&self) -> Layer {
        self.layer
    }

    /// Whether super-packets and unfinished checksums pass in both directions.
    #[must_use]
    pub const fn offload(&self) -> bool {
        self.vnet
    }

    /// MTU in bytes, when it was opened or [last asked for](Tun::new_mtu).
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.size.mtu
    }

    /// What the device can do, for `Stack::add_device`. A TAP comes with a random Ethernet address for the stack, the
    /// same for all queues; the caller may put another in its place.
    #[must_use]
    pub fn caps(&self) -> DeviceCaps {
        let mtu = u16::try_from(self.size.mtu).unwrap_or(u16::MAX);
        let caps = if self.vnet { DeviceCaps::offloading(mtu) } else { DeviceCaps::plain(mtu) };
        // The kernel takes a packet over in the write.
        DeviceCaps { ethernet: self.ethernet, ..caps.keeping_nothing() }
    }

    /// Why [`TunOptions::work`] could not be arranged, or another MTU is not heard of; the device works all the same, as with [`KernelWork::Inline`] and
    /// with the MTU that it has.
    #[must_use]
    pub fn degraded(&self) -> Option<&str> {
        self.arranged.degraded.as_deref().or(self.size.unfollowed.as_deref())
    }

    /// What has passed.
    #[must_use]
    pub const fn counters(&self) -> &TunCounters {
        &self.counters
    }

    /// Lets `observer` see every packet from now on; `None` ends that.
    pub fn observe(&mut self, observer: Option<Observer>) {
        self.observer = observer;
    }

    /// Somebody sees its packets.
    #[must_use]
    pub const fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    fn attach(options: &TunOptions, more: TunFlags) -> Result<Self, SetupError> {
        let name = &options.name;
        check_name(name)?;
        let kind = match options.layer {
            Layer::Ip => libc::IFF_TUN,
            Layer::Ethernet => libc::IFF_TAP,
        };
        let vnet = if options.offload { libc::IFF_VNET_HDR } else { 0 };
        let flags = (kind | libc::IFF_NO_PI | vnet) as TunFlags | options.work.flags() | more;
        let (fd, name) = sys::attach(name, flags).map_err(|e| match e {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => SetupError::NoTunDriver,
            // Only opening the node answers so; the ioctl says EPERM.
            Errno::ACCESS => SetupError::TunDriverClosed,
            Errno::BUSY => SetupError::Busy { name: name.clone() },
            Errno::INVAL if std::path::Path::new("/sys/class/net").join(name).exists() => {
                SetupError::OtherKind { name: name.clone() }
            }
            e => SetupError::from_errno("creating a TUN device", e),
        })?;
        let mut tun = Self::over(fd, name, options.layer, options.offload, options.mtu);
        tun.negotiate(options.sndbuf).map_err(|e| SetupError::from_errno("setting up a TUN device", e))?;
        tun.choose_ethernet()?;
        Ok(tun)
    }

    fn over(fd: OwnedFd, name: String, layer: Layer, vnet: bool, mtu: u32) -> Self {
        let mut pool = Pool::new(READ_BYTES);
        let (buffer, observer, counters) = (pool.take(), None, TunCounters::default());
        Self {
            fd,
            name,
            layer,
            vnet,
            size: Size { mtu, watch: None, unfollowed: None },
            ethernet: None,
            pool,
            buffer,
            pace: io::Pace::default(),
            observer,
            counters,
            arranged: work::Arranged::default(),
        }
    }

    /// The offloads are a property of the device, not of the descriptor: a device that was used with them before would
    /// hand super-packets to a reader without header, hence they are always set.
    fn negotiate(&self, sndbuf: Option<u32>) -> Result<(), Errno> {
        let mut offloads = 0;
        if self.vnet {
            sys::set_vnet_hdr_len(&self.fd, vnet::VNET_HDR_LEN)?;
            sys::set_little_endian(&self.fd)?;
            offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        }
        sys::set_offload(&self.fd, offloads)?;
        if let Some(bytes) = sndbuf {
            sys::set_sndbuf(&self.fd, i32::try_from(bytes.max(1)).unwrap_or(i32::MAX))?;
        }
        Ok(())
    }

    fn choose_ethernet(&mut self) -> Result<(), SetupError> {
        if self.layer == Layer::Ethernet {
            let failed = |source| SetupError::Os { doing: "choosing an Ethernet address".into(), source };
            self.ethernet = Some(entropy::ethernet().map_err(failed)?);
        }
        Ok(())
    }

    /// A device that an administrator has made for this user can be joined, but not changed: it stays as it is.
    fn configure(&mut self, options: &TunOptions) -> Result<(), SetupError> {
        let link = self.link()?;
        match link.set_mtu(options.mtu).and_then(|()| link.set_txqueuelen(options.txqueuelen)) {
            Err(SetupError::NotPermitted { .. }) => self.size.mtu = link.mtu()?,
            other => other?,
        }
        self.follow_if_possible();
        Ok(())
    }

    /// A sandbox may forbid to listen where it allows to ask: a device whose MTU is not followed is better than none.
    fn follow_if_possible(&mut self) {
        self.size.unfollowed = self.follow().err().map(|e| e.to_string());
    }
}

fn check_name(name: &str) -> Result<(), SetupError> {
    let bad = |b: u8| b == b'/' || b == b':' || b == 0 || b.is_ascii_whitespace();
    if name.len() >= libc::IFNAMSIZ || name.bytes().any(bad) || name == "." || name == ".." {
        return Err(SetupError::BadName { name: name.into() });
    }
    Ok(())
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for Tun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tun").field("name", &self.name).field("fd", &self.fd).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
