//! `lowwater tc`: the queueing discipline of a running `serve`, from the file of its `--stats` or by the socket of its `--control`.
use crate::args::Tc;
use crate::failure::Failure;
use lowwater_core::qdisc::Any;
use serde_json::{Map, Value};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What an action looks like.
const ACTION: &str = "replace fq maxrate 48mbit";
/// How long a `serve` may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(args: &Tc) -> Result<ExitCode, Failure> {
    let request = request(&args.action)?;
    let meta = fs::metadata(&args.file);
    let root = match (meta.is_ok_and(|meta| meta.file_type().is_socket()), &request) {
        (true, _) => by_socket(&args.file, request.as_deref().unwrap_or("show"))?,
        (false, None) => from_file(&args.file)?,
        (false, Some(_)) if args.file.exists() => {
            return Err(Failure::usage(format!(
                "{} is no socket: a discipline is replaced by that of serve --control SOCKET, as: lowwater tc SOCKET {ACTION}",
                args.file.display()
            )));
        }
        (false, Some(_)) => {
            let gone = io::Error::from(io::ErrorKind::NotFound);
            return Err(Failure::io(format!("{}: reaching serve --control", args.file.display()), &gone));
        }
    };
    if args.json {
        let mut list = Vec::new();
        objects(&root, "root", args.stats, &mut list);
        println!("{}", Value::Array(list));
    } else {
        print!("{}", shown(root["text"].as_str().unwrap_or_default(), args.stats));
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
    Ok(Some(format!("replace {words}")))
}

/// A line there, a JSON object back.
fn by_socket(path: &Path, request: &str) -> Result<Value, Failure> {
    let talk = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        writeln!(stream, "{request}")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    let place = path.display();
    let line: String = talk()
        .map_err(|e: io::Error| Failure::io(format!("{place}: asking serve --control (does it run?)"), &e))?;
    let told: Value = serde_json::from_str(&line).map_err(|_| {
        Failure::other(format!("{place} gave no answer: is it the socket of a serve --control?"))
    })?;
    match told["error"].as_str() {
        Some(why) => Err(Failure::other(format!("serve refuses: {why}"))),
        None => Ok(told),
    }
}

fn from_file(path: &Path) -> Result<Value, Failure> {
    let file = path.display();
    let text = fs::read_to_string(path).map_err(|e| Failure::io(format!("reading {file}"), &e))?;
    let mut all: Value = serde_json::from_str(&text)
        .map_err(|e| Failure::other(format!("{file} is no file of serve --stats: {e}")))?;
    let root = all.get_mut("Qdisc").filter(|q| q.is_object()).map(Value::take);
    root.ok_or_else(|| Failure::other(format!("{file} has no Qdisc: is it from serve --stats?")))
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
