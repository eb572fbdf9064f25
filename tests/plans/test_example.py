"""`tpplan check --example`: a finding in numbers, on two ranks. The numbers are worked out here once more."""

import json
import re

import jsonschema
import pytest
from conftest import ROOT, run

VALIDATOR = jsonschema.Draft7Validator(json.loads((ROOT / "schemas" / "diagnostics.schema.json").read_text()))

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


# Of findings that end a run and whose arithmetic nobody knows: the shapes, line by line but the heading.
SHAPES = {
    "walk-length-of-the-sequence-that-fits": (
        "TP5103: inner: in shapes: reshape on [tp=4], batch 1, sequence 4",
        "x, a DTensor|[1, 1, 8]|[1, 1, 8]|[1, 4, 8]",
        "asked for|[1, 2, 2, 8]|[1, 2, 2, 8]|[1, 2, 2, 8]",
        "result|none|none|[1, 2, 2, 8]",
    ),
    "walk-module-is-called-with-keywords-only": (
        "TP5105: a: in shapes: what enters on [tp=2]",
        "x|[2, 4]|[2, 4]|[2, 4]",
    ),
    "walk-parameter-key-makes-a-dtensor-of-one-operand": (
        "TP5104: a: in shapes: linear on [tp=2]",
        "a|[2, 4]|[2, 4]|[2, 4]",
        "b, a DTensor|[4, 4]|[4, 4]|[8, 4]",
        "result|none|none|[2, 8]",
    ),
    "walk-write-to-a-view-of-a-dtensor": (
        "TP5106: the model: in shapes: add_ on [tp=2]",
        "x|[2, 4]|[2, 4]|[2, 8]",
        "result|none|none|[2, 8]",
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_where_a_run_ends_the_shapes_are_shown_at_the_smallest_sizes(case):
    result = run("check", "model.json", "plan.yaml", "--example", cwd=GOLDEN / case).stdout.decode().splitlines()
    at = next(i for i, text in enumerate(result) if ": in shapes: " in text)
    heading, *rows = SHAPES[case]
    shown = [re.sub(r" {2,}", "|", line.strip()) for line in result[at:]]
    assert shown[0] == heading and shown[2 : 2 + len(rows)] == rows
    assert max(map(len, result[at:])) <= 80


def checked(model, plan, *flags):
    result = run("check", model, plan, "--format", "json", *flags)
    document = json.loads(result.stdout)
    VALIDATOR.validate(document)
    return document


def test_a_llama_shows_a_step_than_which_none_smaller_has_the_finding():
    """Every step with fewer tokens, and every smaller mesh, is asked: it goes another way, or has not this finding."""
    files = ROOT / "plans/models/llama-3-8b.json", ROOT / "tests/plans/wrong/output-colwise.yaml"
    [shown] = checked(*files, "--example")["examples"]
    assert (shown["code"], shown["shows"], shown["mesh"]) == ("TP5102", "shapes", "[tp=2]")
    assert shown["rows"][-1]["name"] == "result" and shown["rows"][-1]["ranks"] == [None, None]
    tokens = shown["batch"] * shown["sequence"]
    assert tokens < 2 * 2048
    for batch in range(1, 3):
        for sequence in range(1, tokens // batch + 1):
            sizes = ("--mesh", "tp=2", "--batch", batch, "--sequence", sequence)
            found = [(d["code"], d["message"].split(":")[0]) for d in checked(*files, *sizes)["diagnostics"]]
            has_it = (shown["code"], shown["module"]) in found
            assert has_it == (batch * sequence >= tokens and (batch, sequence) == (shown["batch"], shown["sequence"]))


@pytest.mark.parametrize("case", [*SHOWN, *SHAPES])
def test_programs_get_the_same_numbers(case):
    document = checked(GOLDEN / case / "model.json", GOLDEN / case / "plan.yaml", "--example")
    [example, *_] = document["examples"]
    assert example["code"] in [d["code"] for d in document["diagnostics"]]
    lines = SHOWN.get(case) or SHAPES[case][1:]
    rows = [line.split("|") for line in lines if "|" in line]
    assert [row["name"] for row in example["rows"]] == [row[0] for row in rows]
    for row, (_, *cells) in zip(example["rows"], rows):
        for numbers, text in zip([*row["ranks"], row["whole"]], cells):
            if numbers is None:
                assert "meets" in text or "there" in text or text == "none"
            else:
                assert [round(number, 2) for number in numbers] == json.loads(f"[{text.strip('[]')}]")


def test_a_right_plan_has_no_example():
    files = ROOT / "plans/models/llama-3-8b.json", ROOT / "plans/llama.yaml"
    assert checked(*files, "--example")["examples"] == []
    assert "examples" not in checked(*files)


def test_without_the_flag_nothing_is_shown():
    assert example("walk-computed-over-a-piece") is None


@pytest.mark.parametrize("form", ["jsonl", "sarif", "github", "gitlab", "markdown", "junit"])
def test_formats_of_programs_have_no_place_for_it(form):
    case = GOLDEN / "walk-computed-over-a-piece"
    result = run("check", "model.json", "plan.yaml", "--example", "--format", form, cwd=case)
    assert (result.returncode, result.stdout) == (2, b"") and b"--example" in result.stderr
