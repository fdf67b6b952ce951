//! A network interface of the kernel as a device of the stack, by packet sockets (packet(7)).
//!
//! Frames leave through a ring shared with the kernel, and a slot comes back when the interface is done with its frame: the
//! first link on which small queues see what really waits, in the kernel's queueing discipline and in the card. Both
//! directions carry super-packets and unfinished checksums behind a virtio-net header.
mod datagrams;
mod input;
mod recv;
mod ring;

use crate::error::SetupError;
use crate::netlink::{Link, MTU_MIN};
use crate::sys::{RingSize, TxRing, socket};
use crate::vnet::VNET_HDR_SHORT;
use core::fmt;
use lowwater_core::base::Instant;
use lowwater_core::device::DeviceCaps;
use lowwater_core::device::bql::Bql;
use lowwater_core::packet::Owner;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;

/// Bytes of a slot of the ring: the largest super-packet with its headers.
const SLOT_BYTES: usize = 65_536;
/// Bytes of IP that fit a slot: some interfaces have a larger MTU than that, and what fits no slot would never leave.
const MTU_MAX: u16 = {
    let size = RingSize { slots: SLOTS_MIN, slot_bytes: SLOT_BYTES };
    (size.frame_bytes() - VNET_HDR_SHORT - ring::ETHERNET_HEADER) as u16
};
/// Fewest and most slots.
pub const SLOTS_MIN: usize = 8;
/// See [`SLOTS_MIN`].
pub const SLOTS_MAX: usize = 4_096;
/// Bytes of received frames that may wait in the socket.
const RECV_BUFFER: i32 = 8 << 20;
/// ETH_P_ALL in network order, as `sockaddr_ll` wants it.
const EVERY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();
/// PACKET_IGNORE_OUTGOING (linux/if_packet.h, Linux 4.20), which libc does not name everywhere.
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// Frames of virtual LANs come to packet sockets without their tags, as if they were the interface's own: they must not reach
/// this stack. A tag that says only a priority passes (IEEE 802.1Q, VLAN 0).
const UNTAGGED: [libc::sock_filter; 5] = {
    const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    let tag = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG) as u32;
    [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, tag),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0x0fff),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
};

/// How to open an interface.
#[derive(Clone, Debug)]
pub struct PacketOptions {
    /// Name of the interface. It must be up and speak Ethernet; its addresses stay the kernel's, the stack needs one of its own.
    pub interface: String,
    /// Super-packets and unfinished checksums are sent; what the card cannot do the kernel does at its door. Both are always received: that is not
    /// for a reader to choose.
    pub offload: bool,
    /// Frames that may be on their way, from [`SLOTS_MIN`] to [`SLOTS_MAX`]: 64 KiB of locked memory each.
    pub slots: usize,
    /// Byte queue limits on the ring: off lets the ring fill whatever the interface needs.
    pub bql: bool,
    /// Flows get their credit back when a frame enters the ring, as from drivers that orphan packets: small queues see
    /// nothing wait. For comparisons.
    pub orphan: bool,
}

impl PacketOptions {
    /// The interface of this name with offloads, 64 slots and byte queue limits.
    #[must_use]
    pub fn new(interface: impl Into<String>) -> Self {
        Self { interface: interface.into(), offload: true, slots: 64, bql: true, orphan: false }
    }
}

/// What has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounters {
    /// Frames received.
    pub frames_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Frames dropped because their virtio-net header contradicts them, or the kernel could not describe them.
    pub malformed: u64,
    /// Frames put into the ring.
    pub frames_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Frames that met a full ring or the limit of its bytes.
    pub not_now: u64,
    /// Frames that no slot could hold, or that the kernel would have found malformed: it drops such without a word.
    pub dropped: u64,
    /// System calls that started the kernel's work on the ring.
    pub kicks: u64,
    /// Frames whose slots came back.
    pub completions: u64,
}

/// An interface, opened for one stack.
pub struct PacketDevice {
    /// For receiving: bound to every protocol.
    input: input::Input,
    /// For sending: bound to none, so that nothing comes in.
    output: OwnedFd,
    name: String,
    mtu: u16,
    ethernet: [u8; 6],
    offload: bool,
    ring: TxRing,
    sent: ring::Outstanding,
    /// Byte queue limits, where wanted.
    bql: Option<Bql>,
    /// When it was last told the time.
    now: Instant,
    reader: recv::Reader,
    counters: PacketCounters,
}

impl PacketDevice {
    /// Opens the interface in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`SetupError::NoSuchLink`]; [`SetupError::NotPermitted`] without CAP_NET_RAW; [`SetupError::OtherKind`] for an
    /// interface without Ethernet; [`SetupError::Os`] otherwise, EINVAL for a number of slots out of range, ENETDOWN for
    /// an interface that is down.
    pub fn open(options: &PacketOptions) -> Result<Self, SetupError> {
        let name = options.interface.clone();
        let doing = |what: &str| format!("{what} on {name}");
        if !(SLOTS_MIN..=SLOTS_MAX).contains(&options.slots) {
            let slots = options.slots;
            let doing = doing(&format!("a ring of {slots} slots ({SLOTS_MIN} to {SLOTS_MAX} are possible)"));
            return Err(SetupError::from_errno(doing, Errno::INVAL));
        }
        let link = Link::by_name(&name)?;
        let Some(ethernet) = link.ethernet()? else { return Err(SetupError::OtherKind { name }) };
        if !link.is_up()? {
            return Err(SetupError::from_errno(doing("opening a packet socket"), Errno::NETDOWN));
        }
        let mtu = link.mtu()?;
        let size = RingSize { slots: options.slots, slot_bytes: SLOT_BYTES };
        let failed = |what: &str| {
            let doing = doing(what);
            move |e: io::Error| refused(doing, &e)
        };
        let input = open_socket().map_err(failed("opening a packet socket"))?;
        set_up_input(&input, link.index()).map_err(failed("receiving"))?;
        let input = input::Input::new(input, (link.index(), mtu)).map_err(failed("watching it"))?;
        let output = open_socket().map_err(failed("opening a packet socket"))?;
        set_up_output(&output, link.index(), options.offload, size)
            .map_err(failed("making a transmit ring"))?;
        let ring =
            TxRing::map(output.as_fd(), size).map_err(|e| failed("mapping a transmit ring")(e.into()))?;
        Ok(Self {
            input,
            output,
            mtu: clamped(mtu),
            ethernet,
            offload: options.offload,
            sent: ring::Outstanding::new(ring.slots(), options.orphan),
            ring,
            bql: options.bql.then(Bql::new),
            now: Instant::ZERO,
            reader: recv::Reader::new(),
            counters: PacketCounters::default(),
            name,
        })
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it can do, for `Stack::add_device`. The stack uses the interface's own Ethernet address.
    #[must_use]
    pub const fn caps(&self) -> DeviceCaps {
        let caps = if self.offload { DeviceCaps::offloading(self.mtu) } else { DeviceCaps::plain(self.mtu) };
        DeviceCaps { ethernet: Some(self.ethernet), ..caps }
    }

    /// What has passed.
    #[must_use]
    pub const fn counters(&self) -> &PacketCounters {
        &self.counters
    }

    /// Bytes that the ring may hold now, where byte queue limits act.
    #[must_use]
    pub fn bql_limit(&self) -> Option<u64> {
        self.bql.as_ref().map(Bql::limit)
    }

    /// Frames in the ring, not yet given back.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.sent.len()
    }

    /// The descriptor that is readable when a frame waits.
    #[must_use]
    pub fn input_fd(&self) -> BorrowedFd<'_> {
        self.input.socket.as_fd()
    }

    /// The descriptor that tells, edge-triggered ([`crate::Interest::News`]), that the interface may be gone, which [`PacketDevice::recv_batch`]
    /// knows, or has another MTU, which [`PacketDevice::new_mtu`] knows. It is not to be read.
    #[must_use]
    pub fn watch_fd(&self) -> BorrowedFd<'_> {
        self.input.watch.fd()
    }

    /// The interface's MTU, where it has changed since this was last asked or the interface was opened: for `Stack::set_mtu`. Longer frames are
    /// refused from then on. One below the 68 bytes that every device of IPv4 takes (RFC 791) counts as 68. With `look` that costs a system call; to be asked so when [`PacketDevice::watch_fd`] has told of something.
    pub fn new_mtu(&mut self, look: bool) -> Option<u16> {
        let mtu = clamped(self.input.new_mtu(look)?.max(MTU_MIN));
        (core::mem::replace(&mut self.mtu, mtu) != mtu).then_some(mtu)
    }

    /// The descriptor that tells, edge-triggered ([`crate::Interest::Returns`]), that slots have come back.
    #[must_use]
    pub fn output_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// The interface is gone, and no slot comes back any more: appends the owners of all frames that are out.
    pub fn abandon(&mut self, into: &mut Vec<Owner>) {
        self.sent.abandon(into);
    }

    /// Appends the owners of frames that have left since the last call, and makes their slots free.
    pub fn completions(&mut self, into: &mut Vec<Owner>) {
        let taken = self.sent.take_returned(&self.ring, into);
        if taken.frames > 0 {
            self.counters.completions += taken.frames;
            if let Some(bql) = &mut self.bql {
                bql.on_completed(self.now, taken.bytes);
            }
        }
    }
}

impl fmt::Debug for PacketDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketDevice").field("name", &self.name).finish_non_exhaustive()
    }
}

/// As far as a slot goes.
fn clamped(mtu: u32) -> u16 {
    u16::try_from(mtu).map_or(MTU_MAX, |mtu| mtu.min(MTU_MAX))
}

fn refused(doing: String, error: &io::Error) -> SetupError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PERM | Errno::ACCESS) => SetupError::NotPermitted { doing, capability: "CAP_NET_RAW" },
        Some(errno) => SetupError::from_errno(doing, errno),
        None => SetupError::from_errno(doing, Errno::IO),
    }
}

fn open_socket() -> io::Result<OwnedFd> {
    // Protocol 0: nothing comes in before `bind` says what.
    socket::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)
}

fn set_up_input(fd: &OwnedFd, index: u32) -> io::Result<()> {
    // Whatever we send: what the card or a neighbour on this host has merged, or left the checksum of to others, is told nowhere else.
    option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    // What this stack and its host send through the interface is none of our input.
    option(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    socket::attach_filter(Some(fd.as_fd()), &UNTAGGED)?;
    // Beyond the host's limit only with CAP_NET_ADMIN; otherwise as much as it allows.
    option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECV_BUFFER)
        .or_else(|_| option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECV_BUFFER))?;
    every_group(fd, index)?;
    bind(fd, index, EVERY_PROTOCOL)
}

/// Frames to any group come in as long as the socket lives (`struct packet_mreq`). The card filters them, by the groups that the kernel is in:
/// questions about an address of IPv6 go to the group of that address (RFC 4861 section 7.2.2), and the kernel is in those of its own.
fn every_group(fd: &OwnedFd, index: u32) -> io::Result<()> {
    let mut member = [0; 16];
    member[..4].copy_from_slice(&index.to_ne_bytes());
    member[4..6].copy_from_slice(&(libc::PACKET_MR_ALLMULTI as u16).to_ne_bytes());
    socket::setsockopt(Some(fd.as_fd()), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, Some(&member), 16)
}

fn set_up_output(fd: &OwnedFd, index: u32, offload: bool, size: RingSize) -> io::Result<()> {
    option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
    option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, i32::from(offload))?;
    // A frame of the wrong form must not stop those behind it. The kernel gives its slot back as that of any other, so `submit`
    // refuses what it knows to be one.
    option(fd, libc::SOL_PACKET, libc::PACKET_LOSS, 1)?;
    // The kernel charges frames in flight to the socket and wakes it while at most half of this is used.
    let room = i32::try_from(4 * size.slots * size.slot_bytes).unwrap_or(i32::MAX);
    option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, room / 2)
        .or_else(|_| option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, room / 2))?;
    let request = size.request();
    socket::setsockopt(Some(fd.as_fd()), libc::SOL_PACKET, libc::PACKET_TX_RING, Some(&request), 16)?;
    bind(fd, index, 0)
}

fn option(fd: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    socket::setsockopt(Some(fd.as_fd()), level, name, Some(&value.to_ne_bytes()), 4)
}

/// Binds to an interface, by `struct sockaddr_ll`.
fn bind(fd: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    let mut address = [0; 20];
    address[..2].copy_from_slice(&(libc::AF_PACKET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&protocol.to_ne_bytes());
    address[4..8].copy_from_slice(&index.to_ne_bytes());
    socket::bind(Some(fd.as_fd()), socket::Address::Bytes(&address))
}

#[cfg(test)]
mod tests;
