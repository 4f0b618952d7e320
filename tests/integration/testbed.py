"""What the tests of routing, of commands with several keys and of moving slots share."""
import select
import tempfile
import unittest

from support import Cluster, Node, Proxy, encode, slot_of
from support.cluster import SLOTS, free_ports

# A busy machine must not look like a failed node.
PATIENT = ["--cluster-node-timeout", "15000"]

# Hash tags of the first, the second and the third shard of three.
TAGS = A, B, C = "{t2}", "{t1}", "{t0}"


def stop_cleanly(proxy):
    """Ends a proxy; a crash, a leak or a hang fails the test."""
    status = proxy.stop()
    assert status == 0, f"exit status {status}\n{proxy.log_text()[-4000:]}"


def frame_of(words):
    """One request frame, fast for very many words."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word)
                                              for word in words)


def frames_of(commands):
    return b"".join(encode(*command) for command in commands)


def call(connection, *words):
    connection.send(frame_of(words))
    return connection.read()


def raw_pipeline(connection, commands):
    """Sends all commands at once; the bytes of each reply."""
    connection.send(frames_of(commands))
    return [connection.read_frame() for _ in commands]


def is_silent(connection, seconds=0.3):
    """Whether nothing arrives for a while."""
    return not connection.buffer and not select.select([connection.socket], [], [], seconds)[0]


def difference(got, wanted):
    """Where two long replies differ, in a few words; empty when they are the same."""
    if got == wanted:
        return ""
    if not isinstance(got, list) or len(got) != len(wanted):
        return f"{type(got).__name__} {got!r:.200} instead of {len(wanted)} values"
    at = next(index for index, pair in enumerate(zip(got, wanted)) if pair[0] != pair[1])
    return f"at {at}: {got[at]!r:.200} instead of {wanted[at]!r:.200}"


def redirects(nodes):
    """How many MOVED and ASK the nodes have answered so far."""
    total = 0
    for node in nodes:
        stats = node.info("errorstats")
        for code in ("MOVED", "ASK"):
            total += int(stats.get(f"errorstat_{code}", "count=0").split("=")[1])
    return total


def start_plain_server(add_cleanup):
    """An ordinary server without a cluster."""
    directory = tempfile.TemporaryDirectory(prefix="penstock-plain-")
    add_cleanup(directory.cleanup)
    plain = Node(free_ports(1)[0], directory.name, cluster=False)
    add_cleanup(plain.kill)
    return plain.start()


class Testbed:
    """Three masters behind the proxy, and two servers to compare with.

    `single` is a cluster of one node that owns every slot, `plain` an ordinary server. All live as
    long as the test module whose setUpModule is set_up(). Slots never move.
    """

    def set_up(self):
        add_cleanup = unittest.addModuleCleanup
        self.cluster = Cluster(masters=3, options=PATIENT)
        add_cleanup(self.cluster.stop)
        self.single = Cluster(masters=1, options=PATIENT)
        add_cleanup(self.single.stop)
        self.plain = start_plain_server(add_cleanup)
        self.proxy = Proxy(self.cluster.seeds)
        add_cleanup(stop_cleanly, self.proxy)

    @property
    def nodes(self):
        return self.cluster.nodes

    def owner_of(self, key):
        slot = slot_of(key)
        return self.nodes[sum(slot >= SLOTS * shard // 3 for shard in (1, 2))]

    def redirects(self):
        return redirects(self.nodes)

    def flush(self):
        self.cluster.flush()
        self.single.flush()
        self.plain.call("FLUSHALL")


class BesideAServer:
    """Mixin of tests with a client of the proxy and one of a server; all start empty."""
    bed = None
    server = "single"

    def setUp(self):
        self.bed.flush()
        self.client = self.bed.proxy.connect(timeout=60)
        self.addCleanup(self.client.close)
        node = self.bed.plain if self.server == "plain" else self.bed.single.nodes[0]
        self.direct = node.connect()
        self.addCleanup(self.direct.close)

    def assert_same(self, got, wanted):
        """For long replies."""
        self.assertEqual(difference(got, wanted), "")

    def speak(self, protocol):
        self.client.call("HELLO", protocol)
        self.direct.call("HELLO", protocol)

    def check(self, commands):
        """The same commands, pipelined, get the same bytes from both."""
        got = raw_pipeline(self.client, commands)
        wanted = raw_pipeline(self.direct, commands)
        for command, one, other in zip(commands, got, wanted):
            self.assertEqual(one, other, command)
