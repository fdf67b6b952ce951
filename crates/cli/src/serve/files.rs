//! The served directory: names from URLs resolved by the kernel so that nothing outside is reached, and listings.
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, open, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Uploads in progress have names that begin like this; they are not listed.
const UPLOAD_PREFIX: &str = ".lowwater-upload-";
/// Entries of a listing.
const LISTED_MAX: usize = 10_000;

/// The root of what is served.
#[derive(Debug)]
pub(crate) struct Root {
    dir: OwnedFd,
    writable: bool,
}

/// What a name stands for.
pub(crate) enum Entry {
    /// A file and its length.
    File(File, u64),
    /// A directory.
    Dir(OwnedFd),
}

/// The names in a URL's path, decoded: none is empty, ".", "..", or holds "/" or NUL.
pub(crate) fn names(path: &str) -> Option<Vec<Vec<u8>>> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    let names: Option<Vec<_>> = parts.map(decode).collect();
    names.filter(|names| {
        names.iter().all(|n| n != b"." && n != b".." && !n.contains(&b'/') && !n.contains(&0))
    })
}

/// Percent-decoding (RFC 3986 section 2.1); `None` for a '%' without two digits.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut rest = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        decoded.push((digit()? * 16 + digit()?) as u8);
    }
    Some(decoded)
}

/// Percent-encoding of a name in a link.
fn encode(name: &[u8]) -> String {
    name.iter().fold(String::new(), |mut text, &b| {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(b.into()),
            _ => {
                let _ = write!(text, "%{b:02X}");
            }
        }
        text
    })
}

fn escape(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Root {
    /// Opens the directory; `writable`: for uploads too.
    pub(crate) fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let dir = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { dir, writable })
    }

    /// Uploads may go here.
    pub(crate) const fn is_writable(&self) -> bool {
        self.writable
    }

    /// Opens what `names` lead to. The kernel refuses paths that leave the root, by symbolic links too (`RESOLVE_BENEATH`).
    fn beneath(&self, names: &[Vec<u8>], flags: OFlags) -> io::Result<OwnedFd> {
        let path = if names.is_empty() { b".".to_vec() } else { names.join(&b'/') };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // NONBLOCK: the open of a FIFO that nobody writes must not hang.
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        loop {
            match openat2(&self.dir, &path, flags, Mode::empty(), resolve) {
                // A rename raced with the walk.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::XDEV | Errno::LOOP) => return Err(io::ErrorKind::PermissionDenied.into()),
                other => return Ok(other?),
            }
        }
    }

    /// Opens a file or a directory for reading; anything else is "not found".
    pub(crate) fn entry(&self, names: &[Vec<u8>]) -> io::Result<Entry> {
        let fd = self.beneath(names, OFlags::RDONLY)?;
        let file = File::from(fd);
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Ok(Entry::Dir(file.into()));
        }
        if !meta.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Entry::File(file, meta.len()))
    }

    /// A new file that will take the place of `names`, in the same directory.
    pub(crate) fn create(&self, names: &[Vec<u8>]) -> io::Result<(Upload, File)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (name, parents) = names.split_last().ok_or(io::ErrorKind::IsADirectory)?;
        let dir = self.beneath(parents, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{UPLOAD_PREFIX}{}-{number}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&dir, &temporary, flags, Mode::from_raw_mode(0o644))?);
        Ok((Upload { dir: Arc::new(dir), temporary, name: name.clone(), kept: false }, file))
    }
}

/// A file on its way; dropped before [`Upload::keep`], it is removed.
pub(crate) struct Upload {
    dir: Arc<OwnedFd>,
    temporary: String,
    name: Vec<u8>,
    kept: bool,
}

impl Upload {
    /// Gives the file its name; true when it took the place of another one.
    pub(crate) fn keep(mut self) -> io::Result<bool> {
        let replaced = statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        renameat(&self.dir, &self.temporary, &self.dir, &self.name)?;
        self.kept = true;
        Ok(replaced)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing more can be done about a file that cannot be removed.
            let _ = unlinkat(&self.dir, &self.temporary, AtFlags::empty());
        }
    }
}

/// The page that lists a directory.
pub(crate) fn listing(dir: &OwnedFd, names: &[Vec<u8>]) -> io::Result<String> {
    listed(dir, names, LISTED_MAX)
}

/// The same of at most so many entries, and how many more there are. Of a symbolic link nothing is told: what it leads to may be nobody's business.
fn listed(dir: &OwnedFd, names: &[Vec<u8>], most: usize) -> io::Result<String> {
    let (mut entries, mut more) = (Vec::new(), 0_u64);
    for entry in Dir::read_from(dir.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || name.starts_with(UPLOAD_PREFIX.as_bytes()) {
            continue;
        }
        if entries.len() == most {
            more += 1;
            continue;
        }
        // It may have gone meanwhile, or nothing may be known of what this directory holds.
        let stat = statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok();
        let (slash, told) = told(stat.map(|stat| (FileType::from_raw_mode(stat.st_mode), stat.st_size)));
        entries.push((name.to_owned(), slash, told));
    }
    entries.sort();
    let shown = escape(&[b"/".as_slice(), &names.join(&b'/')].concat());
    let mut page =
        format!("<!doctype html><meta charset=utf-8><title>{shown}</title>\n<h1>{shown}</h1>\n<pre>\n");
    if !names.is_empty() {
        page.push_str("<a href=\"../\">../</a>\n");
    }
    for (name, slash, told) in entries {
        let _ = writeln!(page, "<a href=\"{}{slash}\">{}{slash}</a>  {told}", encode(&name), escape(&name));
    }
    if more > 0 {
        let _ = writeln!(page, "{more} more are not listed; each is there under its name");
    }
    page.push_str("</pre>\n");
    Ok(page)
}

/// What follows an entry's name, and what stands behind that: its size, where it is known.
fn told(of: Option<(FileType, i64)>) -> (&'static str, String) {
    match of {
        Some((FileType::Directory, size)) => ("/", size.to_string()),
        Some((FileType::Symlink, _)) => ("", "link".to_owned()),
        Some((_, size)) => ("", size.to_string()),
        None => ("", "?".to_owned()),
    }
}

#[cfg(test)]
mod tests;
