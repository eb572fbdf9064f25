"""Saves models with sharded variables: every process calls save, and the first one writes full values. Loading needs
no patch, because assigned values are sharded."""

import threading

import keras
import numpy as np
from keras.src.backend.torch import core

from ..torch.communication import said_by_first_rank
from ..torch.placements import DTensor
from .collectives import whole

_state = threading.local()  # values: {id of a variable: its full value}, while the first process writes


def held(variable):
    """Returns the full value of a variable, gathered before the first process writes; None if it was not gathered."""
    return (getattr(_state, "values", None) or {}).get(id(variable))


def save(original, model, *args, **kwargs):
    """Replaces Keras' functions that write a model or its weights. `original` is the replaced function."""
    distribution = keras.distribution.distribution()
    spread = [v for v in _variables_of(model) if isinstance(v._value, DTensor)]
    if distribution is None or not spread:
        return original(model, *args, **kwargs)
    _state.values = {id(v): np.array(core.convert_to_numpy(whole(v._value))) for v in spread}
    try:
        said_by_first_rank(lambda: original(model, *args, **kwargs), distribution.device_mesh.backend_mesh)
    finally:
        _state.values = None


def _variables_of(model):
    optimizer = getattr(model, "optimizer", None)
    return [*getattr(model, "variables", ()), *getattr(optimizer, "variables", ())]
