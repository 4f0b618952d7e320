"""A connection to a node is cut: writes run at most once, reads and unsent requests go on."""
import os
import random
import socket
import threading
import time
import unittest

from faults import QUIET, Gate, announce, calls, shard_key
from support import Cluster, Error, Proxy, encode, wait_until


class AtMostOnce:
    """A relay before one node loses requests or replies; run once for each event loop."""

    engine = "auto"

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(3)
        cls.node = cls.cluster.nodes[0]
        cls.relay = Gate(cls.node.port)
        # A large request does not disappear into the socket of a relay that does not read.
        cls.relay._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        announce(cls.cluster, cls.node, cls.relay.port)
        cls.key = shard_key(0)

    @classmethod
    def tearDownClass(cls):
        cls.relay.close()
        cls.cluster.stop()

    def setUp(self):
        self.node.call("FLUSHALL")
        self.proxy = Proxy(self.cluster.seeds[1:], {**QUIET, "io.engine": self.engine})
        self.addCleanup(self.stop_proxy)

    def stop_proxy(self):
        self.pass_everything()
        self.assertEqual(self.proxy.stop(), 0, self.proxy.log_text())

    def pass_everything(self):
        self.relay.on_request = self.relay.on_reply = lambda data: data

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
            self.pass_everything()
            return None

        self.relay.on_request, self.relay.on_reply = on_request, on_reply

    def cut_before(self, word):
        """The line breaks when the next request that has `word` in it comes; nobody runs it."""
        def on_request(data):
            if word not in data:
                return data
            self.pass_everything()
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

    def test_F_13_a_write_whose_reply_was_lost_is_never_sent_again(self):
        with self.proxy.connect() as client:
            for name, command, result, once in self.writes():
                with self.subTest(command=name):
                    self.node.call("FLUSHALL")
                    self.node.call("SET", "{%s}" % self.key, "x")
                    ran = calls(self.node, name)
                    self.assertIsNotNone(client.call("EXISTS", self.key))
                    self.cut_reply_to(self.key.encode())
                    reply = client.call(*command)
                    self.assertIsInstance(reply, Error)
                    self.assertIn("may have run", reply)
                    self.assertIn(f"127.0.0.1:{self.relay.port}", reply, "the shard is named")
                    # What the same client asks next goes out on the new connection.
                    self.assertEqual(client.call("EXISTS", "{%s}other" % self.key), 0)
                    self.assertEqual(result(), once)
                    self.assertEqual(calls(self.node, name), ran + 1)
        self.assertEqual(self.proxy.counter("outcome_unknown"), len(self.writes()))

    def test_F_13_a_write_that_was_cut_off_before_the_node_saw_it_is_not_sent_again(self):
        with self.proxy.connect() as client:
            for name, command, _, _ in self.writes():
                with self.subTest(command=name):
                    self.node.call("FLUSHALL")
                    ran = calls(self.node, name)
                    self.assertIsNotNone(client.call("EXISTS", self.key))
                    self.cut_before(self.key.encode())
                    reply = client.call(*command)
                    self.assertIsInstance(reply, Error)
                    self.assertIn("may have run", reply)
                    self.assertEqual(client.call("EXISTS", "{%s}other" % self.key), 0)
                    self.assertEqual(calls(self.node, name), ran)

    def test_F_13_parts_of_a_split_write_are_not_sent_again_either(self):
        other = shard_key(1)
        with self.proxy.connect() as client:
            self.assertEqual(client.call("MSET", self.key, "0", other, "0"), "OK")
            ran = calls(self.node, "mset")
            self.cut_reply_to(self.key.encode())
            reply = client.call("MSET", self.key, "1", other, "1")
            self.assertIsInstance(reply, Error)
            self.assertIn("may have run", reply)
            self.assertEqual(client.call("MGET", self.key, other), [b"1", b"1"])
        self.assertEqual(calls(self.node, "mset"), ran + 1)

    def test_F_13_a_read_whose_connection_was_cut_is_answered(self):
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

    def test_F_13_a_counter_is_between_acknowledged_and_uncertain_increments(self):
        cuts = random.Random(13)
        self.relay.on_request = lambda data: data if cuts.random() > 0.02 else None
        self.relay.on_reply = lambda data: data if cuts.random() > 0.02 else None
        results = []

        def increment():
            with self.proxy.connect(60) as client:
                for _ in range(30):
                    results.extend(client.pipeline([("INCR", self.key)] * 10))

        threads = [threading.Thread(target=increment) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.pass_everything()
        self.assertEqual(len(results), 2400)
        done = [reply for reply in results if not isinstance(reply, Error)]
        uncertain = [reply for reply in results
                     if isinstance(reply, Error) and "may have run" in reply]
        self.assertGreater(len(uncertain), 0)
        self.assertEqual(len(set(done)), len(done), "one increment was answered twice")
        count = int(self.node.call("GET", self.key))
        self.assertGreaterEqual(count, len(done))
        self.assertLessEqual(count, len(done) + len(uncertain))

    def test_F_13_requests_that_were_never_sent_wait_for_the_new_connection(self):
        with self.proxy.connect() as client, self.proxy.connect() as second:
            self.assertEqual(client.call("SET", self.key, "0"), "OK")
            self.relay.on_request = lambda data: None  # every handshake is cut
            self.relay.cut()
            client.send(encode("INCR", self.key) * 50)
            second.send(encode("APPEND", "{%s}text" % self.key, "a") * 50)
            wait_until(lambda: self.waiting() == 100, what="the requests to wait")
            time.sleep(0.5)
            self.pass_everything()
            self.assertEqual([client.read() for _ in range(50)], list(range(1, 51)))
            self.assertEqual([second.read() for _ in range(50)], list(range(1, 51)))

    def waiting(self):
        """Requests that wait for a node, over all of them."""
        nodes = [text for name, text in self.proxy.info("backends").items()
                 if name.startswith("node")]
        return sum(int(text.split("in_flight=")[1].split(",")[0]) for text in nodes)

    def test_F_13_a_request_that_was_cut_in_the_middle_is_sent_again_whole(self):
        value = os.urandom(1 << 20) * 16  # more than the sockets on the way can hold
        taken = threading.Event()

        def on_request(data):
            if b"$%d" % len(value) not in data:
                return data
            taken.set()
            time.sleep(1)
            self.pass_everything()
            return None

        with self.proxy.connect() as client:
            self.assertEqual(client.call("EXISTS", self.key), 0)
            self.relay.on_request = on_request
            client.send(encode("SET", self.key, value) + encode("APPEND", self.key, "x"))
            self.assertTrue(taken.wait(15))
            self.assertEqual(client.read(), "OK")
            self.assertEqual(client.read(), len(value) + 1)
        self.assertEqual(self.node.call("GET", self.key), value + b"x")

    def test_F_13_half_a_reply_is_never_passed_off_as_a_whole_one(self):
        value = b"v" * (8 << 20)
        self.node.call("SET", self.key, value)
        seen = [0]

        def on_reply(data):
            seen[0] += len(data)
            if seen[0] < 1 << 20:
                return data
            self.pass_everything()
            return None

        with self.proxy.connect() as client:
            self.assertEqual(client.call("EXISTS", self.key), 1)
            self.relay.on_reply = on_reply
            # Bytes that were passed on cannot be taken back: the connection ends, or all is well.
            try:
                self.assertEqual(client.call("GET", self.key), value)
            except ConnectionError:
                pass
        self.assertEqual(self.proxy.call("GET", self.key), value)


class AtMostOnceWithTheDefaultEventLoop(AtMostOnce, unittest.TestCase):
    engine = "auto"


class AtMostOnceWithEpoll(AtMostOnce, unittest.TestCase):
    engine = "epoll"


if __name__ == "__main__":
    unittest.main()
