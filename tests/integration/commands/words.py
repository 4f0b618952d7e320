# SPDX-License-Identifier: Apache-2.0
"""Random words of every kind that commands take, most of them fit, some of them odd."""
from support import slot_of

from . import scripts
from .keys import KINDS, TAGS

ODD_INTEGERS = ("", "abc", "1.5", "+1", "01", " 1", "1 ", "-0", "1e3", "0x10", "nan", "inf", "-",
                "9223372036854775807", "-9223372036854775808", "9223372036854775808",
                "-9223372036854775809", "18446744073709551615", "99999999999999999999",
                "4294967296", "2147483647", "2147483648", "-2147483649", b"\x00", b"1\x00")
ODD_FLOATS = ("", "abc", "nan", "-nan", "inf", "-inf", "+inf", "1e400", "1e-400", " 1", "1,5",
              "0x1p3", "infinity", "1.7976931348623157e308", "-0", "3.", ".5", b"1\x00")
ODD_BYTES = (b"", b"\x00", b"\xff\xfe", b"\r\n", b"a\r\nb", b"a\x00b", b"\x00a", b" ", b"'q'",
             b"\xc3\xa9", b"{", b"}", b"{}x", b"%s%n", b"'", b"\t\x07\x1b")
OPTIONS = ("COUNT", "LIMIT", "STORE", "NX", "XX", "GT", "LT", "CH", "INCR", "WITHSCORES", "MATCH",
           "EX", "PX", "KEEPTTL", "GET", "REV", "BYSCORE", "BYLEX", "WEIGHTS", "AGGREGATE",
           "STREAMS", "GROUP", "NOACK", "MAXLEN", "MINID", "LEFT", "RIGHT", "MIN", "MAX", "KEYS",
           "REPLACE", "ABSTTL", "FULL", "JUSTID", "FORCE", "WITHCOORD", "STOREDIST", "ANY", "ASC",
           "DESC", "ALPHA", "BY", "RANK", "IDX", "LEN", "PERSIST", "SAMPLES", "FILTERBY", "NOSUCH")


def to_bytes(word):
    if isinstance(word, bytes):
        return word
    return str(word).encode()


class Words:
    """Draws words. The keys of a command share a tag, but for about one key in `stray`."""

    def __init__(self, rng, stray=60, tags=TAGS):
        self.rng, self.stray, self.tags = rng, stray, tags
        self.tag = tags[0]
        self.clock = 0
        self.payloads = [b""]
        self.names = ["get"]
        self.nested = None  # draws the words of a whole command

    def begin_command(self):
        self.tag = self.rng.choice(self.tags)

    def chance(self, percent):
        return self.rng.random() * 100 < percent

    def pick(self, *choices):
        return self.rng.choice(choices)

    def cased(self, word):
        """The word in lower, upper or mixed case."""
        style = self.rng.randrange(4)
        if style == 0:
            return word.upper()
        if style == 1:
            return "".join(self.pick(c.upper(), c.lower()) for c in word)
        return word.lower()

    # Keys

    def key_of(self, kind):
        roll = self.rng.random()
        if roll > 0.88:
            kind = self.rng.choice(KINDS)
        elif roll > 0.82:
            kind = "none"
        tag = self.rng.choice(self.tags) if self.rng.randrange(self.stray) == 0 else self.tag
        if self.rng.randrange(400) == 0:
            return self.pick(b"", b"\x00\xff", b"{}k", b"}{a}\r\n", "k" * 300)
        return f"{{{tag}}}{kind}{self.rng.randint(1, 2)}"

    def key(self):
        return self.key_of(self.rng.choice(KINDS))

    def counted(self, kind):
        """numkeys and keys, the number now and then wrong."""
        keys = [self.key_of(kind) for _ in range(self.rng.choice((1, 1, 2, 2, 3)))]
        if self.chance(8):
            keys.append(keys[0])
        if self.chance(85):
            return [len(keys)] + keys
        return [self.pick(0, -1, len(keys) - 1, len(keys) + 1, self.odd_int())] + keys

    def streams(self):
        """Keys and as many IDs, now and then unbalanced."""
        count = self.rng.choice((1, 1, 2, 3))
        keys = [self.key_of("stream") for _ in range(count)]
        return keys + [self.rid() for _ in range(count - self.chance(8))]

    def gstreams(self):
        keys = [self.key_of("stream") for _ in range(self.rng.choice((1, 1, 2)))]
        return keys + [">" if self.chance(75) else self.rid() for _ in keys]

    # Numbers

    def odd_int(self):
        return self.rng.choice(ODD_INTEGERS)

    def int(self):
        roll = self.rng.random()
        if roll < 0.78:
            return self.rng.randint(-3, 8)
        return self.pick(-100, 20, 100, 1000) if roll < 0.88 else self.odd_int()

    def count(self):
        return self.rng.randint(1, 5) if self.chance(80) else self.int()

    def off(self):
        """A bit or byte offset."""
        return self.rng.randint(0, 120) if self.chance(85) else self.int()

    def fieldoff(self):
        return f"#{self.rng.randint(0, 9)}" if self.chance(30) else self.off()

    def enc(self):
        return self.pick("u8", "i8", "u1", "i16", "u32", "i64", "u63", "u7", "i5") \
            if self.chance(90) else self.pick("u64", "i65", "u0", "x8", "u", "", "U8", "i-1")

    def flt(self):
        roll = self.rng.random()
        if roll < 0.5:
            return self.rng.randint(-5, 9)
        if roll < 0.82:
            return self.pick("1.5", "-2.25", "0.1", "3.14159", "1e3", "5e-3", "-0.0", "100.125")
        return self.rng.choice(ODD_FLOATS)

    def smin(self):
        return self.pick("-inf", "(1", "0", "-1", "2", "(2.5", "-5") if self.chance(85) \
            else self.pick("(", "((1", "(abc", self.flt(), "+inf", "[1")

    def smax(self):
        return self.pick("+inf", "inf", "(9", "5", "100", "3.5") if self.chance(85) \
            else self.pick("(", "-inf", "abc", self.flt(), "[9")

    def lmin(self):
        return self.pick("-", "[a", "(a", "[b", "(m") if self.chance(85) \
            else self.pick("", "a", "+")

    def lmax(self):
        return self.pick("+", "[z", "(z", "[c", "(m") if self.chance(85) \
            else self.pick("", "z", "-")

    # Times: far away, so that nothing expires while the test runs.

    def sec(self):
        return self.pick(100000, 200000, 1000000) if self.chance(75) \
            else self.pick(0, -1, "9223372036854775807", "-9223372036854775808", self.odd_int())

    def msec(self):
        return self.pick(100000000, 200000000) if self.chance(75) \
            else self.pick(0, -1, "9223372036854775807", "9223372036854775000", self.odd_int())

    def at(self):
        return self.pick(4102444800, 5000000000) if self.chance(75) \
            else self.pick(1, 0, -1, "9223372036854775807", self.odd_int())

    def msat(self):
        return self.pick(4102444800000, 5000000000001) if self.chance(75) \
            else self.pick(1, 0, -5, "9223372036854775807", self.odd_int())

    def minidle(self):
        return self.pick(0, 0, 0, 1000000000000) if self.chance(90) else self.pick(-1, "x", "")

    # Texts

    def odd(self):
        """Any word that does not belong."""
        roll = self.rng.random()
        if roll < 0.3:
            return self.odd_int()
        if roll < 0.5:
            return self.rng.choice(ODD_BYTES)
        if roll < 0.65:
            return self.cased(self.rng.choice(OPTIONS))
        return self.pick(self.key(), self.value(), self.flt(), self.member(), "x" * 150)

    def value(self):
        roll = self.rng.random()
        if roll < 0.45:
            return self.pick("hello", "world", "a", "bb", "foobar", "10", "-3", "2.5", "42", "0")
        if roll < 0.7:
            return self.rng.randint(-1000, 100000)
        if roll < 0.85:
            return self.rng.choice(ODD_BYTES)
        return self.pick("x" * 70, "9223372036854775807", "3.0e3", self.rng.randbytes(20),
                         b"y" * 300)

    def large(self):
        return self.rng.randbytes(4) * self.pick(600, 1500, 6000)

    def text(self):
        return "".join(self.rng.choices("abcd", k=self.rng.randint(0, 12)))

    def member(self):
        return self.pick("a", "b", "c", "d", "1", "2", "30") if self.chance(90) \
            else self.pick("", "x" * 70, b"\x00\r\n", "-7")

    def field(self):
        return self.pick("f1", "f2", "f3", "n1", "n2") if self.chance(92) \
            else self.pick("", b"\x00f", "f" * 80)

    def pattern(self):
        return self.pick("*", "a*", "?", "[a-c]", "f*", "[^a]", "nosuch", "", "\\*", "*[", "h?llo",
                         "[f-g]*", "[d-b]*", "[^a-y]*", "h[ae]*", "[\\g]et", "[a", "[a-")

    def cursor(self):
        return 0 if self.chance(85) else self.pick(1, -1, "abc", "", "18446744073709551615",
                                                   "99999999999999999999", " 0", "0x0")

    def sortby(self):
        return self.pick("nosort", "NOSORT", "w_*", "plain", "w_*->f")

    def sortget(self):
        return self.pick("#", "obj_*", "plain", "h_*->f", "")

    def name(self):
        return self.pick("me", "client-1", "", "a b", "a\nb", b"\x00", b"\xff", "x" * 200)

    def lon(self):
        return self.pick("13.361389", "15.087269", "-122.4", "0", "2.35") if self.chance(88) \
            else self.pick("181", "-180.0001", self.rng.choice(ODD_FLOATS))

    def lat(self):
        return self.pick("38.115556", "37.502669", "48.85", "0", "-33.9") if self.chance(88) \
            else self.pick("86", "-85.06", self.rng.choice(ODD_FLOATS))

    def radius(self):
        return self.pick(100, 200, 5000, "0.5", 20000, 0) if self.chance(88) \
            else self.pick(-1, "abc", "", "nan")

    def unit(self):
        return self.cased(self.pick("m", "km", "mi", "ft")) if self.chance(92) \
            else self.pick("", "mile", "k")

    # Streams

    def newid(self):
        """An ID to add: mostly above all before."""
        self.clock += 1
        if self.chance(80):
            return self.pick(f"{self.clock}-1", f"{self.clock}-0", str(self.clock),
                             f"{self.clock}-*")
        return self.pick("0-0", "0", "1-1", "-", "+", "1-", "-1", "1-1-1", "abc", "5-x", "",
                         "18446744073709551616-0", "$", ">")

    def rid(self):
        """An ID to compare with."""
        if self.chance(60):
            return self.pick("0", "0-0", "$", f"{self.rng.randint(0, self.clock + 1)}-1", "1-1")
        return self.pick("-", "+", "(1-1", "(5", ">", "abc", "1-x", "",
                         "18446744073709551615-18446744073709551615", "(-", "99999999-0")

    def rmin(self):
        return "-" if self.chance(60) else self.rid()

    def rmax(self):
        return "+" if self.chance(60) else self.rid()

    def group(self):
        return self.pick("g1", "g1", "g2", "nogroup", "") if self.chance(95) else "block"

    def consumer(self):
        return self.pick("c1", "c1", "c2", "noconsumer", b"\x00c")

    # The rest

    def slot(self):
        return slot_of(self.rng.choice(self.tags)) if self.chance(70) \
            else self.pick(0, 16383, 16384, -1, self.int())

    def payload(self):
        return self.rng.choice(self.payloads) if self.chance(85) else self.rng.choice(ODD_BYTES)

    def section(self):
        return self.cased(self.pick("server", "clients", "memory", "stats", "replication", "all",
                                    "default", "everything", "commandstats", "nosuch", "cluster"))

    def parameter(self):
        return self.pick("maxmemory", "save", "appendonly", "databases", "nosuch", "max*", "*",
                         "MAXMEMORY", "", "port", "[m-n]axmemory", "[b-d]*", "[^b-z]*", "s?ve")

    def category(self):
        return self.cased(self.pick("read", "write", "string", "hash", "fast", "nosuch", "admin",
                                    "pubsub", "@read", ""))

    def nodeid(self):
        return "".join(self.rng.choices("0123456789abcdef", k=40))

    def ptype(self):
        return self.cased(self.pick("string", "integer", "double", "null", "array", "set", "map",
                                    "attrib", "verbatim", "true", "false", "bignum", "nosuch"))

    def commandname(self):
        return self.cased(self.rng.choice(self.names)) if self.chance(85) else self.odd()

    def whole(self):
        """A whole command, as COMMAND GETKEYS takes it."""
        return self.nested()

    # Scripts

    def script(self):
        keys, text = self.rng.choice(scripts.SCRIPTS)
        return [text] + self._keys_and_args(keys)

    def function(self):
        name, keys = self.rng.choice(scripts.FUNCTIONS)
        return [name] + self._keys_and_args(keys)

    def sha(self):
        if self.chance(50):
            return [scripts.NO_SHA] + self._keys_and_args(self.rng.randint(0, 2))
        sha = scripts.sha_of(scripts.SCRIPT_OF_TAG[self.tag])
        return [self.cased(sha), 1, f"{{{self.tag}}}str1", self.value()]

    def _keys_and_args(self, keys):
        count = keys if self.chance(85) \
            else self.pick(-1, keys + 1, keys - 1, 7, 0, self.odd_int(), self.int())
        return [count] + [self.key() for _ in range(keys)] + \
            [self.value() for _ in range(self.rng.randint(0, 2))]
