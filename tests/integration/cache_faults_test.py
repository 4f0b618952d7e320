# SPDX-License-Identifier: Apache-2.0
"""The reply cache while connections die, nodes hang and masters fail over."""
import signal
import time
import unittest

from support import Cluster, Proxy
from support.caching import BROADCAST, KINDS, OPTIN, Cached, counter, is_kept, keep
from support.coherence import is_feed, is_tracked, kill_connections
from support.relay import RelayedCluster
from support.resp import encode
from support.wait import wait_until

KEY = "{t2}k"


class LostConnections(Cached):
    def check_change_after_killing(self, wanted):
        for proxy, client, _ in self.each_kind():
            node = self.cluster.owner_of(KEY)
            for number in range(5):
                node.call("SET", KEY, number)
                keep(proxy, client, "GET", KEY)
                self.assertGreater(kill_connections(node, wanted), 0)
                node.call("SET", KEY, "changed")
                wait_until(lambda c=client: c.call("GET", KEY) == b"changed", 5, 0.002,
                           "the change to be seen")
            keep(proxy, client, "GET", KEY)

    def test_the_connection_that_read_a_key_is_gone_and_the_key_changes(self):
        """C-14: the node forgets what a closed connection read, and announces nothing."""
        self.check_change_after_killing(is_tracked)

    def test_the_feed_is_gone_and_the_key_changes(self):
        """The other of the two connections."""
        self.check_change_after_killing(is_feed)

    def test_a_node_that_hangs_is_not_served_from_memory_for_ever(self):
        """A cut network: nobody can tell what changed meanwhile, so serving stops in time."""
        for proxy, client, _ in self.each_kind({"reply_cache.max_staleness": "400ms"}):
            node = self.cluster.owner_of(KEY)
            node.call("SET", KEY, "1")
            keep(proxy, client, "GET", KEY)
            node.process.send_signal(signal.SIGSTOP)
            try:
                time.sleep(0.8)
                before = counter(proxy, "hits")
                client.send(encode("GET", KEY))
                time.sleep(0.2)
                self.assertEqual(counter(proxy, "hits"), before)
            finally:
                node.process.send_signal(signal.SIGCONT)
            self.assertEqual(client.read(), b"1")
            keep(proxy, client, "GET", KEY)


class TimesToLive(Cached):
    def setUp(self):
        super().setUp()
        for node in self.cluster.nodes:
            self.assertEqual(node.call("DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK")
            self.addCleanup(node.call, "DEBUG", "SET-ACTIVE-EXPIRE", 1)

    def test_a_value_does_not_outlive_its_key(self):
        """C-10: nobody tells that a key expired until somebody touches it."""
        for proxy, client, other in self.each_kind():
            node = self.direct(KEY)
            node.call("SET", KEY, "warm")
            for each in (client, other):
                keep(proxy, each, "GET", KEY)
            for write in (("SET", KEY, "v", "PX", 400), ("PSETEX", KEY, 400, "v"),
                          ("SET", KEY, "v", "EX", 1)):
                for writer in (client, node):
                    writer.call(*write)
                    deadline = time.monotonic() + (1 if "EX" in write else 0.4)
                    while time.monotonic() < deadline - 0.15:
                        self.assertEqual(client.call("GET", KEY), b"v")
                    time.sleep(max(0, deadline + 0.01 - time.monotonic()))
                    self.assertIsNone(client.call("GET", KEY))
                    self.assertIsNone(other.call("GET", KEY))

    def test_a_time_to_live_that_changes_later_counts(self):
        """C-10: EXPIRE after the value was kept, and PERSIST."""
        for proxy, client, _ in self.each_kind():
            node = self.direct(KEY)
            for writer in (client, node):
                writer.call("SET", KEY, "v")
                keep(proxy, client, "GET", KEY)
                writer.call("PEXPIRE", KEY, 300)
                time.sleep(0.35)
                self.assertIsNone(client.call("GET", KEY))
                writer.call("SET", KEY, "v", "PX", 400)
                keep(proxy, client, "GET", KEY)
                writer.call("PERSIST", KEY)
                time.sleep(0.5)
                self.assertEqual(client.call("GET", KEY), b"v")

    def test_nothing_is_served_for_longer_than_max_age(self):
        """The backstop: whatever the nodes announce."""
        for proxy, client, _ in self.each_kind({"reply_cache.max_age": "300ms"}):
            self.direct(KEY).call("SET", KEY, "v")
            keep(proxy, client, "GET", KEY)
            time.sleep(0.35)
            self.assertFalse(is_kept(proxy, client, "GET", KEY))


class SlowReplies(unittest.TestCase):
    def test_a_change_that_overtakes_the_reply_is_not_lost(self):
        """C-01: the value of before the change was kept, after the change was announced."""
        cluster = RelayedCluster(3)
        self.addCleanup(cluster.stop)
        for settings in (BROADCAST, OPTIN):
            with Proxy(cluster.seeds, settings) as proxy, proxy.connect() as client:
                node = cluster.cluster.nodes[0]
                relay = cluster.relays[0]
                node.call("SET", KEY, "warm")
                keep(proxy, client, "GET", KEY)
                fills = 0
                for number in range(40):
                    key = f"{{t2}}{number}"
                    node.call("SET", key, "old")

                    def late(data):
                        if b"$3\r\nold" in data:  # not what the feed says
                            time.sleep(0.05)
                        return data

                    relay.on_reply = late
                    client.send(encode("GET", key))
                    time.sleep(0.01)
                    node.call("SET", key, "new")
                    self.assertIn(client.read(), (b"old", b"new"))
                    relay.pass_everything()
                    fills += client.call("GET", key) == b"new"
                self.assertEqual(fills, 40)
                self.assertGreater(counter(proxy, "void_fills"), 20)


class Failover(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(3, 3)
        self.addCleanup(self.cluster.stop)
        self.cluster.wait_for_one_map()

    def warm(self, proxy, client):
        client.call("SET", KEY, "old")
        keep(proxy, client, "GET", KEY)
        return self.cluster.owner_of(KEY)

    def check_new_value_is_seen(self, client, promoted, limit):
        wait_until(lambda: promoted.call("SET", KEY, "new") == "OK", what="the write")
        wait_until(lambda: client.call("GET", KEY) == b"new", limit, 0.005, "the new value")

    def test_a_master_is_demoted_with_a_warm_cache(self):
        """C-11: it goes on announcing, with the delay of its replication, or not at all. A probe
        finds out within max_staleness; without one it would be max_age, 10 s."""
        for settings in (KINDS["broadcast"], KINDS["opt-in, shared pipes"]):
            with Proxy(self.cluster.seeds, settings) as proxy, proxy.connect() as client:
                master = self.warm(proxy, client)
                while self.cluster.owner_of(KEY) is master:  # now and then a failover is undone
                    self.cluster.fail_over(master)
                    self.cluster.wait_for_one_map()
                self.check_new_value_is_seen(client, self.cluster.owner_of(KEY), 8)
                keep(proxy, client, "GET", KEY)

    def test_a_master_is_killed_with_a_warm_cache(self):
        """C-11: what was written on the new master has to be seen."""
        with Proxy(self.cluster.seeds, BROADCAST) as proxy, proxy.connect() as client:
            master = self.warm(proxy, client)
            promoted = self.cluster.replica_of(master)
            wait_until(lambda: promoted.info()["master_link_status"] == "up",
                       what="the replica to have its data")
            master.kill()
            promoted.call("CLUSTER", "FAILOVER", "TAKEOVER")
            wait_until(promoted.is_master, what="the replica to take over")
            self.check_new_value_is_seen(client, promoted, 20)
            keep(proxy, client, "GET", KEY)


if __name__ == "__main__":
    unittest.main()
