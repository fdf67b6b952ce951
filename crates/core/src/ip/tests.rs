//! Tests of the whole IP layer.
