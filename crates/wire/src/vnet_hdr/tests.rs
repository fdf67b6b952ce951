//! Tests of `vnet_hdr`.
