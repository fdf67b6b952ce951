//! Tests of the kernel-side configuration, on `lo` and a TUN in namespaces of their own.
use super::*;
use crate::netns::{NetNs, net_admin};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

#[test]
fn networks_clear_the_hosts_bits() {
    let v4 = |p| network(Ipv4Addr::new(10, 1, 2, 3).into(), p).to_string();
    assert_eq!(
        [v4(0), v4(8), v4(30), v4(32), v4(200)],
        ["0.0.0.0", "10.0.0.0", "10.1.2.0", "10.1.2.3", "10.1.2.3"]
    );
    let v6: Ipv6Addr = "fd00:1::2".parse().unwrap();
    assert_eq!(network(v6.into(), 16).to_string(), "fd00::");
    assert_eq!(network(v6.into(), 0).to_string(), "::");
}

#[test]
fn an_unknown_device_is_named() {
    let e = Link::by_name("nosuchdev0").unwrap_err();
    assert_eq!(e.to_string(), "there is no network device nosuchdev0");
}

#[test]
fn addresses_and_routes_come_and_go() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let lo = Link::by_name("lo").unwrap();
        for ip in ["10.9.0.1", "fd09::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let bound = SocketAddr::new(ip, 0);
            UdpSocket::bind(bound).unwrap_err();
            lo.add_address(ip, if ip.is_ipv4() { 24 } else { 64 }).unwrap();
            UdpSocket::bind(bound).unwrap();
            let again = lo.add_address(ip, if ip.is_ipv4() { 24 } else { 64 }).unwrap_err();
            assert!(matches!(again, SetupError::Os { .. }), "{again}");
            lo.remove_address(ip, if ip.is_ipv4() { 24 } else { 64 }).unwrap();
            UdpSocket::bind(bound).unwrap_err();
        }
        let elsewhere: SocketAddr = "192.0.2.7:9".parse().unwrap();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect(elsewhere).unwrap_err();
        lo.add_route(elsewhere.ip(), 24, None).unwrap();
        lo.add_route(elsewhere.ip(), 24, None).unwrap();
        socket.connect(elsewhere).unwrap();
        lo.set_mtu(9_000).unwrap();
        assert_eq!(lo.mtu().unwrap(), 9_000);
        lo.down().unwrap();
        assert!(!lo.is_up().unwrap());
        lo.add_address("fd09::2".parse().unwrap(), 64).unwrap();
        lo.up().unwrap();
        assert!(lo.is_up().unwrap());
        let (a, b) = (UdpSocket::bind("[fd09::2]:0").unwrap(), UdpSocket::bind("[fd09::2]:0").unwrap());
        a.send_to(b"x", b.local_addr().unwrap()).unwrap();
        b.recv(&mut [0; 1]).unwrap();
    });
}

/// What a list ends with says whether it is one.
#[test]
fn a_list_that_changed_while_it_was_read_or_broke_off_is_none() {
    use rustix::net::{send, socketpair};
    let read = |flags: u16, code: i32| {
        let (kernel, ours) =
            socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::empty(), None).unwrap();
        let mut entry = Message::new(libc::RTM_NEWADDR, flags, 7);
        entry.u32(0);
        let mut end = Message::new(NLMSG_DONE, 0, 7);
        end.u32(code as u32);
        for message in [entry, end] {
            send(&kernel, &message.finish(), SendFlags::empty()).unwrap();
        }
        let mut entries = 0;
        answered(&ours, 7, &mut |_, _| entries += 1).map(|()| entries)
    };
    assert_eq!(read(0, 0), Ok(1));
    assert_eq!(read(NLM_F_DUMP_INTR, 0), Err(Errno::INTR));
    assert_eq!(read(0, -libc::ENOBUFS), Err(Errno::NOBUFS));
}

#[test]
fn all_addresses_of_the_kernel_are_listed() {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        assert!(addresses().unwrap().iter().all(|held| held.ip.is_loopback()));
        let lo = Link::by_name("lo").unwrap();
        // More than one datagram holds.
        let own: Vec<IpAddr> = (1..=250).map(|n| Ipv4Addr::new(10, 9, 0, n).into()).collect();
        own.iter().for_each(|ip| lo.add_address(*ip, 24).unwrap());
        lo.add_address("fd09::1".parse().unwrap(), 64).unwrap();
        assert!(lo.has_address("fd09::1".parse().unwrap(), 64).unwrap());
        assert!(!lo.has_address("fd09::1".parse().unwrap(), 65).unwrap());
        let held = addresses().unwrap();
        assert!(held.iter().all(|h| h.device == "lo"));
        for (ip, prefix) in own.into_iter().map(|ip| (ip, 24)).chain([("fd09::1".parse().unwrap(), 64)]) {
            assert_eq!(held.iter().filter(|h| h.ip == ip && h.prefix == prefix).count(), 1, "{ip}");
        }
    });
}
