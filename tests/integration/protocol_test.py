# SPDX-License-Identifier: Apache-2.0
"""What a client may send, in which pieces, and that it is answered as one node would."""
import itertools
import os
import random
import unittest

from support import Connection, encode, frames, wait_until
from support.memory import MB, PeakMemory
from support.pieces import at_every_split, in_pieces, in_random_pieces
from support.recorded import RECORDED, SHORT
from support.side_by_side import PASSWORD, SideBySide, conversation, inline, last_words

QUERY_MAX = 32 * MB  # limits.client_query of the guarded proxy


def setUpModule():
    global open_pair, guarded
    open_pair = SideBySide()
    guarded = SideBySide(open_pair.cluster, PASSWORD, {"limits.client_query": "32mb"})


class HostileRequests(unittest.TestCase):
    CLOSING = [b"*2147483648\r\n", b"*abc\r\n", b"*\r\n", b"*-\r\n", b"*+1\r\n", b"*01\r\n",
               b"* 1\r\n", b"*1 \r\n", b"*1a\r\n", b"*9223372036854775808\r\n", b"*0x10\r\n",
               b"*-9223372036854775809\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$-2\r\n", b"*1\r\n$\r\n",
               b"*1\r\n$abc\r\n", b"*1\r\n$04\r\nPING\r\n", b"*1\r\n$+4\r\nPING\r\n",
               b"*1\r\n$ 4\r\nPING\r\n", b"*1\r\n$2147483645\r\n", b"*1\r\n$629145600\r\n",
               b"*1\r\n$536870913\r\n", b"*1\r\n$9223372036854775808\r\n", b"*1\r\n:3\r\n",
               b"*1\r\nPING\r\n", b"*1\r\n+OK\r\n", b"*2\r\n$4\r\nECHO\r\n*1\r\n", b"*1\r\n%1\r\n",
               b"*1" * 35000, b"*" + b"1" * 70000, b"*1\r\n$" + b"1" * 70000]
    CONTINUING = [b"*-1\r\n", b"*0\r\n", b"*-5\r\n", b"*-2147483649\r\n",
                  b"*-9223372036854775808\r\n", b"*1\r\n$0\r\n\r\n", b"*2\r\n$0\r\n\r\n$0\r\n\r\n",
                  b"*1\r\n$4\r\nPINGxx", b"*1\rX$4\rXPINGyy", encode("PING", "a" * 1000, "b"),
                  encode("x" * 300, "y" * 300, "z" * 300), encode("a\r\nb", "c\nd"),
                  encode(*["ECHO"] * 1000)]

    def test_a_malformed_request_gets_the_error_a_node_gives_and_is_closed(self):
        """PR-03: a length of 2^31 made the proxy read beyond its buffer."""
        for pair in (open_pair, guarded):
            for data in self.CLOSING:
                with self.subTest(data=data[:40], guarded=pair is guarded):
                    answer = pair.assert_same_last_words(self, data)
                    self.assertTrue(answer.startswith(b"-ERR Protocol error: "), answer)

    def test_a_line_end_in_place_of_an_argument_is_an_error_and_not_waited_behind(self):
        """PR-03: a client with a broken encoder hung in place of getting an error."""
        for data in (b"*1\r\n\r\n", b"*2\r\n$4\r\nECHO\r\n\r\n", b"*1\r\n\n\r\n",
                     b"*1\r\n\nabc\r\n"):
            with self.subTest(data=data):
                answer = open_pair.assert_same_last_words(self, data)
                self.assertRegex(answer, rb"^-ERR Protocol error: expected '\$', got ' '\r\n$")

    def test_what_was_asked_before_the_malformed_request_is_answered_first(self):
        """PR-03: a malformed request cost the replies to those before it."""
        for data in self.CLOSING[:20]:
            with self.subTest(data=data[:40]):
                before = encode("SET", "before", "1") + encode("GET", "before")
                answer = open_pair.assert_same_last_words(self, before + data)
                self.assertTrue(answer.startswith(b"+OK\r\n$1\r\n1\r\n-ERR Protocol"), answer)

    def test_odd_but_harmless_requests_keep_the_connection(self):
        """PR-03: `*-1` or `*0` closed the connection."""
        for data in self.CONTINUING:
            with self.subTest(data=data[:40]):
                open_pair.assert_same(self, data + encode("PING", "next") + data)

    def test_limits_before_auth_are_the_nodes_own(self):
        """PR-03: somebody without the password could fill the memory."""
        too_much = [frames(["PING"] + ["x"] * 10), encode("ECHO", "x" * 16385),
                    b"*11\r\n", b"*1048576\r\n", b"*1\r\n$16385\r\n", b"*2147483647\r\n"]
        for data in too_much:
            with self.subTest(data=data[:30]):
                answer = guarded.assert_same_last_words(self, data)
                self.assertIn(b"unauthenticated", answer)
        login = encode("AUTH", PASSWORD)
        for data in (encode(*["DEL"] * 10), encode("ECHO", "x" * 16384)):
            answer = guarded.assert_same(self, encode("AUTH", "wrong") + data + login)
            self.assertIn(b"-NOAUTH", answer)

    def test_limits_before_auth_hold_for_pieces_and_end_with_auth(self):
        """PR-03: the limits before AUTH went on after it."""
        for pieces in at_every_split(b"*11\r\n$4\r\nPING\r\n"):
            answers = []
            for port in guarded.ports():
                with Connection(port) as connection:
                    for piece in pieces:
                        connection.send(piece)
                    answers.append(connection.read())
            self.assertEqual(answers[0], answers[1], pieces)
        data = encode("AUTH", PASSWORD) + encode("ECHO", "x" * 20000) + encode(*["DEL"] * 30)
        guarded.assert_same(self, data)
        guarded.assert_same(self, *in_random_pieces(data, 1))

    def test_announced_arguments_take_no_memory_before_they_arrive(self):
        """PR-03: 1,000 connections that announced a million arguments took all memory."""
        proxy, announced = open_pair.proxy, [b"*1000000\r\n", b"*2147483647\r\n",
                                             b"*1\r\n$536870912\r\n", b"*1048577\r\n$3\r\nSET\r\n"]
        with PeakMemory(proxy) as memory:
            connections = [proxy.connect() for _ in range(1000)]
            for connection, data in zip(connections, itertools.cycle(announced)):
                connection.send(data)
            self.assertEqual(proxy.call("PING"), "PONG")
        self.assertLess(memory.growth, 48 * MB)
        for connection in connections:
            connection.close()
        wait_until(lambda: proxy.counter("connected_clients") < 10, what="the clients to go")

    def test_garbage_of_any_kind_harms_nobody_else(self):
        """PR-03: random bytes crashed the proxy."""
        proxy, source = open_pair.proxy, random.Random(2)
        kinds = [lambda: source.randbytes(source.randrange(1, 400)), self.mangled(source),
                 lambda: encode("SET", source.randbytes(20), source.randbytes(2000))[:-5]]
        with proxy.connect() as other:
            for round_number in range(600):
                with Connection(proxy.port) as connection:
                    connection.send(kinds[round_number % 3]())
                    if source.random() < 0.3:
                        connection.reset()
                if round_number % 20 == 0:
                    self.assertEqual(other.call("ECHO", "still here"), b"still here")
        wait_until(lambda: proxy.counter("connected_clients") < 5, what="the clients to go")
        self.assertLess(proxy.descriptors, 100)

    @staticmethod
    def mangled(source):
        def make():
            data = bytearray(source.choice(RECORDED_FRAMES) * 2)
            for _ in range(source.randrange(1, 4)):
                data[source.randrange(len(data))] = source.choice(b"\r\n*$0123456789-:\0\xff ")
            return bytes(data)
        return make

    def test_a_request_beyond_the_limit_is_cut_off_with_bounded_memory(self):
        """PR-03: one endless request filled the memory."""
        proxy = guarded.proxy
        with proxy.connect(timeout=60) as connection, PeakMemory(proxy) as memory:
            self.assertEqual(connection.call("AUTH", PASSWORD), "OK")
            connection.send(b"*1000000000\r\n")
            argument = b"$1048576\r\n" + b"x" * MB + b"\r\n"
            with self.assertRaises(OSError):
                for _ in range(QUERY_MAX // MB + 100):
                    connection.send(argument)
            self.assertTrue(connection.at_end())
        self.assertLess(memory.growth, 4 * QUERY_MAX)
        self.assertEqual(open_pair.proxy.call("PING"), "PONG")


RECORDED_FRAMES = [encode(*command) for command in RECORDED]


class SplitRequests(unittest.TestCase):
    def setUp(self):
        self.whole = b"".join(RECORDED_FRAMES)
        self.port = open_pair.proxy.port
        open_pair.flush()
        self.expected_of(self.whole)

    @staticmethod
    def expected_of(data):
        """A node's answer to what was sent before."""
        for _ in range(2):
            answer = conversation(open_pair.node.port, data)
            conversation(open_pair.proxy.port, data)
        return answer

    def test_a_long_pipeline_is_answered_as_by_one_node(self):
        """PR-05: one of 200 pipelined commands was answered otherwise than by a node."""
        self.assertGreaterEqual(len(RECORDED), 200)
        open_pair.assert_same(self, self.whole)

    def test_a_pipeline_may_be_split_after_any_byte(self):
        """PR-05: a client hung because its pipeline was split at a bad place."""
        data = frames(*SHORT)
        expected = self.expected_of(data)
        with Connection(self.port) as connection:
            for first, second in at_every_split(data):
                connection.send(first)
                os.sched_yield()
                connection.send(second)
                answer = b"".join(connection.read_frame() for _ in SHORT)
                self.assertEqual(answer, expected, f"split after {len(first)} bytes")

    def test_a_long_pipeline_may_come_in_pieces_of_any_size(self):
        """PR-05: a pipeline in small packets was not understood."""
        expected = self.expected_of(self.whole)
        for size in (1, 2, 3, 13, 64, 511, 512, 513, 4096, 65536):
            with self.subTest(size=size):
                pieces = in_pieces(self.whole, size)
                self.assertEqual(conversation(self.port, *pieces), expected)

    def test_a_long_pipeline_may_come_in_random_pieces_with_pauses(self):
        """PR-05: a pipeline over a slow line was not understood."""
        expected = self.expected_of(self.whole)
        for seed in range(8):
            with self.subTest(seed=seed):
                pieces = in_random_pieces(self.whole, seed)
                self.assertEqual(conversation(self.port, *pieces, pause=0.001), expected)

    def test_large_arguments_may_be_split_around_their_ends(self):
        """PR-05: a large value lost its last bytes where it was split."""
        for size in (500, 512, 4096, 16384, 65536):
            value = bytes(range(256)) * (size // 256 + 1)
            data = frames(["SET", "{s}k", value[:size]], ["GET", "{s}k"], ["STRLEN", "{s}k"])
            expected = open_pair.assert_same(self, data)
            end = data.index(b"\r\n*2\r\n$3\r\nGET")
            for at in itertools.chain(range(1, 40), range(end - 8, end + 40)):
                answer = conversation(self.port, data[:at], data[at:], pause=0.0005)
                self.assertEqual(answer, expected, (size, at))


class ReplyModes(unittest.TestCase):
    """CLIENT REPLY OFF, SKIP and ON."""

    SEQUENCES = [
        "SKIP, PING, PING 2", "OFF, PING, ON, PING 3", "SKIP, SKIP, PING, PING 2",
        "SKIP, ON, PING", "OFF, SKIP, PING, ON, PING", "OFF, OFF, PING, ON, PING", "ON, PING",
        "SKIP, GET a, GET a", "SKIP, SET a b, GET a", "SKIP, GET, GET a", "SKIP, INFO, PING",
        "SKIP, MGET {x}1 {x}2, PING", "OFF, SET a c, GET a, GET, ON, GET a",
        "OFF, HELLO 3, ON, HGETALL none", "SKIP, COMMAND COUNT, PING", "SKIP, CLIENT NOSUCH, PING",
        "OFF, CLIENT NOSUCH, ON, PING", "SKIP, EVAL 'return 1' 0, PING", "SKIP, RESET, PING",
        "SKIP, LPUSH str x, PING"]

    def send(self, sequence):
        data = b""
        for step in sequence.split(", "):
            mode = step in ("ON", "OFF", "SKIP")
            data += inline((f"CLIENT REPLY {step}" if mode else step).encode())
        return open_pair.assert_same(self, data)

    def test_replies_are_left_out_exactly_where_a_node_leaves_them_out(self):
        """PR-08: after CLIENT REPLY OFF a client got replies to the wrong commands."""
        for sequence in self.SEQUENCES:
            with self.subTest(sequence=sequence):
                self.send(sequence)

    def test_skip_and_off_give_the_documented_replies(self):
        """PR-08: CLIENT REPLY was answered OK and then ignored."""
        self.assertEqual(self.send("SKIP, PING, PING 2"), b"$1\r\n2\r\n")
        self.assertEqual(self.send("OFF, PING, ON, PING 3"), b"+OK\r\n$1\r\n3\r\n")

    def test_skip_ends_after_an_unknown_command_too(self):
        """PR-08: CLIENT REPLY SKIP waited for a command that exists."""
        self.send("SKIP, NOSUCH, PING")
        self.send("SKIP, NOSUCH a b, NOSUCH, PING")

    def test_skip_hides_the_error_of_a_wrong_reply_mode_too(self):
        """PR-08: an error came although it was to be left out."""
        self.send("SKIP, CLIENT REPLY BOGUS, PING")
        self.send("OFF, CLIENT REPLY BOGUS, PING, ON, PING")

    def test_reset_is_answered_although_replies_are_off(self):
        """PR-08: after CLIENT REPLY OFF the answer to RESET never came."""
        self.send("OFF, RESET, PING")

    def test_commands_still_run_while_replies_are_off(self):
        """PR-08: writes whose replies nobody wanted were not done."""
        with open_pair.proxy.connect() as connection:
            off = [["SET", f"quiet:{i}", i] for i in range(100)]
            connection.send(frames(["CLIENT", "REPLY", "OFF"], *off, ["CLIENT", "REPLY", "ON"]))
            self.assertEqual(connection.read(), "OK")
            keys = [command[1] for command in off]
            self.assertEqual(connection.call("MGET", *keys), [b"%d" % i for i in range(100)])

    def test_large_and_split_replies_are_left_out_too(self):
        """PR-08: a large reply that was to be left out came in part."""
        with open_pair.proxy.connect() as connection:
            connection.call("SET", "large", "x" * MB)
            for quiet in (["GET", "large"], ["MGET", "large", "a", "b"], ["DEL", "c", "d"]):
                connection.send(frames(["CLIENT", "REPLY", "SKIP"], quiet, ["PING", "after"]))
                self.assertEqual(connection.read(), b"after")

    def test_quit_closes_although_replies_are_off(self):
        """PR-08: a client with replies off could not end its connection."""
        self.assertEqual(last_words(open_pair.proxy.port, inline(b"CLIENT REPLY OFF", b"QUIT")),
                         b"")


if __name__ == "__main__":
    unittest.main()
