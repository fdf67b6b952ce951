//! Sockets of SCTP between the two hosts.
use super::*;
use lowwater_posix::Control;
use lowwater_posix::abi::*;

pub(crate) const PORT: u16 = 5_000;
pub(crate) const SOON: Duration = Duration::from_millis(100);

pub(crate) fn socket(host: &mut Host, ty: i32) -> Fd {
    ok(host, Call::Socket { domain: AF_INET, ty, protocol: IPPROTO_SCTP })
}

pub(crate) fn option(host: &mut Host, fd: Fd, name: i32, value: Vec<u8>) {
    ok(host, Call::Setsockopt { fd, level: SOL_SCTP, name, value: Optval::Bytes(value.into()) });
}

pub(crate) fn event(host: &mut Host, fd: Fd, ty: i32) {
    let value = [&[0; 4][..], &(ty as u16).to_le_bytes(), &[1, 0]].concat();
    option(host, fd, SCTP_EVENT, value);
}

/// A one-to-many socket that listens at b, and at a as many one-to-one sockets connected to it.
pub(crate) fn star(net: &mut Net, points: usize) -> (Fd, Vec<Fd>) {
    let hub = socket(&mut net.b, SOCK_SEQPACKET);
    ok(&mut net.b, bind(hub, B, PORT));
    ok(&mut net.b, Call::Listen { fd: hub, backlog: 5 });
    let all = (0..points).map(|_| joined(net)).collect();
    (hub, all)
}

/// One more association with the hub.
pub(crate) fn joined(net: &mut Net) -> Fd {
    let fd = socket(&mut net.a, SOCK_STREAM);
    let id = blocks(&mut net.a, connect(fd, B, PORT));
    net.run(SOON);
    assert_eq!(finished(&mut net.a, id).ret, 0);
    fd
}

/// The identifiers of a one-to-many socket's associations.
pub(crate) fn ids(host: &mut Host, fd: Fd) -> Vec<u32> {
    let (name, value) = (SCTP_GET_ASSOC_ID_LIST, vec![0; 4_000].into());
    let list = done(host, Call::GetsockoptIn { fd, level: SOL_SCTP, name, value }).value;
    list.as_chunks().0.iter().skip(1).map(|b| u32::from_le_bytes(*b)).collect()
}

/// A message to one of many.
pub(crate) fn to_one(fd: Fd, assoc: u32, len: usize, flags: i32) -> Call {
    let mut info = vec![0; 16];
    info[12..].copy_from_slice(&assoc.to_le_bytes());
    let control = vec![Control { level: IPPROTO_SCTP, ty: SCTP_SNDINFO, data: info.into() }];
    Call::Send { fd, kind: SendKind::Sendmsg, data: vec![Piece::zeros(len)], flags, to: None, control }
}

pub(crate) fn over(net: &mut Net, id: CallId, time: Duration) -> Option<Reply> {
    net.run(time);
    net.a.take(id).or_else(|| net.b.take(id)).map(|(_, reply)| reply)
}

/// Closes all and lets all end: nothing is left.
pub(crate) fn end(net: &mut Net) {
    for host in [&mut net.a, &mut net.b] {
        let fds: Vec<Fd> = host.open_fds().collect();
        for fd in fds {
            host.call(Call::Close { fd });
        }
    }
    net.run(Duration::from_secs(1_000));
    assert_eq!((net.a.stack().open_sockets(), net.b.stack().open_sockets()), (0, 0));
}

/// Two one-to-one sockets with an association, at a and at b.
pub(crate) fn pair(net: &mut Net) -> (Fd, Fd) {
    let listener = socket(&mut net.b, SOCK_STREAM);
    ok(&mut net.b, bind(listener, B, PORT));
    ok(&mut net.b, Call::Listen { fd: listener, backlog: 5 });
    let a = joined(net);
    let b = done(&mut net.b, Call::Accept { fd: listener, flags: 0 }).ret as Fd;
    ok(&mut net.b, Call::Close { fd: listener });
    (a, b)
}

/// Closes with an ABORT.
pub(crate) fn abort(host: &mut Host, fd: Fd) {
    let value = Optval::Bytes(Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0]));
    ok(host, Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_LINGER, value });
    ok(host, Call::Close { fd });
}

/// A message that lives so many milliseconds.
pub(crate) fn mortal(fd: Fd, len: usize, timetolive: u64) -> Call {
    let of = lowwater_posix::sctp::layout::layout("sctp_sndrcvinfo").expect("a structure");
    let data = of.build(&[("sinfo_timetolive", timetolive)]).into();
    let control = vec![Control { level: IPPROTO_SCTP, ty: SCTP_SNDRCV, data }];
    Call::Send { fd, kind: SendKind::Sendmsg, data: vec![Piece::zeros(len)], flags: 0, to: None, control }
}
