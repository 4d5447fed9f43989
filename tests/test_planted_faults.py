"""The faults that show what the tests find are faults of the code as it is."""

import runpy
from pathlib import Path

TESTS = Path(__file__).parent
FAULTS = runpy.run_path(str(TESTS / "benchmarks/planted_faults.py"))["FAULTS"]


def test_each_planted_fault_has_its_line_and_its_tests():
    package = TESTS.parent / "invlift"
    found = {
        each.what: (package / each.file).read_text("utf-8").count(each.line) for each in FAULTS
    }
    assert {what: num for what, num in found.items() if num != 1} == {}
    named = {test.split("::")[0] for each in FAULTS for test in each.tests.split()}
    assert {test for test in named if not (TESTS / test).exists()} == set()
