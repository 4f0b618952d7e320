# SPDX-License-Identifier: Apache-2.0
"""A connection to a node is cut: writes run at most once, reads and unsent requests go on."""
import os
import random
import threading
import time
import unittest

from support import QUIET, Cluster, Error, Proxy, encode, wait_until
from support.load import run_at_once
from support.relay import Relay
from support.slots import shard_key


class CutConnections(unittest.TestCase):
    """A relay before one node loses requests or replies."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3)
        cls.addClassCleanup(cls.cluster.stop)
        cls.node = cls.cluster.nodes[0]
        # A large request does not disappear into the socket of a relay that does not read.
        cls.relay = Relay(cls.node.port, receive_buffer=1 << 16)
        cls.addClassCleanup(cls.relay.close)
        cls.cluster.announce(cls.node, cls.relay.port)
        cls.key = shard_key(0)

    def setUp(self):
        self.node.call("FLUSHALL")
        self.proxy = Proxy(self.cluster.seeds[1:], QUIET)
        self.addCleanup(self.proxy.stop_cleanly)
        self.addCleanup(self.relay.pass_everything)

    def cut_reply_to(self, word):
        """The node runs the next request that has `word` in it; its reply is lost with the line."""
        seen = threading.Event()

        def on_request(data):
            if word in data:
                seen.set()
            return data

        def on_reply(data):
            if not seen.is_set():
                return data
            self.relay.pass_everything()
            return None

        self.relay.on_request, self.relay.on_reply = on_request, on_reply

    def cut_before(self, word):
        """The line breaks when the next request that has `word` in it comes; nobody runs it."""
        def on_request(data):
            if word not in data:
                return data
            self.relay.pass_everything()
            return None

        self.relay.on_request = on_request

    def writes(self):
        """Writes that show in their key when they ran more than once."""
        script = "return redis.call('INCR', KEYS[1])"
        return [("incr", ("INCR", self.key), lambda: self.node.call("GET", self.key), b"1"),
                ("lpush", ("LPUSH", self.key, "a"), lambda: self.node.call("LLEN", self.key), 1),
                ("eval", ("EVAL", script, 1, self.key),
                 lambda: self.node.call("GET", self.key), b"1"),
                ("append", ("APPEND", self.key, "a"), lambda: self.node.call("GET", self.key),
                 b"a"),
                ("rename", ("RENAME", "{%s}" % self.key, "{%s}b" % self.key),
                 lambda: self.node.call("GET", "{%s}b" % self.key), b"x")]

    def test_a_write_whose_reply_was_lost_is_never_sent_again(self):
        """F-13: a counter was incremented twice because the first reply was lost."""
        with self.proxy.connect() as client:
            for name, command, result, once in self.writes():
                with self.subTest(command=name):
                    self.node.call("FLUSHALL")
                    self.node.call("SET", "{%s}" % self.key, "x")
                    ran = self.node.calls(name)
                    self.assertIsNotNone(client.call("EXISTS", self.key))
                    self.cut_reply_to(self.key.encode())
                    reply = client.call(*command)
                    self.assertIsInstance(reply, Error)
                    self.assertIn("may have run", reply)
                    self.assertIn(f"127.0.0.1:{self.relay.port}", reply, "the shard is named")
                    # What the same client asks next goes out on the new connection.
                    self.assertEqual(client.call("EXISTS", "{%s}other" % self.key), 0)
                    self.assertEqual(result(), once)
                    self.assertEqual(self.node.calls(name), ran + 1)
        self.assertEqual(self.proxy.counter("outcome_unknown"), len(self.writes()))

    def test_a_write_that_was_cut_off_before_the_node_saw_it_is_not_sent_again(self):
        """F-13: nobody can know whether a request that was sent has run, and it was repeated."""
        with self.proxy.connect() as client:
            for name, command, _, _ in self.writes():
                with self.subTest(command=name):
                    self.node.call("FLUSHALL")
                    ran = self.node.calls(name)
                    self.assertIsNotNone(client.call("EXISTS", self.key))
                    self.cut_before(self.key.encode())
                    reply = client.call(*command)
                    self.assertIsInstance(reply, Error)
                    self.assertIn("may have run", reply)
                    self.assertEqual(client.call("EXISTS", "{%s}other" % self.key), 0)
                    self.assertEqual(self.node.calls(name), ran)

    def test_parts_of_a_split_write_are_not_sent_again_either(self):
        """F-13: MSET over two shards ran twice on the one whose reply was lost."""
        other = shard_key(1)
        with self.proxy.connect() as client:
            self.assertEqual(client.call("MSET", self.key, "0", other, "0"), "OK")
            ran = self.node.calls("mset")
            self.cut_reply_to(self.key.encode())
            reply = client.call("MSET", self.key, "1", other, "1")
            self.assertIsInstance(reply, Error)
            self.assertIn("may have run", reply)
            self.assertEqual(client.call("MGET", self.key, other), [b"1", b"1"])
        self.assertEqual(self.node.calls("mset"), ran + 1)

    def test_a_read_whose_connection_was_cut_is_answered(self):
        """F-13: a read failed that could simply have been asked again."""
        other = shard_key(1)
        with self.proxy.connect() as client:
            self.assertEqual(client.call("MSET", self.key, "one", other, "two"), "OK")
            reads = [(("GET", self.key), b"one"), (("STRLEN", self.key), 3),
                     (("MGET", self.key, other), [b"one", b"two"]),
                     (("EXISTS", self.key, other), 2)]
            for cut in (self.cut_reply_to, self.cut_before):
                for command, value in reads:
                    with self.subTest(command=command, cut=cut.__name__):
                        cut(self.key.encode())
                        self.assertEqual(client.call(*command), value)
        self.assertEqual(self.proxy.counter("outcome_unknown"), 0)

    def test_a_counter_is_between_acknowledged_and_uncertain_increments(self):
        """F-13: a counter was higher than all increments together, errors included."""
        cuts = random.Random(13)
        self.relay.on_request = lambda data: data if cuts.random() > 0.02 else None
        self.relay.on_reply = lambda data: data if cuts.random() > 0.02 else None
        results = []

        def increment():
            with self.proxy.connect(60) as client:
                for _ in range(30):
                    results.extend(client.pipeline([("INCR", self.key)] * 10))

        run_at_once(*[increment] * 8)
        self.relay.pass_everything()
        self.assertEqual(len(results), 2400)
        done = [reply for reply in results if not isinstance(reply, Error)]
        uncertain = [reply for reply in results
                     if isinstance(reply, Error) and "may have run" in reply]
        self.assertGreater(len(uncertain), 0)
        self.assertEqual(len(set(done)), len(done), "one increment was answered twice")
        count = int(self.node.call("GET", self.key))
        self.assertGreaterEqual(count, len(done))
        self.assertLessEqual(count, len(done) + len(uncertain))

    def test_requests_that_were_never_sent_wait_for_the_new_connection(self):
        """F-13: requests failed although they had not even been sent when the line broke."""
        refused = []

        def refuse_handshake(data):
            refused.append(data)

        with self.proxy.connect() as client, self.proxy.connect() as second:
            self.assertEqual(client.call("SET", self.key, "0"), "OK")
            self.relay.on_request = refuse_handshake
            self.relay.cut()
            client.send(encode("INCR", self.key) * 50)
            second.send(encode("APPEND", "{%s}text" % self.key, "a") * 50)
            wait_until(lambda: self.proxy.in_flight() == 100, what="the requests to wait")
            wait_until(lambda: len(refused) > 2, what="new connections to be tried in vain")
            self.relay.pass_everything()
            self.assertEqual([client.read() for _ in range(50)], list(range(1, 51)))
            self.assertEqual([second.read() for _ in range(50)], list(range(1, 51)))

    def test_a_request_that_was_cut_in_the_middle_is_sent_again_whole(self):
        """F-13: a large SET failed when its line broke in the middle of it."""
        value = os.urandom(1 << 20) * 16  # more than the sockets on the way can hold
        taken = threading.Event()

        def on_request(data):
            if b"$%d" % len(value) not in data:
                return data
            taken.set()
            time.sleep(0.5)
            self.relay.pass_everything()
            return None

        with self.proxy.connect() as client:
            self.assertEqual(client.call("EXISTS", self.key), 0)
            self.relay.on_request = on_request
            client.send(encode("SET", self.key, value) + encode("APPEND", self.key, "x"))
            self.assertTrue(taken.wait(60))
            self.assertEqual(client.read(), "OK")
            self.assertEqual(client.read(), len(value) + 1)
        self.assertEqual(self.node.call("GET", self.key), value + b"x")

    def test_half_a_reply_is_never_passed_off_as_a_whole_one(self):
        """F-13: half a value, filled up with what came next, was given to a client."""
        value = b"v" * (8 << 20)
        self.node.call("SET", self.key, value)
        seen = [0]

        def on_reply(data):
            seen[0] += len(data)
            if seen[0] < 1 << 20:
                return data
            self.relay.pass_everything()
            return None

        with self.proxy.connect() as client:
            self.assertEqual(client.call("EXISTS", self.key), 1)
            self.relay.on_reply = on_reply
            # Bytes that were passed on cannot be taken back: the connection ends, or all is well.
            try:
                self.assertEqual(client.call("GET", self.key), value)
            except ConnectionError:
                pass
        self.assertGreaterEqual(seen[0], 1 << 20)
        self.assertEqual(self.proxy.call("GET", self.key), value)


if __name__ == "__main__":
    unittest.main()
