//! The options of a TCP segment, read in any layout and written in Linux's.
use super::{AccEcnOption, FastOpenCookie, MAX_OPTIONS_LEN, SackBlocks};

/// Largest window scale; a larger one counts as this (RFC 7323 section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const MD5: u8 = 19;
const MD5_LEN: u8 = 18;
const AUTHENTICATION: u8 = 29;
/// Least length of TCP-AO's option (RFC 5925 section 2.2), with a byte of its code.
const AUTHENTICATION_LEN: u8 = 5;
const FAST_OPEN: u8 = 34;
const EXPERIMENT: u8 = 254;
/// Identifies Fast Open among the users of the experimental kind (RFC 6994).
const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];

/// Lengths with the NOPs that align them.
const MSS_LEN: usize = 4;
const WINDOW_SCALE_LEN: usize = 4;
const SACK_PERMITTED_LEN: usize = 4;
const TIMESTAMPS_LEN: usize = 12;
const SACK_BASE_LEN: usize = 4;
const SACK_BLOCK_LEN: usize = 8;

/// The timestamps option (RFC 7323 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the echo of the receiver's clock, meaningful with ACK only.
    pub echo: u32,
}

/// What a segment has of a signature, of which none is ever checked or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// A whole one by MD5 (RFC 2385).
    Md5,
    /// What might be one: an option of that kind or of TCP-AO's (RFC 5925) with another length, two of them, or any option that is cut short.
    Malformed,
}

/// The options that this stack knows. Which of them mean anything on a segment without SYN is the receiver's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Maximum segment size (RFC 9293 section 3.7.1). 0 on the wire counts as absent, as in Linux.
    pub mss: Option<u16>,
    /// Window scale shift, at most [`MAX_WINDOW_SCALE`].
    pub window_scale: Option<u8>,
    /// SACK-permitted (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks, and the counters of accurate ECN that share their memory: [`Self::accecn`].
    pub sack: SackBlocks,
    /// Fast Open cookie or cookie request.
    pub fastopen: Option<FastOpenCookie>,
    /// The signature by MD5, or what is too malformed to have none. A whole one of TCP-AO is an option that nobody here knows, and in the last
    /// 17 bytes nobody looks for one: both as in a Linux that is built without `CONFIG_TCP_AO` (`tcp_do_parse_auth_options`).
    pub signed: Option<Signature>,
}

impl TcpOptions {
    /// No options.
    pub const EMPTY: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::EMPTY,
        fastopen: None,
        signed: None,
    };

    /// Reads the options of a header. Never fails: unknown options and known ones of the wrong length are skipped, and reading
    /// ends at one that is cut short, with what was read before kept (Linux: `tcp_parse_options`). A repeated option counts in
    /// its last form.
    #[must_use]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Self {
        // Nearly all segments of a connection with timestamps: NOP, NOP, TS.
        if let [NOP, NOP, TIMESTAMPS, 10, a, b, c, d, e, f, g, h] = *bytes {
            let (value, echo) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
            return Self { timestamps: Some(Timestamps { value, echo }), ..Self::EMPTY };
        }
        Self::parse_any(bytes)
    }

    /// See [`TcpView::has_usual_options`](super::TcpView::has_usual_options).
    #[inline]
    pub(super) const fn are_usual(bytes: &[u8]) -> bool {
        matches!(bytes, [] | [NOP, NOP, TIMESTAMPS, 10, _, _, _, _, _, _, _, _])
    }

    fn parse_any(mut bytes: &[u8]) -> Self {
        let mut options = Self::EMPTY;
        let mut authenticated = false;
        loop {
            let looks = bytes.len() >= usize::from(MD5_LEN);
            match *bytes {
                [] | [END, ..] => return options,
                [NOP, ref rest @ ..] => bytes = rest,
                [kind, len, ..] if len >= 2 && usize::from(len) <= bytes.len() => {
                    let (option, rest) = bytes.split_at(usize::from(len));
                    if looks {
                        options.note_signature(kind, len, &mut authenticated);
                    }
                    options.take(kind, &option[2..]);
                    bytes = rest;
                }
                _ => {
                    options.signed = if looks { Some(Signature::Malformed) } else { options.signed };
                    return options;
                }
            }
        }
    }

    /// `authenticated`: a whole signature of TCP-AO has come before, or comes now.
    const fn note_signature(&mut self, kind: u8, len: u8, authenticated: &mut bool) {
        let another = *authenticated || self.signed.is_some();
        match (kind, len) {
            (MD5, MD5_LEN) if !another => self.signed = Some(Signature::Md5),
            (AUTHENTICATION, AUTHENTICATION_LEN..) if !another => *authenticated = true,
            (MD5 | AUTHENTICATION, _) => self.signed = Some(Signature::Malformed),
            _ => {}
        }
    }

    fn take(&mut self, kind: u8, data: &[u8]) {
        match (kind, data) {
            (MSS, &[0, 0]) => {}
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(MAX_WINDOW_SCALE)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (SACK, data) => {
                let (blocks, rest) = data.as_chunks::<SACK_BLOCK_LEN>();
                if rest.is_empty() && !blocks.is_empty() {
                    let counters = self.accecn();
                    self.sack = blocks.iter().map(|block| pair(*block)).collect();
                    if let Some(counters) = counters {
                        self.set_accecn(counters);
                    }
                }
            }
            (TIMESTAMPS, data) => {
                if let Ok(both) = data.try_into() {
                    let (value, echo) = pair(both);
                    self.timestamps = Some(Timestamps { value, echo });
                }
            }
            (FAST_OPEN, data) => self.take_cookie(data, false),
            (EXPERIMENT, &[a, b, ref data @ ..]) if [a, b] == FAST_OPEN_MAGIC => self.take_cookie(data, true),
            (kind, data) => {
                if let Some(counters) = AccEcnOption::read(kind, data) {
                    self.set_accecn(counters);
                }
            }
        }
    }

    /// An odd length says nothing; any other that no cookie has takes back what was said before (`tcp_parse_fastopen_option`).
    fn take_cookie(&mut self, data: &[u8], experimental: bool) {
        if data.len().is_multiple_of(2) {
            self.fastopen = FastOpenCookie::new(data).map(|cookie| cookie.with_experimental(experimental));
        }
    }

    /// Bytes that [`Self::emit`] writes, a multiple of 4 and at most 40.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        let fixed = self.fixed_len();
        let sack = sack_len(self.sack_room());
        fixed + sack + self.fastopen_that_fits(fixed + sack).map_or(0, fastopen_len)
    }

    /// Length of all but SACK blocks and cookie, which together always fit.
    fn fixed_len(&self) -> usize {
        let timestamps = self.timestamps.is_some();
        let mut len = 0;
        len += if self.mss.is_some() { MSS_LEN } else { 0 };
        len += if timestamps { TIMESTAMPS_LEN } else { 0 };
        // With timestamps, SACK-permitted takes the place of their NOPs.
        len += if self.sack_permitted && !timestamps { SACK_PERMITTED_LEN } else { 0 };
        len += if self.window_scale.is_some() { WINDOW_SCALE_LEN } else { 0 };
        len += self.accecn().map_or(0, |option| self.accecn_len(option.option_len()));
        len
    }

    /// Counters of accurate ECN.
    #[must_use]
    pub const fn accecn(&self) -> Option<AccEcnOption> {
        self.sack.accecn()
    }

    /// Adds counters of accurate ECN, beside which there is no room for four SACK blocks: with those nothing happens.
    pub fn set_accecn(&mut self, counters: AccEcnOption) {
        self.sack.set_accecn(counters);
    }

    /// What the counters of accurate ECN, an option of `len` bytes, take of the header: their last bytes stand where another option has NOPs, if
    /// there is one with enough of them.
    #[must_use]
    pub const fn accecn_len(&self, len: usize) -> usize {
        let two = (self.sack_permitted && self.timestamps.is_none()) || !self.sack.is_empty();
        let fits = match len % 4 {
            1 => two || self.window_scale.is_some(),
            2 => two,
            _ => false,
        };
        if fits { len - len % 4 } else { len.next_multiple_of(4) }
    }

    /// How many SACK blocks go out: as many as fit, which is 3 beside timestamps.
    #[must_use]
    pub fn sack_room(&self) -> usize {
        let room = MAX_OPTIONS_LEN - self.fixed_len();
        self.sack.len().min(room.saturating_sub(SACK_BASE_LEN) / SACK_BLOCK_LEN)
    }

    fn fastopen_that_fits(&self, used: usize) -> Option<&FastOpenCookie> {
        self.fastopen.as_ref().filter(|cookie| used + fastopen_len(cookie) <= MAX_OPTIONS_LEN)
    }

    /// Writes the options to the front of `buffer` in Linux's order and padding (`tcp_options_write`): MSS, timestamps with
    /// SACK-permitted or two NOPs in front, the counters of accurate ECN, SACK-permitted on its own, window scale, SACK blocks, Fast Open. One or two bytes of
    /// counters that make no word stand where the next of SACK-permitted, window scale and SACK blocks with room for them has its NOPs, else before two NOPs
    /// of their own. SACK blocks, then the cookie, are left out if they do not fit. Returns the number of bytes written.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let mut out = Writer { buffer, at: 0 };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            out.put([MSS, 4, a, b]);
        }
        if let Some(timestamps) = self.timestamps {
            let [a, b] = if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
            out.put([a, b, TIMESTAMPS, 10]);
            out.put(timestamps.value.to_be_bytes());
            out.put(timestamps.echo.to_be_bytes());
        }
        let mut rest = self.put_accecn(&mut out);
        if self.sack_permitted && self.timestamps.is_none() {
            let [a, b] = rest.take(2);
            out.put([a, b, SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_scale {
            let [a, _] = rest.take(1);
            out.put([a, WINDOW_SCALE, 3, shift.min(MAX_WINDOW_SCALE)]);
        }
        let blocks = self.sack_room();
        if blocks > 0 {
            let [a, b] = rest.take(2);
            out.put([a, b, SACK, (2 + blocks * SACK_BLOCK_LEN) as u8]);
            for (left, right) in self.sack.iter().take(blocks) {
                out.put(left.to_be_bytes());
                out.put(right.to_be_bytes());
            }
        }
        if rest.len > 0 {
            let [a, b] = rest.take(2);
            out.put([a, b, NOP, NOP]);
        }
        if let Some(cookie) = self.fastopen_that_fits(out.at) {
            let end = out.at + fastopen_len(cookie);
            if cookie.is_experimental() {
                out.put([EXPERIMENT, 4 + cookie.len() as u8]);
                out.put(FAST_OPEN_MAGIC);
            } else {
                out.put([FAST_OPEN, 2 + cookie.len() as u8]);
            }
            out.put_slice(cookie.as_slice());
            out.buffer[out.at..end].fill(NOP);
            out.at = end;
        }
        out.at
    }
}

impl TcpOptions {
    /// Writes whole words of the counters of accurate ECN; the bytes that are left stand in front of another option.
    fn put_accecn(&self, out: &mut Writer<'_>) -> Rest {
        let mut rest = Rest { bytes: [NOP; 2], len: 0 };
        let Some(option) = self.accecn() else { return rest };
        let (bytes, len) = option.bytes();
        let (words, left) = bytes[..len].as_chunks::<4>();
        for word in words {
            out.put(*word);
        }
        match *left {
            [a] => rest = Rest { bytes: [a, NOP], len: 1 },
            [a, b] => rest = Rest { bytes: [a, b], len: 2 },
            [a, b, c] => out.put([a, b, c, NOP]),
            _ => {}
        }
        rest
    }
}

/// Bytes of an option that wait for another's NOPs.
struct Rest {
    bytes: [u8; 2],
    len: usize,
}

impl Rest {
    /// The bytes in the place of two NOPs, if there are not more than `room`.
    const fn take(&mut self, room: usize) -> [u8; 2] {
        if self.len == 0 || self.len > room {
            return [NOP; 2];
        }
        self.len = 0;
        self.bytes
    }
}

fn pair(block: [u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = block;
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

const fn sack_len(blocks: usize) -> usize {
    if blocks == 0 { 0 } else { SACK_BASE_LEN + blocks * SACK_BLOCK_LEN }
}

const fn fastopen_len(cookie: &FastOpenCookie) -> usize {
    let base = if cookie.is_experimental() { 4 } else { 2 };
    (base + cookie.len()).next_multiple_of(4)
}

struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.put_slice(&bytes);
    }

    fn put_slice(&mut self, bytes: &[u8]) {
        self.buffer[self.at..][..bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}
