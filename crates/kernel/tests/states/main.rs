//! Calls of every kind in every state of a TCP connection and of a datagram socket, drawn, with a peer's packets between them: the stack
//! answers and sends what the kernel does.
//!
//! A failure prints the shortest part of its sequence that still shows a difference. `SEQUENCES=FROM..TO` draws others, `STATE=NAME` in one
//! state alone.
#![cfg(target_os = "linux")]
mod draw;
mod life;
mod options;
#[path = "../pair/mod.rs"]
mod pair;
mod survey;

use draw::draw;
use life::STATES;
use pair::{Pair, seeds};

#[test]
fn calls_in_every_state_answer_as_the_kernels() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let only = std::env::var("STATE").ok();
    let mut failed = Vec::new();
    let mut pair = Pair::new([true, true]);
    for seed in seeds(0..15) {
        for (at, state) in STATES.iter().enumerate() {
            if only.as_ref().is_some_and(|only| only != state) {
                continue;
            }
            let steps = draw(seed * 1_000 + at as u64, state);
            if let Some(found) = pair.find(&steps) {
                println!("seed {seed} {state}:\n{}\n", found.join("\n"));
                failed.push((seed, *state));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}: {} sequences differ", failed.len());
}
