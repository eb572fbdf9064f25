"""What torchtitan shards now is what was recorded, and so is the plan that tpplan reads from it."""

import pytest
from recorded import load


def test_torchtitan_does_what_it_was_recorded_to_do():
    pytest.importorskip("torchtitan")
    import record_torchtitan

    assert record_torchtitan.record_all() == load("torchtitan")
