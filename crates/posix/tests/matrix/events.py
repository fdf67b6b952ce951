#!/usr/bin/env python3
"""Prints what the running kernel's epoll and poll tell after each step of some lives of a connection: the file events.txt beside this.

A line: the story, the step, what an edge-triggered set of everything says, what a level-triggered one, what poll. unshare -n is needed.
"""
import select, socket, struct, subprocess, time

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
ALL = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x2000
STORIES = {
    "data": "send send read1 readall readall send",
    "fill": "fill send drain send fill drain",
    "end": "send peer_shut readall readall shut close",
    "ours": "shut shut_peer_reads peer_shut readall",
    "rd": "shut_rd send readall shut",
    "both": "shut_both peer_shut",
    "reset": "send reset readall error error",
    "reset_idle": "reset read1 read1",
    "reset_error": "reset error read1",
    "fin_reset": "peer_shut reset error readall",
    "dissolve": "send dissolve error",
    "lowat": "lowat send send readall lowat1 send",
    "mod": "mod send mod readall mod",
    "urgent": "oob send readall recvoob readall readall",
}


def pair():
    l = socket.socket()
    l.setsockopt(1, 2, 1)
    l.bind(("127.0.0.1", 8080))
    l.listen(5)
    a = socket.socket()
    a.connect(("127.0.0.1", 8080))
    b, _ = l.accept()
    l.close()
    a.setblocking(False), b.setblocking(False)
    return a, b


def quiet(f, *args):
    try:
        return f(*args)
    except OSError:
        return None


def everything(s):
    while quiet(s.recv, 1 << 20):
        pass


def step(name, a, b, sets):
    if name == "send": quiet(b.send, b"abc")
    elif name == "oob": b.send(b"abX", socket.MSG_OOB)
    elif name == "recvoob": quiet(a.recv, 1, socket.MSG_OOB)
    elif name == "read1": quiet(a.recv, 1)
    elif name == "readall": quiet(a.recv, 1 << 20)
    elif name == "fill":
        a.setsockopt(1, 7, 20000)
        full = 0
        while full < 20:
            full = 0 if quiet(a.send, bytes(100000)) else full + 1
            time.sleep(0.02)
    elif name == "drain":
        for _ in range(40): everything(b); time.sleep(0.01)
    elif name == "peer_shut": b.shutdown(1)
    elif name == "shut": quiet(a.shutdown, 1)
    elif name == "shut_rd": a.shutdown(0)
    elif name == "shut_both": a.shutdown(2)
    elif name == "shut_peer_reads": everything(b)
    elif name == "reset": b.setsockopt(1, 13, struct.pack("ii", 1, 0)); b.close()
    elif name == "close": b.close()
    elif name == "error": a.getsockopt(1, 4)
    elif name == "dissolve":
        import ctypes
        ctypes.CDLL(None).connect(a.fileno(), bytes(16), 16)
    elif name == "lowat": a.setsockopt(1, 18, 5)
    elif name == "lowat1": a.setsockopt(1, 18, 1)
    elif name == "mod":
        for s, et in sets: s.modify(a.fileno(), ALL | et)
    else: raise SystemExit(name)


for story, steps in STORIES.items():
    a, b = pair()
    edge, level, p = select.epoll(), select.epoll(), select.poll()
    edge.register(a.fileno(), ALL | select.EPOLLET), level.register(a.fileno(), ALL)
    p.register(a.fileno(), 0x3fff)
    sets = ((edge, select.EPOLLET), (level, 0))
    for n, name in enumerate(["begin"] + steps.split()):
        if name != "begin":
            step(name, a, b, sets)
        time.sleep(0.03)
        got = [hex(x[0][1]) if x else "0" for x in (edge.poll(0), level.poll(0), p.poll(0))]
        print(story, n, name, *got, flush=True)
    a.close(), b.close()
