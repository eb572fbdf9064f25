"""Explicit specs give every rank the shards of a JAX NamedSharding, and specs that JAX rejects are rejected."""

import json

import pytest

from conftest import plan_text, run, write
from recorded import compile_files, load, model_of, slices_of_ranks

CASES = load("jax")
LEGAL = [case for case in CASES if "error" not in case]
REFUSED = [case for case in CASES if "error" in case]
MESHES = sorted({json.dumps(case["mesh"]) for case in LEGAL})


def model_and_plan(cases):
    """All cases of one mesh as the parameters p0, p1, ... of one model. No style uses an axis."""
    parameters = {f"p{i}": {"shape": case["shape"], "dtype": "float32"} for i, case in enumerate(cases)}
    rules = {f"p{i}": f"{{spec: {json.dumps(case['spec'])}}}" for i, case in enumerate(cases)}
    mesh = cases[0]["mesh"]
    plan = plan_text(rules, json.dumps(mesh), "glob", f"axis: {list(mesh)[-1]}\n")
    return model_of([{"path": "", "type": "Model", "parameters": parameters}], "jax"), plan


@pytest.mark.parametrize("mesh", MESHES)
def test_slices_of_every_rank_match_jax(tmp_path, mesh):
    cases = [case for case in LEGAL if json.dumps(case["mesh"]) == mesh]
    status, manifest, stderr = compile_files(tmp_path, *model_and_plan(cases))
    assert status == 0, stderr
    for rank, slices in enumerate(slices_of_ranks(tmp_path, manifest, 8)):
        for i, case in enumerate(cases):
            expected = [[run_] for run_ in case["index"][rank]]
            assert slices[f"p{i}"] == expected, (rank, case["shape"], case["spec"])


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_spec_rejected_by_jax_is_an_error_without_output(tmp_path, number):
    output = tmp_path / "manifest.json"
    result = run("compile", *write(tmp_path, *model_and_plan([REFUSED[number]])), "-o", output)
    assert result.returncode == 1, REFUSED[number]
    assert not output.exists()


def test_recording_has_rejections_and_dims_over_two_axes():
    assert len(REFUSED) > 20 and len(LEGAL) > 60
    assert any(isinstance(entry, list) and len(entry) > 1 for case in LEGAL for entry in case["spec"])
