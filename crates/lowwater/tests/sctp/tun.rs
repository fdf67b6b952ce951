//! Two stacks behind two TUNs, with the kernel as the router between them.
use crate::world::{message, on};
use lowwater::blocking::{SctpAssociation, SctpListener};
use lowwater::sctp::{ConnectOptions, PathState, Received, SctpOptions};
use lowwater::{Stack, TunOptions};
use lowwater_os::netns::{NetNs, net_admin};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// A stack with an IPv4 address in each of two networks and an IPv6 address; everything else is behind the kernel.
fn stack(name: &str, net: u8) -> Stack {
    let mut builder = Stack::builder().tun_with(TunOptions::new(name));
    for net in [net, net + 1] {
        builder = builder.address(&format!("10.78.{net}.2/24")).host_address(&format!("10.78.{net}.1/24"));
    }
    builder = builder.address(&format!("fd78:{net}::2/64")).host_address(&format!("fd78:{net}::1/64"));
    let v4: std::net::IpAddr = format!("10.78.{net}.1").parse().unwrap();
    let v6: std::net::IpAddr = format!("fd78:{net}::1").parse().unwrap();
    builder.route("0.0.0.0/0", Some(v4)).route("::/0", Some(v6)).build().unwrap()
}

fn forward() {
    for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
    }
}

fn all(net: u8, port: u16) -> Vec<SocketAddr> {
    vec![
        SocketAddr::new(format!("10.78.{net}.2").parse().unwrap(), port),
        SocketAddr::new(format!("10.78.{}.2", net + 1).parse().unwrap(), port),
        SocketAddr::new(format!("fd78:{net}::2").parse().unwrap(), port),
    ]
}

/// Hash of what comes on each stream, in its order, up to the end.
fn receive(from: &SctpAssociation) -> Vec<Sha256> {
    let mut hashes = vec![Sha256::new(); 10];
    while let Some(received) = from.recv().unwrap() {
        let Received::Data { data, info, eor } = received else { panic!("{received:?}") };
        hashes[usize::from(info.stream)].update(&data);
        if eor {
            hashes[usize::from(info.stream)].update(b"|");
        }
    }
    hashes
}

#[test]
fn messages_cross_the_kernel_on_paths_of_both_families() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        forward();
        let (a, b) = (stack("lwa", 1), stack("lwb", 11));
        let listener = SctpListener::bind(&b, &all(11, 7)[..]).unwrap();
        thread::scope(|s| {
            let there = s.spawn(|| receive(&listener.accept().unwrap().0));
            let options = SctpOptions { notsent_lowat: 128 << 10, ..a.sctp_options() };
            let connect = ConnectOptions { local: all(1, 0), options: Some(options) };
            let here = SctpAssociation::connect_with(&a, &all(11, 7)[..], &connect).unwrap();
            let mut hashes = vec![Sha256::new(); 10];
            for n in 0..2_000u64 {
                let data = message(n, 1 + (n as usize * 37) % 5_000);
                hashes[n as usize % 10].update(&data);
                hashes[n as usize % 10].update(b"|");
                here.send_bytes(&data, on(n as u16 % 10)).unwrap();
            }
            // Every path answers: data leaves by another family once that is primary.
            let deadline = Instant::now() + Duration::from_secs(30);
            while here.info().unwrap().paths.iter().any(|p| p.state != PathState::Active) {
                assert!(Instant::now() < deadline, "{:?}", here.info().unwrap().paths);
                thread::sleep(Duration::from_millis(5));
            }
            here.set_primary(all(11, 7)[2].ip()).unwrap();
            let last = message(9, 3_000);
            hashes[0].update(&last);
            hashes[0].update(b"|");
            here.send_bytes(&last, on(0)).unwrap();
            here.finish().unwrap();
            let finish = |hashes: Vec<Sha256>| hashes.into_iter().map(Sha256::finalize).collect::<Vec<_>>();
            assert_eq!(finish(there.join().unwrap()), finish(hashes));
        });
    });
}
