"""Addresses with many colons: nodes, seeds and clients on IPv6."""
import unittest

from support import Cluster, Connection, Proxy, slot_of, wait_until
from support.cluster import free_ports
from testbed import PATIENT


def is_ready(port, host="127.0.0.1"):
    """Whether the proxy says that its cluster can be used."""
    try:
        with Connection(port, host) as client:
            return b"cluster_state:ok" in client.call("CLUSTER", "INFO")
    except OSError:
        return False


class IPv6(unittest.TestCase):
    def test_R_12_moved_and_ask_to_nodes_on_ipv6_are_followed(self):
        with Cluster(masters=3, options=PATIENT, host="::1") as own:
            seed = f"[::1]:{own.nodes[0].port}"
            with Proxy([seed], {"cluster.refresh_interval": "1h"}) as in_front:
                self.use_while_a_slot_moves(own, in_front)

    def use_while_a_slot_moves(self, own, in_front):
        slot, source, target = slot_of("{t2}"), own.nodes[0], own.nodes[2]
        with in_front.connect() as client:
            self.assertEqual(client.call("MSET", "{t0}a", 0, "{t1}a", 1, "{t2}a", 2), "OK")
            own.begin_migration(slot, target)
            self.assertEqual(client.call("SET", "{t2}new", "asked"), "OK")
            with target.connect() as direct:
                self.assertEqual(direct.pipeline([("ASKING",), ("GET", "{t2}new")])[1], b"asked")
            self.assertGreater(in_front.counter("ask"), 0)
            own.finish_migration(slot, source, target)
            self.assertEqual(client.pipeline([("GET", "{t2}a"), ("GET", "{t2}new")]),
                             [b"2", b"asked"])
            self.assertGreater(in_front.counter("moved"), 0)
            moved = source.call("GET", "{t2}a")
            self.assertEqual(moved, f"MOVED {slot} ::1:{target.port}")
            self.assertEqual(client.call("MGET", "{t0}a", "{t1}a", "{t2}a"), [b"0", b"1", b"2"])

    def test_R_12_a_proxy_on_ipv6_announces_its_address_without_brackets(self):
        with Cluster(masters=1) as own:
            port = free_ports(1)[0]
            settings = {"server.listen": [f"127.0.0.1:{port}", f"[::1]:{port}"],
                        "server.announce": "[::1]:7379"}
            with Proxy(own.seeds, settings, wait=False):
                for host in ("127.0.0.1", "::1"):
                    self.check_announced(port, host, 7379)

    def test_R_12_a_client_that_dialled_ipv6_is_told_the_address_it_dialled(self):
        with Cluster(masters=1) as own:
            port = free_ports(1)[0]
            with Proxy(own.seeds, {"server.listen": [f"[::1]:{port}"]}, wait=False):
                self.check_announced(port, "::1", port)

    def check_announced(self, port, host, announced):
        """A client that dials host and port is told ::1 and the port that is announced."""
        wait_until(lambda: is_ready(port, host), what="the proxy to serve")
        with Connection(port, host) as client:
            self.assertEqual(client.call("SET", "k", host), "OK")
            self.assertEqual(client.call("CLUSTER", "SLOTS")[0][2][:2], [b"::1", announced])
            self.assertIn(b" ::1:%d@" % announced, client.call("CLUSTER", "NODES"))


if __name__ == "__main__":
    unittest.main()
