//! Settings of the network namespace, read late: scripts change them by `sysctl` at any time.
use lowwater_core::base::Sysctl;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Where the kernel shows them. The directory is that of the reading thread's network namespace.
const ROOT: &str = "/proc/sys/net";
/// Bytes of the longest value that is read.
const VALUE_MAX: usize = 256;
/// Names outside of `ipv4/`, `ipv6/` and `sctp/` (which is there with the kernel's module alone) that every namespace has of its own.
const CORE: &[&str] = &["somaxconn"];
/// Names in `core/` that are the host's, whose administrator may have changed them: the stack has Linux's defaults until a script sets them.
const OF_HOST: &[&str] = &["rmem_max", "wmem_max", "rmem_default", "wmem_default"];
/// What a congestion controller that does not exist here becomes.
const FALLBACK: (&str, &str) = ("tcp_congestion_control", "cubic");

/// The settings that the stack and the kernel both have, and what they were when they were last read.
#[derive(Debug)]
pub(crate) struct Sysctls {
    known: Vec<Known>,
    /// What was said already.
    said: BTreeSet<String>,
}

#[derive(Debug)]
struct Known {
    name: &'static str,
    path: PathBuf,
    seen: Option<String>,
}

impl Sysctls {
    /// All names that the stack knows and this kernel shows.
    pub(crate) fn of_namespace() -> Self {
        Self::under(Path::new(ROOT))
    }

    fn under(root: &Path) -> Self {
        let entry = |name: &'static str| {
            let folder = match name {
                _ if name.contains('.') => "",
                _ if CORE.contains(&name) || OF_HOST.contains(&name) => "core",
                _ => "ipv4",
            };
            let path = root.join(folder).join(name.replace('.', "/"));
            let seen = OF_HOST.contains(&name).then(|| read(&path, &mut String::new()).map(str::to_owned));
            Known { name, path, seen: seen.flatten() }
        };
        let known = Sysctl::NAMES.iter().map(|(name, _)| entry(name)).filter(|k| k.path.exists()).collect();
        Self { known, said: BTreeSet::new() }
    }

    /// A setting that is not read any more.
    #[cfg(test)]
    pub(crate) fn leave_out(&mut self, name: &str) {
        self.known.retain(|known| known.name != name);
    }

    /// Reads all and hands those that changed to `set`. Returns what is worth saying, each once: a value that the stack does not
    /// take, which leaves the setting as it is, and a congestion controller that it does not have, which becomes cubic.
    pub(crate) fn refresh(&mut self, mut set: impl FnMut(&str, &str) -> Result<(), String>) -> Vec<String> {
        let mut news = Vec::new();
        let mut buffer = String::with_capacity(VALUE_MAX);
        for known in &mut self.known {
            // A setting that cannot be read, such as a key without the right to see it, is not there.
            let Some(value) = read(&known.path, &mut buffer) else { continue };
            if known.seen.as_deref() == Some(value) {
                continue;
            }
            known.seen = Some(value.to_owned());
            if let Err(why) = set(known.name, value) {
                news.push(refused(known.name, &why, &mut set));
            }
        }
        news.retain(|line| self.said.insert(line.clone()));
        news
    }
}

fn refused(name: &str, why: &str, set: &mut impl FnMut(&str, &str) -> Result<(), String>) -> String {
    match FALLBACK {
        (controller, instead) if name == controller && set(name, instead).is_ok() => {
            format!("{why}; {instead} serves instead")
        }
        _ => why.to_owned(),
    }
}

fn read<'a>(path: &Path, buffer: &'a mut String) -> Option<&'a str> {
    buffer.clear();
    File::open(path).ok()?.take(VALUE_MAX as u64).read_to_string(buffer).ok()?;
    Some(buffer.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::fs;

    /// A directory that looks like /proc/sys/net and goes away.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str, values: &[(&str, &str)]) -> Self {
            let dir = std::env::temp_dir().join(format!("lowwater-sysctls-{}-{name}", std::process::id()));
            ["ipv4", "sctp", "core"].iter().for_each(|folder| fs::create_dir_all(dir.join(folder)).unwrap());
            let fake = Self(dir);
            values.iter().for_each(|(name, value)| fake.write(name, value));
            fake
        }

        fn write(&self, name: &str, value: &str) {
            let folder = if name.contains('/') { "" } else { "ipv4" };
            fs::write(self.0.join(folder).join(name), format!("{value}\n")).unwrap();
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_what_changed_is_set_and_only_known_names() {
        let fake = Fake::new(
            "changed",
            &[("tcp_timestamps", "1"), ("tcp_rmem", "4096\t540000\t15728640"), ("tcp_no_such", "1")],
        );
        let mut sysctls = Sysctls::under(&fake.0);
        let set = RefCell::new(Vec::new());
        let mut take = |name: &str, value: &str| {
            set.borrow_mut().push(format!("{name}={value}"));
            Ok(())
        };
        assert!(sysctls.refresh(&mut take).is_empty());
        assert_eq!(set.take(), ["tcp_timestamps=1", "tcp_rmem=4096\t540000\t15728640"]);
        sysctls.refresh(&mut take);
        assert!(set.take().is_empty(), "nothing has changed");
        fake.write("tcp_timestamps", "0");
        sysctls.refresh(&mut take);
        assert_eq!(set.take(), ["tcp_timestamps=0"]);
    }

    #[test]
    fn a_controller_that_is_not_there_becomes_cubic_and_is_said_once() {
        let fake = Fake::new("controller", &[("tcp_congestion_control", "reno")]);
        let mut sysctls = Sysctls::under(&fake.0);
        let mut stack = Sysctl::default();
        assert!(sysctls.refresh(|name, value| stack.set(name, value)).is_empty());
        assert_eq!(stack.get("tcp_congestion_control").as_deref(), Some("reno"));
        fake.write("tcp_congestion_control", "vegas");
        let news = sysctls.refresh(|name, value| stack.set(name, value));
        assert!(
            news.len() == 1 && news[0].contains("'vegas'") && news[0].contains("cubic serves"),
            "{news:?}"
        );
        assert_eq!(stack.get("tcp_congestion_control").as_deref(), Some("cubic"));
        assert!(sysctls.refresh(|name, value| stack.set(name, value)).is_empty());
    }

    #[test]
    fn settings_of_sctp_have_a_folder_of_their_own() {
        let fake = Fake::new("sctp", &[("sctp/rto_initial", "1000"), ("sctp/no_such", "1")]);
        let mut sysctls = Sysctls::under(&fake.0);
        let mut stack = Sysctl::default();
        assert!(sysctls.refresh(|name, value| stack.set(name, value)).is_empty());
        assert_eq!(stack.get("sctp.rto_initial").as_deref(), Some("1000"));
        fake.write("sctp/rto_initial", "1500");
        assert!(sysctls.refresh(|name, value| stack.set(name, value)).is_empty());
        assert_eq!(stack.get("sctp.rto_initial").as_deref(), Some("1500"));
    }

    #[test]
    fn what_is_the_hosts_counts_once_a_script_has_set_it() {
        let fake = Fake::new("host", &[("core/rmem_max", "999999"), ("core/somaxconn", "77")]);
        let mut sysctls = Sysctls::under(&fake.0);
        let mut stack = Sysctl::default();
        let usual = stack.get("rmem_max");
        assert!(sysctls.refresh(|name, value| stack.set(name, value)).is_empty());
        assert_eq!((stack.get("rmem_max"), stack.get("somaxconn").as_deref()), (usual, Some("77")));
        fake.write("core/rmem_max", "300000");
        assert!(sysctls.refresh(|name, value| stack.set(name, value)).is_empty());
        assert_eq!(stack.get("rmem_max").as_deref(), Some("300000"));
        // A script that puts it back at its end means the host's value.
        fake.write("core/rmem_max", "999999");
        assert!(sysctls.refresh(|name, value| stack.set(name, value)).is_empty());
        assert_eq!(stack.get("rmem_max").as_deref(), Some("999999"));
    }

    #[test]
    fn a_refused_value_leaves_the_setting() {
        let fake = Fake::new("refused", &[("tcp_rmem", "9 x")]);
        let mut stack = Sysctl::default();
        let news = Sysctls::under(&fake.0).refresh(|name, value| stack.set(name, value));
        assert!(news.len() == 1 && news[0].contains("tcp_rmem"), "{news:?}");
        assert_eq!(stack, Sysctl::default());
    }

    #[test]
    fn this_kernel_shows_the_settings_that_scripts_use() {
        let names: Vec<_> = Sysctls::of_namespace().known.iter().map(|k| k.name).collect();
        for name in
            ["tcp_timestamps", "tcp_rmem", "tcp_wmem", "tcp_ecn", "tcp_congestion_control", "somaxconn"]
        {
            assert!(names.contains(&name), "{name} is missing in {names:?}");
        }
    }
}
