//! How many sockets there are and what they hold: what Linux shows in /proc/net/sockstat.
use super::Stack;
use crate::socket::{Holder, Socket};
use crate::tcp::State;
use core::fmt;

/// Linux counts memory of sockets in pages.
const PAGE: u64 = 4_096;

/// Counts under Linux's names; it walks over all sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockstat {
    /// Sockets that an application holds.
    pub used: u64,
    /// TCP sockets that peers can reach: listeners and connections, requests and TIME-WAIT aside.
    pub tcp_inuse: u64,
    /// Connections whose application has let go of them.
    pub tcp_orphan: u64,
    /// Connections in TIME-WAIT.
    pub tcp_tw: u64,
    /// TCP sockets, reachable or not.
    pub tcp_alloc: u64,
    /// Pages that all connections hold (`tcp_mem`).
    pub tcp_mem: u64,
    /// UDP sockets.
    pub udp_inuse: u64,
    /// Pages that their queues hold.
    pub udp_mem: u64,
    /// Datagrams of which fragments are missing.
    pub frag_inuse: u64,
    /// Bytes that those hold.
    pub frag_memory: u64,
}

impl Sockstat {
    /// All counts as Linux groups and names them.
    pub fn each(&self, f: &mut dyn FnMut(&'static str, &'static str, u64)) {
        f("sockets", "used", self.used);
        f("TCP", "inuse", self.tcp_inuse);
        f("TCP", "orphan", self.tcp_orphan);
        f("TCP", "tw", self.tcp_tw);
        f("TCP", "alloc", self.tcp_alloc);
        f("TCP", "mem", self.tcp_mem);
        f("UDP", "inuse", self.udp_inuse);
        f("UDP", "mem", self.udp_mem);
        f("FRAG", "inuse", self.frag_inuse);
        f("FRAG", "memory", self.frag_memory);
    }
}

impl fmt::Display for Sockstat {
    /// A line for each group, as in /proc/net/sockstat.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut text, mut last) = (String::new(), "");
        self.each(&mut |group, name, n| {
            if core::mem::replace(&mut last, group) != group {
                text.push_str(if text.is_empty() { "" } else { "\n" });
                text.push_str(group);
                text.push(':');
            }
            text.push_str(&format!(" {name} {n}"));
        });
        f.write_str(&text)
    }
}

impl Stack {
    /// How many sockets there are and what they hold.
    #[must_use]
    pub fn sockstat(&self) -> Sockstat {
        let (frag_inuse, frag_memory) = self.ip.fragments();
        let mut stat = Sockstat {
            tcp_orphan: u64::from(self.env.memory.orphans()),
            tcp_tw: self.small.time_waits.len() as u64,
            tcp_mem: self.env.memory.used().div_ceil(PAGE),
            frag_inuse,
            frag_memory,
            ..Sockstat::default()
        };
        let mut datagrams = 0;
        for (_, entry) in self.sockets.iter() {
            stat.used += u64::from(entry.holder == Holder::Owner);
            match &entry.socket {
                Socket::Tcp(conn) => {
                    stat.tcp_alloc += 1;
                    stat.tcp_inuse += u64::from(conn.state() != State::Close);
                }
                Socket::Listener(_) => {
                    stat.tcp_alloc += 1;
                    stat.tcp_inuse += 1;
                }
                Socket::Udp(udp) => {
                    let (received, sent) = udp.queues();
                    stat.udp_inuse += 1;
                    datagrams += received + sent;
                }
                Socket::Sctp(_) | Socket::SctpListener(_) => {}
            }
        }
        stat.udp_mem = datagrams.div_ceil(PAGE);
        stat
    }
}
