//! PUT: a request's body into a file that gets its name when it is complete.
use super::body::Answer;
use super::files::Root;
use super::http::{refuse, respond};
use crate::net::sink::Sink;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use std::io;
use std::sync::Arc;

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
    if let Err(answer) = receive(request.into_body(), Sink::new(file)).await {
        return answer;
    }
    let kept = tokio::task::spawn_blocking(move || upload.keep()).await;
    match kept.map_err(io::Error::other).flatten() {
        Ok(false) => respond(StatusCode::CREATED, "created\n"),
        Ok(true) => respond(StatusCode::OK, "replaced\n"),
        Err(e) => refuse(&e),
    }
}

async fn receive(mut body: Incoming, mut sink: Sink<std::fs::File>) -> Result<(), Response<Answer>> {
    while let Some(frame) = body.frame().await {
        // The peer has gone or its body is no HTTP: nobody may read this answer.
        let frame =
            frame.map_err(|e| respond(StatusCode::BAD_REQUEST, format!("the body broke off: {e}\n")))?;
        if let Ok(piece) = frame.into_data() {
            sink.push(piece).await.map_err(|e| refuse(&e))?;
        }
    }
    sink.finish().await.map(drop).map_err(|e| refuse(&e))
}
