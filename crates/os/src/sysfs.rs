//! Attributes of network devices that only sysfs has, as files of a mount of our own.
//!
//! A sysfs shows the network namespace in which it was mounted, so /sys may be another namespace's, or read-only in a
//! container. A detached mount (fsopen, Linux 5.2) belongs to the calling thread's namespace and is seen by nobody else.
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pwrite};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fmt;

/// Why an attribute could not be written.
#[derive(Debug)]
pub(crate) struct Refused {
    doing: String,
    errno: Errno,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is refused: {}", self.doing, std::io::Error::from(self.errno))
    }
}

/// The attributes of the devices of one network namespace.
#[derive(Debug)]
pub(crate) struct Sysfs {
    root: OwnedFd,
}

impl Sysfs {
    /// Those of the calling thread's namespace. Needs CAP_SYS_ADMIN over it.
    pub(crate) fn mount() -> Result<Self, Refused> {
        let refused = |errno| Refused { doing: "mounting sysfs".into(), errno };
        let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(refused)?;
        fsconfig_create(&context).map_err(refused)?;
        let hardened = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, hardened).map_err(refused)?;
        Ok(Self { root })
    }

    /// An attribute of device `name`, as "queues/rx-0/rps_cpus".
    pub(crate) fn open(&self, name: &str, attribute: &str) -> Result<Attribute, Refused> {
        let doing = format!("writing {attribute} of {name} in sysfs");
        match openat(
            &self.root,
            format!("class/net/{name}/{attribute}"),
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(file) => Ok(Attribute { file, doing }),
            Err(errno) => Err(Refused { doing, errno }),
        }
    }

    /// Writes `value` to an attribute of device `name`.
    pub(crate) fn set(&self, name: &str, attribute: &str, value: &str) -> Result<(), Refused> {
        self.open(name, attribute)?.set(value)
    }

    /// Reads an attribute, for tests.
    #[cfg(test)]
    pub(crate) fn get(&self, name: &str, attribute: &str) -> String {
        let path = format!("class/net/{name}/{attribute}");
        let file = openat(&self.root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let mut text = [0; 256];
        let n = rustix::io::read(&file, &mut text).unwrap();
        String::from_utf8_lossy(&text[..n]).trim_end().into()
    }
}

/// One attribute, open for writing.
#[derive(Debug)]
pub(crate) struct Attribute {
    file: OwnedFd,
    doing: String,
}

impl Attribute {
    pub(crate) fn set(&self, value: &str) -> Result<(), Refused> {
        let refused = |errno| Refused { doing: self.doing.clone(), errno };
        pwrite(&self.file, value.as_bytes(), 0).map(drop).map_err(refused)
    }
}
