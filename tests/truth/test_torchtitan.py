"""The plans that tpplan reads from torchtitan's own configurations cut each parameter as torchtitan was recorded to cut it, and sum
the gradients over `tp` that its types leave open."""

import pytest
from recorded import compile_files, load, local_shapes

CASES = load("torchtitan")


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['name']}-{case['tp']}-{'sequence' if case['sequence'] else 'whole'}"
)
def test_plans_cut_what_torchtitan_cuts(tmp_path, case):
    status, manifest, said = compile_files(tmp_path, case["model"], case["plan"])
    assert status == 0, said
    entries = {entry["path"]: entry for entry in manifest["parameters"]}
    assert set(entries) == set(case["truth"])
    for path, truth in case["truth"].items():
        entry = entries[path]
        assert entry["placements"] == (truth["placements"] or ["Replicate"]), path
        assert local_shapes(entry)[0] == truth["local"], path
        # The bias of a rowwise layer is R whatever becomes of the sum that it is added to: the style decides over its gradient.
        if truth["type"] in ("R", "I") and entry["style"] != "rowwise":
            assert bool(entry["grad_reduce"]) == (truth["type"] == "R"), (path, entry["grad_reduce"])


def test_recording_has_both_types_of_whole_parameters_and_every_model():
    types = {truth["type"][:1] for case in CASES for truth in case["truth"].values() if truth["type"]}
    assert types == {"R", "I", "S"}
    assert len({case["name"] for case in CASES}) == 9 and len(CASES) == 32
