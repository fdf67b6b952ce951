//! What `--set` changes, beside each variant as it is.
use super::lab::{report, shortened};
use super::*;

const KNOB: &str = "tcp_limit_output_bytes=131072";
const ASKED: [&str; 5] = ["small-queues", "--variant", "tsq-1gbit", "--set", KNOB];

/// The data of the page that this command makes, and what it printed.
fn page(words: &[&str]) -> (Value, Ended) {
    let dir = Dir::new();
    let file = dir.join("page.html").display().to_string();
    let ended = shortened(&[words, &["--report", &file]].concat());
    (report(&std::fs::read_to_string(&file).expect("it was written")).0, ended)
}

fn names(of: &Value) -> Vec<&str> {
    let drawn = of["lines"].as_array().or(of["rows"].as_array()).expect("a list");
    drawn.iter().map(|l| l["name"].as_str().unwrap_or_default()).collect()
}

/// The number that follows these words.
fn number_after(text: &str, words: &str) -> f64 {
    let rest = text.split_once(words).unwrap_or_else(|| panic!("no '{words}' in {text}")).1;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("no number behind '{words}' in {text}"))
}

#[test]
fn a_knob_stands_beside_the_variant_as_it_is() {
    let (data, ended) = page(&ASKED);
    let table = &ended.stdout;
    assert!(table.contains("\nchanged by --set: tcp_limit_output_bytes=131072; in all runs: warmup_s=0.5, "));
    let line = table.lines().find(|l| l.starts_with("tsq-1gbit with")).expect("what changes");
    assert!(line.contains(" %); ") && line.ends_with("within 1 %: Mbit/s"), "{line}");
    let probe = line.split_once("probe ms mean ").expect("a figure that changes").1;
    assert!(number_after(line, "probe ms mean ") > number_after(probe, " -> "), "{line}");
    // Both rows, and below the figures of the second what became of them.
    assert_eq!(table.matches("│ tsq-1gbit ").count(), 2, "{table}");
    assert!(
        table.contains("│ as it is ") && table.contains("│ with tcp_limit_output_bytes=131072 ┆ "),
        "{table}"
    );
    let below = table.lines().find(|l| l.contains("│ with tcp_limit")).expect("a row");
    assert!(below.contains(" %") && below.contains(" same ") && below.contains("from 0"), "{below}");
    let section = &data["experiments"][0];
    let both = ["tsq-1gbit as it is", "tsq-1gbit with tcp_limit_output_bytes=131072"];
    let pictures = section["pictures"].as_array().expect("a list");
    assert_eq!(pictures.iter().map(names).collect::<Vec<_>>(), [both, both]);
    let bars = &pictures[1]["rows"];
    assert!(bars[0]["values"][0]["change"].is_null(), "{bars}");
    let change = bars[1]["values"][0]["change"].as_str().expect("what became of it");
    assert!(change.starts_with('-') && change.ends_with(" %"), "{change}");
    let compared = &section["compared"][0];
    assert_eq!((&compared["name"], &compared["by"]), (&"tsq-1gbit".into(), &KNOB.into()));
    let mean = &compared["rows"][4]["cells"];
    assert_eq!((&mean[0], &mean[3]), (&"probe ms mean".into(), &change.into()));
}

#[test]
fn what_it_is_beside_is_the_run_without_the_setting() {
    let told = runs(&shortened(&[&ASKED[..], &["--json", "--seeds", "2"]].concat()));
    let usual = runs(&shortened(&["small-queues", "--variant", "tsq-1gbit", "--json", "--seed", "2"]));
    let alone = runs(&shortened(&[&ASKED[..], &["--json", "--alone", "--seed", "2"]].concat()));
    let seeds: Vec<_> =
        told.iter().map(|run| (&run["as_it_is"], &run["seed"])).map(|(a, s)| (a == true, s)).collect();
    let (one, two) = (Value::from(1), Value::from(2));
    assert_eq!(seeds, [(true, &one), (true, &two), (false, &one), (false, &two)]);
    assert_eq!((usual.len(), alone.len()), (1, 1));
    for (run, own) in [(&told[1], &usual[0]), (&told[3], &alone[0])] {
        assert_eq!((&run["figures"], &run["params"]), (&own["figures"], &own["params"]));
        // What Linux measured stands beside both or neither.
        assert_eq!(run["linux_full"], own["linux_full"]);
        assert!(own["as_it_is"].is_null() && own["times"].is_null(), "{own}");
    }
    assert!(told[1]["linux_full"].is_object() && told[3]["linux_full"].is_null());
    assert_eq!(told[3]["changed"], serde_json::json!({"tcp_limit_output_bytes": "131072"}));
    let of = |run: usize| told[run]["figures"]["probe_rtt_ms_mean"].as_f64().expect("a number");
    let times = told[3]["times"]["probe_rtt_ms_mean"].as_f64().expect("a number");
    assert!((times - of(3) / of(1)).abs() < 1e-9 && times < 1.0, "{times}");
    assert!(told[3]["times"]["capped_per_s"].is_null(), "nothing has no multiple");
}

/// Chance is the same in both: each is divided by the run of its own seed.
#[test]
fn each_seed_has_its_own_pair() {
    let words =
        ["lab", "run", "bulk", "--variant", "reno/1%", "--set", "bytes=3000000", "--set", "rtt_ms=40"];
    let told = runs(&say(&[&words[..], &["--seeds", "2", "--json"]].concat()).ok());
    let of = |run: usize, whose: &str| told[run][whose]["goodput_mbps"].as_f64().expect("a number");
    assert_ne!(of(0, "figures"), of(1, "figures"), "chance acts");
    for run in [0, 1] {
        let times = of(run + 2, "figures") / of(run, "figures");
        assert!((of(run + 2, "times") - times).abs() < 1e-9, "{times}: {told:?}");
    }
}

#[test]
fn files_of_both_have_names_of_their_own() {
    let dir = Dir::new();
    shortened(&[&ASKED[..], &["--out", &dir.path().display().to_string()]].concat());
    for name in ["small-queues-tsq-1gbit.csv", "small-queues-tsq-1gbit-as-it-is.csv"] {
        let csv = std::fs::read_to_string(dir.join(name)).expect("it was written");
        assert!(csv.lines().count() > 10, "{csv}");
    }
}

#[test]
fn what_is_given_as_the_base_is_in_both() {
    let words = ["lab", "run", "bulk", "--variant", "cubic/0%", "--set", "bytes=3000000", "--json"];
    let knob = ["--base", "rate_mbps=20", "--set", "qdisc=fq_codel"];
    let told = runs(&say(&[&words[..], &knob].concat()).ok());
    let of = |key: &str| told.iter().map(|run| run["params"][key].clone()).collect::<Vec<_>>();
    assert_eq!(of("rate_mbps"), [20, 20]);
    assert_eq!(of("bytes"), [3_000_000, 3_000_000]);
    assert_eq!(of("qdisc"), ["none", "fq_codel"]);
    // Two settings of the line have both in the heading.
    let ended = say(&[&words[..7], &["--set", "rate_mbps=20"]].concat()).ok();
    assert!(ended.stdout.starts_with(
        "bulk: a bulk transfer over a path of 100 Mbit/s and 100 ms, with and without random loss; or 20"
    ));
}

#[test]
fn two_values_of_one_parameter_are_compared() {
    let words = ["lab", "run", "bulk", "--variant", "cubic/0%", "--set", "bytes=3000000"];
    let values = ["--base", "rate_mbps=20", "--set", "rate_mbps=50"];
    let told = runs(&say(&[&words[..], &values, &["--json"]].concat()).ok());
    let of = |key: &str| told.iter().map(|run| run["params"][key].clone()).collect::<Vec<_>>();
    assert_eq!((of("rate_mbps"), of("bytes")), (vec![20.into(), 50.into()], vec![3_000_000.into(); 2]));
    assert!(told[1]["times"]["goodput_mbps"].as_f64() > Some(1.5), "{told:?}");
    let table = say(&[&words[..], &values].concat()).ok().stdout;
    assert!(
        table.contains("changed by --set: rate_mbps=50; compared with rate_mbps=20; in all runs: "),
        "{table}"
    );
    assert!(table.contains("│ with rate_mbps=20 ") && !table.contains("as it is"), "{table}");
    let dir = Dir::new();
    let file = dir.join("page.html").display().to_string();
    say(&[&words[..], &values, &["--report", &file]].concat()).ok();
    let (data, _) = report(&std::fs::read_to_string(&file).expect("it was written"));
    let command = data["experiments"][0]["command"].as_str().expect("a command");
    assert!(command.contains("--base rate_mbps=20") && command.contains("--set rate_mbps=50"), "{command}");
    let ended = say(&[&words[..], &values, &["--alone"]].concat());
    assert!(ended.code() == Some(2) && ended.stderr.contains("--alone compares nothing"), "{ended:?}");
}

/// What two runs that are compared have in common has one value, and that of `--base` is looked at too.
#[test]
fn two_values_of_what_both_runs_have_are_refused() {
    let refused = |key: &str, values: [&str; 2]| {
        let [base, set] = values.map(|value| format!("{key}={value}"));
        let ended = say(&["lab", "run", "bulk", "--variant", "reno/0%", "--base", &base, "--set", &set]);
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        ended.stderr
    };
    assert!(refused("bytes", ["1000", "2000"]).contains("give bytes two values"));
    assert!(refused("loss_percent", ["0", "1"]).contains("give loss_percent two values"));
    let told = refused("rate_mbps", ["abc", "50"]);
    assert!(told.contains("rate_mbps") && told.contains("abc"), "{told}");
}

#[test]
fn what_changes_nothing_runs_once_and_is_told() {
    let same =
        ["small-queues", "--variant", "tsq-1gbit", "--set", "tcp_limit_output_bytes=1048576", "--json"];
    let ended = shortened(&same);
    assert_eq!(runs(&ended).len(), 1);
    assert!(ended.stderr.contains(
        "1048576 is what these variants have as they are, so there is nothing to compare: tsq-1gbit\n"
    ));
    // So is what a variant does not read, and a value that names the run.
    let unread = ["small-queues", "--variant", "tsq-1gbit", "--set", "sctp.rto_min=100", "--json"];
    assert_eq!(runs(&shortened(&unread)).len(), 1);
    let grid = [
        "lab",
        "run",
        "bulk",
        "--variant",
        "reno",
        "--set",
        "loss_percent=2",
        "--set",
        "bytes=100000",
        "--json",
    ];
    assert_eq!(runs(&say(&grid).ok()).len(), 1);
    // Of variants that become the same the one that it changes stands for them.
    let both =
        ["small-queues", "--variant", "tsq-1gbit", "--variant", "tsq-131072-1gbit", "--set", KNOB, "--json"];
    let ended = shortened(&both);
    let told = runs(&ended);
    let of = |run: &Value| (run["run"] == "tsq-1gbit", run["as_it_is"] == true);
    assert_eq!(told.iter().map(of).collect::<Vec<_>>(), [(true, true), (true, false)]);
    assert!(
        ended.stderr.contains("as tsq-1gbit, which runs once for all of them: tsq-131072-1gbit"),
        "{ended:?}"
    );
}

#[test]
fn more_pairs_than_can_be_told_apart_have_a_frame_each() {
    let names_of = |variants: &[&str]| {
        let asked = variants.iter().flat_map(|v| ["--variant", v]);
        let words: Vec<_> = ["bulk"].into_iter().chain(asked).collect();
        let dir = Dir::new();
        let file = dir.join("page.html").display().to_string();
        let set = ["--set", "qdisc=fq_codel", "--set", "bytes=1000000", "--report", &file];
        say(&[&["lab", "run"], &words[..], &set].concat()).ok();
        let (data, _) = report(&std::fs::read_to_string(&file).expect("it was written"));
        let pictures = data["experiments"][0]["pictures"].as_array().expect("a list").clone();
        pictures
            .iter()
            .map(|p| {
                (
                    p["title"].as_str().unwrap_or_default().to_owned(),
                    p["lines"].as_array().map_or(0, Vec::len),
                )
            })
            .collect::<Vec<_>>()
    };
    let two = names_of(&["cubic/0%", "bbr/0%"]);
    assert_eq!(two.iter().map(|(_, lines)| *lines).collect::<Vec<_>>(), [4, 4]);
    let three = names_of(&["cubic/0%", "reno/0%", "bbr/0%"]);
    assert_eq!(three.len(), 6, "{three:?}");
    assert!(
        three.iter().all(|(_, lines)| *lines == 2) && three[1].0 == "reno/0%: Congestion window, 0 % lost"
    );
}

#[test]
fn a_curve_over_a_limit_has_a_second_one() {
    let limits = ["cubic-16384", "cubic-65536", "cubic-262144"].map(|v| ["--variant", v]).concat();
    let set = ["--set", "rtt_ms=20", "--set", "flows=2"];
    let (data, _) = page(&[&["notsent-lowat"], &limits[..], &set].concat());
    let pictures = data["experiments"][0]["pictures"].as_array().expect("a list");
    let curves: Vec<_> = pictures.iter().filter(|p| p["kind"] == "curve").collect();
    assert_eq!(curves.len(), 2, "{pictures:?}");
    for curve in curves {
        assert_eq!(names(curve), ["as it is", "with rtt_ms=20, flows=2"]);
        let (before, now) = (&curve["lines"][0], &curve["lines"][1]);
        assert!(before["x"] == now["x"] && before["y"] != now["y"], "{curve}");
    }
}

/// A transfer without SACK ends long after the others.
#[test]
fn one_long_run_does_not_stretch_the_axis_of_the_others() {
    let dir = Dir::new();
    let file = dir.join("page.html").display().to_string();
    let variants = ["cubic/0%", "reno/0%", "bbr/0%", "cubic-no-sack/0%"].map(|v| ["--variant", v]).concat();
    say(&[&["lab", "run", "bulk", "--report", &file], &variants[..]].concat()).ok();
    let (data, _) = report(&std::fs::read_to_string(&file).expect("it was written"));
    for picture in data["experiments"][0]["pictures"].as_array().expect("a list") {
        let end = |line: &Value| line["x"].as_array().and_then(|x| x.last()?.as_f64()).expect("a line");
        let ends: Vec<_> = picture["lines"].as_array().expect("a list").iter().map(end).collect();
        let note = picture["note"].as_str().expect("it is told");
        let long = number_after(note, "cubic-no-sack/0% ends at ");
        assert!(note.ends_with(" s") && !note.contains("reno"), "{note}");
        // It is drawn no longer than the others, and a little beyond.
        assert!(ends.len() == 4 && ends.iter().all(|end| *end * 1.5 < long), "{ends:?}: {note}");
    }
}
