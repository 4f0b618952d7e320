# SPDX-License-Identifier: Apache-2.0
"""What cannot be equal byte for byte, why, and what is compared instead.

A rule looks only at two replies that differ and of which neither is an error: errors are always
compared byte for byte (but for one that a node gives by mistake). Everything that is not in the
table below is, too.
"""
import re
from typing import Callable, NamedTuple

from .reply import Reply, transform

CLOCK_SLACK_S = 10


class Rule(NamedTuple):
    agree: Callable  # (words, proxy's reply, node's reply, facts) -> bool
    why: str


def shape(reply):
    """The kinds of all elements and which are null, without what they say."""
    return transform(reply, lambda each: Reply(each.kind, b"")
                     if isinstance(each.value, bytes) else each)


def unordered(reply):
    if not reply.is_aggregate:
        return reply
    return Reply(reply.kind, tuple(sorted(reply.value, key=repr)))


def kinds_in(reply):
    inner = [kinds_in(each) for each in reply.value] if reply.is_aggregate else []
    return {reply.kind}.union(*inner)


def same_after(change):
    return lambda words, a, b, facts: change(a) == change(b)


def same_kind(words, a, b, facts):
    return a.kind == b.kind


def near(slack):
    """Two numbers that a moving clock may have moved apart."""
    def agree(words, a, b, facts):
        if a.kind != b":" or b.kind != b":":
            return False
        first, second = int(a.value), int(b.value)
        return first >= 0 and second >= 0 and abs(first - second) <= slack
    return agree


def masked_fields(*names):
    """Hides the value behind each of these names; in a flat array as in a map."""
    wanted = {name.encode() for name in names}

    def change(reply):
        if not reply.is_aggregate:
            return reply
        out = list(reply.value)
        for i in range(len(out) - 1):
            if out[i].kind == b"$" and out[i].value in wanted:
                out[i + 1] = shape(out[i + 1])
        return Reply(reply.kind, tuple(out))
    return same_after(lambda reply: transform(reply, change))


def masked_text(*patterns):
    """Hides what matches in texts."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def change(reply):
        if reply.is_aggregate or reply.value is None:
            return reply
        text = reply.value
        for pattern in compiled:
            text = pattern.sub(b"?", text)
        return Reply(reply.kind, text)
    return same_after(lambda reply: transform(reply, change))


def without_timestamps(reply):
    """Hides the milliseconds of a wall clock."""
    return transform(reply, lambda each: Reply(b":", b"?") if each.kind == b":" and
                     int(each.value) > 10 ** 12 else each)


def without_idle(reply):
    """XPENDING's rows: id, consumer, idle time, deliveries."""
    def change(each):
        is_row = each.is_aggregate and len(each.value) == 4 and each.value[2].kind == b":"
        return Reply(each.kind, each.value[:2] + each.value[3:]) if is_row else each
    return transform(reply, change)


def without_unordered_payload(reply):
    """DUMP: a set in a hash table has no order, a stream carries delivery times."""
    kinds = (2, 15, 19, 21)
    hides = reply.value and reply.value[0] in kinds
    return Reply(reply.kind, reply.value[:1]) if hides else reply


def scan(step):
    """Equal in any order when both sides saw all; where a cursor leads is up to the hash seeds."""
    def elements(reply):
        flat = reply.value[1].value
        return sorted((flat[i:i + step] for i in range(0, len(flat), step)), key=repr)

    def agree(words, a, b, facts):
        cursors = [words[2], a.value[0].value, b.value[0].value]
        if cursors != [b"0"] * 3:
            return [each.kind for each in a.value] == [each.kind for each in b.value]
        return elements(a) == elements(b)
    return agree


def same_shape(words, a, b, facts):
    return shape(a) == shape(b)


def sort_reply(words, a, b, facts):
    """Elements that the server's comparison cannot tell apart come in any order."""
    by = b"by" in [word.lower() for word in words]
    ties = a.is_aggregate and any(b"\x00" in (each.value or b"") for each in a.value)
    return (by or ties) and unordered(a) == unordered(b)


def xadd_reply(words, a, b, facts):
    return b"*" in words and shape(a) == shape(b)


def help_text(words, a, b, facts):
    """The same first line, the same HELP at the end, lines of the same kind between."""
    lines_a, lines_b = a.value, b.value
    return {each.kind for each in lines_a + lines_b} == {b"+"} and \
        lines_a[0] == lines_b[0] and lines_a[-2:] == lines_b[-2:]


def text_of(reply):
    """Without the format that RESP3 puts in front of a text."""
    return (reply.value[4:] if reply.kind == b"=" else reply.value).decode()


def client_fields(reply):
    first = text_of(reply).split("\n")[0]
    return dict(field.split("=", 1) for field in first.split(" "))


def client_line(words, a, b, facts):
    """The proxy has every field of the node; those that both can know are the same."""
    if a.kind != b.kind:
        return False
    ours, theirs = client_fields(a), client_fields(b)
    same = ("name", "db", "sub", "psub", "ssub", "multi", "user", "redir", "resp", "events", "cmd")
    return set(theirs) <= set(ours) and all(ours[f] == theirs[f] for f in same if f in theirs)


def client_list(words, a, b, facts):
    """The connections are others, and so are their IDs; the fields are not."""
    if text_of(a) == "" or text_of(b) == "":
        return a.kind == b.kind and b"id" in [word.lower() for word in words]
    return a.kind == b.kind and set(client_fields(b)) <= set(client_fields(a))


def names_in_common(elements, facts):
    """Of these names those that both sides have: a node knows them, the proxy serves them."""
    names = {each.value.decode() for each in elements}
    return {name for name in names if facts.is_served(name) and
            facts.commands[name].node_arity is not None}


def command_list(words, a, b, facts):
    return a.kind == b.kind and names_in_common(a.value, facts) == names_in_common(b.value, facts)


def command_docs(words, a, b, facts):
    """The same keys in the map; what they say is the proxy's own."""
    return a.kind == b.kind and \
        names_in_common(a.value[::2], facts) == names_in_common(b.value[::2], facts)


def command_info(words, a, b, facts):
    """What the node says, in any order; else an entry where the proxy serves the command and the
    node's null where it does not."""
    if transform(a, unordered) == transform(b, unordered):
        return True
    if a.kind != b.kind or len(words) == 2:
        return a.kind == b.kind
    if len(a.value) != len(words) - 2:
        return False
    null = Reply(b"_", b"") if b"~" in kinds_in(a) | kinds_in(b) else Reply(b"$", None)
    for name, entry in zip(words[2:], a.value):
        name = name.lower().decode("latin-1")
        served = name in facts.commands and facts.is_served(name)
        if entry.is_aggregate != served or not (served or entry == null):
            return False
    return True


def keys_and_flags(words, a, b, facts):
    """The flags of a key have no order; those of some commands changed between versions."""
    inner = facts.find(words[2:])
    if inner is not None and inner.name in facts.specs_changed:
        return [row.value[0] for row in a.value] == [row.value[0] for row in b.value]
    return [(row.value[0], unordered(row.value[1])) for row in a.value] == \
        [(row.value[0], unordered(row.value[1])) for row in b.value]


def cluster_info(words, a, b, facts):
    """The proxy tells all that the node tells; epochs and the traffic on the bus may differ."""
    ours, theirs = (text_of(each).split("\r\n") for each in (a, b))
    varying = ("cluster_stats_", "cluster_current_epoch", "cluster_my_epoch")
    return a.kind == b.kind and {line.split(":")[0] for line in theirs} <= \
        {line.split(":")[0] for line in ours} and \
        all(line in ours for line in theirs if not line.startswith(varying))


def config_get(words, a, b, facts):
    """Of the parameters that every client may ask for, the same ones."""
    common = {b"maxmemory", b"maxmemory-policy", b"save", b"appendonly", b"databases",
              b"cluster-enabled", b"timeout", b"port", b"bind"}
    ours, theirs = ({each.value for each in reply.value[::2]} & common for reply in (a, b))
    return a.kind == b.kind and ours == theirs


def info_text(words, a, b, facts):
    return a.kind == b.kind and (text_of(a) == "") == (text_of(b) == "")


NO_ORDER = "a set has no order: it is that of each process's hash seed"
DRAWN = "drawn at random"
CLOCK = "counts from a clock that goes on between the two replies"
OWN = "describes the proxy itself"

RULES = {
    "smembers": Rule(same_after(unordered), NO_ORDER),
    "sinter": Rule(same_after(unordered), NO_ORDER),
    "sunion": Rule(same_after(unordered), NO_ORDER),
    "sdiff": Rule(same_after(unordered), NO_ORDER),
    "spop": Rule(same_after(unordered), NO_ORDER + "; sent only where it takes all"),
    "sscan": Rule(scan(1), NO_ORDER),
    "hscan": Rule(scan(2), "a scan walks large encodings in the order of a hash seed"),
    "zscan": Rule(scan(2), "a scan walks large encodings in the order of a hash seed"),
    "sort": Rule(sort_reply, "unstable; BY a constant does not sort, ALPHA stops at a NUL"),
    "sort_ro": Rule(sort_reply, "unstable; BY a constant does not sort, ALPHA stops at a NUL"),
    "dump": Rule(same_after(without_unordered_payload), "sets and delivery times, serialized"),
    "srandmember": Rule(same_shape, DRAWN),
    "hrandfield": Rule(same_shape, DRAWN),
    "zrandmember": Rule(same_shape, DRAWN),
    "memory|usage": Rule(same_shape, "samples elements in the order of a hash seed"),
    "time": Rule(same_shape, CLOCK),
    "ttl": Rule(near(CLOCK_SLACK_S), CLOCK),
    "pttl": Rule(near(CLOCK_SLACK_S * 1000), CLOCK),
    "expiretime": Rule(near(CLOCK_SLACK_S), "EXPIRE is relative to a clock that goes on"),
    "pexpiretime": Rule(near(CLOCK_SLACK_S * 1000), "EXPIRE is relative to a clock that goes on"),
    "object|idletime": Rule(same_shape, "small numbers share one object of the node's"),
    "debug": Rule(masked_text(rb"at:0x[0-9a-f]+", rb"lru:\d+", rb"lru_seconds_idle:\d+",
                              rb"(?<=encoding:hashtable )serializedlength:\d+"),
                  "DEBUG OBJECT tells an address in memory and a clock"),
    "xadd": Rule(xadd_reply, "the ID * is the time"),
    "xpending": Rule(same_after(without_idle), "tells how long ago an entry was delivered"),
    "xinfo|consumers": Rule(masked_fields("idle", "inactive"), CLOCK),
    "xinfo|stream": Rule(same_after(without_timestamps), "FULL tells when entries were delivered"),
    "hello": Rule(masked_fields("id"), "every connection has its own ID"),
    "client|id": Rule(same_shape, "every connection has its own ID"),
    "client|info": Rule(client_line, OWN),
    "client|list": Rule(client_list, OWN),
    "client|help": Rule(help_text, OWN),
    "command": Rule(same_kind, OWN + "; COMMAND INFO has a test of its own"),
    "command|count": Rule(same_kind, OWN + ": it counts what it serves"),
    "command|info": Rule(command_info, OWN + "; has a test of its own"),
    "command|list": Rule(command_list, OWN + ": it lists what it serves"),
    "command|docs": Rule(command_docs, OWN + ": it tells what it does with a command"),
    "command|getkeysandflags": Rule(keys_and_flags, "flags have no order"),
    "command|help": Rule(help_text, OWN),
    "info": Rule(info_text, OWN),
    "config|get": Rule(config_get, OWN),
    "config|help": Rule(help_text, OWN),
    "cluster|info": Rule(cluster_info, OWN),
    "cluster|myid": Rule(same_after(lambda r: (r.kind, len(r.value))), "its own ID"),
    "cluster|nodes": Rule(masked_text(rb"[0-9a-f]{40}(?= )", rb"(?<= )\S*:\d+@\d+",
                                      rb" \d+(?= connected)"), "its own ID, address and epoch"),
    "cluster|slots": Rule(same_shape, "its own ID and address"),
    "cluster|shards": Rule(masked_fields("id", "port", "ip", "endpoint"), "its own ID and address"),
    "cluster|help": Rule(help_text, OWN),
}


# SORT takes a number for out of range when an earlier command left ERANGE in errno: it does not
# clear it before strtod(). So either side may give this error where the other sorts.
SORT_MISTAKE = b"ERR One or more scores can't be converted into double"


def is_sort_mistake(name, ours, theirs):
    return name in ("sort", "sort_ro") and ours.is_error != theirs.is_error and \
        SORT_MISTAKE in (ours.value, theirs.value)


def agree(name, words, ours, theirs, facts):
    """Whether two different replies say the same, by the rule for the command if there is one."""
    if is_sort_mistake(name, ours, theirs):
        return True
    rule = RULES.get(name)
    if rule is None or ours.is_error or theirs.is_error:
        return False
    return rule.agree(words, ours, theirs, facts)
