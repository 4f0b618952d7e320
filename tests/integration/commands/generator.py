# SPDX-License-Identifier: Apache-2.0
"""Draws commands: every command of the table in turn, well-formed or broken, from one seed."""
import itertools

from . import templates
from .facts import fits
from .grammar import compile_template
from .guards import is_unsafe
from .keys import KINDS
from .scripts import SCRIPT_OF_TAG, sha_of
from .words import Words, to_bytes

FILL_PERCENT = 30
SERVED_WEIGHT = 3     # times a served command comes in a deck; a refused one comes once
UNKNOWN_PER_DECK = 12
TRIES = 50


class Generator:
    """An endless iterator of scenes: lists of commands that are sent in one go."""

    def __init__(self, rng, facts, payloads, protocol):
        self.rng, self.facts, self.protocol = rng, facts, protocol
        self.words = Words(rng)
        self.words.payloads = payloads
        self.words.names = sorted(facts.commands)
        self.words.nested = self.nested
        self.templates = {name: compile_template(text)
                          for name, text in templates.all_templates().items()}
        self.fills = {name: compile_template(text)
                      for name, text in templates.lines(templates.FILLS)}
        self.scenes = {"spop": self.spop, "xadd": self.xadd, "hello": self.hello,
                       "reset": self.reset, "evalsha": self.evalsha, "sort": self.sort}

    def __iter__(self):
        while True:
            for name in self.deck():
                if self.words.chance(FILL_PERCENT):
                    yield self.fill()
                yield self.scene(name)

    def deck(self):
        """Every name of the table, shuffled, and some that are in none ("")."""
        names = [""] * UNKNOWN_PER_DECK
        for name, command in self.facts.commands.items():
            if name != "quit":
                names += [name] * (1 if command.is_refused or name not in self.templates
                                   else SERVED_WEIGHT)
        self.rng.shuffle(names)
        return names

    def scene(self, name):
        self.words.begin_command()
        if name in self.scenes and self.words.chance(35):
            return [self.command(name, args) for name, args in self.scenes[name]()]
        return [self.single(name)]

    def single(self, name):
        for _ in range(TRIES):
            words = self.unknown() if name == "" else self.command(name, self.arguments(name))
            if not is_unsafe(words):
                return words
        raise AssertionError(f"no safe form of {name} was found")

    def command(self, name, args):
        parts = [self.words.cased(part) for part in name.split("|")]
        return [to_bytes(word) for word in parts + list(args)]

    # Arguments

    def arguments(self, name):
        template = self.templates.get(name)
        roll = self.rng.random()
        if template is None and self.facts.commands[name].is_container:
            return []
        if template is None:
            return self.generic(name) if roll < 0.8 else self.wrong_arity(name)
        if roll < 0.60:
            return template(self.words)
        if roll < 0.82:
            return self.mutated(template(self.words))
        return self.generic(name) if roll < 0.90 else self.wrong_arity(name)

    def generic(self, name):
        """Any words, as many as the command takes, with keys where its specifications say."""
        command = self.facts.commands[name]
        least = abs(command.arity) - 1 - name.count("|")
        count = least if command.arity > 0 else least + self.rng.choice((0, 0, 1, 2, 3))
        args = [self.words.odd() for _ in range(max(count, 0))]
        for spec in command.specs:
            self.place_keys(spec, args, 1 + name.count("|"))
        return args

    def place_keys(self, spec, args, offset):
        begin, find = spec["begin_search"], spec["find_keys"]
        if begin["type"] == "keyword":
            args += [begin["spec"]["keyword"], self.words.key()]
            return
        at = begin["spec"].get("index", 1) - offset
        if find["type"] == "keynum":
            args[at:at + 2] = self.words.counted("str")
            return
        last = find["spec"].get("lastkey", 0)
        end = at + last if last >= 0 else len(args) + last
        for i in range(max(at, 0), min(end + 1, len(args)), find["spec"].get("keystep", 1)):
            args[i] = self.words.key()

    def wrong_arity(self, name):
        """Often too few or too many words."""
        arity = self.facts.commands[name].arity
        counts = [n for n in range(0, abs(arity) + 4) if not fits(arity, n + 1 + name.count("|"))]
        count = self.rng.choice(counts) if counts else self.rng.randint(0, 5)
        return [self.words.odd() for _ in range(count)]

    def mutated(self, args):
        args = list(args)
        for _ in range(self.rng.choice((1, 1, 2))):
            at = self.rng.randrange(len(args) + 1)
            change = self.rng.randrange(5)
            if change == 0:
                args[at:at + 1] = []
            elif change == 1:
                args[at:at + 1] = [self.words.odd()]
            elif change == 2:
                args[at:at] = [self.words.odd()]
            elif change == 3:
                args += args[at:at + 1]
            elif at + 1 < len(args):
                args[at], args[at + 1] = args[at + 1], args[at]
        return args

    def unknown(self):
        """A name that is no command's, or a container with a subcommand it has not."""
        if self.words.chance(35):
            containers = [n for n, each in self.facts.commands.items() if each.is_container]
            name = self.rng.choice(containers)
            sub = self.words.pick("nosuch", "", "help2", "get|x", "y" * 140, self.words.odd())
            return self.command(name, [sub] + self.odd_words(3))
        name = self.words.pick("nosuch", "", "gett", "sentinel", "config|get", "get ", "z" * 140,
                               b"\x00", b"nosuch\x00get", b"\r\n", b"\xff\xfe", "GET\r\nX", "ge",
                               self.words.odd())
        return [to_bytes(word) for word in [name] + self.odd_words(6)]

    def odd_words(self, most):
        return [self.words.odd() for _ in range(self.rng.randint(0, most))]

    def nested(self):
        """The words of a whole command, for COMMAND GETKEYS."""
        name = self.rng.choice([n for n in self.templates if not n.startswith("command")])
        if self.words.chance(10):
            return self.unknown()
        return self.command(name, self.arguments(name))

    # Scenes: commands that need company to be comparable

    def fill(self):
        """Makes a key of some kind anew."""
        self.words.begin_command()
        kind = self.rng.choice(KINDS)
        key = f"{{{self.words.tag}}}{kind}{self.rng.randint(1, 2)}"
        name, *args = self.fills[kind](self.words)
        return [self.command("del", [key]), [name, to_bytes(key)] + args] + self.groups(kind, key)

    def groups(self, kind, key):
        if kind != "stream":
            return []
        return [self.command("xgroup|create", [key, "g1", "0"]),
                self.command("xreadgroup", ["GROUP", "g1", "c1", "STREAMS", key, ">"])]

    def own_key(self, name):
        return f"{{{self.words.tag}}}{name}"

    def spop(self):
        key = self.own_key("pop")
        return [("del", [key]), ("sadd", [key, self.words.member()]),
                ("spop", [key, 1][:self.rng.randint(1, 2)]), ("exists", [key])]

    def xadd(self):
        key = self.own_key("auto")
        trim = self.words.pick([], ["MAXLEN", "1"], ["NOMKSTREAM"])
        return [("xadd", [key] + trim + ["*", "f", self.words.value()]), ("xlen", [key]),
                ("del", [key])]

    def sort(self):
        """A sorted set, which SORT turns into another encoding: what follows could then differ."""
        key = self.own_key("sorted")
        order = self.words.pick([], ["DESC"], ["ALPHA"], ["BY", "nosort"], ["LIMIT", "1", "2"])
        return [("zadd", [key, 1, "30", 2, "4", 3, "-1"]), ("sort", [key] + order), ("del", [key])]

    def hello(self):
        options = self.words.pick([], ["SETNAME", self.words.name()], ["AUTH", "default", "x"],
                                  ["AUTH", "nosuch", "x"], ["SETNAME"], ["AUTH", "default"],
                                  ["NOSUCH"], ["AUTH", "default", "x", "SETNAME", "me"])
        return [("hello", [self.words.pick(2, 3)] + options), ("client|getname", []),
                ("hello", [self.protocol])]

    def reset(self):
        return [("client|setname", ["me"]), ("reset", []), ("client|getname", []),
                ("hello", [self.protocol])]

    def evalsha(self):
        script = SCRIPT_OF_TAG[self.words.tag]
        key = self.own_key("str1")
        name = self.words.pick("evalsha", "evalsha_ro")
        return [("eval", [script, 1, key, self.words.value()]),
                (name, [self.words.cased(sha_of(script)), 1, key, self.words.value()])]


class SpreadGenerator:
    """Commands that the proxy splits, with keys of many slots, and keys for them to find."""

    SPLIT = {"mget": "key+ key* key*", "mset": "(key value)+ (key value)*",
             "del": "key+ key*", "unlink": "key+ key*", "exists": "key+ key*",
             "touch": "key+ key*"}
    TAGS = "abcdefgh"

    def __init__(self, rng, facts):
        self.inner = Generator(rng, facts, [b""], 2)
        self.rng = rng
        self.words = self.inner.words = Words(rng, 2, self.TAGS)
        self.split = {name: compile_template(text) for name, text in self.SPLIT.items()}

    def __iter__(self):
        for name in itertools.cycle(self.SPLIT):
            if self.words.chance(60):
                yield self.inner.fill()
            self.words.begin_command()
            yield [self.inner.command(name, self.arguments(name))]

    def arguments(self, name):
        args = self.split[name](self.words)
        roll = self.rng.random()
        if roll < 0.15:
            args += [self.rng.choice(args)]
        elif roll < 0.25:
            self.rng.shuffle(args)
        elif roll < 0.32:
            args = self.inner.mutated(args)
        elif roll < 0.36:
            return self.inner.wrong_arity(name)
        if roll > 0.97:
            args += [f"{tag}{i}" for i in range(100) for tag in self.TAGS]
        return args
