# SPDX-License-Identifier: Apache-2.0
"""Which node a command goes to: hash tags, containers, numbers of keys, scripts."""
import hashlib
import random
import unittest

from support import Error
from support.policy import policy_names
from support.slots import TAGS
from support.testbed import BesideAServer, Testbed

bed = Testbed()
setUpModule = bed.set_up


class Beside(BesideAServer, unittest.TestCase):
    bed = bed


class HashTags(Beside):
    CORNERS = {b"{}": 15257, b"{}{a}": 13650, b"{}a": 10875, b"a{}b": 13694, b"{a}{b}": 15495,
               b"{": 4092, b"}{a": 12925, b"a}{b}": 3300, b"{{a}": 10276,
               b"foo{{bar}}zap": 4015, b"foo{bar}{zap}": 5061, b"": 0, b"a\0b": 8383,
               b"a\r\nb": 3608, b"a": 15495, b"b": 3300}

    def test_a_corner_hash_tag_goes_straight_to_the_owner_of_its_slot(self):
        """R-01: keys such as `{}{a}` went to a wrong slot, and were repaired by MOVED."""
        before, moved = bed.redirects(), bed.proxy.counter("moved")
        for key, slot in self.CORNERS.items():
            with self.subTest(key=key):
                self.assertEqual(self.client.call("CLUSTER", "KEYSLOT", key), slot)
                self.assertEqual(bed.nodes[0].call("CLUSTER", "KEYSLOT", key), slot)
                self.assertEqual(self.client.call("SET", key, "v"), "OK")
                counts = [node.call("CLUSTER", "COUNTKEYSINSLOT", slot) for node in bed.nodes]
                self.assertEqual(sum(counts), 1)
                self.assertEqual(bed.owner_of(key).call("GET", key), b"v")
                self.assertEqual(self.client.call("GET", key), b"v")
                self.assertEqual(self.client.call("CLUSTER", "COUNTKEYSINSLOT", slot), 1)
                self.assertEqual(self.client.call("DEL", key), 1)
        self.assertEqual(bed.redirects(), before)
        self.assertEqual(bed.proxy.counter("moved"), moved)

    def test_keys_of_random_braces_are_hashed_as_the_nodes_hash_them(self):
        """R-01: some keys with braces went to a wrong slot."""
        dice = random.Random(1)
        keys = [bytes(dice.choices(b"{{}}ab\0\r\n\xff", k=dice.randrange(9)))
                for _ in range(4000)]
        before = bed.redirects()
        for start in range(0, len(keys), 500):
            some = keys[start:start + 500]
            self.assertEqual(self.client.pipeline([("SET", key, key) for key in some]),
                             ["OK"] * len(some))
            self.check([("CLUSTER", "KEYSLOT", key) for key in some])
            self.assertEqual(self.client.call("MGET", *some), some)
        self.assertEqual(bed.redirects(), before)

    def test_two_corner_keys_share_a_slot_exactly_when_a_node_says_so(self):
        """R-01: keys of one slot were refused as CROSSSLOT, or the other way round."""
        pairs = [(a, b) for a in self.CORNERS for b in self.CORNERS]
        before = bed.redirects()
        self.check([("SINTER", a, b) for a, b in pairs])
        self.check([("MSETNX", a, "1", b, "2") for a, b in pairs])
        self.assertEqual(bed.redirects(), before)

    def test_commands_that_are_split_put_corner_keys_into_the_right_part(self):
        """R-01: MGET looked for a corner key on the wrong shard and said nil."""
        keys = list(self.CORNERS)
        before = bed.redirects()
        self.assertEqual(self.client.call("MSET", *[word for key in keys
                                                    for word in (key, b"v" + key)]), "OK")
        self.assertEqual(self.client.call("MGET", *keys), [b"v" + key for key in keys])
        self.assertEqual(self.client.call("EXISTS", *keys), len(keys))
        self.assertEqual(self.client.call("TOUCH", *keys), len(keys))
        self.assertEqual(self.client.call("UNLINK", *keys), len(keys))
        self.assertEqual(self.client.call("MGET", *keys), [None] * len(keys))
        self.assertEqual(bed.redirects(), before)


class ContainerCommands(Beside):
    QUESTIONS = [("MEMORY", "USAGE", "k"), ("memory", "usage", "k", "SAMPLES", "0"),
                 ("MEMORY", "USAGE", "absent"), ("OBJECT", "ENCODING", "k"),
                 ("object", "encoding", "s"), ("OBJECT", "REFCOUNT", "k"),
                 ("OBJECT", "FREQ", "k"), ("OBJECT", "FREQ", "absent"),
                 ("OBJECT", "ENCODING", "absent"), ("XINFO", "STREAM", "s"),
                 ("XINFO", "STREAM", "s", "FULL"), ("XINFO", "GROUPS", "s"),
                 ("XINFO", "CONSUMERS", "s", "g"), ("XINFO", "CONSUMERS", "s", "nope"),
                 ("XINFO", "STREAM", "absent"), ("DEBUG", "OBJECT", "absent")]
    REPEATS = 50

    def setUp(self):
        super().setUp()
        for tag in TAGS:
            self.client.call("SET", tag + "k", "hello")
            self.client.call("XADD", tag + "s", "1-1", "field", "value")
            self.client.call("XGROUP", "CREATE", tag + "s", "g", "0")

    def test_a_key_in_argument_2_is_answered_by_its_owner_every_time(self):
        """R-03: MEMORY USAGE asked any node: MOVED, or nil for a key that was there."""
        before = bed.redirects()
        for tag in TAGS:
            with bed.owner_of(tag).connect() as owner:
                for question in self.QUESTIONS:
                    command = (*question[:2], tag + question[2], *question[3:])
                    with self.subTest(command=command):
                        self.ask_often(command, owner.call_raw(*command))
        self.assertEqual(bed.redirects(), before)

    def ask_often(self, command, wanted):
        for _ in range(self.REPEATS):
            self.assertEqual(self.client.call_raw(*command), wanted)
        self.assertEqual(self.client.pipeline_raw([command] * self.REPEATS),
                         [wanted] * self.REPEATS)

    def test_replies_that_change_with_time_still_come_from_the_owner(self):
        """R-03: DEBUG OBJECT asked any node."""
        for tag in TAGS:
            key = tag + "k"
            for _ in range(self.REPEATS):
                text = self.client.call("DEBUG", "OBJECT", key)
                direct = bed.owner_of(key).call("DEBUG", "OBJECT", key)
                self.assertEqual(text.split(" lru:")[0], direct.split(" lru:")[0])
                self.assertIsInstance(self.client.call("OBJECT", "IDLETIME", key), int)

    def test_stream_groups_are_made_and_removed_where_the_stream_is(self):
        """R-03: XGROUP CREATE MKSTREAM made the stream on a wrong node."""
        before = bed.redirects()
        for tag in TAGS:
            key = tag + "fresh"
            commands = [("XGROUP", "CREATE", key, f"g{i}", "$", "MKSTREAM") for i in range(50)]
            commands += [("XGROUP", "CREATE", key, "g0", "$"),
                         ("XGROUP", "CREATECONSUMER", key, "g1", "c"),
                         ("XINFO", "GROUPS", key),
                         ("XGROUP", "SETID", key, "g1", "0"),
                         ("XGROUP", "DELCONSUMER", key, "g1", "c"),
                         ("XGROUP", "CREATE", tag + "absent", "g", "$")]
            commands += [("xgroup", "destroy", key, f"g{i}") for i in range(50)]
            self.check(commands)
        self.assertEqual(bed.redirects(), before)

    def test_container_commands_without_a_key_or_with_a_wrong_one_answer_as_a_node(self):
        """R-03: OBJECT without its key crashed the proxy."""
        containers = ("OBJECT", "XINFO", "XGROUP", "MEMORY")
        self.check([(name, "HELP") for name in containers])
        self.check([(name,) for name in containers])
        self.check([(name, "NOPE", "k") for name in containers])
        self.check(
            [("OBJECT", "ENCODING"), ("OBJECT", "ENCODING", "a", "b"), ("XINFO", "STREAM"),
             ("MEMORY", "USAGE"), ("XGROUP", "CREATE", "a"), ("XINFO", "CONSUMERS", "a")])


class KeyCounts(Beside):
    BAD = ["-1", "-2", "3", "x", "", " 1", "1 ", "+1", "01", "1x", "1.0", "0x1", "-0", "1e0",
           "2147483647", "2147483648", "-2147483648", "4294967297", "9223372036854775807",
           "9223372036854775808", "18446744073709551617", "99999999999999999999",
           "-99999999999999999999"]
    GOOD = ["0", "1"]
    # "#" stands for the number of keys.
    FORMS = [("EVAL", "return 7", "#", "k"), ("EVAL", "return 7", "#"),
             ("EVAL_RO", "return 7", "#", "k"), ("EVALSHA", "0" * 40, "#", "k"),
             ("EVALSHA_RO", "0" * 40, "#", "k"),
             ("FCALL", "f", "#", "k"), ("FCALL", "f", "#"), ("FCALL_RO", "f", "#", "k"),
             ("ZUNION", "#", "k"), ("ZINTER", "#", "k"), ("ZDIFF", "#", "k"),
             ("ZUNIONSTORE", "d", "#", "k"), ("ZINTERSTORE", "d", "#", "k"),
             ("ZDIFFSTORE", "d", "#", "k"), ("ZINTERCARD", "#", "k"), ("SINTERCARD", "#", "k"),
             ("LMPOP", "#", "k", "LEFT"), ("ZMPOP", "#", "k", "MIN")]

    def commands_of(self, form):
        """The form with every number of keys, for keys of each shard."""
        return [tuple(count if word == "#" else tag + word if word in ("k", "d") else word
                      for word in form)
                for count in self.BAD + self.GOOD for tag in TAGS]

    def test_a_bad_number_of_keys_gets_the_answer_of_a_node_and_the_next_command_works(self):
        """R-05: EVAL with a negative number of keys crashed the proxy."""
        commands = [each for form in self.FORMS for command in self.commands_of(form)
                    for each in (command, ("ECHO", "still here"))]
        got = self.client.pipeline_raw(commands)
        wanted = self.direct.pipeline_raw(commands)
        wrong = [each for each in zip(commands, got, wanted) if each[1] != each[2]]
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(commands)} are wrong")
        self.assertTrue(bed.proxy.is_alive())

    def test_a_bad_number_of_keys_is_never_answered_with_a_redirect(self):
        """R-05: a malformed number of keys brought a MOVED to light."""
        # From fresh connections too, so that every worker and every master takes part.
        commands = [command for form in self.FORMS for command in self.commands_of(form)[::7]]
        replies = [(command, bed.proxy.call(*command)) for command in commands]
        leaked = [each for each in replies if getattr(each[1], "code", "") in ("MOVED", "ASK")]
        self.assertEqual(leaked, [], f"{len(leaked)} of {len(commands)} redirects leaked")

    def test_a_number_of_keys_beyond_the_arguments_is_an_error_whatever_their_slots(self):
        """R-05: numkeys 2147483647 made the proxy read beyond the arguments."""
        self.check(
            [("EVAL", "return 7", "3", "a"), ("EVAL", "return 7", "9", "a", "b"),
             ("ZUNIONSTORE", "d", "-2", "a", "b"), ("ZUNIONSTORE", "d", "2147483647", "a"),
             ("FCALL", "f", "-1"), ("LMPOP", "0", "a", "LEFT"), ("SINTERCARD", "3", "a", "b"),
             ("ZINTERSTORE", "d", "3", "a", "b"), ("XREAD", "STREAMS", "a", "b", "0"),
             ("XREAD", "STREAMS", "a"), ("XREAD", "COUNT", "1", "STREAMS"),
             ("SORT", "a", "STORE"), ("SORT", "a", "LIMIT", "1"),
             ("GEORADIUS", "a", "1", "1", "1", "m", "STORE"), ("ECHO", "still here")])


class GeneratedCommands(Beside):
    """Every command with keys, with arguments that now and then make sense."""
    SPLIT = {"mget", "mset", "del", "unlink", "exists", "touch"}
    LEFT_OUT = {"admin", "blocking", "pubsub", "no_multi"}
    KEYS = ["{t0}a", "{t0}b", "{t1}a", "{t1}b", "{t2}a", "a", ""]
    WORDS = KEYS + ["0", "1", "2", "3", "-1", "1x", "x", "STORE", "STOREDIST", "LIMIT", "GET",
                    "BY", "KEYS", "STREAMS", "GROUP", "COUNT", "LEFT", "RIGHT", "MIN", "MAX",
                    "WEIGHTS", "AGGREGATE", "WITHSCORES", "AND", "NOT", "REPLACE", "NX", "m",
                    "FROMMEMBER", "BYRADIUS", "return 1", ">", "-", "+"]

    def names(self):
        """The words of each served command that has keys, and how many it takes at least; always in
        the same order, which that of a server's table is not."""
        unserved = {*policy_names("not_yet"), *policy_names("refused")}
        for entry in sorted(self.direct.call("COMMAND")):
            for each in [entry, *sorted(entry[9])]:
                name, arity, flags, specs = each[0].decode(), each[1], each[2], each[8]
                if specs and not self.LEFT_OUT & set(flags) and name not in unserved:
                    yield name.split("|"), abs(arity)

    def generate(self, dice):
        names = list(self.names())
        for _ in range(8000):
            name, least = dice.choice(names)
            count = max(1, least - len(name) + dice.choice((0, 0, 1, 2, 3, 5)))
            words = [dice.choice(self.KEYS if dice.random() < 0.4 else self.WORDS)
                     for _ in range(count)]
            yield (*name, *words)

    def test_no_arguments_bring_a_redirect_to_light_or_a_wrong_slot_check(self):
        """R-05: odd arguments brought a MOVED to light."""
        commands = list(self.generate(random.Random(5)))
        leaked, differ = [], []
        for start in range(0, len(commands), 200):
            some = commands[start:start + 200]
            replies = zip(some, self.client.pipeline(some), self.direct.pipeline(some))
            for command, reply, direct in replies:
                code = getattr(reply, "code", "")
                if code in ("MOVED", "ASK", "TRYAGAIN"):
                    leaked.append((command, reply, direct))
                crosses = "" if command[0] in self.SPLIT else getattr(direct, "code", "")
                if (code == "CROSSSLOT") != (crosses == "CROSSSLOT"):
                    differ.append((command, reply, direct))
        self.assertEqual(leaked, [])
        self.assertEqual(differ, [])


class Scripts(Beside):
    def test_a_script_with_one_key_runs_wherever_its_arguments_would_hash(self):
        """R-06: EVAL with one key was refused because of an argument's slot."""
        echo = "return {KEYS[1],ARGV[1]}"
        self.assertEqual(self.client.call("EVAL", echo, 1, "test", "123"), [b"test", b"123"])
        before = bed.redirects()
        dice = random.Random(6)
        names = [b"{t%d}%d" % (i % 3, i) for i in range(100)]
        self.client.pipeline([("SET", name, "x") for name in names])
        for key in names:
            argument = dice.choice(names)
            self.assertEqual(self.client.call("EVAL", echo, 1, key, argument), [key, argument])
            self.assertEqual(self.client.call("EVAL_RO", echo, 1, key, argument), [key, argument])
        self.assertEqual(bed.redirects(), before)

    def test_only_the_keys_of_a_script_count_for_the_slot_check(self):
        """R-06: arguments that look like keys were taken for keys."""
        commands = [("EVAL", "return {KEYS,ARGV}", 1, "{t1}a", *TAGS, "{t1}a", "1", ""),
                    ("EVAL", "return {KEYS,ARGV}", 2, "{t1}a", "{t1}b", *TAGS),
                    ("EVAL", "return {KEYS,ARGV}", 2, "{t1}a", "{t2}a"),
                    ("EVAL", "return {KEYS,ARGV}", 2, "{t2}a", "{t2}a", "{t1}a"),
                    ("EVAL", "return redis.call('get',KEYS[1])", 1, "{t0}a", "{t1}a"),
                    ("EVAL", "return redis.call('set',KEYS[1],ARGV[1])", 1, "{t2}a", "{t1}a"),
                    ("EVAL", "return redis.call('get',KEYS[1])", 1, "{t2}a", "{t1}a")]
        self.check(commands)

    def test_evalsha_and_fcall_with_one_key_run_with_any_arguments(self):
        """R-06: EVALSHA and FCALL with one key were refused."""
        echo = "return {KEYS[1],ARGV[1]}"
        library = ("#!lua name=lib\nredis.register_function{function_name='echo',"
                   "callback=function(k,a) return {k[1],a[1]} end,flags={'no-writes'}}")
        for node in bed.nodes:
            node.call("SCRIPT", "LOAD", echo)
            self.assertEqual(node.call("FUNCTION", "LOAD", "REPLACE", library), b"lib")
        sha = hashlib.sha1(echo.encode()).hexdigest()
        for tag in TAGS:
            for other in TAGS:
                wanted = [tag.encode(), other.encode()]
                for command in ("EVALSHA", "EVALSHA_RO"):
                    self.assertEqual(self.client.call(command, sha, 1, tag, other), wanted)
                for command in ("FCALL", "FCALL_RO"):
                    self.assertEqual(self.client.call(command, "echo", 1, tag, other), wanted)
        self.assertEqual(self.client.call("EVALSHA", "f" * 40, 1, "a", "b"),
                         "NOSCRIPT No matching script. Please use EVAL.")

    def test_a_script_without_keys_that_touches_one_gets_the_answer_of_a_node(self):
        """R-07: a script without keys hung or was refused."""
        script = "return redis.call('set','{t1}z',1)"
        stranger = bed.nodes[0].call("EVAL", script, 0)
        self.assertIsInstance(stranger, Error)
        replies = set(self.client.pipeline([("EVAL", script, 0)] * 60))
        self.assertLessEqual(replies, {"OK", stranger})

    def test_commands_without_keys_answer_as_a_node(self):
        """R-07: EVAL with zero keys hung."""
        self.check(
            [("EVAL", "return 7", 0), ("EVAL", "return ARGV", 0, *TAGS), ("EVAL_RO", "return 1", 0),
             ("EVALSHA", "0" * 40, 0), ("FCALL", "nope", 0), ("PUBLISH", "nobody", "hello"),
             ("EVAL", "return redis.call('nope')", 0), ("EVAL", "return (", 0)])


if __name__ == "__main__":
    unittest.main()
