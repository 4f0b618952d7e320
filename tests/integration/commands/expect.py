# SPDX-License-Identifier: Apache-2.0
"""What a command must be answered: as the node does, or with a text of the proxy's own."""
from typing import NamedTuple, Optional

from .facts import WHY, Command, fits
from .reply import parse
from . import rules

CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"


class Expectation(NamedTuple):
    """Exactly one of: the node's reply (asks_node), these bytes (text), anything but "unknown"."""
    words: list
    command: Optional[Command]
    asks_node: bool = True
    text: Optional[bytes] = None

    @property
    def name(self):
        return self.command.name if self.command else "(unknown)"

    @property
    def may_write(self):
        if self.command is None:
            return False
        scripts = ("eval", "evalsha", "fcall")
        return "write" in self.command.entry[2] or self.command.name in scripts


def expectation(words, facts):
    command = facts.find(words)
    if command is None:
        return unknown(words, facts)
    text = own_text(words, command)
    if text is not None:
        return Expectation(words, command, False, text)
    return Expectation(words, command, not is_served_alone(words, command, facts))


def unknown(words, facts):
    """The node's own words, unless it does not even know the container."""
    container = facts.container(words)
    if container is None or container.node_arity is not None:
        return Expectation(words, None)
    text = "-ERR unknown subcommand '%s'. Try %s HELP.\r\n" % (shown(words[1]), container.title)
    return Expectation(words, None, False, text.encode("latin-1"))


def shown(word):
    """A word as it stands in an error: it ends at a NUL and has no line ends."""
    word = word.split(b"\0")[0][:128].replace(b"\r", b" ").replace(b"\n", b" ")
    return word.decode("latin-1")


def own_text(words, command):
    """The reply where the proxy says no and the node must not be asked; None: ask it.

    A wrong number of words is the node's to answer if it knows the command: it does nothing."""
    if command.name == "debug":
        return debug_text(words)
    if command.name in ("xread", "xreadgroup") and blocks(words):
        return f"-ERR {command.title} with BLOCK is not supported yet\r\n".encode()
    if not fits(command.arity, len(words)):
        return command.arity_error if command.node_arity is None else None
    return command.refusal if command.is_refused else None


def debug_text(words):
    if len(words) == 1:
        return None
    sub = words[1].lower()
    if sub == b"object" and len(words) >= 3:
        return None
    if sub == b"protocol" and len(words) == 3 and words[2].lower() != b"push":
        return None
    return f"-ERR DEBUG {shown(words[1])} {WHY['refused']}\r\n".encode("latin-1")


def blocks(words):
    """Whether XREAD or XREADGROUP gets as far as an option BLOCK."""
    steps = {b"count": 2, b"group": 3, b"noack": 1}
    i = 1
    while i < len(words) and words[i].lower() in steps:
        i += steps[words[i].lower()]
    return i + 1 < len(words) and words[i].lower() == b"block"


def is_served_alone(words, command, facts):
    """What the proxy answers as newer servers do and the node under test cannot."""
    if command.node_arity is None:
        return command.handling == "local"
    if command.handling == "local" and fits(command.arity, len(words)) and \
            not fits(command.node_arity, len(words)):
        return True
    if command.name not in ("command|getkeys", "command|getkeysandflags"):
        return False
    inner = facts.find(words[2:])
    if inner is None:
        return False
    return inner.node_arity is None or fits(inner.arity, len(words) - 2) != \
        fits(inner.node_arity, len(words) - 2)


def is_met(expected, ours, theirs, facts):
    """Whether the proxy's reply is what was expected; `theirs` is None where no node was asked."""
    if expected.text is not None:
        return ours == expected.text
    if not expected.asks_node:
        return not ours.startswith(b"-ERR unknown")
    if ours == theirs:
        return True
    if expected.command is not None and expected.command.node_arity is None:
        return ours == CROSSSLOT  # where a newer command has its keys, the node cannot say
    return rules.agree(expected.name, expected.words, parse(ours), parse(theirs), facts)
