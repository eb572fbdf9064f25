"""The transformers dialect gives every parameter the placement and the local shapes of transformers."""

import pytest

from conftest import plan_text
from recorded import compile_files, differences, load, model_of, shapes_of

SIZES = ("2", "3", "4", "8")
MODELS = load("transformers") | load("transformers_more")
CASES = load("transformers_cases")


@pytest.mark.parametrize("tp", SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_model_is_sharded_as_by_transformers(tmp_path, name, tp):
    recorded = MODELS[name]
    truth = recorded["truth"][tp]
    status, manifest, stderr = compile_files(tmp_path, recorded["model"], recorded["plan"], "--mesh", f"tp={tp}")
    assert status == 0, stderr
    wrong = differences(
        manifest,
        shapes_of(recorded["model"]["modules"]),
        {path: t["placements"] for path, t in truth.items()},
        {path: t["local_shapes"] for path, t in truth.items()},
    )
    assert not wrong, f"{len(wrong)} parameters differ, the first: {wrong[0]}"


@pytest.mark.parametrize("number", range(len(CASES)))
def test_random_plan_matches_transformers(tmp_path, number):
    case = CASES[number]
    plan = plan_text(case["rules"], f"{{tp: {case['tp']}}}", "transformers", "uneven: torch\n")
    status, manifest, stderr = compile_files(tmp_path, model_of(case["modules"]), plan)
    if "error" in case:
        assert status == 1, f"accepted, where transformers raises {case['error']}"
        return
    assert status == 0, stderr
    wrong = differences(manifest, shapes_of(case["modules"]), case["placements"], case["local_shapes"])
    assert not wrong, wrong[0]


def test_random_plans_cover_every_placement_and_error():
    seen = {p for case in CASES for placements in case.get("placements", {}).values() for p in placements}
    cuts = {cut for dim in range(4) for cut in (f"Shard({dim})", f"StridedShard({dim}, 2)")}
    assert cuts | {"Replicate"} <= seen
    assert sum(len(shapes) > 1 for case in CASES for shapes in case.get("local_shapes", {}).values()) > 50
    assert sum("error" in case for case in CASES) > 70
