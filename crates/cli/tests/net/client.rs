//! `get`: the stack as the client of a kernel server.
use crate::served::{LIMIT, MIB, can_run, content, in_namespace, sha256_file};
use crate::support::{Dir, Ended, Proc, eventually, lowwater, run, slurp};
use lowwater_os::{Link, SetupError};
use rustix::process::Signal;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A server for one file at /file; a few lines over the kernel's sockets. It ends with its namespace's last test thread.
fn kernel_server(file: PathBuf) -> u16 {
    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let file = file.clone();
            // A client that has gone is the test's business.
            std::thread::spawn(move || stream.and_then(|s| answer(s, &file)));
        }
    });
    port
}

fn answer(mut stream: TcpStream, file: &PathBuf) -> io::Result<()> {
    let mut request = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut line = String::new();
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    if first.starts_with("GET /cut ") {
        return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    }
    if let Some(part) = part(&first) {
        // At once, so that whoever has the head has the first bytes, too.
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n";
        stream.write_all(&[&head[..], &vec![b'x'; part]].concat())?;
        // `/part/N` ends there, `/stop/N` stands still until the client has gone.
        return if first.starts_with("GET /stop/") { request.read_line(&mut line).map(drop) } else { Ok(()) };
    }
    if !first.starts_with("GET /file ") {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    }
    let mut file = File::open(file)?;
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.metadata()?.len())?;
    io::copy(&mut file, &mut stream).map(drop)
}

/// N of `GET /part/N ...` and `GET /stop/N ...`.
fn part(request: &str) -> Option<usize> {
    let path = request.strip_prefix("GET /part/").or_else(|| request.strip_prefix("GET /stop/"))?;
    path.split(' ').next()?.parse().ok()
}

fn client(args: &[&str]) -> Command {
    let mut get = lowwater(["get", "--tun", "lw0", "--addr", "10.9.0.2/24", "--addr6", "fd00:9::2/64"]);
    get.args(args);
    get
}

fn get(args: &[&str]) -> Ended {
    run(&mut client(args), LIMIT)
}

#[test]
fn a_file_comes_by_both_families_with_and_without_offload() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let dir = Dir::new();
        let (source, copy) = (dir.join("source"), dir.join("copy"));
        let hash = content(&source, 64 * MIB);
        let port = kernel_server(source);
        let copy_name = copy.display().to_string();
        for host in ["10.9.0.1", "[fd00:9::1]"] {
            for more in
                [&[][..], &["--no-offload"], &["--busy-poll", "100"], &["--mtu", "9000", "--fault-not-now"]]
            {
                let url = format!("http://{host}:{port}/file");
                let ended = get(&[&[&url, "-o", &copy_name], more].concat()).ok();
                assert!(ended.stdout.is_empty() && ended.stderr.contains("Mbit/s"), "{ended:?}");
                assert_eq!(sha256_file(&copy), hash, "{host} {more:?}");
                std::fs::remove_file(&copy).unwrap();
            }
        }
        assert!(matches!(Link::by_name("lw0"), Err(SetupError::NoSuchLink { .. })));
    });
}

#[test]
fn stdout_gets_the_file_and_failures_say_what_went_wrong() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let dir = Dir::new();
        std::fs::write(dir.join("source"), "the text").unwrap();
        let port = kernel_server(dir.join("source"));
        let at = |path: &str| format!("http://10.9.0.1:{port}/{path}");
        assert_eq!(get(&[&at("file")]).ok().stdout, "the text");
        let copy = dir.join("copy");
        let told = get(&[&at("file"), "--json", "-o", &copy.display().to_string()]).ok().stdout;
        let told: serde_json::Value = serde_json::from_str(&told).expect("an object");
        assert_eq!(
            (&told["bytes"], told["sha256"].as_str()),
            (&8.into(), Some(&sha256_file(&copy)[..])),
            "{told}"
        );
        for (url, wanted) in
            [(at("none"), "404"), (at("cut"), "broke off"), ("http://10.9.0.1:1/".to_owned(), "refused")]
        {
            let ended = get(&[&url]);
            assert_eq!(ended.code(), Some(1), "{ended:?}");
            assert!(ended.stderr.to_lowercase().contains(wanted), "{url}: {}", ended.stderr);
        }
        let ended = get(&[&at("file"), "-o", "/nonexistent/x"]);
        assert_eq!(ended.code(), Some(1));
        assert!(ended.stderr.contains("/nonexistent/x"), "{ended:?}");
    });
}

#[test]
fn what_came_before_the_transfer_broke_off_is_written_and_counted() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let dir = Dir::new();
        let port = kernel_server(dir.join("none"));
        let copy = dir.join("copy");
        let name = copy.display().to_string();
        for came in [1_000_000, 100_000, 0] {
            let url = format!("http://10.9.0.1:{port}/part/{came}");
            let ended = get(&[&url, "-o", &name]);
            assert_eq!(ended.code(), Some(1), "{ended:?}");
            let told = format!("; {came} bytes were written to {name}");
            assert!(ended.stderr.contains("broke off after ") && ended.stderr.contains(&told), "{ended:?}");
            assert_eq!(std::fs::read(&copy).unwrap(), vec![b'x'; came]);
            assert_eq!(get(&[&url]).stdout.len(), came);
        }
    });
}

#[test]
fn ctrl_c_leaves_what_came_and_says_how_much_that_is() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let dir = Dir::new();
        let port = kernel_server(dir.join("none"));
        let (copy, none) = (dir.join("copy"), dir.join("no-copy"));
        let get =
            |url: &str, file: &Path| Proc::start(&mut client(&[url, "-o", &file.display().to_string()]));
        let stopped = |getting: Proc| {
            getting.interrupt();
            let ended = getting.wait(LIMIT);
            assert_eq!(ended.code(), Some(130), "{ended:?}");
            ended.stderr
        };
        let getting = get(&format!("http://10.9.0.1:{port}/stop/400000"), &copy);
        // There is a file when the head has come. So little is not written before the end.
        assert!(eventually(LIMIT, || copy.exists()));
        let told = stopped(getting);
        let there = std::fs::metadata(&copy).unwrap().len();
        assert!(told.contains(&format!("stopped: {there} bytes were written to ")), "{there}: {told}");
        assert!(there > 0 && there <= 400_000, "{told}");
        // Nobody has that address.
        let told = stopped(get("http://10.9.0.77/", &none));
        assert!(told.contains("stopped: nothing was written") && !none.exists(), "{told}");
    });
}

#[test]
fn ctrl_c_ends_the_wait_for_a_reader_who_takes_no_more() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let dir = Dir::new();
        std::fs::write(dir.join("source"), vec![b'x'; 200_000]).unwrap();
        let port = kernel_server(dir.join("source"));
        // All has come; the transfer broke off; it goes on, and writing what had come is given some time.
        for (path, came) in [
            ("file", "; 200000 had come\n"),
            ("part/200000", "; 200000 had come\n"),
            ("stop/3000000", " had come, and the reader takes no more\n"),
        ] {
            let mut getting = Proc::piped(&mut client(&[&format!("http://10.9.0.1:{port}/{path}")]));
            let out = getting.stdout();
            // A pipe is full when nothing more comes into it for some time, on a busy machine, too.
            let (mut before, mut looks) = (0, 0);
            let full = eventually(LIMIT, || {
                std::thread::sleep(Duration::from_millis(200));
                let now = rustix::io::ioctl_fionread(&out).unwrap();
                let same = now > 0 && std::mem::replace(&mut before, now) == now;
                looks = if same { looks + 1 } else { 0 };
                looks == 5
            });
            assert!(full, "{path}");
            getting.signal(Signal::INT);
            let ended = getting.wait(LIMIT);
            assert_eq!(ended.code(), Some(130), "{ended:?}");
            let there = slurp(out).len();
            let told = format!("stopped: {there} bytes were written to stdout, which is not everything; ");
            assert!(ended.stderr.contains(&told) && ended.stderr.ends_with(came), "{path}: {ended:?}");
        }
    });
}

#[test]
fn what_the_kernel_has_already_is_refused_and_named() {
    if !can_run(&["ip"]) {
        return;
    }
    in_namespace(|| {
        for line in [
            "link add v0 type veth peer name v1",
            "addr add 10.9.0.1/24 dev v0",
            "addr add 10.7.0.1/24 dev v0",
            "addr add 10.6.0.129/25 dev v0",
            "link set v0 up",
            "link set v1 up",
        ] {
            run(Command::new("ip").args(line.split(' ')), LIMIT).ok();
        }
        // The subnet; the kernel's own address, by both devices; and the client as the server.
        for (args, wanted) in [
            (&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24"][..], "v0 has 10.9.0.1/24"),
            (&["serve", "--tun", "lw0", "--addr", "10.7.0.1/24"], "10.7.0.1/24 on v0"),
            (&["serve", "--packet", "v0", "--addr", "10.9.0.1/24"], "10.9.0.1/24 on v0"),
            (&["get", "--tun", "lw0", "--addr", "10.9.0.2/24", "http://10.9.0.1/"], "v0 has 10.9.0.1/24"),
        ] {
            let ended = run(&mut lowwater(args), LIMIT);
            assert_eq!(ended.code(), Some(2), "{args:?}: {ended:?}");
            assert!(ended.stderr.contains(wanted), "{args:?}: {}", ended.stderr);
        }
        assert!(matches!(Link::by_name("lw0"), Err(SetupError::NoSuchLink { .. })));
        // A part of the subnet is elsewhere: a warning, and it goes on.
        let args = ["get", "--tun", "lw0", "--addr", "10.6.0.2/24", "http://10.6.0.1:1/"];
        let ended = run(&mut lowwater(args), LIMIT);
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.contains("warning: v0 has 10.6.0.129/25"), "{}", ended.stderr);
        assert!(ended.stderr.contains("refused"), "{}", ended.stderr);
    });
}
