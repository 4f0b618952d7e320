# SPDX-License-Identifier: Apache-2.0
"""Templates of arguments: a small language of literals, drawn words, options and repetition.

  STORE  a literal, in any case         'f1  a literal as it is
  member  drawn by Words.member         zset  a key, most likely of a sorted set
  x? x+ x*  maybe; 1 to 3; 0 to 2 times  (a b|c)  one of the alternatives
"""
import re

from .keys import KINDS
from .words import Words, to_bytes

TOKEN = re.compile(r"[()|?+*]|[^\s()|?+*]+")
OPTIONAL_PERCENT = 40
TIMES = {"?": lambda rng: int(rng.random() * 100 < OPTIONAL_PERCENT),
         "+": lambda rng: rng.choice((1, 1, 2, 3)),
         "*": lambda rng: rng.choice((0, 1, 1, 2))}


def compile_template(text):
    """A function from Words to a list of bytes."""
    tokens = TOKEN.findall(text)
    choice, end = _alternatives(tokens, 0)
    assert end == len(tokens), text

    def expand(words):
        out = []
        choice(words, out)
        return [to_bytes(word) for word in out]
    return expand


def _alternatives(tokens, at):
    options = []
    while True:
        option, at = _sequence(tokens, at)
        options.append(option)
        if at == len(tokens) or tokens[at] != "|":
            break
        at += 1
    return (lambda words, out: words.rng.choice(options)(words, out)), at


def _sequence(tokens, at):
    items = []
    while at < len(tokens) and tokens[at] not in ")|":
        if tokens[at] == "(":
            item, at = _alternatives(tokens, at + 1)
            assert tokens[at] == ")", tokens
            at += 1
        else:
            item, at = _word(tokens[at]), at + 1
        if at < len(tokens) and tokens[at] in TIMES:
            item, at = _repeated(item, TIMES[tokens[at]]), at + 1
        items.append(item)

    def expand(words, out):
        for item in items:
            item(words, out)
    return expand, at


def _repeated(item, times):
    def expand(words, out):
        for _ in range(times(words.rng)):
            item(words, out)
    return expand


def _word(token):
    draw = _drawer(token)

    def expand(words, out):
        word = draw(words)
        if isinstance(word, list):
            out.extend(word)
        else:
            out.append(word)
    return expand


def _drawer(token):
    if token.startswith("'"):
        return lambda words: token[1:]
    if not re.fullmatch("[a-z_]+", token):
        return lambda words: words.cased(token)
    if token in KINDS + ("none", "big", "fresh"):
        return lambda words: words.key_of(token)
    if token.startswith("counted_"):
        return lambda words: words.counted(token.removeprefix("counted_"))
    return getattr(Words, token)
