//! `lowwater get`: one file by HTTP, with the stack as the client.
use crate::args::Get;
use crate::failure::Failure;
use crate::interrupt::INTERRUPTED;
use crate::net::lent::{Lent, LentStream};
use crate::net::sink::Sink;
use crate::net::{self, Opened};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HOST, LOCATION, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lowwater::TcpStream;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

/// How long connecting may take without a word, and in all: four SYNs.
const PATIENCE: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(15);
/// How long the connection may take to close at the end.
const CLOSE: Duration = Duration::from_secs(1);
/// How long writing what had come may take after Ctrl-C.
const LAST: Duration = Duration::from_secs(5);

/// What a pipe takes whole or not at all: Linux's PIPE_BUF (pipe(7)).
const PIPE_BUF: usize = 4_096;

/// What is written to.
type Output = Sink<File>;

/// Where to ask, and for what.
struct Target {
    addresses: Vec<SocketAddr>,
    host: String,
    path: String,
}

/// The head of an answer that has what is wanted.
struct Answer {
    response: Response<Incoming>,
    asked: Instant,
    /// What moves the connection; it ends with this.
    _driver: JoinSet<hyper::Result<()>>,
}

/// Runs the command.
pub(crate) fn run(args: &Get) -> Result<ExitCode, Failure> {
    let target = target(&args.url)?;
    let runtime = net::runtime()?;
    let opened = net::open(&args.net, &runtime)?;
    let outcome = runtime.block_on(async {
        let mut interrupt =
            signal(SignalKind::interrupt()).map_err(|e| Failure::io("waiting for signals", &e))?;
        tokio::select! {
            answer = ask(args, &opened, &target) => fetch(args, answer?, &mut interrupt).await,
            _ = interrupt.recv() => {
                eprintln!("lowwater: stopped: nothing was written");
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    });
    runtime.block_on(opened.stack.shutdown(CLOSE));
    runtime.shutdown_background();
    opened.finish()?;
    outcome
}

fn target(url: &str) -> Result<Target, Failure> {
    let bad = |why: &str| Failure::usage(format!("{url}: {why}; it takes http://ADDRESS[:PORT]/PATH"));
    let uri: Uri = url.parse().map_err(|_| bad("this is no URL"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(bad("https is not there")),
        Some(other) => return Err(bad(&format!("{other} is not there"))),
        None => return Err(bad("the scheme is missing")),
    }
    let authority = uri.authority().ok_or_else(|| bad("the host is missing"))?;
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    // A port that is no number of 16 bits reads as none: then something stands behind the host.
    let bare = authority.as_str().trim_end_matches(':').ends_with(authority.host());
    let port = authority.port_u16().or(bare.then_some(80));
    let port = port.filter(|port| *port != 0).ok_or_else(|| bad("the port is none from 1 to 65535"))?;
    let addresses =
        (name, port).to_socket_addrs().map_err(|e| Failure::io(format!("looking up {name}"), &e))?;
    let path = uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    Ok(Target { addresses: addresses.collect(), host: authority.as_str().to_owned(), path })
}

/// Connects and asks.
async fn ask(args: &Get, opened: &Opened, target: &Target) -> Result<Answer, Failure> {
    let failed =
        |doing: &str, e: &dyn std::fmt::Display| Failure::other(format!("{}: {doing}: {e}", args.url));
    let addresses = &target.addresses[..];
    let stream = connect(opened, addresses).await.map_err(|e| failed("connecting", &e))?;
    let io = LentStream::new(stream, Lent::default());
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(io)).await;
    let (mut sender, connection) = handshake.map_err(|e| failed("starting HTTP", &e))?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::get(&target.path)
        .header(HOST, &target.host)
        .header(USER_AGENT, concat!("lowwater/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|e| failed("the request", &e))?;
    let asked = Instant::now();
    let response = sender.send_request(request).await.map_err(|e| failed("no answer", &e))?;
    if !response.status().is_success() {
        let to = response.headers().get(LOCATION).and_then(|v| v.to_str().ok());
        let hint = to.map_or(String::new(), |to| format!(" (it is at {to})"));
        return Err(failed("the server answered", &format!("{}{hint}", response.status())));
    }
    Ok(Answer { response, asked, _driver: driver })
}

/// The file, to its end or to Ctrl-C.
async fn fetch(args: &Get, answer: Answer, interrupt: &mut Signal) -> Result<ExitCode, Failure> {
    let Some((bytes, hash)) = receive(args, answer.response, interrupt).await? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let seconds = answer.asked.elapsed().as_secs_f64();
    let mbps = bytes as f64 * 8.0 / seconds.max(1e-9) / 1e6;
    if let (Some(hash), Some(output)) = (hash, &args.output) {
        let object = json!({
            "url": args.url, "output": output, "bytes": bytes, "seconds": seconds, "mbps": mbps, "sha256": hash,
        });
        writeln!(io::stdout(), "{object}").map_err(|e| Failure::io("writing to stdout", &e))?;
    } else {
        eprintln!("lowwater: {bytes} bytes in {seconds:.3} s, {mbps:.1} Mbit/s");
    }
    Ok(ExitCode::SUCCESS)
}

/// Connects, and says what it waits for when that takes a while.
async fn connect(opened: &Opened, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let names = names.join(", ");
    let attempt = TcpStream::connect(&opened.stack, addresses);
    tokio::pin!(attempt);
    if let Ok(done) = tokio::time::timeout(PATIENCE, &mut attempt).await {
        return done;
    }
    eprintln!("lowwater: waiting for {names} to answer, {} s at most", CONNECT.as_secs());
    tokio::time::timeout(CONNECT - PATIENCE, attempt).await.unwrap_or_else(|_| {
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "no answer from {names} in {} s. Does a server listen there (`ss -ltn`)? Has another device the subnet of \
                 --addr (`ip route get {own}` must name {device})? If it is behind the kernel: does that forward \
                 (`sysctl net.ipv4.ip_forward=1`), and is there a route back to {own}? Does a firewall drop what comes \
                 from {device} (`nft list ruleset`)?",
                CONNECT.as_secs(),
                own = opened.addresses.first().map_or(String::new(), ToString::to_string),
                device = opened.device,
            ),
        ))
    })
}

/// Where the file goes, and its name for messages.
fn output(args: &Get) -> Result<(String, Output), Failure> {
    let (name, file) = match &args.output {
        // Past the buffer of `io::stdout`, which would take what nobody has got.
        None => ("stdout".to_owned(), io::stdout().as_fd().try_clone_to_owned().map(File::from)),
        Some(path) => (path.display().to_string(), File::create(path)),
    };
    let file = file.map_err(|e| Failure::io(format!("creating {name}"), &e))?;
    // A write that waits in a full pipe has not said how much of it is there.
    let pipe = file.metadata().is_ok_and(|meta| meta.file_type().is_fifo());
    Ok((name, Sink::in_steps(file, if pipe { PIPE_BUF } else { usize::MAX })))
}

/// The bytes that came and, with --json, their SHA-256; nothing after Ctrl-C. What came is written in each case.
async fn receive(
    args: &Get,
    response: Response<Incoming>,
    interrupt: &mut Signal,
) -> Result<Option<(u64, Option<String>)>, Failure> {
    let (name, mut sink) = output(args)?;
    let mut body = response.into_body();
    let bar = bar(body.size_hint().exact(), args.output.is_some());
    let mut hash = args.json.then(Sha256::new);
    let mut bytes = 0;
    let end = {
        let all = pieces(&mut body, &mut sink, |piece| {
            bytes += piece.len() as u64;
            bar.set_position(bytes);
            if let Some(hash) = &mut hash {
                hash.update(piece);
            }
        });
        tokio::select! {
            end = all => Some(end),
            _ = interrupt.recv() => None,
        }
    };
    let rest = match &end {
        Some(Err(Cut::Writing(_))) => Rest::Written(Ok(())),
        Some(_) => rest(&mut sink, interrupt, Duration::MAX).await,
        None => rest(&mut sink, interrupt, LAST).await,
    };
    bar.finish_and_clear();
    match (end, rest) {
        (Some(Ok(())), Rest::Written(Ok(()))) => Ok(Some((bytes, hash.map(hex)))),
        (Some(Err(Cut::Writing(e))), _) | (Some(Ok(())), Rest::Written(Err(e))) => {
            Err(Failure::io(format!("writing to {name}"), &e))
        }
        (Some(Err(Cut::Transfer(e))), Rest::Written(written)) => {
            let why = written.map_or_else(|e| format!("; writing to {name}: {e}"), |()| String::new());
            Err(Failure::other(format!(
                "{}: the transfer broke off after {bytes} bytes ({e}); {} bytes were written to {name}{why}",
                args.url,
                sink.written()
            )))
        }
        (_, rest) => {
            let why = rest.why(bytes);
            eprintln!(
                "lowwater: stopped: {} bytes were written to {name}, which is not everything{why}",
                sink.written()
            );
            Ok(None)
        }
    }
}

/// What became of what had come and was not written yet.
enum Rest {
    Written(io::Result<()>),
    Interrupted,
    Late,
}

impl Rest {
    /// Why not all of what came is written, behind a sentence that says so.
    fn why(self, came: u64) -> String {
        match self {
            Self::Written(Ok(())) => String::new(),
            Self::Written(Err(e)) => format!(": {e}"),
            Self::Interrupted => format!("; {came} had come"),
            Self::Late => format!("; {came} had come, and the reader takes no more"),
        }
    }
}

/// Writes the rest, for at most that long. Who reads the output may have stopped reading, so Ctrl-C ends this, too.
async fn rest(sink: &mut Output, interrupt: &mut Signal, most: Duration) -> Rest {
    tokio::select! {
        biased;
        written = sink.write_rest() => Rest::Written(written),
        _ = interrupt.recv() => Rest::Interrupted,
        () = tokio::time::sleep(most) => Rest::Late,
    }
}

/// Why not everything came.
enum Cut {
    Transfer(hyper::Error),
    Writing(io::Error),
}

/// Everything that comes, each piece told before it is written. Cancel-safe: a piece that was told is the sink's.
async fn pieces(body: &mut Incoming, sink: &mut Output, mut told: impl FnMut(&Bytes)) -> Result<(), Cut> {
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(Cut::Transfer)?.into_data() {
            told(&piece);
            sink.push(piece).await.map_err(Cut::Writing)?;
        }
    }
    Ok(())
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A bar where somebody sees it, and where it does not mix with the file.
fn bar(total: Option<u64>, to_file: bool) -> ProgressBar {
    let shown = io::stderr().is_terminal() && (to_file || !io::stdout().is_terminal());
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(total, target);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}")
    {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_or_refused() {
        let t = target("http://[fd00::1]:8000/a?b=c").expect("a URL");
        assert_eq!((t.addresses[0].to_string().as_str(), t.path.as_str()), ("[fd00::1]:8000", "/a?b=c"));
        assert_eq!(target("http://10.0.0.1").expect("a URL").addresses[0].port(), 80);
        for bad in [
            "https://10.0.0.1/",
            "10.0.0.1/x",
            "ftp://10.0.0.1/",
            "http://",
            "::",
            "http://10.0.0.1:99999/",
            "http://[fd00::1]:0/",
        ] {
            assert_eq!(target(bad).err().map(|e| e.exit_code()), Some(2), "{bad}");
        }
    }
}
