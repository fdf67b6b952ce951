//! The stack's counters where `nstat` of a script's commands looks for them: it reads other files than the kernel's where its environment
//! says so (iproute2, `PROC_NET_NETSTAT` and its like).
use lowwater_core::base::counters::Counters;
use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

/// Groups of `/proc/net/netstat`; those of SCTP have a file of their own, all others are in `/proc/net/snmp`.
const NETSTAT: [&str; 2] = ["TcpExt", "IpExt"];
const SCTP: &str = "Sctp";

/// Folders of killed processes that one may meet.
const LEFT_MAX: u32 = 100;

/// The files of one run, which go with this value.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Makes the folder of the process's run `run`.
    ///
    /// # Errors
    /// It cannot be made, in a sentence.
    pub(crate) fn make(run: usize) -> Result<Self, String> {
        Self::make_in(&env::temp_dir(), run)
    }

    fn make_in(here: &Path, run: usize) -> Result<Self, String> {
        let mut tries = 0;
        loop {
            let folder = here.join(format!("lowwater-packetdrill-{}-{run}-{tries}", process::id()));
            // Of this user alone, as what nstat remembers is elsewhere.
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self { folder }),
                // One that was killed had this process's number, and its folder is still there.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < LEFT_MAX => tries += 1,
                Err(e) => return Err(format!("{}: {e}", folder.display())),
            }
        }
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

    /// What a shell runs before a command that shall see them, in bytes as the folder's name is. IPv6 counts in the same groups here.
    pub(crate) fn exports(&self) -> Vec<u8> {
        let mut line = b"export PROC_NET_SNMP6=/dev/null".to_vec();
        for (variable, name) in [
            ("PROC_NET_SNMP", "snmp"),
            ("PROC_NET_NETSTAT", "netstat"),
            ("PROC_NET_SCTP_SNMP", "sctp"),
            ("NSTAT_HISTORY", "history"),
        ] {
            line.extend_from_slice(format!(" {variable}='").as_bytes());
            for byte in self.folder.join(name).as_os_str().as_bytes() {
                match byte {
                    b'\'' => line.extend_from_slice(br"'\''"),
                    byte => line.push(*byte),
                }
            }
            line.push(b'\'');
        }
        line.push(b'\n');
        line
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
        let folder = files.folder.clone();
        drop(files);
        assert!(!folder.exists());
    }

    #[test]
    fn folders_that_somebody_left_are_passed_by_up_to_a_bound() {
        // Not even this one's name is nobody else's.
        let Files { folder: here } = &Files::make(1_001).unwrap();
        let left = (0..LEFT_MAX).map(|_| Files::make_in(here, 0).unwrap());
        let left: Vec<Files> = left.collect();
        let last = Files::make_in(here, 0).unwrap();
        assert!(left.iter().all(|files| files.folder != last.folder));
        let why = Files::make_in(here, 0).unwrap_err();
        assert!(why.contains("lowwater-packetdrill-"), "{why}");
        drop(last);
        assert!(Files::make_in(here, 0).is_ok());
        assert!(Files::make_in(&here.join("none"), 0).is_err());
    }

    #[test]
    fn a_shell_has_the_names_of_the_files_whatever_bytes_they_have() {
        let Files { folder: here } = &Files::make(1_002).unwrap();
        let odd = here.join(std::ffi::OsStr::from_bytes(b"it's \xff"));
        fs::create_dir(&odd).unwrap();
        let files = Files::make_in(&odd, 0).unwrap();
        files.write(&Counters::default()).unwrap();
        let script = [
            files.exports().as_slice(),
            b"cat \"$PROC_NET_SNMP\" \"$PROC_NET_NETSTAT\" \"$PROC_NET_SCTP_SNMP\" && : >\"$NSTAT_HISTORY\"",
        ]
        .concat();
        let done =
            process::Command::new("sh").arg("-c").arg(std::ffi::OsStr::from_bytes(&script)).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(String::from_utf8(done.stdout).unwrap().contains("Tcp: "));
        assert!(files.folder.join("history").is_file());
    }
}
