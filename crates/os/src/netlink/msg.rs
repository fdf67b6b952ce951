//! Netlink messages as bytes: header, fixed part and attributes, all in native order and aligned to four.
use std::net::IpAddr;

/// Length of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;
/// Type of an answer: acknowledgement or error.
pub(super) const NLMSG_ERROR: u16 = 2;
/// Type of what ends a list.
pub(super) const NLMSG_DONE: u16 = 3;
pub(super) const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_ACK: u16 = 4;
/// What is listed has changed meanwhile: something may be missing, or there twice.
pub(super) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(super) const NLM_F_REPLACE: u16 = 0x100;
/// A list of all (`NLM_F_ROOT` and `NLM_F_MATCH`).
pub(super) const NLM_F_DUMP: u16 = 0x300;
pub(super) const NLM_F_EXCL: u16 = 0x200;
pub(super) const NLM_F_CREATE: u16 = 0x400;

/// A request under construction.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new(kind: u16, flags: u16, seq: u32) -> Self {
        Self::unacknowledged(kind, flags | NLM_F_ACK, seq)
    }

    /// Of which nothing comes back but its answer, or why there is none.
    pub(super) fn unacknowledged(kind: u16, flags: u16, seq: u32) -> Self {
        let mut m = Self(Vec::with_capacity(128));
        m.u32(0).u16(kind).u16(flags | NLM_F_REQUEST).u32(seq).u32(0);
        m
    }

    pub(super) fn u8(&mut self, v: u8) -> &mut Self {
        self.0.push(v);
        self
    }

    pub(super) fn u16(&mut self, v: u16) -> &mut Self {
        self.0.extend_from_slice(&v.to_ne_bytes());
        self
    }

    pub(super) fn u32(&mut self, v: u32) -> &mut Self {
        self.0.extend_from_slice(&v.to_ne_bytes());
        self
    }

    /// An attribute; `value` is at most an address or a name, far below the 16-bit length.
    pub(super) fn attr(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.u16(4 + value.len() as u16).u16(kind);
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn attr_u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    pub(super) fn attr_ip(&mut self, kind: u16, ip: IpAddr) -> &mut Self {
        match ip {
            IpAddr::V4(a) => self.attr(kind, &a.octets()),
            IpAddr::V6(a) => self.attr(kind, &a.octets()),
        }
    }

    /// The finished message.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// One message of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) body: &'a [u8],
}

/// Each message in `bytes` that answers request `seq`.
pub(super) fn answers(mut bytes: &[u8], seq: u32) -> impl Iterator<Item = Answer<'_>> {
    std::iter::from_fn(move || {
        loop {
            let header = bytes.first_chunk::<HEADER>()?;
            let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let flags = u16::from_ne_bytes([header[6], header[7]]);
            let their_seq = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
            let body = bytes.get(HEADER..len)?;
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
            if their_seq == seq {
                return Some(Answer { kind, flags, body });
            }
        }
    })
}

/// The error number in the body of an [`NLMSG_ERROR`] or an [`NLMSG_DONE`]: 0 for success.
pub(super) fn error_code(body: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(*body.first_chunk::<4>()?).saturating_neg())
}

/// The value of the first attribute of type `kind`.
pub(super) fn find_attr(mut attrs: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let [a, b, c, d] = *attrs.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let value = attrs.get(4..len)?;
        if u16::from_ne_bytes([c, d]) == kind {
            return Some(value);
        }
        attrs = attrs.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_lengths_filled_in() {
        let mut m = Message::new(16, 0, 9);
        m.attr(3, b"abcde");
        let bytes = m.finish();
        assert_eq!(bytes.len(), HEADER + 12);
        assert_eq!(bytes[..4], 28u32.to_ne_bytes());
        assert_eq!(bytes[HEADER..HEADER + 2], 9u16.to_ne_bytes());
    }

    #[test]
    fn answers_are_found_behind_other_messages_and_garbage_is_refused() {
        let answer = |bytes: &[u8], seq| {
            let mut found = answers(bytes, seq).filter(|answer| answer.kind == NLMSG_ERROR);
            found.next().and_then(|answer| error_code(answer.body))
        };
        let mut other = Message::new(16, 0, 1);
        other.u8(1);
        let mut all = other.finish();
        all.resize(20, 0);
        let mut error = Message::new(NLMSG_ERROR, 0, 2);
        error.u32((-17i32) as u32);
        all.extend(error.finish());
        assert_eq!(answer(&all, 2), Some(17));
        assert_eq!(answer(&all, 3), None);
        for cut in 0..all.len() {
            let _ = answer(&all[..cut], 2);
        }
        assert_eq!(answer(&[0; 64], 0), None, "a length of zero ends the walk");
        assert_eq!(answer(&[0xff; 64], 0), None);
    }

    #[test]
    fn attributes_are_found_and_garbage_is_refused() {
        let mut m = Message::new(16, 0, 1);
        m.attr(3, b"lo\0").attr_u32(4, 1_500);
        let bytes = m.finish();
        let attrs = &bytes[HEADER..];
        assert_eq!(find_attr(attrs, 4), Some(&1_500u32.to_ne_bytes()[..]));
        assert_eq!(find_attr(attrs, 5), None);
        for cut in 0..attrs.len() {
            assert_eq!(find_attr(&attrs[..cut], 4), None);
        }
        assert_eq!(find_attr(&[0; 32], 4), None, "a length of zero ends the walk");
    }
}
