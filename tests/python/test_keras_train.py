"""Keras on the torch backend: models of each kind train on ranks as in one process (keras_train.py, one function per test)."""

import importlib
import multiprocessing
import os

if multiprocessing.parent_process() is not None:  # a rank
    os.environ["KERAS_BACKEND"] = "torch"
os.environ.setdefault("KERAS_BACKEND", "torch")

import bridge
import pytest
from bridge import ranks  # noqa: F401

bridge.needs("keras", "torch")


def on_rank(rank, function, *arguments):
    getattr(importlib.import_module("keras_train"), function)(rank, *arguments)


@pytest.mark.parametrize(
    "model, mesh", [("transformer", (1, 2)), ("convolutions", (1, 2)), ("convolutions", None), ("embeddings", (1, 2))]
)
def test_twenty_steps_have_the_losses_of_one_process(ranks, model, mesh):  # noqa: F811
    ranks.run(2, on_rank, "trains", model, mesh)


@pytest.mark.parametrize("model, mesh", [("transformer", (1, 2)), ("embeddings", (2, 1))])
def test_custom_loop_needs_no_changes(ranks, model, mesh):  # noqa: F811
    ranks.run(2, on_rank, "loop", model, mesh)


def test_fit_validates_and_accepts_an_uneven_last_batch(ranks):  # noqa: F811
    ranks.run(2, on_rank, "fits", "convolutions", (2, 1))


@pytest.mark.parametrize("model", ["transformer", "embeddings"])
def test_model_is_saved_unsharded_and_resumes(ranks, tmp_path, model):  # noqa: F811
    ranks.run(2, on_rank, "saves", str(tmp_path), model, (1, 2))


# The layers of keras_train.LAYERS that have rules here, or none in DTensor. TPPLAN_ALL_LAYERS=1 selects all.
SAMPLE = [
    "Conv2D",
    "Conv1D causal",
    "Conv2D grouped",
    "Conv2DTranspose",
    "MaxPooling3D",
    "AveragePooling2D",
    "RMSNormalization",
    "GroupNormalization",
    "SpectralNormalization",
    "GroupQueryAttention",
    "PReLU",
    "Lambda",
]


def test_sharded_layers_train_as_one_process(ranks):  # noqa: F811
    ranks.run(2, on_rank, "layers_train", None if "TPPLAN_ALL_LAYERS" in os.environ else SAMPLE, (1, 2))


def test_four_ranks_train_over_two_axes(ranks):  # noqa: F811
    ranks.stop_all()
    ranks.run(4, on_rank, "trains", "transformer", (2, 2))
