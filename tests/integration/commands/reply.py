# SPDX-License-Identifier: Apache-2.0
"""Replies as trees of kind and value, so that two of them can be compared in part."""
from typing import NamedTuple, Union

AGGREGATES = b"*~>%|"


class Reply(NamedTuple):
    """One RESP element: its type byte, and its bytes, None, or a tuple of its elements."""
    kind: bytes
    value: Union[bytes, None, tuple]

    @property
    def is_error(self):
        return self.kind in (b"-", b"!")

    @property
    def is_aggregate(self):
        return self.kind in AGGREGATES and self.value is not None


def parse(frame):
    """The tree of one reply's bytes. A map is a flat tuple; an attribute holds its value last."""
    reply, end = _parse_at(frame, 0)
    assert end == len(frame), frame
    return reply


def _parse_at(frame, start):
    end = frame.index(b"\r\n", start)
    kind, rest = frame[start:start + 1], frame[start + 1:end]
    end += 2
    if kind in b"$=!":
        if rest == b"-1":
            return Reply(kind, None), end
        size = int(rest)
        return Reply(kind, frame[end:end + size]), end + size + 2
    if kind not in AGGREGATES:
        return Reply(kind, rest), end
    if rest == b"-1":
        return Reply(kind, None), end
    count = int(rest) * (2 if kind in b"%|" else 1) + (1 if kind == b"|" else 0)
    children = []
    for _ in range(count):
        child, end = _parse_at(frame, end)
        children.append(child)
    return Reply(kind, tuple(children)), end


def transform(reply, change):
    """The tree with `change(reply)` applied to every element, from the leaves up."""
    if reply.is_aggregate:
        reply = Reply(reply.kind, tuple(transform(each, change) for each in reply.value))
    return change(reply)
