//! SCTP as programs see it: one-to-one, one-to-many, blocking, readiness, and over TUN.
mod blocking;
mod datagram;
mod ends;
mod many;
mod one;
mod ready;
mod stalled;
mod tun;
mod world;
