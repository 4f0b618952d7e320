# SPDX-License-Identifier: Apache-2.0
"""What becomes of clients when a node sends what no node should."""
import socket
import threading
import time
import unittest

from support import Error, Proxy, frames, wait_until
from support.fake_node import FakeNode, array, bulk
from support.load import run_at_once
from support.memory import MB, PeakMemory

# How a client sees the end of its conversation.
AFTER = bulk(b"after")

# Short enough for a test, long enough for a slow machine.
LIMITS = {"backend.request_timeout": "500ms", "backend.connect_timeout": "500ms",
          "backend.retry_deadline": "500ms"}

# No beginning of a reply.
NOT_A_REPLY = [
    b"hello\r\n", b"\r\n", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    b"$abc\r\n", b"$-2\r\n", b"$+1\r\nx\r\n", b"$1 \r\nx\r\n", b"$01\r\nx\r\n", b"*-5\r\n",
    b"*abc\r\n", b"*\r\n", b"$\r\n", b"%-2\r\n", b"~x\r\n", b"=x\r\n", b"?\r\n", b".\r\n",
    b"*2\n$1\r\n", b"$9223372036854775808\r\n", b"*9223372036854775808\r\n",
    b"%9223372036854775807\r\n", b"*9223372036854775807\r\n*9223372036854775807\r\n",
    b"$9223372036854775807\r\n", b"*?\r\n", b"$?\r\n;4\r\nabcd\r\n;0\r\n", b"\xff\xff\r\n",
    b"*" + b"1" * 100, b"+" + b"x" * (3 * MB), b"-" + b"x" * (3 * MB), b":" + b"1" * (2 * MB),
    b"*2\r\n:1\r\nhello\r\n", b"*2\r\n" + b"+" + b"x" * (3 * MB)]

# Announces what never comes.
NEVER_WHOLE = [
    b"$99999999999\r\n", b"*99999999999\r\n", b"%99999999999\r\n", b"~99999999999\r\n",
    b"*2\r\n:1\r\n", b"%1\r\n+a\r\n", b"$10\r\nabc", b"=3\r\nab\r\n", b"\0\0\0\0", b"+OK",
    b"*1\r\n" * 1000, b"*2\r\n$1\r\na\r\n$99999999999\r\n", b"*1\r\n!9999999999\r\n",
    b"!4000000000\r\n", b"|1\r\n+a\r\n$4000000000\r\n", b">2\r\n+a\r\n$4000000000\r\n"]


class FakeNodeCase(unittest.TestCase):
    """A fake node behind a proxy; the key `bad` is answered with `self.poison`."""

    def setUp(self):
        self.node = FakeNode()
        self.addCleanup(self.node.close)
        self.poison = b""
        self.node.on_command = self.answer
        self.proxy = Proxy(self.node.seeds, {**LIMITS, "server.workers": 1})
        self.addCleanup(self.proxy.stop_cleanly)

    def answer(self, words):
        if b"bad" in words:
            return self.poison
        return array(bulk(b"good")) if words[0] == b"MGET" else bulk(b"good")

    def ask_for_poison(self, dialect):
        """What a client gets that is answered with the poison, and whether it was closed."""
        with self.proxy.connect() as client:
            client.call("HELLO", dialect)
            client.send(frames(("SET", "bad", "x"), ("ECHO", "after")))
            try:
                return client.read_until(AFTER), False
            except ConnectionError:
                return client.buffer, True

    def assert_harmless(self, poison, dialect=2):
        """Its own client gets an answer or is closed; others notice nothing."""
        self.poison = poison
        data, closed = self.ask_for_poison(dialect)
        self.assertTrue(self.proxy.is_alive(), self.proxy.log_text()[-2000:])
        with self.proxy.connect() as innocent:
            # Whoever shares the connection that is given up may have to wait for the new one.
            wait_until(lambda: innocent.call("GET", "k") == b"good", what="others to be served")
        return data, closed


class HostileReplies(FakeNodeCase):
    def test_what_is_no_reply_costs_its_own_client_an_error_and_nobody_else_anything(self):
        """PR-03: a garbled reply of one node took down the proxy, and with it all clients."""
        with PeakMemory(self.proxy) as memory:
            for poison in NOT_A_REPLY:
                for dialect in (2, 3):
                    with self.subTest(poison=poison[:40], dialect=dialect):
                        self.assert_harmless(poison, dialect)
        self.assertLess(memory.growth, 64 * MB)

    def test_a_reply_that_announces_too_much_takes_no_memory_and_ends(self):
        """PR-03: a reply that only announced 99 GB made the proxy allocate it."""
        with PeakMemory(self.proxy) as memory:
            for poison in NEVER_WHOLE:
                with self.subTest(poison=poison[:40]):
                    self.assert_harmless(poison)
        self.assertLess(memory.growth, 64 * MB)

    def test_deep_nesting_is_passed_through_without_recursion(self):
        """PR-03: a deeply nested reply overflowed the stack."""
        for depth in (10, 1000, 100000):
            poison = b"*1\r\n" * depth + b"+x\r\n"
            data, _ = self.assert_harmless(poison)
            self.assertTrue(data.endswith(poison + AFTER))

    def test_a_second_reply_to_one_request_is_never_given_to_the_next(self):
        """PR-03: one reply too many shifted the replies of all clients by one."""
        for extra in (bulk(b"stolen"), b"+OK\r\n", b"-ERR no\r\n", b"*0\r\n", bulk(b"x" * 100000)):
            self.poison = bulk(b"first") + extra
            with self.proxy.connect() as client:
                self.assertEqual(client.call("GET", "bad"), b"first")
                for _ in range(5):
                    self.assertEqual(client.call("GET", "k"), b"good")

    def test_a_push_that_nobody_asked_for_is_not_taken_for_a_reply(self):
        """PR-03: a push between replies shifted the replies of all clients by one."""
        push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
        for dialect in (2, 3):
            self.poison = push + bulk(b"mine") + push
            with self.proxy.connect() as client:
                client.call("HELLO", dialect)
                for _ in range(3):
                    self.assertEqual(client.call("GET", "bad"), b"mine")
                    self.assertEqual(client.call("GET", "k"), b"good")

    def test_parts_of_a_split_command_may_be_garbage_too(self):
        """PR-03: a part of an MGET that was no array upset the merge."""
        for poison in (b"hello\r\n", b"$-2\r\n", b":1\r\n", b"$1\r\nx\r\n", b"*2\r\n:1\r\n:2\r\n",
                       b"*0\r\n", b"+OK\r\n", b"*-1\r\n", b"_\r\n", b"%0\r\n"):
            with self.subTest(poison=poison[:40]):
                self.poison = poison
                with self.proxy.connect() as client:
                    reply = client.call("MGET", "bad", "a", "b")
                    self.assertIsInstance(reply, Error)
                    self.assertEqual(client.call("ECHO", "after"), b"after")


class BeyondAllMemory(FakeNodeCase):
    """Announced sizes that no block of memory can hold; a proxy for each, because it may die."""

    def assert_survives(self, poison):
        for dialect in (2, 3):
            self.assert_harmless(poison, dialect)

    def test_an_error_announced_beyond_all_memory_does_not_stop_the_proxy(self):
        """PR-03: a bulk error that announced 10 GB ended the proxy."""
        self.assert_survives(b"!9999999999\r\n")

    def test_an_attribute_announced_beyond_all_memory_does_not_stop_the_proxy(self):
        """PR-03: an attribute that announced 10 GB ended the proxy."""
        self.assert_survives(b"|1\r\n+a\r\n$9999999999\r\n")

    def test_a_push_announced_beyond_all_memory_does_not_stop_the_proxy(self):
        """PR-03: a push that announced 10 GB ended the proxy."""
        self.assert_survives(b">2\r\n+a\r\n$9999999999\r\n")

    def test_a_terabyte_in_the_middle_of_a_push_does_not_stop_the_proxy(self):
        """PR-03: a push with a text of a terabyte in it ended the proxy."""
        self.assert_survives(b">3\r\n+a\r\n*2\r\n:1\r\n=1099511627776\r\n")


class HostileHandshakes(FakeNodeCase):
    GARBAGE = [b"-NOAUTH no\r\n", b"hello\r\n", b"\r\n", b"x", b"$99999999999\r\n", b"*9999999\r\n",
               b"+OK\r\n+OK\r\n+OK\r\n", b"-" + b"z" * 100000 + b"\r\n",
               b"-ERR a\nb\tc d=1\r\n", b"%1\r\n", bulk(b"x" * 100000)]

    def test_a_garbled_handshake_gives_one_clear_error_line(self):
        """PR-03: what a node said in a handshake broke the error, or INFO, into two lines."""
        for garbage in self.GARBAGE:
            with self.subTest(garbage=garbage[:40]):
                self.node.on_handshake = lambda words, garbage=garbage: garbage
                self.node.cut()
                with Proxy(self.node.seeds, {**LIMITS, "server.workers": 1}) as proxy:
                    with proxy.connect() as client:
                        frame = client.call_raw("GET", "k")
                        self.assertTrue(frame.startswith(b"-CLUSTERDOWN"), frame[:100])
                        self.assertNotRegex(frame[:-2], rb"[\r\n]")
                        self.assertLess(len(frame), 1024)
                        self.assertEqual(client.call("PING"), "PONG")
                    for line in proxy.call("INFO").decode().splitlines():
                        self.assertRegex(line, r"^$|^# |^[A-Za-z0-9_.|-]+:")

    def test_a_handshake_announced_beyond_all_memory_does_not_stop_the_proxy(self):
        """PR-03: an answer to HELLO that announced 10 GB ended the proxy."""
        self.node.on_handshake = lambda words: b"!9999999999\r\n"
        with self.proxy.connect() as client:
            self.assertEqual(client.call("GET", "k").code, "CLUSTERDOWN")

    def test_a_push_during_the_handshake_is_not_taken_for_an_answer(self):
        """PR-03: a push between the answers of a handshake made it fail."""
        push = b">2\r\n$4\r\nnews\r\n:1\r\n"
        self.node.on_handshake = lambda words: push + b"+OK\r\n"
        with self.proxy.connect() as client:
            self.assertEqual(client.call("GET", "k"), b"good")

    def test_a_node_that_was_away_for_longer_than_the_retry_deadline_is_served_again(self):
        """A node that had been away for a while was never used again, until a restart."""
        with self.proxy.connect() as client:
            self.assertEqual(client.call("GET", "k"), b"good")
            self.node.on_handshake = lambda words: b"-ERR not now\r\n"
            self.node.cut()
            wait_until(lambda: isinstance(client.call("GET", "k"), Error), what="the node to go")
            time.sleep(0.7)
            self.assertIsInstance(client.call("GET", "k"), Error)
            self.node.on_handshake = lambda words: None
            wait_until(lambda: client.call("GET", "k") == b"good", what="the node to be used again")

    def test_a_connection_that_a_node_closed_while_idle_is_made_anew(self):
        """The first request after a quiet night failed."""
        with self.proxy.connect() as client:
            self.assertEqual(client.call("GET", "k"), b"good")
            time.sleep(0.7)  # longer than requests wait for a connection
            self.node.cut()
            self.assertEqual(client.call("GET", "k"), b"good")


class HostileMaps(unittest.TestCase):
    """Answers to CLUSTER and INFO that make no sense."""

    POISONS = [
        b"-ERR no\r\n", b"hello\r\n", b"_\r\n", b":1\r\n", b"*-1\r\n", b"$-1\r\n", b"+x\r\n",
        b"$99999999999\r\n", b"*99999999999\r\n", b"!99999999999\r\n", b"%1\r\n+a\r\n",
        b"*1\r\n" * 5000 + b"+x\r\n", b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n+h\r\n:0\r\n",
        b"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n+h\r\n:1\r\n", b"*1\r\n*3\r\n:-1\r\n:5\r\n*0\r\n",
        b"*1\r\n*3\r\n:9\r\n:5\r\n*2\r\n+h\r\n:1\r\n", b"*1\r\n*2\r\n:0\r\n:16383\r\n",
        b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n+h\r\n:99999\r\n", bulk(b"\n\n \n  \nx y z\n"),
        bulk(b"a b c d e f g h i j\n"), bulk(b"\0" * 1000), bulk(b"cluster_state:"),
        bulk(b"x" * (2 * MB)), b"*1\r\n%1\r\n$5\r\nslots\r\n*1\r\n:0\r\n", b"*3\r\n*0\r\n:1\r\n+x"]
    QUESTIONS = [b"SLOTS", b"NODES", b"INFO", b"SHARDS"]

    def setUp(self):
        self.node = self.good_node()

    def good_node(self):
        node = FakeNode()
        self.addCleanup(node.close)
        node.on_command = lambda words: bulk(b"good")
        return node

    def test_a_good_map_survives_answers_that_make_no_sense(self):
        """PR-03: one senseless answer to CLUSTER SLOTS threw away the map of all nodes."""
        run_at_once(*[lambda question=question: self.check_good_map_survives(question)
                      for question in self.QUESTIONS])

    def check_good_map_survives(self, question):
        """All poisons as the answer to one question about the cluster."""
        node = self.good_node()
        settings = {"backend.connect_timeout": "100ms", "cluster.refresh_interval": "100ms",
                    "server.workers": 1}
        with Proxy(node.seeds, settings) as proxy, PeakMemory(proxy) as memory:
            for poison in self.POISONS:
                node.on_cluster = lambda words: poison if words[1].upper() == question else None
                self.assert_served(proxy, (question, poison[:40]))
                # A good answer in between, or refreshes would come less and less often.
                node.on_cluster = lambda words: None
                self.assert_served(proxy, (question, poison[:40]))
        self.assertLess(memory.growth, 64 * MB)

    def assert_served(self, proxy, case):
        before = proxy.counter("topology_refreshes")
        wait_until(lambda: proxy.counter("topology_refreshes") > before, step=0.01,
                   what="a refresh")
        self.assertEqual(proxy.call("GET", "k"), b"good", case)
        self.assertEqual(proxy.info()["topology_slots_covered"], "16384", case)

    def test_a_bad_seed_does_not_hide_a_good_one(self):
        """PR-03: a seed that was no longer in any cluster kept the proxy from starting."""
        bad = self.good_node()
        for poison in (b"hello\r\n", b"$99999999999\r\n", b"*0\r\n", bulk(b"cluster_state:fail")):
            bad.on_cluster = lambda words, poison=poison: poison
            with self.subTest(poison=poison):
                settings = {"backend.connect_timeout": "300ms"}
                with Proxy(bad.seeds + self.node.seeds, settings) as proxy:
                    self.assertEqual(proxy.call("GET", "k"), b"good")

    def test_a_seed_that_never_finishes_its_answer_does_not_hide_a_good_one(self):
        """PR-03: a seed that dribbled its answer kept the proxy from starting."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        threading.Thread(target=self.dribble, args=(listener,), daemon=True).start()
        seeds = [f"127.0.0.1:{listener.getsockname()[1]}"] + self.node.seeds
        with Proxy(seeds, {"backend.connect_timeout": "300ms"}) as proxy:
            self.assertEqual(proxy.call("GET", "k"), b"good")

    @staticmethod
    def dribble(listener):
        """One byte of an answer every now and then, for a minute."""
        try:
            connection, _ = listener.accept()
            for byte in b"$100000\r\n" + b"x" * 600:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)
        except OSError:
            pass


if __name__ == "__main__":
    unittest.main()
