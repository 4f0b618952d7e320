# SPDX-License-Identifier: Apache-2.0
"""A slot that no node owns: what fails, what does not, and what it takes to recover."""
import time
import unittest

from support import PATIENT, Cluster, Error, Proxy, slot_of, wait_until


class UnownedSlot(unittest.TestCase):
    HOLE = slot_of("{t2}")
    SETTINGS = {"backend.retry_deadline": "1s", "cluster.refresh_interval": "1s"}
    NOT_SERVED = "CLUSTERDOWN Hash slot not served"

    @classmethod
    def setUpClass(cls):
        cls.own = Cluster(masters=3, options=PATIENT)
        cls.addClassCleanup(cls.own.stop)

    def setUp(self):
        self.addCleanup(self.close_hole)

    def open_hole(self, full_coverage):
        """From now on no node owns the slot; a proxy that knew it before, and a client of it."""
        for node in self.own.nodes:
            node.call("CONFIG", "SET", "cluster-require-full-coverage", full_coverage)
        in_front = Proxy(self.own.seeds, self.SETTINGS)
        self.addCleanup(in_front.stop_cleanly)
        client = in_front.connect(timeout=60)
        self.addCleanup(client.close)
        self.assertEqual(client.call("MSET", "{t0}x", 0, "{t1}x", 1, "{t2}x", 2), "OK")
        state = "fail" if full_coverage == "yes" else "ok"
        wait_until(lambda: all([self.gave_it_up(node, state) for node in self.own.nodes]),
                   what="the nodes to know that the slot has no owner")
        return in_front, client

    def gave_it_up(self, node, state):
        if node.cluster_info("cluster_slots_assigned") != "16383":
            # Once more where another node's older message came in between.
            node.call("CLUSTER", "DELSLOTS", self.HOLE)
        return node.cluster_info("cluster_slots_assigned") == "16383" and \
            node.cluster_info("cluster_state") == state

    def close_hole(self):
        """The first node owns the slot, whoever did at the end of the test."""
        for node in self.own.nodes:
            node.call("CLUSTER", "DELSLOTS", self.HOLE)
        self.give_hole_to(self.own.nodes[0])

    def give_hole_to(self, owner):
        self.assertEqual(owner.call("CLUSTER", "ADDSLOTS", self.HOLE), "OK")
        for node in self.own.nodes:
            wait_until(lambda: node.cluster_info("cluster_slots_assigned") == "16384",
                       what="the nodes to know the slot's owner")
        self.own.wait_ok()

    def assert_keyless_commands_work(self, client):
        self.assertEqual(client.call("PING"), "PONG")
        self.assertEqual(client.pipeline([("EVAL", "return 7", 0)] * 20), [7] * 20)
        self.assertEqual(client.call("PUBLISH", "nobody", "x"), 0)

    def assert_fails_fast(self, in_front, client, *command):
        """A thousand refusals, which would take minutes if each of them waited."""
        start = time.monotonic()
        for _ in range(10):
            for reply in client.pipeline([command] * 100):
                self.assertEqual(getattr(reply, "code", reply), "CLUSTERDOWN", reply)
            self.assertLess(time.monotonic() - start, 60, "each of them waits")
        refreshes = in_front.counter("topology_refreshes")
        start = time.monotonic()
        while time.monotonic() - start < 2:
            self.assertIsInstance(client.call(*command), Error)
        refreshes = in_front.counter("topology_refreshes") - refreshes
        self.assertLess(refreshes / (time.monotonic() - start), 15, "an endless refresh loop")

    def assert_recovers(self, client, owner):
        self.give_hole_to(owner)
        wait_until(lambda: client.call("SET", "{t2}x", "back") == "OK",
                   what="the slot to be served again")
        wait_until(lambda: client.call("MGET", "{t0}x", "{t1}x", "{t2}x") == [b"0", b"1", b"back"],
                   what="all slots to be served again")
        self.assertEqual(owner.call("GET", "{t2}x"), b"back")

    def test_with_full_coverage_required_keyed_commands_fail_until_the_slot_is_back(self):
        """R-16: one slot without an owner made the proxy useless until a restart."""
        in_front, client = self.open_hole("yes")
        self.assertEqual(self.own.nodes[0].call("GET", "{t2}x"), self.NOT_SERVED)
        self.assertEqual(client.call("GET", "{t2}x"), self.NOT_SERVED)
        self.assertEqual(self.own.nodes[1].call("GET", "{t1}x"), "CLUSTERDOWN The cluster is down")
        self.assertEqual(client.call("GET", "{t1}x"), "CLUSTERDOWN The cluster is down")
        self.assertEqual(client.call("SET", "{t0}x", "1"), "CLUSTERDOWN The cluster is down")
        both = client.call("MGET", "{t2}x", "{t1}x")
        self.assertEqual((type(both), both.code), (Error, "CLUSTERDOWN"))
        self.assert_keyless_commands_work(client)
        self.assert_fails_fast(in_front, client, "GET", "{t1}x")
        self.assert_keyless_commands_work(client)
        self.assert_recovers(client, self.own.nodes[0])

    def test_without_full_coverage_only_the_slot_itself_fails(self):
        """R-16: one slot without an owner made requests for all others fail."""
        in_front, client = self.open_hole("no")
        self.assertEqual(client.call("GET", "{t2}x"), self.NOT_SERVED)
        self.assertEqual(client.call("SET", "{t2}x", "1"), self.NOT_SERVED)
        both = client.call("MGET", "{t2}x", "{t1}x")
        self.assertEqual((type(both), both.code), (Error, "CLUSTERDOWN"))
        self.assertEqual(client.call("MGET", "{t0}x", "{t1}x"), [b"0", b"1"])
        self.assert_keyless_commands_work(client)
        self.assert_fails_fast(in_front, client, "GET", "{t2}x")
        self.assertEqual(client.pipeline([("GET", "{t1}x"), ("GET", "{t2}x"), ("GET", "{t0}x")]),
                         [b"1", self.NOT_SERVED, b"0"])
        self.assert_recovers(client, self.own.nodes[2])

    def test_a_proxy_that_starts_while_a_slot_has_no_owner_serves_the_others(self):
        """R-16: a proxy did not start because one slot had no owner."""
        self.open_hole("no")
        with Proxy(self.own.seeds, self.SETTINGS, wait=False) as late:
            wait_until(late.answers_ping, what="the late proxy to answer")
            with late.connect(timeout=60) as client:
                wait_until(lambda: client.call("GET", "{t1}x") == b"1",
                           what="the other slots to be served")
                self.assertEqual(client.call("GET", "{t2}x"), self.NOT_SERVED)
                self.assert_keyless_commands_work(client)
                self.assert_recovers(client, self.own.nodes[0])


if __name__ == "__main__":
    unittest.main()
