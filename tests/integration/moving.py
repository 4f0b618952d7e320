"""Slots that are moved by hand while clients are at work."""
import threading

from support import Cluster, Error, Proxy, slot_of, wait_until
from support.cluster import SLOTS
from testbed import PATIENT, raw_pipeline, redirects, start_plain_server, stop_cleanly

SLOT = slot_of("{t2}")


class Mover:
    """Moves slots by hand over connections that stay open, and knows who owns what."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.nodes = cluster.nodes
        self.links = {node: node.connect() for node in self.nodes}
        self.ids = {node: node.id for node in self.nodes}
        shards = len(self.nodes)
        self.owners = {slot: self.nodes[index] for index in range(shards)
                       for slot in range(SLOTS * index // shards, SLOTS * (index + 1) // shards)}
        self.opened = set()

    def close(self):
        for link in self.links.values():
            link.close()

    def say(self, node, *words):
        reply = self.links[node].call(*words)
        assert not isinstance(reply, Error), (words, reply)
        return reply

    def next_after(self, node):
        return self.nodes[(self.nodes.index(node) + 1) % len(self.nodes)]

    def begin(self, slot):
        """Opens the slot towards the next node."""
        source = self.owners[slot]
        target = self.next_after(source)
        self.say(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[source])
        self.say(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[target])
        self.opened.add(slot)

    def move_keys(self, slot, keys):
        source = self.owners[slot]
        target = self.next_after(source)
        self.say(source, "MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *keys)

    def keys_left(self, slot, count=100):
        return self.say(self.owners[slot], "CLUSTER", "GETKEYSINSLOT", slot, count)

    def finish(self, slot):
        """Moves what is left and hands the slot over, unless that was done already."""
        if slot not in self.opened:
            return
        while keys := self.keys_left(slot):
            self.move_keys(slot, keys)
        source = self.owners[slot]
        target = self.next_after(source)
        for node in (target, source, self.next_after(target)):
            self.say(node, "CLUSTER", "SETSLOT", slot, "NODE", self.ids[target])
        self.owners[slot] = target
        self.opened.remove(slot)

    def move(self, slot, step=10):
        """The whole way, a few keys at a time."""
        self.begin(slot)
        while keys := self.keys_left(slot, step):
            self.move_keys(slot, keys)
        self.finish(slot)

    def redirects(self):
        return redirects(self.nodes)


class OwnCluster:
    """Three masters, the proxy, and one ordinary server to compare with; both start empty."""
    SETTINGS = {"backend.retry_deadline": "60s", "backend.request_timeout": "30s"}
    engine = "auto"

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(masters=3, options=PATIENT)
        cls.addClassCleanup(cls.cluster.stop)
        cls.mover = Mover(cls.cluster)
        cls.addClassCleanup(cls.mover.close)
        cls.proxy = Proxy(cls.cluster.seeds, {**cls.SETTINGS, "io.engine": cls.engine})
        cls.addClassCleanup(stop_cleanly, cls.proxy)
        cls.plain = start_plain_server(cls.addClassCleanup)

    def setUp(self):
        self.cluster.flush()
        self.plain.call("FLUSHALL")
        self.client = self.connect()
        self.direct = self.plain.connect()
        self.addCleanup(self.direct.close)

    def connect(self, protocol=2, proxy=None):
        client = (proxy or self.proxy).connect(timeout=90)
        self.addCleanup(client.close)
        if protocol == 3:
            client.call("HELLO", 3)
        return client

    def half_move(self, moved, stay=()):
        """Opens the slot of {t2} and moves some of its keys; the rest stays where it was."""
        assert {slot_of(key) for key in (*moved, *stay)} <= {SLOT}
        self.mover.begin(SLOT)
        self.addCleanup(self.mover.finish, SLOT)
        if moved:
            self.mover.move_keys(SLOT, moved)

    def check(self, commands, client=None):
        """The same replies, in the same order, as from one ordinary server."""
        got = raw_pipeline(client or self.client, commands)
        wanted = raw_pipeline(self.direct, commands)
        for command, one, other in zip(commands, got, wanted):
            self.assertEqual(one, other, command)

    def redirects_of_reading(self, names, clients):
        """Reads keys that have their names as values, one by one; how many redirects it took."""
        before = self.mover.redirects()
        for client in clients:
            for name in names:
                self.assertEqual(client.call("GET", name), name.encode())
        return self.mover.redirects() - before

    def check_that_redirects_end(self, names):
        """Once slots stay where they are, every read goes straight to the owner."""
        clients = [self.connect() for _ in range(6)]
        wait_until(lambda: self.redirects_of_reading(names, clients) == 0, 30,
                   what="redirects to end")
        self.assertEqual([self.redirects_of_reading(names, clients) for _ in range(2)], [0, 0])


class Background:
    """Threads that run until told to stop; the first thing that went wrong fails the test."""

    def __init__(self):
        self.stopped = threading.Event()
        self.wrong = []
        self.threads = []

    def start(self, work, *arguments):
        """Calls work(*arguments) again and again."""
        self.threads.append(threading.Thread(target=self._run, args=(work, arguments)))
        self.threads[-1].start()

    def _run(self, work, arguments):
        try:
            while not self.stopped.is_set():
                work(*arguments)
        except Exception as trouble:  # whatever it is, the test has to show it
            self.wrong.append(f"{type(trouble).__name__}: {str(trouble)[:500]}")
            self.stopped.set()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong


def expect(got, wanted, what):
    assert got == wanted, f"{what}: {got!r:.200} instead of {wanted!r:.200}"
