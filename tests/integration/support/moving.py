# SPDX-License-Identifier: Apache-2.0
"""Slots that are moved by hand while clients are at work."""
import unittest

from .cluster import PATIENT, Cluster, start_plain_server
from .proxy import Proxy
from .resp import Error
from .slots import slot_of, slots_of_shard
from .wait import wait_until

SLOT = slot_of("{t2}")


class Mover:
    """Moves slots by hand over connections that stay open, and knows who owns what.

    A slot goes to the next node of the cluster unless another target is given."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.links, self.ids = {}, {}
        self.targets = {}  # of the slots that are open
        self.owners = {slot: node for index, node in enumerate(cluster.nodes)
                       for slot in slots_of_shard(index, len(cluster.nodes))}
        for node in cluster.nodes:
            self.add(node)

    def add(self, node):
        self.links[node], self.ids[node] = node.connect(), node.id

    def remove(self, node):
        self.links.pop(node).close()
        del self.ids[node]

    def close(self):
        for link in self.links.values():
            link.close()

    def say(self, node, *words):
        reply = self.links[node].call(*words)
        assert not isinstance(reply, Error), (words, reply)
        return reply

    def next_after(self, node):
        nodes = self.cluster.nodes
        return nodes[(nodes.index(node) + 1) % len(nodes)]

    def begin(self, slot, target=None):
        """Marks the slot as migrating; keys stay where they are."""
        source = self.owners[slot]
        target = self.targets[slot] = target or self.next_after(source)
        self.say(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[source])
        self.say(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[target])

    def move_keys(self, slot, keys):
        target = self.targets[slot]
        self.say(self.owners[slot], "MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *keys)

    def keys_left(self, slot, count=100):
        return self.say(self.owners[slot], "CLUSTER", "GETKEYSINSLOT", slot, count)

    def finish(self, slot):
        """Moves what is left and hands the slot over, unless that was done already."""
        if slot not in self.targets:
            return
        while keys := self.keys_left(slot):
            self.move_keys(slot, keys)
        source, target = self.owners[slot], self.targets.pop(slot)
        wait_until(lambda: self.knows_epoch_of(target, source), step=0.002,
                   what="the new owner to know the old one's epoch")
        for node in [target, source, *self.links.keys() - {target, source}]:
            self.say(node, "CLUSTER", "SETSLOT", slot, "NODE", self.ids[target])
        self.owners[slot] = target

    def knows_epoch_of(self, node, other):
        """Or the node's claim to a slot would be no newer than the other's."""
        return self.epoch_of(other, node) >= self.epoch_of(other, other)

    def epoch_of(self, node, by):
        """A node's epoch, as another one knows it."""
        lines = self.say(by, "CLUSTER", "NODES").decode().splitlines()
        return next(int(line.split(" ")[6]) for line in lines if line.startswith(self.ids[node]))

    def move(self, slot, target=None, step=10):
        """The whole way, a few keys at a time."""
        self.begin(slot, target)
        while keys := self.keys_left(slot, step):
            self.move_keys(slot, keys)
        self.finish(slot)


class OwnCluster(unittest.TestCase):
    """Three masters, the proxy, and one ordinary server to compare with, which the test classes of
    a module share; all start empty."""
    SETTINGS = {"backend.retry_deadline": "60s", "backend.request_timeout": "30s"}
    _shared = None

    @classmethod
    def setUpClass(cls):
        if OwnCluster._shared is None or OwnCluster._shared[0] != cls.__module__:
            OwnCluster._shared = (cls.__module__, *cls.set_up_all(unittest.addModuleCleanup))
        _, cls.cluster, cls.mover, cls.proxy, cls.plain = OwnCluster._shared

    @classmethod
    def set_up_all(cls, add_cleanup):
        cluster = Cluster(masters=3, options=PATIENT)
        add_cleanup(cluster.stop)
        mover = Mover(cluster)
        add_cleanup(mover.close)
        proxy = Proxy(cluster.seeds, cls.SETTINGS)
        add_cleanup(proxy.stop_cleanly)
        return cluster, mover, proxy, start_plain_server(add_cleanup)

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
        got = (client or self.client).pipeline_raw(commands)
        wanted = self.direct.pipeline_raw(commands)
        for command, one, other in zip(commands, got, wanted):
            self.assertEqual(one, other, command)

    def redirects_of_reading(self, names, clients):
        """Each client reads keys that have their names as values; how many redirects it took."""
        before = self.cluster.redirects()
        for client in clients:
            self.assertEqual(client.pipeline([("GET", name) for name in names]),
                             [name.encode() for name in names])
        return self.cluster.redirects() - before

    def check_that_redirects_end(self, names):
        """Once slots stay where they are, every read goes straight to the owner."""
        clients = [self.connect() for _ in range(6)]
        wait_until(lambda: self.redirects_of_reading(names, clients) == 0, 60,
                   what="redirects to end")
        self.assertEqual([self.redirects_of_reading(names, clients) for _ in range(2)], [0, 0])
