#!/usr/bin/env python3
"""Prints what the running kernel answers to addresses of every kind on sockets of both families: the file families.txt beside this.

Root is needed: unshare -n python3 families.py > families.txt
"""
import ctypes, errno, socket, struct, subprocess

libc = ctypes.CDLL(None, use_errno=True)
for line in ["link set lo up", "link add d0 type veth peer name d1", "addr add 10.0.0.1/24 dev d0", "link set d0 up", "link set d1 up",
             "addr add fd00::1/64 dev d0 nodad"]:
    subprocess.run(["ip"] + line.split(), check=True)
for line in ["10.0.0.2 lladdr 02:00:00:00:00:02", "fd00::2 lladdr 02:00:00:00:00:02"]:
    subprocess.run(["ip", "neigh", "add"] + line.split() + ["dev", "d0"], check=True)


def v4(ip, port):
    return struct.pack("=H", 2) + struct.pack("!H", port) + socket.inet_aton(ip) + bytes(8)


def v6(ip, port):
    return struct.pack("=H", 10) + struct.pack("!HI", port, 0) + socket.inet_pton(10, ip) + bytes(4)


def names(here):
    last = "1" if here else "2"
    return {
        "v4": v4("10.0.0." + last, 80),
        "v4_port_0": v4("10.0.0." + last, 0),
        "v4_any": v4("0.0.0.0", 80),
        "v4_far": v4("192.0.2.9", 80),
        "v4_multicast": v4("224.0.0.1", 80),
        "v4_short": v4("10.0.0." + last, 80)[:15],
        "v4_2": v4("10.0.0." + last, 80)[:2],
        "v4_1": b"\2",
        "v4_long": v4("10.0.0." + last, 80) + bytes(12),
        "v4_17": v4("10.0.0." + last, 80) + bytes(1),
        "v4_23": v4("10.0.0." + last, 80) + bytes(7),
        "v4_24": v4("10.0.0." + last, 80) + bytes(8),
        "v4_128": v4("10.0.0." + last, 80) + bytes(112),
        "v4_129": v4("10.0.0." + last, 80) + bytes(113),
        "empty": b"",
        "v6": v6("fd00::" + last, 80),
        "v6_any": v6("::", 80),
        "v6_far": v6("2001:db8::9", 80),
        "v6_multicast": v6("ff02::1", 80),
        "v6_24": v6("fd00::" + last, 80)[:24],
        "v6_23": v6("fd00::" + last, 80)[:23],
        "v6_2": v6("fd00::" + last, 80)[:2],
        "v6_15": v6("fd00::" + last, 80)[:15],
        "v6_16": v6("fd00::" + last, 80)[:16],
        "v6_128": v6("fd00::" + last, 80) + bytes(100),
        "v6_129": v6("fd00::" + last, 80) + bytes(101),
        "mapped": v6("::ffff:10.0.0." + last, 80),
        "mapped_any": v6("::ffff:0.0.0.0", 80),
        "mapped_far": v6("::ffff:192.0.2.9", 80),
        "unspec": bytes(16),
        "unspec_2": bytes(2),
        "unspec_28": bytes(28),
        **{f"unspec_{n}": bytes(n) for n in (3, 15, 17, 23, 24, 27, 128, 129)},
        "unspec_addr": bytes(2) + v4("10.0.0." + last, 80)[2:],
        "unspec_addr_28": bytes(2) + v4("10.0.0." + last, 80)[2:] + bytes(12),
        "unspec_any_80": bytes(2) + v4("0.0.0.0", 80)[2:],
        "unspec_any_80_28": bytes(2) + v4("0.0.0.0", 80)[2:] + bytes(12),
        "unix": b"\1\0" + bytes(26),
        **{f"unix_{n}": b"\1\0" + bytes(n - 2) for n in (2, 7, 8, 15, 16, 23, 24, 128, 129)},
        "strange_16": b"\xff\xff" + bytes(14),
    }


def told(r):
    return str(r) if r >= 0 else errno.errorcode[ctypes.get_errno()].replace("ENOTSUP", "EOPNOTSUPP")


def shown(s):
    a = s.getsockname()
    return f" {a[0]} {a[1] if a[1] in (0, 80) else 'some'}"


for kind in ("stream", "stream6", "only6", "dgram", "dgram6", "dgram_only6"):
    for call in ("bind", "connect", "sendto"):
        for label, addr in names(call == "bind").items():
            s = socket.socket(10 if "6" in kind else 2, (2 if "dgram" in kind else 1) | 0o4000)
            if "only6" in kind:
                s.setsockopt(41, 26, 1)
            if call == "sendto":
                r = told(libc.sendto(s.fileno(), b"x", 1, 0x4000, addr, len(addr)))
            else:
                r = told(getattr(libc, call)(s.fileno(), addr, len(addr)))
            print(kind, call, label, addr.hex(), r + (shown(s) if r in ("0", "EINPROGRESS") else ""))
            s.close()
