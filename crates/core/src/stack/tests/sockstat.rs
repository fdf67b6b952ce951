//! What /proc/net/sockstat would show.
use super::qdisc::paced;
use super::tcp::NO_FLAGS;
use super::world::{World, at, v4};
use core::time::Duration;

#[test]
fn the_lines_are_those_of_proc_net_sockstat() {
    let mut w = World::plain();
    assert_eq!(
        w.stacks[0].sockstat().to_string(),
        "sockets: used 0\nTCP: inuse 0 orphan 0 tw 0 alloc 0 mem 0\nUDP: inuse 0 mem 0\nFRAG: inuse 0 memory 0"
    );
    let (client, _) = paced(&mut w, u64::MAX);
    w.stacks[1].udp_bind(w.now, at(v4(2), 7)).expect("free");
    let stat = w.stacks[1].sockstat();
    assert_eq!((stat.used, stat.tcp_inuse, stat.tcp_alloc, stat.udp_inuse), (2, 1, 1, 1));
    w.stacks[0].tcp_send(w.now, client, &[0; 9_000], NO_FLAGS).expect("room");
    w.run(Duration::from_millis(100));
    assert!(w.stacks[1].sockstat().tcp_mem >= 3, "what waits to be read");
    w.stacks[0].close(w.now, client).expect("open");
    let stat = w.stacks[0].sockstat();
    assert_eq!((stat.used, stat.tcp_inuse, stat.tcp_orphan), (0, 1, 1));
}
