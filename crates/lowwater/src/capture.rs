//! A pcapng file of the packets at the border to the devices, offloaded checksums completed.
use crate::observe::Direction;
use lowwater_core::offload::csum;
use lowwater_core::packet::Packet;
use lowwater_wire::pcapng::{self, Block, LINKTYPE_RAW, PacketBlock};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Bytes gathered before they are written to a file.
const BUFFER: usize = 1 << 20;

/// A capture: [`Builder::capture`](crate::Builder::capture) writes the packets of a stack to it, and [`Capture::finish`] says whether all are there.
/// It ends at the first error of the writer; the stack goes on. What has passed is written when the stack has nothing to do. A super-packet is one
/// packet, as the device takes it. Clones are the same capture; packets of several stacks may go to one: an interface is named by the number of its stack, in order of the calls, and that of its device ("stack0-device1").
#[derive(Clone)]
pub struct Capture {
    state: Arc<Mutex<State>>,
}

struct State {
    /// `None` when it has ended.
    writer: Option<Box<dyn Write + Send>>,
    failure: Option<io::Error>,
    /// Stacks that write to it.
    stacks: usize,
    /// Stack and device of each interface that stands in the file.
    interfaces: Vec<(usize, usize)>,
    block: Vec<u8>,
}

impl Capture {
    /// To a new file, or in the place of what is there.
    ///
    /// # Errors
    /// Those of creating it and of its first write.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let capture = Self::to(BufWriter::with_capacity(BUFFER, File::create(path)?))?;
        capture.locked().flush()?;
        Ok(capture)
    }

    /// To anything that takes bytes: a pipe, a compressor, memory. It is written to by the stack's thread; what is slow there delays packets.
    ///
    /// # Errors
    /// Those of its first write.
    pub fn to(mut writer: impl Write + Send + 'static) -> io::Result<Self> {
        let mut block = Vec::new();
        Block::Section { application: "lowwater", comment: "" }
            .emit(&mut |part| block.extend_from_slice(part));
        writer.write_all(&block)?;
        let writer: Option<Box<dyn Write + Send>> = Some(Box::new(writer));
        let state = State { writer, failure: None, stacks: 0, interfaces: Vec::new(), block };
        Ok(Self { state: Arc::new(Mutex::new(state)) })
    }

    /// Ends it: what was gathered is written. To be called after [`Stack::shutdown`](crate::Stack::shutdown); what passes later is not in it.
    ///
    /// # Errors
    /// The first one since the beginning: packets after it are missing.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.locked();
        let flushed = state.flush();
        state.writer = None;
        state.failure.take().map_or(flushed, Err)
    }

    /// The packets of another stack go to it.
    pub(crate) fn tap(&self) -> Tap {
        let mut state = self.locked();
        let stack = state.stacks;
        state.stacks += 1;
        Tap { capture: self.clone(), stack }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stack's end of a capture.
pub(crate) struct Tap {
    capture: Capture,
    /// The number of the stack.
    stack: usize,
}

impl Tap {
    pub(crate) fn see(&self, device: usize, direction: Direction, packet: &Packet) {
        self.attempt(|state| state.packet((self.stack, device), direction, packet));
    }

    /// Nothing more comes for now: what was gathered is written, for whoever looks meanwhile, and for a program that ends without a word.
    pub(crate) fn rest(&self) {
        self.attempt(State::flush);
    }

    /// The first error ends the capture.
    fn attempt(&self, write: impl FnOnce(&mut State) -> io::Result<()>) {
        let mut state = self.capture.locked();
        if state.writer.is_some()
            && let Err(e) = write(&mut state)
        {
            state.failure = Some(e);
            state.writer = None;
        }
    }
}

impl State {
    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }

    /// The number of an interface, which is in the file from then on.
    fn interface(&mut self, of: (usize, usize)) -> io::Result<u32> {
        if let Some(at) = self.interfaces.iter().position(|&known| known == of) {
            return Ok(at as u32);
        }
        let name = format!("stack{}-device{}", of.0, of.1);
        self.write(&Block::Interface { link: LINKTYPE_RAW, name: &name })?;
        self.interfaces.push(of);
        Ok(self.interfaces.len() as u32 - 1)
    }

    fn packet(&mut self, of: (usize, usize), direction: Direction, packet: &Packet) -> io::Result<()> {
        let interface = self.interface(of)?;
        let mut packet = packet.clone();
        csum::fill(&mut packet, 0);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at_ns = since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        let direction = match direction {
            Direction::In => pcapng::Direction::In,
            Direction::Out => pcapng::Direction::Out,
        };
        let data = [packet.head.as_slice(), &packet.payload[..]];
        self.write(&Block::Packet(PacketBlock { interface, at_ns, direction, data, comment: "" }))
    }

    /// As one write, of a writer that may have no buffer.
    fn write(&mut self, block: &Block<'_>) -> io::Result<()> {
        let Self { writer, block: bytes, .. } = self;
        bytes.clear();
        block.emit(&mut |part| bytes.extend_from_slice(part));
        writer.as_mut().map_or(Ok(()), |writer| writer.write_all(bytes))
    }
}
