# SPDX-License-Identifier: Apache-2.0
"""Replies that come in pieces, late, or only by half: never a byte of one in place of another."""
import os
import random
import time
import unittest

from support import Cluster, Error, Proxy, encode, frames, wait_until
from support.fake_node import FakeNode, bulk
from support.load import run_at_once
from support.pieces import at_every_split, in_pieces
from support.recorded import RECORDED
from support.relay import RelayedCluster, TearingRelay
from support.side_by_side import conversation

# One reply of every kind.
REPLIES = [
    b"+OK\r\n", b"-ERR no\r\n", b":12345\r\n", b"$-1\r\n", b"$0\r\n\r\n", b"$5\r\na\r\nbc\r\n",
    b"*-1\r\n", b"*0\r\n", b"*3\r\n:1\r\n$-1\r\n*2\r\n+a\r\n$2\r\n\r\n\r\n", b"_\r\n", b"#t\r\n",
    b",1.5\r\n", b",inf\r\n", b"(12345678901234567890\r\n", b"=6\r\ntxt:ab\r\n",
    b"!5\r\nERR x\r\n", b"%2\r\n+a\r\n:1\r\n$1\r\nb\r\n*1\r\n_\r\n", b"~2\r\n:1\r\n:2\r\n",
    b"%0\r\n", b"|1\r\n+ttl\r\n:3600\r\n+x\r\n", b"*1\r\n|1\r\n+a\r\n:1\r\n:2\r\n",
    b"*2\r\n*0\r\n%0\r\n",
    b"+" + b"s" * 600 + b"\r\n"]


class TornReplies(unittest.TestCase):
    def test_a_reply_may_come_in_two_pieces_split_after_any_byte(self):
        """PR-05: a client hung because a node's reply came in two pieces."""
        node = FakeNode()
        self.addCleanup(node.close)
        with Proxy(node.seeds, {"server.workers": 1}) as proxy:
            for dialect in (2, 3):
                with proxy.connect() as client:
                    client.call("HELLO", dialect)
                    for reply in REPLIES:
                        self.check_splits(node, client, reply)

    def check_splits(self, node, client, reply):
        for pieces in at_every_split(reply)[:120]:
            self.answer_in(node, pieces)
            self.assertEqual(client.call_raw("GET", "k"), reply, pieces)
        self.answer_in(node, in_pieces(reply, 1))
        self.assertEqual(client.call_raw("GET", "k"), reply)

    @staticmethod
    def answer_in(node, pieces):
        def one_by_one(data):
            for piece in pieces:
                yield piece
                time.sleep(0.0003)
        node.pieces = one_by_one

    def test_large_replies_may_be_split_anywhere_around_their_edges(self):
        """PR-05: large replies were cut wrongly where they were split."""
        node = FakeNode()
        self.addCleanup(node.close)
        with Proxy(node.seeds, {"server.workers": 1}) as proxy, proxy.connect() as client:
            for size in (30000, 32768, 33000, 65536, 200000):
                reply = b"*2\r\n" + bulk(b"a" * size) + bulk(b"b" * size)
                edges = [4, 12, 14, size + 12, size + 16, size + 20, 2 * size + 20, len(reply) - 1]
                for edge in edges:
                    for at in range(max(1, edge - 3), min(edge + 3, len(reply))):
                        self.answer_in(node, (reply[:at], reply[at:]))
                        self.assertEqual(client.call_raw("GET", "k"), reply, (size, at))

    def test_a_recorded_pipeline_survives_torn_requests_and_replies(self):
        """PR-05: a pipeline hung when the network tore it up."""
        data = frames(*RECORDED)
        with Cluster(1) as alone:
            for _ in range(2):
                expected = conversation(alone.nodes[0].port, data)
        behind = RelayedCluster(1, TearingRelay)
        self.addCleanup(behind.stop)
        with Proxy(behind.seeds) as proxy:
            conversation(proxy.port, data)
            for size in (1, 2, 5, 17, 100, 1000):
                for relay in behind.relays:
                    relay.tear = lambda data, size=size: in_pieces(data, size)
                self.assertEqual(conversation(proxy.port, data, timeout=60), expected, size)


class HalfReplies(unittest.TestCase):
    """The node stops, or goes, in the middle of a reply."""

    HALVES = [b"$100000\r\n" + b"x" * 60000, b"*2\r\n$100000\r\n" + b"x" * 60000,
              b"*2\r\n" + bulk(b"y" * 100000), b"*1000000\r\n" + b":1\r\n" * 20000,
              b"$99999999999\r\n", b"%2\r\n+a\r\n" + bulk(b"z" * 200000)]

    def setUp(self):
        self.node = FakeNode()
        self.addCleanup(self.node.close)
        self.half = b""
        self.node.on_command = lambda words: self.half if b"bad" in words else bulk(b"good")
        settings = {"backend.request_timeout": "500ms", "server.workers": 1}
        self.proxy = Proxy(self.node.seeds, settings)
        self.addCleanup(self.proxy.stop_cleanly)

    def talk(self, half, then=lambda: None):
        """What a client gets that asks for the half reply and goes on asking."""
        self.half = half
        with self.proxy.connect() as client:
            client.send(frames(["GET", "bad"], ["ECHO", "second"]))
            received, asked = b"", False
            while len(received) <= len(half):
                try:
                    piece = client.socket.recv(1 << 20)
                except ConnectionError:
                    break
                if not piece:
                    break
                received += piece
                if received == half and not asked:
                    asked = True
                    then()
                    client.send(encode("ECHO", "third"))
            return received

    def assert_nothing_mixed(self, half, received):
        """Either no piece of the reply was passed on, or nothing but pieces of it."""
        if received[:1] != b"-":
            self.assertTrue(half.startswith(received), received[len(half):][:100])

    def test_a_reply_that_stops_halfway_is_never_filled_up_with_other_bytes(self):
        """PR-11: half a value was filled up with an error, or with the next reply."""
        for half in self.HALVES:
            with self.subTest(half=half[:20]):
                self.assert_nothing_mixed(half, self.talk(half))
                self.assertEqual(self.proxy.call("GET", "k"), b"good")

    def test_a_reply_that_is_cut_off_halfway_closes_its_client_only(self):
        """PR-11: half a value was given to a client as a whole one."""
        for half in self.HALVES:
            with self.subTest(half=half[:20]), self.proxy.connect() as other:
                self.assertEqual(other.call("GET", "k"), b"good")
                self.assert_nothing_mixed(half, self.talk(half, then=self.node.cut))
                self.assertEqual(other.call("GET", "k"), b"good")

    def test_a_part_that_stops_halfway_fails_its_command_and_no_more(self):
        """PR-11: one part of an MGET that got stuck took the connection with it."""
        for half in (b"*1\r\n$100000\r\n" + b"x" * 60000, b"*1\r\n$5\r\nab"):
            self.half = half
            with self.proxy.connect() as client:
                reply = client.call("MGET", "bad", "a", "b")
                self.assertIsInstance(reply, Error)
                self.assertEqual(client.call("ECHO", "second"), b"second")
                self.assertEqual(client.call("GET", "k"), b"good")

    def test_a_half_reply_that_nobody_is_to_see_harms_nothing(self):
        """PR-11: a reply that was not wanted got stuck, and later ones with it."""
        for half in self.HALVES:
            self.half = half
            with self.proxy.connect() as client:
                client.send(frames(["CLIENT", "REPLY", "SKIP"], ["GET", "bad"], ["ECHO", "next"]))
                try:
                    self.assertEqual(client.read(), b"next")
                except ConnectionError:
                    pass


class LateReplies(unittest.TestCase):
    """A fake node that thinks before it answers; the value of a key is its name."""

    def setUp(self):
        self.node = FakeNode()
        self.addCleanup(self.node.close)
        self.delay = 0.0
        self.node.on_command = self.answer
        settings = {"backend.request_timeout": "1s", "server.workers": 1}
        self.proxy = Proxy(self.node.seeds, settings)
        self.addCleanup(self.proxy.stop_cleanly)

    def answer(self, words):
        time.sleep(self.delay)
        return bulk(b"value of " + words[1])

    def test_late_replies_of_a_slow_node_are_dropped_and_its_connection_is_kept(self):
        """PR-11: a slow node's late replies were given to other requests."""
        clients = [self.proxy.connect() for _ in range(12)]
        self.delay = 0.2
        for index, client in enumerate(clients):
            client.send(encode("SET", f"first:{index}", "x"))
        first = [client.read() for client in clients]
        self.delay = 0.0
        late = [reply for reply in first if isinstance(reply, Error)]
        self.assertGreater(len(late), 2)
        for index, reply in enumerate(first):
            self.assertIn(reply, [b"value of first:%d" % index] + late)
        for round_number in range(3):
            for index, client in enumerate(clients):
                key = f"next:{round_number}:{index}"
                self.assertEqual(client.call("GET", key), b"value of " + key.encode())
        for client in clients:
            client.close()
        self.assertEqual([node["connects"] for node in self.proxy.nodes()], ["1"])

    def test_late_replies_after_silence_are_never_given_to_the_next_request(self):
        """PR-11: after a time-out each request got the reply to the one before."""
        with self.proxy.connect() as client:
            for round_number in range(3):
                self.delay = 1.3
                reply = client.call("SET", f"slow:{round_number}", "x")
                self.assertIsInstance(reply, Error)
                self.assertIn("Timeout", reply)
                self.delay = 0.0
                for index in range(5):
                    key = f"fast:{round_number}:{index}"
                    self.assertEqual(client.call("GET", key), b"value of " + key.encode())

    def test_a_client_that_left_leaves_no_reply_to_the_one_that_takes_its_place(self):
        """PR-11: a new client got a reply that was meant for one that had left."""
        self.delay = 0.02
        for index in range(40):
            leaver = self.proxy.connect()
            leaver.send(frames(["GET", f"left:{index}"], ["GET", f"left too:{index}"]))
            if index % 2:
                leaver.reset()
            else:
                leaver.close()
            with self.proxy.connect() as successor:
                key = f"stays:{index}"
                self.assertEqual(successor.call("GET", key), b"value of " + key.encode())

    def test_a_killed_client_leaves_no_reply_to_the_one_that_takes_its_place(self):
        """PR-11: a new client got a reply that was meant for a killed one."""
        self.delay = 0.02
        with self.proxy.connect() as killer:
            for index in range(30):
                victim = self.proxy.connect()
                number = victim.call("CLIENT", "ID")
                victim.send(encode("GET", f"killed:{index}"))
                self.assertEqual(killer.call("CLIENT", "KILL", "ID", number), 1)
                with self.proxy.connect() as successor:
                    key = f"stays:{index}"
                    self.assertEqual(successor.call("GET", key), b"value of " + key.encode())
                self.assertIn(victim.read_rest(), (b"", bulk(b"value of killed:%d" % index)))
                victim.close()


class LateRepliesUnderLoad(unittest.TestCase):
    """Every value says whose it is, while replies come late, connections break, clients go."""

    SECONDS = 60 if os.environ.get("PENSTOCK_LONG") == "1" else 8
    KEYS = 60

    @staticmethod
    def value_of(key):
        return b"<%s>" % key.encode() * (20000 if key.endswith("7") else 3)

    def setUp(self):
        self.behind = RelayedCluster(3)
        self.addCleanup(self.behind.stop)
        self.proxy = Proxy(self.behind.seeds, {"backend.request_timeout": "300ms"})
        self.addCleanup(self.proxy.stop_cleanly)
        self.keys = [f"key:{index}" for index in range(self.KEYS)]
        with self.proxy.connect() as client:
            for key in self.keys:
                self.assertEqual(client.call("SET", key, self.value_of(key)), "OK")
                client.call("HSET", "h" + key, key, self.value_of(key))
        self.mismatches, self.errors, self.answers = [], 0, 0

    def check(self, key, reply):
        if isinstance(reply, Error):
            self.errors += 1
        elif reply != self.value_of(key):
            self.mismatches.append((key, reply[:60] if reply else reply))
        self.answers += 1

    def work(self, client, source):
        keys = source.choices(self.keys, k=source.randrange(1, 25))
        kind = source.randrange(5)
        if kind == 0:
            for key, reply in zip(keys, client.pipeline([["GET", key] for key in keys])):
                self.check(key, reply)
        elif kind == 1:
            reply = client.call("MGET", *keys)
            replies = [reply] * len(keys) if isinstance(reply, Error) else reply
            for key, each in zip(keys, replies):
                self.check(key, each)
        elif kind == 2:
            self.check(keys[0], client.call("HGET", "h" + keys[0], keys[0]))
        elif kind == 3:
            script = "return redis.call('GET', KEYS[1])"
            self.check(keys[0], client.call("EVAL", script, 1, keys[0]))
        else:
            client.send(frames(*[["GET", key] for key in keys]))
            client.reset()
            raise ConnectionError("gone")

    def run_client(self, seed, until):
        source, client = random.Random(seed), None
        while time.monotonic() < until:
            try:
                if client is None:
                    client = self.proxy.connect()
                    client.call("HELLO", source.choice([2, 3]))
                self.work(client, source)
            except ConnectionError:
                if client:
                    client.close()
                client = None
        if client:
            client.close()

    def make_trouble(self, until):
        source = random.Random(99)

        def sometimes_late(data):
            if source.random() < 0.02:
                time.sleep(source.uniform(0.1, 0.9))
            return data

        for relay in self.behind.relays:
            relay.on_reply = sometimes_late
        while time.monotonic() < until:
            time.sleep(0.5)
            source.choice(self.behind.relays).cut()
            with self.proxy.connect() as killer:
                lines = killer.call("CLIENT", "LIST").decode().splitlines()
                number = source.choice(lines).split(" ")[0].split("=")[1]
                killer.call("CLIENT", "KILL", "ID", number, "SKIPME", "yes")
        for relay in self.behind.relays:
            relay.pass_everything()

    def test_no_value_ever_reaches_the_wrong_request(self):
        """PR-11: a user saw another user's data."""
        until = time.monotonic() + self.SECONDS
        run_at_once(lambda: self.make_trouble(until),
                    *[lambda seed=seed: self.run_client(seed, until) for seed in range(8)])
        self.assertEqual(self.mismatches, [])
        self.assertGreater(self.answers, 100)
        self.assertGreater(self.proxy.counter("timed_out"), 0)
        with self.proxy.connect() as client:
            for key in self.keys:
                wait_until(lambda: client.call("GET", key) == self.value_of(key), what=key)


if __name__ == "__main__":
    unittest.main()
