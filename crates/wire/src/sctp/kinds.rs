//! The numbers of chunks, parameters and causes, and what to do with those that nobody knows (RFC 9260 sections 3.2 and 3.2.1).

/// Chunk types.
pub mod chunk_kind {
    /// Payload data.
    pub const DATA: u8 = 0;
    /// Initiation.
    pub const INIT: u8 = 1;
    /// Initiation acknowledgement.
    pub const INIT_ACK: u8 = 2;
    /// Selective acknowledgement.
    pub const SACK: u8 = 3;
    /// Heartbeat request.
    pub const HEARTBEAT: u8 = 4;
    /// Heartbeat acknowledgement.
    pub const HEARTBEAT_ACK: u8 = 5;
    /// Abort.
    pub const ABORT: u8 = 6;
    /// Shutdown.
    pub const SHUTDOWN: u8 = 7;
    /// Shutdown acknowledgement.
    pub const SHUTDOWN_ACK: u8 = 8;
    /// Operation error.
    pub const ERROR: u8 = 9;
    /// State cookie.
    pub const COOKIE_ECHO: u8 = 10;
    /// Cookie acknowledgement.
    pub const COOKIE_ACK: u8 = 11;
    /// Explicit congestion notification echo (RFC 9260 appendix A).
    pub const ECNE: u8 = 12;
    /// Congestion window reduced (RFC 9260 appendix A).
    pub const CWR: u8 = 13;
    /// Shutdown complete.
    pub const SHUTDOWN_COMPLETE: u8 = 14;
    /// Authentication (RFC 4895).
    pub const AUTH: u8 = 15;
    /// Payload data of interleaved messages (RFC 8260).
    pub const I_DATA: u8 = 64;
    /// Address configuration acknowledgement (RFC 5061).
    pub const ASCONF_ACK: u8 = 128;
    /// Stream reconfiguration (RFC 6525).
    pub const RE_CONFIG: u8 = 130;
    /// Padding (RFC 4820).
    pub const PAD: u8 = 132;
    /// New cumulative TSN (RFC 3758).
    pub const FORWARD_TSN: u8 = 192;
    /// Address configuration (RFC 5061).
    pub const ASCONF: u8 = 193;
    /// New cumulative TSN of interleaved messages (RFC 8260).
    pub const I_FORWARD_TSN: u8 = 194;
}

/// Parameter types.
pub mod param_kind {
    /// What a heartbeat brings back.
    pub const HEARTBEAT_INFO: u16 = 1;
    /// IPv4 address.
    pub const IPV4: u16 = 5;
    /// IPv6 address.
    pub const IPV6: u16 = 6;
    /// State cookie.
    pub const STATE_COOKIE: u16 = 7;
    /// Unrecognized parameter.
    pub const UNRECOGNIZED: u16 = 8;
    /// Cookie preservative.
    pub const COOKIE_PRESERVATIVE: u16 = 9;
    /// Host name address, not to be sent any more (RFC 9260 section 3.3.2.1.4).
    pub const HOST_NAME: u16 = 11;
    /// Supported address types.
    pub const SUPPORTED_ADDRESS_TYPES: u16 = 12;
    /// Outgoing SSN reset request (RFC 6525 section 4.1).
    pub const OUTGOING_RESET: u16 = 13;
    /// Incoming SSN reset request (RFC 6525 section 4.2).
    pub const INCOMING_RESET: u16 = 14;
    /// SSN and TSN reset request (RFC 6525 section 4.3).
    pub const TSN_RESET: u16 = 15;
    /// Reconfiguration response (RFC 6525 section 4.4).
    pub const RESET_RESPONSE: u16 = 16;
    /// Add outgoing streams request (RFC 6525 section 4.5).
    pub const ADD_OUTGOING: u16 = 17;
    /// Add incoming streams request (RFC 6525 section 4.6).
    pub const ADD_INCOMING: u16 = 18;
    /// ECN capable (RFC 9260 appendix A).
    pub const ECN_CAPABLE: u16 = 0x8000;
    /// Zero checksum acceptable (RFC 9653).
    pub const ZERO_CHECKSUM: u16 = 0x8001;
    /// Random number of authentication (RFC 4895).
    pub const RANDOM: u16 = 0x8002;
    /// Chunks to be authenticated (RFC 4895).
    pub const CHUNK_LIST: u16 = 0x8003;
    /// Algorithms of authentication (RFC 4895).
    pub const HMAC_ALGORITHMS: u16 = 0x8004;
    /// Padding (RFC 4820).
    pub const PADDING: u16 = 0x8005;
    /// Supported extensions (RFC 5061 section 4.2.7).
    pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
    /// FORWARD TSN supported (RFC 3758 section 3.1).
    pub const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
    /// Add an address (RFC 5061).
    pub const ADD_IP: u16 = 0xc001;
    /// Delete an address (RFC 5061).
    pub const DELETE_IP: u16 = 0xc002;
    /// Error cause indication (RFC 5061).
    pub const ERROR_CAUSE: u16 = 0xc003;
    /// Set the primary address (RFC 5061).
    pub const SET_PRIMARY: u16 = 0xc004;
    /// Success indication (RFC 5061).
    pub const SUCCESS: u16 = 0xc005;
    /// Adaptation layer indication (RFC 5061 section 4.2.6).
    pub const ADAPTATION: u16 = 0xc006;
}

/// Codes of error causes.
pub mod cause_kind {
    /// Invalid stream identifier.
    pub const INVALID_STREAM: u16 = 1;
    /// Missing mandatory parameter.
    pub const MISSING_PARAMS: u16 = 2;
    /// Stale cookie.
    pub const STALE_COOKIE: u16 = 3;
    /// Out of resource.
    pub const OUT_OF_RESOURCE: u16 = 4;
    /// Unresolvable address.
    pub const UNRESOLVABLE_ADDRESS: u16 = 5;
    /// Unrecognized chunk type.
    pub const UNRECOGNIZED_CHUNK: u16 = 6;
    /// Invalid mandatory parameter.
    pub const INVALID_MANDATORY: u16 = 7;
    /// Unrecognized parameters.
    pub const UNRECOGNIZED_PARAMS: u16 = 8;
    /// No user data.
    pub const NO_USER_DATA: u16 = 9;
    /// Cookie received while shutting down.
    pub const COOKIE_IN_SHUTDOWN: u16 = 10;
    /// Restart of an association with new addresses.
    pub const RESTART: u16 = 11;
    /// User-initiated abort.
    pub const USER_ABORT: u16 = 12;
    /// Protocol violation.
    pub const PROTOCOL_VIOLATION: u16 = 13;
    /// Restart of an association with another UDP port (draft-tuexen-tsvwg-sctp-udp-encaps-cons section 3).
    pub const NEW_ENCAP_PORT: u16 = 14;
    /// Request to delete the last address (RFC 5061 section 4.3.1).
    pub const DELETE_LAST_ADDRESS: u16 = 0xa0;
    /// Operation refused for lack of resources (RFC 5061 section 4.3.2).
    pub const NO_RESOURCE: u16 = 0xa1;
    /// Request to delete the source address (RFC 5061 section 4.3.3).
    pub const DELETE_SOURCE_ADDRESS: u16 = 0xa2;
    /// Association aborted for an illegal ASCONF ACK (RFC 5061 section 4.3.4).
    pub const ILLEGAL_ASCONF_ACK: u16 = 0xa3;
    /// Request refused, no authorization (RFC 5061 section 4.3.5).
    pub const NOT_AUTHORIZED: u16 = 0xa4;
    /// Unsupported algorithm of authentication (RFC 4895).
    pub const UNSUPPORTED_HMAC: u16 = 0x105;
}

/// What the two highest bits of a type ask of a receiver that does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// 00: stop at it, in silence.
    Stop,
    /// 01: stop at it and report it.
    StopReport,
    /// 10: go on with the next, in silence.
    Skip,
    /// 11: go on with the next and report it.
    SkipReport,
}

impl Unknown {
    /// For a chunk of this type.
    #[must_use]
    pub const fn chunk(kind: u8) -> Self {
        Self::class(kind >> 6)
    }

    /// For a parameter of this type.
    #[must_use]
    pub const fn param(kind: u16) -> Self {
        Self::class((kind >> 14) as u8)
    }

    const fn class(bits: u8) -> Self {
        match bits {
            0 => Self::Stop,
            1 => Self::StopReport,
            2 => Self::Skip,
            _ => Self::SkipReport,
        }
    }

    /// Nothing behind it counts: the rest of the packet, or of the chunk.
    #[must_use]
    pub const fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::StopReport)
    }

    /// The sender is to be told.
    #[must_use]
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopReport | Self::SkipReport)
    }
}
