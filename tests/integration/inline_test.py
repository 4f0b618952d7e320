# SPDX-License-Identifier: Apache-2.0
"""Commands typed as lines, as by people, health checks and web pages that mean no good."""
import random
import unittest

from support import Connection, encode
from support.pieces import at_every_split, in_pieces
from support.side_by_side import PASSWORD, SideBySide, conversation, inline, last_words


def setUpModule():
    global open_pair, guarded
    open_pair = SideBySide()
    guarded = SideBySide(open_pair.cluster, PASSWORD)


class InlineCommands(unittest.TestCase):
    LINES = [b"PING", b"ping", b"  PING  ", b"\tPING\t", b"PING hello", b"SET k v", b"GET k",
             b"ECHO ''", b'ECHO ""', b"ECHO 'a b'", b'ECHO "a b"', b"ECHO 'it\\'s'",
             b'ECHO "\\x41\\n\\r\\t\\b\\a\\\\\\"\\q\\xzz\\x4"', b"ECHO '\\x41\\n'",
             b"ECHO a\\nb", b'ECHO foo"bar"', b"ECHO foo'bar'", b"ECHO \x0bx\x0c", b"ECHO \xff\xfe",
             b"NOSUCH a b", b"GET", b"GET a b", b"$4", b":1", b"+OK", b"-ERR", b"{}", b"CLIENT",
             b"CLIENT NOSUCH", b"DEL {a}1 {a}2", b"EVAL 'return ARGV' 0 a \"b c\" d"]
    UNBALANCED = [b'ECHO "abc', b"ECHO 'abc", b'ECHO "a"b', b"ECHO 'a'b", b'ECHO "a\\', b'"',
                  b"'", b'PING "', b'ECHO "a""b"']

    def test_inline_commands_are_answered_as_a_node_answers_them(self):
        """PR-01: a health check by inline commands was not understood."""
        for end in (b"\r\n", b"\n"):
            for line in self.LINES:
                with self.subTest(line=line, end=end):
                    open_pair.assert_same(self, line + end)
            open_pair.assert_same(self, b"".join(line + end for line in self.LINES))

    def test_blank_lines_are_ignored_wherever_they_stand(self):
        """PR-01: a blank line between commands was an error."""
        for blank in (b"\r\n", b"\n", b"\r\n\r\n\n", b"   \r\n", b"\t\n"):
            with self.subTest(blank=blank):
                answer = open_pair.assert_same(self, blank + b"PING\r\n" + blank + encode("PING")
                                               + blank)
                self.assertEqual(answer, b"+PONG\r\n+PONG\r\n")

    def test_unbalanced_quotes_are_an_error_that_closes_and_nothing_after_it_runs(self):
        """PR-01: after an unbalanced quote the rest of a line ran as commands."""
        for line in self.UNBALANCED:
            with self.subTest(line=line):
                answer = open_pair.assert_same_last_words(self, line + b"\r\nSET unbalanced 1\r\n")
                self.assertEqual(answer,
                                 b"-ERR Protocol error: unbalanced quotes in request\r\n")
        self.assertIsNone(open_pair.proxy.call("GET", "unbalanced"))

    def test_any_line_is_taken_apart_by_the_same_quoting_rules(self):
        """PR-01: quotes and escapes were read otherwise than by a node."""
        source = random.Random(1)
        parts = [b"'", b'"', b"\\", b"\\x4", b"\\x41", b"\\n", b"\\'", b'\\"', b" ", b"\t", b"a",
                 b"bc", b"\xe9", b"\x0b", b"$1", b"*1", b"\r", b"''", b'""', b'"x y"', b"'z'"]
        for _ in range(400):
            line = b"".join(source.choices(parts, k=source.randrange(1, 9)))
            whole = b'EVAL "return ARGV" 0 ' + line + b"\r\nQUIT\r\n"
            with self.subTest(line=line):
                open_pair.assert_same_last_words(self, whole)

    def test_every_inline_command_is_answered_not_only_the_first(self):
        """PR-01: only the first inline command of a connection was answered."""
        data = b"SET inline:%d %d\r\nGET inline:%d\r\n"
        lines = b"".join(data % (i, i, i) for i in range(500))
        answer = open_pair.assert_same(self, lines)
        self.assertEqual(answer.count(b"+OK\r\n"), 500)

    def test_inline_and_framed_commands_mix_on_one_connection(self):
        """PR-01: an inline command behind a framed one was lost."""
        mixed = inline(b"PING") + encode("ECHO", "a\r\nPING\r\n") + b"ECHO b\n"
        mixed += encode("SET", "mixed", "1") + inline(b"GET mixed", b"")
        open_pair.assert_same(self, mixed * 50)

    def test_inline_commands_may_arrive_byte_by_byte_and_split_anywhere(self):
        """PR-01: an inline command that came in pieces hung."""
        data = inline(b"SET 'a key' \"\\x01v\"", b"", b"GET 'a key'", b"ECHO \"q\\\"q\"", b"PING")
        expected = open_pair.assert_same(self, data)
        port = open_pair.proxy.port
        self.assertEqual(conversation(port, *in_pieces(data, 1), pause=0.001), expected)
        for pieces in at_every_split(data):
            self.assertEqual(conversation(port, *pieces, pause=0.001), expected, pieces)

    def test_auth_and_commands_in_one_inline_write_are_all_answered(self):
        """PR-01: commands behind AUTH in one write were lost."""
        password = PASSWORD.encode()
        guarded.assert_same(self, inline(b"PING", b"AUTH wrong", b"AUTH " + password, b"SET k v",
                                         b"GET k", b"AUTH default " + password, b"PING"))

    def test_a_line_without_an_end_is_refused_when_it_is_too_long(self):
        """PR-01: a line without an end filled the memory."""
        for pair in (open_pair, guarded):
            answer = pair.assert_same_last_words(self, b"A" * 70000)
            self.assertEqual(answer, b"-ERR Protocol error: too big inline request\r\n")

    def test_a_line_of_up_to_64_kilobytes_is_taken(self):
        """PR-01: long inline commands were refused."""
        open_pair.assert_same(self, b"ECHO " + b"x" * 60000 + b"\r\n")
        open_pair.assert_same(self, *in_pieces(b"ECHO " + b"x" * 65000 + b"\r\n", 9000))


class HttpRequests(unittest.TestCase):
    BODY = b"SET http:key 1\r\nFLUSHALL\r\n"

    def assert_closed_unheard(self, head):
        answer = last_words(open_pair.proxy.port, head + self.BODY)
        self.assertNotIn(b"+OK", answer)
        self.assertIsNone(open_pair.proxy.call("GET", "http:key"))

    def test_a_post_is_closed_and_its_body_does_not_run(self):
        """PR-10: a web page sent commands to the proxy by a POST."""
        for head in (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"post / HTTP/1.1\r\n\r\n",
                     b"POST\r\n", encode("POST", "/"), encode("post"), b"\r\nPOST / HTTP/1.0\r\n"):
            with self.subTest(head=head):
                self.assert_closed_unheard(head)

    def test_a_host_header_is_closed_whatever_the_method(self):
        """PR-10: a web page sent commands to the proxy by a GET."""
        for method in (b"GET", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH"):
            for header in (b"Host: x", b"host: x", b"HOST: 127.0.0.1:1", b"Accept: */*\r\nHost: x"):
                with self.subTest(method=method, header=header):
                    self.assert_closed_unheard(method + b" / HTTP/1.1\r\n" + header + b"\r\n\r\n")

    def test_a_post_in_pieces_is_closed_too(self):
        """PR-10: a POST in small packets was not noticed."""
        request = b"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + self.BODY
        for size in (1, 3, 7):
            with Connection(open_pair.proxy.port) as connection:
                with self.assertRaises(OSError):
                    for piece in in_pieces(request, size):
                        connection.send(piece)
                    connection.read()
        self.assertIsNone(open_pair.proxy.call("GET", "http:key"))

    def test_a_post_before_auth_is_closed_too(self):
        """PR-10: a POST was taken for a command that needs AUTH."""
        self.assertEqual(last_words(guarded.proxy.port, b"POST / HTTP/1.1\r\n\r\nPING\r\n"), b"")

    def test_a_port_scanner_does_not_fill_the_log(self):
        """PR-10: a port scanner filled the disk with log lines."""
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
