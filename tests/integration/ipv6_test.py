# SPDX-License-Identifier: Apache-2.0
"""Addresses with many colons: nodes, seeds and clients on IPv6."""
import unittest

from support import PATIENT, QUIET, Cluster, Connection, Proxy, slot_of
from support.moving import Mover
from support.ports import free_port


class IPv6(unittest.TestCase):
    def test_moved_and_ask_to_nodes_on_ipv6_are_followed(self):
        """R-12: the address in a redirect was split at its first colon."""
        with Cluster(masters=3, options=PATIENT, host="::1") as own:
            mover = Mover(own)
            self.addCleanup(mover.close)
            with Proxy(own.seeds[:1], QUIET) as in_front:
                self.use_while_a_slot_moves(own, mover, in_front)

    def use_while_a_slot_moves(self, own, mover, in_front):
        slot, source, target = slot_of("{t2}"), own.nodes[0], own.nodes[2]
        with in_front.connect() as client:
            self.assertEqual(client.call("MSET", "{t0}a", 0, "{t1}a", 1, "{t2}a", 2), "OK")
            mover.begin(slot, target)
            self.assertEqual(client.call("SET", "{t2}new", "asked"), "OK")
            with target.connect() as direct:
                self.assertEqual(direct.pipeline([("ASKING",), ("GET", "{t2}new")])[1], b"asked")
            self.assertGreater(in_front.counter("ask"), 0)
            mover.finish(slot)
            self.assertEqual(client.pipeline([("GET", "{t2}a"), ("GET", "{t2}new")]),
                             [b"2", b"asked"])
            self.assertGreater(in_front.counter("moved"), 0)
            moved = source.call("GET", "{t2}a")
            self.assertEqual(moved, f"MOVED {slot} ::1:{target.port}")
            self.assertEqual(client.call("MGET", "{t0}a", "{t1}a", "{t2}a"), [b"0", b"1", b"2"])


class ClientsOnIPv6(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(masters=1)
        cls.addClassCleanup(cls.cluster.stop)

    def test_a_proxy_on_ipv6_announces_its_address_without_brackets(self):
        """R-12: cluster clients were given an address in brackets, which they cannot dial."""
        port = free_port()
        settings = {"server.listen": [f"127.0.0.1:{port}", f"[::1]:{port}"],
                    "server.announce": "[::1]:7379"}
        with Proxy(self.cluster.seeds, settings, wait=False) as proxy:
            for host in ("127.0.0.1", "::1"):
                self.check_announced(proxy, port, host, 7379)

    def test_a_client_that_dialled_ipv6_is_told_the_address_it_dialled(self):
        """R-12: a client that had come by IPv6 was sent elsewhere by CLUSTER SLOTS."""
        port = free_port()
        settings = {"server.listen": [f"[::1]:{port}"]}
        with Proxy(self.cluster.seeds, settings, wait=False) as proxy:
            self.check_announced(proxy, port, "::1", port)

    def check_announced(self, proxy, port, host, announced):
        """A client that dials host and port is told ::1 and the port that is announced."""
        proxy.wait_ready(host=host, port=port)
        with Connection(port, host) as client:
            self.assertEqual(client.call("SET", "k", host), "OK")
            self.assertEqual(client.call("CLUSTER", "SLOTS")[0][2][:2], [b"::1", announced])
            self.assertIn(b" ::1:%d@" % announced, client.call("CLUSTER", "NODES"))


if __name__ == "__main__":
    unittest.main()
