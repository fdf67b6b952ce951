#!/usr/bin/env python3
"""Prints what the running kernel answers to getsockopt and setsockopt of every number: the file options.txt beside this program.

A line: the socket, level and name; what reading gives at first; what setting 1, 0, -1, 1000 and three bytes gives, each with what
reads back. Root is needed: unshare -n python3 options.py > options.txt
"""
import ctypes, errno, socket, struct

libc = ctypes.CDLL(None, use_errno=True)


def name(r):
    return "0" if r == 0 else errno.errorcode[ctypes.get_errno()].replace("ENOTSUP", "EOPNOTSUPP")


def get(fd, level, opt):
    v, n = ctypes.create_string_buffer(b"\xb3" * 4, 4), ctypes.c_uint32(4)
    r = libc.getsockopt(fd, level, opt, v, ctypes.byref(n))
    if r < 0:
        return name(r)
    return f"{n.value}:" + str(int.from_bytes(v.raw[: n.value], "little", signed=True))


KINDS = {"stream": (2, 1), "stream6": (10, 1), "dgram": (2, 2)}
for kind, (family, ty) in KINDS.items():
    for level, top in ((1, 84), (0, 53), (6, 50), (41, 81)):
        for opt in range(top):
            out = []
            for value in (struct.pack("i", 1), struct.pack("i", 0), struct.pack("i", -1), struct.pack("i", 1000), b"\1\0\0"):
                s = socket.socket(family, ty)
                if not out:
                    out.append(get(s.fileno(), level, opt))
                r = name(libc.setsockopt(s.fileno(), level, opt, value, len(value)))
                out.append(r if r != "0" else "=" + get(s.fileno(), level, opt))
                s.close()
            print(kind, level, opt, " ".join(out))
