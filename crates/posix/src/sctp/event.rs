//! Notifications as the bytes that a reader gets (RFC 6458 section 6, Linux's `ulpevent.c`).
use super::inbox::Piece;
use super::layout::{Layout, layout};
use super::manner::Events;
use crate::abi::{
    SCTP_ADAPTATION_INDICATION, SCTP_ADDR_AVAILABLE, SCTP_ADDR_CONFIRMED, SCTP_ADDR_MADE_PRIM,
    SCTP_ADDR_POTENTIALLY_FAILED, SCTP_ADDR_UNREACHABLE, SCTP_ASSOC_CHANGE, SCTP_ASSOC_RESET_EVENT,
    SCTP_CANT_STR_ASSOC, SCTP_COMM_LOST, SCTP_COMM_UP, SCTP_DATA_SENT, SCTP_DATA_UNSENT,
    SCTP_PARTIAL_DELIVERY_EVENT, SCTP_PEER_ADDR_CHANGE, SCTP_REMOTE_ERROR, SCTP_RESTART, SCTP_SEND_FAILED,
    SCTP_SEND_FAILED_EVENT, SCTP_SENDER_DRY_EVENT, SCTP_SHUTDOWN_COMP, SCTP_SHUTDOWN_EVENT,
    SCTP_STREAM_CHANGE_EVENT, SCTP_STREAM_RESET_EVENT,
};
use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_core::sctp::{AssocChange, Notification, Outcome, PathChange, Received, ResetWhat, SendFailed};

/// `strreset_flags` and its kin.
const SCTP_STREAM_RESET_INCOMING_SSN: i32 = 1;
const SCTP_STREAM_RESET_OUTGOING_SSN: i32 = 2;
const SCTP_STREAM_RESET_DENIED: i32 = 4;
const SCTP_STREAM_RESET_FAILED: i32 = 8;

/// Whose notification it is, and how its reader wants it.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    /// Identifier of the association.
    pub(super) assoc: u32,
    /// The peer's port.
    pub(super) port: u16,
    /// Addresses are shown as IPv6.
    pub(super) v6: bool,
}

fn known(name: &str) -> &'static Layout {
    static NONE: Layout = Layout { name: "", size: 0, fields: &[] };
    layout(name).unwrap_or(&NONE)
}

/// The structure with what follows it, its length filled in.
fn finish(of: &Layout, mut bytes: Vec<u8>, length: &str, more: &[u8]) -> Bytes {
    bytes.extend_from_slice(more);
    let len = bytes.len() as u64;
    of.put(&mut bytes, length, len);
    bytes.into()
}

/// What a reader gets: a message, or a notification; two of a message that failed, for who wants both forms.
pub(super) fn pieces(received: Received, about: About, events: Events) -> Vec<Piece> {
    let note = match received {
        Received::Data { data, info, eor } => return vec![Piece { bytes: data, info: Some(info), eor }],
        Received::Notification(note) => note,
    };
    let piece = |bytes| Piece { bytes, info: None, eor: true };
    let Notification::SendFailed(failed) = &note else { return vec![piece(bytes(&note, about))] };
    let forms = [(SCTP_SEND_FAILED, OLD), (SCTP_SEND_FAILED_EVENT, NEW)];
    let wanted = forms.into_iter().filter(|(ty, _)| events.tells_failed(*ty));
    wanted.map(|(_, form)| piece(form.bytes(failed, about))).collect()
}

/// The bytes of a notification.
pub(super) fn bytes(notification: &Notification, about: About) -> Bytes {
    let assoc = u64::from(about.assoc);
    match notification {
        Notification::Assoc { change, outbound_streams, inbound_streams, cause, info, .. } => {
            let of = known("sctp_assoc_change");
            let state = match change {
                AssocChange::Up => SCTP_COMM_UP,
                AssocChange::Lost => SCTP_COMM_LOST,
                AssocChange::Restart => SCTP_RESTART,
                AssocChange::ShutdownComplete => SCTP_SHUTDOWN_COMP,
                AssocChange::CannotStart => SCTP_CANT_STR_ASSOC,
            };
            // In network order.
            let error = cause.to_be();
            // How many streams there are is told when they begin.
            let begins = matches!(change, AssocChange::Up | AssocChange::Restart);
            let streams = |n: u16| u64::from(if begins { n } else { 0 });
            let numbers = [
                ("sac_type", SCTP_ASSOC_CHANGE as u64),
                ("sac_state", state as u64),
                ("sac_error", error.into()),
                ("sac_outbound_streams", streams(*outbound_streams)),
                ("sac_inbound_streams", streams(*inbound_streams)),
                ("sac_assoc_id", assoc),
            ];
            finish(of, of.build(&numbers), "sac_length", info)
        }
        Notification::Path { address, change } => {
            let of = known("sctp_paddr_change");
            let state = match change {
                PathChange::Available => SCTP_ADDR_AVAILABLE,
                PathChange::Unreachable => SCTP_ADDR_UNREACHABLE,
                PathChange::Confirmed => SCTP_ADDR_CONFIRMED,
                PathChange::MadePrimary => SCTP_ADDR_MADE_PRIM,
                PathChange::PotentiallyFailed => SCTP_ADDR_POTENTIALLY_FAILED,
            };
            let numbers = [
                ("spc_type", SCTP_PEER_ADDR_CHANGE as u64),
                ("spc_state", state as u64),
                ("spc_assoc_id", assoc),
            ];
            let mut bytes = of.build(&numbers);
            let ip = match address {
                core::net::IpAddr::V4(v4) if about.v6 => v4.to_ipv6_mapped().into(),
                ip => *ip,
            };
            of.put_address(&mut bytes, "spc_aaddr", SocketAddr::new(ip, about.port));
            finish(of, bytes, "spc_length", &[])
        }
        Notification::RemoteError { cause, causes } => {
            let of = known("sctp_remote_error");
            let error = u64::from(cause.to_be());
            let numbers =
                [("sre_type", SCTP_REMOTE_ERROR as u64), ("sre_error", error), ("sre_assoc_id", assoc)];
            finish(of, of.build(&numbers), "sre_length", causes.get(4..).unwrap_or_default())
        }
        other => plain(other, assoc),
    }
}

/// Those that are a few numbers.
fn plain(notification: &Notification, assoc: u64) -> Bytes {
    match notification {
        Notification::Adaptation(layer) => {
            let of = known("sctp_adaptation_event");
            let numbers = [
                ("sai_type", SCTP_ADAPTATION_INDICATION as u64),
                ("sai_adaptation_ind", (*layer).into()),
                ("sai_assoc_id", assoc),
            ];
            finish(of, of.build(&numbers), "sai_length", &[])
        }
        Notification::PartialDeliveryAborted { stream } => {
            let of = known("sctp_pdapi_event");
            let numbers = [
                ("pdapi_type", SCTP_PARTIAL_DELIVERY_EVENT as u64),
                ("pdapi_stream", (*stream).into()),
                ("pdapi_assoc_id", assoc),
            ];
            finish(of, of.build(&numbers), "pdapi_length", &[])
        }
        Notification::SenderDry => {
            let of = known("sctp_sender_dry_event");
            let numbers = [("sender_dry_type", SCTP_SENDER_DRY_EVENT as u64), ("sender_dry_assoc_id", assoc)];
            finish(of, of.build(&numbers), "sender_dry_length", &[])
        }
        Notification::StreamReset { .. }
        | Notification::AssocReset { .. }
        | Notification::StreamChange { .. } => reconfigured(notification, assoc),
        _ => {
            let of = known("sctp_shutdown_event");
            let numbers = [("sse_type", SCTP_SHUTDOWN_EVENT as u64), ("sse_assoc_id", assoc)];
            finish(of, of.build(&numbers), "sse_length", &[])
        }
    }
}

/// Flags of what was not carried out; those of all three notifications are the same.
const fn unmet(outcome: Outcome) -> Option<i32> {
    match outcome {
        Outcome::Done => None,
        Outcome::Denied => Some(SCTP_STREAM_RESET_DENIED),
        Outcome::Failed => Some(SCTP_STREAM_RESET_FAILED),
    }
}

/// What became of streams (RFC 6525 section 6.1). Whose numbers begin anew is told from the side of who has asked for that, as by Linux
/// (`sctp_process_strreset_outreq`).
fn reconfigured(notification: &Notification, assoc: u64) -> Bytes {
    match notification {
        Notification::StreamReset { what, outcome, streams } => {
            let of = known("sctp_stream_reset_event");
            let done = match what {
                ResetWhat::Outgoing | ResetWhat::Incoming => SCTP_STREAM_RESET_OUTGOING_SSN,
                ResetWhat::OutgoingWanted => SCTP_STREAM_RESET_INCOMING_SSN,
                ResetWhat::IncomingAsked => SCTP_STREAM_RESET_OUTGOING_SSN | SCTP_STREAM_RESET_INCOMING_SSN,
            };
            let numbers = [
                ("strreset_type", SCTP_STREAM_RESET_EVENT as u64),
                ("strreset_flags", unmet(*outcome).unwrap_or(done) as u64),
                ("strreset_assoc_id", assoc),
            ];
            let list: Vec<u8> = streams.iter().flat_map(|stream| stream.to_le_bytes()).collect();
            finish(of, of.build(&numbers), "strreset_length", &list)
        }
        Notification::AssocReset { outcome, local_tsn, remote_tsn } => {
            let of = known("sctp_assoc_reset_event");
            let numbers = [
                ("assocreset_type", SCTP_ASSOC_RESET_EVENT as u64),
                ("assocreset_flags", unmet(*outcome).unwrap_or(0) as u64),
                ("assocreset_assoc_id", assoc),
                ("assocreset_local_tsn", (*local_tsn).into()),
                ("assocreset_remote_tsn", (*remote_tsn).into()),
            ];
            finish(of, of.build(&numbers), "assocreset_length", &[])
        }
        Notification::StreamChange { outcome, incoming, outgoing } => {
            let of = known("sctp_stream_change_event");
            let numbers = [
                ("strchange_type", SCTP_STREAM_CHANGE_EVENT as u64),
                ("strchange_flags", unmet(*outcome).unwrap_or(0) as u64),
                ("strchange_assoc_id", assoc),
                ("strchange_instrms", (*incoming).into()),
                ("strchange_outstrms", (*outgoing).into()),
            ];
            finish(of, of.build(&numbers), "strchange_length", &[])
        }
        _ => Bytes::new(),
    }
}

/// How a message that failed is told.
#[derive(Clone, Copy, Debug)]
struct Form {
    name: &'static str,
    ty: i32,
    info: &'static str,
    /// Where that lies.
    place: &'static str,
    /// Stream, flags, payload protocol identifier, context, association.
    fields: [&'static str; 5],
}

const OLD: Form = Form {
    name: "sctp_send_failed",
    ty: SCTP_SEND_FAILED,
    info: "sctp_sndrcvinfo",
    place: "ssf_info",
    fields: ["sinfo_stream", "sinfo_flags", "sinfo_ppid", "sinfo_context", "sinfo_assoc_id"],
};
const NEW: Form = Form {
    name: "sctp_send_failed_event",
    ty: SCTP_SEND_FAILED_EVENT,
    info: "sctp_sndinfo",
    place: "ssfe_info",
    fields: ["snd_sid", "snd_flags", "snd_ppid", "snd_context", "snd_assoc_id"],
};

impl Form {
    fn bytes(&self, failed: &SendFailed, about: About) -> Bytes {
        let flags = if failed.sent { SCTP_DATA_SENT } else { SCTP_DATA_UNSENT } as u64;
        let assoc = u64::from(about.assoc);
        let of = known(self.name);
        let numbers = [
            ("ssf_type", self.ty as u64),
            ("ssf_flags", flags),
            ("ssf_error", failed.cause.to_be().into()),
            ("ssf_assoc_id", assoc),
        ];
        let mut bytes = of.build(&numbers);
        // The flags are those of its DATA chunk, so that fragments can be put together (`sctp_ulpevent_make_send_failed`).
        let values = [
            failed.stream.into(),
            failed.flags.into(),
            failed.ppid.to_be().into(),
            failed.context.into(),
            assoc,
        ];
        let values: Vec<_> = self.fields.into_iter().zip(values).collect();
        let info = known(self.info).build(&values);
        if let Some((at, size)) = of.field(self.place)
            && let Some(field) = bytes.get_mut(at..at + size)
        {
            field.copy_from_slice(&info);
        }
        finish(of, bytes, "ssf_length", &failed.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About { assoc: 4, port: 0, v6: false };

    fn change(change: AssocChange, info: &'static [u8]) -> Vec<u8> {
        let (outbound_streams, inbound_streams, info) = (10, 10, Bytes::from_static(info));
        let cause = info.first_chunk().map_or(0, |code| u16::from_be_bytes(*code));
        let of = Notification::Assoc { change, error: None, outbound_streams, inbound_streams, cause, info };
        bytes(&of, ABOUT).to_vec()
    }

    /// The bytes that Linux 6.1 gives in the same places.
    #[test]
    fn what_becomes_of_an_association_is_told_in_linuxs_bytes() {
        let up = [1, 0x80, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 10, 0, 10, 0, 4, 0, 0, 0];
        assert_eq!(change(AssocChange::Up, &[]), up);
        let lost = [1, 0x80, 0, 0, 24, 0, 0, 0, 1, 0, 0, 12, 0, 0, 0, 0, 4, 0, 0, 0, 0, 12, 0, 4];
        assert_eq!(change(AssocChange::Lost, &[0, 12, 0, 4]), lost, "aborted by its user");
        let over = [1, 0x80, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
        assert_eq!(change(AssocChange::ShutdownComplete, &[]), over);
    }
}
