# SPDX-License-Identifier: Apache-2.0
"""Commands with several keys: split over the shards, merged as one node would have answered."""
import random
import unittest

from support import encode, slot_of
from support.load import Load
from support.slots import A, B, C, SLOTS, keys_of_slots
from support.testbed import BesideAServer, Testbed

bed = Testbed()
setUpModule = bed.set_up


class Beside(BesideAServer, unittest.TestCase):
    bed = bed
    server = "plain"


class Counting(Beside):
    def test_a_key_named_twice_counts_as_one_node_counts_it(self):
        """M-03: EXISTS of a key named twice was 1, because the split had removed doubles."""
        for other in ([], ["{t2}x"], ["{t0}x", "{t1}x", "absent"]):
            self.check([("SET", "b", "1"), ("SET", "{t2}x", "1"), ("SET", "{t1}x", "1"),
                        ("EXISTS", "b", "b", *other), ("TOUCH", "b", *other, "b"),
                        ("EXISTS", *other, "b", "b", *other), ("MGET", "b", *other, "b"),
                        ("DEL", "b", *other, "b"), ("EXISTS", "b", "b"),
                        ("SET", "b", "1"), ("UNLINK", "b", "b", *other), ("DEL", "b", "b")])
        self.client.call("SET", "b", "1")
        self.assertEqual(self.client.pipeline([("EXISTS", "b", "b"), ("TOUCH", "b", "b"),
                                               ("UNLINK", "b", "b"), ("EXISTS", "b", "b")]),
                         [2, 2, 1, 0])

    def test_random_commands_with_repeated_keys_answer_as_one_server(self):
        """M-03: repeated keys were counted, set or deleted otherwise than by one server."""
        dice = random.Random(3)
        keys = [tag + str(i) for tag in ("{t0}", "{t1}", "{t2}", "{t3}") for i in range(3)]
        keys += ["plain", "other", ""]

        def some_keys():
            return dice.choices(keys, k=dice.choice((1, 1, 2, 3, 5, 12)))

        def command():
            name = dice.choice(("MGET", "MGET", "MSET", "DEL", "UNLINK", "EXISTS", "TOUCH",
                                "LPUSH", "SET", "APPEND"))
            if name in ("SET", "APPEND", "LPUSH"):
                return name, dice.choice(keys), dice.randrange(100)
            if name == "MSET":
                return (name, *[word for key in some_keys() for word in (key, dice.random())])
            return (name, *some_keys())

        for protocol in (2, 3):
            self.speak(protocol)
            for _ in range(40):
                self.check([command() for _ in range(100)])


class SettingMany(Beside):
    def test_an_odd_number_of_arguments_is_refused_in_the_words_of_a_node(self):
        """M-04: `MSET k` crashed the proxy."""
        wrong = [("MSET",), ("MSET", "k"), ("MSET", "a", "1", "b"), ("mset", "{t2}a", 1, "{t1}b"),
                 ("MSET", "{t2}a", 1, "{t1}b", 2, "{t0}c"), ("MSETNX", "a"),
                 ("MSETNX", "a", "1", "a"), ("MGET",), ("DEL",), ("EXISTS",)]
        self.check([each for command in wrong for each in (command, ("MGET", "a", "b", "k"))])
        self.assertEqual(self.client.call("MSET", "{t2}a", "1", "{t1}b"),
                         "ERR wrong number of arguments for 'mset' command")

    def test_the_last_value_of_a_repeated_key_wins(self):
        """M-04: a repeated key of an MSET got its first value."""
        self.check([("MSET", "{t2}a", 1, "{t1}b", 2, "{t2}a", 3), ("MGET", "{t2}a", "{t1}b"),
                    ("MSET", "{t1}b", 5, "{t2}a", 6, "{t1}b", 7, "{t1}c", 8, "{t1}b", 9),
                    ("MGET", "{t1}b", "{t2}a", "{t1}c", "{t1}b")])

    def test_many_runs_good_and_bad_leave_memory_flat(self):
        """M-04: every MSET leaked a little."""
        commands = [("MSET", "{t2}a", "1" * 50, "{t1}b", "2" * 50, "{t0}c", "3" * 50),
                    ("MSET", "{t2}a", "1", "{t1}b", "2", "{t2}a", "3"), ("MSET", "k"),
                    ("MSET", "{t2}a", "1", "{t1}b"), ("MGET", "{t2}a", "{t1}b", "{t0}c")]
        batch = b"".join(encode(*command) for command in commands * 50)
        wanted = self.client.pipeline_raw(commands) * 50

        def run(times):
            for _ in range(times):
                self.client.send(batch)
                self.assertEqual([self.client.read_frame() for _ in wanted], wanted)

        run(20)
        resident = bed.proxy.rss
        run(100)
        self.assertLess(bed.proxy.rss - resident, 16 << 20)
        self.assertEqual(self.client.call("MGET", "{t2}a", "{t1}b"), [b"3", b"2"])

    def test_a_key_of_every_slot_is_set_read_counted_and_deleted_by_one_command(self):
        """M-04: a command over very many slots was refused or broken."""
        keys = [key.encode() for key in keys_of_slots(range(SLOTS)).values()]
        words = [word for key in keys for word in (key, key * 3)]
        self.assertEqual(self.client.call("MSET", *words), "OK")
        self.assert_same(self.client.call("MGET", *keys), [key * 3 for key in keys])
        self.assertEqual(self.client.call("EXISTS", *keys, "absent", keys[0]), SLOTS + 1)
        sizes = [node.call("DBSIZE") for node in bed.nodes]
        self.assertEqual(sizes, [5461, 5461, 5462])
        self.assertEqual(self.client.call("UNLINK", *keys, keys[0]), SLOTS)
        self.assert_same(self.client.call("MGET", *keys), [None] * SLOTS)


class CrossSlot(Beside):
    server = "single"
    # "k" stands for keys of one slot in one run and for keys of different slots in another.
    COMMANDS = ["SUNION k k", "SINTER k k", "SDIFF k k", "SUNIONSTORE k k k", "SINTERSTORE k k k",
                "SDIFFSTORE k k k", "SMOVE k k m", "SINTERCARD 2 k k", "SINTERCARD 2 k k LIMIT 1",
                "ZUNION 2 k k", "ZINTER 2 k k", "ZDIFF 2 k k",
                "ZUNION 2 k k WEIGHTS 1 2 WITHSCORES",
                "ZUNIONSTORE k 1 k", "ZUNIONSTORE k 2 k k", "ZINTERSTORE k 2 k k AGGREGATE MAX",
                "ZDIFFSTORE k 2 k k", "ZINTERCARD 2 k k", "ZRANGESTORE k k 0 -1", "ZMPOP 2 k k MIN",
                "LMPOP 2 k k LEFT", "RENAME k k", "RENAMENX k k", "RPOPLPUSH k k",
                "LMOVE k k LEFT RIGHT", "COPY k k", "COPY k k REPLACE", "BITOP AND k k",
                "BITOP OR k k k", "BITOP NOT k k", "PFMERGE k k", "PFCOUNT k k", "MSETNX k 1 k 2",
                "SORT k STORE k", "SORT k ALPHA LIMIT 0 1 STORE k", "LCS k k",
                "GEORADIUS k 0 0 1 m STORE k", "GEORADIUS k 0 0 1 m STOREDIST k",
                "GEORADIUSBYMEMBER k m 1 m STORE k",
                "GEOSEARCHSTORE k k FROMLONLAT 0 0 BYRADIUS 1 m",
                "XREAD STREAMS k k 0 0", "XREAD COUNT 1 STREAMS k k 0 0",
                "XREADGROUP GROUP g c STREAMS k k > >", "EVAL return{KEYS} 2 k k",
                "EVAL_RO return{KEYS} 2 k k", "FCALL f 2 k k", "FCALL_RO f 2 k k"]

    def answers(self, tags):
        """Each command with its keys taken from the tags in turn, and both sides' replies to it."""
        commands = []
        for text in self.COMMANDS:
            count = 0
            words = []
            for word in text.split(" "):
                if word == "k":
                    word = f"{tags[count % len(tags)]}key{count}"
                    count += 1
                words.append(word)
            commands.append(words)
        return zip(commands, self.client.pipeline_raw(commands),
                   self.direct.pipeline_raw(commands))

    def test_keys_of_two_slots_get_the_exact_crossslot_error_at_once(self):
        """M-08: SUNION over two slots gave a wrong result, or an error of other words."""
        refusal = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
        for protocol in (2, 3):
            self.speak(protocol)
            for tags in ((A, B), (B, C), (C, A, B), (A, "{t3}")):
                for command, reply, direct in self.answers(tags):
                    self.assertEqual(direct, refusal, command)
                    self.assertEqual(reply, refusal, command)
        self.assertEqual([node.call("DBSIZE") for node in bed.nodes], [0, 0, 0])

    def test_keys_of_one_slot_are_answered_as_by_a_node(self):
        """M-08: SUNION with a hash tag was refused though its keys are together."""
        for tag in (A, B, C):
            for command, reply, direct in self.answers((tag,)):
                self.assertEqual(reply, direct, command)

    def test_nothing_moves_when_the_slots_differ(self):
        """M-08: RENAME over two slots deleted the key and lost its value."""
        kinds = [("SADD", "s", "m"), ("RPUSH", "l", "x"), ("SET", "v", "1")]
        for name, key, value in kinds:
            self.client.call(name, A + key, value)
            self.client.call(name, B + key, value)
        moves = [("RENAME", A + "v", B + "w"), ("RENAMENX", A + "v", B + "w"),
                 ("SMOVE", A + "s", B + "s", "m"), ("RPOPLPUSH", A + "l", B + "l"),
                 ("LMOVE", A + "l", B + "l", "LEFT", "LEFT"), ("COPY", A + "v", B + "w"),
                 ("MSETNX", A + "n", "1", B + "n", "2"), ("PFMERGE", A + "h", B + "h")]
        for reply in self.client.pipeline(moves):
            self.assertEqual(reply, "CROSSSLOT Keys in request don't hash to the same slot")
        for tag in (A, B):
            self.assertEqual(self.client.pipeline(
                [("SMEMBERS", tag + "s"), ("LRANGE", tag + "l", 0, -1), ("GET", tag + "v")]),
                [[b"m"], [b"x"], b"1"])
        self.assertEqual(self.client.call("EXISTS", B + "w", A + "n", B + "n", A + "h"), 0)


class HugeRead(Beside):
    def store(self, keys):
        for start in range(0, len(keys), 1000):
            words = [word for key in keys[start:start + 1000] for word in (key, value_of(key))]
            self.assertEqual(self.client.call("MSET", *words), "OK")

    @staticmethod
    def backend_reads():
        return sum(node.calls(name) for node in bed.nodes for name in ("mget", "get"))

    def test_an_mget_costs_one_backend_command_for_each_slot_and_not_for_each_key(self):
        """M-09: an MGET of 10,000 keys was sent key by key, twelve times slower."""
        for count in (10, 100, 1000, 10000):
            for keys in ([f"{{tag{i % 20}}}{i}" for i in range(count)],
                         [f"{{t1}}{i}" for i in range(count)], [str(i) for i in range(count)]):
                self.store(keys)
                before = self.backend_reads()
                wanted = [value_of(key) for key in keys]
                self.assert_same(self.client.call("MGET", *keys), wanted)
                slots = len({slot_of(key) for key in keys})
                self.assertEqual(self.backend_reads() - before, slots)

    def test_an_mget_of_very_many_keys_with_absent_and_repeated_ones_is_right(self):
        """M-09: an MGET of more keys than some limit mixed them up."""
        keys = [f"{{t{i % 4}}}{i}" for i in range(20000)]
        self.store(keys)
        asked = random.Random(9).choices(keys + [key + "absent" for key in keys[::2]], k=70000)
        wanted = [None if key.endswith("absent") else value_of(key) for key in asked]
        self.assert_same(self.client.call("MGET", *asked), wanted)
        here = sum(value is not None for value in wanted)
        self.assertEqual(self.client.call("EXISTS", *asked), here)

    def test_large_values_from_all_shards_are_merged_whole(self):
        """M-09: large values of different shards were mixed up in one MGET."""
        dice = random.Random(91)
        values = {f"{{t{i % 4}}}{i}": dice.randbytes(dice.choice((0, 10, 40000, 300000)))
                  for i in range(60)}
        self.assertEqual(self.client.call("MSET", *[word for pair in values.items()
                                                     for word in pair]), "OK")
        for _ in range(5):
            asked = dice.choices([*values, "absent"], k=80)
            self.assert_same(self.client.call("MGET", *asked), [values.get(key) for key in asked])

    def test_other_clients_are_answered_while_huge_reads_run(self):
        """M-09: everybody waited while one client read 10,000 keys."""
        keys = [f"{{tag{i % 200}}}{i}" for i in range(10000)]
        self.store(keys)
        wanted = [value_of(key) for key in keys]
        others = [Load(bed.proxy, ("GET", key)) for key in keys[:4]]
        for _ in range(20):
            self.client.send(encode("MGET", *keys))
            for other in others:
                other.wait_for_more(2)
            self.assert_same(self.client.read(), wanted)
        for other in others:
            self.assertEqual(other.stop(), [])


def value_of(key):
    return (key.encode() + b":" * 100)[:100]


if __name__ == "__main__":
    unittest.main()
