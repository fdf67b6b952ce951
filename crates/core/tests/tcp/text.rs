//! The notation of the scripts: one TCP segment as a line of text, read and written.
//!
//! `FLAGS [START[:END]] [ack N] [win N] [urg N] [mss N] [ws N] [sackOK] [ts V/E] [sack A:B ...] [ect0|ect1|ce]
//! [fo|foexp [HEX|-]] [opts]`
//!
//! FLAGS are of `S F R P . E W U` (a dot is ACK). Numbers count from each side's ISN, so a SYN is 0 and the first byte 1.
//! In an expectation what is not named is not compared, with three exceptions: flags (but PSH only where the text has `P`,
//! its absence where it has `p`), SACK blocks and Fast Open cookies (`-` asks for one), and, where the text says `opts`, all options of the handshake.
use lowwater_wire::tcp::{FastOpenCookie, TcpFlags};

/// A segment in relative numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seg {
    pub flags: String,
    pub seq: Option<u32>,
    pub len: u32,
    pub ack: Option<u32>,
    pub win: Option<u32>,
    pub urg: Option<u16>,
    pub mss: Option<u16>,
    pub ws: Option<u8>,
    pub sack_ok: bool,
    pub ts: Option<(u32, u32)>,
    pub sack: Vec<(u32, u32)>,
    pub ecn: Option<u8>,
    pub fastopen: Option<FastOpenCookie>,
    pub all_options: bool,
}

fn cookie(hex: &str) -> FastOpenCookie {
    let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal digits");
    let bytes: Vec<u8> = (0..hex.trim_matches('-').len()).step_by(2).map(byte).collect();
    FastOpenCookie::new(&bytes).expect("a cookie's length")
}

const FLAGS: [(char, TcpFlags); 9] = [
    ('S', TcpFlags::SYN),
    ('F', TcpFlags::FIN),
    ('R', TcpFlags::RST),
    ('P', TcpFlags::PSH),
    ('U', TcpFlags::URG),
    ('E', TcpFlags::ECE),
    ('W', TcpFlags::CWR),
    ('A', TcpFlags::AE),
    ('.', TcpFlags::ACK),
];

pub fn flags_text(flags: TcpFlags) -> String {
    FLAGS.iter().filter(|(_, bit)| flags.contains(*bit)).map(|(c, _)| c).collect()
}

fn pair(text: &str, by: char) -> (u32, u32) {
    let (a, b) = text.split_once(by).unwrap_or_else(|| panic!("'{text}' is no pair"));
    (number(a), number(b))
}

fn number(text: &str) -> u32 {
    match text.strip_prefix('-') {
        Some(n) => number(n).wrapping_neg(),
        None => text.parse().unwrap_or_else(|_| panic!("'{text}' is no number")),
    }
}

impl Seg {
    pub fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace().peekable();
        let mut seg = Self { flags: words.next().expect("flags").to_owned(), ..Self::default() };
        if let Some(word) = words.next_if(|w| w.starts_with(|c: char| c.is_ascii_digit() || c == '-')) {
            if word.contains(':') {
                let (start, end) = pair(word, ':');
                (seg.seq, seg.len) = (Some(start), end.wrapping_sub(start));
            } else {
                seg.seq = Some(number(word));
            }
        }
        while let Some(word) = words.next() {
            let mut value = || words.next().expect("a value");
            match word {
                "ack" => seg.ack = Some(number(value())),
                "win" => seg.win = Some(number(value())),
                "urg" => seg.urg = Some(number(value()) as u16),
                "mss" => seg.mss = Some(number(value()) as u16),
                "ws" => seg.ws = Some(number(value()) as u8),
                "sackOK" => seg.sack_ok = true,
                "ts" => seg.ts = Some(pair(value(), '/')),
                "sack" => {
                    while let Some(block) = words.next_if(|w| w.contains(':')) {
                        seg.sack.push(pair(block, ':'));
                    }
                }
                "notect" => seg.ecn = Some(0),
                "ect1" => seg.ecn = Some(1),
                "ect0" => seg.ecn = Some(2),
                "ce" => seg.ecn = Some(3),
                "fo" => seg.fastopen = Some(cookie(value())),
                "foexp" => seg.fastopen = Some(cookie(value()).with_experimental(true)),
                "opts" => seg.all_options = true,
                _ => panic!("'{word}' in '{text}'"),
            }
        }
        seg
    }

    pub fn tcp_flags(&self) -> TcpFlags {
        let mut flags = TcpFlags::EMPTY;
        for c in self.flags.chars() {
            let known = FLAGS.iter().find(|(f, _)| *f == c);
            flags.insert(known.unwrap_or_else(|| panic!("flag '{c}'")).1);
        }
        flags
    }

    /// Does `self`, a segment that was seen, fit the expectation?
    pub fn fits(&self, want: &Self) -> bool {
        fn same<T: PartialEq>(want: &Option<T>, seen: &Option<T>) -> bool {
            want.is_none() || want == seen
        }
        let plain = |s: &str| s.chars().filter(|c| !matches!(c, 'P' | 'p')).collect::<String>();
        let push = self.flags.contains('P');
        let sorted = |s: &str| {
            let mut v: Vec<char> = s.chars().collect();
            v.sort_unstable();
            v
        };
        sorted(&plain(&self.flags)) == sorted(&plain(&want.flags))
            && (!want.flags.contains('P') || push)
            && !(want.flags.contains('p') && push)
            && (want.seq.is_none() || (want.seq == self.seq && want.len == self.len))
            && same(&want.ack, &self.ack)
            && same(&want.win, &self.win)
            && same(&want.urg, &self.urg)
            && same(&want.ts, &self.ts)
            && same(&want.ecn, &self.ecn)
            && want.sack == self.sack
            && want.fastopen == self.fastopen
            && (want.mss.is_none() || want.mss == self.mss)
            && (want.ws.is_none() || want.ws == self.ws)
            && (!want.sack_ok || self.sack_ok)
            && (!want.all_options
                || (want.mss, want.ws, want.sack_ok, want.ts.is_some())
                    == (self.mss, self.ws, self.sack_ok, self.ts.is_some()))
    }
}

impl std::fmt::Display for Seg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seq = self.seq.unwrap_or(0);
        write!(f, "{} {}:{}", self.flags, seq as i32, seq.wrapping_add(self.len) as i32)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(win) = self.win {
            write!(f, " win {win}")?;
        }
        if let Some(urg) = self.urg {
            write!(f, " urg {urg}")?;
        }
        if let Some(mss) = self.mss {
            write!(f, " mss {mss}")?;
        }
        if self.sack_ok {
            write!(f, " sackOK")?;
        }
        if let Some((v, e)) = self.ts {
            write!(f, " ts {v}/{e}")?;
        }
        if let Some(ws) = self.ws {
            write!(f, " ws {ws}")?;
        }
        if !self.sack.is_empty() {
            write!(f, " sack")?;
            for (a, b) in &self.sack {
                write!(f, " {a}:{b}")?;
            }
        }
        if let Some(cookie) = self.fastopen {
            write!(f, " {cookie:?}")?;
        }
        match self.ecn {
            Some(1) => write!(f, " ect1"),
            Some(2) => write!(f, " ect0"),
            Some(3) => write!(f, " ce"),
            _ => Ok(()),
        }
    }
}
