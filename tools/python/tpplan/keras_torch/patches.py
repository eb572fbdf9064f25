"""Puts this library where Keras looks for one, and functions of it around those of Keras that do not ask one."""

import functools
import sys

import keras
from keras.src import optimizers
from keras.src.backend.torch import core, trainer
from keras.src.layers.layer import Layer

from ..manifest import ManifestError
from ..torch.placements import need_dtensor
from .steps import apply, call, make_function
from .variables import array, direct_assign, initialize

# What is put in Keras' place: owner, name, function that is given what stood there.
PATCHES = (
    (core.Variable, "_initialize", initialize),
    (core.Variable, "_direct_assign", direct_assign),
    (core.Variable, "__array__", array),
    (Layer, "__call__", call),
    (optimizers.Optimizer, "apply", apply),
    (trainer.TorchTrainer, "make_train_function", functools.partial(make_function, "train_function")),
    (trainer.TorchTrainer, "make_test_function", functools.partial(make_function, "test_function")),
    (trainer.TorchTrainer, "make_predict_function", functools.partial(make_function, "predict_function")),
)


def install():
    """Gives the torch backend of Keras this distribution library. Raises ManifestError where torch has no DTensor, or where
    Keras has a library of its own by now."""
    library = sys.modules["keras.src.distribution.distribution_lib"]
    here = sys.modules[__package__]
    if library.distribution_lib is here:
        return
    need_dtensor()
    if library.distribution_lib is not None:
        raise ManifestError(
            "Keras",
            f"Keras {keras.__version__} distributes on torch by itself",
            "give its ModelParallel tpplan.keras.layout_map(manifest, mesh)",
        )
    library.distribution_lib = here
    for owner, name, replacement in PATCHES:
        setattr(owner, name, _patched(getattr(owner, name), replacement))


def _patched(original, replacement):
    @functools.wraps(original)
    def call(self, *args, **kwargs):
        return replacement(original, self, *args, **kwargs)

    return call
