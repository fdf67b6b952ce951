//! What a connection tells its owner: level readiness for polling, edges for waking.

macro_rules! bits {
    ($(#[$doc:meta])* $name:ident { $($(#[$bdoc:meta])* $flag:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
        pub struct $name(pub u8);

        impl $name {
            /// No bit set.
            pub const NONE: Self = Self(0);
            $($(#[$bdoc])* pub const $flag: Self = Self($value);)*

            /// All of `other`'s bits are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// No bit is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Sets `other`'s bits.
            pub const fn insert(&mut self, other: Self) {
                self.0 |= other.0;
            }

            /// Clears `other`'s bits.
            pub const fn remove(&mut self, other: Self) {
                self.0 &= !other.0;
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut list = f.debug_list();
                $(if self.contains(Self::$flag) { list.entry(&format_args!(stringify!($flag))); })*
                list.finish()
            }
        }
    };
}

bits! {
    /// Level readiness, as poll() reports it.
    Ready {
        /// Data, an end of stream or an error can be read.
        IN = 1,
        /// Writable by the half rule (see `socket/lowat.rs`).
        OUT = 2,
        /// The peer will send nothing more.
        RDHUP = 4,
        /// Both directions are over.
        HUP = 8,
        /// An error waits.
        ERR = 16,
        /// Urgent data can be read out of band.
        PRI = 32,
    }
}

bits! {
    /// Edges since they were last taken; the stack turns them into events.
    Notice {
        /// Something became readable.
        READABLE = 1,
        /// A writer that had seen "full" may go on.
        WRITABLE = 2,
        /// The handshake is complete.
        CONNECTED = 4,
        /// The connection is over; an error may wait.
        CLOSED = 8,
    }
}

/// What becomes of a connection object after the verb that was just called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Alive,
    /// Nothing of the network is left, the flow's name is free again; the object stays until the application closes it.
    Detached,
    /// It ends in TIME-WAIT: replace it by the small object and tell the owner, if there is one.
    TimeWait,
    /// It is over.
    Dead,
}

/// Which direction `shutdown` closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing more will be read.
    Read,
    /// Nothing more will be written: a FIN follows the data.
    Write,
    /// Both.
    Both,
}

/// Flags of a send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SendFlags {
    /// MSG_MORE: more data follows, hold a partial segment.
    pub more: bool,
    /// MSG_EOR: end of record, never joined with what follows.
    pub eor: bool,
    /// MSG_OOB: the last byte is urgent.
    pub oob: bool,
    /// The caller waits for room where not everything fits, and goes on then.
    pub waits: bool,
    /// The caller has waited in this same call, which goes on.
    pub resumed: bool,
    /// Something of what this same call writes was taken before: a part of it, or what it took in before it waited.
    pub goes_on: bool,
}
