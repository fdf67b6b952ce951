//! A deterministic world of hosts and links in virtual time around the production core.
#![forbid(unsafe_code)]
