# SPDX-License-Identifier: Apache-2.0
"""Writers, readers and trouble for the reply cache, and a check of every single value that is read.

A value is "<version>:<filling>"; each key has one writer, whose versions only grow. A reader must
never see
  - an older version than it has seen before, in the same session;
  - an older one than was acknowledged before it asked, of a key that is written through the proxy;
  - an older one than was acknowledged BOUND seconds before it asked, of a key written at the nodes;
  - a version that nobody has begun to write, or one whose time to live is over.
"""
import ctypes
import multiprocessing
import random
import time

from .resp import Connection, Error, frames
from .slots import slot_of

NEVER = 1e18


class Keys:
    """What is known of each key, shared by all processes; each is written by one of them."""

    def __init__(self, names, outside, volatile):
        self.names = names
        self.outside = outside    # indexes of keys that are written at the nodes
        self.volatile = volatile  # indexes of keys with a time to live
        self.index = {name: i for i, name in enumerate(names)}
        count = len(names)
        self.begun = multiprocessing.RawArray(ctypes.c_long, count)
        self.acknowledged = multiprocessing.RawArray(ctypes.c_long, count)
        self.ends = multiprocessing.RawArray(ctypes.c_double, [NEVER] * count)
        self.reads = multiprocessing.RawArray(ctypes.c_long, 64)  # by reader
        self.running = multiprocessing.RawValue(ctypes.c_bool, True)
        self.wrong = multiprocessing.Queue()

    def complain(self, text):
        self.wrong.put(text)
        self.running.value = False


def wait_a_little():
    time.sleep(random.uniform(0, 0.004))


class Writer:
    """Writes its keys, each version once. `send(words)` gives a reply or raises OSError."""

    def __init__(self, keys, mine, send):
        self.keys, self.mine, self.send = keys, mine, send

    def run(self):
        while self.keys.running.value:
            self.write(random.choice(self.mine))
            wait_a_little()

    def write(self, index):
        keys = self.keys
        version = keys.begun[index] + 1
        keys.begun[index] = version
        words = ["SET", keys.names[index], "%d:%s" % (version, "x" * random.randrange(80))]
        life = random.choice((0.05, 0.2, 0.6)) if index in keys.volatile else None
        keys.ends[index] = NEVER
        if life:
            words += ["PX", int(life * 1000)]
        try:
            reply = self.send(words)
        except OSError:
            return
        if reply == "OK":
            keys.acknowledged[index] = version
            if life:
                keys.ends[index] = time.monotonic() + life


class Outside:
    """Commands straight to the nodes, following what they say."""

    def __init__(self, ports):
        self.ports, self.links, self.owners = ports, {}, {}

    def link(self, port):
        if port not in self.links:
            self.links[port] = Connection(port, timeout=5)
        return self.links[port]

    def __call__(self, words):
        slot, asking = slot_of(words[1]), False
        port = self.owners.get(slot, self.ports[0])
        for _ in range(20):
            try:
                link = self.link(port)
                if asking:
                    link.call("ASKING")
                reply = link.call(*words)
            except OSError:
                self.links.pop(port, None)
                self.owners.pop(slot, None)
                raise
            if not isinstance(reply, Error):
                return reply
            if reply.code not in ("MOVED", "ASK"):
                time.sleep(0.01)
                continue
            asking, port = reply.code == "ASK", int(reply.rsplit(":", 1)[1])
            if not asking:
                self.owners[slot] = port
        return reply


class Reader:
    """One session: pipelines of GET and MGET, and now and then a write of a key of its own."""

    def __init__(self, keys, number, port, bound, own, protocol):
        self.keys, self.number, self.bound, self.own = keys, number, bound, own
        self.port, self.protocol = port, protocol
        self.samples = []  # (when, acknowledged versions then), oldest first
        self.connect()

    def connect(self):
        self.connection = Connection(self.port, timeout=60)
        self.connection.call("HELLO", self.protocol)
        self.seen = [0] * len(self.keys.names)

    def run(self):
        while self.keys.running.value:
            try:
                self.round()
            except ConnectionError:
                self.connect()

    def look(self):
        """What holds for everything that is asked from now on."""
        self.now = time.monotonic()
        # In this order: a version that is acknowledged in between has a later end.
        self.current, self.ends = list(self.keys.acknowledged), list(self.keys.ends)
        self.samples.append((self.now, self.current))
        while len(self.samples) > 1 and self.samples[1][0] <= self.now - self.bound:
            self.samples.pop(0)
        then, old = self.samples[0]
        self.floor = list(self.current)
        for index in self.keys.outside:
            self.floor[index] = old[index] if then <= self.now - self.bound else 0

    def round(self):
        self.look()
        names = self.keys.names
        asked = [[random.randrange(len(names)) for _ in range(random.choice((1, 1, 8)))]
                 for _ in range(random.choice((1, 4, 16)))]
        sent = [("MGET" if len(some) > 1 else "GET", *(names[i] for i in some)) for some in asked]
        if random.random() < 0.2:
            sent.append(self.own_write())
            asked += [None, [self.own]]
            sent.append(("GET", names[self.own]))
        self.connection.send(frames(*sent))
        for some in asked:
            reply = self.connection.read()
            if some is None:
                self.note_own_write(reply)
            elif not isinstance(reply, Error):  # then nobody answers just now
                for index, value in zip(some, reply if len(some) > 1 else [reply]):
                    self.check(index, value)

    def own_write(self):
        self.keys.begun[self.own] += 1
        return "SET", self.keys.names[self.own], f"{self.keys.begun[self.own]}:"

    def note_own_write(self, reply):
        if reply == "OK":
            self.keys.acknowledged[self.own] = self.keys.begun[self.own]
            self.seen[self.own] = self.keys.begun[self.own]

    def check(self, index, value):
        keys, name = self.keys, self.keys.names[index]
        keys.reads[self.number] += 1
        if value is None:
            if index not in keys.volatile and self.floor[index] > 0:
                keys.complain(f"{name} is lost, version {self.floor[index]} was acknowledged")
            return
        version = int(value.split(b":", 1)[0])
        if version < self.seen[index]:
            keys.complain(f"{name}: version {version} after {self.seen[index]} in one session")
        if version < self.floor[index]:
            keys.complain(f"{name}: version {version}, {self.floor[index]} was acknowledged")
        if version > keys.begun[index]:
            keys.complain(f"{name}: version {version} was never written")
        if version == self.current[index] and self.now > self.ends[index] + 0.05:
            keys.complain(f"{name}: version {version} outlived its time to live by "
                          f"{self.now - self.ends[index]:.3f} s")
        self.seen[index] = version


class Check:
    """Readers and writers at work in processes of their own, until stop()."""

    KEYS, READERS = 48, 4

    def __init__(self, proxy_port, node_ports, bound, readers=READERS):
        names = [f"{{t{number % 6}}}key{number}" for number in range(self.KEYS)]
        own = range(self.KEYS - readers, self.KEYS)
        shared = range(self.KEYS - readers)
        outside = [i for i in shared if i % 3 == 0]
        self.keys = Keys(names, set(outside), {i for i in shared if i % 4 == 1})
        through = [i for i in shared if i % 3 != 0]
        works = [(self.write_outside, outside, node_ports),
                 (self.write_through, through[::2], proxy_port),
                 (self.write_through, through[1::2], proxy_port)]
        works += [(self.read, number, proxy_port, bound, own[number], 2 + (number == 0))
                  for number in range(readers)]
        self.processes = [multiprocessing.Process(target=self._run, args=work, daemon=True)
                          for work in works]
        for process in self.processes:
            process.start()

    def _run(self, work, *arguments):
        random.seed()
        try:
            work(*arguments)
        except Exception as trouble:  # whatever it is, somebody has to hear of it
            if self.keys.running.value:
                self.keys.complain(f"{type(trouble).__name__}: {trouble}")

    def write_outside(self, mine, ports):
        Writer(self.keys, mine, Outside(ports)).run()

    def write_through(self, mine, port):
        connection = Connection(port, timeout=60)
        Writer(self.keys, mine, lambda words: connection.call(*words)).run()

    def read(self, *arguments):
        Reader(self.keys, *arguments).run()

    @property
    def reads(self):
        return sum(self.keys.reads)

    def stop(self):
        """The complaints, at best none."""
        self.keys.running.value = False
        complaints = []
        deadline = time.monotonic() + 70
        while any(process.is_alive() for process in self.processes):
            while not self.keys.wrong.empty():
                complaints.append(self.keys.wrong.get())
            if time.monotonic() > deadline:
                complaints.append("a process does not end")
                break
            time.sleep(0.05)
        while not self.keys.wrong.empty():
            complaints.append(self.keys.wrong.get())
        return complaints


def kill_connections(node, wanted):
    """Ends the proxy's connections to a node of which CLIENT LIST says what is wanted."""
    killed = 0
    for line in node.call("CLIENT", "LIST").decode().splitlines():
        facts = dict(fact.split("=", 1) for fact in line.split(" ") if "=" in fact)
        if facts["name"] == "penstock" and wanted(facts):
            killed += node.call("CLIENT", "KILL", "ID", facts["id"])
    return killed


def is_tracked(facts):
    return "t" in facts["flags"]


def is_feed(facts):
    return facts["resp"] == "3" and "t" not in facts["flags"]
