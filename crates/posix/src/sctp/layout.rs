//! The structures of SCTP's socket interface (RFC 6458) as Linux lays them out: names, places and sizes of their fields.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Size of a `struct sockaddr_storage`, which is what a field of that size holds.
pub const SOCKADDR_STORAGE: usize = 128;

/// One structure; all are of little-endian 64-bit Linux.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name without `struct`.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Name, offset and size of each field; size 0 for what goes on to the end, which the structure's own size leaves out.
    pub fields: &'static [(&'static str, usize, usize)],
}

/// All of them.
#[rustfmt::skip]
pub const LAYOUTS: &[Layout] = &[
    Layout { name: "sctp_initmsg", size: 8, fields: &[("sinit_num_ostreams", 0, 2), ("sinit_max_instreams", 2, 2), ("sinit_max_attempts", 4, 2), ("sinit_max_init_timeo", 6, 2)] },
    Layout { name: "sctp_sndrcvinfo", size: 32, fields: &[("sinfo_stream", 0, 2), ("sinfo_ssn", 2, 2), ("sinfo_flags", 4, 2), ("sinfo_ppid", 8, 4), ("sinfo_context", 12, 4), ("sinfo_timetolive", 16, 4), ("sinfo_tsn", 20, 4), ("sinfo_cumtsn", 24, 4), ("sinfo_assoc_id", 28, 4)] },
    Layout { name: "sctp_sndinfo", size: 16, fields: &[("snd_sid", 0, 2), ("snd_flags", 2, 2), ("snd_ppid", 4, 4), ("snd_context", 8, 4), ("snd_assoc_id", 12, 4)] },
    Layout { name: "sctp_rcvinfo", size: 28, fields: &[("rcv_sid", 0, 2), ("rcv_ssn", 2, 2), ("rcv_flags", 4, 2), ("rcv_ppid", 8, 4), ("rcv_tsn", 12, 4), ("rcv_cumtsn", 16, 4), ("rcv_context", 20, 4), ("rcv_assoc_id", 24, 4)] },
    Layout { name: "sctp_nxtinfo", size: 16, fields: &[("nxt_sid", 0, 2), ("nxt_flags", 2, 2), ("nxt_ppid", 4, 4), ("nxt_length", 8, 4), ("nxt_assoc_id", 12, 4)] },
    Layout { name: "sctp_prinfo", size: 8, fields: &[("pr_policy", 0, 2), ("pr_value", 4, 4)] },
    Layout { name: "sctp_assoc_change", size: 20, fields: &[("sac_type", 0, 2), ("sac_flags", 2, 2), ("sac_length", 4, 4), ("sac_state", 8, 2), ("sac_error", 10, 2), ("sac_outbound_streams", 12, 2), ("sac_inbound_streams", 14, 2), ("sac_assoc_id", 16, 4), ("sac_info", 20, 0)] },
    Layout { name: "sctp_paddr_change", size: 148, fields: &[("spc_type", 0, 2), ("spc_flags", 2, 2), ("spc_length", 4, 4), ("spc_aaddr", 8, 128), ("spc_state", 136, 4), ("spc_error", 140, 4), ("spc_assoc_id", 144, 4)] },
    Layout { name: "sctp_remote_error", size: 16, fields: &[("sre_type", 0, 2), ("sre_flags", 2, 2), ("sre_length", 4, 4), ("sre_error", 8, 2), ("sre_assoc_id", 12, 4), ("sre_data", 16, 0)] },
    Layout { name: "sctp_send_failed", size: 48, fields: &[("ssf_type", 0, 2), ("ssf_flags", 2, 2), ("ssf_length", 4, 4), ("ssf_error", 8, 4), ("ssf_info", 12, 32), ("ssf_assoc_id", 44, 4), ("ssf_data", 48, 0)] },
    Layout { name: "sctp_send_failed_event", size: 32, fields: &[("ssf_type", 0, 2), ("ssf_flags", 2, 2), ("ssf_length", 4, 4), ("ssf_error", 8, 4), ("ssfe_info", 12, 16), ("ssf_assoc_id", 28, 4), ("ssfe_data", 32, 0)] },
    // The same in the words of RFC 6458, section 6.1.11.
    Layout { name: "rfc6458_send_failed_event", size: 32, fields: &[("ssfe_type", 0, 2), ("ssfe_flags", 2, 2), ("ssfe_length", 4, 4), ("ssfe_error", 8, 4), ("ssfe_info", 12, 16), ("ssfe_assoc_id", 28, 4), ("ssfe_data", 32, 0)] },
    Layout { name: "sctp_shutdown_event", size: 12, fields: &[("sse_type", 0, 2), ("sse_flags", 2, 2), ("sse_length", 4, 4), ("sse_assoc_id", 8, 4)] },
    Layout { name: "sctp_adaptation_event", size: 16, fields: &[("sai_type", 0, 2), ("sai_flags", 2, 2), ("sai_length", 4, 4), ("sai_adaptation_ind", 8, 4), ("sai_assoc_id", 12, 4)] },
    Layout { name: "sctp_pdapi_event", size: 24, fields: &[("pdapi_type", 0, 2), ("pdapi_flags", 2, 2), ("pdapi_length", 4, 4), ("pdapi_indication", 8, 4), ("pdapi_assoc_id", 12, 4), ("pdapi_stream", 16, 4), ("pdapi_seq", 20, 4)] },
    Layout { name: "sctp_sender_dry_event", size: 12, fields: &[("sender_dry_type", 0, 2), ("sender_dry_flags", 2, 2), ("sender_dry_length", 4, 4), ("sender_dry_assoc_id", 8, 4)] },
    Layout { name: "sctp_event_subscribe", size: 14, fields: &[("sctp_data_io_event", 0, 1), ("sctp_association_event", 1, 1), ("sctp_address_event", 2, 1), ("sctp_send_failure_event", 3, 1), ("sctp_peer_error_event", 4, 1), ("sctp_shutdown_event", 5, 1), ("sctp_partial_delivery_event", 6, 1), ("sctp_adaptation_layer_event", 7, 1), ("sctp_authentication_event", 8, 1), ("sctp_sender_dry_event", 9, 1), ("sctp_stream_reset_event", 10, 1), ("sctp_assoc_reset_event", 11, 1), ("sctp_stream_change_event", 12, 1), ("sctp_send_failure_event_event", 13, 1)] },
    Layout { name: "sctp_rtoinfo", size: 16, fields: &[("srto_assoc_id", 0, 4), ("srto_initial", 4, 4), ("srto_max", 8, 4), ("srto_min", 12, 4)] },
    Layout { name: "sctp_assocparams", size: 20, fields: &[("sasoc_assoc_id", 0, 4), ("sasoc_asocmaxrxt", 4, 2), ("sasoc_number_peer_destinations", 6, 2), ("sasoc_peer_rwnd", 8, 4), ("sasoc_local_rwnd", 12, 4), ("sasoc_cookie_life", 16, 4)] },
    Layout { name: "sctp_prim", size: 132, fields: &[("ssp_assoc_id", 0, 4), ("ssp_addr", 4, 128)] },
    Layout { name: "sctp_setpeerprim", size: 132, fields: &[("sspp_assoc_id", 0, 4), ("sspp_addr", 4, 128)] },
    Layout { name: "sctp_setadaptation", size: 4, fields: &[("ssb_adaptation_ind", 0, 4)] },
    Layout { name: "sctp_paddrparams", size: 156, fields: &[("spp_assoc_id", 0, 4), ("spp_address", 4, 128), ("spp_hbinterval", 132, 4), ("spp_pathmaxrxt", 136, 2), ("spp_pathmtu", 138, 4), ("spp_sackdelay", 142, 4), ("spp_flags", 146, 4), ("spp_ipv6_flowlabel", 150, 4), ("spp_dscp", 154, 1)] },
    Layout { name: "sctp_sack_info", size: 12, fields: &[("sack_assoc_id", 0, 4), ("sack_delay", 4, 4), ("sack_freq", 8, 4)] },
    Layout { name: "sctp_assoc_value", size: 8, fields: &[("assoc_id", 0, 4), ("assoc_value", 4, 4)] },
    Layout { name: "sctp_paddrinfo", size: 152, fields: &[("spinfo_assoc_id", 0, 4), ("spinfo_address", 4, 128), ("spinfo_state", 132, 4), ("spinfo_cwnd", 136, 4), ("spinfo_srtt", 140, 4), ("spinfo_rto", 144, 4), ("spinfo_mtu", 148, 4)] },
    Layout { name: "sctp_status", size: 176, fields: &[("sstat_assoc_id", 0, 4), ("sstat_state", 4, 4), ("sstat_rwnd", 8, 4), ("sstat_unackdata", 12, 2), ("sstat_penddata", 14, 2), ("sstat_instrms", 16, 2), ("sstat_outstrms", 18, 2), ("sstat_fragmentation_point", 20, 4), ("sstat_primary", 24, 152)] },
    Layout { name: "sctp_paddrthlds", size: 144, fields: &[("spt_assoc_id", 0, 4), ("spt_address", 8, 128), ("spt_pathmaxrxt", 136, 2), ("spt_pathpfthld", 138, 2)] },
    Layout { name: "sctp_event", size: 8, fields: &[("se_assoc_id", 0, 4), ("se_type", 4, 2), ("se_on", 6, 1)] },
    Layout { name: "sctp_udpencaps", size: 144, fields: &[("sue_assoc_id", 0, 4), ("sue_address", 8, 128), ("sue_port", 136, 2)] },
    Layout { name: "sctp_peeloff_flags_arg", size: 12, fields: &[("associd", 0, 4), ("sd", 4, 4), ("flags", 8, 4)] },
    Layout { name: "sctp_default_prinfo", size: 12, fields: &[("pr_assoc_id", 0, 4), ("pr_value", 4, 4), ("pr_policy", 8, 2)] },
    Layout { name: "sctp_prstatus", size: 24, fields: &[("sprstat_assoc_id", 0, 4), ("sprstat_sid", 4, 2), ("sprstat_policy", 6, 2), ("sprstat_abandoned_unsent", 8, 8), ("sprstat_abandoned_sent", 16, 8)] },
    Layout { name: "sctp_tlv", size: 8, fields: &[("sn_type", 0, 2), ("sn_flags", 2, 2), ("sn_length", 4, 4)] },
    Layout { name: "sctp_assoc_stats", size: 256, fields: &[("sas_assoc_id", 0, 4), ("sas_obs_rto_ipaddr", 8, 128), ("sas_maxrto", 136, 8), ("sas_isacks", 144, 8), ("sas_osacks", 152, 8), ("sas_opackets", 160, 8), ("sas_ipackets", 168, 8), ("sas_rtxchunks", 176, 8), ("sas_outofseqtsns", 184, 8), ("sas_idupchunks", 192, 8), ("sas_gapcnt", 200, 8), ("sas_ouodchunks", 208, 8), ("sas_iuodchunks", 216, 8), ("sas_oodchunks", 224, 8), ("sas_iodchunks", 232, 8), ("sas_octrlchunks", 240, 8), ("sas_ictrlchunks", 248, 8)] },
    Layout { name: "sctp_assoc_ids", size: 4, fields: &[("gaids_number_of_ids", 0, 4), ("gaids_assoc_id", 4, 0)] },
    // Of what is not here: that a call says so needs a layout all the same.
    Layout { name: "sctp_authinfo", size: 2, fields: &[("auth_keynumber", 0, 2)] },
    Layout { name: "sctp_authkey_event", size: 20, fields: &[("auth_type", 0, 2), ("auth_flags", 2, 2), ("auth_length", 4, 4), ("auth_keynumber", 8, 2), ("auth_altkeynumber", 10, 2), ("auth_indication", 12, 4), ("auth_assoc_id", 16, 4)] },
    Layout { name: "sctp_authchunk", size: 1, fields: &[("sauth_chunk", 0, 1)] },
    Layout { name: "sctp_hmacalgo", size: 4, fields: &[("shmac_number_of_idents", 0, 4), ("shmac_idents", 4, 0)] },
    Layout { name: "sctp_authkey", size: 8, fields: &[("sca_assoc_id", 0, 4), ("sca_keynumber", 4, 2), ("sca_keylength", 6, 2), ("sca_key", 8, 0)] },
    Layout { name: "sctp_authkeyid", size: 8, fields: &[("scact_assoc_id", 0, 4), ("scact_keynumber", 4, 2)] },
    Layout { name: "sctp_authchunks", size: 8, fields: &[("gauth_assoc_id", 0, 4), ("gauth_number_of_chunks", 4, 4), ("gauth_chunks", 8, 0)] },
    Layout { name: "sctp_reset_streams", size: 8, fields: &[("srs_assoc_id", 0, 4), ("srs_flags", 4, 2), ("srs_number_streams", 6, 2), ("srs_stream_list", 8, 0)] },
    Layout { name: "sctp_add_streams", size: 8, fields: &[("sas_assoc_id", 0, 4), ("sas_instrms", 4, 2), ("sas_outstrms", 6, 2)] },
    Layout { name: "sctp_stream_value", size: 8, fields: &[("assoc_id", 0, 4), ("stream_id", 4, 2), ("stream_value", 6, 2)] },
    Layout { name: "sctp_stream_reset_event", size: 12, fields: &[("strreset_type", 0, 2), ("strreset_flags", 2, 2), ("strreset_length", 4, 4), ("strreset_assoc_id", 8, 4), ("strreset_stream_list", 12, 0)] },
    Layout { name: "sctp_assoc_reset_event", size: 20, fields: &[("assocreset_type", 0, 2), ("assocreset_flags", 2, 2), ("assocreset_length", 4, 4), ("assocreset_assoc_id", 8, 4), ("assocreset_local_tsn", 12, 4), ("assocreset_remote_tsn", 16, 4)] },
    Layout { name: "sctp_stream_change_event", size: 16, fields: &[("strchange_type", 0, 2), ("strchange_flags", 2, 2), ("strchange_length", 4, 4), ("strchange_assoc_id", 8, 4), ("strchange_instrms", 12, 2), ("strchange_outstrms", 14, 2)] },
    // libsctp's own, for sctp_sendv() and sctp_recvv().
    Layout { name: "sctp_sendv_spa", size: 32, fields: &[("sendv_flags", 0, 4), ("sendv_sndinfo", 4, 16), ("sendv_prinfo", 20, 8), ("sendv_authinfo", 28, 2)] },
    Layout { name: "sctp_recvv_rn", size: 44, fields: &[("recvv_rcvinfo", 0, 28), ("recvv_nxtinfo", 28, 16)] },
];

/// Bytes of each element of what goes on to the end, where that is more than one.
const WIDE: [(&str, usize); 4] =
    [("gaids_assoc_id", 4), ("shmac_idents", 2), ("srs_stream_list", 2), ("strreset_stream_list", 2)];

/// The structure of this name.
#[must_use]
pub fn layout(name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.name == name)
}

/// The structure that has all of these fields; the first, where several do.
#[must_use]
pub fn with_fields(names: &[&str]) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| names.iter().all(|name| layout.field(name).is_some()))
}

impl Layout {
    /// Offset and size of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<(usize, usize)> {
        self.fields.iter().find(|(n, ..)| *n == name).map(|(_, at, size)| (*at, *size))
    }

    /// Offset of a field that goes on to the end, and the size of each of its elements.
    #[must_use]
    pub fn rest(&self, name: &str) -> Option<(usize, usize)> {
        let (at, _) = self.field(name).filter(|(_, size)| *size == 0)?;
        Some((at, WIDE.iter().find(|(wide, _)| *wide == name).map_or(1, |(_, size)| *size)))
    }

    /// A field as a number; 0 where the bytes end before it.
    #[must_use]
    pub fn number(&self, bytes: &[u8], name: &str) -> u64 {
        let Some((at, size @ 1..=8)) = self.field(name) else { return 0 };
        let Some(field) = bytes.get(at..at + size) else { return 0 };
        field.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }

    /// An address field; `None` for AF_UNSPEC and what is no address.
    #[must_use]
    pub fn address(&self, bytes: &[u8], name: &str) -> Option<SocketAddr> {
        let (at, _) = self.field(name)?;
        sockaddr(bytes.get(at..)?)
    }

    /// Writes a number into a field, as much of it as fits.
    pub fn put(&self, bytes: &mut [u8], name: &str, number: u64) {
        let Some((at, size @ 1..=8)) = self.field(name) else { return };
        if let Some(field) = bytes.get_mut(at..at + size) {
            field.copy_from_slice(&number.to_le_bytes()[..size]);
        }
    }

    /// Writes an address into a field.
    pub fn put_address(&self, bytes: &mut [u8], name: &str, address: SocketAddr) {
        let Some((at, _)) = self.field(name) else { return };
        let written = sockaddr_bytes(address);
        if let Some(field) = bytes.get_mut(at..at + written.len()) {
            field.copy_from_slice(&written);
        }
    }

    /// The structure with these numbers and zeros in all other fields.
    #[must_use]
    pub fn build(&self, numbers: &[(&str, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; self.size];
        for (name, number) in numbers {
            debug_assert!(self.field(name).is_some(), "{} has no field {name}", self.name);
            self.put(&mut bytes, name, *number);
        }
        bytes
    }
}

/// AF_INET, AF_INET6.
const FAMILIES: (u16, u16) = (2, 10);

/// A `struct sockaddr_in` or `sockaddr_in6` at the front of `bytes`.
#[must_use]
pub fn sockaddr(bytes: &[u8]) -> Option<SocketAddr> {
    let &[f0, f1, p0, p1, ref rest @ ..] = bytes else { return None };
    let port = u16::from_be_bytes([p0, p1]);
    let family = u16::from_le_bytes([f0, f1]);
    let ip: IpAddr = if family == FAMILIES.0 {
        Ipv4Addr::from_octets(*rest.first_chunk()?).into()
    } else if family == FAMILIES.1 {
        Ipv6Addr::from_octets(*rest.get(4..)?.first_chunk()?).into()
    } else {
        return None;
    };
    Some(SocketAddr::new(ip, port))
}

/// The bytes of a `struct sockaddr_in` or `sockaddr_in6`, 16 or 28 of them.
#[must_use]
pub fn sockaddr_bytes(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    let family = if address.is_ipv4() { FAMILIES.0 } else { FAMILIES.1 };
    bytes.extend(family.to_le_bytes());
    bytes.extend(address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes.extend(ip.octets());
            bytes.resize(16, 0);
        }
        IpAddr::V6(ip) => {
            bytes.extend([0; 4]);
            bytes.extend(ip.octets());
            bytes.extend([0; 4]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    //! Structures are read as they were written.
    use super::*;

    #[test]
    fn fields_lie_within_their_structures_and_do_not_overlap() {
        for layout in LAYOUTS {
            let mut end = 0;
            for (n, (name, at, size)) in layout.fields.iter().enumerate() {
                let last = n + 1 == layout.fields.len() && *at == layout.size;
                assert!(*at >= end && (*size > 0 || last), "{} {name}", layout.name);
                end = at + size;
            }
            assert!(end <= layout.size, "{}", layout.name);
        }
    }

    #[test]
    fn numbers_and_addresses_survive() {
        let params = layout("sctp_paddrparams").expect("known");
        let mut bytes =
            params.build(&[("spp_hbinterval", 30_000), ("spp_pathmaxrxt", 5), ("spp_flags", 0x29)]);
        assert_eq!(bytes.len(), 156);
        for address in ["10.0.0.1:80", "[fd00::1]:80"].map(|a| a.parse::<SocketAddr>().expect("an address")) {
            params.put_address(&mut bytes, "spp_address", address);
            assert_eq!(params.address(&bytes, "spp_address"), Some(address));
        }
        let read = |name| params.number(&bytes, name);
        assert_eq!((read("spp_hbinterval"), read("spp_pathmaxrxt"), read("spp_flags")), (30_000, 5, 0x29));
        // packed: the flags stand right behind a number of four bytes at an odd place.
        assert_eq!(params.field("spp_flags"), Some((146, 4)));
        assert_eq!(params.number(&bytes[..140], "spp_flags"), 0);
    }

    #[test]
    fn a_structure_is_found_by_its_fields() {
        let found = |names: &[&str]| with_fields(names).map(|l| l.name);
        assert_eq!(found(&["srto_min", "srto_max"]), Some("sctp_rtoinfo"));
        assert_eq!(found(&["assoc_id", "assoc_value"]), Some("sctp_assoc_value"));
        assert_eq!(found(&["srto_min", "sinfo_tsn"]), None);
        assert_eq!(found(&["auth_keynumber"]), Some("sctp_authinfo"));
        assert_eq!(found(&["auth_type", "auth_keynumber"]), Some("sctp_authkey_event"));
        let ids = layout("sctp_assoc_ids").expect("known");
        assert_eq!((ids.rest("gaids_assoc_id"), ids.rest("gaids_number_of_ids")), (Some((4, 4)), None));
    }
}
