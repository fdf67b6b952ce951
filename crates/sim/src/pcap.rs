//! Writes packets to a pcapng file with nanosecond stamps, offloaded work completed as a wire would show it.
use crate::edit::wire_bytes;
use lowwater_core::base::Instant;
use lowwater_core::packet::Packet;
use lowwater_wire::pcapng::{Block, LINKTYPE_RAW, PacketBlock};
use std::io::{self, Write};

pub use lowwater_wire::pcapng::Direction;

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
    file: W,
    options: PcapOptions,
    interfaces: u32,
    packets: u64,
    block: Vec<u8>,
}

impl<W: Write> PcapWriter<W> {
    /// Begins a file; `comment` goes to its head.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(writer: W, options: PcapOptions, comment: &str) -> io::Result<Self> {
        let mut new = Self { file: writer, options, interfaces: 0, packets: 0, block: Vec::new() };
        new.write(&Block::Section { application: "lowwater", comment })?;
        Ok(new)
    }

    fn write(&mut self, block: &Block<'_>) -> io::Result<()> {
        self.block.clear();
        block.emit(&mut |part| self.block.extend_from_slice(part));
        self.file.write_all(&self.block)
    }

    /// Declares an interface; the number names it in [`PcapWriter::packet`]. There must be one before the first packet.
    ///
    /// # Errors
    /// Those of writing.
    pub fn interface(&mut self, name: &str) -> io::Result<()> {
        self.write(&Block::Interface { link: LINKTYPE_RAW, name })?;
        self.interfaces += 1;
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
        if interface >= self.interfaces {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the interface was not declared"));
        }
        let (bytes, at_ns) = (wire_bytes(packet), self.options.epoch_ns.saturating_add(at.as_nanos()));
        let (data, comment) = ([&bytes[..], &[]], comment.unwrap_or_default());
        self.write(&Block::Packet(PacketBlock { interface, at_ns, direction, data, comment }))?;
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
    pub fn finish(mut self) -> io::Result<W> {
        self.file.flush()?;
        Ok(self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lowwater_core::packet::Offload;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::time::Duration;

    #[test]
    fn stamps_lengths_and_comments_come_back() {
        let mut w = PcapWriter::new(Vec::new(), PcapOptions::default(), "seed 7").expect("memory");
        w.interface("a").expect("memory");
        let p = Packet::received(Bytes::from_static(&[0x45, 1, 2, 3, 4]), Offload::default(), Instant::ZERO);
        w.packet(0, Instant::from_nanos(1_000_000_123), Direction::Out, &p, Some("first")).expect("memory");
        assert!(w.packet(1, Instant::ZERO, Direction::In, &p, None).is_err(), "no such interface");
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
