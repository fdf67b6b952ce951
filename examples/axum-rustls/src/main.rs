//! An axum server over rustls on a user-space TCP stack.
//!
//! `cargo run -p lowwater-axum-rustls` asks it one question over a link in memory and checks the answer.
//! With the name of a TUN as argument it serves https://10.9.0.2 to the kernel's programs instead (`curl -k`).
#![forbid(unsafe_code)]
use axum::{Router, extract::ConnectInfo, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use lowwater::{Stack, TcpListener, TcpStream};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, server::TlsStream};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What axum serves: TLS over lowwater's TCP. The name of a listener is all that ties axum to a network.
struct TlsListener {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, peer)) = self.tcp.accept().await else { std::future::pending().await };
            // One slow handshake holds up the others here; a real server spawns them.
            match tokio::time::timeout(Duration::from_secs(5), self.tls.accept(stream)).await {
                Ok(Ok(stream)) => return (stream, peer),
                _ => eprintln!("{peer} did not complete the TLS handshake"),
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

async fn serve(tcp: TcpListener, tls: ServerConfig) -> Result<(), Error> {
    async fn hello(ConnectInfo(Peer(peer)): ConnectInfo<Peer>) -> String {
        format!("hello, {}\n", peer.ip())
    }
    let app = Router::new().route("/", get(hello));
    let listener = TlsListener { tcp, tls: TlsAcceptor::from(Arc::new(tls)) };
    Ok(axum::serve(listener, app.into_make_service_with_connect_info::<Peer>()).await?)
}

/// The client's address, for handlers.
#[derive(Clone)]
struct Peer(SocketAddr);

impl axum::extract::connect_info::Connected<axum::serve::IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: axum::serve::IncomingStream<'_, TlsListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// One GET over TLS with the certificate verified.
async fn ask(stack: &Stack, addr: &str, trusted: CertificateDer<'static>) -> Result<String, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let tcp = TcpStream::connect(stack, addr).await?;
    let name = ServerName::try_from("lowwater.test")?;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
    tokio::spawn(connection);
    let request =
        hyper::Request::get("/").header("host", "lowwater.test").body(Empty::<bytes::Bytes>::new())?;
    let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec())?)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let made = rcgen::generate_simple_self_signed(["lowwater.test".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let tls =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate.clone()], key)?;

    if let Some(tun) = std::env::args().nth(1) {
        if tun.starts_with('-') {
            return Err("usage: axum_rustls [TUN]".into());
        }
        let stack = Stack::builder().tun(&tun).address("10.9.0.2/24").host_address("10.9.0.1/24").build()?;
        println!("serving on {tun}: curl -k https://10.9.0.2/");
        return serve(TcpListener::bind(&stack, "10.9.0.2:443").await?, tls).await;
    }

    let (a, b) = lowwater::link::pair(1500);
    let server = Stack::builder().device(a).address("10.9.0.2/24").build()?;
    let client = Stack::builder().device(b).address("10.9.0.1/24").build()?;
    // Before anybody connects: nobody says which branch below runs first.
    let listener = TcpListener::bind(&server, "10.9.0.2:443").await?;
    let answer = tokio::select! {
        ended = serve(listener, tls) => return ended,
        answer = ask(&client, "10.9.0.2:443", certificate) => answer?,
    };
    assert_eq!(answer, "hello, 10.9.0.1\n");
    println!("the server said: {answer}");
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
