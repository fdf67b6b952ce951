//! The smallest program: two stacks in one process, a question and its answer.
//!
//! `cargo run -p lowwater-examples --bin hello` needs neither root nor a device.
#![forbid(unsafe_code)]
use lowwater::{Stack, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let (a, b) = lowwater::link::pair(1500);
    let server = Stack::builder().device(a).address("10.0.0.1/24").build()?;
    let client = Stack::builder().device(b).address("10.0.0.2/24").build()?;

    let listener = TcpListener::bind(&server, "10.0.0.1:7").await?;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await
    });

    let mut stream = TcpStream::connect(&client, "10.0.0.1:7").await?;
    stream.write_all(b"hello").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert_eq!(answer, "hello");
    println!("the server said: {answer}");
    Ok(())
}
