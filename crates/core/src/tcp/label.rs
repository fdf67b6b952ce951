//! Flow labels (RFC 6437): which one segments have, and under which the peer's come. Another label may lead another way (`sk_rethink_txhash`).

/// Both sides' labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The label in use: how many there were before it, those of a passive open's SYN-ACKs and of its answers included.
    ours: u16,
    /// The peer's label: 20 bits.
    peers: [u8; 3],
}

impl Label {
    /// That of an active open.
    pub(super) const FIRST: Self = Self { ours: 0, peers: [0; 3] };

    /// That of a passive open whose SYN-ACK went again so often.
    pub(super) fn after(syn_acks: u8) -> Self {
        Self { ours: syn_acks.into(), ..Self::FIRST }
    }

    pub(super) const fn ours(self) -> u16 {
        self.ours
    }

    /// What is sent may be lost on its way, and tries another one from now on.
    pub(super) const fn change(&mut self) {
        self.ours = self.ours.wrapping_add(1);
    }

    /// The label of the peer's data; true where it is another than before (`tcp_save_lrcv_flowlabel`).
    pub(super) fn peer_changed(&mut self, label: u32) -> bool {
        let [_, peers @ ..] = label.to_be_bytes();
        core::mem::replace(&mut self.peers, peers) != peers
    }
}
