//! Socket options, devices and packets in the journal's bytes.
use super::codec::{Decoder, Encoder};
use bytes::Bytes;
use lowwater_core::base::sysctl::CongestionKind;
use lowwater_core::base::{Carrier, FastOpenKeys, FlowId, Instant, RouteMetrics};
use lowwater_core::device::DeviceCaps;
use lowwater_core::packet::{Csum, GsoKind, Head, Offload, Owner, Packet};
use lowwater_core::tcp::SocketOptions;

/// Destructured so that a new option cannot be forgotten here.
pub(super) fn put_options(e: &mut Encoder, o: &SocketOptions) {
    let SocketOptions {
        nodelay,
        cork,
        keepalive,
        keepidle,
        keepintvl,
        keepcnt,
        thin_linear_timeouts,
        oobinline,
        linger,
        linger2,
        user_timeout_ms,
        notsent_lowat,
        sndbuf,
        rcvbuf,
        max_pacing_rate,
        paced,
        maxseg,
        syncnt,
        window_clamp,
        fastopen,
        fastopen_key,
        fastopen_connect,
        fastopen_no_cookie,
        defer_accept,
        save_syn,
        rto_min_us,
        rto_max_ms,
        delack_max_us,
        interactive,
        congestion,
        rmem,
        wmem,
        reordering,
        rcvlowat,
        rcvlowat_room,
        rcv_ratio,
        tos,
        tclass,
        mtu_discover,
        mtu_discover_v6,
        recverr,
        ttl,
        hops,
        min_ttl,
        priority,
        // The stack finds it by the routes.
        route: _,
    } = o;
    let flags = [nodelay, cork, keepalive, oobinline, fastopen_connect, fastopen_no_cookie];
    flags
        .into_iter()
        .chain([thin_linear_timeouts, save_syn, paced, interactive])
        .chain(recverr)
        .for_each(|on| e.flag(*on));
    let plain = [keepidle, keepintvl, keepcnt, user_timeout_ms, notsent_lowat, window_clamp, fastopen];
    plain.into_iter().for_each(|n| e.number(u64::from(*n)));
    [rto_min_us, rto_max_ms, delack_max_us].into_iter().for_each(|n| e.number(u64::from(*n)));
    e.duration(*linger);
    e.number(u64::from(linger2.cast_unsigned()));
    [sndbuf, rcvbuf].into_iter().for_each(|n| e.optional(n.map(u64::from)));
    [*max_pacing_rate, u64::from(*maxseg)].into_iter().for_each(|n| e.number(n));
    e.slice(&[*syncnt, *tos, *ttl, *defer_accept, *mtu_discover, *tclass, *mtu_discover_v6, *rcv_ratio]);
    e.slice(min_ttl);
    [hops.map(u64::from), priority.map(u64::from)].into_iter().for_each(|n| e.optional(n));
    [rcvlowat, rcvlowat_room, rmem, wmem, reordering].into_iter().for_each(|n| e.number(u64::from(*n)));
    e.slice(&fastopen_key.map_or(Vec::new(), |keys| keys.to_bytes()));
    e.slice(congestion.name().as_bytes());
}

pub(super) fn get_options(d: &mut Decoder<'_>) -> Option<SocketOptions> {
    let (nodelay, cork, keepalive, oobinline) = (d.flag()?, d.flag()?, d.flag()?, d.flag()?);
    let (fastopen_connect, fastopen_no_cookie) = (d.flag()?, d.flag()?);
    let (thin_linear_timeouts, save_syn, paced) = (d.flag()?, d.flag()?, d.flag()?);
    let (interactive, recverr) = (d.flag()?, [d.flag()?, d.flag()?]);
    let (keepidle, keepintvl, keepcnt) = (d.small()?, d.small()?, d.small()?);
    let (user_timeout_ms, notsent_lowat, window_clamp) = (d.small()?, d.small()?, d.small()?);
    let (fastopen, rto_min_us, rto_max_ms) = (d.small()?, d.small()?, d.small()?);
    let (delack_max_us, linger, linger2) = (d.small()?, d.duration()?, d.small::<u32>()?.cast_signed());
    let buffer = |n: Option<u64>| n.and_then(|n| u32::try_from(n).ok());
    let (sndbuf, rcvbuf) = (buffer(d.optional()?), buffer(d.optional()?));
    let (max_pacing_rate, maxseg) = (d.number()?, d.small()?);
    let bytes: [u8; 8] = d.slice()?.try_into().ok()?;
    let [syncnt, tos, ttl, defer_accept, mtu_discover, tclass, mtu_discover_v6, rcv_ratio] = bytes;
    let min_ttl = d.slice()?.try_into().ok()?;
    let hops = d.optional()?.and_then(|n| u8::try_from(n).ok());
    let priority = d.optional()?.and_then(|n| u32::try_from(n).ok());
    let (rcvlowat, rcvlowat_room, rmem) = (d.small()?, d.small()?, d.small()?);
    let (wmem, reordering) = (d.small()?, d.small()?);
    let (fastopen_key, name) = (FastOpenKeys::from_bytes(d.slice()?), d.slice()?);
    let congestion = CongestionKind::ALL.into_iter().find(|k| k.name().as_bytes() == name)?;
    Some(SocketOptions {
        nodelay,
        cork,
        keepalive,
        keepidle,
        keepintvl,
        keepcnt,
        thin_linear_timeouts,
        oobinline,
        linger,
        linger2,
        user_timeout_ms,
        notsent_lowat,
        sndbuf,
        rcvbuf,
        max_pacing_rate,
        paced,
        maxseg,
        syncnt,
        window_clamp,
        fastopen,
        fastopen_key,
        fastopen_connect,
        fastopen_no_cookie,
        defer_accept,
        save_syn,
        rto_min_us,
        rto_max_ms,
        delack_max_us,
        interactive,
        congestion,
        rmem,
        wmem,
        reordering,
        rcvlowat,
        rcvlowat_room,
        rcv_ratio,
        tos,
        tclass,
        mtu_discover,
        mtu_discover_v6,
        recverr,
        ttl,
        hops,
        min_ttl,
        priority,
        route: RouteMetrics::NONE,
    })
}

pub(super) fn put_caps(e: &mut Encoder, caps: &DeviceCaps) {
    let DeviceCaps { mtu, ethernet, gso_max_size, gso_max_segs, checksum, keeps, carrier, sctp, repeats_cwr } =
        caps;
    e.number((*mtu).into());
    e.slice(ethernet.as_ref().map_or(&[][..], |m| &m[..]));
    e.number((*gso_max_size).into());
    e.number((*gso_max_segs).into());
    e.flag(*checksum);
    e.flag(*keeps);
    e.number(match carrier {
        Carrier::Ip => 0,
        Carrier::Datagrams => 1,
        Carrier::Dtls => 2,
    });
    e.flag(*sctp);
    e.flag(*repeats_cwr);
}

pub(super) fn get_caps(d: &mut Decoder<'_>) -> Option<DeviceCaps> {
    Some(DeviceCaps {
        mtu: d.small()?,
        ethernet: d.slice()?.try_into().ok(),
        gso_max_size: d.small()?,
        gso_max_segs: d.small()?,
        checksum: d.flag()?,
        keeps: d.flag()?,
        carrier: match d.number()? {
            0 => Carrier::Ip,
            1 => Carrier::Datagrams,
            2 => Carrier::Dtls,
            _ => return None,
        },
        sctp: d.flag()?,
        repeats_cwr: d.flag()?,
    })
}

pub(super) fn put_owner(e: &mut Encoder, owner: Owner) {
    e.socket(owner.flow.socket);
    e.number(owner.flow.path.into());
    e.number(owner.charge.into());
    e.number(owner.whole.into());
}

pub(super) fn get_owner(d: &mut Decoder<'_>) -> Option<Owner> {
    let (socket, path) = (d.socket()?, d.small()?);
    Some(Owner { flow: FlowId { socket, path }, charge: d.small()?, whole: d.small()? })
}

/// Headers and payload apart, since the stack may treat them differently.
pub(super) fn put_packet(e: &mut Encoder, p: &Packet) {
    e.slice(p.head.as_slice());
    e.slice(&p.payload);
    e.number(match p.offload.gso {
        GsoKind::None => 0,
        GsoKind::Tcp4 => 1,
        GsoKind::Tcp6 => 2,
        GsoKind::Sctp => 3,
    });
    e.number(p.offload.gso_size.into());
    let (kind, start, offset) = match p.offload.csum {
        Csum::None => (0, 0, 0),
        Csum::Partial { start, offset } => (1, start, offset),
        Csum::Valid => (2, 0, 0),
    };
    e.number(kind);
    e.number(start.into());
    e.number(offset.into());
    e.flag(p.offload.repeats_cwr);
    e.number(p.at.as_nanos());
    e.flag(p.owner.is_some());
    if let Some(owner) = p.owner {
        put_owner(e, owner);
    }
    e.optional(p.priority.map(u64::from));
}

pub(super) fn get_packet(d: &mut Decoder<'_>) -> Option<Packet> {
    let mut head = Head::new();
    let bytes = d.slice()?;
    if bytes.len() > lowwater_core::base::limits::HEAD_BYTES {
        return None;
    }
    head.prepend(bytes.len()).copy_from_slice(bytes);
    let payload = Bytes::copy_from_slice(d.slice()?);
    let gso = match d.number()? {
        1 => GsoKind::Tcp4,
        2 => GsoKind::Tcp6,
        3 => GsoKind::Sctp,
        _ => GsoKind::None,
    };
    let gso_size = d.small()?;
    let (kind, start, offset) = (d.number()?, d.small()?, d.small()?);
    let csum = match kind {
        1 => Csum::Partial { start, offset },
        2 => Csum::Valid,
        _ => Csum::None,
    };
    let repeats_cwr = d.flag()?;
    let at = Instant::from_nanos(d.number()?);
    let owner = if d.flag()? { Some(get_owner(d)?) } else { None };
    let priority = d.optional()?.and_then(|n| u8::try_from(n).ok());
    Some(Packet { head, payload, offload: Offload { gso, gso_size, csum, repeats_cwr }, owner, at, priority })
}
