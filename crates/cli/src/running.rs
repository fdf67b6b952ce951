//! What a running `serve` tells: from the file of its `--stats`, or by the socket of its `--control`.
use crate::failure::Failure;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long a `serve` may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer, or of a file: a thousand connections and as many associations take a few millions.
const ANSWER_MAX: u64 = 64 << 20;
/// A file that is written every second is not older than this.
const FRESH: Duration = Duration::from_secs(5);
/// What the last file of a `serve` has under this name is true.
pub(crate) const ENDED: &str = "ended";

/// It is a socket, not a file.
pub(crate) fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// All that it counts.
pub(crate) fn stats(path: &Path) -> Result<Value, Failure> {
    if is_socket(path) { ask(path, "stats") } else { file(path, ANSWER_MAX) }
}

/// A line there, a JSON object back.
pub(crate) fn ask(path: &Path, request: &str) -> Result<Value, Failure> {
    ask_for(path, request, ANSWER_MAX)
}

/// The same for an answer of at most so many bytes.
fn ask_for(path: &Path, request: &str, most: u64) -> Result<Value, Failure> {
    let talk = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        writeln!(stream, "{request}")?;
        let mut line = String::new();
        BufReader::new(stream.take(most)).read_line(&mut line)?;
        Ok(line)
    };
    let place = path.display();
    let line: String = talk().map_err(|e: io::Error| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            Failure::other(format!("{place}: only who started serve --control, or root, may ask it"))
        }
        _ => Failure::io(format!("{place}: asking serve --control (does it run?)"), &e),
    })?;
    if line.len() as u64 >= most && !line.ends_with('\n') {
        return Err(Failure::other(format!(
            "{place}: no line ends within the first {most} bytes of the answer: is it the socket of a serve --control?"
        )));
    }
    let told: Value = serde_json::from_str(&line).map_err(|_| {
        Failure::other(format!("{place} gave no answer: is it the socket of a serve --control?"))
    })?;
    match told["error"].as_str() {
        Some(why) => Err(Failure::other(format!("serve refuses: {why}"))),
        None => Ok(told),
    }
}

/// A file of at most so many bytes.
fn file(path: &Path, most: u64) -> Result<Value, Failure> {
    let place = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_string(&mut text));
    read.map_err(|e| unread(path, &e))?;
    if text.len() as u64 >= most {
        return Err(Failure::other(format!(
            "{place} has {most} bytes or more: it is no file of serve --stats"
        )));
    }
    let all: Value = serde_json::from_str(&text)
        .map_err(|e| Failure::other(format!("{place} is no file of serve --stats: {e}")))?;
    let age = fs::metadata(path).and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
    let seconds = age.map_or(0, |age| age.as_secs());
    if all[ENDED] == true {
        eprintln!("lowwater: {place}: that serve ended {seconds} s ago, and this is what it counted last");
    } else if age.is_some_and(|age| age > FRESH) {
        eprintln!("lowwater: {place} was written {seconds} s ago: does serve still run?");
    }
    Ok(all)
}

/// Why a file was not read, and what to do about it.
fn unread(path: &Path, e: &io::Error) -> Failure {
    let place = path.display();
    let what = match e.kind() {
        io::ErrorKind::NotFound => "is not there",
        io::ErrorKind::IsADirectory => "is a directory",
        io::ErrorKind::InvalidData => "is no text",
        io::ErrorKind::PermissionDenied => {
            return Failure::other(format!(
                "{place}: this user may not read it; run this as the user of that serve, or with sudo"
            ));
        }
        _ => return Failure::io(format!("reading {place}"), e),
    };
    Failure::other(format!(
        "{place} {what}: it takes the file of a running serve --stats FILE, or the socket of its --control SOCKET"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn an_answer_without_end_is_not_read_for_ever() {
        let path = std::env::temp_dir().join(format!("lowwater-endless-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a name of its own");
        let answering = std::thread::spawn(move || {
            let answer = |text: &[u8]| {
                let (mut stream, _) = listener.accept().expect("somebody asks");
                // It writes until it is no longer listened to.
                while stream.write_all(text).is_ok() {}
            };
            answer(&[b' '; 1_000]);
            answer(b"{\"a\": 1}\n");
        });
        let told = ask_for(&path, "stats", 100_000).expect_err("too long").to_string();
        assert!(told.contains("no line ends within the first 100000 bytes"), "{told}");
        assert_eq!(ask_for(&path, "stats", 9).expect("just so long")["a"], 1);
        answering.join().expect("no panic");
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn what_is_no_file_of_serve_is_told_with_what_is() {
        let dir = std::env::temp_dir();
        let path = dir.join(format!("lowwater-no-text-{}", std::process::id()));
        fs::write(&path, [0x7f, 0xff, 0xfe]).expect("a name of its own");
        for (path, what) in [(&dir, "is a directory"), (&path, "is no text")] {
            let told = file(path, 100_000).expect_err("no file of serve").to_string();
            let wanted =
                format!("{} {what}: it takes the file of a running serve --stats FILE", path.display());
            assert!(told.starts_with(&wanted), "{told}");
        }
        let told = unread(&path, &io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(told.ends_with("; run this as the user of that serve, or with sudo"), "{told}");
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_file_without_end_is_not_read_for_ever() {
        let told = file(Path::new("/dev/zero"), 100_000).expect_err("too long").to_string();
        assert_eq!(told, "/dev/zero has 100000 bytes or more: it is no file of serve --stats");
    }
}
