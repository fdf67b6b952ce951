//! Fragmentation of what is too big for the path.
