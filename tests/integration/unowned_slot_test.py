"""A slot that no node owns: what fails, what does not, and what it takes to recover."""
import time
import unittest

from support import Cluster, Error, Proxy, slot_of, wait_until
from testbed import PATIENT, stop_cleanly


class UnownedSlot(unittest.TestCase):
    HOLE = slot_of("{t2}")
    SETTINGS = {"backend.retry_deadline": "1s", "cluster.refresh_interval": "1s"}
    NOT_SERVED = "CLUSTERDOWN Hash slot not served"

    def open_hole(self, full_coverage):
        own = Cluster(masters=3,
                      options=[*PATIENT, "--cluster-require-full-coverage", full_coverage])
        self.addCleanup(own.stop)
        in_front = Proxy(own.seeds, self.SETTINGS)
        self.addCleanup(stop_cleanly, in_front)
        client = in_front.connect(timeout=60)
        self.addCleanup(client.close)
        self.assertEqual(client.call("MSET", "{t0}x", 0, "{t1}x", 1, "{t2}x", 2), "OK")
        for node in own.nodes:
            node.call("CLUSTER", "DELSLOTS", self.HOLE)
        state = "fail" if full_coverage == "yes" else "ok"
        for node in own.nodes:
            wait_until(lambda n=node: own.cluster_info(n)["cluster_state"] == state and
                       own.cluster_info(n)["cluster_slots_assigned"] == "16383")
        return own, in_front, client

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
        self.assertLess(time.monotonic() - start, 60)
        refreshes = in_front.counter("topology_refreshes")
        start = time.monotonic()
        while time.monotonic() - start < 2:
            self.assertIsInstance(client.call(*command), Error)
        refreshes = in_front.counter("topology_refreshes") - refreshes
        self.assertLess(refreshes / (time.monotonic() - start), 15, "an endless refresh loop")

    def assert_recovers(self, own, client, owner):
        self.assertEqual(owner.call("CLUSTER", "ADDSLOTS", self.HOLE), "OK")
        own.wait_ok()
        wait_until(lambda: client.call("SET", "{t2}x", "back") == "OK", 30,
                   what="the slot to be served again")
        wait_until(lambda: client.call("MGET", "{t0}x", "{t1}x", "{t2}x") == [b"0", b"1", b"back"],
                   30, what="all slots to be served again")
        self.assertEqual(owner.call("GET", "{t2}x"), b"back")

    def test_R_16_with_full_coverage_required_keyed_commands_fail_until_the_slot_is_back(self):
        own, in_front, client = self.open_hole("yes")
        self.assertEqual(own.nodes[0].call("GET", "{t2}x"), self.NOT_SERVED)
        self.assertEqual(client.call("GET", "{t2}x"), self.NOT_SERVED)
        self.assertEqual(own.nodes[1].call("GET", "{t1}x"), "CLUSTERDOWN The cluster is down")
        self.assertEqual(client.call("GET", "{t1}x"), "CLUSTERDOWN The cluster is down")
        self.assertEqual(client.call("SET", "{t0}x", "1"), "CLUSTERDOWN The cluster is down")
        both = client.call("MGET", "{t2}x", "{t1}x")
        self.assertEqual((type(both), both.code), (Error, "CLUSTERDOWN"))
        self.assert_keyless_commands_work(client)
        self.assert_fails_fast(in_front, client, "GET", "{t1}x")
        self.assert_keyless_commands_work(client)
        self.assert_recovers(own, client, own.nodes[0])

    def test_R_16_without_full_coverage_only_the_slot_itself_fails(self):
        own, in_front, client = self.open_hole("no")
        self.assertEqual(client.call("GET", "{t2}x"), self.NOT_SERVED)
        self.assertEqual(client.call("SET", "{t2}x", "1"), self.NOT_SERVED)
        both = client.call("MGET", "{t2}x", "{t1}x")
        self.assertEqual((type(both), both.code), (Error, "CLUSTERDOWN"))
        self.assertEqual(client.call("MGET", "{t0}x", "{t1}x"), [b"0", b"1"])
        self.assert_keyless_commands_work(client)
        self.assert_fails_fast(in_front, client, "GET", "{t2}x")
        self.assertEqual(client.pipeline([("GET", "{t1}x"), ("GET", "{t2}x"), ("GET", "{t0}x")]),
                         [b"1", self.NOT_SERVED, b"0"])
        self.assert_recovers(own, client, own.nodes[2])

    def test_R_16_a_proxy_that_starts_while_a_slot_has_no_owner_serves_the_others(self):
        own, _, _ = self.open_hole("no")
        with Proxy(own.seeds, self.SETTINGS, wait=False) as late:
            wait_until(lambda: self.answers(late), what="the late proxy to answer")
            with late.connect(timeout=60) as client:
                wait_until(lambda: client.call("GET", "{t1}x") == b"1",
                           what="the other slots to be served")
                self.assertEqual(client.call("GET", "{t2}x"), self.NOT_SERVED)
                self.assert_keyless_commands_work(client)
                self.assert_recovers(own, client, own.nodes[0])

    @staticmethod
    def answers(late):
        try:
            return late.call("PING") == "PONG"
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
