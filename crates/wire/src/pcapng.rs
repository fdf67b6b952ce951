//! Blocks of a pcapng file with stamps in nanoseconds, little-endian (draft-ietf-opsawg-pcapng): a section header, a description of each
//! interface, then the packets.
//!
//! It is our own, and the crate pcap-file reads it in tests. As a dependency that would bring users of the facade some nine crates, syn 1 and
//! syn 3 beside its syn 2 among them, and a release candidate pinned by `=`, for three kinds of blocks; its last release proper is of February 2023.

/// Types of blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Codes of options; each kind of block has its own from 2 on.
const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const OPT_SHB_USERAPPL: u16 = 4;
const OPT_IF_NAME: u16 = 2;
const OPT_IF_TSRESOL: u16 = 9;
const OPT_EPB_FLAGS: u16 = 2;

/// Type and length before the body, and the length again behind it.
const FRAME: usize = 12;
/// Bytes of an option at the most; a text that is longer is cut, not inside a character: readers take no option for text that is no UTF-8.
const OPTION_MAX: usize = u16::MAX as usize;

/// Link types.
pub const LINKTYPE_ETHERNET: u16 = 1;
/// Packets begin with the IP header.
pub const LINKTYPE_RAW: u16 = 101;

/// Which way a packet went, as seen from its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// A block; texts that are empty are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// The first one of a file.
    Section {
        /// The program that writes it.
        application: &'a str,
        /// Anything.
        comment: &'a str,
    },
    /// An interface, whose packets come behind it; packets name it by its number in the order of the file.
    Interface {
        /// What its packets begin with.
        link: u16,
        /// Its name.
        name: &'a str,
    },
    /// A packet.
    Packet(PacketBlock<'a>),
}

/// A packet as a capture has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketBlock<'a> {
    /// The number of its interface.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Which way it went.
    pub direction: Direction,
    /// Its bytes, in two parts.
    pub data: [&'a [u8]; 2],
    /// Anything.
    pub comment: &'a str,
}

impl Block<'_> {
    /// Bytes of the block, a multiple of four.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        let mut len = FRAME;
        self.body(&mut |part| len += part.len());
        len
    }

    /// Hands out the block part by part.
    pub fn emit(&self, put: &mut dyn FnMut(&[u8])) {
        let kind = match self {
            Self::Section { .. } => SECTION_HEADER,
            Self::Interface { .. } => INTERFACE,
            Self::Packet(_) => ENHANCED_PACKET,
        };
        let len = (self.buffer_len() as u32).to_le_bytes();
        put(&kind.to_le_bytes());
        put(&len);
        self.body(put);
        put(&len);
    }

    fn body(&self, put: &mut dyn FnMut(&[u8])) {
        match self {
            Self::Section { application, comment } => {
                // The byte order, version 1.0, and a section whose length is not known.
                put(&0x1a2b_3c4d_u32.to_le_bytes());
                put(&[1, 0, 0, 0]);
                put(&u64::MAX.to_le_bytes());
                text(put, OPT_SHB_USERAPPL, application);
                text(put, OPT_COMMENT, comment);
            }
            Self::Interface { link, name } => {
                put(&u32::from(*link).to_le_bytes());
                // No limit of the length of packets.
                put(&0_u32.to_le_bytes());
                text(put, OPT_IF_NAME, name);
                option(put, OPT_IF_TSRESOL, &[9]);
            }
            Self::Packet(packet) => {
                let len: usize = packet.data.iter().map(|part| part.len()).sum();
                let at = packet.at_ns;
                // What was captured is all that there was.
                for word in [packet.interface, (at >> 32) as u32, at as u32, len as u32, len as u32] {
                    put(&word.to_le_bytes());
                }
                packet.data.into_iter().for_each(&mut *put);
                pad(put, len);
                let flags: u32 = match packet.direction {
                    Direction::In => 1,
                    Direction::Out => 2,
                };
                option(put, OPT_EPB_FLAGS, &flags.to_le_bytes());
                text(put, OPT_COMMENT, packet.comment);
            }
        }
        option(put, OPT_END, &[]);
    }
}

fn text(put: &mut dyn FnMut(&[u8]), code: u16, text: &str) {
    if !text.is_empty() {
        let end = (0..=text.len().min(OPTION_MAX)).rev().find(|end| text.is_char_boundary(*end));
        option(put, code, &text.as_bytes()[..end.unwrap_or(0)]);
    }
}

fn option(put: &mut dyn FnMut(&[u8]), code: u16, value: &[u8]) {
    put(&code.to_le_bytes());
    put(&(value.len() as u16).to_le_bytes());
    put(value);
    pad(put, value.len());
}

/// To a multiple of four.
fn pad(put: &mut dyn FnMut(&[u8]), len: usize) {
    put(&[0; 3][..len.next_multiple_of(4) - len]);
}
