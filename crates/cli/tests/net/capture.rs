//! What an independent dissector says about every packet: the stack's own capture, and the kernel's.
use crate::served::{LIMIT, MIB, Served, V4, V6, ask, can_run, content, download, in_namespace, upload};
use crate::support::{Proc, eventually, run};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What no capture may hold, quotes in ICMP errors included.
const BAD: &str = "_ws.malformed || icmp.checksum.status == Bad || icmpv6.checksum.status == Bad || \
                   ip.checksum.status == Bad || tcp.checksum.status == Bad || udp.checksum.status == Bad";

/// Linux writes a TCP checksum of 0 as 0xffff (`skb_checksum_help`), which is the same sum, and no fault of ours.
const OF_THE_KERNEL: &str = "tcp.checksum == 0xffff && (ip.src == 10.9.0.1 || ipv6.src == fd00:9::1)";

/// Numbers of the frames that match.
fn frames(file: &Path, filter: &str) -> Vec<String> {
    fields(file, filter, &["frame.number"])
}

/// Frames that are malformed or have a bad checksum, with what tshark sees in them.
fn bad(file: &Path) -> Vec<String> {
    fields(
        file,
        &format!("({BAD}) && !({OF_THE_KERNEL})"),
        &["frame.number", "frame.protocols", "_ws.expert.message", "tcp.checksum", "_ws.col.Info"],
    )
}

fn fields(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut tshark = Command::new("tshark");
    for check in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE"] {
        tshark.args(["-o", check]);
    }
    // Payload is payload, whichever protocol an ephemeral port happens to belong to.
    for ports in ["tcp.port==1-65535,data", "udp.port==1-65535,data"] {
        tshark.args(["-d", ports]);
    }
    tshark.arg("-r").arg(file).args(["-Y", filter, "-T", "fields"]);
    fields.iter().for_each(|field| _ = tshark.args(["-e", field]));
    run(&mut tshark, LIMIT).ok().stdout.lines().map(str::to_owned).collect()
}

/// Traffic of all kinds: TCP both ways by both families, UDP, ICMP errors.
fn traffic(served: &Served, len: u64) -> Vec<u8> {
    let source = served.dir.join("source");
    let hash = content(&source, len);
    std::fs::hard_link(&source, served.root("down")).unwrap();
    for host in [V4, V6] {
        assert_eq!(download(&format!("http://{host}/down")), hash);
        upload(&source, &format!("http://{host}/up"));
    }
    let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send_to(b"datagram", "10.9.0.2:7").unwrap();
    socket.recv_from(&mut [0; 64]).unwrap();
    socket.send_to(b"nobody", "10.9.0.2:99").unwrap();
    ask(&[&format!("http://{V4}/")]);
    std::fs::read(source).unwrap()
}

#[test]
fn the_stacks_capture_is_well_formed_and_a_corrupted_packet_is_found() {
    if !can_run(&["curl", "tshark"]) {
        return;
    }
    in_namespace(|| {
        let dir = crate::support::Dir::new();
        let file = dir.join("stack.pcapng");
        let served = Served::start(&["--writable", "--pcap", &file.display().to_string()]);
        let payload = traffic(&served, 4 * MIB);
        served.stop(Signal::INT);
        assert_eq!(bad(&file), [""; 0], "frames that are malformed or have a bad checksum");
        for some in [
            "tcp.checksum.status == Good && ip",
            "tcp.checksum.status == Good && ipv6",
            "udp.checksum.status == Good",
        ] {
            assert!(!frames(&file, some).is_empty(), "{some}");
        }
        assert!(!frames(&file, "tcp.len > 30000").is_empty(), "super-packets are in it whole");

        let mut bytes = std::fs::read(&file).unwrap();
        let mark = &payload[payload.len() / 2..][..32];
        let at = bytes.windows(mark.len()).position(|w| w == mark).expect("the payload in the capture");
        bytes[at] ^= 0x10;
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(frames(&file, BAD).len(), 1, "the corrupted packet");
    });
}

#[test]
fn the_kernels_capture_is_well_formed_without_offload() {
    if !can_run(&["curl", "tshark", "dumpcap"]) {
        return;
    }
    in_namespace(|| {
        let dir = crate::support::Dir::new();
        let file = dir.join("kernel.pcapng");
        let served = Served::start(&["--writable", "--no-offload"]);
        let mut command = Command::new("dumpcap");
        // -B: room for what arrives faster than it is written.
        command.args(["-q", "-i", "lw0", "-B", "64", "-w"]).arg(&file);
        let mut dumpcap = Proc::start(&mut command);
        let began =
            eventually(Duration::from_secs(20), || std::fs::metadata(&file).is_ok_and(|m| m.len() > 0));
        assert!(began && dumpcap.running(), "dumpcap did not start: {:?}", dumpcap.wait(LIMIT));
        traffic(&served, 4 * MIB);
        std::thread::sleep(Duration::from_millis(500));
        dumpcap.signal(Signal::INT);
        dumpcap.wait(LIMIT).ok();
        served.stop(Signal::INT);
        assert_eq!(bad(&file), [""; 0], "frames that are malformed or have a bad checksum");
        for some in [
            "ip.src == 10.9.0.2 && tcp.len > 1000",
            "ip.dst == 10.9.0.2 && tcp.len > 1000",
            "ipv6.src == fd00:9::2 && tcp",
        ] {
            assert!(frames(&file, some).len() > 100, "{some}");
        }
    });
}

#[test]
fn settings_act_on_the_wire_and_are_reported() {
    if !can_run(&["tshark"]) {
        return;
    }
    in_namespace(|| {
        let dir = crate::support::Dir::new();
        let file = dir.join("stack.pcapng");
        let pcap = ["--pcap", &file.display().to_string(), "--host-addr", "10.9.0.77/24"].map(str::to_owned);
        let off = ["--set", "tcp_timestamps=0", "--set", "net.ipv4.tcp_sack=0"].map(str::to_owned);
        for (more, with_options) in [(&off[..], 0), (&[], 1)] {
            let args: Vec<_> = pcap.iter().chain(more).map(String::as_str).collect();
            let served = Served::start(&args);
            assert_eq!(served.said["host_addresses"][0], "10.9.0.77/24");
            assert_eq!(served.said["urls"][1], "http://[fd00:9::2]/");
            let stream = std::net::TcpStream::connect((V4, 7)).unwrap();
            assert_eq!(stream.local_addr().unwrap().ip().to_string(), "10.9.0.77");
            drop(stream);
            served.stop(Signal::TERM);
            let syn_ack = "tcp.flags.syn == 1 && tcp.flags.ack == 1";
            assert_eq!(frames(&file, syn_ack).len(), 1);
            let options = format!("{syn_ack} && tcp.options.timestamp.tsval && tcp.options.sack_perm");
            assert_eq!(frames(&file, &options).len(), with_options, "{more:?}");
        }
    });
}
