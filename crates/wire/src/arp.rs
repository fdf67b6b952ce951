//! The Address Resolution Protocol for IPv4 over Ethernet (RFC 826).
use crate::Malformed;
use crate::ether::{EtherAddr, TYPE_IPV4};
use core::net::Ipv4Addr;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a message for IPv4 over Ethernet.
pub const MESSAGE_LEN: usize = 28;

const HARDWARE_ETHERNET: u16 = 1;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Message {
    hardware: U16,
    protocol: U16,
    hardware_len: u8,
    protocol_len: u8,
    operation: U16,
    sender_mac: [u8; 6],
    sender_ip: [u8; 4],
    target_mac: [u8; 6],
    target_ip: [u8; 4],
}

/// An ARP message for IPv4 over Ethernet. Bytes past it are link padding.
#[derive(Clone, Copy)]
pub struct ArpView<'a> {
    message: &'a Message,
}

impl<'a> ArpView<'a> {
    /// Checks length and kinds of address.
    ///
    /// # Errors
    /// When it is cut short, or for other kinds of address.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (message, _) = Message::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let ours = message.hardware.get() == HARDWARE_ETHERNET
            && message.protocol.get() == TYPE_IPV4
            && (message.hardware_len, message.protocol_len) == (6, 4);
        if ours { Ok(Self { message }) } else { Err(Malformed::Unsupported) }
    }

    /// The operation's number.
    #[must_use]
    pub fn operation(&self) -> u16 {
        self.message.operation.get()
    }

    /// Link address of the sender.
    #[must_use]
    pub fn sender_mac(&self) -> EtherAddr {
        EtherAddr(self.message.sender_mac)
    }

    /// IPv4 address of the sender; unspecified in a probe (RFC 5227).
    #[must_use]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.message.sender_ip)
    }

    /// Link address of the target; meaningless in a request.
    #[must_use]
    pub fn target_mac(&self) -> EtherAddr {
        EtherAddr(self.message.target_mac)
    }

    /// IPv4 address of the target.
    #[must_use]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.message.target_ip)
    }
}

/// What an ARP message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOperation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

/// An ARP message for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpRepr {
    /// Request or reply.
    pub operation: ArpOperation,
    /// Link address of the sender.
    pub sender_mac: EtherAddr,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Link address of the target; zero in a request.
    pub target_mac: EtherAddr,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl ArpRepr {
    /// The message's fields.
    ///
    /// # Errors
    /// For operations other than request and reply.
    pub fn parse(view: &ArpView<'_>) -> Result<Self, Malformed> {
        let operation = match view.operation() {
            REQUEST => ArpOperation::Request,
            REPLY => ArpOperation::Reply,
            _ => return Err(Malformed::Unsupported),
        };
        Ok(Self {
            operation,
            sender_mac: view.sender_mac(),
            sender_ip: view.sender_ip(),
            target_mac: view.target_mac(),
            target_ip: view.target_ip(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        MESSAGE_LEN
    }

    /// Writes the message to the front of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let operation = match self.operation {
            ArpOperation::Request => REQUEST,
            ArpOperation::Reply => REPLY,
        };
        let message = Message {
            hardware: HARDWARE_ETHERNET.into(),
            protocol: TYPE_IPV4.into(),
            hardware_len: 6,
            protocol_len: 4,
            operation: operation.into(),
            sender_mac: self.sender_mac.0,
            sender_ip: self.sender_ip.octets(),
            target_mac: self.target_mac.0,
            target_ip: self.target_ip.octets(),
        };
        buffer[..MESSAGE_LEN].copy_from_slice(message.as_bytes());
    }
}

#[cfg(test)]
mod tests;
