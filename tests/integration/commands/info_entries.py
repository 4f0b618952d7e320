# SPDX-License-Identifier: Apache-2.0
"""COMMAND INFO as the proxy must answer it: the newest server's own description of a command."""


def expected_entry(name, facts):
    """The entry of a served command, with the subcommands that are served; None for the others."""
    if name not in facts.commands or not facts.is_served(name):
        return None
    command = facts.commands[name]
    entry = command.entry
    subcommands = [expected_entry(each[0].lower(), facts) for each in entry[9]]
    return [name, command.arity, set(entry[2]), *entry[3:6], set(entry[6]), list(entry[7]),
            [spec_of(spec) for spec in entry[8]],
            {each[0]: each for each in subcommands if each is not None}]


def spec_of(spec):
    out = {"flags": set(spec["flags"]), "begin_search": spec["begin_search"],
           "find_keys": spec["find_keys"]}
    if spec.get("notes"):
        out["notes"] = spec["notes"]
    return out


def normalized(entry):
    """A reply of COMMAND INFO, as support.Connection reads it in either protocol."""
    if entry is None:
        return None
    subcommands = [normalized(each) for each in entry[9]]
    return [text(entry[0]), entry[1], texts(entry[2]), *entry[3:6], texts(entry[6]),
            [text(tip) for tip in entry[7]], [normalized_spec(spec) for spec in entry[8]],
            {each[0]: each for each in subcommands}]


def normalized_spec(spec):
    out = as_dict(spec)
    out["flags"] = texts(out["flags"])
    for part in ("begin_search", "find_keys"):
        out[part] = as_dict(out[part])
        out[part]["type"] = text(out[part]["type"])
        out[part]["spec"] = {name: text(value)
                             for name, value in as_dict(out[part]["spec"]).items()}
    if "notes" in out:
        out["notes"] = text(out["notes"])
    return out


def as_dict(pairs):
    """A RESP3 map, or the flat array that RESP2 has for it."""
    if pairs and not isinstance(pairs[0], tuple):
        pairs = zip(pairs[::2], pairs[1::2])
    return {text(name): value for name, value in pairs}


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def texts(values):
    return {text(value) for value in values}
