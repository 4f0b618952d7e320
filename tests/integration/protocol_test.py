"""What a client may send, in which pieces, and that it is answered as one node would."""
import itertools
import os
import random
import unittest

from memory import MB, PeakMemory
from pieces import at_every_split, in_pieces, in_random_pieces
from recorded import RECORDED, SHORT
from side_by_side import PASSWORD, SideBySide, conversation, frames, inline, last_words
from support import Cluster, Connection, encode, wait_until

QUERY_MAX = 32 * MB  # limits.client_query of the guarded proxy


def setUpModule():
    global open_pair, guarded
    cluster = Cluster(3)
    unittest.addModuleCleanup(cluster.stop)
    open_pair = SideBySide(cluster)
    unittest.addModuleCleanup(open_pair.stop)
    guarded = SideBySide(cluster, PASSWORD, {"limits.client_query": "32mb"})
    unittest.addModuleCleanup(guarded.stop)


class InlineCommands(unittest.TestCase):
    LINES = [b"PING", b"ping", b"  PING  ", b"\tPING\t", b"PING hello", b"SET k v", b"GET k",
             b"ECHO ''", b'ECHO ""', b"ECHO 'a b'", b'ECHO "a b"', b"ECHO 'it\\'s'",
             b'ECHO "\\x41\\n\\r\\t\\b\\a\\\\\\"\\q\\xzz\\x4"', b"ECHO '\\x41\\n'",
             b"ECHO a\\nb", b'ECHO foo"bar"', b"ECHO foo'bar'", b"ECHO \x0bx\x0c", b"ECHO \xff\xfe",
             b"NOSUCH a b", b"GET", b"GET a b", b"$4", b":1", b"+OK", b"-ERR", b"{}", b"CLIENT",
             b"CLIENT NOSUCH", b"DEL {a}1 {a}2", b"EVAL 'return ARGV' 0 a \"b c\" d"]
    UNBALANCED = [b'ECHO "abc', b"ECHO 'abc", b'ECHO "a"b', b"ECHO 'a'b", b'ECHO "a\\', b'"',
                  b"'", b'PING "', b'ECHO "a""b"']

    def test_PR_01_inline_commands_are_answered_as_a_node_answers_them(self):
        for end in (b"\r\n", b"\n"):
            for line in self.LINES:
                with self.subTest(line=line, end=end):
                    open_pair.assert_same(self, line + end)
            open_pair.assert_same(self, b"".join(line + end for line in self.LINES))

    def test_PR_01_blank_lines_are_ignored_wherever_they_stand(self):
        for blank in (b"\r\n", b"\n", b"\r\n\r\n\n", b"   \r\n", b"\t\n"):
            with self.subTest(blank=blank):
                answer = open_pair.assert_same(self, blank + b"PING\r\n" + blank + encode("PING")
                                               + blank)
                self.assertEqual(answer, b"+PONG\r\n+PONG\r\n")

    def test_PR_01_unbalanced_quotes_are_an_error_that_closes_and_nothing_after_it_runs(self):
        for line in self.UNBALANCED:
            with self.subTest(line=line):
                answer = open_pair.assert_same_last_words(self, line + b"\r\nSET unbalanced 1\r\n")
                self.assertEqual(answer,
                                 b"-ERR Protocol error: unbalanced quotes in request\r\n")
        self.assertIsNone(open_pair.proxy.call("GET", "unbalanced"))

    def test_PR_01_any_line_is_taken_apart_by_the_same_quoting_rules(self):
        source = random.Random(1)
        parts = [b"'", b'"', b"\\", b"\\x4", b"\\x41", b"\\n", b"\\'", b'\\"', b" ", b"\t", b"a",
                 b"bc", b"\xe9", b"\x0b", b"$1", b"*1", b"\r", b"''", b'""', b'"x y"', b"'z'"]
        for _ in range(400):
            line = b"".join(source.choices(parts, k=source.randrange(1, 9)))
            whole = b'EVAL "return ARGV" 0 ' + line + b"\r\nQUIT\r\n"
            with self.subTest(line=line):
                open_pair.assert_same_last_words(self, whole)

    def test_PR_01_every_inline_command_is_answered_not_only_the_first(self):
        data = b"SET inline:%d %d\r\nGET inline:%d\r\n"
        lines = b"".join(data % (i, i, i) for i in range(500))
        answer = open_pair.assert_same(self, lines)
        self.assertEqual(answer.count(b"+OK\r\n"), 500)

    def test_PR_01_inline_and_framed_commands_mix_on_one_connection(self):
        mixed = inline(b"PING") + encode("ECHO", "a\r\nPING\r\n") + b"ECHO b\n"
        mixed += encode("SET", "mixed", "1") + inline(b"GET mixed", b"")
        open_pair.assert_same(self, mixed * 50)

    def test_PR_01_inline_commands_may_arrive_byte_by_byte_and_split_anywhere(self):
        data = inline(b"SET 'a key' \"\\x01v\"", b"", b"GET 'a key'", b"ECHO \"q\\\"q\"", b"PING")
        expected = open_pair.assert_same(self, data)
        port = open_pair.proxy.port
        self.assertEqual(conversation(port, *in_pieces(data, 1), pause=0.001), expected)
        for pieces in at_every_split(data):
            self.assertEqual(conversation(port, *pieces, pause=0.001), expected, pieces)

    def test_PR_01_auth_and_commands_in_one_inline_write_are_all_answered(self):
        password = PASSWORD.encode()
        guarded.assert_same(self, inline(b"PING", b"AUTH wrong", b"AUTH " + password, b"SET k v",
                                         b"GET k", b"AUTH default " + password, b"PING"))

    def test_PR_01_a_line_without_an_end_is_refused_when_it_is_too_long(self):
        for pair in (open_pair, guarded):
            answer = pair.assert_same_last_words(self, b"A" * 70000)
            self.assertEqual(answer, b"-ERR Protocol error: too big inline request\r\n")

    def test_PR_01_a_line_of_up_to_64_kilobytes_is_taken(self):
        open_pair.assert_same(self, b"ECHO " + b"x" * 60000 + b"\r\n")
        open_pair.assert_same(self, *in_pieces(b"ECHO " + b"x" * 65000 + b"\r\n", 9000))


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

    def test_PR_03_a_malformed_request_gets_the_error_a_node_gives_and_is_closed(self):
        for pair in (open_pair, guarded):
            for data in self.CLOSING:
                with self.subTest(data=data[:40], guarded=pair is guarded):
                    answer = pair.assert_same_last_words(self, data)
                    self.assertTrue(answer.startswith(b"-ERR Protocol error: "), answer)

    def test_PR_03_a_line_end_in_place_of_an_argument_is_an_error_and_not_waited_behind(self):
        for data in (b"*1\r\n\r\n", b"*2\r\n$4\r\nECHO\r\n\r\n", b"*1\r\n\n\r\n",
                     b"*1\r\n\nabc\r\n"):
            with self.subTest(data=data):
                answer = open_pair.assert_same_last_words(self, data)
                self.assertRegex(answer, rb"^-ERR Protocol error: expected '\$', got ' '\r\n$")

    def test_PR_03_what_was_asked_before_the_malformed_request_is_answered_first(self):
        for data in self.CLOSING[:20]:
            with self.subTest(data=data[:40]):
                before = encode("SET", "before", "1") + encode("GET", "before")
                answer = open_pair.assert_same_last_words(self, before + data)
                self.assertTrue(answer.startswith(b"+OK\r\n$1\r\n1\r\n-ERR Protocol"), answer)

    def test_PR_03_odd_but_harmless_requests_keep_the_connection(self):
        for data in self.CONTINUING:
            with self.subTest(data=data[:40]):
                open_pair.assert_same(self, data + encode("PING", "next") + data)

    def test_PR_03_limits_before_auth_are_the_nodes_own(self):
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

    def test_PR_03_limits_before_auth_hold_for_pieces_and_end_with_auth(self):
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

    def test_PR_03_announced_arguments_take_no_memory_before_they_arrive(self):
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

    def test_PR_03_garbage_of_any_kind_harms_nobody_else(self):
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

    def test_PR_03_a_request_beyond_the_limit_is_cut_off_with_bounded_memory(self):
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

    def test_PR_05_a_long_pipeline_is_answered_as_by_one_node(self):
        self.assertGreaterEqual(len(RECORDED), 200)
        open_pair.assert_same(self, self.whole)

    def test_PR_05_a_pipeline_may_be_split_after_any_byte(self):
        data = frames(*SHORT)
        expected = self.expected_of(data)
        with Connection(self.port) as connection:
            for first, second in at_every_split(data):
                connection.send(first)
                os.sched_yield()
                connection.send(second)
                answer = b"".join(connection.read_frame() for _ in SHORT)
                self.assertEqual(answer, expected, f"split after {len(first)} bytes")

    def test_PR_05_a_long_pipeline_may_come_in_pieces_of_any_size(self):
        expected = self.expected_of(self.whole)
        for size in (1, 2, 3, 13, 64, 511, 512, 513, 4096, 65536):
            with self.subTest(size=size):
                pieces = in_pieces(self.whole, size)
                self.assertEqual(conversation(self.port, *pieces), expected)

    def test_PR_05_a_long_pipeline_may_come_in_random_pieces_with_pauses(self):
        expected = self.expected_of(self.whole)
        for seed in range(8):
            with self.subTest(seed=seed):
                pieces = in_random_pieces(self.whole, seed)
                self.assertEqual(conversation(self.port, *pieces, pause=0.001), expected)

    def test_PR_05_large_arguments_may_be_split_around_their_ends(self):
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

    def test_PR_08_replies_are_left_out_exactly_where_a_node_leaves_them_out(self):
        for sequence in self.SEQUENCES:
            with self.subTest(sequence=sequence):
                self.send(sequence)

    def test_PR_08_skip_and_off_give_the_documented_replies(self):
        self.assertEqual(self.send("SKIP, PING, PING 2"), b"$1\r\n2\r\n")
        self.assertEqual(self.send("OFF, PING, ON, PING 3"), b"+OK\r\n$1\r\n3\r\n")

    def test_PR_08_skip_ends_after_an_unknown_command_too(self):
        self.send("SKIP, NOSUCH, PING")
        self.send("SKIP, NOSUCH a b, NOSUCH, PING")

    def test_PR_08_skip_hides_the_error_of_a_wrong_reply_mode_too(self):
        self.send("SKIP, CLIENT REPLY BOGUS, PING")
        self.send("OFF, CLIENT REPLY BOGUS, PING, ON, PING")

    def test_PR_08_reset_is_answered_although_replies_are_off(self):
        self.send("OFF, RESET, PING")

    def test_PR_08_commands_still_run_while_replies_are_off(self):
        with open_pair.proxy.connect() as connection:
            off = [["SET", f"quiet:{i}", i] for i in range(100)]
            connection.send(frames(["CLIENT", "REPLY", "OFF"], *off, ["CLIENT", "REPLY", "ON"]))
            self.assertEqual(connection.read(), "OK")
            keys = [command[1] for command in off]
            self.assertEqual(connection.call("MGET", *keys), [b"%d" % i for i in range(100)])

    def test_PR_08_large_and_split_replies_are_left_out_too(self):
        with open_pair.proxy.connect() as connection:
            connection.call("SET", "large", "x" * MB)
            for quiet in (["GET", "large"], ["MGET", "large", "a", "b"], ["DEL", "c", "d"]):
                connection.send(frames(["CLIENT", "REPLY", "SKIP"], quiet, ["PING", "after"]))
                self.assertEqual(connection.read(), b"after")

    def test_PR_08_quit_closes_although_replies_are_off(self):
        self.assertEqual(last_words(open_pair.proxy.port, inline(b"CLIENT REPLY OFF", b"QUIT")),
                         b"")


class HttpRequests(unittest.TestCase):
    BODY = b"SET http:key 1\r\nFLUSHALL\r\n"

    def assert_closed_unheard(self, head):
        answer = last_words(open_pair.proxy.port, head + self.BODY)
        self.assertNotIn(b"+OK", answer)
        self.assertIsNone(open_pair.proxy.call("GET", "http:key"))

    def test_PR_10_a_post_is_closed_and_its_body_does_not_run(self):
        for head in (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"post / HTTP/1.1\r\n\r\n",
                     b"POST\r\n", encode("POST", "/"), encode("post"), b"\r\nPOST / HTTP/1.0\r\n"):
            with self.subTest(head=head):
                self.assert_closed_unheard(head)

    def test_PR_10_a_host_header_is_closed_whatever_the_method(self):
        for method in (b"GET", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH"):
            for header in (b"Host: x", b"host: x", b"HOST: 127.0.0.1:1", b"Accept: */*\r\nHost: x"):
                with self.subTest(method=method, header=header):
                    self.assert_closed_unheard(method + b" / HTTP/1.1\r\n" + header + b"\r\n\r\n")

    def test_PR_10_a_post_in_pieces_is_closed_too(self):
        request = b"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + self.BODY
        for size in (1, 3, 7):
            with Connection(open_pair.proxy.port) as connection:
                with self.assertRaises(OSError):
                    for piece in in_pieces(request, size):
                        connection.send(piece)
                    connection.read()
        self.assertIsNone(open_pair.proxy.call("GET", "http:key"))

    def test_PR_10_a_post_before_auth_is_closed_too(self):
        self.assertEqual(last_words(guarded.proxy.port, b"POST / HTTP/1.1\r\n\r\nPING\r\n"), b"")

    def test_PR_10_a_port_scanner_does_not_fill_the_log(self):
        before = len(open_pair.proxy.log_text().splitlines())
        for probe in (b"POST / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n",
                      b"*abc\r\n", b"GET / HTTP/1.0\r\nHost: x\r\n\r\n"):
            for _ in range(200):
                with Connection(open_pair.proxy.port) as connection:
                    connection.send(probe)
        after = len(open_pair.proxy.log_text().splitlines())
        self.assertLess(after - before, 100)


if __name__ == "__main__":
    unittest.main()
