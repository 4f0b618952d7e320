# SPDX-License-Identifier: Apache-2.0
"""Commands that are never sent: two nodes could not stay alike, or this machine would suffer."""
from support import slot_of

from . import scripts

OFFSET_MAX = 2000                # bits or bytes; beyond, strings grow large
RANDOM_COUNT_MIN = -1000         # beyond, replies are endless
EXPIRY_SAFE_S = 100000           # what expires sooner could do so while the test runs
NOW_S = (1_500_000_000, 4_000_000_000)  # absolute times that may be near


def integer(word):
    try:
        return int(word) if word.lstrip(b"-").isdigit() else None
    except ValueError:
        return None


def is_between(word, low, high):
    number = integer(word)
    return number is not None and low <= number <= high


def grows_large(words):
    return any(is_between(word.lstrip(b"#"), OFFSET_MAX + 1, 2 ** 36) for word in words[2:])


def is_endless(words):
    return any(is_between(word, -2 ** 63 + 1, RANDOM_COUNT_MIN) for word in words[2:])


def expires_soon(word, unit):
    """Whether a relative or absolute time is near; `unit` is 1 for seconds, 1000 for ms."""
    return is_between(word, 1, EXPIRY_SAFE_S * unit - 1) or \
        is_between(word, NOW_S[0] * unit, NOW_S[1] * unit)


def time_argument(unit, position=2):
    return lambda words: len(words) > position and expires_soon(words[position], unit)


def time_option(words):
    units = {b"ex": 1, b"exat": 1, b"px": 1000, b"pxat": 1000}
    return any(word.lower() in units and expires_soon(following, units[word.lower()])
               for word, following in zip(words[2:], words[3:]))


def absolute_argument(unit):
    """EXPIREAT's time: the far past and the far future are safe."""
    return lambda words: len(words) > 2 and is_between(words[2], NOW_S[0] * unit, NOW_S[1] * unit)


def restore_expires(words):
    return len(words) > 2 and (expires_soon(words[2], 1000) or expires_soon(words[2], 1))


def pops_at_random(words):
    """SPOP of less than everything from what may be a set."""
    if len(words) == 2:
        return True
    return len(words) == 3 and is_between(words[2], 1, 999)


def draws_an_id(words):
    return b"*" in words[2:]


def depends_on_idle_time(words):
    return any(is_between(word, 1, 999_999_999_999) for word in words[4:5])


def pending_idle(words):
    return any(word.lower() == b"idle" and is_between(following, 1, 999_999_999_999)
               for word, following in zip(words[2:], words[3:]))


def runs_elsewhere(words):
    """EVALSHA of a script that is known, but not surely to the node of these keys."""
    tag = scripts.TAG_OF_SHA.get(words[1].lower().decode("latin-1")) if len(words) > 1 else None
    if tag is None:
        return False
    prefix = f"{{{tag}}}".encode()
    return words[2:3] != [b"1"] or not all(key.startswith(prefix) for key in words[3:4])


def picks_unsorted(words):
    """SORT BY nosort LIMIT of a set: which elements are left is up to the hash seed."""
    lower = [word.lower() for word in words]
    return b"by" in lower and (b"limit" in lower or b"store" in lower)


def ends_connections(words):
    """CLIENT forms that close this or other connections, or silence this one."""
    sub = words[1].lower() if len(words) > 1 else b""
    rest = [word.lower() for word in words[2:]]
    if sub == b"reply":
        return rest in ([b"off"], [b"skip"])
    if sub != b"kill":
        return False
    return b"normal" in rest or b"default" in rest or rest[:1] == [b"skipme"]


def switches_protocol(words):
    return len(words) > 1 and words[1] in (b"2", b"3")


def is_split(step):
    """A command over several slots, which a cluster node refuses and the proxy splits: it is
    compared with a node that is in no cluster instead."""
    return lambda words: len({slot_of(key) for key in words[1::step]}) > 1


GUARDS = {
    "mget": is_split(1), "del": is_split(1), "unlink": is_split(1), "exists": is_split(1),
    "touch": is_split(1), "mset": is_split(2),
    "setbit": grows_large, "setrange": grows_large, "bitfield": grows_large,
    "srandmember": is_endless, "hrandfield": is_endless, "zrandmember": is_endless,
    "expire": time_argument(1), "pexpire": time_argument(1000),
    "expireat": absolute_argument(1), "pexpireat": absolute_argument(1000),
    "setex": time_argument(1), "psetex": time_argument(1000),
    "set": time_option, "getex": time_option, "restore": restore_expires,
    "spop": pops_at_random, "xadd": draws_an_id, "xclaim": depends_on_idle_time,
    "xautoclaim": depends_on_idle_time, "xpending": pending_idle,
    "evalsha": runs_elsewhere, "evalsha_ro": runs_elsewhere,
    "sort": picks_unsorted, "sort_ro": picks_unsorted,
    "client": ends_connections, "hello": switches_protocol,
    "reset": lambda words: len(words) == 1,
    "quit": lambda words: True,
}


def is_unsafe(words):
    guard = GUARDS.get(words[0].lower().decode("latin-1"))
    return guard is not None and guard(words)
