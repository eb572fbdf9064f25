"""The logical dialect gives every array the recorded spec and shard of Flax and JAX, and rejects the arrays that they reject."""

import pytest
from logical_cases import check_case
from recorded import load

CASES = load("logical")


@pytest.mark.parametrize("first", range(0, len(CASES), 20))
def test_rules_match_flax(tmp_path, first):
    for case in CASES[first : first + 20]:
        check_case(tmp_path, case)


def test_recording_has_every_kind_of_case():
    refused = [array["refused"] for case in CASES for array in case["arrays"] if "refused" in array]
    assert set(refused) == {"names", "axes", "shape"}
    fine = [case for case in CASES if not any("refused" in array for array in case["arrays"])]
    assert len(fine) > 200
    cut = [entry for case in fine for array in case["arrays"] for entry in array["spec"] if entry]
    assert len(cut) > 500 and any(isinstance(entry, list) for entry in cut)
