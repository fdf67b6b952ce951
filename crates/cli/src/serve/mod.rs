//! `lowwater serve`: listeners on a stack behind a TUN device, from set-up to a clean end.
mod body;
mod control;
mod files;
mod http;
mod sctp;
mod small;
mod stats;
mod upload;

use crate::args::Serve;
use crate::failure::Failure;
use crate::net::{self, Opened};
use crate::out;
use control::Control;
use files::Root;
use lowwater::{ListenOptions, SocketOptions, Stack, TcpListener, UdpSocket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use stats::Stats;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long requests may take to end after the first signal.
const REQUESTS_END: Duration = Duration::from_secs(2);
/// What ends within it is not worth a word.
const AT_ONCE: Duration = Duration::from_millis(200);
/// How long connections may then take to close.
const CONNECTIONS_CLOSE: Duration = Duration::from_secs(1);
/// Connections that may wait to be accepted, per port.
const BACKLOG: u32 = 4_096;

/// Runs the command.
pub(crate) fn run(args: &Serve) -> Result<ExitCode, Failure> {
    let root = Root::open(&args.root, args.writable)
        .map_err(|e| Failure::io(format!("--root {}: opening the directory", args.root.display()), &e))?;
    let mut stats = args.stats.as_deref().map(Stats::new);
    let control = args.control.as_deref().map(Control::open).transpose()?;
    allow_open_files();
    let runtime = net::runtime()?;
    let opened = net::open(&args.net, &runtime)?;
    let served = runtime.block_on(serve(args, &opened, (&Arc::new(root), control), stats.as_mut()));
    let drained = runtime.block_on(opened.stack.shutdown(CONNECTIONS_CLOSE));
    if let Some(stats) = &mut stats {
        runtime.block_on(stats.written())?;
        stats.write_last(&opened.stack)?;
    }
    runtime.shutdown_background();
    opened.finish()?;
    served?;
    if args.json {
        out::tell(&json!({"event": "ended", "aborted_connections": drained.aborted}).to_string())?;
    } else {
        eprintln!("lowwater: ended; connections that were cut off: {}", drained.aborted);
    }
    Ok(ExitCode::SUCCESS)
}

/// Each answer holds a file open (connections need no descriptor): take what the system allows.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, answers beyond the limit say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

async fn serve(
    args: &Serve,
    opened: &Opened,
    (root, control): (&Arc<Root>, Option<Control>),
    mut stats: Option<&mut Stats>,
) -> Result<(), Failure> {
    let signals = |e| Failure::io("waiting for signals", &e);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let (end, ended) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let patience = Duration::from_secs(args.user_timeout.into());
    let listen = |port| listen(&opened.stack, port, args.max_pacing_rate, patience);
    let http = listen(80)?;
    tasks.spawn(http::serve(http, root.clone(), ended.clone()));
    let (echo, discard, chargen) = (listen(7)?, listen(9)?, listen(19)?);
    tasks.spawn(small::serve(echo, ended.clone(), small::echo));
    tasks.spawn(small::serve(discard, ended.clone(), small::discard));
    tasks.spawn(small::serve(chargen, ended.clone(), small::chargen));
    for &ip in &opened.addresses {
        let socket = UdpSocket::bind(&opened.stack, (ip, 7)).await;
        tasks.spawn(small::echo_datagrams(
            socket.map_err(|e| Failure::io(format!("UDP port 7 of {ip}"), &e))?,
            ended.clone(),
        ));
    }
    if let Some(port) = args.sctp {
        let listen = |port| {
            sctp::listen(&opened.stack, &opened.addresses, port, args.congestion)
                .map_err(|e| Failure::io(format!("SCTP port {port}"), &e))
        };
        let echo = move |assoc| sctp::echo(assoc, patience);
        tasks.spawn(sctp::serve(listen(port)?, ended.clone(), echo));
        tasks.spawn(sctp::serve(listen(port + sctp::DISCARD)?, ended.clone(), sctp::discard));
    }
    if let Some(control) = control {
        tasks.spawn(control.serve(opened.stack.clone(), ended.clone()));
    }
    if let Some(stats) = &mut stats {
        stats.write(&opened.stack)?;
    }
    announce(args, opened)?;
    let watched = watch_over(&opened.stack, stats, &mut interrupt, &mut terminate).await;
    let _ = end.send(true);
    let mut all_end = pin!(async { while tasks.join_next().await.is_some() {} });
    if tokio::time::timeout(AT_ONCE, &mut all_end).await.is_ok() {
        return watched;
    }
    let seconds = (REQUESTS_END + CONNECTIONS_CLOSE).as_secs();
    eprintln!("lowwater: ending; what is under way has {seconds} s, Ctrl-C cuts it short");
    tokio::select! {
        () = all_end => {}
        () = tokio::time::sleep(REQUESTS_END) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    watched
}

/// Until a signal comes or the device fails; writes the counters meanwhile.
async fn watch_over(
    stack: &Stack,
    mut stats: Option<&mut Stats>,
    interrupt: &mut Signal,
    terminate: &mut Signal,
) -> Result<(), Failure> {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = second.tick() => {
                if let Some(stats) = &mut stats {
                    stats.write_behind(stack).await;
                }
                if let Some(why) = stack.failure() {
                    return Err(Failure::other(format!("the device stopped working ({why}): was it deleted?")));
                }
            }
        }
    }
}

/// `patience`: how long a peer may take nothing; none: without end.
fn listen(stack: &Stack, port: u16, most: Option<u64>, patience: Duration) -> Result<TcpListener, Failure> {
    let mut accepted = SocketOptions::new(&stack.sysctl());
    accepted.user_timeout_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    accepted.max_pacing_rate = most.unwrap_or(accepted.max_pacing_rate);
    let options = ListenOptions {
        port: Some(port),
        backlog: BACKLOG,
        options: Some(accepted),
        ..ListenOptions::default()
    };
    TcpListener::listen(stack, &options).map_err(|e| Failure::io(format!("TCP port {port}"), &e))
}

fn url(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("http://{ip}/"),
        IpAddr::V6(ip) => format!("http://[{ip}]/"),
    }
}

fn announce(args: &Serve, opened: &Opened) -> Result<(), Failure> {
    let urls: Vec<_> = opened.addresses.iter().map(|ip| url(*ip)).collect();
    let hosts: Vec<_> = opened.hosts.iter().map(ToString::to_string).collect();
    let root = args.root.display();
    if args.json {
        let control = args.control.as_ref().map(|path| path.display().to_string());
        let mut told = json!({
            "event": "serving", "urls": urls, "addresses": opened.addresses,
            "host_addresses": hosts, "root": root.to_string(), "writable": args.writable, "user_timeout_s": args.user_timeout, "http": 80, "echo": 7, "discard": 9, "chargen": 19,
            "control": control, "max_pacing_rate": args.max_pacing_rate, "warnings": opened.warnings,
            "sctp": args.sctp.map(|port| json!({"echo": port, "discard": port + sctp::DISCARD})),
        });
        // Under the name of the option that named it.
        let option = if args.net.iface.packet.is_some() { "packet" } else { "tun" };
        told[option] = opened.device.as_str().into();
        return out::tell(&told.to_string()).map(drop);
    }
    let beside = match (&args.net.iface.packet, hosts.as_slice()) {
        (Some(_), []) => String::new(),
        (Some(_), hosts) => format!(", gateway {}", hosts.join(" and ")),
        (None, hosts) => format!(", kernel's side {}", hosts.join(" and ")),
    };
    let over_sctp = args
        .sctp
        .map_or(String::new(), |port| format!(", SCTP echo on {port}, discard on {}", port + sctp::DISCARD));
    let writable = if args.writable { " for reading and writing" } else { "" };
    out::tell(&format!(
        "serving {root}{writable} on {} (device {}{beside}), echo on port 7, discard on 9, chargen on 19{over_sctp}; {}",
        urls.join(" and "),
        opened.device,
        try_it(args.net.iface.packet.is_some(), &urls[0]),
    ))
    .map(drop)
}

/// How to see it. What this host's own programs send leaves by the interface, and a packet socket is no host behind it.
fn try_it(by_packet_sockets: bool, url: &str) -> String {
    let from = if by_packet_sockets { "from another machine on that link" } else { "try" };
    format!("{from}: curl {url}")
}

/// The next connection, or `None` at the end.
async fn accept(
    listener: &TcpListener,
    ended: &mut watch::Receiver<bool>,
) -> Option<(lowwater::TcpStream, SocketAddr)> {
    loop {
        tokio::select! {
            () = over(ended) => return None,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => return Some(accepted),
                // A connection that is gone again is no reason to end; a stack that is gone raises `ended`.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

/// Ready at the end of service. (The guard that `wait_for` answers with must not live across an await.)
async fn over(ended: &mut watch::Receiver<bool>) {
    let _ = ended.wait_for(|end| *end).await;
}

#[cfg(test)]
mod tests;
