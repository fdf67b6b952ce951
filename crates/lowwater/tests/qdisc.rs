//! Queueing disciplines of a stack's devices: set by words, replaced while data flows, read by name.
use lowwater::core::qdisc::Value;
use lowwater::{Stack, TcpListener, TcpStream, link};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn two(words: &str) -> (Stack, Stack) {
    let (a, b) = link::pair(1500);
    let a = Stack::builder().device(a).address("10.0.0.1/24").qdisc(words).build().unwrap();
    (a, Stack::builder().device(b).address("10.0.0.2/24").build().unwrap())
}

#[tokio::test]
async fn a_discipline_is_replaced_while_data_flows() {
    let (a, b) = two("fq maxrate 200mbit");
    let listener = TcpListener::bind(&b, "10.0.0.2:80").await.unwrap();
    let (client, server) =
        tokio::join!(TcpStream::connect(&a, listener.local_addr().unwrap()), listener.accept());
    let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = data.clone();
    // The last discipline has something to carry, however fast the others were.
    let (all_replaced, rest) = tokio::sync::oneshot::channel();
    let sender = tokio::spawn(async move {
        client.write_all(&sent[..2_500_000]).await.unwrap();
        rest.await.unwrap();
        client.write_all(&sent[2_500_000..]).await.unwrap();
        client.shutdown().await.unwrap();
        client
    });
    let mut all_replaced = Some(all_replaced);
    let (mut got, mut buffer, mut seen) = (Vec::new(), vec![0; 65_536], 0);
    for words in
        ["fq_codel", "tbf rate 400mbit burst 100kb latency 50ms", "pfifo limit 3000", "fq", "codel", ""]
    {
        if words.is_empty() {
            all_replaced.take().map(|told| told.send(()));
        }
        while words.is_empty() || got.len() < (seen + 1) * 400_000 {
            match tokio::time::timeout(Duration::from_secs(30), server.read(&mut buffer))
                .await
                .unwrap()
                .unwrap()
            {
                0 => break,
                n => got.extend_from_slice(&buffer[..n]),
            }
        }
        if !words.is_empty() {
            a.set_qdisc(0, words).unwrap();
            assert_eq!(a.qdisc(0).unwrap().kind, words.split(' ').next().unwrap());
        }
        seen += 1;
    }
    assert!(got == data, "{} bytes", got.len());
    let report = a.qdisc(0).unwrap();
    assert!(
        report.stats.packets > 0 && report.to_string().starts_with("qdisc codel root limit 1000p target 5ms")
    );
    assert!(report.options.iter().any(|f| f.name == "interval" && f.value == Value::Time(100_000_000)));
    drop(sender.await.unwrap());
}

/// A stack that ends with packets in its queue: the reset stands behind them, or overtakes them and is challenged.
#[tokio::test]
async fn the_peer_hears_of_the_end_through_any_queue() {
    for words in [
        "tbf rate 10mbit burst 10kb latency 50ms",
        "netem delay 100ms rate 10mbit",
        "fq maxrate 10mbit",
        "pfifo",
    ] {
        let (a, b) = two(words);
        let listener = TcpListener::bind(&b, "10.0.0.2:80").await.unwrap();
        let (client, server) =
            tokio::join!(TcpStream::connect(&a, listener.local_addr().unwrap()), listener.accept());
        let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
        let writer = tokio::spawn(async move {
            let data = vec![1; 65_536];
            while client.write_all(&data).await.is_ok() {}
        });
        let mut buffer = vec![0; 65_536];
        let mut got = server.read(&mut buffer).await.unwrap();
        let reader = async {
            loop {
                match server.read(&mut buffer).await {
                    Ok(0) => panic!("{words}: an end in good order after {got} bytes"),
                    Ok(n) => got += n,
                    Err(e) => break e.kind(),
                }
            }
        };
        let limit = Duration::from_secs(10);
        let (end, drained) =
            tokio::join!(tokio::time::timeout(limit, reader), a.shutdown(Duration::from_millis(50)));
        assert_eq!(end, Ok(ErrorKind::ConnectionReset), "{words}");
        assert_eq!(drained.aborted, 1, "{words}");
        writer.await.unwrap();
    }
}

#[test]
fn wrong_words_and_devices_are_told() {
    let (a, _) = link::pair(1500);
    let wrong = Stack::builder().device(a).qdisc("fq maxrate fast").build().unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidInput);
    assert!(wrong.to_string().contains("maxrate cannot be \"fast\"; allowed: a rate"), "{wrong}");
    let (a, _b) = two("pfifo");
    let wrong = a.set_qdisc(0, "netem loss").unwrap_err();
    assert!(wrong.to_string().contains("loss lacks its value; allowed: 0% to 100%"), "{wrong}");
    assert!(a.set_qdisc(1, "pfifo").unwrap_err().to_string().contains("there is no device 1"));
    assert!(a.qdisc(1).is_none() && a.qdisc(0).is_some_and(|q| q.kind == "pfifo"));
}
