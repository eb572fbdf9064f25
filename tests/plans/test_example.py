"""`tpplan check --example`: a diagnostic shown in numbers, on two ranks. The test computes the numbers independently."""

import json
import re

import jsonschema
import pytest
from conftest import ROOT, run

VALIDATOR = jsonschema.Draft7Validator(json.loads((ROOT / "schemas" / "diagnostics.schema.json").read_text()))

GOLDEN = ROOT / "tests" / "golden" / "diagnostics"
# The lines of each example, without the heading.
SHOWN = {
    "walk-replicated-value-reduced": ["each rank|1|1|1", "2 = 1 + 1, expected 1"],
    "walk-gradient-reduced-twice": ["each rank|1|1|1", "2 = 1 + 1, expected 1"],
    "walk-gradient-never-reduced": ["each rank|3|-2|1", "rank 0 updates by 3 and rank 1 by -2, expected 3 + -2 = 1"],
    "walk-partial-through-relu": ["x, partial|3, 4|-2, -2|1, 2", "relu|3, 4|0, 0|1, 2", "got 3, 4, expected 1, 2"],
    "walk-softmax-over-sharded-dim": ["x, shards|1|2|1, 2", "softmax|1|1|0.27, 0.73", "got 1, 1, expected 0.27, 0.73"],
    "walk-sharded-model-output": ["returned|1|2|1, 2", "rank 0 continues with 1, expected 1, 2"],
    "walk-replicated-weight-sharded-input": [
        "a, shards|1|2|1, 2",
        "b|3, 4|3, 4|3, 4",
        "linear|sizes 1 and 2|sizes 1 and 2|11",
        "no result, expected 11",
    ],
    "walk-view-to-global-size": [
        "x, shards|1|2|1, 2",
        "view|1 of 2 elements|1 of 2 elements|1, 2",
        "no result, expected 1, 2",
    ],
}


def example(case, *flags):
    result = run("check", "model.json", "plan.yaml", "--color", "never", *flags, cwd=GOLDEN / case)
    lines = result.stdout.decode().splitlines()
    at = next((i for i, text in enumerate(lines) if "in numbers: " in text), None)
    return None if at is None else lines[at:]


@pytest.mark.parametrize("case", SHOWN)
def test_diagnostic_is_shown_in_numbers_on_two_ranks(case):
    heading, columns, *lines = example(case, "--example")
    code = (GOLDEN / case / "expected.txt").read_text().split("error[")[1][:6]
    assert heading.startswith(code) and heading.endswith(" with two ranks")
    assert columns.split() == ["rank", "0", "rank", "1", "unsharded"]
    shown = [re.sub(r" {2,}", "|", line.strip()) for line in lines[: len(SHOWN[case])]]
    assert shown == SHOWN[case]
    assert max(map(len, [heading, *lines])) <= 80


@pytest.mark.parametrize("case", sorted(path.name for path in GOLDEN.glob("walk-*")))
def test_heading_is_never_without_numbers(case):
    lines = example(case, "--example")
    assert lines is None or (len(lines) > 3 and "expected " in "\n".join(lines))


# Diagnostics of a crash, or with unknown arithmetic: the shapes, line by line, without the heading.
SHAPES = {
    "walk-sequence-length-help": (
        "TP5103: inner: in shapes: reshape on [tp=4], batch 1, sequence 4",
        "x, DTensor|[1, 1, 8]|[1, 1, 8]|[1, 4, 8]",
        "requested|[1, 2, 2, 8]|[1, 2, 2, 8]|[1, 2, 2, 8]",
        "result|none|none|[1, 2, 2, 8]",
    ),
    "walk-keyword-only-call": ("TP5105: a: in shapes: inputs on [tp=2]", "x|[2, 4]|[2, 4]|[2, 4]"),
    "walk-mixed-dtensor-operands": (
        "TP5104: a: in shapes: linear on [tp=2]",
        "a|[2, 4]|[2, 4]|[2, 4]",
        "b, DTensor|[4, 4]|[4, 4]|[8, 4]",
        "result|none|none|[2, 8]",
    ),
    "walk-write-to-dtensor-view": (
        "TP5106: the model: in shapes: add_ on [tp=2]",
        "x|[2, 4]|[2, 4]|[2, 8]",
        "result|none|none|[2, 8]",
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_crash_is_shown_in_shapes_at_the_smallest_sizes(case):
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


def test_llama_example_uses_the_smallest_failing_step():
    """Every step with fewer tokens, and every smaller mesh, takes another branch or lacks this diagnostic."""
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
def test_json_has_the_same_numbers(case):
    document = checked(GOLDEN / case / "model.json", GOLDEN / case / "plan.yaml", "--example")
    [example, *_] = document["examples"]
    assert example["code"] in [d["code"] for d in document["diagnostics"]]
    lines = SHOWN.get(case) or SHAPES[case][1:]
    rows = [line.split("|") for line in lines if "|" in line]
    assert [row["name"] for row in example["rows"]] == [row[0] for row in rows]
    for row, (_, *cells) in zip(example["rows"], rows):
        for numbers, text in zip([*row["ranks"], row["whole"]], cells):
            if numbers is None:
                assert text.startswith("sizes ") or text.endswith(" elements") or text == "none"
            else:
                assert [round(number, 2) for number in numbers] == json.loads(f"[{text.strip('[]')}]")


def test_correct_plan_has_no_example():
    files = ROOT / "plans/models/llama-3-8b.json", ROOT / "plans/llama.yaml"
    assert checked(*files, "--example")["examples"] == []
    assert "examples" not in checked(*files)


def test_example_needs_the_flag():
    assert example("walk-softmax-over-sharded-dim") is None


@pytest.mark.parametrize("form", ["jsonl", "sarif", "github", "gitlab", "markdown", "junit"])
def test_other_formats_reject_the_example_flag(form):
    case = GOLDEN / "walk-softmax-over-sharded-dim"
    result = run("check", "model.json", "plan.yaml", "--example", "--format", form, cwd=case)
    assert (result.returncode, result.stdout) == (2, b"") and b"--example" in result.stderr
