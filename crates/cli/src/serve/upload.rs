//! PUT: a request's body into a file that gets its name when it is complete.
use super::body::Answer;
use super::files::Root;
use super::http::{refuse, respond};
use crate::net::sink::Sink;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use hyper::{Request, Response, StatusCode};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long nothing of a body may come. Who says nothing more holds a connection, a file and its name.
const SILENCE: Duration = Duration::from_secs(60);

/// Answers a PUT.
pub(crate) async fn put(
    root: Arc<Root>,
    names: Vec<Vec<u8>>,
    request: Request<Incoming>,
) -> Response<Answer> {
    let created = tokio::task::spawn_blocking(move || root.create(&names)).await;
    let (upload, file) = match created.map_err(io::Error::other).flatten() {
        Ok(created) => created,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return respond(StatusCode::CONFLICT, "there is no such directory to upload into\n");
        }
        Err(e) => return refuse(&e),
    };
    if let Err(answer) = receive(request.into_body(), Sink::new(file), SILENCE).await {
        return answer;
    }
    let kept = tokio::task::spawn_blocking(move || upload.keep()).await;
    match kept.map_err(io::Error::other).flatten() {
        Ok(false) => respond(StatusCode::CREATED, "created\n"),
        Ok(true) => respond(StatusCode::OK, "replaced\n"),
        Err(e) => refuse(&e),
    }
}

/// Writes a body to its end, or until nothing of it has come for so long.
async fn receive<B>(
    mut body: B,
    mut sink: Sink<std::fs::File>,
    silence: Duration,
) -> Result<(), Response<Answer>>
where
    B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
{
    loop {
        let Ok(frame) = tokio::time::timeout(silence, body.frame()).await else {
            let said = format!("nothing of the body has come for {} s\n", silence.as_secs());
            return Err(respond(StatusCode::REQUEST_TIMEOUT, said));
        };
        let Some(frame) = frame else { break };
        // The peer has gone or its body is no HTTP: nobody may read this answer.
        let frame =
            frame.map_err(|e| respond(StatusCode::BAD_REQUEST, format!("the body broke off: {e}\n")))?;
        if let Ok(piece) = frame.into_data() {
            sink.push(piece).await.map_err(|e| refuse(&e))?;
        }
    }
    sink.finish().await.map(drop).map_err(|e| refuse(&e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use hyper::body::Frame;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// A body of which nothing ever comes.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            Poll::Pending
        }
    }

    #[test]
    fn who_says_nothing_more_is_not_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let sink = || {
            let file = std::fs::File::options().write(true).open("/dev/null");
            Sink::new(file.expect("it is there"))
        };
        let ended = runtime.block_on(receive(Silent, sink(), Duration::from_millis(1)));
        assert_eq!(ended.err().map(|answer| answer.status()), Some(StatusCode::REQUEST_TIMEOUT));
        let whole = Full::new(Bytes::from_static(b"all"));
        assert!(runtime.block_on(receive(whole, sink(), SILENCE)).is_ok());
    }
}
