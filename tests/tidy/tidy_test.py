#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of tidy.py is shown a repository that breaks it, and one that does not."""
import json
import pathlib
import tempfile
import unittest

import cpp_text
import tidy

HEAD = "// A part.\n// SPDX-License-Identifier: Apache-2.0\n"
HEADER = HEAD + "#pragma once\n"


def findings(rule, **texts):
    """What a rule says about files given as src__a__b_cpp="text"."""
    return list(rule(tidy.Repository(paths(texts))))


def paths(texts):
    out = {}
    for name, text in texts.items():
        path = name.replace("__", "/")
        stem, _, suffix = path.rpartition("_")
        out[f"{stem}.{suffix}"] = text
    return out


def function_of(lines, name="f"):
    return f"void {name}() {{\n" + "  g();\n" * (lines - 2) + "}\n"


class RuleTest(unittest.TestCase):
    def assert_found(self, rule, **texts):
        found = findings(rule, **texts)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def assert_clean(self, rule, **texts):
        self.assertEqual(findings(rule, **texts), [])


class Layers(RuleTest):
    def test_an_include_goes_downwards(self):
        self.assert_clean(tidy.layers, src__session__a_cpp='#include "penstock/net/block.h"\n')
        self.assert_clean(tidy.layers, src__resp__a_cpp='#include "penstock/log/check.h"\n')

    def test_an_include_upwards_is_found(self):
        found = self.assert_found(tidy.layers,
                                  src__net__a_cpp='\n#include "penstock/session/x.h"\n')
        self.assertEqual((found.path, found.line), ("src/net/a.cpp", 2))
        self.assert_found(tidy.layers,
                          include__penstock__cache__a_h='#include "penstock/admin/x.h"')

    def test_folders_of_one_row_do_not_know_each_other(self):
        self.assert_found(tidy.layers, src__net__a_cpp='#include "penstock/cluster/topology.h"\n')
        self.assert_found(tidy.layers, src__resp__a_cpp='#include "penstock/stats/counter.h"\n')

    def test_what_a_folder_must_not_know_is_found_below_it_too(self):
        self.assert_found(tidy.layers, src__admin__a_cpp='#include "penstock/backend/pipe.h"\n')
        self.assert_found(tidy.layers, src__backend__a_cpp='#include "penstock/cluster/router.h"\n')

    def test_a_header_of_src_is_private_to_its_folder(self):
        self.assert_clean(tidy.layers, src__server__a_cpp='#include "server/worker.h"\n')
        self.assert_found(tidy.layers, src__server__a_cpp='#include "session/session.h"\n')
        self.assert_found(tidy.layers, include__penstock__net__a_h='#include "config/schema.h"\n')

    def test_main_may_include_what_is_public(self):
        self.assert_clean(tidy.layers, src__main_cpp='#include "penstock/server/server.h"\n')

    def test_a_new_folder_needs_a_row(self):
        self.assert_found(tidy.layers, src__magic__a_cpp="")
        self.assert_found(tidy.layers, src__net__a_cpp='#include "penstock/magic/x.h"\n')
        self.assert_found(tidy.layers, src__net__a_cpp='#include "block.h"\n')


class Files(RuleTest):
    def test_a_header_is_included_by_another_file(self):
        header = "include__penstock__net__a_h"
        self.assert_found(tidy.dead_headers, **{header: '#include "penstock/net/a.h"\n'})
        self.assert_clean(tidy.dead_headers, **{
            header: "", "src__net__b_cpp": '#include "penstock/net/a.h"\n'})
        self.assert_clean(tidy.dead_headers, tests__simulation__w_h="",
                          tests__simulation__t_cpp='#include "w.h"\n')

    def test_a_line_has_a_hundred_characters_at_most(self):
        self.assert_clean(tidy.line_length, src__a__b_cpp="x" * 100 + "\n")
        found = self.assert_found(tidy.line_length, scripts__a_py="\n" + "x" * 101 + "\n")
        self.assertEqual(found.line, 2)
        self.assert_clean(tidy.line_length, docs__a_md="x" * 101)

    def test_a_file_of_the_library_has_under_400_lines(self):
        self.assert_clean(tidy.file_length, src__a__b_cpp="\n" * 399)
        self.assert_found(tidy.file_length, src__a__b_cpp="\n" * 400)
        self.assert_found(tidy.file_length, include__penstock__a__b_h="\n" * 400)
        self.assert_clean(tidy.file_length, tests__unit__a_cpp="\n" * 400)

    def test_a_source_begins_with_a_sentence_and_a_licence(self):
        self.assert_clean(tidy.file_heads, src__a__b_cpp=HEAD, src__a__b_h=HEADER)
        self.assert_found(tidy.file_heads, src__a__b_cpp="// A part.\n#include <x>\n")
        self.assert_found(tidy.file_heads,
                          src__a__b_cpp="// SPDX-License-Identifier: Apache-2.0\nint i;\n")
        self.assert_found(tidy.file_heads, src__a__b_h=HEAD)
        self.assert_found(tidy.file_heads, scripts__a_py='"""A part."""\n')
        self.assert_found(tidy.file_heads, **{"tests__a_run": "#!/bin/sh\n"})

    def test_leftovers_are_found_in_every_file(self):
        for word in ("FIX" "ME", "TO" "DO", "X" "XX"):
            self.assert_found(tidy.leftovers, docs__a_md=f"later ({word}: more)\n")
        self.assert_clean(tidy.leftovers, src__a__b_cpp="// SET takes XX or NX; todos\n")

    def test_paths_of_a_machine_are_found(self):
        self.assert_found(tidy.machine_paths, docs__a_md="see /wor" "k/main/x\n")
        self.assert_found(tidy.machine_paths, scripts__a_py="'/home/" "me/x'\n")
        self.assert_found(tidy.machine_paths, src__a__b_cpp='"/tm' 'p/x"\n')
        self.assert_clean(tidy.machine_paths, scripts__a_py="'/tm" "p/x'\n")
        self.assert_clean(tidy.machine_paths, docs__a_md="see docs/wor" "k/main, $dir/wor" "k/\n")

    def test_numbers_of_issues_are_found(self):
        self.assert_found(tidy.issue_numbers, src__a__b_cpp="// as in #" "12\n")
        self.assert_found(tidy.issue_numbers, docs__a_md="see issue" " 3\n")
        self.assert_found(tidy.issue_numbers, docs__a_md="see Issue" " #" "3 of it\n")
        self.assert_clean(tidy.issue_numbers, docs__a_md="[#" "9](https://example.com/issues/9)\n")
        self.assert_clean(tidy.issue_numbers, scripts__a_py="color = '#112233'; x = '&#12;'\n")
        self.assert_clean(tidy.issue_numbers, scripts__a_sh="${x#1} ${#x} $#\n")


class Functions(RuleTest):
    def test_a_function_has_70_lines_at_most(self):
        self.assert_clean(tidy.function_length, src__a__b_cpp=function_of(70))
        found = self.assert_found(tidy.function_length, src__a__b_cpp="\n" + function_of(71))
        self.assertEqual(found, ("src/a/b.cpp", 2, "f has 71 lines; 70 are allowed"))

    def test_python_is_measured_too(self):
        body = "    g()\n" * 70
        self.assert_found(tidy.function_length, scripts__a_py="def f():\n" + body)
        self.assert_clean(tidy.function_length, scripts__a_py="def f():\n" + body[8:])

    def test_the_number_of_functions_over_40_lines_may_only_fall(self):
        two = function_of(41) + function_of(41, "h") + function_of(40, "short")

        def with_record(number):
            return {"src__a__b_cpp": two, "tests__tidy__ratchet_json":
                    json.dumps({"functions_over_40_lines": number})}
        self.assert_clean(tidy.ratchet, **with_record(2))
        self.assertEqual(len(findings(tidy.ratchet, **with_record(1))), 2)
        self.assert_found(tidy.ratchet, **with_record(3))

    def test_functions_are_found_wherever_they_are(self):
        code = """
namespace a {
struct S : B {
 public:
  explicit S(int x) : x_{x}, y_(1) {
    h();
  }
  bool operator==(const S&) const = default;
  bool operator<(const S& o) const {
    return true;
  }
  std::vector<int> v{1, 2};
 private:
  int x_ = 0;
};
const int kTable[] = {
    1, 2};
template <class T>
T g(T t = {}) {
  if (t) {
    auto lambda = [&](int i) { return "}" + '}'; };
  }  // }
  return R"({{{)";
}
#define MACRO(x) \\
  do { \\
  } while (false)
}
TEST_CASE("a { in a name") {
  REQUIRE(true);
}
"""
        self.assertEqual(cpp_text.functions(code),
                         [(5, 7, "S"), (9, 11, "operator"), (18, 24, "g"), (29, 31, "TEST_CASE")])


class BannedCalls(RuleTest):
    BAD = ["sprintf(b, f);", "snprintf(b, 1, f);", "strcpy(a, b);", "strtok(a, b);", "atoi(s);",
           "strtol(s, 0, 10);", "std::stoi(s);", "std::cout << 1;", "a << std::endl;",
           "std::regex r;", "rand();", "volatile int i;", "assert(x);", "sleep(1);", "usleep(1);",
           "nanosleep(&t, nullptr);", "std::this_thread::sleep_for(s);", "localtime(&t);",
           "using namespace std;", "alloca(8);", "goto end;", "co_await x;", "std::async(f);"]
    GOOD = ["fmt::format(f);", "static_assert(x);", "// sprintf(b, f);", 'log("atoi(s)");',
            "timer.sleep(1);", "localtime_r(&t, &out);", "operand(x);", "my_strcpy(a);",
            "using namespace std::chrono_literals;", "std::condition_variable c;"]

    def test_each_is_found_and_its_replacement_named(self):
        for line in self.BAD:
            with self.subTest(line):
                found = self.assert_found(tidy.banned_calls, src__a__b_cpp="\n" + line + "\n")
                self.assertIn("; use ", found.text)
                self.assertEqual(found.line, 2)

    def test_every_pattern_has_an_example(self):
        import re
        for pattern, _, _ in tidy.BANNED:
            self.assertTrue(any(re.search(pattern, line) for line in self.BAD), pattern)

    def test_what_only_looks_like_one_is_not_found(self):
        for line in self.GOOD:
            with self.subTest(line):
                self.assert_clean(tidy.banned_calls, src__a__b_cpp=line + "\n")

    def test_tests_may_sleep(self):
        self.assert_clean(tidy.banned_calls, tests__unit__a_cpp="usleep(1);\n")

    def test_an_exception_names_a_file_that_is_there_and_needs_it(self):
        texts = tidy.Repository.read().texts
        for path, word in tidy.EXCEPTIONS:
            self.assertIn(word, texts.get(path, ""), path)


class Programs(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def test_a_generated_file_that_is_out_of_date_is_found(self):
        self.put("scripts/generate_commands.py", "import sys\nsys.exit('x.inc is out of date')\n")
        found = list(tidy.generated(self.root))
        self.assertEqual([each.text for each in found], ["x.inc is out of date"])
        self.put("scripts/generate_commands.py", "")
        self.assertEqual(list(tidy.generated(self.root)), [])

    def test_texts_that_the_program_prints_otherwise_are_found(self):
        binary = self.put("penstock", "#!/bin/sh\necho \"$1\"\n")
        binary.chmod(0o755)
        self.put("docs/configuration.md", "--print-reference\n")
        found = list(tidy.printed(str(binary), self.root))
        self.assertEqual([each.path for each in found], ["config/penstock.toml"])
        self.put("config/penstock.toml", "something old\n")
        self.assertEqual(len(list(tidy.printed(str(binary), self.root))), 1)
        self.put("config/penstock.toml", "--print-config\n")
        self.assertEqual(list(tidy.printed(str(binary), self.root)), [])


class Main(unittest.TestCase):
    def test_every_rule_is_run(self):
        rules = {value for name, value in vars(tidy).items()
                 if callable(value) and getattr(value, "__code__", None)
                 and value.__code__.co_varnames[:value.__code__.co_argcount] == ("repository",)}
        self.assertEqual(set(tidy.RULES), rules - {tidy.long_functions, tidy.record})


if __name__ == "__main__":
    unittest.main()
