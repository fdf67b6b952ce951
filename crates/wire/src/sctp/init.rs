//! INIT and INIT ACK (RFC 9260 sections 3.3.2 and 3.3.3), which have one layout.
use super::Tlvs;
use crate::Malformed;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    initiate_tag: U32,
    a_rwnd: U32,
    outbound: U16,
    inbound: U16,
    initial_tsn: U32,
}

/// What follows the chunk's header in an INIT or an INIT ACK. Which values are forbidden (a tag or a number of streams of zero) is
/// for the association to judge, since each has an answer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// Initiate tag: the verification tag of packets to the sender.
    pub initiate_tag: u32,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// Number of outbound streams.
    pub outbound_streams: u16,
    /// Maximum of inbound streams.
    pub inbound_streams: u16,
    /// Initial TSN.
    pub initial_tsn: u32,
    /// Parameters.
    pub params: Tlvs<'a>,
}

/// Length of the part without parameters.
pub(super) const FIXED_LEN: usize = size_of::<Raw>();

impl<'a> Init<'a> {
    pub(super) fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let (raw, params) = Raw::ref_from_prefix(value).map_err(|_| Malformed::Truncated)?;
        Ok(Self {
            initiate_tag: raw.initiate_tag.get(),
            a_rwnd: raw.a_rwnd.get(),
            outbound_streams: raw.outbound.get(),
            inbound_streams: raw.inbound.get(),
            initial_tsn: raw.initial_tsn.get(),
            params: Tlvs::new(params),
        })
    }

    pub(super) fn emit(&self, out: &mut [u8]) {
        let raw = Raw {
            initiate_tag: self.initiate_tag.into(),
            a_rwnd: self.a_rwnd.into(),
            outbound: self.outbound_streams.into(),
            inbound: self.inbound_streams.into(),
            initial_tsn: self.initial_tsn.into(),
        };
        let (fixed, params) = out.split_at_mut(FIXED_LEN);
        fixed.copy_from_slice(raw.as_bytes());
        params.copy_from_slice(self.params.bytes());
    }
}
