//! Writes packets to a pcapng file with nanosecond stamps, offloaded work completed as a wire would show it.
use crate::edit::wire_bytes;
use lowwater_core::base::Instant;
use lowwater_core::packet::Packet;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

/// Which way a packet went, as seen from the interface (pcapng's `epb_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// How packets are put into the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcapOptions {
    /// Write a super-packet as the segments that a wire would carry.
    pub segment: bool,
    /// Added to every stamp: nanoseconds from 1970 to the origin of the stack's clock.
    pub epoch_ns: u64,
}

/// A pcapng file of IP packets (LINKTYPE_RAW).
pub struct PcapWriter<W: Write> {
    file: PcapNgWriter<W>,
    options: PcapOptions,
    packets: u64,
}

fn broken(e: impl std::fmt::Display) -> io::Error {
    io::Error::other(e.to_string())
}

impl<W: Write> PcapWriter<W> {
    /// Begins a file; `comment` goes to its head.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(writer: W, options: PcapOptions, comment: &str) -> io::Result<Self> {
        let mut head = SectionHeaderBlock { endianness: Endianness::Little, ..Default::default() };
        head.options.push(SectionHeaderOption::UserApplication(Cow::Borrowed("lowwater")));
        if !comment.is_empty() {
            head.options.push(SectionHeaderOption::Common(CommonOption::Comment(Cow::Borrowed(comment))));
        }
        let file = PcapNgWriter::with_section_header(writer, head).map_err(broken)?;
        Ok(Self { file, options, packets: 0 })
    }

    /// Declares an interface; the number names it in [`PcapWriter::packet`]. There must be one before the first packet.
    ///
    /// # Errors
    /// Those of writing.
    pub fn interface(&mut self, name: &str) -> io::Result<()> {
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::RAW,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
            ],
        };
        self.file.write_pcapng_block(block).map_err(broken)?;
        Ok(())
    }

    /// Writes one packet of interface number `interface`, with an optional comment.
    ///
    /// # Errors
    /// Those of writing, and an interface that was not declared.
    pub fn packet(
        &mut self,
        interface: u32,
        at: Instant,
        direction: Direction,
        packet: &Packet,
        comment: Option<&str>,
    ) -> io::Result<()> {
        if self.options.segment && packet.offload.gso_size != 0 {
            let mut result = Ok(());
            crate::split::segment(packet.clone(), &mut |segment| {
                if result.is_ok() {
                    result = self.one(interface, at, direction, &segment, comment);
                }
            });
            return result;
        }
        self.one(interface, at, direction, packet, comment)
    }

    fn one(
        &mut self,
        interface: u32,
        at: Instant,
        direction: Direction,
        packet: &Packet,
        comment: Option<&str>,
    ) -> io::Result<()> {
        let bytes = wire_bytes(packet);
        // Bits 0-1 of epb_flags: 1 inbound, 2 outbound.
        let flags = match direction {
            Direction::In => 1,
            Direction::Out => 2,
        };
        let mut options = vec![EnhancedPacketOption::Flags(flags)];
        if let Some(text) = comment {
            options.push(EnhancedPacketOption::Common(CommonOption::Comment(Cow::Borrowed(text))));
        }
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: Duration::from_nanos(self.options.epoch_ns.saturating_add(at.as_nanos())),
            original_len: bytes.len() as u32,
            data: Cow::Borrowed(&bytes),
            options,
        };
        self.file.write_pcapng_block(block).map_err(broken)?;
        self.packets += 1;
        Ok(())
    }

    /// Packets written so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// Those of flushing.
    pub fn finish(self) -> io::Result<W> {
        let mut w = self.file.into_inner();
        w.flush()?;
        Ok(w)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lowwater_core::packet::Offload;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn stamps_lengths_and_comments_come_back() {
        let mut w = PcapWriter::new(Vec::new(), PcapOptions::default(), "seed 7").expect("memory");
        w.interface("a").expect("memory");
        let p = Packet::received(Bytes::from_static(&[0x45, 1, 2, 3, 4]), Offload::default(), Instant::ZERO);
        w.packet(0, Instant::from_nanos(1_000_000_123), Direction::Out, &p, Some("first")).expect("memory");
        let file = w.finish().expect("memory");
        let mut r = PcapNgReader::new(&file[..]).expect("a section");
        let mut seen = Vec::new();
        while let Some(block) = r.next_block() {
            if let (Block::EnhancedPacket(e), _) = block.expect("well-formed") {
                seen.push((e.timestamp, e.data.to_vec(), format!("{:?}", e.options)));
            }
        }
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].0, Duration::new(1, 123));
        assert_eq!(seen[0].1, [0x45, 1, 2, 3, 4]);
        assert!(seen[0].2.contains("first"));
    }
}
