#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the repository and says what is against its rules, one line for each finding.

  tidy.py                    every rule; exit status 1 when anything was found
  tidy.py --binary PENSTOCK  also: the texts that this program prints are those in the tree
  tidy.py --only-printed PENSTOCK  nothing but that
  tidy.py --record           lowers the recorded number of long functions to what it is now
  tidy.py --format           only says how many files clang-format would change
"""
import argparse
import ast
import collections
import json
import pathlib
import re
import subprocess
import sys

import cpp_text

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RATCHET = "tests/tidy/ratchet.json"

# Includes go from a higher row to a lower one. `log` is below all others: it is the one global.
ROWS = {"server": 6, "session": 5, "admin": 4, "cache": 3, "sharding": 3, "backend": 2, "net": 1,
        "cluster": 1, "command": 1, "resp": 0, "stats": 0, "config": 0, "log": -1}
# What a folder must not know although it is below.
MUST_NOT_KNOW = {("admin", "backend"): "a session gives what is needed of its pipes",
                 ("cache", "command"): "the cache knows keys and frames, not what they mean",
                 ("cache", "cluster"): "the cache does not route",
                 ("sharding", "command"): "samples go in, a decision comes out",
                 ("backend", "cluster"): "a pipe knows one node and no slots",
                 ("backend", "command"): "a pipe does not know what a reply is for"}

LINE_MAX = 100
FILE_MAX = 399
FUNCTION_MAX = 70
LOOK_TWICE = 40

BANNED = [  # pattern, what to use instead, where it holds
    (r"\bv?sn?printf\s*\(", "fmt::format", ("src", "include")),
    (r"\bstr(?:n?cpy|n?cat)\s*\(", "std::string or std::copy",
     ("src", "include", "tests", "bench")),
    (r"\bstrtok\s*\(", "std::string_view::find", ("src", "include", "tests", "bench")),
    (r"\bato(?:i|l|ll|f)\s*\(", "std::from_chars", ("src", "include", "tests", "bench")),
    (r"\bstrto(?:l|ul|ll|ull|d|f)\s*\(", "std::from_chars", ("src", "include")),
    (r"\bstd::sto(?:i|l|ul|ll|ull|d|f)\s*\(", "std::from_chars", ("src", "include")),
    (r"\bstd::(?:cout|cerr|clog)\b", "the logger, or std::fputs in main", ("src", "include")),
    (r"\bstd::endl\b", "'\\n'", ("src", "include", "tests", "bench")),
    (r"\bstd::w?regex\b", "a parser of a few lines", ("src", "include", "tests", "bench")),
    (r"\bs?rand\s*\(", "<random>", ("src", "include", "tests", "bench")),
    (r"\bvolatile\b", "std::atomic", ("src", "include")),
    (r"(?<!static_)\bassert\s*\(", "CHECK, which stays in the release", ("src", "include")),
    (r"(?<![\w:.>])(?:u|nano)?sleep\s*\(|\bstd::this_thread::sleep_(?:for|until)\b",
     "a timer of the reactor, or a wait that can be woken", ("src", "include")),
    (r"(?<!\w)(?:localtime|gmtime|asctime|ctime)\s*\(", "localtime_r, or fmt's clocks",
     ("src", "include")),
    (r"\busing\s+namespace\s+std\s*;", "names with their namespace",
     ("src", "include", "tests", "bench")),
    (r"\b(?:setjmp|longjmp|alloca)\s*\(", "a returned value, or a bounded buffer",
     ("src", "include", "tests", "bench")),
    (r"\bgoto\b", "a function that returns early", ("src", "include")),
    (r"\bco_(?:await|yield|return)\b", "a queue entry: nothing waits in the middle of a command",
     ("src", "include")),
    (r"\bstd::async\b", "a thread that somebody owns", ("src", "include")),
]

# Where a banned call is the right one, and why.
EXCEPTIONS = {
    ("src/net/epoll_reactor.cpp", "nanosleep"): "the batch wait, some microseconds",
    ("src/net/sockets.cpp", "std::this_thread::sleep_for"): "at start, before there are workers",
}

Finding = collections.namedtuple("Finding", "path line text")


class Repository:
    """The files under version control, and those that are about to be, by path."""

    def __init__(self, texts):
        self.texts = texts

    @classmethod
    def read(cls, root=ROOT):
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"], cwd=root, capture_output=True, check=True)
        texts = {}
        for path in sorted(set(listed.stdout.decode().split("\0")) - {""}):
            file = root / path
            if file.is_file() and not path.startswith(("data/", "tests/fuzz/corpus/")):
                data = file.read_bytes()
                if b"\0" not in data:
                    texts[path] = data.decode(errors="replace")
        return cls(texts)

    def under(self, *folders):
        """(path, text) in these top-level folders, or in all."""
        return [(path, text) for path, text in self.texts.items()
                if not folders or path.split("/")[0] in folders]

    def cpp(self, *folders):
        return [(path, text) for path, text in self.under(*folders) if is_cpp(path)]


def is_cpp(path):
    return path.endswith((".h", ".cpp"))


def is_script(path, text):
    return path.endswith((".py", ".sh", ".js")) or text.startswith("#!")


def is_code(path, text):
    name = path.rsplit("/", 1)[-1]
    return is_cpp(path) or is_script(path, text) or name in ("CMakeLists.txt", "CMakePresets.json")


def folder_of(path):
    """The folder of the house that a file of src/ or include/ is in; None for main.cpp."""
    parts = path.split("/")
    parts = parts[2:] if parts[0] == "include" else parts[1:]
    return parts[0] if len(parts) > 1 else None


def includes_of(text):
    """(line, header) of every include in quotes."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if match:
            yield number, match.group(1)


def matches(pattern, text):
    """(line, match) of every match."""
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1, match


# --- the rules: each takes the repository and yields findings ---------------------------------

def layers(repository):
    """Includes go downwards only, and a header of src/ is private to its folder."""
    for path, text in repository.cpp("src", "include"):
        folder = folder_of(path)
        if folder is not None and folder not in ROWS:
            yield Finding(path, 1, f"the folder {folder} has no row in tests/tidy/tidy.py")
            continue
        for line, header in includes_of(text):
            yield from check_include(path, folder, line, header)


def check_include(path, folder, line, header):
    public = header.startswith("penstock/")
    target = header.split("/")[1 if public else 0]
    if target not in ROWS:
        yield Finding(path, line, f'"{header}" is no "<folder>/<file>" of this project')
    elif folder is None or target == folder:
        return
    elif not public:
        yield Finding(path, line, f'"{header}" is private to src/{target}')
    elif ROWS[target] >= ROWS[folder]:
        yield Finding(path, line, f"{folder} (row {ROWS[folder]}) must not include {target} "
                                  f"(row {ROWS[target]})")
    elif (folder, target) in MUST_NOT_KNOW:
        yield Finding(path, line, f"{folder} must not include {target}: "
                                  f"{MUST_NOT_KNOW[folder, target]}")


def dead_headers(repository):
    """Every header is included by another file."""
    included = set()
    for path, text in repository.cpp():
        for _, header in includes_of(text):
            near = str(pathlib.PurePosixPath(path).parent / header)
            included.update({f"include/{header}", f"src/{header}", f"tests/{header}",
                             f"bench/{header}", f"tests/fuzz/{header}", near} - {path})
    for path, _ in repository.cpp():
        if path.endswith(".h") and path not in included:
            yield Finding(path, 1, "a header that nothing includes")


def line_length(repository):
    for path, text in repository.under():
        if not is_code(path, text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > LINE_MAX:
                yield Finding(path, number, f"{len(line)} characters; {LINE_MAX} are allowed")


def file_length(repository):
    for path, text in repository.cpp("src", "include"):
        lines = text.count("\n")
        if lines > FILE_MAX:
            yield Finding(path, 1, f"{lines} lines; a file has fewer than {FILE_MAX + 1}")


def functions_of(path, text):
    """(first line, last line, name) of each function of a C++ or Python file."""
    if is_cpp(path):
        return cpp_text.functions(text)
    if path.endswith(".py") or re.match(r"#!.*python", text):
        return [(node.lineno, node.end_lineno, node.name) for node in ast.walk(ast.parse(text))
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return []


def function_length(repository):
    for path, text in repository.under():
        for first, last, name in functions_of(path, text):
            if last - first + 1 > FUNCTION_MAX:
                yield Finding(path, first, f"{name} has {last - first + 1} lines; "
                                           f"{FUNCTION_MAX} are allowed")


def long_functions(repository):
    """Those to look at twice."""
    return [Finding(path, first, f"{name} has {last - first + 1} lines")
            for path, text in repository.under() for first, last, name in functions_of(path, text)
            if last - first + 1 > LOOK_TWICE]


def ratchet(repository):
    """The number of functions over 40 lines may only fall."""
    found = long_functions(repository)
    recorded = json.loads(repository.texts.get(RATCHET, "{}")).get("functions_over_40_lines", 0)
    if len(found) > recorded:
        for each in found:
            yield each._replace(text=f"{each.text}: there are {len(found)} over {LOOK_TWICE}, "
                                     f"{recorded} are recorded; split one")
    elif len(found) < recorded:
        yield Finding(RATCHET, 1, f"there are only {len(found)} left: run tidy.py --record")


def banned_calls(repository):
    for path, text in repository.cpp("src", "include", "tests", "bench"):
        code = cpp_text.blanked(text)
        for pattern, instead, folders in BANNED:
            if path.split("/")[0] not in folders:
                continue
            for line, match in matches(pattern, code):
                word = match.group().strip(" (")
                if (path, word) not in EXCEPTIONS:
                    yield Finding(path, line, f"{word} is not used here; use {instead}")


def leftovers(repository):
    for path, text in repository.under():
        for line, match in matches(r"\b(?:FIX" r"ME|TO" r"DO|X" r"XX|HA" r"CK)\b", text):
            yield Finding(path, line, f"a leftover {match.group()}")


def file_heads(repository):
    """A C++ file opens with a sentence and a licence line; every other source has the line."""
    for path, text in repository.under():
        if not is_cpp(path) and not is_script(path, text):
            continue
        lines = text.splitlines()
        licensed = [line for line in lines if re.match(r"(//|#) SPDX-License-Identifier: ", line)]
        if not licensed:
            yield Finding(path, 1, "no SPDX line")
        if not is_cpp(path):
            continue
        if not lines or not lines[0].startswith("// ") or lines[0].startswith("// SPDX"):
            yield Finding(path, 1, "the first line says what the file is for")
        if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
            yield Finding(path, 1, "no #pragma once")


def machine_paths(repository):
    """Nothing speaks of a particular machine; temporary files are for scripts and tests."""
    for path, text in repository.under():
        for line, match in matches(r"(?<![\w.$}/])/(?:wor" r"k|root|home/\w+)/", text):
            yield Finding(path, line, f"a path of one machine: {match.group()}")
        if path.split("/")[0] in ("scripts", "tests", "bench"):
            continue
        for line, match in matches(r"(?<![\w.$}])/tm" r"p/", text):
            yield Finding(path, line, f"a temporary path: {match.group()}")


def issue_numbers(repository):
    """A reason is told in words, not by a number; a link to another project's issue is fine."""
    for path, text in repository.under():
        if path.endswith((".svg", ".json")):
            continue
        for line, match in matches(r"(?<![\w&#/\"'({])#\d{1,5}\b(?![0-9a-fA-F.]|\]\(http)|"
                                   r"(?i:\bissues? *#?\d+\b)", text):
            yield Finding(path, line, f"the number of an issue: {match.group()}")


RULES = [layers, dead_headers, line_length, file_length, function_length, ratchet, banned_calls,
         leftovers, file_heads, machine_paths, issue_numbers]


# --- what needs programs ----------------------------------------------------------------------

def generated(root=ROOT):
    """The command table and its page are what the generator makes."""
    generator = root / "scripts/generate_commands.py"
    done = subprocess.run([sys.executable, str(generator), "--check"], capture_output=True,
                          text=True)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        yield Finding("scripts/generate_commands.py", 1, said[-1] if said else "it failed")


PRINTED = {"docs/configuration.md": "--print-reference", "config/penstock.toml": "--print-config"}


def printed(binary, root=ROOT):
    """What the program prints of itself is what the tree has."""
    for path, flag in PRINTED.items():
        done = subprocess.run([binary, flag], capture_output=True, text=True)
        file = root / path
        if done.returncode != 0:
            yield Finding(path, 1, f"{binary} {flag} failed: {done.stderr.strip()}")
        elif not file.is_file():
            yield Finding(path, 1, f"is missing: penstock {flag} > {path}")
        elif file.read_text() != done.stdout:
            yield Finding(path, 1, f"is out of date: penstock {flag} > {path}")


def unformatted(repository, root=ROOT):
    """The files that clang-format would change."""
    out = []
    for path, _ in repository.cpp():
        done = subprocess.run(["clang-format", "--dry-run", "-Werror", path], cwd=root,
                              capture_output=True)
        if done.returncode != 0:
            out.append(path)
    return out


def record(repository):
    count = len(long_functions(repository))
    file = ROOT / RATCHET
    before = json.loads(file.read_text())["functions_over_40_lines"] if file.is_file() else count
    if count > before:
        sys.exit(f"{count} functions are over {LOOK_TWICE} lines, {before} are recorded: "
                 "the number may only fall")
    file.write_text(json.dumps({"functions_over_40_lines": count}, indent=2) + "\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--only-printed", dest="only_printed")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--format", action="store_true")
    options = parser.parse_args()
    repository = Repository.read()
    if options.record:
        return record(repository)
    if options.format:
        names = unformatted(repository)
        print("\n".join(names + [f"{len(names)} files would be changed by clang-format"]))
        return 0
    findings = []
    if not options.only_printed:
        findings += [(rule.__name__, finding) for rule in RULES for finding in rule(repository)]
        findings += [("generated", finding) for finding in generated()]
    if options.binary or options.only_printed:
        binary = options.binary or options.only_printed
        findings += [("printed", finding) for finding in printed(binary)]
    for name, finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.text} [{name}]")
    print(f"tidy: {len(repository.texts)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
