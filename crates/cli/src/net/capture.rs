//! `--pcap`: every packet of the stack in a pcapng file, and what is said where that fails.
use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// A file being written by the stack's thread.
pub(crate) struct Capture {
    path: PathBuf,
    pub(super) file: lowwater::Capture,
}

impl Capture {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = lowwater::Capture::create(path)
            .map_err(|e| Failure::io(format!("creating the capture {}", path.display()), &e))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes what is gathered; tells the first error since the beginning.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.file
            .finish()
            .map_err(|e| Failure::io(format!("the capture {} is incomplete", self.path.display()), &e))
    }
}
