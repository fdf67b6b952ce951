//! TCP against a peer made by hand: packet scripts in virtual time, one file per feature.
#![allow(unreachable_pub, reason = "the modules of a test binary")]
#![allow(dead_code, reason = "the harness offers more than every build of the scripts uses")]
mod acks;
mod autocork;
mod below;
mod bounds;
mod closing;
mod congestion;
mod corners;
mod explore;
mod fastopen;
mod handshake;
mod info;
mod keepalive;
mod lowat;
mod memory;
mod nagle;
mod owners;
mod peer;
mod pmtu;
mod queue_aware;
mod recovery;
mod resets;
mod sack;
mod settings;
mod stalls;
mod syncookies;
mod text;
mod timeouts;
mod timestamps;
mod timewait;
mod urgent;
mod windows;
mod wraps;
