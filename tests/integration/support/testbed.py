# SPDX-License-Identifier: Apache-2.0
"""Three masters behind the proxy, and ordinary servers that tell what is right."""
import unittest

from .cluster import PATIENT, Cluster, start_plain_server
from .proxy import Proxy
from .slots import slot_of, slots_of_shard


def difference(got, wanted):
    """Where two long replies differ, in a few words; empty when they are the same."""
    if got == wanted:
        return ""
    if not isinstance(got, list) or len(got) != len(wanted):
        return f"{type(got).__name__} {got!r:.200} instead of {len(wanted)} values"
    at = next(index for index, pair in enumerate(zip(got, wanted)) if pair[0] != pair[1])
    return f"at {at}: {got[at]!r:.200} instead of {wanted[at]!r:.200}"


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
        add_cleanup(self.proxy.stop_cleanly)

    @property
    def nodes(self):
        return self.cluster.nodes

    def owner_of(self, key):
        slot = slot_of(key)
        return next(node for index, node in enumerate(self.nodes) if slot in slots_of_shard(index))

    def redirects(self):
        return self.cluster.redirects()

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
        got = self.client.pipeline_raw(commands)
        wanted = self.direct.pipeline_raw(commands)
        for command, one, other in zip(commands, got, wanted):
            self.assertEqual(one, other, command)
