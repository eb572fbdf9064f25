"""Saving models whose variables are cut: every process calls it, the first one writes whole values. Loading needs no help: values
that are assigned are cut."""

import threading

import keras
import numpy as np
from keras.src.backend.torch import core

from ..torch.communication import said_by_first_rank
from ..torch.placements import DTensor
from .collectives import whole

_state = threading.local()  # values: {id of a variable: its whole value}, while the first process writes


def held(variable):
    """The whole value of a variable that was gathered before the first process began to write, or None."""
    return (getattr(_state, "values", None) or {}).get(id(variable))


def save(original, model, *args, **kwargs):
    """In the place of the functions of Keras that write a model or its weights. `original` is what stood there."""
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
