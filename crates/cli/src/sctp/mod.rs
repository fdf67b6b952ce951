//! `lowwater sctp-send`: messages over one association, from connecting to its end.
mod back;
mod digest;
mod load;
pub(crate) mod paths;
mod stop;

use crate::args::SctpSend;
use crate::failure::Failure;
use crate::interrupt::INTERRUPTED;
use crate::net::{self, Opened};
use crate::out;
use back::Back;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use load::Load;
use lowwater::sctp::{AssocInfo, ConnectOptions};
use lowwater::{Counters, SctpAssociation};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stop::Stop;

/// How long connecting may take without a word, and in all: three INITs.
const PATIENCE: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(15);
/// How long what closes in the background has at the end.
const BACKGROUND: Duration = Duration::from_millis(200);
/// Unsent bytes that wait in the stack.
const NOTSENT_LOWAT: u32 = 128 << 10;
/// Streams that are asked for at least, as Linux does.
const STREAMS_MIN: u16 = 10;

/// What became of it.
struct Outcome {
    load: Load,
    end: End,
    back: Back,
    interrupted: bool,
}

/// The association when everything was acknowledged, or when it was aborted.
struct End {
    /// Since the first message.
    took: Duration,
    info: AssocInfo,
    /// Messages whose lifetime was over.
    given_up: u64,
    aborted: bool,
}

impl End {
    /// As it is at this moment.
    fn now(assoc: &SctpAssociation, began: Instant, aborted: bool) -> io::Result<Self> {
        let (info, lifetime) = (assoc.info()?, assoc.abandoned(None)?.lifetime);
        Ok(Self { took: began.elapsed(), info, given_up: lifetime.unsent + lifetime.sent, aborted })
    }

    fn acknowledged(&self) -> bool {
        acknowledged(&self.info)
    }

    /// Bytes of the messages that came whole; of chunks that were out at an abort their most is taken off.
    fn acknowledged_bytes(&self, load: &Load, size: u32) -> u64 {
        let chunk = self.info.fragment_point.min(size as usize);
        let out = (self.info.unacked.saturating_mul(chunk)).saturating_add(self.info.unsent_bytes);
        let gone = self.given_up.saturating_mul(size.into()).saturating_add(out as u64);
        load.bytes.saturating_sub(gone)
    }
}

/// Nothing is unsent or in flight.
fn acknowledged(info: &AssocInfo) -> bool {
    info.unacked == 0 && info.unsent_bytes == 0
}

/// Runs the command.
pub(crate) fn run(args: &SctpSend) -> Result<ExitCode, Failure> {
    check(args)?;
    let runtime = net::runtime()?;
    let opened = net::open(&args.net, &runtime)?;
    let outcome = runtime.block_on(transfer(args, &opened));
    let counters = opened.stack.counters();
    runtime.block_on(opened.stack.shutdown(BACKGROUND));
    runtime.shutdown_background();
    opened.finish()?;
    let Some(outcome) = outcome? else { return Ok(ExitCode::from(INTERRUPTED)) };
    report(args, &outcome, &counters)?;
    Ok(if outcome.interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn check(args: &SctpSend) -> Result<(), Failure> {
    let port = args.peers[0].port();
    if port == 0 {
        return Err(Failure::usage(format!("{}: the port is none from 1 to 65535", args.peers[0])));
    }
    if let Some(other) = args.peers.iter().find(|peer| peer.port() != port) {
        return Err(Failure::usage(format!(
            "{} and {other} have different ports: the addresses of one peer have one",
            args.peers[0]
        )));
    }
    Ok(())
}

fn names(peers: &[SocketAddr]) -> String {
    peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The whole exchange; `None` when it was stopped before there was an association.
async fn transfer(args: &SctpSend, opened: &Opened) -> Result<Option<Outcome>, Failure> {
    let connected = tokio::select! {
        connected = connect(args, opened) => connected?,
        _ = tokio::signal::ctrl_c() => {
            eprintln!("lowwater: stopped: nothing was sent");
            return Ok(None);
        }
    };
    let stop = Stop::default();
    let exchange = exchange(args, &connected, &stop);
    tokio::pin!(exchange);
    loop {
        tokio::select! {
            done = &mut exchange => return done.map(|outcome| Some(Outcome { interrupted: stop.asked(), ..outcome })),
            _ = tokio::signal::ctrl_c() => stop.again(),
        }
    }
}

/// Connects, and says what it waits for when that takes a while.
async fn connect(args: &SctpSend, opened: &Opened) -> Result<SctpAssociation, Failure> {
    let mut options = opened.stack.sctp_options();
    options.notsent_lowat = NOTSENT_LOWAT;
    options.congestion = args.congestion.unwrap_or(options.congestion);
    options.num_ostreams = args.messages.streams.max(STREAMS_MIN);
    let local = if args.local.is_empty() { &opened.addresses } else { &args.local };
    let local = local.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
    let connect = ConnectOptions { local, options: Some(options) };
    let attempt = SctpAssociation::connect_with(&opened.stack, &args.peers[..], &connect);
    tokio::pin!(attempt);
    let names = names(&args.peers);
    let done = match tokio::time::timeout(PATIENCE, &mut attempt).await {
        Ok(done) => done,
        Err(_) => {
            eprintln!("lowwater: waiting for {names} to answer, {} s at most", CONNECT.as_secs());
            let late = tokio::time::timeout(CONNECT - PATIENCE, attempt).await;
            late.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
        }
    };
    let assoc = done.map_err(|e| Failure::other(why_not(&names, &e)))?;
    let (ours, _) = assoc.info().map_err(|e| Failure::io("asking the association", &e))?.streams;
    if ours < args.messages.streams {
        return Err(Failure::other(format!(
            "{names} takes {ours} streams, not {}: give --streams {ours}",
            args.messages.streams
        )));
    }
    Ok(assoc)
}

/// Why there is no association, and what to do about it.
fn why_not(names: &str, e: &io::Error) -> String {
    let hint = match e.kind() {
        ErrorKind::ConnectionRefused => {
            "nobody listens for SCTP there (`lowwater serve --sctp PORT` does, on PORT and PORT + 2)"
        }
        ErrorKind::TimedOut => {
            "no answer: does a server listen there, does each side have a route to the other (`ip route`; the kernel between \
             them needs net.ipv4.ip_forward=1 or net.ipv6.conf.all.forwarding=1), and does a firewall drop SCTP (`nft list ruleset`)?"
        }
        ErrorKind::AddrNotAvailable => "--local takes addresses of --addr and --addr6",
        ErrorKind::NetworkUnreachable => "the stack has no address of that family: give --addr6 for IPv6",
        _ if e.raw_os_error() == Some(rustix::io::Errno::NOPROTOOPT.raw_os_error()) => {
            "that host does not speak SCTP (a Linux kernel does after `modprobe sctp`)"
        }
        _ => return format!("{names}: connecting: {e}"),
    };
    format!("{names}: connecting: {e}: {hint}")
}

/// Sends everything, reads what comes back, and closes.
async fn exchange(args: &SctpSend, assoc: &SctpAssociation, stop: &Stop) -> Result<Outcome, Failure> {
    let broken = |doing: &str, e: &io::Error| {
        let what = match e.kind() {
            ErrorKind::BrokenPipe => "the peer has closed the association".to_owned(),
            _ => e.to_string(),
        };
        Failure::other(format!("{}: {doing}: {what}", names(&args.peers)))
    };
    let hashed = args.hash || args.echo;
    let (mut load, back) = (Load::new(args.messages, hashed), Back::new(hashed));
    let bar = bar(args);
    let began = Instant::now();
    let aborted = Cell::new(false);
    let ask = |aborted| End::now(assoc, began, aborted).map_err(|e| broken("asking the association", &e));
    let sending = async {
        tokio::select! {
            sent = load.send(assoc, &bar) => sent.map_err(|e| broken("sending", &e))?,
            () = stop.first() => {}
        }
        let ending = async {
            back.all_acknowledged(assoc).await.map_err(|e| broken("asking the association", &e))?;
            let end = ask(false)?;
            if args.echo {
                tokio::select! {
                    back = back.wait_for(load.sent) => back.map_err(|e| broken("waiting for the echo", &e))?,
                    () = stop.first() => {}
                }
            }
            assoc.finish().await.map_err(|e| broken("closing", &e))?;
            Ok(end)
        };
        tokio::select! {
            end = ending => end,
            () = stop.hurry() => {
                let end = ask(true)?;
                aborted.set(true);
                assoc.abort(b"interrupted").map_err(|e| broken("aborting", &e))?;
                Ok(end)
            }
        }
    };
    let receiving = async {
        match back.receive(assoc).await {
            // What our own ABORT ended is no failure.
            Err(e) if !aborted.get() => Err(broken("receiving", &e)),
            _ => Ok(()),
        }
    };
    let (end, ()) = tokio::try_join!(sending, receiving)?;
    bar.finish_and_clear();
    Ok(Outcome { load, end, back, interrupted: false })
}

/// A bar where somebody sees it.
fn bar(args: &SctpSend) -> ProgressBar {
    let total = match (args.messages.duration, args.messages.count()) {
        (Some(_), _) => None,
        (None, count) => Some(count.saturating_mul(args.messages.size.into())),
    };
    let shown = io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(total, target);
    let template = match total {
        Some(_) => "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}",
        None => "{spinner} {bytes}  {bytes_per_sec}  {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Says what became of it; fails where the echo was not what was sent.
fn report(args: &SctpSend, outcome: &Outcome, counters: &Counters) -> Result<(), Failure> {
    // The stack has had this association alone.
    let (again, timeouts) = (counters.own.sctp_chunks_again, counters.sctp.t3_retransmits);
    let Outcome { load, end, back, interrupted } = outcome;
    let End { took, info, given_up, aborted } = end;
    let seconds = took.as_secs_f64();
    let acknowledged = end.acknowledged_bytes(load, args.messages.size);
    let mbps = acknowledged as f64 * 8.0 / seconds.max(1e-9) / 1e6;
    let hash = load.digest.as_ref().map(ToString::to_string);
    let echo_hash = back.digest.borrow().as_ref().map(ToString::to_string);
    let paths: Vec<Value> = info.paths.iter().map(paths::json).collect();
    if *aborted {
        let why = if end.acknowledged() {
            "did not answer the SHUTDOWN"
        } else {
            "had not acknowledged everything"
        };
        eprintln!("lowwater: stopped: aborted, since the peer {why}");
    }
    if args.json {
        out::tell(
            &json!({
                "event": "sent", "peers": args.peers.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "messages": load.sent, "bytes": load.bytes, "acknowledged_bytes": acknowledged, "seconds": seconds, "mbps": mbps, "interrupted": interrupted,
                "given_up": given_up, "chunks_again": again, "t3_retransmits": timeouts, "back_messages": back.messages.get(), "back_bytes": back.bytes.get(),
                "hash": hash, "back_hash": echo_hash.as_ref().filter(|_| args.echo),
                "acknowledged": end.acknowledged(), "aborted": aborted,
                "streams": args.messages.streams, "outbound_streams": info.streams.0, "paths": paths,
            })
            .to_string(),
        )?;
    } else {
        let mut text = format!(
            "{} messages of {} bytes to {} in {seconds:.3} s: {mbps:.1} Mbit/s, {}",
            load.sent,
            args.messages.size,
            names(&args.peers),
            match (given_up, end.acknowledged()) {
                (0, true) => "all acknowledged".to_owned(),
                (n, true) => format!("{n} given up, all others acknowledged"),
                (n, false) => format!("{n} given up, aborted before the others were acknowledged"),
            }
        );
        if again > 0 {
            let _ = write!(text, "; {again} chunks again, {timeouts} timeouts");
        }
        if args.echo {
            let _ = write!(text, "\n{} messages came back", back.messages.get());
        }
        for path in &paths {
            let _ = write!(text, "\n{}", paths::text(path, "  ", paths::mbit));
        }
        if let Some(hash) = hash.as_ref().filter(|_| args.hash) {
            let _ = write!(text, "\n{hash}");
        }
        out::tell(&text)?;
    }
    if args.echo && !interrupted && hash != echo_hash {
        return Err(Failure::other(format!("{}: what came back is not what was sent", names(&args.peers))));
    }
    Ok(())
}
