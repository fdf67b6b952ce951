//! How long the values of SCTP's options must be, and what is answered before anybody looks at them (`sctp_setsockopt`,
//! `sctp_getsockopt`; found by trying: tests/matrix/sctp.txt).
use crate::abi::*;
use crate::errno::Errno;

/// What lengths one direction of an option takes; the rest is EINVAL.
#[derive(Clone, Copy, Debug)]
enum Len {
    /// So many bytes or more.
    From(usize),
    /// Exactly one of these.
    Of(&'static [usize]),
    /// This answer for so many bytes or more: what has to be there first is switched off.
    Never(usize, Errno),
    /// This answer for exactly so many bytes.
    NeverOf(usize, Errno),
}

impl Len {
    fn check(self, len: usize) -> Result<(), Errno> {
        match self {
            Self::From(least) if len >= least => Ok(()),
            Self::Of(all) if all.contains(&len) => Ok(()),
            Self::Never(least, errno) if len >= least => Err(errno),
            Self::NeverOf(one, errno) if len == one => Err(errno),
            _ => Err(Errno::EINVAL),
        }
    }
}

use Len::{From, Never, NeverOf, Of};

/// An option, its lengths when it is read, and when it is set.
type Row = (i32, Len, Len);

/// Nobody has this option in this direction.
const NOT: Len = Never(0, Errno::ENOPROTOOPT);
const UNSUPPORTED: Len = Never(0, Errno::EOPNOTSUPP);
/// Authentication is off (`auth_enable`).
const NO_AUTH: Len = Never(0, Errno::EACCES);
const NO_AUTH_KEY: Len = NeverOf(8, Errno::EACCES);

const ROWS: &[Row] = &[
    (SCTP_RTOINFO, From(16), Of(&[16])),
    (SCTP_ASSOCINFO, From(20), Of(&[20])),
    (SCTP_INITMSG, From(8), Of(&[8])),
    (SCTP_NODELAY, From(4), From(4)),
    (SCTP_SET_PEER_PRIMARY_ADDR, NOT, Never(0, Errno::EPERM)),
    (SCTP_PRIMARY_ADDR, From(132), Of(&[132])),
    (SCTP_ADAPTATION_LAYER, From(4), Of(&[4])),
    (SCTP_DISABLE_FRAGMENTS, From(4), From(4)),
    (SCTP_PEER_ADDR_PARAMS, From(152), Of(&[152, 156])),
    (SCTP_DEFAULT_SEND_PARAM, From(32), Of(&[32])),
    (SCTP_EVENTS, From(1), From(0)),
    (SCTP_I_WANT_MAPPED_V4_ADDR, From(4), From(4)),
    (SCTP_MAXSEG, From(4), Of(&[4, 8])),
    (SCTP_STATUS, From(176), NOT),
    (SCTP_GET_ASSOC_STATS, From(4), NOT),
    (SCTP_SOCKOPT_CONNECTX3, From(16), NOT),
    (SCTP_DELAYED_SACK, From(8), Of(&[8, 12])),
    (SCTP_CONTEXT, From(8), Of(&[8])),
    (SCTP_FRAGMENT_INTERLEAVE, From(4), Of(&[4])),
    (SCTP_PARTIAL_DELIVERY_POINT, From(4), Of(&[4])),
    (SCTP_MAX_BURST, From(4), Of(&[4, 8])),
    (SCTP_AUTH_CHUNK, UNSUPPORTED, NO_AUTH),
    (SCTP_HMAC_IDENT, NO_AUTH, NO_AUTH),
    (SCTP_AUTH_KEY, UNSUPPORTED, Never(9, Errno::EACCES)),
    (SCTP_AUTH_ACTIVE_KEY, Never(8, Errno::EACCES), NO_AUTH_KEY),
    (SCTP_AUTH_DELETE_KEY, UNSUPPORTED, NO_AUTH_KEY),
    (SCTP_LOCAL_AUTH_CHUNKS, Never(8, Errno::EACCES), NOT),
    (SCTP_AUTH_DEACTIVATE_KEY, UNSUPPORTED, NO_AUTH_KEY),
    (SCTP_PEER_ADDR_THLDS, From(144), From(144)),
    (SCTP_RECVRCVINFO, From(4), From(4)),
    (SCTP_SOCKOPT_PEELOFF, From(8), NOT),
    (SCTP_SOCKOPT_PEELOFF_FLAGS, From(12), NOT),
    (SCTP_DEFAULT_SNDINFO, From(16), Of(&[16])),
    (SCTP_RECVNXTINFO, From(4), From(4)),
    (SCTP_PR_SUPPORTED, From(8), Of(&[8])),
    (SCTP_ECN_SUPPORTED, From(8), Of(&[8])),
    (SCTP_DEFAULT_PRINFO, From(12), Of(&[12])),
    (SCTP_PR_ASSOC_STATUS, From(24), NOT),
    (SCTP_PR_STREAM_STATUS, From(24), NOT),
    (SCTP_RECONFIG_SUPPORTED, From(8), Of(&[8])),
    (SCTP_ENABLE_STREAM_RESET, From(8), Of(&[8])),
    (SCTP_RESET_STREAMS, NOT, From(8)),
    (SCTP_RESET_ASSOC, NOT, Of(&[4])),
    (SCTP_ADD_STREAMS, NOT, Of(&[8])),
    (SCTP_REUSE_PORT, From(4), From(0)),
    (SCTP_PEER_AUTH_CHUNKS, From(8), NOT),
    (SCTP_GET_LOCAL_ADDRS, From(8), NOT),
    (SCTP_GET_PEER_ADDRS, From(8), NOT),
    (SCTP_PEER_ADDR_THLDS_V2, From(144), From(144)),
    (SCTP_EVENT, From(8), From(8)),
    (SCTP_REMOTE_UDP_ENCAPS_PORT, From(144), Of(&[144])),
];

fn row(name: i32) -> Option<&'static Row> {
    ROWS.iter().find(|(option, ..)| *option == name)
}

/// A value of `len` bytes may be set.
pub(super) fn may_set(name: i32, len: usize) -> Result<(), Errno> {
    row(name).map_or(Ok(()), |(.., set)| set.check(len))
}

/// `len` bytes have room for what is read.
pub(super) fn may_get(name: i32, len: usize) -> Result<(), Errno> {
    row(name).map_or(Ok(()), |(_, get, _)| get.check(len))
}
