#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates src/command/command_list.inc and docs/commands.md from the servers' own COMMAND output
(data/command-info/*.json) and the curated data/command-policy.toml.

  scripts/generate_commands.py            write both files
  scripts/generate_commands.py --check    exit 1 when they differ from what would be written
"""
import json
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The newest description of a command wins; the last element is the bit in `servers`.
SOURCES = [("redis-8", "Redis 8", "kRedis8"), ("valkey-9", "Valkey 9", "kValkey9"),
           ("redis-7.0", "Redis 7.0", "kRedis70")]
INC = ROOT / "src/command/command_list.inc"
DOC = ROOT / "docs/commands.md"

HANDLING_TEXT = {
    "by_keys": "to the shard that owns its keys; `-CROSSSLOT` when they are in several slots",
    "local": "answered by the proxy",
    "split_values": "split per slot, run in parallel, values put back in order",
    "split_all_ok": "split per slot, run in parallel, `OK` when every part is",
    "split_sum": "split per slot, run in parallel, summed",
    "any_master": "any master that is up",
    "slot_argument": "to the shard that owns the slot",
    "debug": "`OBJECT` by its key, `PROTOCOL` (but `push`) on any master, else refused",
    "xread": "to the shard that owns its keys; not supported yet with `BLOCK`",
    "not_yet": "not supported yet: says so",
    "refused": "refused: administration of nodes",
    "container": "see its subcommands",
}


def load_commands():
    """full name -> {source: entry}, entries as COMMAND gives them."""
    commands = {}
    for source, _, _ in SOURCES:
        entries = json.loads((ROOT / f"data/command-info/{source}.json").read_text())
        stack = list(entries)
        while stack:
            entry = stack.pop()
            commands.setdefault(entry[0].lower(), {})[source] = entry
            stack.extend(entry[9])
    return dict(sorted(commands.items()))


def load_policy():
    """full name -> handling"""
    policy = {}

    def put(name, handling):
        if name in policy:
            sys.exit(f"command-policy.toml: {name} is there twice")
        policy[name] = handling

    tables = tomllib.loads((ROOT / "data/command-policy.toml").read_text())
    for table, groups in tables.items():
        if table == "cached":
            continue
        for key, value in groups.items():
            if table == "split":
                put(key, f"split_{value}")
            elif table == "special":
                put(key, value)
            else:
                for name in value:
                    put(name, table)
    return policy


def load_cached(commands):
    """full name -> (group, reason) of the reads that the reply cache may keep"""
    cached = {}
    tables = tomllib.loads((ROOT / "data/command-policy.toml").read_text())
    for group, reasons in tables["cached"].items():
        for name, reason in reasons.items():
            is_read = name in commands and "readonly" in newest(commands[name])[2]
            if not is_read or name in cached:
                sys.exit(f"command-policy.toml: {name} is no read, or there twice")
            cached[name] = (group, reason)
    return cached


def newest(versions):
    return next(versions[s] for s, _, _ in SOURCES if s in versions)


def merged_arity(versions):
    """The arity that lets everything through that any of the servers takes."""
    arities = [entry[1] for entry in versions.values()]
    if all(a == arities[0] for a in arities):
        return arities[0]
    return -min(abs(a) for a in arities)


def handling_of(name, entry, policy):
    if name in policy:
        return policy[name]
    if entry[9]:
        return "container"
    if entry[8]:
        return "by_keys"
    sys.exit(f"command-policy.toml: {name} has no keys and is not listed")


def key_spec(spec):
    begin, find = spec["begin_search"], spec["find_keys"]
    fields = [f'.begin = Begin::{begin["type"]}']
    if begin["type"] == "index":
        fields.append(f'.first = {begin["spec"]["index"]}')
    elif begin["type"] == "keyword":
        fields.append(f'.first = {begin["spec"]["startfrom"]}')
        fields.append(f'.keyword = "{begin["spec"]["keyword"]}"')
    fields.append(f'.find = Find::{find["type"]}')
    if find["type"] == "range":
        fields.append(f'.last = {find["spec"]["lastkey"]}, .step = {find["spec"]["keystep"]}')
        fields.append(f'.limit = {find["spec"]["limit"]}')
    elif find["type"] == "keynum":
        fields.append(f'.step = {find["spec"]["keystep"]}, .count_at = {find["spec"]["keynumidx"]}')
        fields.append(f'.keys_at = {find["spec"]["firstkey"]}')
    fields.append(f'.flags = "{" ".join(spec["flags"])}"')
    if spec.get("notes"):
        fields.append(f'.notes = {json.dumps(spec["notes"])}')
    return "{" + ", ".join(fields) + "}"


def bits(names, prefix):
    words = [prefix + "".join(p.capitalize() for p in n.strip("@").replace("-", "_").split("_"))
             for n in names]
    return " | ".join(words) or "0"


def generate_inc(commands, policy, cached):
    lines = ["// Generated by scripts/generate_commands.py; do not edit.", "// clang-format off"]
    for name, versions in commands.items():
        entry = newest(versions)
        specs = ", ".join(key_spec(s) for s in entry[8])
        servers = " | ".join(bit for s, _, bit in SOURCES if s in versions)
        lines.append(
            f'{{.name = "{name}", .arity = {merged_arity(versions)},\n'
            f' .handling = Handling::{handling_of(name, entry, policy)},\n'
            f' .flags = {bits(sorted(entry[2]), "kFlag")},\n'
            f' .categories = {bits(sorted(entry[6]), "kCategory")},\n'
            f' .first_key = {entry[3]}, .last_key = {entry[4]}, .key_step = {entry[5]},\n'
            f' .servers = {servers},\n'
            f' .tips = "{" ".join(entry[7])}",\n'
            f' .cached = Cached::{cached[name][0] if name in cached else "never"},\n'
            f' .key_specs = {{{{{specs}}}}}, .key_spec_count = {len(entry[8])}}},')
    return "\n".join(lines) + "\n"


def generate_doc(commands, policy, cached):
    out = ["# Commands", "",
           "Every command of Redis 7.0, Redis 8 and Valkey 9 and what Penstock does with it. "
           "Generated by",
           "`scripts/generate_commands.py` from the servers' own `COMMAND` output and "
           "`data/command-policy.toml`.", "",
           "A command that a node does not know is answered by that node. A name that is not "
           "listed here is an",
           "unknown command.", "",
           "| command | servers | what Penstock does |", "|---|---|---|"]
    for name, versions in commands.items():
        servers = ", ".join(text for s, text, _ in reversed(SOURCES) if s in versions)
        handling = handling_of(name, newest(versions), policy)
        shown = name.replace("|", " ").upper()
        kept = f"; kept by the reply cache: {cached[name][1]}" if name in cached else ""
        out.append(f"| `{shown}` | {servers} | {HANDLING_TEXT[handling]}{kept} |")
    return "\n".join(out) + "\n"


def main():
    commands, policy = load_commands(), load_policy()
    for name in policy:
        # The proxy's own, and commands of clients that no server table here knows.
        if name not in commands:
            commands[name] = {"redis-8": [name, -2, [], 0, 0, 0, [], [], [], []]}
    commands = dict(sorted(commands.items()))
    cached = load_cached(commands)
    wanted = {INC: generate_inc(commands, policy, cached),
              DOC: generate_doc(commands, policy, cached)}
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    if sys.argv[1:] == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what scripts/generate_commands.py writes")
        sys.exit(1 if stale else 0)
    for path in stale:
        path.write_text(wanted[path])


if __name__ == "__main__":
    main()
