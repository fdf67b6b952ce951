//! What the kernel's routes ask of connections.
use super::msg::{self, Message};
use super::{RTA_DST, exchange, family, number, sockets};
use crate::error::SetupError;
use core::net::IpAddr;
use lowwater_core::base::RouteMetrics;
use lowwater_core::base::sysctl::CongestionKind;

/// Length of `struct rtmsg`.
const RTMSG_LEN: usize = 12;
/// Attributes of a route, and those within its metrics (`linux/rtnetlink.h`).
const RTA_METRICS: u16 = 8;
const RTAX_MTU: u16 = 2;
const RTAX_WINDOW: u16 = 3;
const RTAX_ADVMSS: u16 = 8;
const RTAX_HOPLIMIT: u16 = 10;
const RTAX_INITCWND: u16 = 11;
const RTAX_FEATURES: u16 = 12;
const RTAX_RTO_MIN: u16 = 13;
const RTAX_INITRWND: u16 = 14;
const RTAX_QUICKACK: u16 = 15;
const RTAX_CC_ALGO: u16 = 16;
const RTAX_FASTOPEN_NO_COOKIE: u16 = 17;
/// ECN among the features.
const FEATURE_ECN: u32 = 1;

/// What the kernel's route to `to` asks of connections, in the calling thread's network namespace; needs no privileges. A controller that there is
/// none of here is left out.
///
/// # Errors
/// [`SetupError::Os`] when there is no route (ENETUNREACH), or the process is out of descriptors.
pub fn route_metrics(to: IpAddr) -> Result<RouteMetrics, SetupError> {
    const SEQ: u32 = 1;
    let (socket, _) = sockets()?;
    let whole = if to.is_ipv4() { 32 } else { 128 };
    let mut request = Message::new(libc::RTM_GETROUTE, 0, SEQ);
    request.u8(family(to)).u8(whole).u8(0).u8(0).u8(0).u8(0).u8(0).u8(0).u32(0).attr_ip(RTA_DST, to);
    let mut found = RouteMetrics::NONE;
    let mut take = |kind, body: &[u8]| {
        if kind == libc::RTM_NEWROUTE {
            let attrs = body.get(RTMSG_LEN..).unwrap_or_default();
            found = msg::find_attr(attrs, RTA_METRICS).map_or(RouteMetrics::NONE, metrics);
        }
    };
    exchange(&socket, &request.finish(), SEQ, &mut take)
        .map_err(|e| SetupError::from_errno(format!("asking for the route to {to}"), e))?;
    Ok(found)
}

fn metrics(attrs: &[u8]) -> RouteMetrics {
    let value = |of| msg::find_attr(attrs, of).and_then(number).unwrap_or(0);
    let short = |of| u16::try_from(value(of)).unwrap_or(u16::MAX);
    let controller = msg::find_attr(attrs, RTAX_CC_ALGO).and_then(|bytes| {
        let name = bytes.split(|b| *b == 0).next()?;
        CongestionKind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    });
    RouteMetrics {
        mtu: short(RTAX_MTU),
        initcwnd: value(RTAX_INITCWND),
        initrwnd: value(RTAX_INITRWND),
        advmss: short(RTAX_ADVMSS),
        window: value(RTAX_WINDOW),
        rto_min_us: value(RTAX_RTO_MIN).saturating_mul(1_000),
        quickack: value(RTAX_QUICKACK) != 0,
        congestion: controller,
        ecn: value(RTAX_FEATURES) & FEATURE_ECN != 0,
        fastopen_no_cookie: value(RTAX_FASTOPEN_NO_COOKIE) != 0,
        hoplimit: u8::try_from(value(RTAX_HOPLIMIT)).unwrap_or(u8::MAX),
    }
}
