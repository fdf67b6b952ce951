//! What a listener answers to a SYN with data or with the Fast Open option (RFC 7413 section 4.2.2; `tcp_try_fastopen`).
use super::cookie::{self, Match};
use super::{Queue, mode};
use crate::base::fastopen_keys::FastOpenKeys;
use crate::base::{Cx, Tuple};
use crate::tcp::segment::Segment;
use lowwater_wire::tcp::FastOpenCookie;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Grant {
    /// The connection begins with this SYN: its data is accepted.
    pub child: bool,
    /// The cookie in the SYN-ACK.
    pub cookie: Option<FastOpenCookie>,
}

/// Looks at a SYN for `tuple`. `no_cookie` is the listener's TCP_FASTOPEN_NO_COOKIE.
pub fn judge(
    cx: &mut Cx<'_>,
    tuple: &Tuple,
    keys: &FastOpenKeys,
    no_cookie: bool,
    queue: &mut Queue,
    syn: &Segment,
) -> Grant {
    let presented = syn.options.fastopen;
    if presented.is_some_and(|c| c.is_empty()) {
        cx.count.tcp_ext.tcp_fast_open_cookie_reqd += 1;
    }
    let on = cx.sysctl.tcp_fastopen & mode::SERVER != 0;
    if !on || (presented.is_none() && syn.payload_len() == 0) || !queue.admit(cx) {
        return Grant::default();
    }
    if no_cookie || cx.sysctl.tcp_fastopen & mode::SERVER_NO_COOKIE != 0 {
        cx.count.tcp_ext.tcp_fast_open_passive += 1;
        return Grant { child: true, cookie: None };
    }
    let Some(presented) = presented else { return Grant::default() };
    let (client, server) = (tuple.remote_ip, tuple.local_ip);
    // Answered in the form in which it was asked.
    let valid = cookie::cookie(&keys.primary, client, server).with_experimental(presented.is_experimental());
    if presented.is_empty() {
        return Grant { child: false, cookie: Some(valid) };
    }
    match cookie::check(keys, &presented, client, server) {
        Match::None => {
            cx.count.tcp_ext.tcp_fast_open_passive_fail += 1;
            Grant { child: false, cookie: Some(valid) }
        }
        Match::Primary => {
            cx.count.tcp_ext.tcp_fast_open_passive += 1;
            Grant { child: true, cookie: None }
        }
        Match::Backup => {
            cx.count.tcp_ext.tcp_fast_open_passive += 1;
            cx.count.tcp_ext.tcp_fast_open_passive_alt_key += 1;
            Grant { child: true, cookie: Some(valid) }
        }
    }
}
