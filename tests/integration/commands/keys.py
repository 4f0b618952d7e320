# SPDX-License-Identifier: Apache-2.0
"""How keys are named: "{tag}kind1"."""

# One hash tag on each third of the slots.
TAGS = ("b", "c", "a")
KINDS = ("str", "num", "bits", "list", "set", "zset", "hash", "stream", "geo", "hll", "txt")
