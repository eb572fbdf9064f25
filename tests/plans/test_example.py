"""`tpplan check --example`: a finding in numbers, on two ranks. The numbers are worked out here once more."""

import re

import pytest
from conftest import ROOT, run

GOLDEN = ROOT / "tests" / "golden" / "diagnostics"
# Of each case: what stands in the example, line by line but the heading.
SHOWN = {
    "walk-complete-value-is-summed": ["each has|1|1|1", "2 = 1 + 1 where 1 belongs"],
    "walk-gradient-summed-too-often": ["each has|1|1|1", "2 = 1 + 1 where 1 belongs"],
    "walk-gradient-that-nobody-sums": [
        "each has|3|-2|1",
        "rank 0 steps by 3 and rank 1 by -2, where 3 + -2 = 1 belongs",
    ],
    "walk-open-sum-through-something-not-linear": [
        "x, terms|3, 4|-2, -2|1, 2",
        "relu|3, 4|0, 0|1, 2",
        "3, 4 where 1, 2 belongs",
    ],
    "walk-computed-over-a-piece": ["x, pieces|1|2|1, 2", "softmax|1|1|0.27, 0.73", "1, 1 where 0.27, 0.73 belongs"],
    "walk-result-leaves-in-pieces": ["returned|1|2|1, 2", "rank 0 goes on with 1 where 1, 2 belongs"],
    "walk-whole-weight-meets-a-cut-input": [
        "a, pieces|1|2|1, 2",
        "b|3, 4|3, 4|3, 4",
        "linear|1 meets 2|1 meets 2|11",
        "no result where 11 belongs",
    ],
    "walk-view-to-sizes-of-the-whole": [
        "x, pieces|1|2|1, 2",
        "view|1 of 2 there|1 of 2 there|1, 2",
        "no result where 1, 2 belongs",
    ],
}


def example(case, *flags):
    result = run("check", "model.json", "plan.yaml", "--color", "never", *flags, cwd=GOLDEN / case)
    lines = result.stdout.decode().splitlines()
    at = next((i for i, text in enumerate(lines) if "in numbers: " in text), None)
    return None if at is None else lines[at:]


@pytest.mark.parametrize("case", SHOWN)
def test_a_finding_is_shown_on_two_ranks(case):
    heading, columns, *lines = example(case, "--example")
    code = (GOLDEN / case / "expected.txt").read_text().split("error[")[1][:6]
    assert heading.startswith(code) and heading.endswith(" with two ranks")
    assert columns.split() == ["rank", "0", "rank", "1", "whole", "model"]
    shown = [re.sub(r" {2,}", "|", line.strip()) for line in lines[: len(SHOWN[case])]]
    assert shown == SHOWN[case]
    assert max(map(len, [heading, *lines])) <= 80


@pytest.mark.parametrize("case", sorted(path.name for path in GOLDEN.glob("walk-*")))
def test_there_is_no_heading_without_its_numbers(case):
    lines = example(case, "--example")
    assert lines is None or (len(lines) > 3 and " belongs" in "\n".join(lines))


def test_without_the_flag_nothing_is_shown():
    assert example("walk-computed-over-a-piece") is None


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_formats_of_programs_have_no_place_for_it(form):
    case = GOLDEN / "walk-computed-over-a-piece"
    result = run("check", "model.json", "plan.yaml", "--example", "--format", form, cwd=case)
    assert (result.returncode, result.stdout) == (2, b"") and b"--example" in result.stderr
