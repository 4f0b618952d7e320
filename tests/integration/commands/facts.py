# SPDX-License-Identifier: Apache-2.0
"""What the data files, and the node under test, say about every command."""
import importlib.util
import pathlib
from typing import NamedTuple, Optional

ROOT = pathlib.Path(__file__).resolve().parents[3]

WHY = {"not_yet": "is not supported yet",
       "refused": "is not allowed through the proxy: it administers single nodes"}


def generator_script():
    """scripts/generate_commands.py, which joins the servers' tables with the policy."""
    path = ROOT / "scripts/generate_commands.py"
    spec = importlib.util.spec_from_file_location("generate_commands", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fits(arity, count):
    """Whether a command of this arity takes `count` words, its name included."""
    return count == arity if arity >= 0 else count >= -arity


class Command(NamedTuple):
    name: str               # "get" or "config|get"
    arity: int              # as the proxy takes it
    handling: str           # a table of the policy, "by_keys" or "container"
    entry: list             # its newest description, as COMMAND gives it
    node_arity: Optional[int]  # None: the node under test does not know it

    @property
    def title(self):
        return self.name.replace("|", " ").upper()

    @property
    def is_refused(self):
        return self.handling in WHY

    @property
    def is_container(self):
        return self.handling == "container" or bool(self.entry[9])

    @property
    def specs(self):
        return self.entry[8]

    @property
    def refusal(self):
        return f"-ERR {self.title} {WHY[self.handling]}\r\n".encode()

    @property
    def arity_error(self):
        return f"-ERR wrong number of arguments for '{self.name}' command\r\n".encode()


class Facts:
    """The proxy's table of commands, and which of them the node knows."""

    def __init__(self, node):
        script = generator_script()
        node_arity = {}
        stack = list(node.call("COMMAND"))
        while stack:
            entry = stack.pop()
            node_arity[entry[0].decode()] = entry[1]
            stack += entry[9]
        policy, table = script.load_policy(), script.load_commands()
        # The proxy's own commands, and those that no server's table has and the policy refuses.
        for name in sorted(policy.keys() - table.keys()):
            table[name] = {"redis-8": [name, -2, [], 0, 0, 0, [], [], [], []]}
            container = table.get(name.split("|")[0])
            if "|" in name and len(container) == 1 and "redis-8" in container:
                container["redis-8"][9].append(table[name]["redis-8"])
        self.commands = {}
        for name, versions in sorted(table.items()):
            entry = script.newest(versions)
            self.commands[name] = Command(name, script.merged_arity(versions),
                                          script.handling_of(name, entry, policy), entry,
                                          node_arity.get(name))
        self.specs_changed = {
            name for name, versions in table.items()
            if any(entry[8] != script.newest(versions)[8] for entry in versions.values())}

    def find(self, words):
        """The command that these words call, or None: a subcommand if there is one."""
        if not words or b"|" in words[0]:
            return None
        command = self.commands.get(words[0].lower().decode("latin-1"))
        if command is None or not command.is_container or len(words) == 1:
            return command
        return self.commands.get(f"{command.name}|{words[1].lower().decode('latin-1')}")

    def container(self, words):
        """The container that these words name, with or without a subcommand it has."""
        command = self.commands.get(words[0].lower().decode("latin-1")) if words else None
        return command if command is not None and command.is_container else None

    def is_served(self, name):
        """Whether the proxy does something with it but refuse it."""
        command = self.commands[name]
        if command.handling != "container":
            return not command.is_refused
        return any(self.is_served(each) for each in self.commands if each.startswith(name + "|"))
