//! `lowwater tc`: the queueing discipline of a running `serve`, from the file of its `--stats` or by the socket of its `--control`.
use crate::args::Tc;
use crate::failure::Failure;
use crate::{out, rates, running};
use lowwater_core::qdisc::Any;
use serde_json::{Map, Value};
use std::path::Path;
use std::process::ExitCode;

/// What an action looks like.
const ACTION: &str = "replace fq maxrate 48mbit";

/// Runs the command.
pub(crate) fn run(args: &Tc) -> Result<ExitCode, Failure> {
    let request = request(&args.action)?;
    let root = match request {
        None => of_stats(&args.file)?,
        Some(request) if running::is_socket(&args.file) => running::ask(&args.file, &request)?,
        Some(_) => {
            return Err(Failure::usage(format!(
                "{} is no socket: a discipline is replaced by that of a running serve --control SOCKET, as: lowwater tc SOCKET {ACTION}",
                args.file.display()
            )));
        }
    };
    if args.json {
        let mut list = Vec::new();
        objects(&root, "root", args.stats, &mut list);
        out::tell(&Value::Array(list).to_string())?;
    } else {
        out::tell(&shown(root["text"].as_str().unwrap_or_default(), args.stats))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What to ask for; `None` to be shown what there is. Words that `serve` would refuse are refused here.
fn request(action: &[String]) -> Result<Option<String>, Failure> {
    let words = match action {
        [] => return Ok(None),
        [replace, words @ ..] if replace == "replace" && !words.is_empty() => words.join(" "),
        [replace] if replace == "replace" => {
            return Err(Failure::usage(format!("replace takes the words of a discipline, as: {ACTION}")));
        }
        [other, ..] => {
            return Err(Failure::usage(format!("there is no '{other}': tc shows, or does this: {ACTION}")));
        }
    };
    words.parse::<Any>().map_err(Failure::usage)?;
    if let Some(note) = rates::slow("replace", &words) {
        eprintln!("lowwater: {note}");
    }
    Ok(Some(format!("replace {words}")))
}

/// The discipline in what `serve` counts.
fn of_stats(path: &Path) -> Result<Value, Failure> {
    let root = running::stats(path)?.get_mut("Qdisc").filter(|q| q.is_object()).map(Value::take);
    root.ok_or_else(|| Failure::other(format!("{} has no Qdisc: is it from serve --stats?", path.display())))
}

/// The lines that were asked for.
fn shown(text: &str, stats: bool) -> String {
    let lines = text.lines().filter(|line| stats || line.starts_with("qdisc "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A discipline and those inside of it, as `tc -j` lists them: counts beside the kind, options by themselves.
fn objects(q: &Value, place: &str, stats: bool, list: &mut Vec<Value>) {
    let mut object = Map::new();
    object.insert("kind".into(), q["kind"].clone());
    object.insert(place.into(), Value::Bool(true));
    object.insert("options".into(), q["options"].clone());
    if stats {
        let own = q["details"].as_object().into_iter().flatten();
        let common = q.as_object().into_iter().flatten().filter(|(_, n)| n.is_u64());
        object.extend(common.chain(own).map(|(name, n)| (name.clone(), n.clone())));
    }
    list.push(Value::Object(object));
    q["children"].as_array().into_iter().flatten().for_each(|child| objects(child, "child", stats, list));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn q() -> Value {
        json!({"kind": "tbf", "options": {"rate": 1_000}, "bytes": 5, "drops": 1, "details": {},
            "text": "qdisc tbf root rate 8Kbit\n Sent 5 bytes\nqdisc fq parent limit 3p\n Sent 4 bytes",
            "children": [{"kind": "fq", "options": {"limit": 3}, "bytes": 4, "details": {"gc": 7}}]})
    }

    #[test]
    fn counts_are_shown_where_they_are_asked_for() {
        let text = q()["text"].as_str().map(str::to_owned).unwrap_or_default();
        assert_eq!(shown(&text, false), "qdisc tbf root rate 8Kbit\nqdisc fq parent limit 3p\n");
        assert_eq!(shown(&text, true).lines().count(), 4);
        let mut list = Vec::new();
        objects(&q(), "root", true, &mut list);
        assert_eq!(
            list[0],
            json!({"kind": "tbf", "root": true, "options": {"rate": 1_000}, "bytes": 5, "drops": 1})
        );
        assert_eq!(
            list[1],
            json!({"kind": "fq", "child": true, "options": {"limit": 3}, "bytes": 4, "gc": 7})
        );
        list.clear();
        objects(&q(), "root", false, &mut list);
        assert_eq!(list[1], json!({"kind": "fq", "child": true, "options": {"limit": 3}}));
    }
}
