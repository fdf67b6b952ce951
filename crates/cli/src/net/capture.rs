//! `--pcap`: every packet of the stack in a pcapng file, offloaded checksums completed.
use crate::failure::Failure;
use lowwater::{Direction, Observer};
use lowwater_core::base::Instant;
use lowwater_sim::pcap::{Direction as FileDirection, PcapOptions, PcapWriter};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Bytes gathered before they are written.
const BUFFER: usize = 1 << 20;

/// A file being written by the stack's thread.
pub(crate) struct Capture {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

struct State {
    writer: Option<PcapWriter<BufWriter<File>>>,
    failure: Option<io::Error>,
}

impl Capture {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let writer = File::create(path).and_then(|file| {
            let buffered = BufWriter::with_capacity(BUFFER, file);
            let mut writer = PcapWriter::new(buffered, PcapOptions::default(), "")?;
            writer.interface("stack")?;
            Ok(writer)
        });
        let writer =
            writer.map_err(|e| Failure::io(format!("creating the capture {}", path.display()), &e))?;
        let state = State { writer: Some(writer), failure: None };
        Ok(Self { path: path.to_owned(), state: Arc::new(Mutex::new(state)) })
    }

    /// What the stack calls. The capture ends at the first error, the stack goes on.
    pub(crate) fn observer(&self) -> Observer {
        let state = self.state.clone();
        Box::new(move |_, direction, packet| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { writer: Some(writer), failure: None } = &mut *state else { return };
            let direction = match direction {
                Direction::In => FileDirection::In,
                Direction::Out => FileDirection::Out,
            };
            if let Err(e) = writer.packet(0, since_1970(), direction, packet, None) {
                state.failure = Some(e);
            }
        })
    }

    /// Writes what is gathered; tells the first error since the beginning.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let finished = state.writer.take().map_or(Ok(()), |w| w.finish().map(drop));
        let outcome = state.failure.take().map_or(finished, Err);
        outcome.map_err(|e| Failure::io(format!("the capture {} is incomplete", self.path.display()), &e))
    }
}

fn since_1970() -> Instant {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Instant::from_nanos(since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
}
