"""Forecasts of the collectives of JAX and Keras models, compared with XLA on eight devices: program_checks.py."""

import os

import bridge
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")  # the default of Keras is TensorFlow
bridge.needs("jax", "equinox", "flax", "keras")

from apart import run_apart  # noqa: E402


NAMES = ["nnx", "nnx_wrong_dim", "equinox", "mlp", "functional", "transformer"]


# XLA's partitioner reshards a wrong plan by other collectives than Shardy's, a quarter more bytes.
@pytest.mark.parametrize("name, forward", [(name, 0.25 if name == "nnx_wrong_dim" else 0.01) for name in NAMES])
def test_step_sends_what_xla_sends(tmp_path, name, forward):
    run_apart("program_checks", "matches_xla", tmp_path, name, forward)


@pytest.mark.parametrize("name, code", [("nnx_head_dim", "TP5128"), ("nnx_swapped_dims", "TP5132")])
def test_tried_change_saves_bytes_in_xla_too(tmp_path, name, code):
    run_apart("program_checks", "fix_saves_bytes", tmp_path, name, code)
