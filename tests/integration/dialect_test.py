# SPDX-License-Identifier: Apache-2.0
"""RESP2 and RESP3: each client gets its own dialect, byte for byte as a node gives it."""
import itertools
import random
import unittest

from support import Map, commands, frames
from support.load import run_at_once
from support.pieces import at_every_split
from support.side_by_side import PASSWORD, SideBySide, conversation

# Replies and commands whose order is the server's own business.
UNORDERED = b"%~"
UNORDERED_COMMANDS = ("SMEMBERS", "SUNION", "SINTER", "SDIFF")


def setUpModule():
    global open_pair, guarded
    open_pair = SideBySide()
    guarded = SideBySide(open_pair.cluster, PASSWORD)


class Reply:
    """One reply as a tree of (type, content), maps and sets sorted."""

    def __init__(self, frame):
        self.rest = frame

    def tree(self):
        line, self.rest = self.rest.split(b"\r\n", 1)
        kind, text = line[:1], line[1:]
        if kind in b"$=!" and text != b"-1":
            size = int(text)
            text, self.rest = self.rest[:size], self.rest[size + 2:]
        if kind not in b"*~>%|" or text == b"-1":
            return kind, text
        if kind == b"|":
            attributes = [self.tree() for _ in range(2 * int(text))]
            return kind, attributes, self.tree()
        elements = [self.tree() for _ in range(int(text) * (2 if kind == b"%" else 1))]
        if kind == b"%":
            elements = list(zip(elements[::2], elements[1::2]))
        return kind, sorted(elements) if kind in UNORDERED else elements


def kinds(tree):
    """The types alone, without values and lengths of texts."""
    kind, content = tree[0], tree[-1]
    if isinstance(content, bytes):
        return kind
    if kind == b"%":
        return kind, [(key, kinds(value)) for key, value in content]
    return kind, [kinds(element) for element in content]


SET_UP = """DEL {d}h {d}z {d}s {d}n {d}l {d}st {d}str {d}g {d}z2 {d}s2 {d}str2
HSET {d}h f 1 g 2
ZADD {d}z 1.5 a 2 b inf c -inf d 3 e
ZADD {d}z2 10 a 20 x
SADD {d}s q w e
SADD {d}s2 q
SADD {d}n 3 1 2
RPUSH {d}l a b c a
XADD {d}st 1-1 f v
XADD {d}st 2-1 f v g w
XGROUP CREATE {d}st grp 0
XREADGROUP GROUP grp bob COUNT 1 STREAMS {d}st >
SET {d}str ohmytext
SET {d}str2 mynewtext
GEOADD {d}g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania""".splitlines()

READS = """GET {d}str|GET {d}none|GETRANGE {d}str 0 2|STRLEN {d}str|MGET {d}str {d}none {d}h
TTL {d}str
HGETALL {d}h|HGETALL {d}none|HMGET {d}h f none|HGET {d}h none|HKEYS {d}h|HVALS {d}none|HLEN {d}h
HRANDFIELD {d}none 2 WITHVALUES|HEXISTS {d}h f|HSCAN {d}h 0|HINCRBYFLOAT {d}h f 0.5|HSTRLEN {d}h f
ZSCORE {d}z a|ZSCORE {d}z c|ZSCORE {d}z none|ZMSCORE {d}z a none d|ZINCRBY {d}z inf a|ZCARD {d}z
ZRANGE {d}z 0 -1|ZRANGE {d}z 0 -1 WITHSCORES|ZRANGE {d}z 0 -1 REV WITHSCORES|ZRANGE {d}none 0 -1
ZRANGEBYSCORE {d}z -inf +inf WITHSCORES|ZREVRANGE {d}z 0 1 WITHSCORES|ZRANK {d}z b|ZRANK {d}z none
ZADD {d}z INCR 2 b|ZADD {d}z NX INCR 2 b|ZADD {d}z CH 9 b|ZUNION 2 {d}z {d}z2 WITHSCORES
ZINTER 2 {d}z {d}z2 WITHSCORES|ZDIFF 2 {d}z {d}z2 WITHSCORES|ZSCAN {d}z2 0|ZCOUNT {d}z 1 2
ZPOPMIN {d}z|ZPOPMAX {d}z 1|ZPOPMIN {d}none|ZMPOP 1 {d}z MIN COUNT 2|ZMPOP 1 {d}none MIN
ZRANDMEMBER {d}none|ZRANDMEMBER {d}none 2 WITHSCORES|ZINTERCARD 2 {d}z {d}z2|ZLEXCOUNT {d}z - +
SMEMBERS {d}s|SMEMBERS {d}n|SMEMBERS {d}none|SINTER {d}s {d}s2|SUNION {d}s {d}s2|SDIFF {d}s2 {d}s
SISMEMBER {d}s q|SMISMEMBER {d}s q none|SRANDMEMBER {d}s2 1|SPOP {d}none|SPOP {d}s2 1|SPOP {d}none 1
LRANGE {d}l 0 -1|LPOS {d}l a COUNT 0|LPOS {d}l none|LPOP {d}none|LPOP {d}none 1|LPOP {d}l 1
LMPOP 1 {d}l LEFT|LMPOP 1 {d}none LEFT|LINDEX {d}l 9|LCS {d}str {d}str2 IDX WITHMATCHLEN
LCS {d}str {d}str2|SORT {d}n DESC|SORT {d}none|SORT {d}n GET none GET #
XREAD STREAMS {d}st 0|XREAD STREAMS {d}st 9|XRANGE {d}st - +|XREVRANGE {d}st + -|XLEN {d}st
XREADGROUP GROUP grp bob STREAMS {d}st >|XREADGROUP GROUP grp bob STREAMS {d}st >
XPENDING {d}st grp
XINFO STREAM {d}st|XINFO GROUPS {d}st|XAUTOCLAIM {d}st grp ann 0 0 JUSTID
XCLAIM {d}st grp ann 0 1-1 JUSTID|XACK {d}st grp 1-1|XINFO STREAM {d}none
GEODIST {d}g Palermo Catania|GEODIST {d}g Palermo none|GEOPOS {d}g Palermo none|GEOHASH {d}g none
GEOSEARCH {d}g FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH
TYPE {d}z|EXISTS {d}z {d}none|OBJECT ENCODING {d}n|OBJECT REFCOUNT {d}none|DUMP {d}none|INCR {d}str
PFCOUNT {d}none|BITFIELD {d}none GET u8 0 OVERFLOW FAIL INCRBY u2 0 9|BITPOS {d}none 1
COPY {d}l {d}l
LPUSH {d}str x|NOSUCH|GET|EVAL x 0|EVALSHA x 0|CLIENT GETNAME|CONFIG GET maxmemory|COMMAND COUNT x
CONFIG GET nosuch|COMMAND DOCS nosuch|ROLE|PING|PING x|ECHO x|SELECT 1|INFO nosuch
CLUSTER KEYSLOT a
""".replace("\n", "|").strip("|").split("|")

SCRIPTS = [
    "return {1, 2.9, 'three', false, true, {4, {}}, nil, 5}", "return false", "return true",
    "return nil", "return redis.error_reply('MINE oh')", "return {ok='FINE'}", "return {err='E x'}",
    "redis.setresp(3); return redis.call('HGETALL', KEYS[1])",
    "redis.setresp(3); return redis.call('SMEMBERS', '{d}n')",
    "redis.setresp(3); return redis.call('ZSCORE', '{d}z2', 'a')",
    "redis.setresp(3); return redis.call('GET', '{d}none')", "return {double=3.25}",
    "redis.setresp(3); return {map={a=1}}", "redis.setresp(3); return {set={a=true}}",
    "redis.setresp(3); return {double=3.25}",
    "redis.setresp(3); return {big_number='12345678901234567890'}",
    "redis.setresp(3); return {verbatim_string={string='text', format='txt'}}"]


class Shapes(unittest.TestCase):
    """Every reply has the type that a node gives it, in both dialects."""

    def setUp(self):
        for port in open_pair.ports():
            conversation(port, frames(*commands(*SET_UP)))

    def answers(self, dialect, asked):
        """What node and proxy answer, as trees."""
        out = []
        for port in open_pair.ports():
            data = conversation(port, frames(["HELLO", dialect], *asked))
            replies, trees = Reply(data), []
            while replies.rest:
                trees.append(replies.tree())
            self.assertEqual(len(trees), len(asked) + 1)
            out.append(trees[1:])
        return out

    def assert_alike(self, dialect, asked):
        expected, actual = self.answers(dialect, asked)
        for command, wanted, given in zip(asked, expected, actual):
            with self.subTest(dialect=dialect, command=command):
                if command[0] in UNORDERED_COMMANDS:
                    wanted, given = [(kind, sorted(each)) for kind, each in (wanted, given)]
                self.assertEqual(wanted, given)

    def assert_same_types(self, asked):
        for dialect in (2, 3):
            expected, actual = self.answers(dialect, asked)
            for command, wanted, given in zip(asked, expected, actual):
                with self.subTest(dialect=dialect, command=command):
                    self.assertEqual(kinds(wanted), kinds(given))

    def test_resp3_replies_have_a_nodes_types_and_bytes(self):
        """PR-06: a typed client broke on a flat array where a map, a set or a double was due."""
        self.assert_alike(3, commands(*READS))

    def test_resp2_replies_have_a_nodes_types_and_bytes(self):
        """PR-06: a RESP2 client got replies of another shape than from a node."""
        self.assert_alike(2, commands(*READS))

    def test_scripts_answer_in_the_callers_dialect(self):
        """PR-06: a script's maps and doubles came in the wrong dialect."""
        for dialect in (2, 3):
            self.assert_alike(dialect, [["EVAL", script, 1, "{d}h"] for script in SCRIPTS])

    def test_all_types_of_the_protocol_pass_through(self):
        """PR-06: attributes, big numbers and verbatim texts upset the proxy."""
        names = ["string", "integer", "double", "null", "array", "set", "map", "attrib", "verbatim",
                 "true", "false", "bignum", "nosuch"]
        for dialect in (2, 3):
            self.assert_alike(dialect, [["DEBUG", "PROTOCOL", name] for name in names])

    def test_replies_that_change_with_time_have_the_same_types(self):
        """PR-06: XINFO and others came as flat arrays."""
        self.assert_same_types(commands(
            "XINFO CONSUMERS {d}st grp", "XINFO STREAM {d}st FULL", "XPENDING {d}st grp - + 10",
            "DEBUG OBJECT {d}str", "MEMORY USAGE {d}str", "OBJECT IDLETIME {d}str", "TIME",
            "HRANDFIELD {d}h 5 WITHVALUES", "ZRANDMEMBER {d}z 9 WITHSCORES", "SRANDMEMBER {d}s 9"))

    def test_what_the_proxy_answers_itself_has_a_nodes_types(self):
        """PR-06: CLUSTER SLOTS, COMMAND and others of the proxy's own were flat in RESP3."""
        self.assert_same_types(commands(
            "HELLO", "INFO server", "CLIENT LIST", "CLIENT INFO", "CLIENT ID",
            "COMMAND INFO get nosuch", "CLUSTER INFO", "CLUSTER NODES", "CLUSTER SHARDS",
            "CLUSTER SLOTS", "CLUSTER LINKS", "COMMAND GETKEYS SET a b",
            "COMMAND GETKEYSANDFLAGS GET a", "COMMAND COUNT"))

    def test_split_commands_answer_in_the_callers_dialect(self):
        """PR-06: an absent key in a split MGET was `$-1` for a RESP3 client."""
        with open_pair.proxy.connect() as connection:
            connection.call("HELLO", 3)
            self.assertEqual(connection.call_raw("MSET", "a", "1", "b", "2", "c", "3"), b"+OK\r\n")
            self.assertEqual(connection.call_raw("MGET", "a", "none", "c", "none2"),
                             b"*4\r\n$1\r\n1\r\n_\r\n$1\r\n3\r\n_\r\n")
            self.assertEqual(connection.call_raw("EXISTS", "a", "b", "none"), b":2\r\n")
            connection.call("HELLO", 2)
            self.assertEqual(connection.call_raw("MGET", "a", "none", "c"),
                             b"*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n")
            self.assertEqual(connection.call_raw("DEL", "a", "b", "c", "none"), b":3\r\n")


class MixedClients(unittest.TestCase):
    """Clients of both dialects on the same keys; some change their dialect all the time."""

    # command -> what RESP2 and RESP3 give.
    ANSWERS = {
        ("HGETALL", "{m}h"): (b"*2\r\n$1\r\nf\r\n$1\r\n1\r\n",
                              b"%1\r\n$1\r\nf\r\n$1\r\n1\r\n"),
        ("ZSCORE", "{m}z", "a"): (b"$3\r\n1.5\r\n", b",1.5\r\n"),
        ("SMEMBERS", "{m}s"): (b"*1\r\n$1\r\nx\r\n", b"~1\r\n$1\r\nx\r\n"),
        ("GET", "none"): (b"$-1\r\n", b"_\r\n"),
        ("MGET", "none", "{m}str", "none2"): (b"*3\r\n$-1\r\n$3\r\nabc\r\n$-1\r\n",
                                              b"*3\r\n_\r\n$3\r\nabc\r\n_\r\n"),
        ("CLIENT", "GETNAME"): (b"$-1\r\n", b"_\r\n"),
        ("INFO", "nosuch"): (b"$0\r\n\r\n", b"=4\r\ntxt:\r\n"),
        ("CONFIG", "GET", "save"): (b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n",
                                    b"%1\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        ("PING",): (b"+PONG\r\n", b"+PONG\r\n"),
        ("LPUSH", "{m}str", "x"): (2 * (b"-WRONGTYPE Operation against a key holding the wrong kind"
                                        b" of value\r\n",)),
    }
    SWITCHES = (("HELLO", "2"), ("HELLO", "3"), ("RESET",))

    def setUp(self):
        with open_pair.proxy.connect() as connection:
            for key in range(50):
                connection.call("SET", f"key:{key}", f"value of {key}")
            connection.pipeline([["DEL", "{m}h", "{m}z", "{m}s"], ["HSET", "{m}h", "f", "1"],
                                 ["ZADD", "{m}z", "1.5", "a"], ["SADD", "{m}s", "x"],
                                 ["SET", "{m}str", "abc"]])

    def step(self, source, switch_rate):
        """A command and its answer in both dialects; the answer of a switch starts like that."""
        if source.random() < switch_rate:
            return source.choice(self.SWITCHES), None
        if source.random() < 0.4:
            key = source.randrange(50)
            value = b"value of %d" % key
            return ("GET", f"key:{key}"), 2 * (b"$%d\r\n%s\r\n" % (len(value), value),)
        return source.choice(list(self.ANSWERS.items()))

    def talk(self, connection, source, dialect, switch_rate):
        """One pipeline; returns the dialect at its end."""
        steps = [self.step(source, switch_rate) for _ in range(source.randrange(1, 40))]
        connection.send(frames(*[command for command, _ in steps]))
        for command, answers in steps:
            frame = connection.read_frame()
            if answers is not None:
                self.assertEqual(frame, answers[dialect - 2], command)
                continue
            dialect = 3 if command == ("HELLO", "3") else 2
            start = b"+RESET" if command == ("RESET",) else (b"*14\r\n", b"%7\r\n")[dialect - 2]
            self.assertTrue(frame.startswith(start), (command, frame))
        return dialect

    def crowd(self, seed, switch_rate):
        source = random.Random(seed)
        connections = [open_pair.proxy.connect() for _ in range(13)]
        dialects = []
        for index, connection in enumerate(connections):
            dialects.append(2 + index % 2)
            connection.call("HELLO", dialects[-1])
        for _ in range(150):
            index = source.randrange(len(connections))
            if source.random() < 0.05:
                connections[index].send(frames(*self.ANSWERS))
                connections[index].reset()
                connections[index], dialects[index] = open_pair.proxy.connect(), 2
            dialects[index] = self.talk(connections[index], source, dialects[index], switch_rate)
        for connection in connections:
            connection.close()

    def run_crowds(self, switch_rate):
        run_at_once(*[lambda seed=seed: self.crowd(seed, switch_rate) for seed in range(8)])

    def test_a_hundred_clients_of_both_dialects_each_get_their_own(self):
        """PR-07: RESP2 clients got RESP3 replies from a connection they shared."""
        self.run_crowds(switch_rate=0)

    def test_clients_that_switch_all_the_time_get_the_dialect_of_the_moment(self):
        """PR-07: after HELLO or RESET replies went on in the old dialect."""
        self.run_crowds(switch_rate=0.2)

    def test_replies_in_flight_at_a_switch_keep_the_dialect_they_were_asked_in(self):
        """PR-07: replies on their way at a HELLO changed their dialect with it."""
        with open_pair.proxy.connect() as connection:
            connection.call("SET", "{m}large", "x" * 3000000)
            hash2, hash3 = self.ANSWERS["HGETALL", "{m}h"]
            for _ in range(5):
                connection.send(frames(["GET", "{m}large"], ["HGETALL", "{m}h"], ["HELLO", 3],
                                       ["HGETALL", "{m}h"], ["GET", "{m}large"], ["HELLO", 2],
                                       ["HGETALL", "{m}h"]))
                self.assertEqual(len(connection.read()), 3000000)
                self.assertEqual(connection.read_frame(), hash2)
                self.assertTrue(connection.read_frame().startswith(b"%7\r\n"))
                self.assertEqual(connection.read_frame(), hash3)
                self.assertEqual(len(connection.read()), 3000000)
                self.assertTrue(connection.read_frame().startswith(b"*14\r\n"))
                self.assertEqual(connection.read_frame(), hash2)

    def test_a_refused_hello_leaves_the_dialect_as_it_was(self):
        """PR-07: a HELLO that failed switched the dialect nevertheless."""
        bad = [["HELLO", 4], ["HELLO", "x"], ["HELLO", 3, "NOSUCH"], ["HELLO", 3, "AUTH", "a", "b"],
               ["HELLO", 3, "SETNAME", "a b"], ["HELLO", 3, "SETNAME"], ["HELLO", 1]]
        for start in (2, 3):
            for hello in bad:
                with self.subTest(start=start, hello=hello):
                    data = frames(["HELLO", start], hello, ["GET", "none"])
                    with open_pair.proxy.connect() as connection:
                        connection.send(data)
                        connection.read_frame()
                        self.assertTrue(connection.read_frame().startswith(b"-"))
                        self.assertEqual(connection.read_frame(),
                                         self.ANSWERS["GET", "none"][start - 2])


class PipelinedAuth(unittest.TestCase):
    def test_pipelined_auth_and_commands_are_answered_strictly_in_order(self):
        """PR-13: PING behind AUTH was answered NOAUTH, or before it."""
        right, wrong, ping = ["AUTH", PASSWORD], ["AUTH", "wrong"], ["PING"]
        get, many = ["GET", "{p}1"], ["MGET", "{p}1", "{p}2"]
        for order in itertools.permutations([right, wrong, ping, get, many]):
            with self.subTest(order=order):
                guarded.assert_same(self, frames(*order, right))
        guarded.assert_same(self, frames(right, ping, get, wrong, ping, get))
        guarded.assert_same(self, frames(ping, ["AUTH", "nobody", "x"], ping, right, get))
        guarded.assert_same(self, frames(right, ["RESET"], get, ["RESET"], right, get))

    def test_hello_with_auth_opens_the_way_for_what_follows_it(self):
        """PR-13: commands behind HELLO AUTH in one packet were refused."""
        hello = ["HELLO", "3", "AUTH", "default", PASSWORD, "SETNAME", "me"]
        wrong = ["HELLO", "3", "AUTH", "default", "wrong"]
        answers = self.ask_proxy(["PING"], wrong, ["PING"], hello, ["PING"], ["CLIENT", "GETNAME"],
                                 wrong, ["GET", "none"], ["HELLO", "2"], ["PING"])
        noauth = "NOAUTH Authentication required."
        self.assertEqual(answers[0], noauth)
        self.assertEqual(answers[1].code, "WRONGPASS")
        self.assertEqual(answers[2], noauth)
        self.assertIsInstance(answers[3], Map)
        self.assertEqual(answers[4:6], ["PONG", b"me"])
        self.assertEqual(answers[6].code, "WRONGPASS")
        self.assertIsNone(answers[7])
        self.assertEqual(answers[9], "PONG")

    @staticmethod
    def ask_proxy(*asked):
        with guarded.proxy.connect() as connection:
            return connection.pipeline(asked)

    def test_auth_counts_for_what_follows_it_in_the_same_packet_only(self):
        """PR-13: AUTH in the middle of a packet let in what came before it."""
        right, wrong = ["AUTH", PASSWORD], ["AUTH", "wrong"]
        answers = self.ask_proxy(["PING"], right, ["PING"], wrong, ["PING"])
        self.assertEqual(answers[:3], ["NOAUTH Authentication required.", "OK", "PONG"])
        self.assertEqual(answers[3].code, "WRONGPASS")
        self.assertEqual(answers[4], "PONG")

    def test_auth_with_the_rest_split_anywhere_is_answered_alike(self):
        """PR-13: the answers depended on how AUTH and the rest were split."""
        data = frames(["PING"], ["AUTH", PASSWORD], ["SET", "s", "1"], ["AUTH", "no"], ["GET", "s"])
        expected = guarded.assert_same(self, data)
        for pieces in at_every_split(data):
            answer = conversation(guarded.proxy.port, *pieces, pause=0.0005)
            self.assertEqual(answer, expected, pieces)

    def test_hello_switches_the_dialect_at_its_place_in_the_pipeline(self):
        """PR-13: HELLO in a pipeline switched earlier or later replies."""
        asked = commands("HSET {h} f 1", "HGETALL {h}", "HELLO 3", "HGETALL {h}", "GET none",
                         "HELLO 2", "HGETALL {h}", "GET none", "HELLO 3", "RESET", "GET none")
        with open_pair.proxy.connect() as connection:
            connection.call("DEL", "{h}")
            connection.send(frames(*asked * 20))
            for _ in range(20):
                raw = [connection.read_frame() for _ in asked]
                self.assertEqual(raw[1], b"*2\r\n$1\r\nf\r\n$1\r\n1\r\n")
                self.assertEqual(raw[2][:4], b"%7\r\n")
                self.assertEqual(raw[3], b"%1\r\n$1\r\nf\r\n$1\r\n1\r\n")
                self.assertEqual(raw[4], b"_\r\n")
                self.assertEqual(raw[5][:5], b"*14\r\n")
                self.assertEqual(raw[6], raw[1])
                self.assertEqual(raw[7], b"$-1\r\n")
                self.assertEqual(raw[9:], [b"+RESET\r\n", b"$-1\r\n"])


if __name__ == "__main__":
    unittest.main()
