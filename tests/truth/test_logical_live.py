"""The logical dialect compared with the installed Flax, on cases outside the recording."""

import os
import random

import pytest
from logical_cases import add_truth, check_case, random_case


def test_new_rules_match_flax(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    jax = pytest.importorskip("jax")
    pytest.importorskip("flax")
    if len(jax.devices("cpu")) < 8:
        pytest.skip("jax was begun with fewer than 8 devices")
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(100):
        check_case(tmp_path, add_truth(random_case(chance)))
