//! Options within the bounds that setsockopt() has: what Linux answers with EINVAL, or what would bring nothing but silence, is refused in words
//! before it acts, and what Linux bounds without a word is bounded the same way. Only what a call changes is looked at, as setsockopt() does one
//! option at a time: what was read back, or what a new socket has by the sysctls, passes whatever the sysctls say by now.
//!
//! The program changes a copy, without the stack's lock: it may ask any socket meanwhile, and others may change the same one. So what it has
//! not changed is what it is by then ([`changed_tcp`] and its siblings).
use crate::error::invalid;
use lowwater_core::base::Sysctl;
use lowwater_core::sctp::{PathOptions, RtoOptions, SctpOptions};
use lowwater_core::tcp::SocketOptions;
use lowwater_core::tcp::window::Ratio;
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The largest value of IP_MTU_DISCOVER (IP_PMTUDISC_OMIT).
const MTU_DISCOVER_MAX: u8 = 5;
/// Least send buffer and receive buffer, as they read back (`SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`).
const SNDBUF_MIN: u32 = 4_608;
const RCVBUF_MIN: u32 = 2_304;
/// Largest buffer, as it reads back: twice the half of an `int` (SO_SNDBUFFORCE, SO_RCVBUFFORCE; no sysctl bounds a program's own stack).
const BUF_MAX: u32 = i32::MAX as u32 - 1;
/// Least TCP_WINDOW_CLAMP but 0: half of the least receive buffer.
const CLAMP_MIN: u32 = RCVBUF_MIN / 2;
/// TCP_MAXSEG (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
const MAXSEG: RangeInclusive<u32> = 88..=32_767;
/// TCP_KEEPIDLE and TCP_KEEPINTVL in seconds (`MAX_TCP_KEEPIDLE`).
const KEEP_SECS: RangeInclusive<u32> = 1..=32_767;
/// TCP_KEEPCNT and TCP_SYNCNT (`MAX_TCP_KEEPCNT`, `MAX_TCP_SYNCNT`).
const COUNTS: RangeInclusive<u32> = 1..=127;
/// TCP_RTO_MIN_US and TCP_DELACK_MAX_US: two jiffies at least when rounded up to them, `TCP_RTO_MIN` at most. There are no jiffies here; the bound
/// is that of a kernel with a thousand per second. One with 250 refuses 4,000 and less, and rounds what it takes up to 4 ms.
const TIMER_US: RangeInclusive<u32> = 1_001..=200_000;
/// TCP_RTO_MAX_MS.
const RTO_MAX_MS: RangeInclusive<u32> = 1_000..=120_000;
/// Longest TCP_LINGER2 in seconds (`TCP_FIN_TIMEOUT_MAX`).
const LINGER2_MAX: i32 = 120;
/// Numbers that are an `int` in Linux.
const INT_MAX: u32 = i32::MAX as u32;
/// The bits of a type of service that are ECN's, which a transport keeps to itself (`INET_ECN_MASK`). Linux takes them from SOCK_STREAM alone: a one-to-many socket
/// (SOCK_SEQPACKET) may write over what its associations say of ECN (RFC 9260 appendix A), and here it may not.
const ECN: u8 = 3;
/// Longest delay of a SACK in milliseconds (RFC 9260 section 6.2).
const SACK_DELAY_MAX: u32 = 500;
/// Smallest packet that a path may be held to (`SCTP_DEFAULT_MINSEGMENT`).
const SCTP_MTU_MIN: u16 = 512;
/// SCTP_MAXSEG: what such a packet of IPv6 carries, and what one chunk does (`SCTP_MAX_CHUNK_LEN`).
const SCTP_MAXSEG: RangeInclusive<u32> = 444..=65_516;
/// Timeouts of SCTP in milliseconds: a day at most, as the sysctls have it.
const SCTP_RTO_MS: RangeInclusive<u32> = 1..=86_400_000;
/// Largest exponent of RTO.Alpha and RTO.Beta.
const EXPONENT_MAX: u8 = 31;

/// A function that gives what is asked where that is not what was seen, and elsewhere what is.
macro_rules! changed {
    ($name:ident, $type:ident: $($field:ident),*) => {
        pub(crate) fn $name(seen: &$type, asked: &$type, is: &$type) -> $type {
            $type { $($field: if asked.$field == seen.$field { &is.$field } else { &asked.$field }.clone()),* }
        }
    };
}
changed!(changed_tcp, SocketOptions:
    nodelay, cork, keepalive, keepidle, keepintvl, keepcnt, thin_linear_timeouts, oobinline, linger, linger2,
    user_timeout_ms, notsent_lowat, sndbuf, rcvbuf, max_pacing_rate, paced, maxseg, syncnt, window_clamp,
    fastopen, fastopen_key, fastopen_connect, fastopen_no_cookie, defer_accept, save_syn, rto_min_us,
    rto_max_ms, delack_max_us, interactive, congestion, rmem, wmem, reordering, rcvlowat, rcvlowat_room,
    rcv_ratio, tos, tclass, mtu_discover, mtu_discover_v6, recverr, ttl, hops, min_ttl, priority, route
);
changed!(changed_sctp, SctpOptions:
    rto, path, num_ostreams, max_instreams, max_init_retransmits, max_init_timeo_ms, association_max_retrans,
    cookie_life_ms, sack_delay_ms, sack_freq, nodelay, maxseg, disable_fragments, max_burst, pacing,
    congestion, features, reconfigurable, sndbuf, rcvbuf, notsent_lowat, stream_lowat, pd_point,
    autoclose_secs, adaptation, events, tos, ttl, tclass, unicast_hops, priority, encap_port, linger, counts,
    arrivals
);
changed!(changed_path, PathOptions:
    hb_interval_ms, hb_enable, max_retrans, pf_retrans, pmtu
);

/// `value` is among `range`, or 0, which takes the default, or what it was.
fn among(name: &str, (value, was): (u32, u32), range: &RangeInclusive<u32>) -> io::Result<()> {
    if value == was || value == 0 || range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err(invalid(format!("{name} is {value}: there are {least} to {most}, and 0 takes the default")))
}

fn linger(time: Option<Duration>) -> io::Result<()> {
    match time {
        Some(time) if time.as_secs() > u64::from(INT_MAX) => Err(invalid(format!(
            "linger is {} s: SO_LINGER has {INT_MAX} at most, and None closes in the background",
            time.as_secs()
        ))),
        _ => Ok(()),
    }
}

/// A TCP socket with these options, where it was with those, bounded as Linux bounds them.
pub(crate) fn tcp(
    mut options: SocketOptions,
    was: &SocketOptions,
    sysctl: &Sysctl,
) -> io::Result<SocketOptions> {
    check_tcp_sizes(&options, was)?;
    check_tcp_times(&options, was)?;
    let o = &mut options;
    if o.sndbuf != was.sndbuf {
        o.sndbuf = o.sndbuf.map(|bytes| bytes.clamp(SNDBUF_MIN, BUF_MAX));
    }
    if o.rcvbuf != was.rcvbuf {
        o.rcvbuf = o.rcvbuf.map(|bytes| bytes.clamp(RCVBUF_MIN, BUF_MAX));
    }
    if o.window_clamp != was.window_clamp && o.window_clamp != 0 {
        o.window_clamp = o.window_clamp.max(CLAMP_MIN);
    }
    if o.linger2 != was.linger2 {
        o.linger2 = o.linger2.clamp(-1, LINGER2_MAX);
    }
    (o.tos, o.tclass) = (o.tos & !ECN, o.tclass & !ECN);
    if o.rcvlowat != was.rcvlowat {
        bound_lowat(o, sysctl);
    }
    Ok(options)
}

/// These options, or those of a new socket of the stack.
pub(crate) fn tcp_or_new(options: Option<&SocketOptions>, sysctl: &Sysctl) -> io::Result<SocketOptions> {
    let new = SocketOptions::new(sysctl);
    match options {
        Some(options) => tcp(options.clone(), &new, sysctl),
        None => Ok(new),
    }
}

/// No more than half of the receive buffer can be waited for, and one that autotunes has room for it from the start (`tcp_set_rcvlowat`).
fn bound_lowat(o: &mut SocketOptions, sysctl: &Sysctl) {
    o.rcvlowat = o.rcvlowat.min(o.rcvbuf.unwrap_or(sysctl.tcp_rmem.max) / 2);
    if o.rcvlowat > 1 && o.rcvbuf.is_none() {
        let room = Ratio::initial(sysctl).space_from_win(o.rcvlowat.into());
        o.rcvlowat_room = o.rcvlowat_room.max(u32::try_from(room).unwrap_or(u32::MAX));
    }
}

fn check_tcp_sizes(options: &SocketOptions, was: &SocketOptions) -> io::Result<()> {
    if options.sndbuf == Some(0) {
        return Err(invalid(
            "sndbuf is 0: nothing could ever be written; None lets the buffer grow as tcp_wmem says",
        ));
    }
    if options.rcvbuf == Some(0) {
        return Err(invalid(
            "rcvbuf is 0: nothing could ever come; None lets the buffer grow as tcp_rmem says",
        ));
    }
    for (name, value) in
        [("mtu_discover", options.mtu_discover), ("mtu_discover_v6", options.mtu_discover_v6)]
    {
        if value > MTU_DISCOVER_MAX {
            return Err(invalid(format!(
                "{name} is {value}: there are 0 to {MTU_DISCOVER_MAX} (IP_PMTUDISC_DONT to IP_PMTUDISC_OMIT)"
            )));
        }
    }
    if options.max_pacing_rate == 0 {
        return Err(invalid(
            "max_pacing_rate is 0 bytes per second: nothing would be paced, and u64::MAX is for no bound",
        ));
    }
    among("maxseg", (options.maxseg.into(), was.maxseg.into()), &MAXSEG)
}

fn check_tcp_times(options: &SocketOptions, was: &SocketOptions) -> io::Result<()> {
    among("keepidle (seconds)", (options.keepidle, was.keepidle), &KEEP_SECS)?;
    among("keepintvl (seconds)", (options.keepintvl, was.keepintvl), &KEEP_SECS)?;
    among("keepcnt", (options.keepcnt, was.keepcnt), &COUNTS)?;
    among("syncnt", (options.syncnt.into(), was.syncnt.into()), &COUNTS)?;
    among("user_timeout_ms", (options.user_timeout_ms, was.user_timeout_ms), &(1..=INT_MAX))?;
    among("delack_max_us", (options.delack_max_us, was.delack_max_us), &TIMER_US)?;
    // The sysctl has wider bounds, and new options begin with what it says.
    among("rto_min_us", (options.rto_min_us, was.rto_min_us), &TIMER_US)?;
    among("rto_max_ms", (options.rto_max_ms, was.rto_max_ms), &RTO_MAX_MS)?;
    linger(options.linger)
}

/// An SCTP socket with these options, where it was with those, bounded as Linux bounds them.
pub(crate) fn sctp(mut options: SctpOptions, was: &SctpOptions) -> io::Result<SctpOptions> {
    check_sctp_sizes(&options, was)?;
    if options.rto != was.rto {
        check_rto(&options.rto)?;
    }
    path(&options.path, &was.path)?;
    if options.cookie_life_ms == 0 {
        return Err(invalid("cookie_life_ms is 0: no peer could ever complete a handshake"));
    }
    if options.sack_delay_ms > SACK_DELAY_MAX {
        return Err(invalid(format!(
            "sack_delay_ms is {}: a SACK waits for {SACK_DELAY_MAX} at most (RFC 9260 section 6.2)",
            options.sack_delay_ms
        )));
    }
    linger(options.linger)?;
    // The sysctls wmem_default and rmem_default may say less.
    if options.sndbuf != was.sndbuf {
        options.sndbuf = options.sndbuf.clamp(SNDBUF_MIN, BUF_MAX);
    }
    if options.rcvbuf != was.rcvbuf {
        options.rcvbuf = options.rcvbuf.clamp(RCVBUF_MIN, BUF_MAX);
    }
    (options.tos, options.tclass) = (options.tos & !ECN, options.tclass & !ECN);
    Ok(options)
}

/// These options, or those of a new socket of the stack.
pub(crate) fn sctp_or_new(options: Option<&SctpOptions>, sysctl: &Sysctl) -> io::Result<SctpOptions> {
    let new = SctpOptions::new(sysctl);
    match options {
        Some(options) => sctp(options.clone(), &new),
        None => Ok(new),
    }
}

fn check_sctp_sizes(options: &SctpOptions, was: &SctpOptions) -> io::Result<()> {
    if options.sndbuf == 0 {
        return Err(invalid("sndbuf is 0: no message could ever be sent"));
    }
    if options.rcvbuf == 0 {
        return Err(invalid("rcvbuf is 0: no message could ever come"));
    }
    if options.num_ostreams == 0 {
        return Err(invalid("num_ostreams is 0: an association has a stream in each direction at least"));
    }
    if options.max_instreams == 0 {
        return Err(invalid("max_instreams is 0: an association has a stream in each direction at least"));
    }
    let as_it_was = (options.pd_point, options.rcvbuf) == (was.pd_point, was.rcvbuf);
    if !as_it_was && options.pd_point > options.rcvbuf / 2 {
        return Err(invalid(format!(
            "pd_point is {}: half of rcvbuf, which is {}, is the most that is offered as window",
            options.pd_point, options.rcvbuf
        )));
    }
    among("maxseg", (options.maxseg.into(), was.maxseg.into()), &SCTP_MAXSEG)
}

fn check_rto(rto: &RtoOptions) -> io::Result<()> {
    if rto.min_ms > rto.max_ms {
        return Err(invalid(format!(
            "rto: the least timeout of {} ms is above the longest of {} ms",
            rto.min_ms, rto.max_ms
        )));
    }
    for (name, ms) in [("initial_ms", rto.initial_ms), ("min_ms", rto.min_ms), ("max_ms", rto.max_ms)] {
        if !SCTP_RTO_MS.contains(&ms) {
            return Err(invalid(format!("rto.{name} is {ms}: there are 1 to {}", SCTP_RTO_MS.end())));
        }
    }
    for (name, exponent) in [("alpha", rto.alpha), ("beta", rto.beta)] {
        if exponent > EXPONENT_MAX {
            return Err(invalid(format!("rto.{name} is {exponent}: there are 0 to {EXPONENT_MAX}")));
        }
    }
    Ok(())
}

/// A path that was with those can work with these.
pub(crate) fn path(options: &PathOptions, was: &PathOptions) -> io::Result<()> {
    if options.pmtu != was.pmtu && options.pmtu != 0 && options.pmtu < SCTP_MTU_MIN {
        return Err(invalid(format!(
            "pmtu is {}: there are {SCTP_MTU_MIN} to {}, and 0 takes what the route does",
            options.pmtu,
            u16::MAX
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change<T> = fn(&mut T);

    #[test]
    fn what_somebody_else_has_changed_meanwhile_stays() {
        let tcp = || SocketOptions::new(&Sysctl::default());
        let asked = SocketOptions { keepcnt: 3, ..tcp() };
        let is = SocketOptions { nodelay: true, keepcnt: 9, ..tcp() };
        assert_eq!(changed_tcp(&tcp(), &asked, &is), SocketOptions { nodelay: true, ..asked });
        let sctp = || SctpOptions::new(&Sysctl::default());
        let asked = SctpOptions { tos: 4, ..sctp() };
        let is = SctpOptions { nodelay: true, ..sctp() };
        assert_eq!(changed_sctp(&sctp(), &asked, &is), SctpOptions { nodelay: true, ..asked });
    }

    #[test]
    fn what_setsockopt_refuses_is_told() {
        let sysctl = Sysctl::default();
        let changes: [(&str, Change<SocketOptions>); 16] = [
            ("sndbuf is 0", |o| o.sndbuf = Some(0)),
            ("rcvbuf is 0", |o| o.rcvbuf = Some(0)),
            ("mtu_discover_v6 is 6: there are 0 to 5", |o| o.mtu_discover_v6 = 6),
            ("maxseg is 1: there are 88 to 32767, and 0 takes the default", |o| o.maxseg = 1),
            ("maxseg is 32768", |o| o.maxseg = 32_768),
            ("max_pacing_rate is 0", |o| o.max_pacing_rate = 0),
            ("keepidle (seconds) is 32768: there are 1 to 32767", |o| o.keepidle = 32_768),
            ("keepintvl (seconds) is 40000", |o| o.keepintvl = 40_000),
            ("keepcnt is 128: there are 1 to 127", |o| o.keepcnt = 128),
            ("syncnt is 255", |o| o.syncnt = 255),
            ("user_timeout_ms is 4294967295", |o| o.user_timeout_ms = u32::MAX),
            ("delack_max_us is 1: there are 1001 to 200000", |o| o.delack_max_us = 1),
            ("rto_min_us is 1000", |o| o.rto_min_us = 1_000),
            ("rto_max_ms is 999: there are 1000 to 120000", |o| o.rto_max_ms = 999),
            ("linger is 2147483648 s", |o| o.linger = Some(Duration::from_secs(1 << 31))),
            ("linger is 18446744073709551615 s", |o| o.linger = Some(Duration::MAX)),
        ];
        for (why, change) in changes {
            let mut options = SocketOptions::new(&sysctl);
            change(&mut options);
            let told = tcp(options, &SocketOptions::new(&sysctl), &sysctl).expect_err(why);
            assert!(told.kind() == io::ErrorKind::InvalidInput && told.to_string().contains(why), "{told}");
        }
    }

    #[test]
    fn what_setsockopt_bounds_is_bounded_and_the_rest_stays() {
        let sysctl = Sysctl { tcp_rto_min_us: 5, ..Sysctl::default() };
        let plain = SocketOptions::new(&sysctl);
        assert_eq!(tcp(plain.clone(), &plain, &sysctl).expect("what the sysctls say"), plain);
        let asked = SocketOptions {
            sndbuf: Some(1),
            rcvbuf: Some(1),
            window_clamp: 1,
            linger2: 121,
            tos: 0xff,
            tclass: 7,
            rcvlowat: 9_999,
            ..SocketOptions::new(&sysctl)
        };
        let got = tcp(asked, &plain, &sysctl).expect("bounded");
        assert_eq!((got.sndbuf, got.rcvbuf, got.window_clamp), (Some(4_608), Some(2_304), 1_152));
        assert_eq!((got.linger2, got.tos, got.tclass, got.rcvlowat), (120, 0xfc, 4, 1_152));
        let large = SocketOptions { sndbuf: Some(u32::MAX), rcvbuf: Some(u32::MAX), ..plain };
        let got = tcp(large, &plain, &sysctl).expect("bounded");
        assert_eq!((got.sndbuf, got.rcvbuf), (Some(2_147_483_646), Some(2_147_483_646)));
        let beyond = SocketOptions { linger2: i32::MIN, rcvlowat: u32::MAX, ..plain };
        let got = tcp(beyond, &plain, &sysctl).expect("bounded");
        assert_eq!((got.linger2, got.rcvlowat), (-1, sysctl.tcp_rmem.max / 2));
        assert!(got.rcvlowat_room >= got.rcvlowat, "the buffer has room for what is waited for");
    }

    #[test]
    fn an_association_that_could_not_work_is_told() {
        let changes: [(&str, Change<SctpOptions>); 16] = [
            ("sndbuf is 0", |o| o.sndbuf = 0),
            ("rcvbuf is 0", |o| o.rcvbuf = 0),
            ("num_ostreams is 0", |o| o.num_ostreams = 0),
            ("max_instreams is 0", |o| o.max_instreams = 0),
            ("pd_point is 4097", |o| (o.rcvbuf, o.pd_point) = (8_192, 4_097)),
            ("maxseg is 443: there are 444 to 65516", |o| o.maxseg = 443),
            ("above the longest", |o| o.rto.min_ms = o.rto.max_ms + 1),
            ("rto.initial_ms is 0: there are 1 to 86400000", |o| o.rto.initial_ms = 0),
            ("rto.min_ms is 0", |o| (o.rto.min_ms, o.rto.max_ms) = (0, 0)),
            ("rto.max_ms is 4294967295", |o| o.rto.max_ms = u32::MAX),
            ("rto.alpha is 32: there are 0 to 31", |o| o.rto.alpha = 32),
            ("rto.beta is 255", |o| o.rto.beta = 255),
            ("pmtu is 511: there are 512", |o| o.path.pmtu = 511),
            ("cookie_life_ms is 0", |o| o.cookie_life_ms = 0),
            ("sack_delay_ms is 501", |o| o.sack_delay_ms = 501),
            ("linger is", |o| o.linger = Some(Duration::MAX)),
        ];
        let plain = SctpOptions::new(&Sysctl::default());
        for (why, change) in changes {
            let mut options = plain.clone();
            change(&mut options);
            let told = sctp(options, &plain).expect_err(why);
            assert!(told.kind() == io::ErrorKind::InvalidInput && told.to_string().contains(why), "{told}");
        }
        assert_eq!(sctp(plain.clone(), &plain).expect("what the sysctls say"), plain);
        let asked = SctpOptions { sndbuf: 1, rcvbuf: 1, tos: 0xff, tclass: 7, ..plain };
        let got = sctp(asked, &plain).expect("bounded");
        assert_eq!((got.sndbuf, got.rcvbuf, got.tos, got.tclass), (4_608, 2_304, 0xfc, 4));
        let got = sctp(SctpOptions { sndbuf: u32::MAX, rcvbuf: u32::MAX, ..plain.clone() }, &plain);
        let got = got.expect("bounded");
        assert_eq!((got.sndbuf, got.rcvbuf), (2_147_483_646, 2_147_483_646));
    }

    /// A socket from before a sysctl changed: what a call leaves alone is neither refused nor bounded, what it changes is.
    #[test]
    fn what_was_read_back_passes_whatever_the_sysctls_say_by_now() {
        let mut then = Sysctl { tcp_rto_min_us: 5, ..Sysctl::default() };
        let was = SocketOptions { rcvlowat: 10_000, ..SocketOptions::new(&then) };
        (then.tcp_rto_min_us, then.tcp_rmem.max) = (200_000, 8_192);
        let got = tcp(SocketOptions { nodelay: true, ..was.clone() }, &was, &then).expect("of its own time");
        assert_eq!((got.rto_min_us, got.rcvlowat), (5, 10_000));
        let told = tcp(SocketOptions { rto_min_us: 6, ..was.clone() }, &was, &then).expect_err("it is new");
        assert!(told.to_string().contains("rto_min_us is 6"), "{told}");
        let got = tcp(SocketOptions { rcvlowat: 9_000, ..was.clone() }, &was, &then).expect("bounded");
        assert_eq!(got.rcvlowat, 4_096, "half of what the buffer may be by now");
    }

    #[test]
    fn an_association_passes_with_what_its_sysctls_say() {
        let sysctl = Sysctl {
            sctp_rto_min: 70_000,
            sctp_rto_max: 60_000,
            rmem_default: 2_000,
            wmem_default: 2_000,
            ..Sysctl::default()
        };
        let new = SctpOptions::new(&sysctl);
        let asked = SctpOptions { nodelay: true, ..new };
        assert_eq!(sctp_or_new(Some(&asked), &sysctl).expect("a new one"), asked);
        assert_eq!(sctp(asked.clone(), &new).expect("one that is there"), asked);
        let mut worse = new.clone();
        worse.rto.initial_ms = 1;
        assert!(sctp(worse, &new).expect_err("it is new").to_string().contains("above the longest"));
    }
}
