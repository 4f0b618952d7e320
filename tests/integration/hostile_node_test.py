"""What becomes of clients when a node sends what no node should."""
import itertools
import socket
import threading
import time
import unittest

from fake_node import FakeNode, bulk
from memory import MB, PeakMemory
from support import Error, Proxy, encode, wait_until

# How a client sees the end of its conversation.
AFTER = bulk(b"after")

# Short enough for a test, long enough for a slow machine.
LIMITS = {"backend.request_timeout": "1s", "backend.connect_timeout": "500ms"}

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

    settings = LIMITS

    def setUp(self):
        self.node = FakeNode()
        self.addCleanup(self.node.close)
        self.poison = b""
        self.node.on_command = self.answer
        self.proxy = Proxy(self.node.seeds, {**self.settings, "server.workers": 1})
        self.addCleanup(self.check_and_stop)

    def check_and_stop(self):
        if self.proxy.is_alive():
            self.assertEqual(self.proxy.stop(), 0)
        else:
            self.proxy.stop()
            self.fail("the proxy died: " + self.proxy.log_text()[-2000:])

    def answer(self, words):
        return self.poison if b"bad" in words else bulk(b"good")

    def ask_for_poison(self, dialect):
        """What a client gets that is answered with the poison, and whether it was closed."""
        with self.proxy.connect() as client:
            client.call("HELLO", dialect)
            client.send(encode("SET", "bad", "x") + encode("ECHO", "after"))
            data = b""
            while not data.endswith(AFTER):
                piece = client.socket.recv(1 << 20)
                if not piece:
                    return data, True
                data += piece
            return data, False

    def assert_harmless(self, poison, dialect=2):
        """Its own client gets an answer or is closed; others notice nothing."""
        self.poison = poison
        data, closed = self.ask_for_poison(dialect)
        self.assertTrue(self.proxy.is_alive(), self.proxy.log_text()[-2000:])
        with self.proxy.connect() as innocent:
            self.assertEqual(innocent.call("GET", "k"), b"good")
        return data, closed


class HostileReplies(FakeNodeCase):
    def test_PR_03_what_is_no_reply_costs_its_own_client_an_error_and_nobody_else_anything(self):
        with PeakMemory(self.proxy) as memory:
            for poison in NOT_A_REPLY:
                for dialect in (2, 3):
                    with self.subTest(poison=poison[:40], dialect=dialect):
                        self.assert_harmless(poison, dialect)
        self.assertLess(memory.growth, 64 * MB)

    def test_PR_03_a_reply_that_announces_too_much_takes_no_memory_and_ends(self):
        with PeakMemory(self.proxy) as memory:
            for poison in NEVER_WHOLE:
                with self.subTest(poison=poison[:40]):
                    self.assert_harmless(poison)
        self.assertLess(memory.growth, 64 * MB)

    def test_PR_03_deep_nesting_is_passed_through_without_recursion(self):
        for depth in (10, 1000, 100000):
            poison = b"*1\r\n" * depth + b"+x\r\n"
            data, _ = self.assert_harmless(poison)
            self.assertTrue(data.endswith(poison + AFTER))

    def test_PR_03_a_second_reply_to_one_request_is_never_given_to_the_next(self):
        for extra in (bulk(b"stolen"), b"+OK\r\n", b"-ERR no\r\n", b"*0\r\n", bulk(b"x" * 100000)):
            self.poison = bulk(b"first") + extra
            with self.proxy.connect() as client:
                self.assertEqual(client.call("GET", "bad"), b"first")
                for _ in range(5):
                    self.assertEqual(client.call("GET", "k"), b"good")

    def test_PR_03_a_push_that_nobody_asked_for_is_not_taken_for_a_reply(self):
        push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
        for dialect in (2, 3):
            self.poison = push + bulk(b"mine") + push
            with self.proxy.connect() as client:
                client.call("HELLO", dialect)
                for _ in range(3):
                    self.assertEqual(client.call("GET", "bad"), b"mine")
                    self.assertEqual(client.call("GET", "k"), b"good")

    def test_PR_03_parts_of_a_split_command_may_be_garbage_too(self):
        for poison in (b"hello\r\n", b"$-2\r\n", b":1\r\n", b"$1\r\nx\r\n", b"*2\r\n:1\r\n:2\r\n",
                       b"*0\r\n", b"+OK\r\n", b"*-1\r\n", b"_\r\n", b"%0\r\n"):
            with self.subTest(poison=poison[:40]):
                self.poison = poison
                with self.proxy.connect() as client:
                    reply = client.call("MGET", "bad", "a", "b")
                    self.assertIsInstance(reply, Error)
                    self.assertEqual(client.call("ECHO", "after"), b"after")
        self.assertTrue(self.proxy.is_alive())


class BeyondAllMemory(FakeNodeCase):
    """Announced sizes that no block of memory can hold; a proxy for each, because it may die."""

    def assert_survives(self, poison):
        for dialect in (2, 3):
            self.assert_harmless(poison, dialect)

    def test_PR_03_an_error_announced_beyond_all_memory_does_not_stop_the_proxy(self):
        self.assert_survives(b"!9999999999\r\n")

    def test_PR_03_an_attribute_announced_beyond_all_memory_does_not_stop_the_proxy(self):
        self.assert_survives(b"|1\r\n+a\r\n$9999999999\r\n")

    def test_PR_03_a_push_announced_beyond_all_memory_does_not_stop_the_proxy(self):
        self.assert_survives(b">2\r\n+a\r\n$9999999999\r\n")

    def test_PR_03_a_terabyte_in_the_middle_of_a_push_does_not_stop_the_proxy(self):
        self.assert_survives(b">3\r\n+a\r\n*2\r\n:1\r\n=1099511627776\r\n")


class HostileHandshakes(FakeNodeCase):
    settings = {**LIMITS, "backend.retry_deadline": "1s"}

    GARBAGE = [b"-NOAUTH no\r\n", b"hello\r\n", b"\r\n", b"x", b"$99999999999\r\n", b"*9999999\r\n",
               b"+OK\r\n+OK\r\n+OK\r\n", b"-" + b"z" * 100000 + b"\r\n",
               b"-ERR a\nb\tc d=1\r\n", b"%1\r\n", bulk(b"x" * 100000)]

    def test_PR_03_a_garbled_handshake_gives_one_clear_error_line(self):
        for garbage in self.GARBAGE:
            with self.subTest(garbage=garbage[:40]):
                self.node.on_handshake = lambda words, garbage=garbage: garbage
                self.node.cut()
                with Proxy(self.node.seeds, {**self.settings, "server.workers": 1}) as proxy:
                    with proxy.connect() as client:
                        frame = client.call_raw("GET", "k")
                        self.assertTrue(frame.startswith(b"-CLUSTERDOWN"), frame[:100])
                        self.assertNotRegex(frame[:-2], rb"[\r\n]")
                        self.assertLess(len(frame), 1024)
                        self.assertEqual(client.call("PING"), "PONG")
                    for line in proxy.call("INFO").decode().splitlines():
                        self.assertRegex(line, r"^$|^# |^[A-Za-z0-9_.|-]+:")

    def test_PR_03_a_handshake_announced_beyond_all_memory_does_not_stop_the_proxy(self):
        self.node.on_handshake = lambda words: b"!9999999999\r\n"
        with self.proxy.connect() as client:
            self.assertEqual(client.call("GET", "k").code, "CLUSTERDOWN")
        self.assertTrue(self.proxy.is_alive())

    def test_PR_03_a_push_during_the_handshake_is_not_taken_for_an_answer(self):
        push = b">2\r\n$4\r\nnews\r\n:1\r\n"
        self.node.on_handshake = lambda words: push + b"+OK\r\n"
        with self.proxy.connect() as client:
            self.assertEqual(client.call("GET", "k"), b"good")

    def test_a_node_that_was_away_for_longer_than_the_retry_deadline_is_served_again(self):
        with self.proxy.connect() as client:
            self.assertEqual(client.call("GET", "k"), b"good")
            self.node.on_handshake = lambda words: b"-ERR not now\r\n"
            self.node.cut()
            time.sleep(2.5)
            self.assertIsInstance(client.call("GET", "k"), Error)
            self.node.on_handshake = lambda words: None
            wait_until(lambda: client.call("GET", "k") == b"good", what="the node to be used again")

    def test_a_connection_that_a_node_closed_while_idle_is_made_anew(self):
        with self.proxy.connect() as client:
            self.assertEqual(client.call("GET", "k"), b"good")
            time.sleep(2)
            self.node.cut()
            time.sleep(0.5)
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
    QUESTIONS = [b"CLUSTER SLOTS", b"CLUSTER NODES", b"CLUSTER INFO", b"CLUSTER SHARDS", b"INFO"]

    def setUp(self):
        self.node = FakeNode()
        self.addCleanup(self.node.close)
        self.node.on_command = lambda words: bulk(b"good")

    def test_PR_03_a_good_map_survives_answers_that_make_no_sense(self):
        settings = {"backend.connect_timeout": "100ms", "cluster.refresh_interval": "100ms"}
        pairs = zip(self.POISONS * 2, itertools.cycle(self.QUESTIONS * 2 + self.QUESTIONS[:1]))
        with Proxy(self.node.seeds, settings) as proxy, proxy.connect() as client:
            with PeakMemory(proxy) as memory:
                for poison, question in pairs:
                    with self.subTest(question=question, poison=poison[:40]):
                        self.assert_served(proxy, client, question, poison)
            self.assertLess(memory.growth, 64 * MB)

    def assert_served(self, proxy, client, question, poison):
        def poisoned(words):
            return poison if b" ".join(words).upper().startswith(question) else None

        for answer in (poisoned, lambda words: None):
            self.node.on_cluster = answer
            before = proxy.counter("topology_refreshes")
            wait_until(lambda: proxy.counter("topology_refreshes") > before, what="a refresh")
            self.assertEqual(client.call("GET", "k"), b"good")
            self.assertEqual(proxy.info()["topology_slots_covered"], "16384")

    def test_PR_03_a_bad_seed_does_not_hide_a_good_one(self):
        bad = FakeNode()
        self.addCleanup(bad.close)
        for poison in (b"hello\r\n", b"$99999999999\r\n", b"*0\r\n", bulk(b"cluster_state:fail")):
            bad.on_cluster = lambda words, poison=poison: poison
            with self.subTest(poison=poison):
                settings = {"backend.connect_timeout": "300ms"}
                with Proxy(bad.seeds + self.node.seeds, settings) as proxy:
                    self.assertEqual(proxy.call("GET", "k"), b"good")

    def test_PR_03_a_seed_that_never_finishes_its_answer_does_not_hide_a_good_one(self):
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
