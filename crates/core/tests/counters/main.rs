//! The names of the counters: those of Linux, and those of ours that docs/counters.md explains.
use lowwater_core::base::Counters;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

/// As `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/sctp/snmp` (without its prefix) list them.
const LINUX: &str = include_str!("linux-6.18.txt");
/// The release that those are of.
const RELEASE: (u32, u32) = (6, 18);
const DOCS: &str = include_str!("../../../../docs/counters.md");
/// Groups that Linux does not have.
const OURS: [&str; 3] = ["Lowwater", "Wait", "Drop"];

type Names = BTreeMap<String, BTreeSet<String>>;

fn have() -> Names {
    let mut names = Names::new();
    Counters::default().each(&mut |group, name, _| {
        let new = names.entry(group.to_owned()).or_default().insert(name.to_owned());
        assert!(new, "{group} has two counters called {name}");
    });
    names
}

/// Lines of "Group: Name Name", and of "Group: 1 2" between them.
fn listed(text: &str) -> Names {
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let names = lines.filter(|(_, rest)| rest.starts_with(char::is_alphabetic));
    names.map(|(group, rest)| (group.into(), rest.split_whitespace().map(Into::into).collect())).collect()
}

/// Names of `have` that `linux` lacks, in the groups that are not ours.
fn unknown(have: &Names, linux: &Names) -> Vec<String> {
    let theirs = have.iter().filter(|(group, _)| !OURS.contains(&group.as_str()));
    let lacks = |group: &String, name: &&String| linux.get(group).is_none_or(|g| !g.contains(*name));
    theirs
        .flat_map(|(group, names)| {
            names.iter().filter(|n| lacks(group, n)).map(move |n| format!("{group}{n}"))
        })
        .collect()
}

#[test]
fn names_in_linux_s_groups_are_linux_s() {
    let (have, linux) = (have(), listed(LINUX));
    assert_eq!(linux.len() + OURS.len(), have.len());
    assert_eq!(unknown(&have, &linux), <[String; 0]>::default());
    // The test can tell.
    let mut wrong = have;
    wrong.entry("TcpExt".into()).or_default().insert("TCPTimeOuts".into());
    assert_eq!(unknown(&wrong, &linux), ["TcpExtTCPTimeOuts"]);
}

/// Says it where it is heard though the test passes: what is printed by `println!` is not, and CI counts these lines.
fn left_out(what: &str) {
    writeln!(std::io::stdout(), "skipped: needs {what}").expect("a stdout");
}

#[test]
fn the_host_s_kernel_has_them_too() {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let mut numbers = release.split(['.', '-']).map_while(|n| n.trim().parse::<u32>().ok());
    let release = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let mut host = listed(&(read("/proc/net/snmp") + &read("/proc/net/netstat")));
    // Only where the module is loaded.
    let sctp = read("/proc/net/sctp/snmp");
    let sctp = sctp.split_whitespace().filter_map(|word| word.strip_prefix("Sctp")).map(Into::into);
    host.insert("Sctp".into(), sctp.collect());
    let mut have = have();
    if host["Sctp"].is_empty() {
        have.remove("Sctp");
        left_out("the kernel's module sctp: SCTP's counters are held against Linux 6.18's list alone");
    }
    let missing = unknown(&have, &host);
    if release < RELEASE && !missing.is_empty() {
        return left_out(&format!("Linux 6.18; {release:?} lacks {missing:?}"));
    }
    assert_eq!(missing, <[String; 0]>::default(), "of {release:?}");
}

#[test]
fn what_only_we_count_is_documented() {
    let have = have();
    for group in OURS {
        let part = DOCS.split("\n## ").find(|part| part.lines().next() == Some(group)).expect(group);
        let rows = part.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let told: BTreeSet<String> = rows.map(|(name, _)| name.into()).collect();
        assert_eq!(told, have[group], "docs/counters.md, {group}");
    }
}
