//! Typed views and representations of the packets on the wire; parsing never panics.
#![forbid(unsafe_code)]
