"""The torch dialect matches torch's parallelize_module: placements, local shapes of all ranks, and rejections."""

import re

import pytest

from conftest import codes, plan_text, run, write
from recorded import compile_files, differences, load, local_shapes, model_of, shapes_of

CASES = load("torch")


def plan_of(case, optional):
    rules = {key: f"{{style: {style}, optional: true}}" if optional else style for key, style in case["rules"].items()}
    return plan_text(rules, f"{{tp: {case['tp']}}}", "torch", "uneven: torch\n")


@pytest.mark.parametrize("number", range(len(CASES)))
def test_random_plan_matches_torch(tmp_path, number):
    case = CASES[number]
    status, manifest, stderr = compile_files(tmp_path, model_of(case["modules"]), plan_of(case, optional=True))
    if "error" in case:
        assert status == 1, f"accepted, where torch raises {case['error']}"
        return
    assert status == 0, stderr
    shapes = shapes_of(case["modules"])
    assert not differences(manifest, shapes, case["placements"], first_rank_or_all(case, manifest))
    for entry in manifest["parameters"]:
        expected = case["local_shape0"].get(entry["path"], shapes[entry["path"]])
        assert local_shapes(entry)[0] == expected, entry["path"]


def first_rank_or_all(case, manifest):
    """Local shapes of all ranks if they were recorded; otherwise those of the manifest: then only rank 0 is compared."""
    if "local_shapes" in case:
        return case["local_shapes"]
    return {entry["path"]: local_shapes(entry) for entry in manifest["parameters"]}


MATCHED = [i for i, case in enumerate(CASES) if "matches" in case and "error" not in case]


@pytest.mark.parametrize("number", MATCHED)
def test_exactly_the_rules_that_torch_skips_are_warnings(tmp_path, number):
    """torch 2.13 warns of a key that matches nothing, and goes on."""
    case = CASES[number]
    dead = [key for key, modules in case["matches"].items() if not modules]
    result = run("compile", *write(tmp_path, model_of(case["modules"]), plan_of(case, optional=False)))
    assert result.returncode == 0 and ("TP4002" in codes(result)) == bool(dead), result.stderr
    said = re.sub(r"\s+", " ", result.stderr.decode())
    assert set(re.findall(r"(?:rule )?`([^`]*)` matches nothing", said)) & set(case["matches"]) == set(dead)


def test_recording_has_rejections_and_uneven_shards():
    assert sum("error" in case for case in CASES) > 100
    assert sum(len(shapes) > 1 for case in CASES for shapes in case.get("local_shapes", {}).values()) > 50
