# SPDX-License-Identifier: Apache-2.0
"""Keys and values of any bytes, empty ones too, get there and back as they were."""
import random
import time
import unittest

from support import encode, frames
from support.slots import TAGS
from support.testbed import BesideAServer, Testbed

bed = Testbed()
setUpModule = bed.set_up


class Beside(BesideAServer, unittest.TestCase):
    bed = bed


class EmptyArguments(Beside):
    PIPELINE = [command for i in range(10) for command in (
        ("SET", f"k{i}", ""), ("GET", f"k{i}"), ("SET", "", f"v{i}"), ("GET", ""),
        ("HSET", f"m{i}", "k", ""))]

    def test_an_empty_argument_is_accepted_and_nothing_after_it_is_misframed(self):
        """R-14: SET a "" was refused as an invalid bulk length, and a whole pipeline was lost."""
        frame = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n"
        self.client.send(frame + encode("GET", "a") + frame + encode("STRLEN", "a"))
        self.assertEqual([self.client.read() for _ in range(4)], ["OK", b"", "OK", 0])
        commands = [("HSET", "m", "k", ""), ("HGET", "m", "k"), ("HSET", "m", "", "v"),
                    ("HGETALL", "m"), ("SET", "", "v"), ("GET", ""), ("STRLEN", ""),
                    ("APPEND", "", ""), ("GETRANGE", "", 0, -1), ("RPUSH", "l", "", "", "x", ""),
                    ("LRANGE", "l", 0, -1), ("SADD", "s", ""), ("SISMEMBER", "s", ""),
                    ("ZADD", "z", 1, ""), ("ZSCORE", "z", ""), ("XADD", "x", "1-1", "", ""),
                    ("XRANGE", "x", "-", "+"), ("ECHO", ""), ("PING", ""), ("SET", "n", "", "NX"),
                    ("MGET", "", ""), ("EXISTS", "", ""), ("DEL", ""), ("DEL", ""), ("", ""),
                    ("EVAL", "return {KEYS,ARGV}", 1, "", "", ""), ("ECHO", "in step")]
        self.check(commands)

    def test_the_empty_key_lives_in_slot_0(self):
        """R-14: the empty key was refused or went to a wrong node."""
        self.assertEqual(self.client.call("CLUSTER", "KEYSLOT", ""), 0)
        self.assertEqual(self.client.call("SET", "", "v"), "OK")
        self.assertEqual(bed.nodes[0].call("CLUSTER", "COUNTKEYSINSLOT", 0), 1)
        self.assertEqual(bed.nodes[0].call("GET", ""), b"v")

    def test_split_commands_keep_empty_keys_and_values(self):
        """R-14: empty keys and values were lost when a command was split."""
        self.assertEqual(self.client.call("MSET", "", "", "{t0}", "", "{t1}", "x", "{t2}", ""),
                         "OK")
        self.assertEqual(self.client.call("MGET", "{t2}", "", "{t1}", "", "{t0}"),
                         [b"", b"", b"x", b"", b""])
        self.assertEqual(self.client.call("EXISTS", "", "{t0}", "", "absent"), 3)
        self.assertEqual(self.client.call("DEL", "", "{t0}", "", "absent"), 2)

    def test_a_pipeline_with_empty_arguments_arrives_byte_by_byte(self):
        """R-14: `$0` was mis-framed when it came in pieces."""
        wanted = self.direct.pipeline_raw(self.PIPELINE)
        for byte in frames(*self.PIPELINE):
            self.client.send(bytes([byte]))
        self.assertEqual([self.client.read_frame() for _ in self.PIPELINE], wanted)

    def test_a_pipeline_with_empty_arguments_is_split_at_every_byte(self):
        """R-14: `$0` was mis-framed when it came in two pieces."""
        data = frames(*self.PIPELINE)
        self.direct.pipeline_raw(self.PIPELINE)
        wanted = self.direct.pipeline_raw(self.PIPELINE)
        self.client.pipeline_raw(self.PIPELINE)
        for split in range(1, len(data)):
            self.client.send(data[:split])
            time.sleep(0.001)
            self.client.send(data[split:])
            got = [self.client.read_frame() for _ in self.PIPELINE]
            self.assertEqual(got, wanted, f"split after {split} bytes")


class BinaryData(Beside):
    NASTY = [b"\0", b"\r\n", b"$5\r\n", b"*2\r\n", b"\r", b"\n", b"-ERR x\r\n", b":1\r\n", b"{",
             b"}", b"\xff\xfe", bytes(range(256)), b"+OK\r\n", b"$-1\r\n", b"*-1\r\n"]
    EDGES = [0, 1, 511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 16383, 16384, 16385, 32767,
             32768, 32769, 65535, 65536, 65537, 70000]

    def blob(self, dice, size):
        if dice.random() < 0.5:
            return dice.randbytes(size)
        return b"".join(dice.choices(self.NASTY, k=size // 2 + 1))[:size]

    def entries(self, dice, count):
        """Keys and values over all bytes; most are small, some reach 70000 bytes."""
        sizes = self.EDGES + [dice.randrange(dice.choice([300] * 90 + [5000] * 9 + [70001]))
                              for _ in range(count - len(self.EDGES))]
        entries = {}
        for number, size in enumerate(sizes):
            key = self.blob(dice, dice.randrange(64)) + b"%d" % number
            entries[key] = self.blob(dice, size)
        return entries

    def test_ten_thousand_binary_values_come_back_byte_for_byte(self):
        """R-15: values with NULs and line ends came back broken from MGET."""
        for protocol in (2, 3):
            self.client.call("HELLO", protocol)
            entries = self.entries(random.Random(15 + protocol), 5000)
            keys = list(entries)
            groups = [keys[start:start + 100] for start in range(0, len(keys), 100)]
            for group in groups:
                words = [word for key in group for word in (key, entries[key])]
                self.assertEqual(self.client.call("MSET", *words), "OK")
            for group in groups:
                wanted = [entries[key] for key in group]
                self.assert_same(self.client.call("MGET", *group), wanted)
                self.assert_same(self.client.pipeline([("GET", key) for key in group]), wanted)
            for node in bed.nodes:
                with node.connect() as owner:
                    mine = [key for key in keys if bed.owner_of(key) is node]
                    got = owner.pipeline([("GET", key) for key in mine])
                    self.assert_same(got, [entries[key] for key in mine])

    def test_ranges_of_binary_values_are_read_and_written_exactly(self):
        """R-15: GETRANGE and SETRANGE broke values that looked like the protocol."""
        dice = random.Random(151)
        for key, value in self.entries(dice, 200).items():
            self.client.call("SET", key, value)
            first, last = sorted(dice.randrange(len(value) + 1) for _ in range(2))
            self.assertEqual(self.client.call("GETRANGE", key, first, last),
                             value[first:last + 1])
            patch = self.blob(dice, dice.randrange(1, 2000))
            expected = value[:first] + patch + value[first + len(patch):]
            self.assertEqual(self.client.call("SETRANGE", key, first, patch), len(expected))
            self.assertEqual(self.client.call("GET", key), expected)

    def test_a_dump_is_restored_under_a_key_of_another_shard(self):
        """R-15: a DUMP, binary by nature, could not be restored."""
        for number, (key, value) in enumerate(self.entries(random.Random(152), 200).items()):
            copy = TAGS[number % 3].encode() + key.replace(b"{", b"(")
            self.client.call("SET", key, value)
            dump = self.client.call("DUMP", key)
            self.assertEqual(dump, bed.owner_of(key).call("DUMP", key))
            self.assertEqual(self.client.call("RESTORE", copy, 0, dump, "REPLACE"), "OK")
            self.assertEqual(self.client.call("GET", copy), value)

    def test_binary_fields_and_members_come_back_in_every_kind_of_reply(self):
        """R-15: binary fields of hashes and lists came back broken."""
        pieces = sorted(set(self.entries(random.Random(153), 100).values()))
        fields = {piece: piece[::-1] for piece in pieces}
        for protocol in (2, 3):
            self.speak(protocol)
            self.check(
                [("DEL", "h"), ("DEL", "l"),
                 ("HSET", "h", *[word for pair in fields.items() for word in pair]),
                 ("HMGET", "h", *pieces), ("RPUSH", "l", *pieces), ("LRANGE", "l", 0, -1),
                 ("ECHO", pieces[-1]), ("EVAL", "return ARGV", 0, *pieces)])
            whole = self.client.call("HGETALL", "h")
            pairs = whole if protocol == 3 else zip(whole[::2], whole[1::2])
            self.assertTrue(dict(pairs) == fields)


if __name__ == "__main__":
    unittest.main()
