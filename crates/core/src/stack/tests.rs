//! Two stacks over hand-made links, in virtual time.
mod ip;
mod udp;
mod world;
