//! Opening an association: INIT and INIT ACK, the cookie, and what a second handshake means for a first (RFC 9260 section 5).
pub mod cookie;
pub mod init;
pub mod restart;
pub mod used;
