//! What epoll and poll tell after each step of some lives of a connection: tests/matrix/events.txt, which events.py beside it prints.
use crate::support::*;
use bytes::Bytes;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, EpollEvent, Fd, Host, Name, Optval};

/// Linux 6.18's answers: story, number and name of the step, edge-triggered set, level-triggered set, poll.
const KERNEL: &str = include_str!("../matrix/events.txt");
const ALL: u32 = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP;

/// A connection whose end at a is watched.
struct Story {
    net: Net,
    a: Fd,
    b: Fd,
    edge: Fd,
    level: Fd,
}

impl Story {
    fn new() -> Self {
        let mut net = Net::new();
        let (a, b) = net.connected();
        let mut set = || ok(&mut net.a, Call::EpollCreate { size: 1, flags: 0 });
        let (edge, level) = (set(), set());
        let mut story = Self { net, a, b, edge, level };
        story.control(EPOLL_CTL_ADD);
        story
    }

    fn control(&mut self, op: i32) {
        for (epfd, how) in [(self.edge, EPOLLET), (self.level, 0)] {
            let event = Some(EpollEvent { events: ALL | how, data: 1 });
            ok(&mut self.net.a, Call::EpollCtl { epfd, op, fd: self.a, event });
        }
    }

    fn here(&mut self, call: Call) -> i64 {
        done(&mut self.net.a, call).ret
    }

    fn there(&mut self, call: Call) -> i64 {
        done(&mut self.net.b, call).ret
    }

    fn run(&mut self, ms: u64) {
        self.net.run(Duration::from_millis(ms));
    }

    fn everything(&mut self) {
        while self.there(recv(self.b, 1 << 20, MSG_DONTWAIT)) > 0 {}
    }

    fn step(&mut self, name: &str) {
        let (a, b) = (self.a, self.b);
        match name {
            "begin" => {}
            "send" => _ = self.there(send(b, b"abc", MSG_DONTWAIT)),
            "oob" => _ = self.there(send(b, b"abX", MSG_OOB)),
            "recvoob" => _ = self.here(recv(a, 1, MSG_OOB | MSG_DONTWAIT)),
            "read1" => _ = self.here(recv(a, 1, MSG_DONTWAIT)),
            "readall" => _ = self.here(recv(a, 1 << 20, MSG_DONTWAIT)),
            "fill" => {
                self.here(setint(a, SOL_SOCKET, SO_SNDBUF, 20_000));
                let mut full = 0;
                while full < 20 {
                    let sent = self.here(send(a, &[0; 100_000], MSG_DONTWAIT)) > 0;
                    full = if sent { 0 } else { full + 1 };
                    self.run(20);
                }
            }
            "drain" => {
                for _ in 0..40 {
                    self.everything();
                    self.run(10);
                }
            }
            "peer_shut" => _ = self.there(Call::Shutdown { fd: b, how: SHUT_WR }),
            "shut" => _ = self.here(Call::Shutdown { fd: a, how: SHUT_WR }),
            "shut_rd" => _ = self.here(Call::Shutdown { fd: a, how: SHUT_RD }),
            "shut_both" => _ = self.here(Call::Shutdown { fd: a, how: SHUT_RDWR }),
            "shut_peer_reads" => self.everything(),
            "reset" => {
                let value = Optval::Bytes(Bytes::from([1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat()));
                self.there(Call::Setsockopt { fd: b, level: SOL_SOCKET, name: SO_LINGER, value });
                self.there(Call::Close { fd: b });
            }
            "close" => _ = self.there(Call::Close { fd: b }),
            "error" => _ = self.here(get(a, SOL_SOCKET, SO_ERROR, 4)),
            "dissolve" => _ = self.here(Call::Connect { fd: a, addr: Name::UNSPEC }),
            "lowat" => _ = self.here(setint(a, SOL_SOCKET, SO_RCVLOWAT, 5)),
            "lowat1" => _ = self.here(setint(a, SOL_SOCKET, SO_RCVLOWAT, 1)),
            "mod" => self.control(EPOLL_CTL_MOD),
            _ => panic!("no step {name}"),
        }
    }

    fn told(&mut self) -> String {
        let wait = |host: &mut Host, epfd| {
            let events = done(host, Call::EpollWait { epfd, max_events: 9, timeout_ms: 0 }).events;
            events.first().map_or_else(|| "0".to_owned(), |e| format!("{:#x}", e.events))
        };
        let (edge, level) = (wait(&mut self.net.a, self.edge), wait(&mut self.net.a, self.level));
        let poll = done(&mut self.net.a, pollfd(self.a, 0x3fff, 0)).revents[0];
        let poll = if poll == 0 { "0".to_owned() } else { format!("{poll:#x}") };
        format!("{edge} {level} {poll}")
    }
}

#[test]
fn edges_and_levels_are_the_kernels() {
    let mut wrong = Vec::new();
    let mut story = Story::new();
    for line in KERNEL.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [name, number, step, kernel] = words.as_slice() else { panic!("'{line}' has four parts") };
        if *number == "0" {
            story = Story::new();
        }
        story.step(step);
        story.run(60);
        let ours = story.told();
        if ours != *kernel {
            wrong.push(format!("{name} {number} {step}: {ours}, the kernel says {kernel}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
