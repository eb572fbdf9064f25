"""The forecast of `tpplan compile` for a step's collectives, compared with the calls of gloo ranks under tpplan.torch (record_runs.py)."""

import json
import lzma
import subprocess
import sys

import bridge
import pytest

bridge.needs("torch")

sys.path.insert(0, str(bridge.ROOT / "tests" / "truth"))
from run_cases import mesh_of, plan_text  # noqa: E402

WANTED = [{"dp": 2}, {"fsdp": 2}, {"dp": 2, "fsdp": 2}, {"fsdp": 2, "tp": 2}]
CASES = 6  # the first cases of the recorder cover all of these meshes


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    recorder = bridge.ROOT / "tests" / "truth" / "record_runs.py"
    command = [sys.executable, recorder, "own_data", folder / "runs.xz", "--program", bridge.PROGRAM, "--limit", CASES]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(lzma.decompress((folder / "runs.xz").read_bytes()))


def test_every_call_is_forecast_in_order(recorded, tmp_path):
    seen = []
    for case in recorded["cases"]:
        assert case["outcome"] == "ok", case
        plan = plan_text(case["plan"], "glob", mesh_of(case), case["data"], case.get("fsdp"))
        manifest = bridge.compile_manifest(tmp_path, recorded["models"][case["file"]], plan)
        calls = json.loads(manifest.read_text())["collectives"]
        assert [[c["phase"], c["kind"], c["axis"], c["shape"], c["dtype"]] for c in calls] == case["collectives"]
        assert case["collectives"]
        seen.append(mesh_of(case))
    assert all(mesh in seen for mesh in WANTED)


def test_recorded_data_matches_a_new_recording(recorded):
    before = json.loads(lzma.decompress((bridge.ROOT / "tests/truth/data/runs_data.json.xz").read_bytes()))
    assert recorded["cases"] == before["cases"][: len(recorded["cases"])]
