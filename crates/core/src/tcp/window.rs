//! Which receive window to advertise: never shrink it, never invite silly segments (RFC 9293 sections 3.8.6, 3.8.6.2.2).
use super::options::SocketOptions;
use super::seq::Seq;
use crate::base::{Cx, Pressure, Sysctl};
#[cfg(test)]
mod tests;

/// Largest window that the header's field can carry unscaled.
const U16_MAX: u32 = 65_535;
/// Largest shift of RFC 7323 section 2.3.
pub const MAX_WSCALE: u8 = 14;
/// Smallest receive buffer that SO_RCVBUF can ask for (`SOCK_MIN_RCVBUF`).
pub const MIN_RCVBUF: u32 = 2_304;

/// The receive buffer as the application and autotuning have set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcvBuf {
    /// Bound for the charge of what waits, in bytes; SO_RCVBUF reads this.
    pub bytes: u32,
    /// The application's bound for the window (TCP_WINDOW_CLAMP); 0 for none.
    pub clamp: u32,
    /// Set by SO_RCVBUF: autotuning keeps its hands off.
    pub locked: bool,
    /// What an earlier connection of the socket has found about its payload ([`Ratio`]); 0 for none.
    pub ratio: u8,
}

impl RcvBuf {
    /// The buffer of a socket with these options.
    #[must_use]
    pub fn of(options: &SocketOptions) -> Self {
        Self {
            bytes: options
                .rcvbuf
                .map_or_else(|| options.rmem.max(options.rcvlowat_room), |bytes| bytes.max(MIN_RCVBUF)),
            clamp: if options.window_clamp != 0 { options.window_clamp } else { options.route.window },
            locked: options.rcvbuf.is_some(),
            ratio: options.rcv_ratio,
        }
    }

    /// Share of the buffer that payload takes at the start.
    fn first_ratio(self, sysctl: &Sysctl) -> Ratio {
        if self.ratio == 0 { Ratio::initial(sysctl) } else { Ratio(self.ratio) }
    }

    /// What SO_RCVBUF reads back after `bytes` were asked for: doubled for metadata and kept within `rmem_max`.
    #[must_use]
    pub fn so_rcvbuf(sysctl: &Sysctl, bytes: u32) -> u32 {
        bytes.min(sysctl.rmem_max).saturating_mul(2).max(MIN_RCVBUF)
    }
}

/// Payload that 256 bytes of buffer hold, metadata left aside: as `tcp_adv_win_scale` says (`scaling_ratio`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u8);

impl Ratio {
    /// A half, or what `tcp_adv_win_scale` says.
    #[must_use]
    pub fn initial(sysctl: &Sysctl) -> Self {
        let share = match sysctl.tcp_adv_win_scale {
            n if n > 0 => 256 - 256_u32.checked_shr(n.unsigned_abs()).unwrap_or(0),
            n => 256_u32.checked_shr(n.unsigned_abs()).unwrap_or(0),
        };
        Self(share.clamp(1, 255) as u8)
    }

    /// As a segment of `len` bytes shows it that is charged `truesize` (`tcp_measure_rcv_mss`).
    #[must_use]
    pub fn measured(len: u32, truesize: u32) -> Self {
        Self((u64::from(len) * 256 / u64::from(truesize.max(1))).clamp(1, 255) as u8)
    }

    /// Window bytes that fit a buffer of `space` bytes (`tcp_win_from_space`).
    #[must_use]
    pub fn win_from_space(self, space: u32) -> u32 {
        ((u64::from(space) * u64::from(self.0)) >> 8) as u32
    }

    /// The buffer that a window of `win` bytes needs (`tcp_space_from_win`).
    #[must_use]
    pub fn space_from_win(self, win: u64) -> u64 {
        (win << 8) / u64::from(self.0)
    }
}

/// What a SYN or SYN-ACK offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialWindow {
    /// The window in bytes, of which a SYN itself can only say 65,535.
    pub rcv_wnd: u32,
    /// Bound for every later window.
    pub clamp: u32,
    /// The shift to offer; 0 also when scaling is off.
    pub wscale: u8,
    /// Share of the buffer that payload takes.
    pub ratio: Ratio,
}

impl InitialWindow {
    /// No more than so many segments; 0 for as many as fit.
    #[must_use]
    pub fn at_most(self, segments: u32, mss: u16) -> Self {
        match segments {
            0 => self,
            _ => Self { rcv_wnd: self.rcv_wnd.min(segments.saturating_mul(mss.into())), ..self },
        }
    }
}

/// The first window of a socket with these options (see [`initial_window`]).
#[must_use]
pub fn initial(sysctl: &Sysctl, options: &SocketOptions, mss: u16, scaling: bool) -> InitialWindow {
    initial_window(sysctl, RcvBuf::of(options), u32::from(mss), scaling).at_most(options.route.initrwnd, mss)
}

/// Chooses the first window and the scale (`tcp_select_initial_window`). `mss` is the payload of a full segment from the
/// peer: the MSS we offer, less 12 when timestamps are known to be on.
#[must_use]
pub fn initial_window(sysctl: &Sysctl, buf: RcvBuf, mss: u32, scaling: bool) -> InitialWindow {
    let ratio = buf.first_ratio(sysctl);
    let full = ratio.win_from_space(buf.bytes);
    let mut clamp = if buf.clamp == 0 { U16_MAX << MAX_WSCALE } else { buf.clamp };
    if buf.locked {
        clamp = clamp.min(full);
    }
    let mut space = full.min(clamp);
    if space > mss && mss > 0 {
        space -= space % mss;
    }
    let mut scale = 0;
    if scaling {
        let largest = space.max(sysctl.tcp_rmem.max).max(sysctl.rmem_max).min(clamp);
        scale = largest.checked_ilog2().unwrap_or(0).saturating_sub(15).min(u32::from(MAX_WSCALE)) as u8;
    }
    InitialWindow { rcv_wnd: space, clamp: clamp.min(U16_MAX << scale), wscale: scale, ratio }
}

/// The receive window of one connection: what was promised, and the bounds of what may be.
#[derive(Clone, Copy, Debug)]
pub struct RcvWindow {
    /// The last window sent, counted from `wup` (RCV.WND).
    wnd: u32,
    /// RCV.NXT when it was sent: everything before has been acknowledged.
    wup: Seq,
    /// Bound for every window (`window_clamp`).
    clamp: u32,
    /// Slow start of the window: how far the data seen so far justifies opening it (`rcv_ssthresh`).
    ssthresh: u32,
    buf: RcvBuf,
    advmss: u16,
    scale: u8,
    ratio: Ratio,
    /// Something was just refused.
    no_room: bool,
    /// What the owner's error queue takes of the buffer, in bytes of charge: the low three bytes of the number, which need no space of their
    /// own in a connection.
    errors: [u8; 3],
}

/// Most that is counted of an error queue.
const ERRORS_MAX: u32 = (1 << 24) - 1;

/// A window that could be advertised now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The window in bytes.
    pub wnd: u32,
    /// Less than half the buffer is free: stop acknowledging every segment.
    pub tight: bool,
}

impl RcvWindow {
    /// The window as the SYN offers it; `wup` is set with the peer's ISN.
    #[must_use]
    pub const fn new(initial: InitialWindow, buf: RcvBuf, advmss: u16) -> Self {
        let InitialWindow { rcv_wnd: wnd, clamp, wscale: scale, ratio } = initial;
        Self {
            wnd,
            wup: Seq(0),
            clamp,
            ssthresh: wnd,
            buf,
            advmss,
            scale,
            ratio,
            no_room: false,
            errors: [0; 3],
        }
    }

    /// What the error queue takes of the buffer, in bytes.
    #[must_use]
    pub const fn errors(&self) -> u32 {
        let [low, middle, high] = self.errors;
        u32::from_le_bytes([low, middle, high, 0])
    }

    /// The error queue takes so much by now, of which 16 MB count.
    pub const fn set_errors(&mut self, bytes: u32) {
        let counted = if bytes > ERRORS_MAX { ERRORS_MAX } else { bytes };
        let [low, middle, high, _] = counted.to_le_bytes();
        self.errors = [low, middle, high];
    }

    /// The receive buffer.
    #[must_use]
    pub const fn buf(&self) -> RcvBuf {
        self.buf
    }

    /// The last window sent, in bytes.
    #[must_use]
    pub const fn wnd(&self) -> u32 {
        self.wnd
    }

    /// RCV.NXT when the last window was sent.
    #[must_use]
    pub const fn wup(&self) -> Seq {
        self.wup
    }

    /// Bound for every window, in bytes.
    #[must_use]
    pub const fn clamp(&self) -> u32 {
        self.clamp
    }

    /// Slow-start threshold of the window, in bytes (`tcpi_rcv_ssthresh`).
    #[must_use]
    pub const fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// The shift in use.
    #[must_use]
    pub const fn scale(&self) -> u8 {
        self.scale
    }

    /// The MSS we offered.
    #[must_use]
    pub const fn advmss(&self) -> u32 {
        self.advmss as u32
    }

    /// First sequence number that the peer may not send yet.
    #[must_use]
    pub fn right_edge(&self) -> Seq {
        self.wup + self.wnd
    }

    /// Bytes that the peer may still send (`tcp_receive_window`).
    #[must_use]
    pub fn open(&self, rcv_nxt: Seq) -> u32 {
        let edge = self.right_edge();
        if edge.after(rcv_nxt) { edge.since(rcv_nxt) } else { 0 }
    }

    /// The peer's SYN has come: its ISN is consumed.
    pub const fn synchronize(&mut self, rcv_nxt: Seq) {
        self.wup = rcv_nxt;
    }

    /// The peer does not scale windows (RFC 7323 section 2.2).
    pub fn no_scaling(&mut self) {
        self.scale = 0;
        self.clamp = self.clamp.min(U16_MAX);
        self.ssthresh = self.ssthresh.min(self.clamp);
    }

    /// A SYN that goes again offers a smaller MSS.
    pub const fn lower_advmss(&mut self, advmss: u16) {
        self.advmss = advmss;
    }

    /// Every segment of the peer will carry `bytes` of options, so that much less of its MSS is payload.
    pub const fn allow_for_options(&mut self, bytes: u16) {
        self.advmss = self.advmss.saturating_sub(bytes);
    }

    /// The handshake is over: fits the bounds to the buffer (`tcp_init_buffer_space`).
    pub fn establish(&mut self, sysctl: &Sysctl) {
        self.ratio = self.buf.first_ratio(sysctl);
        let full = self.ratio.win_from_space(self.buf.bytes);
        let advmss = self.advmss();
        let share = sysctl.tcp_app_win;
        if self.clamp >= full {
            self.clamp = full;
            if share > 0 && full > 4 * advmss {
                self.clamp = (full - (full >> share.min(31))).max(4 * advmss);
            }
        }
        // One segment stays in reserve.
        if share > 0 && self.clamp > 2 * advmss && self.clamp + advmss > full {
            self.clamp = (2 * advmss).max(full.saturating_sub(advmss));
        }
        self.ssthresh = self.ssthresh.min(self.clamp);
    }

    /// The largest window that fits now, without silly steps (`__tcp_select_window`).
    #[must_use]
    pub fn offer(&self, sysctl: &Sysctl, charge: u32, rcv_mss: u32) -> Offer {
        let allowed = self.ratio.win_from_space(self.buf.bytes);
        let full = self.clamp.min(allowed);
        let mss = rcv_mss.min(full);
        if mss == 0 {
            return Offer { wnd: 0, tight: false };
        }
        let mut free = self.ratio.win_from_space(self.buf.bytes.saturating_sub(charge));
        let tight = free < full / 2;
        let shrinks = self.may_shrink(sysctl);
        if tight || shrinks {
            // Rounded down, or the scale alone would widen what memory no longer allows.
            free = free >> self.scale << self.scale;
        }
        if tight && (free < allowed / 16 || free < mss || (shrinks && free >> self.scale == 0)) {
            return Offer { wnd: 0, tight };
        }
        let free = free.min(self.ssthresh);
        // A threshold below the MSS must not keep a small buffer shut once it was read.
        let step = if tight { mss } else { mss.min(self.ssthresh.max(1)) };
        let wnd = if self.scale > 0 { self.align(free) } else { self.unscaled(free, step, full) };
        Offer { wnd, tight }
    }

    /// The window follows memory even if its right edge moves left (`tcp_shrink_window`).
    const fn may_shrink(&self, sysctl: &Sysctl) -> bool {
        sysctl.tcp_shrink_window && self.scale > 0
    }

    /// Rounded up to what the scaled field can say, so that a small window is not scaled away.
    fn align(&self, wnd: u32) -> u32 {
        let unit = (1_u32 << self.scale) - 1;
        wnd.saturating_add(unit) & !unit
    }

    /// Without scaling the window moves in whole segments, or by half the buffer (RFC 9293 section 3.8.6.2.2). Linux moves it by half the buffer only
    /// where a segment is as long as that: a buffer of less than two segments then keeps a window of a few bytes for good, which the peer fills
    /// whenever its timer runs out.
    fn unscaled(&self, free: u32, mss: u32, full: u32) -> u32 {
        let wnd = self.wnd;
        if wnd + mss <= free || wnd > free {
            return free - free % mss;
        }
        let half = full.min(self.ssthresh) / 2;
        if free > wnd + half { free } else { wnd }
    }

    /// The window of a segment that goes out now. The right edge never moves left (RFC 9293 section 3.8.6), unless it may.
    #[must_use]
    pub fn next(&self, sysctl: &Sysctl, rcv_nxt: Seq, charge: u32, rcv_mss: u32) -> Offer {
        if self.no_room {
            return Offer { wnd: 0, tight: true };
        }
        self.kept(sysctl, rcv_nxt, self.offer(sysctl, charge, rcv_mss))
    }

    /// What fits, or where that is less what was promised.
    fn kept(&self, sysctl: &Sysctl, rcv_nxt: Seq, fits: Offer) -> Offer {
        let open = self.open(rcv_nxt);
        let keeps = fits.wnd < open && !self.may_shrink(sysctl);
        if keeps { Offer { wnd: self.align(open), ..fits } } else { fits }
    }

    /// Chooses the window for a segment that is going out as [`Self::next`] does, remembers and counts it (`tcp_select_window`). Returns the
    /// header field and whether the buffer is tight.
    pub fn select(&mut self, cx: &mut Cx<'_>, rcv_nxt: Seq, charge: u32, rcv_mss: u32) -> (u16, bool) {
        let old = self.wnd;
        if core::mem::take(&mut self.no_room) {
            // Not counted as one that was full in good order (`tcp_select_window`).
            (self.wnd, self.wup) = (0, rcv_nxt);
            return (0, true);
        }
        let fits = self.offer(cx.sysctl, charge, rcv_mss);
        let Offer { wnd, tight } = self.kept(cx.sysctl, rcv_nxt, fits);
        if wnd > fits.wnd && fits.wnd == 0 {
            cx.count.tcp_ext.tcp_want_zero_window_adv += 1;
        }
        // What the field cannot say is kept to all the same: who sends beyond it is not refused.
        self.wnd = wnd;
        self.wup = rcv_nxt;
        let field = (self.wnd.min(U16_MAX << self.scale) >> self.scale) as u16;
        if field == 0 && old != 0 {
            cx.count.tcp_ext.tcp_to_zero_window_adv += 1;
        } else if field != 0 && old == 0 {
            cx.count.tcp_ext.tcp_from_zero_window_adv += 1;
        }
        (field, tight)
    }

    /// Data of `len` bytes came that pins `charge`: opens the window further if the buffer would hold as many bytes at this
    /// overhead (`tcp_grow_window`). `queued` is the charge of both queues, of held data before it came. True when it grew.
    pub fn grow(&mut self, sysctl: &Sysctl, queued: u32, len: u32, charge: u32, rcv_mss: u32) -> bool {
        let space = self.ratio.win_from_space(self.buf.bytes.saturating_sub(queued));
        let room = self.clamp.min(space).saturating_sub(self.ssthresh);
        if room == 0 {
            return false;
        }
        let step = if self.ratio.win_from_space(charge) <= len {
            2 * self.advmss()
        } else {
            self.cautious_step(sysctl, len, charge, rcv_mss)
        };
        if step == 0 {
            return false;
        }
        self.ssthresh += room.min(step.max(2 * len));
        true
    }

    /// The smaller the window still is, the more overhead is tolerated (`__tcp_grow_window`).
    fn cautious_step(&self, sysctl: &Sysctl, len: u32, charge: u32, rcv_mss: u32) -> u32 {
        let mut charge = self.ratio.win_from_space(charge) / 2;
        let mut window = self.ratio.win_from_space(sysctl.tcp_rmem.max) / 2;
        // At most 32 rounds: both are halved each time.
        while self.ssthresh <= window && window > 0 {
            if charge <= len {
                return 2 * rcv_mss;
            }
            charge /= 2;
            window /= 2;
        }
        0
    }

    /// The buffer is over its limit: widen it within the sysctl, or close the window (`tcp_clamp_window`).
    pub fn press(&mut self, cx: &Cx<'_>, charge: u32) {
        let most = cx.sysctl.tcp_rmem.max;
        if self.buf.bytes < most && !self.buf.locked && cx.pressure == Pressure::Low {
            self.buf.bytes = charge.min(most).max(self.buf.bytes);
        }
        if charge > self.buf.bytes {
            self.ssthresh = self.clamp.min(2 * self.advmss());
        }
    }

    /// Memory is short: four segments are window enough (`tcp_adjust_rcv_ssthresh`).
    pub fn economize(&mut self) {
        self.ssthresh = self.ssthresh.min(4 * self.advmss());
    }

    /// What came found no room: the next segment says that the window is shut, whatever was promised (`tcp_select_window`).
    pub const fn shut(&mut self) {
        self.no_room = true;
    }

    /// Autotuning has chosen a larger buffer; the bound follows.
    pub fn widen(&mut self, bytes: u32) {
        if bytes > self.buf.bytes && !self.buf.locked {
            self.buf.bytes = bytes;
            self.clamp = self.ratio.win_from_space(bytes);
        }
    }

    /// SO_RCVLOWAT: room for `win` bytes at the overhead that segments have shown (`tcp_set_rcvlowat`).
    pub fn make_room_for(&mut self, win: u32) {
        let bytes = u32::try_from(self.ratio.space_from_win(win.into())).unwrap_or(u32::MAX);
        if bytes > self.buf.bytes && !self.buf.locked {
            self.buf.bytes = bytes;
            self.clamp = self.clamp.max(win);
        }
    }

    /// SO_RCVBUF on a living connection, as it reads back. The window follows as it is filled or grown.
    pub fn set_rcvbuf(&mut self, bytes: u32) {
        self.buf.bytes = bytes.max(MIN_RCVBUF);
        self.buf.locked = true;
    }

    /// Autotuning may change the buffer again.
    pub const fn unlock_rcvbuf(&mut self) {
        self.buf.locked = false;
    }

    /// TCP_WINDOW_CLAMP on a living connection (`tcp_set_window_clamp`).
    pub fn set_clamp(&mut self, bytes: u32) {
        self.buf.clamp = bytes.max(MIN_RCVBUF / 2);
        self.change_clamp(bytes);
    }

    /// TCP_WINDOW_CLAMP of zero after the end: the next one is an increase, which leaves the threshold.
    pub fn lift_clamp(&mut self) {
        (self.buf.clamp, self.clamp) = (0, 0);
    }

    /// A segment larger than any before tells how much of the buffer payload takes, and the bound follows, TCP_WINDOW_CLAMP or not
    /// (`tcp_measure_rcv_mss`). True when it changed.
    pub fn measure(&mut self, len: u32, truesize: u32) -> bool {
        let ratio = Ratio::measured(len, truesize);
        if ratio == self.ratio {
            return false;
        }
        self.ratio = ratio;
        self.change_clamp(ratio.win_from_space(self.buf.bytes));
        true
    }

    /// What a connection that follows on the same socket begins with, as [`RcvBuf::ratio`]: only what was measured stays
    /// (`tcp_disconnect`).
    #[must_use]
    pub fn ratio_after(&self, sysctl: &Sysctl) -> u8 {
        if self.ratio == self.buf.first_ratio(sysctl) { self.buf.ratio } else { self.ratio.0 }
    }

    /// Share of the buffer that payload takes.
    #[must_use]
    pub const fn ratio(&self) -> Ratio {
        self.ratio
    }

    fn change_clamp(&mut self, bytes: u32) {
        let (old, new) = (self.clamp, bytes.max(MIN_RCVBUF / 2));
        if new == old {
            return;
        }
        self.clamp = new;
        self.ssthresh = if new < old { self.ssthresh.min(new) } else { self.ssthresh.max(self.wnd.min(new)) };
    }
}
