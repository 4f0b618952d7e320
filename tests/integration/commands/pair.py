# SPDX-License-Identifier: Apache-2.0
"""The same commands to the proxy and to a node, and what was answered differently."""
import os
import random
import time

from support import frames

from . import expect

BATCH = 40
SHOWN = 40           # commands that are printed when they differ
REPLY_SHOWN = 400    # bytes
EARLIER_SHOWN = 6
NO_REPLY = b"-(no reply"
NOT_UNKNOWN = 'anything but "unknown": the proxy serves what the node does not know'


def seed():
    """PENSTOCK_SEED; without it always the same, and "new" draws one."""
    given = os.environ.get("PENSTOCK_SEED", "1")
    return time.time_ns() % 10 ** 9 if given == "new" else int(given)


def random_for(seed_number, *purpose):
    return random.Random(f"{seed_number} {purpose}")


class Side:
    """One connection in one protocol, made anew when it was lost."""

    def __init__(self, connect, protocol):
        self.connect, self.protocol = connect, protocol
        self.open()

    def open(self):
        self.lost = False
        self.connection = self.connect()
        self.connection.call("HELLO", self.protocol)

    def close(self):
        self.connection.close()

    def send(self, commands):
        try:
            self.connection.send(frames(*commands))
        except OSError:
            self.lost = True

    def receive(self, commands):
        """A reply for each command; from where the connection was lost, an error that says so."""
        frames = []
        try:
            for _ in commands:
                frames.append(self.connection.read_frame())
        except (OSError, ValueError) as error:
            self.lost = True
            lost = NO_REPLY + b": %s\r\n" % str(error).encode()
            frames += [lost] * (len(commands) - len(frames))
        return frames

    def is_usable(self):
        """False when it was lost and the other end takes no connections any more."""
        if not self.lost:
            return True
        self.close()
        try:
            self.open()
        except OSError:
            return False
        return True


class Pair:
    """`ours` is the proxy, `theirs` the node that says what is right."""

    def __init__(self, ours, theirs, facts, flush):
        self.ours, self.theirs, self.facts, self.flush = ours, theirs, facts, flush
        self.sent = 0
        self.names = set()
        self.differences = {}  # name -> [text]
        self.flush()

    def run(self, generator, count, alone=True):
        """`alone`: also commands that only the proxy can be asked."""
        batch = []
        for scene in generator:
            expected = [expect.expectation(words, self.facts) for words in scene]
            batch += [each for each in expected if alone or each.asks_node]
            if len(batch) >= BATCH:
                self.exchange(batch)
                batch = []
            if self.sent >= count or not (self.ours.is_usable() and self.theirs.is_usable()):
                return

    def exchange(self, batch):
        self.sent += len(batch)
        self.names |= {each.name for each in batch}
        both = [each.words for each in batch if each.asks_node]
        self.ours.send([each.words for each in batch])
        self.theirs.send(both)
        ours = self.ours.receive(batch)
        theirs = iter(self.theirs.receive(both))
        for i, (each, reply) in enumerate(zip(batch, ours)):
            right = next(theirs) if each.asks_node else None
            met = not reply.startswith(NO_REPLY) and \
                expect.is_met(each, reply, right, self.facts)
            if not met:
                self.note(batch, i, reply, right)
            if self.diverges(each, reply, right, met):
                self.flush()
                return

    @staticmethod
    def diverges(expected, reply, right, met):
        """Whether the two may hold different data now, so that what follows says nothing."""
        if right is None or reply.startswith(NO_REPLY) or right.startswith(NO_REPLY):
            return not met
        failed, failed_there = reply.startswith(b"-"), right.startswith(b"-")
        return expected.may_write and (failed != failed_there or not (met or failed))

    def note(self, batch, i, reply, right):
        expected = batch[i]
        right = expected.text if right is None else right
        at = first_difference(reply, right or b"")
        lines = [f"  command  {show(expected.words)}", f"  proxy    {excerpt(reply, at)}",
                 f"  expected {excerpt(right, at) if right else NOT_UNKNOWN}"]
        if reply.startswith(NO_REPLY):
            lines += [f"  and to   {show(each.words)}" for each in batch[i + 1:]]
        else:
            lines += [f"  after    {show(words)}" for words in same_keys(batch[:i], expected)]
        self.differences.setdefault(self.group_of(expected), []).append("\n".join(lines))

    @staticmethod
    def group_of(expected):
        is_newer = expected.command is not None and expected.command.node_arity is None
        return "(newer than the node)" if is_newer else expected.name

    def report(self, seed_number):
        """What differs, two examples for each command, and how to see it again."""
        total = sum(len(texts) for texts in self.differences.values())
        lines = [f"{total} of {self.sent} replies differ, in RESP{self.ours.protocol}; "
                 f"PENSTOCK_SEED={seed_number}"]
        for name, texts in sorted(self.differences.items())[:SHOWN]:
            lines += [f"{name}: {len(texts)}"] + texts[:2]
        return "\n".join(lines)

    def close(self):
        self.ours.close()
        self.theirs.close()


def same_keys(earlier, expected):
    """The last commands before this one that had a key of it."""
    keys = {word for word in expected.words[1:] if word.startswith(b"{")}
    return [each.words for each in earlier if keys & set(each.words[1:])][-EARLIER_SHOWN:]


def show(words):
    return " ".join(repr(word if len(word) < 200 else word[:60] + b"...")[1:] for word in words)


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def excerpt(reply, at):
    """The bytes around `at` of a long reply."""
    start = max(at - REPLY_SHOWN // 2, 0) if len(reply) > REPLY_SHOWN else 0
    end = start + REPLY_SHOWN
    return f"{'... ' * (start > 0)}{reply[start:end]!r}{' ...' * (end < len(reply))}"
