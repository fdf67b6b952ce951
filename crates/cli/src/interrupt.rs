//! Ctrl-C, SIGTERM and SIGHUP for commands that end between two steps: `lab` and `drill`.
use crate::failure::Failure;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code after Ctrl-C, as shells have it: 128 + SIGINT. What else asks for the end has the same.
pub(crate) const INTERRUPTED: u8 = 130;
/// How long a command may take to its end where no person is there to ask again.
const GRACE: Duration = Duration::from_secs(1);

/// Signals that come so soon after the first say the same: `timeout` sends one to the program and one to its group.
const SAME: Duration = Duration::from_millis(200);

/// A flag that the first Ctrl-C raises; the second one ends the program. SIGTERM and SIGHUP raise it too, and end the program when
/// [`GRACE`] is over. Where it ends in the middle of a step, `last_words` says how far it came.
pub(crate) fn stop_on_ctrl_c(last_words: impl Fn() + Send + 'static) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::io("starting the signal handler", &e))?;
    let (armed, ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let asked = Asked::new();
            let _ = armed.send(());
            if let Ok(mut asked) = asked {
                let patient = asked.next().await;
                raised.store(true, Ordering::Relaxed);
                // Programs that run for us have no part in signals of the terminal, but nobody wants their answers any more.
                #[cfg(target_os = "linux")]
                lowwater_os::program::stop();
                let _ = tokio::time::timeout(SAME, asked.pass_over()).await;
                let again = tokio::time::timeout(GRACE, asked.next()).await;
                if patient && again.is_err() {
                    eprintln!("lowwater: this ends after what runs just now; Ctrl-C again ends it at once");
                    asked.next().await;
                }
                last_words();
                std::process::exit(INTERRUPTED.into());
            }
        });
    });
    // Only a thread that could not arm it does not answer; then Ctrl-C ends the program at once, as ever.
    let _ = ready.recv();
    Ok(stop)
}

/// Who may ask for the end.
struct Asked {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under nohup.
    hangup: Option<Signal>,
}

impl Asked {
    fn new() -> io::Result<Self> {
        let hangup = if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Hears everybody, and does nothing.
    async fn pass_over(&mut self) {
        loop {
            self.next().await;
        }
    }

    /// Waits for somebody; true for Ctrl-C, who can ask again.
    async fn next(&mut self) -> bool {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => false,
            _ = hangup => false,
        }
    }
}

/// Whoever started this program wants it to outlive the terminal.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Bit 0 is signal 1, SIGHUP.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
