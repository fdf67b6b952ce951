//! Compact bytes for the journal: variable-length numbers, length-prefixed strings, addresses.
use lowwater_core::base::{Duration, SocketId};
use slotmap::{Key, KeyData};
use std::net::{IpAddr, SocketAddr};

/// Writes values.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
}

impl Encoder {
    /// LEB128.
    pub(super) fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }
    pub(super) fn flag(&mut self, on: bool) {
        self.bytes.push(u8::from(on));
    }
    pub(super) fn slice(&mut self, b: &[u8]) {
        self.number(b.len() as u64);
        self.bytes.extend_from_slice(b);
    }
    pub(super) fn ip(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(a) => self.slice(&a.octets()),
            IpAddr::V6(a) => self.slice(&a.octets()),
        }
    }
    pub(super) fn addr(&mut self, a: SocketAddr) {
        self.ip(a.ip());
        self.number(a.port().into());
    }
    pub(super) fn socket(&mut self, id: SocketId) {
        self.number(id.data().as_ffi());
    }
    pub(super) fn optional(&mut self, n: Option<u64>) {
        self.number(n.map_or(0, |n| n.saturating_add(1)));
    }
    pub(super) fn duration(&mut self, d: Option<Duration>) {
        self.optional(d.map(lowwater_core::base::time::nanos));
    }
}

/// Reads them back; `None` at a damaged place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder<'a> {
    pub(super) bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            n |= u64::from(b & 0x7f) << shift;
            if b & 0x80 == 0 {
                return Some(n);
            }
        }
        None
    }
    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }
    pub(super) fn flag(&mut self) -> Option<bool> {
        Some(self.byte()? != 0)
    }
    pub(super) fn slice(&mut self) -> Option<&'a [u8]> {
        let n: usize = self.small()?;
        let (b, rest) = self.bytes.split_at_checked(n)?;
        self.bytes = rest;
        Some(b)
    }
    pub(super) fn ip(&mut self) -> Option<IpAddr> {
        let b = self.slice()?;
        match b.len() {
            4 => <[u8; 4]>::try_from(b).ok().map(IpAddr::from),
            16 => <[u8; 16]>::try_from(b).ok().map(IpAddr::from),
            _ => None,
        }
    }
    pub(super) fn addr(&mut self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.ip()?, self.small()?))
    }
    pub(super) fn socket(&mut self) -> Option<SocketId> {
        Some(KeyData::from_ffi(self.number()?).into())
    }
    pub(super) fn optional(&mut self) -> Option<Option<u64>> {
        Some(self.number()?.checked_sub(1))
    }
    pub(super) fn duration(&mut self) -> Option<Option<Duration>> {
        Some(self.optional()?.map(Duration::from_nanos))
    }
}
