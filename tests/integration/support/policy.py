# SPDX-License-Identifier: Apache-2.0
"""What the command policy and the servers' own tables say of each command."""
import functools
import json
import tomllib

from .proxy import ROOT

POLICY = tomllib.loads((ROOT / "data/command-policy.toml").read_text())


def policy_names(section):
    return sorted(name for group in POLICY[section].values() for name in group)


@functools.cache
def arities():
    """How many words each command takes, by full name; from the servers' own tables."""
    out = {}

    def note(entries):
        for entry in entries:
            out.setdefault(entry[0].lower(), entry[1])
            note(entry[9] if len(entry) > 9 else [])

    for path in sorted((ROOT / "data/command-info").glob("*.json")):
        note(json.loads(path.read_text()))
    return out
