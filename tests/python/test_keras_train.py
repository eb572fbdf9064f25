"""Keras on the torch backend: models of each kind train on ranks as in one process (keras_train.py, function by function)."""

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
def test_twenty_steps_lose_what_one_process_loses(ranks, model, mesh):  # noqa: F811
    ranks.run(2, on_rank, "trains", model, mesh)


@pytest.mark.parametrize("model, mesh", [("transformer", (1, 2)), ("embeddings", (2, 1))])
def test_a_loop_of_the_users_own_knows_of_nothing(ranks, model, mesh):  # noqa: F811
    ranks.run(2, on_rank, "loop", model, mesh)


def test_fit_validates_and_takes_a_last_batch_that_does_not_divide(ranks):  # noqa: F811
    ranks.run(2, on_rank, "fits", "convolutions", (2, 1))


@pytest.mark.parametrize("model", ["transformer", "embeddings"])
def test_a_model_is_saved_whole_and_goes_on(ranks, tmp_path, model):  # noqa: F811
    ranks.run(2, on_rank, "saves", str(tmp_path), model, (1, 2))


# Of the layers in keras_train.LAYERS those whose operations have rules here, or none in DTensor. TPPLAN_ALL_LAYERS=1 takes all.
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


def test_layers_that_are_cut_train_as_in_one_process(ranks):  # noqa: F811
    ranks.run(2, on_rank, "layers_train", None if "TPPLAN_ALL_LAYERS" in os.environ else SAMPLE, (1, 2))


def test_four_ranks_train_over_two_axes(ranks):  # noqa: F811
    ranks.stop_all()
    ranks.run(4, on_rank, "trains", "transformer", (2, 2))
