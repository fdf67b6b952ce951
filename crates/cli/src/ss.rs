//! `lowwater ss`: connections and associations of a running `serve`, from the file of its `--stats` or by the socket of its `--control`.
use crate::args::Ss;
use crate::failure::Failure;
use crate::sctp::paths;
use crate::{out, running, tcp_info};
use lowwater_core::stack::Sockstat;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;

/// States by the words of the file, as Linux's `ss` shows them.
const STATES: [(&str, &str); 18] = [
    ("Established", "ESTAB"),
    ("SynSent", "SYN-SENT"),
    ("SynRecv", "SYN-RECV"),
    ("FinWait1", "FIN-WAIT-1"),
    ("FinWait2", "FIN-WAIT-2"),
    ("TimeWait", "TIME-WAIT"),
    ("Close", "UNCONN"),
    ("CloseWait", "CLOSE-WAIT"),
    ("LastAck", "LAST-ACK"),
    ("Listen", "LISTEN"),
    ("Closing", "CLOSING"),
    ("Closed", "CLOSED"),
    ("CookieWait", "COOKIE_WAIT"),
    ("CookieEchoed", "COOKIE_ECHOED"),
    ("ShutdownPending", "SHUTDOWN_PENDING"),
    ("ShutdownSent", "SHUTDOWN_SENT"),
    ("ShutdownReceived", "SHUTDOWN_RECEIVED"),
    ("ShutdownAckSent", "ACK_SENT"),
];

/// Where the counts of sockets are.
const SUMMARY: &str = "Sockstat";

/// Runs the command.
pub(crate) fn run(args: &Ss) -> Result<ExitCode, Failure> {
    let file = args.file.display();
    let all = running::stats(&args.file)?;
    let foreign = |list| Failure::other(format!("{file} has no {list}: is it from serve --stats?"));
    if args.summary {
        let counts = all.get(SUMMARY).filter(|counts| counts.is_object()).ok_or_else(|| foreign(SUMMARY))?;
        let told = if args.json { counts.to_string() } else { summary(counts) };
        return out::tell(&told).map(|_| ExitCode::SUCCESS);
    }
    let lists = [("tcp", "Connections", !args.sctp), ("sctp", "Associations", !args.tcp)];
    let mut sockets = Vec::new();
    for (netid, list, wanted) in lists {
        let list = all.get(list).and_then(Value::as_array).ok_or_else(|| foreign(list))?;
        if wanted {
            sockets.extend(list.iter().map(|socket| (netid, socket)));
        }
    }
    if args.json {
        for (netid, socket) in sockets {
            let mut object = socket.clone();
            object["netid"] = netid.into();
            if !out::tell(&object.to_string())? {
                break;
            }
        }
    } else {
        out::tell(&table(&sockets, args.info))?;
    }
    if let Some(more) = all["NotListed"].as_u64().filter(|more| *more > 0) {
        eprintln!("lowwater: {more} more are not in {file}: it lists 1,000 of each kind");
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each group of counts, in the order of /proc/net/sockstat.
fn summary(counts: &Value) -> String {
    let (mut text, mut last) = (String::new(), "");
    Sockstat::default().each(&mut |group, name, _| {
        if std::mem::replace(&mut last, group) != group {
            let end = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{end}{group}:");
        }
        let _ = write!(text, " {name} {}", counts[group][name].as_u64().unwrap_or(0));
    });
    text
}

/// A line for each, in columns as wide as they need to be; with `info` what is known of them below.
fn table(sockets: &[(&str, &Value)], info: bool) -> String {
    let field = |socket: &Value, name: &str| match &socket[name] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let head =
        ["Netid", "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port"].map(str::to_owned);
    let names = ["state", "recv_queue_bytes", "send_queue_bytes", "local", "remote"];
    let mut rows = vec![head.to_vec()];
    for (netid, socket) in sockets {
        let mut row = vec![(*netid).to_owned()];
        row.extend(names.map(|name| field(socket, name)));
        if let Some((_, shown)) = STATES.iter().find(|(state, _)| *state == row[1]) {
            (*shown).clone_into(&mut row[1]);
        }
        rows.push(row);
    }
    let widths: Vec<usize> =
        (0..head.len()).map(|i| rows.iter().map(|row| row[i].len()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (n, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        let Some((_, socket)) = n.checked_sub(1).and_then(|n| sockets.get(n)).filter(|_| info) else {
            continue;
        };
        let below = paths::below(&socket["below_bytes"]);
        let _ = writeln!(out, "      {below}; {}{}", waits(socket), waited(socket));
        if socket["info"].is_object() {
            let _ = writeln!(out, "      {}", tcp_info::text(&socket["info"]));
        }
        for path in socket["paths"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "{}", paths::text(path, "      ", paths::bps));
        }
    }
    out
}

/// Why it does not send. What never had data in hand has no reason, and neither has what sends just now.
fn waits(socket: &Value) -> String {
    match socket["waits_for"].as_str() {
        Some("empty") => "nothing to send".to_owned(),
        None if socket["send_queue_bytes"] == 0 => "nothing to send".to_owned(),
        None => "sending".to_owned(),
        Some(why) => match socket["waits_ms"].as_u64() {
            Some(ms) => format!("waits for {why} ({ms} ms so far)"),
            None => format!("waits for {why}"),
        },
    }
}

/// How often it has waited for what, the most frequent first.
fn waited(socket: &Value) -> String {
    let counts = socket["waits"].as_object().into_iter().flatten();
    let mut counts: Vec<(u64, &str)> =
        counts.map(|(why, n)| (n.as_u64().unwrap_or(0), why.as_str())).collect();
    counts.sort_by_key(|(n, why)| (std::cmp::Reverse(*n), *why));
    let told: Vec<_> = counts.iter().map(|(n, why)| format!("{why} {n}")).collect();
    if told.is_empty() { String::new() } else { format!("; waited for: {}", told.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn associations_show_their_paths_where_more_is_asked_for() {
        let path = json!({"remote": "10.0.0.2", "local": "10.0.0.1", "state": "active", "primary": true, "active": true,
            "cwnd": 4404, "ssthresh": null, "flight": 0, "srtt_ms": 0.25, "rto_ms": 1000.0, "mtu": 1500, "errors": 0,
            "below_bytes": 3300, "congestion": "bbr", "pacing_rate": 2500000, "delivery_rate": null});
        let assoc = json!({"state": "Established", "recv_queue_bytes": 0, "send_queue_bytes": 12, "below_bytes": 0,
            "waits_for": null, "local": "10.0.0.1:7", "remote": "10.0.0.2:40000", "paths": [path]});
        let brief = table(&[("sctp", &assoc)], false);
        let lines: Vec<&str> = brief.lines().collect();
        assert_eq!(
            lines,
            [
                "Netid  State  Recv-Q  Send-Q  Local Address:Port  Peer Address:Port",
                "sctp   ESTAB  0       12      10.0.0.1:7          10.0.0.2:40000",
            ]
        );
        let full = table(&[("sctp", &assoc)], true);
        let below: Vec<&str> = full.lines().skip(2).collect();
        assert_eq!(
            below,
            [
                "      0 bytes charged below; sending",
                "      path 10.0.0.2 from 10.0.0.1: active, primary; srtt 0.25 ms, rto 1000.0 ms, mtu 1500",
                "        cwnd 4404, 3300 bytes charged below; bbr, pacing 20000000bps",
            ]
        );
    }

    #[test]
    fn a_summary_is_in_the_words_and_the_order_of_sockstat() {
        let counts = json!({"sockets": {"used": 9}, "TCP": {"alloc": 5, "inuse": 4, "mem": 3, "orphan": 2, "tw": 1},
            "UDP": {"inuse": 1, "mem": 0}, "FRAG": {"inuse": 0, "memory": 0}});
        let mut stack = Sockstat { used: 9, tcp_inuse: 4, tcp_orphan: 2, tcp_tw: 1, ..Sockstat::default() };
        (stack.tcp_alloc, stack.tcp_mem, stack.udp_inuse) = (5, 3, 1);
        assert_eq!(summary(&counts), stack.to_string());
        assert!(summary(&counts).contains("TCP: inuse 4 orphan 2 tw 1 alloc 5 mem 3\n"));
    }

    #[test]
    fn every_state_is_shown_in_the_word_of_linux() {
        use lowwater_core::{sctp, tcp};
        let shown = |state: String| {
            let told = table(&[("tcp", &json!({ "state": state }))], false);
            told.lines().nth(1).and_then(|row| row.split_whitespace().nth(1)).expect("a state").to_owned()
        };
        for state in tcp::State::ALL {
            assert_eq!(shown(format!("{state:?}")), state.name());
        }
        for state in sctp::State::ALL {
            let known = STATES.iter().any(|(own, _)| *own == format!("{state:?}"));
            assert!(known && shown(format!("{state:?}")) != format!("{state:?}"));
        }
    }

    #[test]
    fn what_has_nothing_to_send_waits_for_nothing() {
        let waits = |why: Value, queued: u64| waits(&json!({"waits_for": why, "send_queue_bytes": queued}));
        for why in [json!("empty"), Value::Null] {
            assert_eq!(waits(why, 0), "nothing to send");
        }
        assert_eq!(waits(json!("cwnd"), 9), "waits for cwnd");
        assert_eq!(waits(Value::Null, 9), "sending");
    }

    #[test]
    fn a_connection_tells_why_it_waits_and_then_what_ss_tells() {
        let tcp = json!({"state": "Established", "recv_queue_bytes": 0, "send_queue_bytes": 12, "below_bytes": 7,
            "waits_for": "rwnd", "waits_ms": 31, "waits": {"cwnd": 4, "rwnd": 9}, "local": "10.0.0.1:7",
            "remote": "10.0.0.2:40000", "info": {"congestion": "cubic", "rto_ms": 204.0, "cwnd": 10, "notsent": 12}});
        let full = table(&[("tcp", &tcp)], true);
        let below: Vec<&str> = full.lines().skip(2).collect();
        assert_eq!(
            below,
            [
                "      7 bytes charged below; waits for rwnd (31 ms so far); waited for: rwnd 9, cwnd 4",
                "      cubic rto:204 cwnd:10 notsent:12",
            ]
        );
    }
}
