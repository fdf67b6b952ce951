//! TCP (RFC 9293): one file per job. Knows nothing of sockets, IP, queues below or devices.
pub mod seq;
