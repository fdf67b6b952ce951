#!/usr/bin/env python3
"""Prints what the running kernel answers to every call in every state of a socket: the file kernel.txt beside this program.

Root and iproute2 are needed: unshare -n python3 kernel.py > kernel.txt
"""
import ctypes, errno, fcntl, os, select, signal, socket, struct, subprocess, time

libc = ctypes.CDLL(None, use_errno=True)
libc.read.restype = libc.write.restype = libc.recv.restype = libc.send.restype = ctypes.c_ssize_t
libc.sendto.restype = libc.recvmsg.restype = libc.readv.restype = libc.splice.restype = ctypes.c_ssize_t
HERE, FAR, PORT = "127.0.0.1", "10.9.9.2", 8080
pipes = [0]
signal.signal(signal.SIGPIPE, lambda *a: pipes.__setitem__(0, 1))

for line in ["link set lo up", "link add d0 type veth peer name d1", "addr add 10.9.9.1/24 dev d0", "link set d0 up",
             "link set d1 up", "neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev d0"]:
    subprocess.run(["ip"] + line.split(), check=True)


def sin(port, ip=HERE, family=2):
    return struct.pack("=H", family) + struct.pack("!H", port) + socket.inet_aton(ip) + bytes(8)


def pause():
    time.sleep(0.005)


def stream():
    return socket.socket(2, 1 | 0o4000)


def listener():
    s = stream()
    s.setsockopt(1, 2, 1)
    s.bind((HERE, PORT))
    s.listen(5)
    return s


def pair():
    """A connection: both ends, and the listener."""
    l = listener()
    a = stream()
    try:
        a.connect((HERE, PORT))
    except BlockingIOError:
        pass
    pause()
    b, _ = l.accept()
    b.setblocking(False)
    a.connect_ex((HERE, PORT))
    l.close()
    return a, b


def reset():
    a, b = pair()
    b.setsockopt(1, 13, struct.pack("ii", 1, 0))
    b.close()
    pause()
    return a, None


def swallow(f, *args):
    try:
        f(*args)
    except OSError:
        pass


def state(name):
    """A file in this state, and what must stay alive beside it."""
    if name == "fresh":
        return stream(), None
    if name == "bound":
        s = stream(); s.bind((HERE, PORT)); return s, None
    if name == "listen":
        return listener(), None
    if name == "connecting":
        s = stream(); s.connect_ex((FAR, PORT)); return s, None
    if name == "connected":
        return pair()
    if name == "data":
        a, b = pair(); b.send(b"abc"); pause(); return a, b
    if name == "peer_fin":
        a, b = pair(); b.shutdown(1); pause(); return a, b
    if name == "data_fin":
        a, b = pair(); b.send(b"abc"); b.shutdown(1); pause(); return a, b
    if name == "shut_rd":
        a, b = pair(); a.shutdown(0); return a, b
    if name == "shut_wr":
        a, b = pair(); a.shutdown(1); pause(); return a, b
    if name == "shut_rdwr":
        a, b = pair(); a.shutdown(2); pause(); return a, b
    if name == "time_wait":
        a, b = pair(); a.shutdown(1); pause(); b.close(); pause(); return a, None
    if name == "last_ack":
        a, b = pair(); b.shutdown(1); pause(); a.shutdown(1); pause(); return a, b
    if name == "reset":
        return reset()
    if name == "reset_told":
        a, _ = reset(); swallow(a.recv, 1); return a, None
    if name == "fin_reset":
        a, b = pair(); b.shutdown(1); pause(); b.setsockopt(1, 13, struct.pack("ii", 1, 0)); b.close(); pause()
        return a, None
    if name == "data_reset":
        a, b = pair(); b.send(b"abc"); pause(); b.setsockopt(1, 13, struct.pack("ii", 1, 0)); b.close(); pause()
        return a, None
    if name == "refused":
        s = stream(); s.connect_ex((HERE, PORT)); pause(); return s, None
    if name == "refused_told":
        s = stream(); s.connect_ex((HERE, PORT)); pause(); s.getsockopt(1, 4); return s, None
    if name == "dissolved":
        a, b = pair(); libc.connect(a.fileno(), sin(0, HERE, 0), 16); return a, b
    if name == "listen_shut":
        s = listener(); s.shutdown(0); return s, None
    if name == "fresh_shut":
        s = stream(); swallow(s.shutdown, 2); return s, None
    if name == "udp":
        return socket.socket(2, 2 | 0o4000), None
    if name == "udp_bound":
        s = socket.socket(2, 2 | 0o4000); s.bind((HERE, PORT)); return s, None
    if name in ("udp_connected", "udp_data", "udp_refused", "udp_shut"):
        s = socket.socket(2, 2 | 0o4000)
        peer = None
        if name != "udp_refused":
            peer = socket.socket(2, 2); peer.bind((HERE, PORT))
        s.connect((HERE, PORT))
        if name == "udp_data":
            s.send(b"x"); pause(); peer.sendto(b"abc", peer.recvfrom(9)[1]); pause()
        if name == "udp_refused":
            s.send(b"x"); pause()
        if name == "udp_shut":
            s.shutdown(2)
        return s, peer
    if name in ("pipe_r", "pipe_w", "pipe_data", "pipe_r_alone", "pipe_w_alone"):
        r, w = os.pipe2(0o4000)
        if name == "pipe_data":
            os.write(w, b"abc")
        if name == "pipe_r_alone":
            os.close(w); w = None
        if name == "pipe_w_alone":
            os.close(r); r = None
        return (r, w) if name in ("pipe_r", "pipe_data", "pipe_r_alone") else (w, r)
    if name == "epoll":
        return select.epoll(), None
    if name == "bad":
        return 999, None
    raise SystemExit(name)


STATES = """fresh bound listen connecting connected data peer_fin data_fin shut_rd shut_wr shut_rdwr time_wait last_ack reset
reset_told fin_reset data_reset refused refused_told dissolved listen_shut fresh_shut udp udp_bound udp_connected udp_data
udp_refused udp_shut pipe_r pipe_w pipe_data pipe_r_alone pipe_w_alone epoll bad""".split()


class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class msghdr(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.c_void_p),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int)]


buf = ctypes.create_string_buffer(64)


def told(r):
    if r < 0:
        return errno.errorcode[ctypes.get_errno()].replace("ENOTSUP", "EOPNOTSUPP")
    return str(r)


def ioctl(fd, request):
    n = ctypes.c_int(-1)
    r = libc.ioctl(fd, ctypes.c_ulong(request), ctypes.byref(n))
    return told(r) + (f" {n.value}" if r == 0 else "")


def option(fd, level, name, size=4):
    v, n = ctypes.create_string_buffer(512), ctypes.c_uint32(size)
    r = libc.getsockopt(fd, level, name, v, ctypes.byref(n))
    if r < 0:
        return told(r)
    return f"0 len {n.value} " + str(int.from_bytes(v.raw[: min(n.value, 4)], "little", signed=True))


def recvmsg(fd):
    v = iovec(ctypes.addressof(buf), 2)
    m = msghdr(None, 0, ctypes.addressof(v), 1, None, 0, 0)
    r = libc.recvmsg(fd, ctypes.byref(m), 0)
    return told(r) + (f" flags {m.flags:#x}" if r >= 0 else "")


def poll(fd):
    p = select.poll()
    p.register(fd, 0x3fff)
    got = p.poll(0)
    return hex(got[0][1]) if got else "0x0"


def epoll_ctl(fd):
    e = select.epoll()
    try:
        e.register(fd, 5)
        got = e.poll(0)
        return "0 " + (hex(got[0][1]) if got else "0x0")
    except OSError as x:
        return errno.errorcode[x.errno]


def splice(fd, into):
    r, w = os.pipe2(0o4000)
    if not into:
        os.write(w, b"xy")
    x = libc.splice(fd, None, w, None, 2, 2) if into else libc.splice(r, None, fd, None, 2, 2)
    told_ = told(x)
    os.close(r), os.close(w)
    return told_


def name(fd, peer):
    v, n = ctypes.create_string_buffer(64), ctypes.c_uint32(64)
    return told((libc.getpeername if peer else libc.getsockname)(fd, v, ctypes.byref(n)))


def setopt(fd, level, nm, value):
    return told(libc.setsockopt(fd, level, nm, value, len(value)))


ONE, BAD = struct.pack("i", 1), None
CALLS = {
    "bind": lambda f: told(libc.bind(f, sin(0), 16)),
    "bind_short": lambda f: told(libc.bind(f, sin(0), 10)),
    "bind_family": lambda f: told(libc.bind(f, sin(0, HERE, 1), 16)),
    "bind_far": lambda f: told(libc.bind(f, sin(0, "192.0.2.1"), 16)),
    "listen": lambda f: told(libc.listen(f, 3)),
    "accept": lambda f: told(min(libc.accept(f, None, None), 0)),
    "accept_flags": lambda f: told(libc.accept4(f, None, None, 5)),
    "connect": lambda f: told(libc.connect(f, sin(9), 16)),
    "connect_short": lambda f: told(libc.connect(f, sin(9), 10)),
    "connect_family": lambda f: told(libc.connect(f, sin(9, HERE, 1), 16)),
    "connect_unspec": lambda f: told(libc.connect(f, sin(0, HERE, 0), 16)),
    "read": lambda f: told(libc.read(f, buf, 2)),
    "read_0": lambda f: told(libc.read(f, buf, 0)),
    "read_null": lambda f: told(libc.read(f, None, 2)),
    "readv_0": lambda f: told(libc.readv(f, None, 0)),
    "recv": lambda f: told(libc.recv(f, buf, 2, 0)),
    "recv_0": lambda f: told(libc.recv(f, buf, 0, 0)),
    "recv_peek": lambda f: told(libc.recv(f, buf, 2, 2)),
    "recv_peek_trunc": lambda f: told(libc.recv(f, buf, 2, 0x22)),
    "recv_all": lambda f: told(libc.recv(f, buf, 9, 0x100)),
    "recv_oob": lambda f: told(libc.recv(f, buf, 1, 1)),
    "recv_errqueue": lambda f: told(libc.recv(f, buf, 1, 0x2000)),
    "recv_trunc_null": lambda f: told(libc.recv(f, None, 2, 0x20)),
    "recvmsg": recvmsg,
    "write": lambda f: told(libc.write(f, buf, 2)),
    "write_0": lambda f: told(libc.write(f, buf, 0)),
    "write_null": lambda f: told(libc.write(f, None, 2)),
    "send": lambda f: told(libc.send(f, buf, 2, 0)),
    "send_nosignal": lambda f: told(libc.send(f, buf, 2, 0x4000)),
    "send_more": lambda f: told(libc.send(f, buf, 2, 0x8000)),
    "sendto": lambda f: told(libc.sendto(f, buf, 2, 0, sin(PORT), 16)),
    "sendto_port_0": lambda f: told(libc.sendto(f, buf, 2, 0, sin(0), 16)),
    "sendto_short": lambda f: told(libc.sendto(f, buf, 2, 0, sin(PORT), 10)),
    "sendto_family": lambda f: told(libc.sendto(f, buf, 2, 0, sin(PORT, HERE, 1), 16)),
    "shutdown_rd": lambda f: told(libc.shutdown(f, 0)),
    "shutdown_wr": lambda f: told(libc.shutdown(f, 1)),
    "shutdown_rdwr": lambda f: told(libc.shutdown(f, 2)),
    "shutdown_bad": lambda f: told(libc.shutdown(f, 3)),
    "getsockname": lambda f: name(f, False),
    "getpeername": lambda f: name(f, True),
    "getfl": lambda f: told(libc.fcntl(f, 3, 0)),
    "setfl": lambda f: told(libc.fcntl(f, 4, 0o4002)),
    "fcntl_bad": lambda f: told(libc.fcntl(f, 12345, 0)),
    "fionread": lambda f: ioctl(f, 0x541B),
    "outq": lambda f: ioctl(f, 0x5411),
    "outqnsd": lambda f: ioctl(f, 0x894B),
    "atmark": lambda f: ioctl(f, 0x8905),
    "fionbio_null": lambda f: told(libc.ioctl(f, ctypes.c_ulong(0x5421), None)),
    "ioctl_bad": lambda f: ioctl(f, 0x1234),
    "poll": poll,
    "epoll": epoll_ctl,
    "splice_in": lambda f: splice(f, True),
    "splice_out": lambda f: splice(f, False),
    "so_error": lambda f: option(f, 1, 4),
    "so_type": lambda f: option(f, 1, 3),
    "so_acceptconn": lambda f: option(f, 1, 30),
    "so_domain_2": lambda f: option(f, 1, 39, 2),
    "tcp_info_1": lambda f: option(f, 6, 11, 1),
    "tcp_info_len": lambda f: option(f, 6, 11, 400).split(" ")[0:3][-1],
    "opt_neg": lambda f: option(f, 1, 3, 0xFFFFFFFF),
    "opt_bad": lambda f: option(f, 1, 9999),
    "level_bad": lambda f: option(f, 77, 1),
    "ip_mtu": lambda f: option(f, 0, 14).split(" len")[0],
    "ipv6_v6only": lambda f: option(f, 41, 26),
    "set_short": lambda f: setopt(f, 6, 1, b"\1\0\0"),
    "set_null": lambda f: told(libc.setsockopt(f, 1, 2, None, 4)),
    "set_neg": lambda f: told(libc.setsockopt(f, 1, 2, ONE, -1)),
    "set_nodelay": lambda f: setopt(f, 6, 1, ONE),
    "set_maxseg": lambda f: setopt(f, 6, 2, ONE),
    "set_clamp_0": lambda f: setopt(f, 6, 10, struct.pack("i", 0)),
    "set_v6only": lambda f: setopt(f, 41, 26, ONE),
    "set_reno": lambda f: setopt(f, 6, 13, b"reno"),
    "set_what": lambda f: setopt(f, 6, 13, b"what"),
    "close": lambda f: told(libc.close(os.dup(f)) if f != 999 else libc.close(f)),
}

for s in STATES:
    for call, f in CALLS.items():
        file, peer = state(s)
        fd = file if isinstance(file, int) else file.fileno()
        pipes[0] = 0
        print(s, call, f(fd), "SIGPIPE" if pipes[0] else "", sep=" ", flush=True)
        for x in (file, peer):
            if x is None or x == 999:
                continue
            if isinstance(x, int):
                os.close(x)
            else:
                if isinstance(x, socket.socket):
                    swallow(x.setsockopt, 1, 13, struct.pack("ii", 1, 0))
                x.close()
