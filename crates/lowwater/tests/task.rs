//! Stacks that are tasks of a tokio runtime, with no thread of their own.
use bytes::Bytes;
use lowwater::{Stack, TcpListener, TcpStream, UdpSocket, link};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Two stacks of this runtime that busy poll for so long.
fn two(busy_poll: Duration) -> (Stack, Stack) {
    let (a, b) = link::pair(1500);
    let stack =
        |port, address| Stack::builder().device(port).address(address).busy_poll(busy_poll).spawn().unwrap();
    (stack(a, "10.0.0.1/24"), stack(b, "10.0.0.2/24"))
}

async fn connection(server: &Stack, client: &Stack) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(server, "10.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(client, addr), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

/// Bytes in both directions at once, the stacks and both ends of the connection as tasks.
async fn much_and_little((a, b): (Stack, Stack)) {
    let (mut client, mut server) = connection(&a, &b).await;
    for round in 0..100 {
        client.write_all(&[round]).await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), round);
        server.write_all(&[round]).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), round);
    }
    let data = Bytes::from(vec![7; 4_000_000]);
    let sent = data.clone();
    let sender = tokio::spawn(async move { client.write_bytes(sent).await.unwrap() });
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    sender.await.unwrap();
    assert!(got == data);
    drop(server);
    for stack in [a, b] {
        assert_eq!(stack.shutdown(Duration::from_secs(10)).await.aborted, 0);
    }
}

#[test]
fn one_thread_is_enough_for_both_stacks_and_both_programs() {
    one_thread().block_on(async { much_and_little(two(Duration::ZERO)).await });
}

#[test]
fn stacks_that_never_sleep_leave_the_thread_to_others_and_the_runtime_to_its_timers() {
    one_thread().block_on(async {
        let stacks = two(Duration::from_secs(3_600));
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        much_and_little(stacks).await;
    });
}

#[test]
fn threads_may_pass_the_stack_from_one_to_another() {
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::spawn(async { much_and_little(two(Duration::ZERO)).await }).await.unwrap();
    });
}

#[test]
fn timers_of_the_stack_end_the_runtimes_wait() {
    let (a, _nobody) = link::pair(1500);
    one_thread().block_on(async {
        let stack = Stack::builder().device(a).address("10.0.0.1/24").sysctl("tcp_syn_retries", "1");
        let stack = stack.sysctl("tcp_rto_max_ms", "1000").spawn().unwrap();
        // Nobody answers, and nothing else is there to wake the task.
        let failed = TcpStream::connect(&stack, "10.0.0.2:80").await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn without_a_runtime_there_is_an_error_and_after_it_the_stack_has_ended() {
    let (a, b) = link::pair(1500);
    let nowhere = Stack::builder().device(a).address("10.0.0.1/24").spawn().unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::NotConnected);
    let runtime = one_thread();
    let stack =
        runtime.block_on(async { Stack::builder().device(b).address("10.0.0.2/24").spawn().unwrap() });
    let socket = runtime.block_on(UdpSocket::bind(&stack, "10.0.0.2:0")).unwrap();
    drop(runtime);
    assert!(one_thread().block_on(socket.send_to(b"x", "10.0.0.1:9")).is_err());
    // Nobody waits for what cannot come.
    stack.shutdown_blocking(Duration::from_secs(10));
}
