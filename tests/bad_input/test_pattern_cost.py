"""Patterns of a few kilobytes cost milliseconds and megabytes, however large their expansion: costly ones are diagnostics."""

import json

import pytest

from conftest import PROGRAM, linear_model, plan_text, write
from measure import measured
from test_hostile import SANITIZED

MODEL = linear_model(wq=[16, 8])
CLASSES = {f"\\pL{{1,60}}N{i}": "colwise" for i in range(50)}


def block(key):
    return f"blocks:\n  ? {json.dumps(key)}\n  : {{wq: colwise}}\n"


PLANS = {
    "classes": ("regex", CLASSES, ""),
    "classes-of-keras": ("keras", CLASSES, ""),
    "three-megabytes-of-classes": ("regex", {f"\\pL{{1,60}}N{i}": "colwise" for i in range(90_000)}, ""),
    "long-key-of-globs": ("glob", {"(a|" * 40_000 + "x": "colwise"}, ""),
    "long-key-of-alternatives": ("glob", {"a|" * 2_000_000: "colwise"}, ""),
    "long-key-of-expressions": ("regex", {"a|" * 60_000 + "b": "colwise"}, ""),
    "long-key-of-keras": ("keras", {"\\pL" * 40_000: "colwise"}, ""),
    "long-key-of-classes": ("regex", {"\\pL" * 1365: "colwise"}, ""),
    "a-class-of-classes": ("regex", {"[" + "\\pL" * 1300 + "]{1,900}": "colwise"}, ""),
    "classes-that-differ": ("regex", {f"[\\pL{c}]{{9}}": "colwise" for c in map(chr, range(0x4E00, 0x4F00))}, ""),
    "repetitions-of-repetitions": ("regex", {"(?:(?:(?:a{90}){90}){90}){90}": "colwise"}, ""),
    "letters-of-any-case": ("regex", {f"(?i){'k' * 4000}{i}": "colwise" for i in range(64)}, ""),
    "dead-globs-that-are-expressions": ("glob", {f"\\pL{{1,9}}N*{i}": "colwise" for i in range(2000)}, ""),
    "long-block": ("glob", {"wq": "colwise"}, block("a*" * 30_000)),
    "long-remat": ("glob", {"wq": "colwise"}, f"remat: [{json.dumps('a?' * 30_000)}]\n"),
    "long-init": ("glob", {"wq": "colwise"}, f"init:\n  ? {json.dumps('[ab]' * 2_000)}\n  : zeros\n"),
    "long-units": ("glob", {"wq": "colwise"}, f"fsdp: {{axis: tp, units: [{json.dumps('a*' * 3_000)}]}}\n"),
}


@pytest.mark.parametrize("name", PLANS)
def test_costly_pattern_is_rejected_before_compilation(tmp_path, name):
    dialect, rules, more = PLANS[name]
    text = plan_text({}, dialect=dialect, more=more)
    for key, style in rules.items():
        long_key = len(key) > 900
        text += f"  {'? ' if long_key else ''}{json.dumps(key)}{chr(10) + '  ' if long_key else ''}: {style}\n"
    end = measured(PROGRAM, "check", *write(tmp_path, MODEL, text))
    assert end["status"] == 1, end
    assert end["message_bytes"] == 0, end
    if not SANITIZED:
        assert end["mebibytes"] < 100 and end["seconds"] < 2, end


def test_pattern_diagnostic_has_a_place_a_reason_and_a_help(refuses):
    status, found, said = refuses(MODEL, plan_text(CLASSES, dialect="regex"))
    assert status == 1 and set(found) == {"TP3012"}
    first = said.split("\n\n")[0]
    assert (
        "plan.yaml:8:3: error[TP3012]: pattern cannot be compiled: the patterns of the plan up to this one need"
        in first
    )
    assert "RE2 instructions, more than 262144" in " ".join(first.split()) and "help: use fewer repetitions" in first
    status, found, said = refuses(
        MODEL, plan_text({"x" * 5000: "colwise"}).replace('  "', '  ? "').replace('":', '"\n  :')
    )
    assert (status, found) == (1, ["TP3012"])
    assert (
        "plan.yaml:5:5: error[TP3012]: pattern has 5000 bytes, more than 4096" in said
        and "help: write a shorter" in said
    )


def test_patterns_within_the_budget_match(compiles):
    rules = {f"(?:layers|blocks)\\.[0-9]{{1,4}}\\.[^.]+\\.w{i}[a-z_]*\\.weight": "replicate" for i in range(2000)}
    rules["w\\pL{1,60}"] = "colwise"
    manifest = compiles(MODEL, plan_text({k: v for k, v in rules.items() if k.startswith("w")}, dialect="regex"))
    assert [p["spec"] for p in manifest["parameters"]]
