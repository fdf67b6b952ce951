//! Ctrl-C for commands that end between two steps: `lab` and `drill`.
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code after Ctrl-C, as shells have it: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// A flag that the first Ctrl-C raises; the second one ends the program.
pub(crate) fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::io("starting the signal handler", &e))?;
    let (armed, ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
            let _ = armed.send(());
            if let Ok(mut interrupt) = interrupt {
                interrupt.recv().await;
                raised.store(true, Ordering::Relaxed);
                // Python has no part in signals of the terminal, but nobody wants its answer any more.
                #[cfg(target_os = "linux")]
                lowwater_os::program::stop();
                interrupt.recv().await;
                std::process::exit(INTERRUPTED.into());
            }
        });
    });
    // Only a thread that could not arm it does not answer; then Ctrl-C ends the program at once, as ever.
    let _ = ready.recv();
    Ok(stop)
}
