//! A journal replays to the same bytes, and damage is an error, not a panic.
use super::*;
use crate::swarm::{self, WorldSpec};
use crate::world::Recording;

/// Worlds without associations, whose calls miss the journal.
fn worlds() -> impl Iterator<Item = WorldSpec> {
    (0..).map(WorldSpec::new).filter(|draw| draw.sctp.talks.is_empty() && draw.sctp.second.is_none())
}

fn recorded(draw: &WorldSpec) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut world = swarm::build(draw, Recording { journal: true, ..Recording::default() });
    world.start();
    // What the world thinks of the run does not matter here, only that it can be repeated.
    let _ = world.run_while(Instant::from_millis(3_000), |w| !w.all_done());
    let journals = world.hosts().iter().filter_map(|h| h.core().recorder());
    journals.map(|r| (r.inputs().to_vec(), r.outputs().to_vec())).collect()
}

#[test]
fn every_host_of_a_world_replays_to_the_same_outputs() {
    let mut output_bytes = 0;
    for draw in worlds().take(6) {
        let seed = draw.seed;
        for (n, (inputs, outputs)) in recorded(&draw).into_iter().enumerate() {
            let core = replay(&inputs).expect("its own journal");
            let again = core.recorder().expect("a replay records");
            assert_eq!(again.inputs(), inputs, "seed {seed} host {n}");
            assert_eq!(again.outputs(), outputs, "seed {seed} host {n}");
            output_bytes += outputs.len();
        }
    }
    assert!(output_bytes > 1_000, "something came out: {output_bytes} bytes");
}

#[test]
fn a_changed_input_changes_the_outputs_and_damage_is_told() {
    let (inputs, _) = worlds().next().map(|draw| recorded(&draw).remove(0)).expect("there are such worlds");
    assert!(replay(&inputs[1..]).is_err());
    assert!(replay(b"").is_err());
    for cut in [MAGIC.len() + 1, inputs.len() / 2, inputs.len() - 1] {
        // Cut at a border it is a shorter journal; anywhere else it is damage. Never a panic.
        let _ = replay(&inputs[..cut]);
    }
}
