//! `--stats`: the counters as JSON under Linux's names, replaced as a whole each time.
use crate::failure::Failure;
use crate::running::ENDED;
use crate::sctp::paths;
use crate::tcp_info;
use lowwater::Stack;
use lowwater_core::base::Wait;
use lowwater_core::qdisc;
use lowwater_core::stack::{SocketKind, SocketReport};
use lowwater_core::tcp::State;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde_json::{Map, Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::task::JoinHandle;

/// Connections that are listed one by one.
const CONNECTIONS_MAX: usize = 1_000;

/// Where the counters go.
pub(crate) struct Stats {
    path: PathBuf,
    began: Instant,
    /// What is being written on a thread of its own: a disk that is slow must not hold up the stack, which is a task of this one.
    writing: Option<JoinHandle<Result<(), Failure>>>,
    /// The last attempt failed, and that was told.
    told: bool,
}

impl Stats {
    /// To this file.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), began: Instant::now(), writing: None, told: false }
    }

    /// Writes them; readers see the old file or the new one.
    pub(crate) fn write(&self, stack: &Stack) -> Result<(), Failure> {
        replace(&self.path, &text(&self.snapshot(stack)))
    }

    /// Writes the last ones: nobody who reads them later is to take them for those of a `serve` that runs.
    pub(crate) fn write_last(&self, stack: &Stack) -> Result<(), Failure> {
        let mut all = self.snapshot(stack);
        all[ENDED] = true.into();
        replace(&self.path, &text(&all))
    }

    /// Begins to write them, unless the disk has not done with those before. That those failed, as on a full disk, is told once on stderr:
    /// it is no reason to stop serving.
    pub(crate) async fn write_behind(&mut self, stack: &Stack) {
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            return;
        }
        let failed = self.written().await.err();
        if let Some(why) = failed.as_ref().filter(|_| !self.told) {
            eprintln!("lowwater: {why}; trying again every second");
        }
        self.told = failed.is_some();
        let (path, text) = (self.path.clone(), text(&self.snapshot(stack)));
        self.writing = Some(tokio::task::spawn_blocking(move || replace(&path, &text)));
    }

    /// Waits for what is being written; what became of it.
    pub(crate) async fn written(&mut self) -> Result<(), Failure> {
        match self.writing.take() {
            Some(writing) => writing.await.unwrap_or_else(|panic| resume_unwind(panic.into_panic())),
            None => Ok(()),
        }
    }

    fn snapshot(&self, stack: &Stack) -> Value {
        snapshot(stack, self.began.elapsed().as_secs_f64())
    }
}

fn text(all: &Value) -> String {
    format!("{all:#}\n")
}

/// Puts the text in the place of what is there.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let mut file = create(&fresh).map_err(|e| writing(path, &e))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&fresh, path));
    written.map_err(|e| {
        // Half a file helps nobody, least of all on a disk that is full.
        let _ = fs::remove_file(&fresh);
        writing(path, &e)
    })
}

fn writing(path: &Path, e: &io::Error) -> Failure {
    Failure::io(format!("writing --stats {}", path.display()), e)
}

/// A new file there. `serve` may run as root and write where others may, as in /tmp: what stands under its name already is never written to,
/// and taken away only if it is what a `serve` of this user has left.
fn create(path: &Path) -> io::Result<File> {
    let open = || {
        let no_link = OFlags::NOFOLLOW.bits() as i32;
        OpenOptions::new().write(true).create_new(true).custom_flags(no_link).open(path)
    };
    match open() {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let there = fs::symlink_metadata(path)?;
            if !there.is_file() || there.nlink() != 1 || there.uid() != geteuid().as_raw() {
                let place = path.display();
                return Err(io::Error::other(format!(
                    "{place} is there, and no serve of this user has left it: take it away, or give another name"
                )));
            }
            // What takes its place in between is not removed by this name twice: then opening fails.
            fs::remove_file(path)?;
            open()
        }
        opened => opened,
    }
}

/// All that is counted, `at_s` seconds after the beginning.
pub(super) fn snapshot(stack: &Stack, at_s: f64) -> Value {
    let mut groups = Map::new();
    groups.insert("at_s".into(), json!(at_s));
    groups.insert(ENDED.into(), json!(false));
    stack.counters().each(&mut |group, name, value| {
        let group = groups.entry(group).or_insert_with(|| json!({}));
        group[name] = json!(value);
    });
    let (mut states, mut held) = (Map::new(), [0u64; 3]);
    let (mut connections, mut associations) = (Vec::new(), Vec::new());
    let (mut established, mut left_out) = (0u64, 0u64);
    for socket in stack.sockets().sockets {
        if socket.kind == SocketKind::Tcp {
            let count = states.entry(format!("{:?}", socket.state)).or_insert_with(|| json!(0));
            *count = json!(count.as_u64().unwrap_or(0) + 1);
            established += u64::from(matches!(socket.state, State::Established | State::CloseWait));
            held[0] += socket.recv_queue;
            held[1] += socket.send_queue;
        }
        held[2] += socket.below;
        left_out += u64::from(socket.wait.is_some() || socket.sctp.is_some());
        if connections.len() < CONNECTIONS_MAX {
            connections.extend(connection(&socket));
        }
        if associations.len() < CONNECTIONS_MAX {
            associations.extend(association(&socket));
        }
    }
    // RFC 4022's gauge, which the core does not keep as a counter.
    groups.entry("Tcp").or_insert_with(|| json!({}))["CurrEstab"] = json!(established);
    groups.insert(
        "Sockets".into(),
        json!({"tcp_states": states, "tcp_recv_queue_bytes": held[0], "tcp_send_queue_bytes": held[1],
            "below_bytes": held[2]}),
    );
    let mut sockstat = Map::new();
    stack.sockstat().each(&mut |group, name, n| {
        sockstat.entry(group).or_insert_with(|| json!({}))[name] = json!(n);
    });
    groups.insert("Sockstat".into(), Value::Object(sockstat));
    groups.insert("Qdisc".into(), stack.qdisc(0).map_or(Value::Null, |report| qdisc(&report)));
    left_out = left_out.saturating_sub((connections.len() + associations.len()) as u64);
    groups.insert("NotListed".into(), json!(left_out));
    groups.insert("Connections".into(), json!(connections));
    groups.insert("Associations".into(), json!(associations));
    Value::Object(groups)
}

/// The queueing discipline as `tc -s -j qdisc` has it, and as `tc -s qdisc` prints it. Rates are in bytes per second, times in
/// nanoseconds, shares from 0 to 1.
pub(super) fn qdisc(report: &qdisc::Report) -> Value {
    let fields = |fields: &[qdisc::Field]| -> Map<_, _> {
        fields.iter().map(|f| (f.name.to_owned(), value(&f.value))).collect()
    };
    let s = &report.stats;
    let mut all = json!({
        "kind": report.kind, "options": fields(&report.options), "bytes": s.bytes, "packets": s.packets, "drops": s.drops,
        "overlimits": s.overlimits, "requeues": s.requeues, "backlog": s.backlog, "qlen": s.qlen,
        "details": fields(&report.details), "text": report.to_string(),
    });
    if !report.children.is_empty() {
        all["children"] = report.children.iter().map(qdisc).collect();
    }
    all
}

fn value(value: &qdisc::Value) -> Value {
    match value {
        qdisc::Value::Count(n)
        | qdisc::Value::Packets(n)
        | qdisc::Value::Bytes(n)
        | qdisc::Value::Rate(n)
        | qdisc::Value::Time(n) => json!(n),
        qdisc::Value::Share(n) => json!(f64::from(*n) / f64::from(u32::MAX)),
        qdisc::Value::Text(text) => json!(text),
        qdisc::Value::Flag => json!(true),
    }
}

/// One connection: what waits in it, and why it does not send.
fn connection(socket: &SocketReport) -> Option<Value> {
    let (wait, local, remote) = (socket.wait.as_ref()?, socket.local?, socket.remote?);
    let met = wait.counts.each().filter(|(_, times)| *times > 0);
    let counts: Map<_, _> = met.map(|(why, times)| (why.name().to_owned(), json!(times))).collect();
    Some(json!({
        "local": local.to_string(), "remote": remote.to_string(), "state": format!("{:?}", socket.state),
        "recv_queue_bytes": socket.recv_queue, "send_queue_bytes": socket.send_queue, "below_bytes": socket.below,
        "waits_for": wait.why.map(Wait::name), "waits_ms": wait.since.map(|d| d.as_millis() as u64), "waits": counts,
        "info": tcp_info::json(socket),
    }))
}

/// One association with its paths.
fn association(socket: &SocketReport) -> Option<Value> {
    let (sctp, local, remote) = (socket.sctp.as_ref()?, socket.local?, socket.remote?);
    Some(json!({
        "local": local.to_string(), "remote": remote.to_string(), "state": format!("{:?}", sctp.state),
        "recv_queue_bytes": socket.recv_queue, "send_queue_bytes": socket.send_queue, "below_bytes": socket.below,
        "unsent_bytes": sctp.unsent_bytes, "outbound_streams": sctp.streams.0, "inbound_streams": sctp.streams.1,
        "peer_rwnd": sctp.peer_rwnd, "rwnd": sctp.rwnd, "errors": sctp.errors,
        "waits_for": (sctp.wait != Wait::Empty).then(|| sctp.wait.name()),
        "paths": sctp.paths.iter().map(paths::json).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowwater::link;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    #[test]
    fn counters_are_written_one_after_the_other_and_a_failure_is_told_by_the_next() {
        let (a, _b) = link::pair(1_500);
        let stack = Stack::builder().device(a).address("10.0.0.1/24").build().expect("a stack");
        let dir = std::env::temp_dir().join(format!("lowwater-behind-{}", std::process::id()));
        let mut stats = Stats::new(&dir.join("stats"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            stats.write_behind(&stack).await;
            let ended = async |stats: &Stats| {
                while stats.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
                    tokio::task::yield_now().await;
                }
            };
            ended(&stats).await;
            assert!(!stats.told, "nobody knows yet that there is no such directory");
            stats.write_behind(&stack).await;
            assert!(
                stats.told && stats.written().await.is_err_and(|why| why.to_string().contains("--stats"))
            );
            fs::create_dir_all(&dir).expect("a directory");
            stats.write_behind(&stack).await;
            assert!(stats.written().await.is_ok() && dir.join("stats").exists() && !stats.told);
            // A disk that does not come back: the stack goes on, and nothing piles up behind it.
            let (wake, sleeps) = std::sync::mpsc::channel::<()>();
            stats.writing =
                Some(tokio::task::spawn_blocking(move || sleeps.recv().map_err(|_| Failure::other("gone"))));
            fs::remove_file(dir.join("stats")).expect("it is there");
            stats.write_behind(&stack).await;
            assert!(!dir.join("stats").exists());
            wake.send(()).expect("it sleeps");
            assert!(stats.written().await.is_ok());
        });
        fs::remove_dir_all(&dir).expect("it is there");
    }

    #[test]
    fn counters_replace_what_serve_has_left_and_nothing_else() {
        let (a, _b) = link::pair(1_500);
        let stack = Stack::builder().device(a).address("10.0.0.1/24").build().expect("a stack");
        let dir = std::env::temp_dir().join(format!("lowwater-stats-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let at = |name: &str| dir.join(name);
        let (fresh, other, stats) = (at("stats.new"), at("other"), Stats::new(&at("stats")));
        let write = || stats.write(&stack).map_err(|why| why.to_string());
        let written = || {
            let text = fs::read_to_string(at("stats")).expect("it is there");
            serde_json::from_str::<Value>(&text).expect("JSON")["Qdisc"].is_object()
        };
        fs::write(&fresh, "half a fil").expect("writable");
        assert_eq!(write(), Ok(()), "a serve was killed while it wrote");
        assert!(written() && !fresh.exists());

        fs::write(&other, "mine").expect("writable");
        let refused = |e: Result<(), String>| e.is_err_and(|why| why.contains("stats.new is there"));
        symlink(&other, &fresh).expect("a link");
        assert!(refused(write()));
        fs::remove_file(&fresh).expect("it is there");
        fs::hard_link(&other, &fresh).expect("another name");
        assert!(refused(write()));
        assert_eq!(fs::read_to_string(&other).expect("it is there"), "mine");
        fs::remove_file(&fresh).expect("it is there");
        // A link without a target would be made a file of.
        symlink(at("nothing"), &fresh).expect("a link");
        assert!(refused(write()));
        assert!(!at("nothing").exists());
        fs::remove_file(&fresh).expect("it is there");
        fs::create_dir(&fresh).expect("a directory");
        assert!(refused(write()));
        fs::remove_dir(&fresh).expect("it is empty");
        assert_eq!(write(), Ok(()));
        fs::remove_dir_all(&dir).expect("it is ours");
        stack.shutdown_blocking(Duration::ZERO);
    }
}
