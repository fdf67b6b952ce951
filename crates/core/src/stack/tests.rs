//! Two stacks over hand-made links, in virtual time.
mod events;
mod ip;
mod noise;
mod pacing;
mod qdisc;
mod sockstat;
mod tcp;
mod udp;
mod world;
