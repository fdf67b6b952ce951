//! `lowwater tc`: the queueing discipline of a running `serve`, from the file of its `--stats`.
use crate::args::Tc;
use crate::failure::Failure;
use serde_json::{Map, Value};
use std::fs;
use std::process::ExitCode;

/// Runs the command.
pub(crate) fn run(args: &Tc) -> Result<ExitCode, Failure> {
    let file = args.file.display();
    let text = fs::read_to_string(&args.file).map_err(|e| Failure::io(format!("reading {file}"), &e))?;
    let all: Value = serde_json::from_str(&text)
        .map_err(|e| Failure::other(format!("{file} is no file of serve --stats: {e}")))?;
    let root = all.get("Qdisc").filter(|q| q.is_object());
    let root =
        root.ok_or_else(|| Failure::other(format!("{file} has no Qdisc: is it from serve --stats?")))?;
    if args.json {
        let mut list = Vec::new();
        objects(root, "root", args.stats, &mut list);
        println!("{}", Value::Array(list));
    } else {
        print!("{}", shown(root["text"].as_str().unwrap_or_default(), args.stats));
    }
    Ok(ExitCode::SUCCESS)
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
