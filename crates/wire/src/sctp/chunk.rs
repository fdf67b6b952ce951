//! Chunks of the types that this stack knows.
use super::{
    CHUNK_HEADER_LEN, DATA_HEADER_LEN, DataRepr, ForwardStream, I_DATA_HEADER_LEN, IDataRepr, IForwardStream,
    Init, RawChunk, Sack, Tlvs, chunk_kind as kind, init, padded,
};
use crate::Malformed;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The T flag of ABORT and SHUTDOWN COMPLETE: the tag is the sender's, as it was in the packet that is answered.
const T: u8 = 1;

/// A chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// DATA with its user data.
    Data(DataRepr, &'a [u8]),
    /// I-DATA with its user data.
    IData(IDataRepr, &'a [u8]),
    /// INIT.
    Init(Init<'a>),
    /// INIT ACK.
    InitAck(Init<'a>),
    /// SACK.
    Sack(Sack<'a>),
    /// HEARTBEAT: to be sent back as it is.
    Heartbeat(Tlvs<'a>),
    /// HEARTBEAT ACK.
    HeartbeatAck(Tlvs<'a>),
    /// ABORT: the T bit and why.
    Abort(bool, Tlvs<'a>),
    /// SHUTDOWN with the cumulative TSN acknowledgement.
    Shutdown(u32),
    /// SHUTDOWN ACK.
    ShutdownAck,
    /// ERROR: what is wrong.
    Error(Tlvs<'a>),
    /// COOKIE ECHO.
    CookieEcho(&'a [u8]),
    /// COOKIE ACK.
    CookieAck,
    /// ECNE with the lowest TSN of the marked packet.
    Ecne(u32),
    /// CWR with the lowest TSN that led to the reduction.
    Cwr(u32),
    /// SHUTDOWN COMPLETE with the T bit.
    ShutdownComplete(bool),
    /// AUTH.
    Auth {
        /// Shared key identifier.
        key: u16,
        /// HMAC identifier.
        algorithm: u16,
        /// HMAC.
        hmac: &'a [u8],
    },
    /// ASCONF: serial number, then the address parameter and the requests.
    Asconf(u32, Tlvs<'a>),
    /// ASCONF ACK: serial number and responses.
    AsconfAck(u32, Tlvs<'a>),
    /// RE-CONFIG: requests or responses.
    ReConfig(Tlvs<'a>),
    /// PAD with so many bytes.
    Pad(&'a [u8]),
    /// FORWARD TSN: new cumulative TSN and the streams concerned.
    ForwardTsn(u32, &'a [ForwardStream]),
    /// I-FORWARD-TSN: new cumulative TSN and the streams concerned.
    IForwardTsn(u32, &'a [IForwardStream]),
    /// Any other.
    Other(RawChunk<'a>),
}

impl<'a> Chunk<'a> {
    /// What is in a chunk. Reserved flags are ignored, and bytes that its type has no use for.
    ///
    /// # Errors
    /// When it is shorter than its type demands.
    #[inline]
    pub fn parse(raw: &RawChunk<'a>) -> Result<Self, Malformed> {
        let value = raw.value();
        let t = raw.flags() & T != 0;
        Ok(match raw.kind() {
            kind::DATA => {
                let (header, data) = DataRepr::parse(raw.bytes())?;
                Self::Data(header, data)
            }
            kind::I_DATA => {
                let (header, data) = IDataRepr::parse(raw.bytes())?;
                Self::IData(header, data)
            }
            kind::SACK => Self::Sack(Sack::parse(value)?),
            kind::INIT => Self::Init(Init::parse(value)?),
            kind::INIT_ACK => Self::InitAck(Init::parse(value)?),
            kind::HEARTBEAT => Self::Heartbeat(Tlvs::new(value)),
            kind::HEARTBEAT_ACK => Self::HeartbeatAck(Tlvs::new(value)),
            kind::ABORT => Self::Abort(t, Tlvs::new(value)),
            kind::SHUTDOWN => Self::Shutdown(number(value)?.0),
            kind::SHUTDOWN_ACK => Self::ShutdownAck,
            kind::ERROR => Self::Error(Tlvs::new(value)),
            kind::COOKIE_ECHO => Self::CookieEcho(value),
            kind::COOKIE_ACK => Self::CookieAck,
            kind::ECNE => Self::Ecne(number(value)?.0),
            kind::CWR => Self::Cwr(number(value)?.0),
            kind::SHUTDOWN_COMPLETE => Self::ShutdownComplete(t),
            _ => return Self::parse_extension(raw),
        })
    }

    fn parse_extension(raw: &RawChunk<'a>) -> Result<Self, Malformed> {
        let value = raw.value();
        Ok(match raw.kind() {
            kind::AUTH => {
                let (ids, hmac) = number(value)?;
                Self::Auth { key: (ids >> 16) as u16, algorithm: ids as u16, hmac }
            }
            kind::ASCONF => {
                let (serial, rest) = number(value)?;
                Self::Asconf(serial, Tlvs::new(rest))
            }
            kind::ASCONF_ACK => {
                let (serial, rest) = number(value)?;
                Self::AsconfAck(serial, Tlvs::new(rest))
            }
            kind::RE_CONFIG => Self::ReConfig(Tlvs::new(value)),
            kind::PAD => Self::Pad(value),
            kind::FORWARD_TSN => {
                let (tsn, rest) = number(value)?;
                Self::ForwardTsn(tsn, list(rest))
            }
            kind::I_FORWARD_TSN => {
                let (tsn, rest) = number(value)?;
                Self::IForwardTsn(tsn, list(rest))
            }
            _ => Self::Other(*raw),
        })
    }

    /// Type and flags.
    fn head(&self) -> (u8, u8) {
        match self {
            Self::Data(header, _) => (kind::DATA, header.flags.bits()),
            Self::IData(header, _) => (kind::I_DATA, header.flags.bits()),
            Self::Init(_) => (kind::INIT, 0),
            Self::InitAck(_) => (kind::INIT_ACK, 0),
            Self::Sack(_) => (kind::SACK, 0),
            Self::Heartbeat(_) => (kind::HEARTBEAT, 0),
            Self::HeartbeatAck(_) => (kind::HEARTBEAT_ACK, 0),
            Self::Abort(t, _) => (kind::ABORT, u8::from(*t)),
            Self::Shutdown(_) => (kind::SHUTDOWN, 0),
            Self::ShutdownAck => (kind::SHUTDOWN_ACK, 0),
            Self::Error(_) => (kind::ERROR, 0),
            Self::CookieEcho(_) => (kind::COOKIE_ECHO, 0),
            Self::CookieAck => (kind::COOKIE_ACK, 0),
            Self::Ecne(_) => (kind::ECNE, 0),
            Self::Cwr(_) => (kind::CWR, 0),
            Self::ShutdownComplete(t) => (kind::SHUTDOWN_COMPLETE, u8::from(*t)),
            Self::Auth { .. } => (kind::AUTH, 0),
            Self::Asconf(..) => (kind::ASCONF, 0),
            Self::AsconfAck(..) => (kind::ASCONF_ACK, 0),
            Self::ReConfig(_) => (kind::RE_CONFIG, 0),
            Self::Pad(_) => (kind::PAD, 0),
            Self::ForwardTsn(..) => (kind::FORWARD_TSN, 0),
            Self::IForwardTsn(..) => (kind::I_FORWARD_TSN, 0),
            Self::Other(raw) => (raw.kind(), raw.flags()),
        }
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.head().0
    }

    /// Its length field: header and value without padding.
    #[must_use]
    pub const fn stated_len(&self) -> usize {
        CHUNK_HEADER_LEN
            + match self {
                Self::Data(_, data) => DATA_HEADER_LEN - CHUNK_HEADER_LEN + data.len(),
                Self::IData(_, data) => I_DATA_HEADER_LEN - CHUNK_HEADER_LEN + data.len(),
                Self::Init(init) | Self::InitAck(init) => init::FIXED_LEN + init.params.bytes().len(),
                Self::Sack(sack) => sack.value_len(),
                Self::Heartbeat(tlvs)
                | Self::HeartbeatAck(tlvs)
                | Self::Abort(_, tlvs)
                | Self::Error(tlvs)
                | Self::ReConfig(tlvs) => tlvs.bytes().len(),
                Self::Asconf(_, tlvs) | Self::AsconfAck(_, tlvs) => 4 + tlvs.bytes().len(),
                Self::CookieEcho(bytes) | Self::Pad(bytes) => bytes.len(),
                Self::Auth { hmac, .. } => 4 + hmac.len(),
                Self::Shutdown(_) | Self::Ecne(_) | Self::Cwr(_) => 4,
                Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete(_) => 0,
                Self::ForwardTsn(_, streams) => 4 + size_of_val(*streams),
                Self::IForwardTsn(_, streams) => 4 + size_of_val(*streams),
                Self::Other(raw) => raw.bytes().len() - CHUNK_HEADER_LEN,
            }
    }

    /// Bytes that [`Self::emit`] writes: the chunk and its padding.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        padded(self.stated_len())
    }

    /// Writes the chunk and its padding to the front of `buffer`. A chunk longer than 65,535 bytes has no right length field: what
    /// fits a packet never is.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let len = self.stated_len();
        let (kind, flags) = self.head();
        let (chunk, padding) = buffer[..padded(len)].split_at_mut(len);
        padding.fill(0);
        let (head, value) = chunk.split_at_mut(CHUNK_HEADER_LEN);
        let [a, b] = (len as u16).to_be_bytes();
        head.copy_from_slice(&[kind, flags, a, b]);
        match self {
            Self::Data(header, data) => {
                header.emit(data.len(), chunk);
                chunk[DATA_HEADER_LEN..].copy_from_slice(data);
            }
            Self::IData(header, data) => {
                header.emit(data.len(), chunk);
                chunk[I_DATA_HEADER_LEN..].copy_from_slice(data);
            }
            Self::Init(init) | Self::InitAck(init) => init.emit(value),
            Self::Sack(sack) => sack.emit(value),
            Self::Heartbeat(tlvs)
            | Self::HeartbeatAck(tlvs)
            | Self::Abort(_, tlvs)
            | Self::Error(tlvs)
            | Self::ReConfig(tlvs) => value.copy_from_slice(tlvs.bytes()),
            Self::Asconf(serial, tlvs) | Self::AsconfAck(serial, tlvs) => put(value, *serial, tlvs.bytes()),
            Self::CookieEcho(bytes) | Self::Pad(bytes) => value.copy_from_slice(bytes),
            Self::Auth { key, algorithm, hmac } => {
                put(value, u32::from(*key) << 16 | u32::from(*algorithm), hmac);
            }
            Self::Shutdown(tsn) | Self::Ecne(tsn) | Self::Cwr(tsn) => put(value, *tsn, &[]),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete(_) => {}
            Self::ForwardTsn(tsn, streams) => put(value, *tsn, streams.as_bytes()),
            Self::IForwardTsn(tsn, streams) => put(value, *tsn, streams.as_bytes()),
            Self::Other(raw) => value.copy_from_slice(raw.value()),
        }
    }
}

/// The first word of `bytes` and what follows it.
fn number(bytes: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let (word, rest) = bytes.split_first_chunk::<4>().ok_or(Malformed::Truncated)?;
    Ok((u32::from_be_bytes(*word), rest))
}

/// As many whole elements as there are.
fn list<T: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8]) -> &[T] {
    let whole = bytes.len() / size_of::<T>();
    <[T]>::ref_from_prefix_with_elems(bytes, whole).map_or(&[], |(list, _)| list)
}

fn put(out: &mut [u8], word: u32, rest: &[u8]) {
    let (head, tail) = out.split_at_mut(4);
    head.copy_from_slice(&word.to_be_bytes());
    tail.copy_from_slice(rest);
}
