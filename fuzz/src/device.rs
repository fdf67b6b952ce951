//! A device that takes, postpones and refuses packets as chance has it, and completes them late.
use lowwater_core::base::{Instant, Rng};
use lowwater_core::device::{Device, Submit};
use lowwater_core::packet::{Owner, Packet};
use std::collections::VecDeque;

/// Packets that wait on one direction of the link.
const WIRE_MAX: usize = 256;

/// How a device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Takes everything and completes it at once.
    Willing,
    /// Takes everything and completes it later.
    Late,
    /// "Not now" half of the time.
    Busy,
    /// It takes one packet at a time, and completes it later.
    Small,
    /// All answers.
    Any,
}

/// The device during one call of transmit.
pub(crate) struct Nic<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) mood: Mood,
    pub(crate) wire: &'a mut VecDeque<Packet>,
    /// Credits that the device still holds.
    pub(crate) held: &'a mut Vec<Owner>,
    pub(crate) taken: usize,
}

impl Device for Nic<'_> {
    fn submit(&mut self, _now: Instant, mut packet: Packet) -> Submit {
        let answer = match self.mood {
            Mood::Willing => 0,
            Mood::Late => 1,
            Mood::Busy => [0, 2][self.rng.below(2) as usize],
            Mood::Small => 4,
            Mood::Any => self.rng.below(5),
        };
        match answer {
            2 => return Submit::NotNow(packet),
            3 => {
                self.taken += 1;
                return Submit::Dropped;
            }
            _ => {}
        }
        self.taken += 1;
        let owner = packet.owner.take();
        if self.wire.len() < WIRE_MAX {
            self.wire.push_back(packet);
        }
        match owner {
            Some(owner) if answer == 1 => {
                self.held.push(owner);
                Submit::Sent
            }
            owner if answer == 4 => {
                self.held.extend(owner);
                Submit::Filled
            }
            _ => Submit::Completed,
        }
    }
}
