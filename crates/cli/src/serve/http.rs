//! HTTP/1.1 over the stack's own sockets: connections, methods, and answers.
use super::accept;
use super::body::Answer;
use super::files::{Entry, Root, listing, names};
use super::over;
use super::upload::put;
use crate::net::lent::{Lent, LentStream};
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, IF_RANGE, LOCATION, RANGE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use lowwater::{TcpListener, TcpStream};
use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Connections at the same time; more wait in the backlog.
const CONNECTIONS_MAX: usize = 16_384;

/// What is read and thrown away of a body that was refused, until its sender has seen why.
const REFUSED_BYTES_MAX: u64 = 16 << 20;
/// How long that may take.
const REFUSED_TIME: Duration = Duration::from_secs(30);
/// How long nothing of it may come: who sends nothing more has seen it, or is gone.
const REFUSED_IDLE: Duration = Duration::from_secs(5);

/// Serves until the end, and then until the requests in progress are answered.
pub(crate) async fn serve(listener: TcpListener, root: Arc<Root>, mut ended: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    while let Some((stream, _)) = accept(&listener, &mut ended).await {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        connections.spawn(connection(stream, root.clone(), ended.clone()));
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

pub(super) async fn connection(stream: TcpStream, root: Arc<Root>, mut ended: watch::Receiver<bool>) {
    // Answers are written as a whole; the end of one must not wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let lent = Lent::default();
    let io = TokioIo::new(LentStream::new(stream, lent.clone()));
    let unread = Arc::new(AtomicBool::new(false));
    let of_answers = unread.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (root, lent, unread) = (root.clone(), lent.clone(), of_answers.clone());
        Box::pin(async move {
            let uploads = *request.method() != Method::GET && !request.body().is_end_stream();
            let answer = answer(root, lent, request).await;
            unread.store(uploads && !answer.status().is_success(), Relaxed);
            Ok::<_, Infallible>(answer)
        })
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).half_close(true);
    let mut connection = builder.serve_connection(io, service);
    // An error is the peer's: it went away or spoke something else. Its answer, if any, is sent already.
    // It ends with all of the answer written, and the FIN behind it.
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = over(&mut ended) => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    if ended.is_err() || !unread.load(Relaxed) {
        return;
    }
    read_refused(connection.into_parts().io.into_inner()).await;
}

/// Closing with data unread resets, and the peer would lose the answer with it (RFC 9112 section 9.6).
async fn read_refused(stream: impl AsyncRead + Unpin) {
    let mut rest = stream.take(REFUSED_BYTES_MAX);
    let mut buffer = vec![0; 8_192];
    let all = async { while matches!(timeout(REFUSED_IDLE, rest.read(&mut buffer)).await, Ok(Ok(1..))) {} };
    let _ = timeout(REFUSED_TIME, all).await;
}

async fn answer(root: Arc<Root>, lent: Lent, request: Request<Incoming>) -> Response<Answer> {
    let Some(names) = names(request.uri().path()) else {
        return respond(StatusCode::BAD_REQUEST, "this path is not allowed\n");
    };
    match *request.method() {
        Method::GET | Method::HEAD => {
            let range = range_of(&request);
            let path = request.uri().path().to_owned();
            let found =
                tokio::task::spawn_blocking(move || get(&root, &names, &path, range.as_ref(), lent)).await;
            match found.map_err(io::Error::other).flatten() {
                Ok(answer) => answer,
                Err(e) => refuse(&e),
            }
        }
        Method::PUT if !root.is_writable() => {
            not_allowed("only reading is allowed: uploads need `lowwater serve --writable`\n", "GET, HEAD")
        }
        // A part would take the place of the whole (RFC 9110 section 14.5).
        Method::PUT if request.headers().contains_key(CONTENT_RANGE) => {
            respond(StatusCode::BAD_REQUEST, "a part of a file cannot be put: send all of it\n")
        }
        Method::PUT => put(root, names, request).await,
        _ if root.is_writable() => not_allowed("GET, HEAD and PUT are there\n", "GET, HEAD, PUT"),
        _ => not_allowed("GET and HEAD are there\n", "GET, HEAD"),
    }
}

/// RFC 9110 section 15.5.6: says what is allowed.
fn not_allowed(why: &'static str, allowed: &'static str) -> Response<Answer> {
    let mut answer = respond(StatusCode::METHOD_NOT_ALLOWED, why);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// The range that is wanted: of GET alone (RFC 9110 section 14.2), and not where it depends on what the file was before, of which no answer here
/// tells anything that could be the same now (section 13.1.5).
fn range_of<B>(request: &Request<B>) -> Option<HeaderValue> {
    let headers = request.headers();
    let counts = *request.method() == Method::GET && !headers.contains_key(IF_RANGE);
    headers.get(RANGE).filter(|_| counts).cloned()
}

/// What a file is by its name: what a browser shows instead of storing it.
fn content_type(names: &[Vec<u8>]) -> &'static str {
    let name = names.last().map_or(&[][..], Vec::as_slice);
    match name.rsplit(|&b| b == b'.').next().filter(|end| end.len() < name.len()) {
        Some(b"md") => "text/markdown; charset=utf-8",
        Some(b"txt" | b"log" | b"rs" | b"toml" | b"pkt") => "text/plain; charset=utf-8",
        Some(b"html" | b"htm") => "text/html; charset=utf-8",
        Some(b"json") => "application/json",
        _ => "application/octet-stream",
    }
}

fn get(
    root: &Root,
    names: &[Vec<u8>],
    path: &str,
    range: Option<&HeaderValue>,
    lent: Lent,
) -> io::Result<Response<Answer>> {
    let (file, len) = match root.entry(names)? {
        Entry::File(file, len) => (file, len),
        Entry::Dir(dir) if path.ends_with('/') => {
            let mut answer = respond(StatusCode::OK, listing(&dir, names)?);
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
            return Ok(answer);
        }
        // Links of a listing are relative to its directory.
        Entry::Dir(_) => {
            let mut answer = respond(StatusCode::MOVED_PERMANENTLY, "a directory ends with /\n");
            let to =
                HeaderValue::try_from(format!("/{}/", path.trim_matches('/'))).map_err(io::Error::other)?;
            answer.headers_mut().insert(LOCATION, to);
            return Ok(answer);
        }
    };
    let (status, part) = match range.map(|r| parse_range(r, len)) {
        None | Some(Wanted::All) => (StatusCode::OK, 0..len),
        Some(Wanted::Part(part)) => (StatusCode::PARTIAL_CONTENT, part),
        Some(Wanted::Nothing) => {
            let mut answer = respond(StatusCode::RANGE_NOT_SATISFIABLE, "");
            set(&mut answer, CONTENT_RANGE, format!("bytes */{len}"));
            return Ok(answer);
        }
    };
    let mut answer = Response::new(Answer::file(file, part.start, part.end, lent));
    *answer.status_mut() = status;
    set(&mut answer, CONTENT_LENGTH, (part.end - part.start).to_string());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type(names)));
    answer.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        set(&mut answer, CONTENT_RANGE, format!("bytes {}-{}/{len}", part.start, part.end - 1));
    }
    Ok(answer)
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Part(Range<u64>),
    Nothing,
}

/// One range of bytes (RFC 9110 section 14.1.2). What we do not understand, several ranges too, is ignored as the RFC allows.
fn parse_range(header: &HeaderValue, len: u64) -> Wanted {
    let spec = header.to_str().ok().and_then(|text| text.trim().strip_prefix("bytes="));
    let Some((first, last)) = spec.and_then(|spec| spec.trim().split_once('-')) else { return Wanted::All };
    let number = |text: &str| text.parse::<u64>().ok();
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(len),
        (Some(first), None) if last.is_empty() => first..len,
        (None, Some(suffix)) if first.is_empty() => len.saturating_sub(suffix)..len,
        _ => return Wanted::All,
    };
    if part.start < part.end { Wanted::Part(part) } else { Wanted::Nothing }
}

fn set(answer: &mut Response<Answer>, name: hyper::header::HeaderName, value: String) {
    // Digits and slashes are always allowed.
    if let Ok(value) = HeaderValue::try_from(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// An answer with a text.
pub(crate) fn respond(status: StatusCode, text: impl Into<bytes::Bytes>) -> Response<Answer> {
    let mut answer = Response::new(Answer::text(text));
    *answer.status_mut() = status;
    answer
}

/// The answer to a failure of the file system.
pub(crate) fn refuse(e: &io::Error) -> Response<Answer> {
    use io::ErrorKind::{
        InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied, QuotaExceeded, StorageFull,
    };
    match e.kind() {
        NotFound | NotADirectory | InvalidFilename => respond(StatusCode::NOT_FOUND, "not found\n"),
        PermissionDenied => respond(StatusCode::FORBIDDEN, "not allowed\n"),
        IsADirectory => respond(StatusCode::CONFLICT, "this is a directory\n"),
        StorageFull | QuotaExceeded => respond(StatusCode::INSUFFICIENT_STORAGE, "the disk is full\n"),
        _ => respond(StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;
    use tokio::time::{Instant, sleep};

    /// Seconds, bytes that were taken.
    async fn reads_refused(every: Duration, block: usize, ends: bool) -> (u64, u64) {
        let (mut peer, stream) = tokio::io::duplex(1 << 20);
        let sends = tokio::spawn(async move {
            let (mut taken, block) = (0, vec![0; block]);
            while !block.is_empty() && peer.write_all(&block).await.is_ok() {
                taken += block.len() as u64;
                sleep(every).await;
            }
            if !ends {
                std::future::pending::<()>().await;
            }
            taken
        });
        let start = Instant::now();
        read_refused(stream).await;
        let took = start.elapsed().as_secs();
        (took, if ends && block > 0 { sends.await.expect("it ended") } else { 0 })
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_peer_is_read_while_it_sends_and_not_for_long() {
        const SECOND: Duration = Duration::from_secs(1);
        assert_eq!(reads_refused(SECOND, 0, true).await, (0, 0), "it has closed");
        assert_eq!(reads_refused(SECOND, 0, false).await, (5, 0), "it is idle");
        assert_eq!(reads_refused(SECOND * 6, 1, true).await.0, 5, "it is idle too soon");
        assert_eq!(reads_refused(SECOND * 4, 1, true).await.0, 30, "it goes on for too long");
        let (took, taken) = reads_refused(Duration::ZERO, 65_536, true).await;
        assert_eq!(took, 0);
        assert!((REFUSED_BYTES_MAX..REFUSED_BYTES_MAX + (2 << 20)).contains(&taken), "{taken}");
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        let wanted = |text: &'static str, len| parse_range(&HeaderValue::from_static(text), len);
        assert_eq!(wanted("bytes=0-9", 100), Wanted::Part(0..10));
        assert_eq!(wanted("bytes=90-", 100), Wanted::Part(90..100));
        assert_eq!(wanted("bytes=-5", 100), Wanted::Part(95..100));
        assert_eq!(wanted("bytes=-500", 100), Wanted::Part(0..100));
        assert_eq!(wanted("bytes=5-18446744073709551615", 100), Wanted::Part(5..100));
        assert_eq!(wanted("bytes=100-", 100), Wanted::Nothing);
        assert_eq!(wanted("bytes=-0", 100), Wanted::Nothing);
        for ignored in ["bytes=9-5", "bytes=a-b", "bytes=0-1,5-6", "lines=1-2", "bytes"] {
            assert_eq!(wanted(ignored, 100), Wanted::All, "{ignored}");
        }
    }

    #[test]
    fn a_range_is_of_get_and_of_the_file_as_it_is() {
        let of = |method: Method, also: &'static str| {
            let request = Request::builder().method(method).header(RANGE, "bytes=0-3");
            let request = if also.is_empty() { request } else { request.header(IF_RANGE, also) };
            range_of(&request.body(()).expect("a request")).is_some()
        };
        assert!(of(Method::GET, ""));
        assert!(!of(Method::HEAD, "") && !of(Method::GET, "\"x\""));
    }

    #[test]
    fn names_tell_what_a_file_is() {
        let of = |name: &str| content_type(&[b"dir".to_vec(), name.as_bytes().to_vec()]);
        assert_eq!(of("README.md"), "text/markdown; charset=utf-8");
        assert_eq!(of("a.b.txt"), "text/plain; charset=utf-8");
        for other in ["md", "README", "a.md.gz", ".", ""] {
            assert_eq!(of(other), "application/octet-stream", "{other:?}");
        }
    }
}
