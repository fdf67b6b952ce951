//! ICMP errors that a script makes up.
use super::Peer;
use lowwater_core::packet::{Offload, Packet};
use lowwater_wire::icmp4::Icmp4Repr;
use lowwater_wire::protocol;

impl Peer {
    /// An ICMP error arrives about a segment of ours that began at `seq`.
    pub fn icmp(&mut self, code: u8, mtu: u16, seq: u32) {
        self.quiet();
        self.journal.push(format!("{:>12} < icmp unreachable code {code} mtu {mtu} seq {seq}", self.stamp()));
        let mut quoted = self.last_packet[..28].to_vec();
        quoted[24..28].copy_from_slice(&seq.wrapping_add(self.iss()).to_be_bytes());
        let repr = Icmp4Repr::Unreachable { code, mtu, quoted: &quoted };
        let mut message = vec![0; repr.buffer_len()];
        repr.emit(&mut message);
        let packet = self.ip(protocol::ICMP, 0, &message);
        self.stack.receive(self.now, self.dev, Packet::received(packet, Offload::default(), self.now));
        self.pump();
    }
}
