//! Rounds of sending that something interrupts.
use super::*;

/// Windows of a recovery in which new data leaves; `whole` says that a round is over before the next acknowledgement comes.
fn windows(whole: bool) -> Vec<u32> {
    let mut rig = Rig::warm();
    rig.path.window.cwnd = 20;
    rig.send(20, false);
    rig.ms += RTT;
    let mut windows = Vec::new();
    let mut new = 0;
    for sacked in (7..21).step_by(2) {
        rig.ack(1, &[(4, sacked)]);
        windows.push(rig.cwnd());
        rig.resend();
        let room = rig.s.cwnd_room(&rig.path) as usize;
        rig.write(room * usize::from(MSS));
        let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
        for _ in 0..room {
            rig.s.commit_send(&mut cx, &mut rig.path, usize::from(MSS)).expect("queued");
        }
        if whole && room > 0 {
            rig.s.after_write(&mut cx, &mut rig.path, room as u32, true, false);
        }
        new += room;
    }
    assert_eq!(rig.s.ca_state(), CaState::Recovery);
    assert!(new >= 3, "{new} segments of new data");
    windows
}

/// A turn is over after some packets, or the device has no room: an acknowledgement that comes then must know what has left.
#[test]
fn what_has_left_counts_before_its_round_is_over() {
    assert_eq!(windows(false), windows(true));
}
