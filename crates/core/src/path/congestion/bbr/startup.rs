//! STARTUP: when is the pipe full? When the bandwidth has not grown by a quarter for three rounds.
use super::model::UNIT;

/// Growth that means that there is more to find, in 256ths.
const GROWTH: u64 = UNIT as u64 * 5 / 4;
/// Rounds without it: the first may have filled the peer's window, the second its larger one.
const ROUNDS: u8 = 3;

/// What is known of the pipe's size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// Bandwidth when it last grew.
    bw: u32,
    pub(super) rounds: u8,
    /// The pipe was full once: from then on the window is cut to the model.
    pub(super) reached: bool,
}

impl FullPipe {
    /// A round ended whose samples the application did not hold down (`bbr_check_full_bw_reached`).
    pub(super) fn take_round(&mut self, max_bw: u32) {
        if self.reached {
            return;
        }
        if u64::from(max_bw) >= u64::from(self.bw) * GROWTH / u64::from(UNIT) {
            (self.bw, self.rounds) = (max_bw, 0);
            return;
        }
        self.rounds += 1;
        self.reached = self.rounds >= ROUNDS;
    }

    /// A timeout: growth is measured from nothing again.
    pub(super) const fn forget_bw(&mut self) {
        self.bw = 0;
    }

    /// A slow-down was spurious.
    pub(super) const fn forget(&mut self) {
        (self.bw, self.rounds) = (0, 0);
    }
}
