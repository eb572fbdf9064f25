"""--mesh and the mesh of the plan: the flag replaces sizes, and defines the mesh of a plan without one."""

import json

import pytest
from conftest import codes, linear_model, plan_text, run, write

MODEL = linear_model(up=[16, 8], down=[8, 16])
PLAN = plan_text({"up": "colwise", "down": "rowwise"})
NONE = PLAN.replace("mesh: {tp: 4}", "# any")


def compiled(folder, plan, *flags):
    return run("compile", *write(folder, MODEL, plan), *flags)


def test_plan_without_a_mesh_uses_the_flag(tmp_path):
    result = compiled(tmp_path, NONE, "--mesh", "dp=2,tp=4", "--allow", "TP4007")
    assert result.returncode == 0, result.stderr
    manifest = json.loads(result.stdout)
    assert manifest["mesh"] == [{"name": "dp", "size": 2}, {"name": "tp", "size": 4}]
    written = json.loads(compiled(tmp_path, PLAN.replace("{tp", "{dp: 2, tp"), "--allow", "TP4007").stdout)
    differ = {"inputs", "digest"}  # of the plan's text
    assert {k: v for k, v in manifest.items() if k not in differ} == {
        k: v for k, v in written.items() if k not in differ
    }


@pytest.mark.parametrize(
    "mesh, said",
    [
        ((), "TP3002"),
        (("--mesh", "tp=1073741824,dp=2"), "TP3009"),  # 2^31 ranks
        (("--mesh", ",".join(f"a{i}=1" for i in range(33))), "TP3009"),
        (("--mesh", "tp=3"), "TP5001"),
        (("--mesh", "dp=4"), "TP3006"),  # styles use tp
    ],
)
def test_wrong_mesh_flag_is_reported_once(tmp_path, mesh, said):
    result = compiled(tmp_path, NONE, *mesh)
    assert result.returncode in (1, 2) and set(codes(result)) == {said}, result.stderr


def test_mesh_of_the_plan_defines_the_axes(tmp_path):
    assert json.loads(compiled(tmp_path, PLAN, "--mesh", "tp=2").stdout)["mesh"] == [{"name": "tp", "size": 2}]
    result = compiled(tmp_path, PLAN, "--mesh", "dp=2")
    assert result.returncode == 2 and b"no such axis" in result.stderr
