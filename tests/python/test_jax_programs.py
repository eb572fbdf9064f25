"""Forecasts of the collectives of JAX and Keras models, compared with XLA on eight devices: program_checks.py."""

import os

import bridge
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")  # the default of Keras is TensorFlow
bridge.needs("jax", "equinox", "flax", "keras")

from apart import run_apart  # noqa: E402


NAMES = ["nnx", "nnx_wrong_dim", "equinox", "mlp", "functional", "transformer"]


@pytest.mark.parametrize("name", NAMES)
def test_forward_sends_what_xla_sends(tmp_path, name):
    run_apart("program_checks", "matches_xla", tmp_path, name, "eval", 0.01)


@pytest.mark.parametrize("name", NAMES)
def test_training_step_sends_about_what_xla_sends(tmp_path, name):
    run_apart("program_checks", "matches_xla", tmp_path, name, "train", 0.25)
