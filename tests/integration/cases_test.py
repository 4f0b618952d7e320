# SPDX-License-Identifier: Apache-2.0
"""docs/cases.md says which tests show a field case: they do, and there are no others."""
import ast
import pathlib
import re
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs/cases.md"


def cases_by_class():
    """The cases that the descriptions of a class's tests begin with, by (module, class)."""
    shown = {}
    for path in HERE.glob("*_test.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                shown[path.stem.removesuffix("_test"), node.name] = set(cases_of_tests(node))
    return shown


def cases_of_tests(node):
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
            found = re.match(r"([A-Z]+-\d+): ", ast.get_docstring(each) or "")
            if found:
                yield found.group(1)


def classes_by_case():
    """The integration tests that the page names for each case, as (module, class or None)."""
    named = {}
    for line in PAGE.read_text().splitlines():
        row = re.fullmatch(r"\| ([A-Z]+-\d+) \|.*\| (.*) \|", line)
        if row:
            named[row.group(1)] = set(named_in(row.group(2)))
    return named


def named_in(cell):
    """`module` Class, Class; `module`; other things"""
    for part in cell.split("; "):
        found = re.fullmatch(r"`(\w+)`(?: (\w+(?:, \w+)*))?", part)
        if found:
            module, classes = found.groups()
            yield from ((module, name) for name in (classes or "").split(", "))


class Cases(unittest.TestCase):
    def test_each_case_of_the_page_is_shown_by_the_classes_it_names(self):
        """The page named a test that was not there any more."""
        shown = cases_by_class()
        named = classes_by_case()
        self.assertGreater(len(named), 30)
        for case, places in named.items():
            for module, name in places:
                with self.subTest(case=case, module=module, name=name):
                    self.assertTrue(any(case in cases for each, cases in shown.items()
                                        if each[0] == module and name in ("", each[1])))

    def test_each_case_that_a_test_shows_is_on_the_page_with_its_class(self):
        """A case was covered, and nobody could find out where."""
        named = classes_by_case()
        for (module, name), cases in cases_by_class().items():
            for case in cases:
                with self.subTest(case=case, module=module, name=name):
                    self.assertTrue({(module, name), (module, "")} & named.get(case, set()))


if __name__ == "__main__":
    unittest.main()
