//! Transport checksums in software: completes what was left to the device, verifies what no device has verified.
use crate::packet::{Csum, Packet};
use bytes::BytesMut;
use lowwater_wire::{checksum, udp};

/// Completes a partial checksum; a packet without one is left alone. `link_len` bytes of link header stand in front.
///
/// A checksum that would lie outside the packet is left alone too: only a broken device can ask for it.
pub fn fill(packet: &mut Packet, link_len: usize) {
    let Csum::Partial { start, offset } = packet.offload.csum else { return };
    let start = link_len + usize::from(start);
    let field = start + usize::from(offset);
    if field + 2 > packet.len() {
        return;
    }
    packet.offload.csum = Csum::None;
    // The field already holds the pseudo-header's sum, so summing over it adds that in.
    let value = match checksum::finish(sum_from(packet, start)) {
        // For UDP zero means "none" (RFC 768), and all ones is the same number.
        0 if usize::from(offset) == udp::CHECKSUM_OFFSET => 0xffff,
        value => value,
    };
    write_at(packet, field, value);
}

/// True when the transport checksum over everything from `l4_offset` on and the pseudo-header sum adds up, or when the
/// device vouches for it, or when it was never computed because the packet has not left this machine.
#[must_use]
pub fn verify(packet: &Packet, l4_offset: usize, pseudo: u64) -> bool {
    match packet.offload.csum {
        Csum::Valid | Csum::Partial { .. } => true,
        Csum::None => {
            let sum = u64::from(checksum::fold(pseudo)) + sum_from(packet, l4_offset);
            checksum::fold(sum) == 0xffff
        }
    }
}

/// Partial sum over the packet from byte `at` on.
fn sum_from(packet: &Packet, at: usize) -> u64 {
    let head = packet.head.as_slice();
    match at.checked_sub(head.len()) {
        None => checksum::sum_parts(&[&head[at..], &packet.payload]),
        Some(at) => checksum::sum(packet.payload.get(at..).unwrap_or_default()),
    }
}

fn write_at(packet: &mut Packet, at: usize, value: u16) {
    let head_len = packet.head.len();
    if at + 2 <= head_len {
        packet.head.as_mut_slice()[at..at + 2].copy_from_slice(&value.to_be_bytes());
        return;
    }
    // Headers in the payload: a received packet that goes out again, or is written to a capture. Payload is shared, so copy.
    let mut bytes = BytesMut::from(&packet.to_bytes()[..]);
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    packet.head.strip(head_len);
    packet.payload = bytes.freeze();
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sample, tcp_packet};
    use super::*;
    use crate::packet::{Head, Offload};

    #[test]
    fn a_filled_checksum_verifies_in_every_form() {
        for v6 in [false, true] {
            for len in [0, 1, 7, 1448] {
                let sample = Sample { v6, len, ..Sample::default() };
                let mut p = tcp_packet(&sample);
                fill(&mut p, 0);
                assert_eq!(p.offload.csum, Csum::None);
                assert!(verify(&p, sample.l4(), sample.pseudo(len)), "{sample:?}");
                let mut flat = Packet { head: Head::new(), payload: p.to_bytes(), ..p.clone() };
                assert!(verify(&flat, sample.l4(), sample.pseudo(len)));
                assert!(!verify(&flat, sample.l4(), sample.pseudo(len) + 1));
                flat.payload = tcp_packet(&sample).to_bytes();
                flat.offload.csum = tcp_packet(&sample).offload.csum;
                fill(&mut flat, 0);
                assert_eq!(flat.payload, p.to_bytes());
            }
        }
    }

    #[test]
    fn nonsense_is_left_alone() {
        let mut p = tcp_packet(&Sample::default());
        p.offload.csum = Csum::Partial { start: u16::MAX, offset: u16::MAX };
        let before = p.to_bytes();
        fill(&mut p, 14);
        assert_eq!(p.to_bytes(), before);
        assert!(!verify(&Packet { offload: Offload::default(), ..p }, 70_000, 0));
    }
}
