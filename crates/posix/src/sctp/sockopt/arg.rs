//! The structure of an option, as the caller gave it and as it goes back to him.
use crate::errno::Errno;
use crate::sctp::layout::{Layout, layout};
use core::net::{IpAddr, SocketAddr};

/// A structure with its bytes.
#[derive(Clone, Debug)]
pub(super) struct Arg {
    of: &'static Layout,
    bytes: Vec<u8>,
}

impl Arg {
    /// # Errors
    /// EINVAL for less than the structure.
    pub(super) fn new(name: &str, bytes: &[u8]) -> Result<Self, Errno> {
        let of = layout(name).ok_or(Errno::EINVAL)?;
        let bytes = bytes.get(..of.size).ok_or(Errno::EINVAL)?.to_vec();
        Ok(Self { of, bytes })
    }

    /// The same where the caller may know less of the structure than there is: zeros follow.
    ///
    /// # Errors
    /// EINVAL for less than `least` bytes.
    pub(super) fn padded(name: &str, bytes: &[u8], least: usize) -> Result<Self, Errno> {
        let of = layout(name).ok_or(Errno::EINVAL)?;
        if bytes.len() < least {
            return Err(Errno::EINVAL);
        }
        let mut bytes = bytes.to_vec();
        bytes.resize(of.size, 0);
        Ok(Self { of, bytes })
    }

    pub(super) const fn layout(&self) -> &'static Layout {
        self.of
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A field as a number.
    pub(super) fn n(&self, field: &str) -> u32 {
        self.of.number(&self.bytes, field) as u32
    }

    /// A field as an address; `None` where it names none.
    pub(super) fn address(&self, field: &str) -> Option<SocketAddr> {
        let address = self.of.address(&self.bytes, field)?;
        let ip: IpAddr = address.ip().to_canonical();
        (!ip.is_unspecified()).then(|| SocketAddr::new(ip, address.port()))
    }

    /// Fills fields in.
    pub(super) fn put(mut self, numbers: &[(&str, u64)]) -> Self {
        for (field, number) in numbers {
            self.of.put(&mut self.bytes, field, *number);
        }
        self
    }

    pub(super) fn put_address(mut self, field: &str, address: SocketAddr) -> Self {
        self.of.put_address(&mut self.bytes, field, address);
        self
    }

    /// Writes a structure into a field.
    pub(super) fn put_bytes(mut self, field: &str, bytes: &[u8]) -> Self {
        if let Some((at, size)) = self.of.field(field)
            && let Some(place) = self.bytes.get_mut(at..at + size)
            && let Some(bytes) = bytes.get(..size)
        {
            place.copy_from_slice(bytes);
        }
        self
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A value of four bytes or more.
///
/// # Errors
/// EINVAL for less.
pub(super) fn int(bytes: &[u8]) -> Result<i32, Errno> {
    bytes.first_chunk::<4>().map(|b| i32::from_le_bytes(*b)).ok_or(Errno::EINVAL)
}

/// A number that changes nothing when it is zero.
pub(super) const fn or_keep(n: u32, before: u32) -> u32 {
    if n == 0 { before } else { n }
}
