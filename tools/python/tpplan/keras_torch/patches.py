"""Registers this library with Keras, and patches the Keras methods that call no distribution library."""

import functools
import sys

import keras
from keras.src import optimizers
from keras.src.backend.torch import core, trainer
from keras.src.distribution.distribution_lib import Distribution, ModelParallel
from keras.src.layers.layer import Layer
from keras.src.legacy.saving import legacy_h5_format
from keras.src.saving import saving_lib

from ..manifest import ManifestError
from ..torch.placements import need_dtensor
from .layouts import begin_distribution, variable_layout
from .missing_rules import add_missing_rules
from .operations import mix_operands
from .saving import save
from .steps import apply, call, losses, make_function
from .variables import array, direct_assign, initialize

# Patches: owner, attribute, replacement, whose first argument is the replaced method.
PATCHES = (
    (core.Variable, "_initialize", initialize),
    (core.Variable, "_direct_assign", direct_assign),
    (core.Variable, "__array__", array),
    (Layer, "__call__", call),
    (Layer, "_get_own_losses", losses),
    (Layer, "_get_regularization_losses", losses),
    (optimizers.Optimizer, "apply", apply),
    (saving_lib, "save_model", save),
    (saving_lib, "save_weights_only", save),
    (legacy_h5_format, "save_model_to_hdf5", save),
    (Distribution, "__init__", begin_distribution),
    (ModelParallel, "get_variable_layout", variable_layout),
    (trainer.TorchTrainer, "make_train_function", functools.partial(make_function, "train_function")),
    (trainer.TorchTrainer, "make_test_function", functools.partial(make_function, "test_function")),
    (trainer.TorchTrainer, "make_predict_function", functools.partial(make_function, "predict_function")),
)


def install():
    """Registers this distribution library with Keras' torch backend and applies PATCHES, once. Raises ManifestError
    if torch has no DTensor, or if Keras has a distribution library for torch."""
    library = sys.modules["keras.src.distribution.distribution_lib"]
    here = sys.modules[__package__]
    if library.distribution_lib is here:
        return
    need_dtensor()
    if library.distribution_lib is not None:
        raise ManifestError(
            "Keras",
            f"Keras {keras.__version__} has built-in distribution on torch",
            "pass tpplan.keras.layout_map(manifest, mesh) to its ModelParallel",
        )
    library.distribution_lib = here
    add_missing_rules()
    mix_operands()
    for owner, name, replacement in PATCHES:
        setattr(owner, name, _patched(getattr(owner, name), replacement))


def _patched(original, replacement):
    @functools.wraps(original)
    def call(self, *args, **kwargs):
        return replacement(original, self, *args, **kwargs)

    return call
