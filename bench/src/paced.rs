//! The application of the paced benchmarks: writes without end to whoever connects, each at a rate.
use crate::single::{App, thread_cpu_s};
use lowwater_core::base::{Instant, SocketId};
use lowwater_core::stack::{Event, Stack};
use lowwater_core::tcp::SendFlags;

/// Writes without end.
#[derive(Debug)]
pub struct Paced {
    bytes_per_second: u64,
    data: bytes::Bytes,
    writers: Vec<SocketId>,
    share: Option<Share>,
}

/// Measures what part of a core the thread takes between two times.
#[derive(Debug)]
struct Share {
    from: Instant,
    until: Instant,
    /// Processor time of the thread at the first one.
    before: Option<(Instant, f64)>,
    /// The result.
    of_a_core: Option<f64>,
}

impl Paced {
    /// SO_MAX_PACING_RATE of each connection.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, data: vec![0x5a; 65_536].into(), writers: Vec::new(), share: None }
    }

    /// Has enough at `until`, and tells then what part of a core the thread has taken since `from`.
    #[must_use]
    pub fn measured(self, from: Instant, until: Instant) -> Self {
        Self { share: Some(Share { from, until, before: None, of_a_core: None }), ..self }
    }

    /// Processor time of the thread, what the kernel does in it included, divided by the time; `None` before the end.
    #[must_use]
    pub fn of_a_core(&self) -> Option<f64> {
        self.share.as_ref()?.of_a_core
    }
}

impl Share {
    /// False at the end.
    fn turn(&mut self, now: Instant) -> bool {
        match self.before {
            None if now >= self.from => self.before = Some((now, thread_cpu_s())),
            Some((since, cpu)) if now >= self.until => {
                self.of_a_core = Some((thread_cpu_s() - cpu) * 1e9 / now.nanos_since(since) as f64);
                return false;
            }
            _ => {}
        }
        true
    }
}

impl App for Paced {
    fn event(&mut self, stack: &mut Stack, now: Instant, event: &Event) {
        match *event {
            Event::Accepted(listener) => {
                while let Ok((id, _)) = stack.tcp_accept(now, listener) {
                    let mut options = stack.options(id).expect("open").clone();
                    options.max_pacing_rate = self.bytes_per_second;
                    stack.set_options(now, id, options).expect("open");
                    self.writers.push(id);
                }
            }
            Event::Writable(id) => self.writers.push(id),
            _ => {}
        }
    }

    fn turn(&mut self, stack: &mut Stack, now: Instant) -> bool {
        for id in self.writers.drain(..) {
            while stack.tcp_send_bytes(now, id, &mut self.data.clone(), SendFlags::default()).is_ok() {}
        }
        self.share.as_mut().is_none_or(|share| share.turn(now))
    }
}
