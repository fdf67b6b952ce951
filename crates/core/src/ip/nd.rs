//! Neighbour Discovery messages (RFC 4861).
