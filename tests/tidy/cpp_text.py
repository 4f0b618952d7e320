# SPDX-License-Identifier: Apache-2.0
"""C++ as text: comments and literals blanked out, and where functions begin and end."""
import bisect
import re

_LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\\ ]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|"""
    r"""(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""", re.S)
_TYPE_OR_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
_ACCESS = re.compile(r"\b(public|private|protected)\s*$")
_OPERATOR = re.compile(r"\boperator\s*[^\s(]+")


def blanked(text):
    """The code alone: spaces for comments and the insides of literals; lines stay in place."""
    def blank(match):
        found = match.group()
        kept = found[0] + re.sub(r"[^\n]", " ", found[1:-1]) + found[-1]
        return _spaces(match) if found.startswith(("//", "/*")) else kept
    return _LITERAL.sub(blank, text)


def _without_directives(code):
    """Preprocessor lines, with their continuations, as spaces."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", _spaces, code, flags=re.M)


def _spaces(match):
    return re.sub(r"[^\n]", " ", match.group())


def _is_initializer(head):
    """Whether what precedes a brace assigns: an equals sign outside of parentheses."""
    depth = 0
    for character in _OPERATOR.sub("operator", head):
        depth += (character in "(<[") - (character in ")>]")
        if character == "=" and depth <= 0:
            return True
    return False


def _opens_scope(head):
    """Whether a brace behind `head` opens a namespace or a type, where functions may be."""
    if not head.strip():
        return False
    words = _TYPE_OR_SCOPE.search(head)
    return bool(words) and "(" not in head[words.start():].split("{")[0].replace("alignas(", "")


def functions(text):
    """(first line, last line, name) of every function that has a body; lines count from 1."""
    code = _without_directives(blanked(text))
    found = []  # first and last position, name
    start = position = 0
    while position < len(code):
        head = code[start:position]
        if code[position] in ";}" or (code[position] == ":" and _ACCESS.search(head)):
            start = position + 1
        elif code[position] == "{" and head.count("(") > head.count(")"):
            position = _closing(code, position)  # the default of a parameter
        elif code[position] == "{" and _opens_scope(head):
            start = position + 1
        elif code[position] == "{":
            position = _closing(code, position)
            first = start + len(head) - len(head.lstrip())
            if found and found[-1][1] == start - 1 and head.strip()[:1] in ("", ","):
                # What was taken for the body was a member's initializer, as in ": size_{0} {".
                found[-1] = (found[-1][0], position, found[-1][2])
            elif "(" in head and not _is_initializer(head):
                found.append((first, position, _name(head)))
            start = position + 1
        position += 1
    line_of = _line_counter(code)
    return [(line_of(first), line_of(last), name) for first, last, name in found]


def _line_counter(code):
    """A function from a position to its line."""
    starts = [0] + [match.end() for match in re.finditer("\n", code)]
    return lambda position: bisect.bisect_right(starts, position)


def _closing(code, position):
    """Where the brace at `position` is closed."""
    depth = 0
    for index in range(position, len(code)):
        depth += (code[index] == "{") - (code[index] == "}")
        if depth == 0:
            return index
    return len(code) - 1


def _name(head):
    """The last name before the first parenthesis."""
    names = re.findall(r"[~\w:]+", head.split("(")[0])
    return names[-1] if names else "?"
