//! Devices, clocks and entropy of the operating system; the only crate with `unsafe`.
