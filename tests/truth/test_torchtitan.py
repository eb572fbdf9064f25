"""Plans read from torchtitan's configurations shard each parameter as recorded from torchtitan, and reduce the gradients that its types
leave partial over `tp`."""

import pytest
from recorded import compile_files, load, local_shapes

CASES = load("torchtitan")


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['name']}-{case['tp']}-{'sequence' if case['sequence'] else 'whole'}"
)
def test_plans_shard_as_torchtitan_does(tmp_path, case):
    status, manifest, said = compile_files(tmp_path, case["model"], case["plan"])
    assert status == 0, said
    entries = {entry["path"]: entry for entry in manifest["parameters"]}
    assert set(entries) == set(case["truth"])
    for path, truth in case["truth"].items():
        entry = entries[path]
        assert entry["placements"] == (truth["placements"] or ["Replicate"]), path
        assert local_shapes(entry)[0] == truth["local"], path
        # The bias of a rowwise layer is R for any layout of the reduced output: the style determines its gradient.
        if truth["type"] in ("R", "I") and entry["style"] != "rowwise":
            assert bool(entry["grad_reduce"]) == (truth["type"] == "R"), (path, entry["grad_reduce"])


def test_recording_has_all_types_and_every_model():
    types = {truth["type"][:1] for case in CASES for truth in case["truth"].values() if truth["type"]}
    assert types == {"R", "I", "S"}
    assert len({case["name"] for case in CASES}) == 9 and len(CASES) == 32
