//! A proxy that accepts connections to any destination and decides before the handshake.
//!
//! `cargo run -p lowwater-examples --bin any_proxy` drives it over a link in memory: connections to port 80 of any address
//! go to a server on loopback, port 25 is refused, the rest meets silence.
//! With the name of a TUN as argument it listens there: route something to it (`ip route add 198.51.100.0/24 dev NAME`), and
//! connections to whatever address arrive at the same port of loopback.
#![forbid(unsafe_code)]
use lowwater::{Incoming, Stack, TcpListener, TcpStream};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};

/// What becomes of a connection.
enum Decision {
    To(SocketAddr),
    Refuse,
    Silence,
}

/// Looks at every request before its SYN is answered.
async fn proxy(listener: TcpListener, decide: impl Fn(SocketAddr) -> Decision) -> io::Result<()> {
    loop {
        let request = listener.incoming_request().await?;
        let (peer, wanted) = (request.peer(), request.local());
        match decide(wanted) {
            Decision::To(upstream) => {
                tokio::spawn(async move {
                    match relay(request, upstream).await {
                        Ok((there, back)) => println!("{peer} to {wanted}: {there} bytes there, {back} back"),
                        Err(e) => println!("{peer} to {wanted}: {e}"),
                    }
                });
            }
            Decision::Refuse => request.refuse(),
            Decision::Silence => request.drop_silently(),
        }
    }
}

/// The client's handshake succeeds only if the upstream can be reached: no client sees "connected" and then a reset.
async fn relay(request: Incoming, upstream: SocketAddr) -> io::Result<(u64, u64)> {
    let mut upstream = match tokio::net::TcpStream::connect(upstream).await {
        Ok(stream) => stream,
        Err(e) => {
            request.refuse();
            return Err(e);
        }
    };
    let mut client = request.accept().await?;
    copy_bidirectional(&mut client, &mut upstream).await
}

/// A server of the kernel that answers with what it got, in capitals.
async fn shouting_server() -> io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut text = String::new();
                stream.read_to_string(&mut text).await?;
                stream.write_all(text.to_uppercase().as_bytes()).await
            });
        }
    });
    Ok(addr)
}

#[tokio::main]
async fn main() -> io::Result<()> {
    if let Some(tun) = std::env::args().nth(1) {
        if tun.starts_with('-') {
            return Err(io::Error::other("usage: any_proxy [TUN]"));
        }
        let stack = Stack::builder().tun(&tun).address("10.9.0.2/24").host_address("10.9.0.1/24").build()?;
        println!("proxying what is routed to {tun}");
        return proxy(TcpListener::bind_any(&stack)?, |wanted| {
            Decision::To(SocketAddr::from(([127, 0, 0, 1], wanted.port())))
        })
        .await;
    }

    let (a, b) = lowwater::link::pair(1500);
    let gateway = Stack::builder().device(a).address("10.9.0.1/24").build()?;
    let client = Stack::builder()
        .device(b)
        .address("10.9.0.2/24")
        .route("0.0.0.0/0", Some([10, 9, 0, 1].into()))
        .build()?;
    let upstream = shouting_server().await?;
    tokio::spawn(proxy(TcpListener::bind_any(&gateway)?, move |wanted| match wanted.port() {
        80 => Decision::To(upstream),
        25 => Decision::Refuse,
        _ => Decision::Silence,
    }));

    for to in ["198.51.100.1:80", "203.0.113.99:80"] {
        let mut stream = TcpStream::connect(&client, to).await?;
        stream.write_all(to.as_bytes()).await?;
        stream.write_all(b" hears me").await?;
        stream.shutdown().await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert_eq!(answer, format!("{to} HEARS ME"));
    }
    let refused = TcpStream::connect(&client, "198.51.100.1:25").await.expect_err("port 25 is refused");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let silent = TcpStream::connect(&client, "198.51.100.1:9");
    tokio::time::timeout(Duration::from_millis(200), silent).await.expect_err("port 9 keeps silent");
    println!("two destinations reached, one refused, one silent");
    Ok(())
}
