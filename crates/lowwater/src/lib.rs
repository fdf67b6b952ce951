//! TCP and UDP sockets in user space, for tokio and for blocking programs.
#![forbid(unsafe_code)]
