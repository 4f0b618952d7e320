# SPDX-License-Identifier: Apache-2.0
"""Hash slots, and keys that lie where a test wants them."""
import itertools

SLOTS = 16384

# Hash tags of the first, the second and the third shard of three.
TAGS = A, B, C = "{t2}", "{t1}", "{t0}"


def _crc16_of_byte(byte):
    crc = byte << 8
    for _ in range(8):
        crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


CRC16_TABLE = [_crc16_of_byte(byte) for byte in range(256)]


def slot_of(key):
    """The hash slot of a key, by the cluster specification."""
    if isinstance(key, str):
        key = key.encode()
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1:end]
    crc = 0
    for byte in key:
        crc = (crc << 8 & 0xffff) ^ CRC16_TABLE[crc >> 8 ^ byte]
    return crc % SLOTS


def slots_of_shard(index, shards=3):
    """The slots of a shard of a cluster as it was formed."""
    return range(SLOTS * index // shards, SLOTS * (index + 1) // shards)


def shard_keys(index, shards=3, prefix="key"):
    """Keys whose slot belongs to shard `index` of a cluster as it was formed."""
    slots = slots_of_shard(index, shards)
    names = (f"{prefix}{number}" for number in itertools.count())
    return (name for name in names if slot_of(name) in slots)


def shard_key(index, shards=3, prefix="key"):
    return next(shard_keys(index, shards, prefix))


def keys_of_slots(slots):
    """A short key for each of these slots, by slot."""
    wanted, found = set(slots), {}
    for number in itertools.count():
        slot = slot_of(str(number))
        if slot in wanted:
            found.setdefault(slot, str(number))
            if len(found) == len(wanted):
                return found
