//! What a program may: the privileges (capabilities(7)) that Linux asks for before it carries a call out. The host itself asks nobody.
use crate::abi::{
    IP_FREEBIND, IP_TRANSPARENT, IPV6_TRANSPARENT, SO_BINDTODEVICE, SO_BINDTOIFINDEX, SO_BUSY_POLL_BUDGET,
    SO_DEBUG, SO_MARK, SO_PREFER_BUSY_POLL, SO_PRIORITY, SO_RCVBUFFORCE, SO_SNDBUFFORCE, SO_TXTIME, SOL_IP,
    SOL_IPV6, SOL_SOCKET, SOL_TCP, TCP_CONGESTION,
};
use crate::call::{Call, Fd, Name, Optval, Reply};
use crate::errno::Errno;
use crate::files::{Sock, take_addr};
use crate::host::{Host, Started};
use lowwater_core::base::sysctl::CongestionKind;

/// The first port that is anybody's (`net.ipv4.ip_unprivileged_port_start`).
const PORT_START: u16 = 1_024;
/// The last SO_PRIORITY that is anybody's (`sk_set_prio_allowed`).
const PRIORITY_MAX: i32 = 6;
/// The clock of SO_TXTIME that is anybody's.
const CLOCK_MONOTONIC: i32 = 1;

/// Privileges of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// CAP_NET_BIND_SERVICE.
    pub bind_service: bool,
    /// CAP_NET_ADMIN.
    pub admin: bool,
    /// CAP_NET_RAW.
    pub raw: bool,
}

impl Privileges {
    /// All that a call can ask for.
    pub const ALL: Self = Self { bind_service: true, admin: true, raw: true };
}

impl Host {
    /// [`Host::call`] of a program that may do no more than this. Not asked for are those of bindx and of control messages.
    pub fn call_as(&mut self, who: Privileges, call: Call) -> Started {
        match self.denied(who, &call) {
            Some(errno) => Started::Done(Reply::fail(errno)),
            None => self.call(call),
        }
    }

    /// Why a program may not make this call; `None` where it may, or where the call fails for another reason before anybody asks.
    fn denied(&self, who: Privileges, call: &Call) -> Option<Errno> {
        match call {
            _ if who == Privileges::ALL => None,
            Call::Bind { fd, addr } if !who.bind_service => self.denied_port(*fd, *addr),
            Call::Setsockopt { fd, level, name, value: Optval::Bytes(value) } => {
                let sock = self.files.sock(*fd).ok()?;
                match *level {
                    SOL_SOCKET => self.denied_option(who, sock, *name, value),
                    SOL_IP if *name == IP_TRANSPARENT => denied_transparency(who, value),
                    SOL_IPV6 if sock.v6 && *name == IPV6_TRANSPARENT => denied_transparency(who, value),
                    SOL_TCP if sock.is_tcp() && *name == TCP_CONGESTION => self.denied_controller(who, value),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A port of the system's, after a look at the address (`__inet_bind`).
    fn denied_port(&self, fd: Fd, name: Name) -> Option<Errno> {
        let sock = self.files.sock(fd).ok()?;
        let addr = take_addr(sock.v6, name).ok()?;
        let any = sock.plain(SOL_IP, IP_FREEBIND) != 0 || addr.ip().is_unspecified();
        let asks = (1..PORT_START).contains(&addr.port()) && (any || self.is_ours(addr.ip()));
        asks.then_some(Errno::EACCES)
    }

    /// `sk_setsockopt`.
    fn denied_option(&self, who: Privileges, sock: &Sock, name: i32, value: &[u8]) -> Option<Errno> {
        let either = who.admin || who.raw;
        let bound = sock.plain(SOL_SOCKET, SO_BINDTODEVICE) != 0;
        if name == SO_BINDTODEVICE {
            let device = value.split(|b| *b == 0).next().unwrap_or_default();
            let exists = device.is_empty() || device == self.device.name.as_bytes();
            return (bound && exists && !who.raw).then_some(Errno::EPERM);
        }
        let n = int(value)?;
        let denied = match name {
            SO_DEBUG if n != 0 && !who.admin => return Some(Errno::EACCES),
            SO_RCVBUFFORCE | SO_SNDBUFFORCE => !who.admin,
            SO_PRIORITY => !(0..=PRIORITY_MAX).contains(&n) && !either,
            SO_MARK => !either,
            SO_PREFER_BUSY_POLL => n != 0 && !who.admin,
            SO_BUSY_POLL_BUDGET => n > 0 && !who.admin,
            SO_BINDTOIFINDEX => bound && !who.raw,
            SO_TXTIME => {
                let flags = value.get(4..).and_then(int);
                let valid = value.len() == 8 && flags.is_some_and(|flags| flags & !3 == 0);
                valid && n != CLOCK_MONOTONIC && !who.admin
            }
            _ => false,
        };
        denied.then_some(Errno::EPERM)
    }

    /// A controller that is neither everybody's nor the default (`tcp_set_congestion_control`, TCP_CONG_NON_RESTRICTED).
    fn denied_controller(&self, who: Privileges, value: &[u8]) -> Option<Errno> {
        let name = value.split(|b| *b == 0).next().unwrap_or_default();
        let kind = CongestionKind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)?;
        let free = matches!(kind, CongestionKind::Reno | CongestionKind::Cubic)
            || kind == self.stack.sysctl().tcp_congestion_control;
        (!free && !who.admin).then_some(Errno::EPERM)
    }
}

/// To speak for addresses of others.
fn denied_transparency(who: Privileges, value: &[u8]) -> Option<Errno> {
    let on = match int(value) {
        Some(n) => n != 0,
        None => value.first().is_some_and(|byte| *byte != 0),
    };
    (on && !who.admin && !who.raw).then_some(Errno::EPERM)
}

/// The int that a value begins with.
fn int(value: &[u8]) -> Option<i32> {
    value.first_chunk().copied().map(i32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{AF_INET, SO_BUSY_POLL, SOCK_STREAM};
    use crate::host::Settings;
    use bytes::Bytes;

    const NONE: Privileges = Privileges { bind_service: false, admin: false, raw: false };
    const DEVICE: &str = "tun0";

    fn host() -> (Host, Fd) {
        let mut host = Host::new(Settings { device_name: DEVICE.to_owned(), ..Settings::default() }).unwrap();
        let Started::Done(made) = host.call(Call::Socket { domain: AF_INET, ty: SOCK_STREAM, protocol: 0 })
        else {
            panic!("socket() does not block");
        };
        (host, made.ret as Fd)
    }

    fn done(host: &mut Host, who: Privileges, call: Call) -> Result<(), Errno> {
        match host.call_as(who, call) {
            Started::Done(reply) => reply.errno.map_or(Ok(()), Err),
            Started::Blocked(_) => panic!("it blocks"),
        }
    }

    fn set(
        host: &mut Host,
        who: Privileges,
        fd: Fd,
        (level, name): (i32, i32),
        value: &[u8],
    ) -> Result<(), Errno> {
        let value = Optval::Bytes(Bytes::copy_from_slice(value));
        done(host, who, Call::Setsockopt { fd, level, name, value })
    }

    /// As the kernel (6.18) answers a program of root's that has given up what it may.
    #[test]
    fn options_ask_for_what_the_kernel_asks_for() {
        let admin = Privileges { admin: true, ..NONE };
        let raw = Privileges { raw: true, ..NONE };
        for (name, n, denied, by_raw, by_admin) in [
            (SO_DEBUG, 1, Err(Errno::EACCES), Err(Errno::EACCES), Ok(())),
            (SO_DEBUG, 0, Ok(()), Ok(()), Ok(())),
            (SO_RCVBUFFORCE, 10_000, Err(Errno::EPERM), Err(Errno::EPERM), Ok(())),
            (SO_SNDBUFFORCE, 10_000, Err(Errno::EPERM), Err(Errno::EPERM), Ok(())),
            (SO_PRIORITY, 6, Ok(()), Ok(()), Ok(())),
            (SO_PRIORITY, 7, Err(Errno::EPERM), Ok(()), Ok(())),
            (SO_PRIORITY, -1, Err(Errno::EPERM), Ok(()), Ok(())),
            (SO_MARK, 0, Err(Errno::EPERM), Ok(()), Ok(())),
            (SO_BUSY_POLL, 10, Ok(()), Ok(()), Ok(())),
            (SO_PREFER_BUSY_POLL, 1, Err(Errno::EPERM), Err(Errno::EPERM), Ok(())),
            (SO_PREFER_BUSY_POLL, 0, Ok(()), Ok(()), Ok(())),
            (SO_BUSY_POLL_BUDGET, 5, Err(Errno::EPERM), Err(Errno::EPERM), Ok(())),
            (SO_BUSY_POLL_BUDGET, 0, Ok(()), Ok(()), Ok(())),
            (SO_BUSY_POLL_BUDGET, -1, Err(Errno::EINVAL), Err(Errno::EINVAL), Err(Errno::EINVAL)),
        ] {
            for (who, expected) in
                [(NONE, denied), (raw, by_raw), (admin, by_admin), (Privileges::ALL, by_admin)]
            {
                let (mut host, fd) = host();
                let told = set(&mut host, who, fd, (SOL_SOCKET, name), &i32::to_ne_bytes(n));
                assert_eq!(told, expected, "option {name} = {n}, {who:?}");
            }
        }
        let (mut host, fd) = host();
        for (value, expected) in
            [(&[1, 0, 0, 0][..], Err(Errno::EPERM)), (&[1], Err(Errno::EPERM)), (&[0; 4], Ok(()))]
        {
            assert_eq!(set(&mut host, NONE, fd, (SOL_IP, IP_TRANSPARENT), value), expected, "{value:?}");
        }
        assert_eq!(set(&mut host, raw, fd, (SOL_IP, IP_TRANSPARENT), &[1, 0, 0, 0]), Ok(()));
        for (name, expected) in [("bbr", Err(Errno::EPERM)), ("reno", Ok(())), ("xx", Err(Errno::ENOENT))] {
            assert_eq!(
                set(&mut host, raw, fd, (SOL_TCP, TCP_CONGESTION), name.as_bytes()),
                expected,
                "{name}"
            );
        }
        for (clock, flags, expected) in
            [(1, 0, Ok(())), (11, 0, Err(Errno::EPERM)), (99, 77, Err(Errno::EINVAL))]
        {
            let value = [i32::to_ne_bytes(clock), i32::to_ne_bytes(flags)].concat();
            assert_eq!(set(&mut host, raw, fd, (SOL_SOCKET, SO_TXTIME), &value), expected, "{clock}");
        }
    }

    #[test]
    fn a_device_is_left_and_a_low_port_taken_by_those_who_may() {
        let (mut host, fd) = host();
        let to = (SOL_SOCKET, SO_BINDTODEVICE);
        assert_eq!(set(&mut host, NONE, fd, to, DEVICE.as_bytes()), Ok(()), "anybody once");
        assert_eq!(set(&mut host, NONE, fd, to, DEVICE.as_bytes()), Err(Errno::EPERM));
        assert_eq!(set(&mut host, NONE, fd, to, b"\0"), Err(Errno::EPERM));
        assert_eq!(set(&mut host, NONE, fd, to, b"other"), Err(Errno::ENODEV));
        assert_eq!(set(&mut host, NONE, fd, (SOL_SOCKET, SO_BINDTOIFINDEX), &[0; 4]), Err(Errno::EPERM));
        assert_eq!(set(&mut host, Privileges { raw: true, ..NONE }, fd, to, b"\0"), Ok(()));
        let at = |text: &str| Call::Bind { fd, addr: Name::Inet(text.parse().unwrap()) };
        assert_eq!(done(&mut host, NONE, at("9.9.9.9:80")), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(done(&mut host, NONE, at("0.0.0.0:1023")), Err(Errno::EACCES));
        assert_eq!(done(&mut host, NONE, at("0.0.0.0:1024")), Ok(()));
        assert_eq!(
            done(&mut host, NONE, at("127.0.0.1:80")),
            Err(Errno::EACCES),
            "and then that it has a port"
        );
        assert_eq!(done(&mut host, Privileges::ALL, at("127.0.0.1:80")), Err(Errno::EINVAL));
    }
}
