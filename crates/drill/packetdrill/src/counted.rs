//! The stack's counters where `nstat` of a script's commands looks for them: it reads other files than the kernel's where its environment
//! says so (iproute2, `PROC_NET_NETSTAT` and its like).
use lowwater_core::base::counters::Counters;
use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::{env, fs, io, process};

/// Groups of `/proc/net/netstat`; those of SCTP have a file of their own, all others are in `/proc/net/snmp`.
const NETSTAT: [&str; 2] = ["TcpExt", "IpExt"];
const SCTP: &str = "Sctp";

/// The files of one run, which go with this value.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Makes the folder of the process's run `run`.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn make(run: usize) -> io::Result<Self> {
        let folder = env::temp_dir().join(format!("lowwater-packetdrill-{}-{run}", process::id()));
        // Of this user alone, as what nstat remembers is elsewhere.
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self { folder })
    }

    /// Writes the counters as they are.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn write(&self, counters: &Counters) -> io::Result<()> {
        let (mut snmp, mut netstat, mut sctp) = (Table::default(), Table::default(), String::new());
        counters.each_of_linux(&mut |group, name, value| {
            if group == SCTP {
                let _ = writeln!(sctp, "{group}{name}\t{value}");
                return;
            }
            let table = if NETSTAT.contains(&group) { &mut netstat } else { &mut snmp };
            table.add(group, name, value);
        });
        fs::write(self.folder.join("snmp"), snmp.text())?;
        fs::write(self.folder.join("netstat"), netstat.text())?;
        fs::write(self.folder.join("sctp"), sctp)
    }

    /// What a shell runs before a command that shall see them. IPv6 counts in the same groups here.
    pub(crate) fn exports(&self) -> String {
        let file = |name: &str| {
            let path = self.folder.join(name).to_string_lossy().replace('\'', r"'\''");
            format!("'{path}'")
        };
        format!(
            "export PROC_NET_SNMP={} PROC_NET_NETSTAT={} PROC_NET_SCTP_SNMP={} PROC_NET_SNMP6=/dev/null NSTAT_HISTORY={}\n",
            file("snmp"),
            file("netstat"),
            file("sctp"),
            file("history"),
        )
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Nobody misses what another one has taken away.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Of each group a line of names and one of values, with the group's name before both.
#[derive(Debug, Default)]
struct Table {
    done: String,
    group: &'static str,
    names: String,
    values: String,
}

impl Table {
    fn add(&mut self, group: &'static str, name: &str, value: u64) {
        if group != self.group {
            self.end_group();
            self.group = group;
        }
        let _ = write!(self.names, " {name}");
        let _ = write!(self.values, " {value}");
    }

    fn end_group(&mut self) {
        let (names, values) = (std::mem::take(&mut self.names), std::mem::take(&mut self.values));
        if !names.is_empty() {
            let _ = writeln!(self.done, "{group}:{names}\n{group}:{values}", group = self.group);
        }
    }

    fn text(mut self) -> String {
        self.end_group();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_as_the_kernels_and_go_with_the_run() {
        let files = Files::make(1_000).unwrap();
        let mut counters = Counters::default();
        counters.tcp.active_opens = 3;
        counters.tcp_ext.tcp_timeouts = 2;
        files.write(&counters).unwrap();
        let read = |name: &str| fs::read_to_string(files.folder.join(name)).unwrap();
        for (name, group, counter, value) in
            [("snmp", "Tcp:", "ActiveOpens", "3"), ("netstat", "TcpExt:", "TCPTimeouts", "2")]
        {
            let text = read(name);
            let lines: Vec<Vec<&str>> = text
                .lines()
                .map(|line| line.split(' ').collect::<Vec<_>>())
                .filter(|line| line[0] == group)
                .collect();
            assert_eq!(lines.len(), 2, "{text}");
            let at = lines[0].iter().position(|name| *name == counter).unwrap();
            assert_eq!((lines[0].len(), lines[1][at]), (lines[1].len(), value));
        }
        assert!(read("sctp").lines().all(|line| line.starts_with("Sctp") && line.contains('\t')));
        assert!(Files::make(1_000).is_err(), "it is another run's");
        let folder = files.folder.clone();
        assert!(files.exports().ends_with('\n') && files.exports().contains("/history'"));
        drop(files);
        assert!(!folder.exists());
    }
}
