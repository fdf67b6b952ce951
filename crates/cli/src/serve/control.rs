//! `--control`: a Unix socket by which `lowwater ss` and `tc` ask what a running `serve` counts, and `tc` puts another queueing discipline in place.
use super::{over, stats};
use crate::failure::Failure;
use lowwater::Stack;
use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::{Value, json};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Bytes of a request.
const REQUEST_MAX: u64 = 4_096;
/// How long somebody may take to ask and to listen.
const PATIENCE: Duration = Duration::from_secs(1);
/// Clients that are answered at a time: the next one waits until one of them is through.
const AT_A_TIME: usize = 8;

/// The socket; its file goes with it.
pub(crate) struct Control {
    listener: UnixListener,
    began: Instant,
    _file: File,
}

/// The name of the socket in the file system.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Control {
    /// Listens there. What a `serve` that was killed has left is taken away; a socket that somebody answers at is not.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let place = path.display();
        let failed = |e: &io::Error| Failure::io(format!("--control {place}: making the socket"), e);
        match std::fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(Failure::usage(format!(
                    "--control {place} is there and is no socket: give another name"
                )));
            }
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => {
                    return Err(Failure::usage(format!(
                        "--control {place} is in use by another process: give each serve a name of its own"
                    )));
                }
                // Only this says that nobody listens there. A socket of another kind or of another user answers otherwise.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(|e| failed(&e))?;
                }
                Err(e) => {
                    return Err(Failure::usage(format!(
                        "--control {place} is there and may be in use ({e}): give another name"
                    )));
                }
            },
            Err(_) => {}
        }
        // Whoever may write to it may change what the stack sends: that is its owner alone.
        let before = umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener.map_err(|e| failed(&e))?;
        let file = File(path.to_owned());
        listener.set_nonblocking(true).map_err(|e| failed(&e))?;
        Ok(Self { listener, began: Instant::now(), _file: file })
    }

    /// Answers whoever asks until the end; who is silent holds nobody up but by their number.
    pub(crate) async fn serve(self, stack: Stack, mut ended: watch::Receiver<bool>) {
        let Ok(listener) = tokio::net::UnixListener::from_std(self.listener) else { return };
        let mut answers = JoinSet::new();
        loop {
            tokio::select! {
                () = over(&mut ended) => return,
                Some(_) = answers.join_next() => {}
                asked = listener.accept(), if answers.len() < AT_A_TIME => match asked {
                    Ok((stream, _)) => {
                        let (stack, began) = (stack.clone(), self.began);
                        answers.spawn(async move {
                            tokio::time::timeout(PATIENCE, answer(stream, &stack, began)).await
                        });
                    }
                    // No descriptor is free.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                },
            }
        }
    }
}

/// A line is a request, and its answer is a JSON object.
async fn answer(mut stream: tokio::net::UnixStream, stack: &Stack, began: Instant) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    BufReader::new(read.take(REQUEST_MAX)).read_line(&mut line).await?;
    // What is cut off may be another request than the whole: it is not done.
    let told = match line.strip_suffix('\n') {
        Some(line) => asked(line.trim_end(), stack, began.elapsed().as_secs_f64()),
        None => Err(format!("a request is a line of at most {REQUEST_MAX} bytes, and this one has no end")),
    }
    .unwrap_or_else(|why| json!({ "error": why }));
    write.write_all(format!("{told}\n").as_bytes()).await
}

fn asked(line: &str, stack: &Stack, at_s: f64) -> Result<Value, String> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("stats", "") => return Ok(stats::snapshot(stack, at_s)),
        ("replace", words) => stack.set_qdisc(0, words).map_err(|e| e.to_string())?,
        _ => {
            return Err(format!(
                "'{line}' is no request: there are stats, and replace with the words of a discipline"
            ));
        }
    }
    let report = stack.qdisc(0).ok_or("the stack has no device any more")?;
    Ok(stats::qdisc(&report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowwater::link;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_request_shows_or_replaces_and_a_wrong_one_changes_nothing() {
        let (a, _b) = link::pair(1_500);
        let stack = Stack::builder().device(a).address("10.0.0.1/24").build().expect("a stack");
        let kind = |line: &str| asked(line, &stack, 0.5).map(|q| q["kind"].clone());
        let there = || asked("stats", &stack, 0.5).map(|all| all["Qdisc"]["kind"].clone());
        let before = there().expect("a discipline");
        assert!(kind("replace fqq").is_err_and(|why| why.contains("fq")));
        assert!(kind("destroy").is_err_and(|why| why.contains("'destroy' is no request")));
        assert_eq!(there(), Ok(before));
        assert_eq!(kind("replace fq maxrate 8mbit"), Ok("fq".into()));
        assert_eq!(there(), Ok("fq".into()));
        stack.shutdown_blocking(Duration::ZERO);
    }

    #[test]
    fn a_request_without_its_end_is_not_done() {
        let (a, _b) = link::pair(1_500);
        let stack = Stack::builder().device(a).address("10.0.0.1/24").build().expect("a stack");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let told = |request: &str| {
            runtime.block_on(async {
                let (mut ours, theirs) = tokio::net::UnixStream::pair().expect("two ends");
                ours.write_all(request.as_bytes()).await.expect("room");
                ours.shutdown().await.expect("open");
                answer(theirs, &stack, Instant::now()).await.expect("somebody listens");
                let mut line = String::new();
                BufReader::new(ours).read_line(&mut line).await.expect("an answer");
                serde_json::from_str::<Value>(&line).expect("JSON")
            })
        };
        let cut_off = |all: Value| all["error"].as_str().is_some_and(|why| why.contains("has no end"));
        let before = told("stats\n")["Qdisc"]["kind"].clone();
        assert!(cut_off(told("replace fq")));
        assert!(cut_off(told(&format!("replace fq{}\n", " ".repeat(REQUEST_MAX as usize)))));
        assert!(cut_off(told("")));
        assert_eq!(told("stats\n")["Qdisc"]["kind"], before);
        assert_eq!(told("replace fq maxrate 8mbit\n")["kind"], "fq");
        stack.shutdown_blocking(Duration::ZERO);
    }

    #[test]
    fn who_is_silent_holds_nobody_up() {
        let (a, _b) = link::pair(1_500);
        let stack = Stack::builder().device(a).address("10.0.0.1/24").build().expect("a stack");
        let path = std::env::temp_dir().join(format!("lowwater-silent-{}", std::process::id()));
        let control = Control::open(&path).expect("a name of its own");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (end, ended) = watch::channel(false);
            let serving = tokio::spawn(control.serve(stack.clone(), ended));
            let connect = || tokio::net::UnixStream::connect(&path);
            let ask = async || {
                let mut stream = connect().await.expect("a listener");
                stream.write_all(b"stats\n").await.expect("room");
                let mut line = String::new();
                BufReader::new(stream).read_line(&mut line).await.expect("an answer");
                assert!(line.contains("Qdisc"), "{line}");
            };
            let mut silent = Vec::new();
            for _ in 1..AT_A_TIME {
                silent.push(connect().await.expect("a listener"));
            }
            let now = tokio::time::timeout(PATIENCE / 2, ask()).await;
            assert!(now.is_ok(), "it waited for the silent ones");
            // One more, and all places are taken: for as long as their patience lasts.
            silent.push(connect().await.expect("a listener"));
            ask().await;
            end.send(true).expect("it serves");
            serving.await.expect("no panic");
        });
        assert!(!path.exists());
        stack.shutdown_blocking(Duration::ZERO);
    }

    #[test]
    fn a_socket_nobody_listens_at_is_taken_over_and_one_in_use_is_not() {
        let dir = std::env::temp_dir().join(format!("lowwater-control-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("control");
        let refused = |path: &Path| Control::open(path).err().map(|why| why.to_string());
        drop(UnixListener::bind(&path).expect("a socket"));
        let control = Control::open(&path).expect("what is left over is no hindrance");
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        assert!(refused(&path).is_some_and(|why| why.contains("in use by another process")));
        drop(control);
        assert!(!path.exists());
        let datagrams = UnixDatagram::bind(&path).expect("a socket");
        assert!(refused(&path).is_some_and(|why| why.contains("may be in use")));
        assert!(path.exists());
        drop(datagrams);
        std::fs::remove_file(&path).expect("it is there");
        std::fs::write(&path, "mine").expect("writable");
        assert!(refused(&path).is_some_and(|why| why.contains("is no socket")));
        std::fs::remove_dir_all(&dir).expect("it is ours");
    }
}
