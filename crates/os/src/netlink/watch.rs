//! What rtnetlink tells unasked of one interface: another MTU, and its end. Nothing else comes through to the socket, so that nobody is woken for it.
use super::msg::{self, HEADER, Message};
use super::{IFINFO_LEN, IFLA_MTU, number};
use crate::sys::socket;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, recv, sendto};
use std::io;

/// Where a message about an interface has its type, the family that speaks and the interface (`struct nlmsghdr`, `struct ifinfomsg`).
const TYPE_AT: u32 = 4;
const FAMILY_AT: u32 = 16;
const LINK_AT: u32 = 20;
/// Messages that are read in a row: more than the socket has room for by itself (`net.core.rmem_default`).
const MESSAGES_MAX: usize = 4_096;
/// Questions of one look. The answer to the last one tells by the descriptor that there is another look to be had.
const QUESTIONS_MAX: usize = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    socket: OwnedFd,
    index: u32,
    /// The MTU that was last told, of which nothing more comes.
    mtu: u32,
}

/// What has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The MTU of now, where it has changed.
    pub(crate) mtu: Option<u32>,
    /// The interface was deleted, or has left the namespace.
    pub(crate) gone: bool,
    /// There was no room for something: it may be gone.
    pub(crate) missed: bool,
}

impl LinkWatch {
    /// Watches the interface of this number in the calling thread's network namespace, which had that MTU a moment ago.
    pub(crate) fn new(index: u32, mtu: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let socket = socket::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE)?;
        let watch = Self { socket, index, mtu };
        watch.filter()?;
        // `struct sockaddr_nl`: family, padding, port (the kernel chooses), groups.
        let mut address = [0; 12];
        address[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
        address[8..].copy_from_slice(&(libc::RTMGRP_LINK as u32).to_ne_bytes());
        socket::bind(Some(watch.socket.as_fd()), socket::Address::Bytes(&address))?;
        watch.ask()?;
        Ok(watch)
    }

    /// Readable when there is something to hear.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What has come since the last look: one system call where nothing has.
    pub(crate) fn hear(&mut self) -> Heard {
        let (mut heard, mut bytes) = (Heard::default(), [0; 8_192]);
        for _ in 0..QUESTIONS_MAX {
            // All of it first, whatever there is: nobody tells again of what is left, nor is there room for an answer before it is read.
            if !self.take(&mut bytes, &mut heard) {
                break;
            }
            // What came meanwhile and was the MTU before would not have come through, so it is asked for. Also by whom a sandbox forbids filters.
            let _ = self.filter();
            let _ = self.ask();
        }
        heard
    }

    /// Reads all that is there. True where it is not known to be the last word.
    fn take(&mut self, bytes: &mut [u8], heard: &mut Heard) -> bool {
        let mut doubtful = false;
        for _ in 0..MESSAGES_MAX {
            match retry_on_intr(|| recv(&self.socket, &mut *bytes, RecvFlags::empty())) {
                Ok((len, _)) => doubtful |= self.note(&bytes[..len], heard),
                Err(Errno::NOBUFS) => (heard.missed, doubtful) = (true, true),
                Err(_) => break,
            }
        }
        doubtful
    }

    /// True when it says another MTU than the last one.
    fn note(&mut self, message: &[u8], heard: &mut Heard) -> bool {
        let Some(&[_, _, _, _, a, b, ..]) = message.first_chunk::<HEADER>() else { return false };
        if u16::from_ne_bytes([a, b]) == libc::RTM_DELLINK {
            heard.gone = true;
            return false;
        }
        let attributes = message.get(HEADER + IFINFO_LEN..).unwrap_or_default();
        let Some(mtu) = msg::find_attr(attributes, IFLA_MTU).and_then(number) else { return false };
        if mtu == self.mtu {
            return false;
        }
        self.mtu = mtu;
        heard.mtu = Some(mtu);
        true
    }

    /// Asks the kernel: it answers to this socket, and the answer comes through where it is another MTU. It does so under the lock of all of rtnetlink
    /// (`rtnl_lock`), for which this may sleep where much is set up or torn down: hence only after a change. The call that needs no lock
    /// (SIOCGIFMTU) goes by a name, which may be another interface's by then.
    fn ask(&self) -> io::Result<()> {
        let mut request = Message::unacknowledged(libc::RTM_GETLINK, 0, 0);
        request.u8(0).u8(0).u16(0).u32(self.index).u32(0).u32(0);
        sendto(&self.socket, &request.finish(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }

    fn filter(&self) -> io::Result<()> {
        socket::attach_filter(Some(self.fd()), &news(self.index, self.mtu))
    }
}

/// RTM_DELLINK of this interface passes, and RTM_NEWLINK with another MTU, where no family speaks of it: that of bridges says the first of an interface
/// that leaves one (`br_ifinfo_notify`). Filters load numbers as the network has them, rtnetlink has the host's.
const fn news(index: u32, mtu: u32) -> [libc::sock_filter; 16] {
    const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    const fn load(size: u32, from: u32) -> libc::sock_filter {
        step(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, from)
    }
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    /// Where the attribute is whose type X has, from where A says; 0 where it is not (`bpf_skb_get_nlattr`).
    const ATTRIBUTE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_NLATTR) as u32;
    [
        load(libc::BPF_B, FAMILY_AT),
        step(EQUAL, 0, 13, libc::AF_UNSPEC as u32),
        load(libc::BPF_W, LINK_AT),
        step(EQUAL, 0, 11, index.to_be()),
        load(libc::BPF_H, TYPE_AT),
        step(EQUAL, 8, 0, libc::RTM_DELLINK.to_be() as u32),
        step(EQUAL, 0, 8, libc::RTM_NEWLINK.to_be() as u32),
        step(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, 0, 0, IFLA_MTU as u32),
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_IMM, 0, 0, (HEADER + IFINFO_LEN) as u32),
        load(libc::BPF_W, ATTRIBUTE),
        step(EQUAL, 4, 0, 0),
        step(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0),
        // Behind length and type of the attribute.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_IND, 0, 0, 4),
        step(EQUAL, 1, 0, mtu.to_be()),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Link;
    use crate::netns::{NetNs, net_admin};

    fn on_lo(f: impl FnOnce(&Link) + Send) {
        if net_admin() {
            NetNs::new().unwrap().run(|| f(&Link::by_name("lo").unwrap()));
        }
    }

    fn mtu(mtu: u32) -> Heard {
        Heard { mtu: Some(mtu), ..Heard::default() }
    }

    #[test]
    fn an_mtu_that_changes_is_heard_of_and_nothing_else() {
        on_lo(|lo| {
            let was = lo.mtu().unwrap();
            let mut watch = LinkWatch::new(lo.index(), was).unwrap();
            lo.up().unwrap();
            lo.set_txqueuelen(77).unwrap();
            lo.down().unwrap();
            lo.set_mtu(was).unwrap();
            let nothing = recv(&watch.socket, &mut [0; 16], RecvFlags::empty());
            assert_eq!(nothing.map(|_| ()), Err(Errno::AGAIN), "that would wake somebody");
            for new in [1_400, 1_300, was, 1_500] {
                lo.set_mtu(new).unwrap();
                assert_eq!((watch.hear(), watch.hear()), (mtu(new), Heard::default()));
            }
            // There and back between two looks, and there only.
            lo.set_mtu(1_200).unwrap();
            lo.set_mtu(1_500).unwrap();
            assert_eq!((watch.hear().mtu, watch.mtu), (Some(1_500), 1_500));
            lo.set_mtu(1_200).unwrap();
            lo.set_mtu(1_100).unwrap();
            assert_eq!((watch.hear(), watch.hear()), (mtu(1_100), Heard::default()));
        });
    }

    #[test]
    fn what_changed_before_there_was_a_watch_is_heard_of() {
        on_lo(|lo| {
            let was = lo.mtu().unwrap();
            lo.set_mtu(1_400).unwrap();
            let mut watch = LinkWatch::new(lo.index(), was).unwrap();
            assert_eq!((watch.hear(), watch.hear()), (mtu(1_400), Heard::default()));
        });
    }

    /// A process that was stopped meanwhile, and a script beside it: whatever the socket had room for, one look ends with the MTU of now.
    #[test]
    fn many_changes_between_two_looks_end_with_the_last() {
        on_lo(|lo| {
            let mut watch = LinkWatch::new(lo.index(), lo.mtu().unwrap()).unwrap();
            for count in [40, 100, 400] {
                for new in 0..count {
                    lo.set_mtu(2_000 + count + new).unwrap();
                }
                let (heard, last) = (watch.hear(), 2_000 + 2 * count - 1);
                assert_eq!((heard.mtu, watch.mtu), (Some(last), last));
                let nothing = recv(&watch.socket, &mut [0; 16], RecvFlags::empty());
                assert_eq!(nothing.map(|_| ()), Err(Errno::AGAIN), "of which nobody would be told");
            }
        });
    }

    #[test]
    fn whoever_had_no_room_for_the_news_asks() {
        on_lo(|lo| {
            let mut watch = LinkWatch::new(lo.index(), lo.mtu().unwrap()).unwrap();
            let all = 1_u32.to_ne_bytes();
            socket::setsockopt(Some(watch.fd()), libc::SOL_SOCKET, libc::SO_RCVBUF, Some(&all), 4).unwrap();
            for new in 1_000..1_200 {
                lo.set_mtu(new).unwrap();
            }
            let heard = watch.hear();
            assert_eq!((heard, watch.mtu), (Heard { missed: true, ..mtu(1_199) }, 1_199));
        });
    }
}
