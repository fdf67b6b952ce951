//! Options that a socket could never work with: told in words before they act, since what they would bring is silence.
use crate::error::invalid;
use lowwater_core::sctp::SctpOptions;
use lowwater_core::tcp::SocketOptions;
use std::io;

/// The largest value of IP_MTU_DISCOVER (IP_PMTUDISC_OMIT).
const MTU_DISCOVER_MAX: u8 = 5;

/// A TCP socket can work with these.
pub(crate) fn check_tcp(options: &SocketOptions) -> io::Result<()> {
    if options.sndbuf == Some(0) {
        return Err(invalid(
            "sndbuf is 0: nothing could ever be written; None lets the buffer grow as tcp_wmem says",
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
    Ok(())
}

/// An SCTP socket can work with these.
pub(crate) fn check_sctp(options: &SctpOptions) -> io::Result<()> {
    if options.sndbuf == 0 {
        return Err(invalid("sndbuf is 0: no message could ever be sent"));
    }
    let rto = &options.rto;
    if rto.min_ms > rto.max_ms {
        return Err(invalid(format!(
            "rto: the least timeout of {} ms is above the longest of {} ms",
            rto.min_ms, rto.max_ms
        )));
    }
    Ok(())
}
