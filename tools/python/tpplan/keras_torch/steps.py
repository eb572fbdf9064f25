"""Calls of models, steps of `fit`, `evaluate` and `predict`, and of optimizers: what patches.py puts in Keras' place.
`original` is what stood there."""

import functools
import threading

import keras
from keras.src import tree
from keras.src.backend.torch import core

from ..torch import mixed
from .collectives import whole
from .distribute import distribute_data_input, distribute_tensor

_state = threading.local()  # running: the thread is inside a call of a distributed model


def call(original, self, *args, **kwargs):
    if getattr(_state, "running", False) or keras.distribution.distribution() is None:
        return original(self, *args, **kwargs)
    _state.running = True
    try:
        with mixed():
            return original(self, *args, **kwargs)
    finally:
        _state.running = False


def make_function(name, original, self, *args, **kwargs):
    """The function of one step, which cuts its batch and returns plain tensors."""
    before = getattr(self, name)
    original(self, *args, **kwargs)
    step = getattr(self, name)
    if step is before:
        return

    @functools.wraps(step)
    def distributed(data):
        distribution = keras.distribution.distribution()
        if distribution is None:
            return step(data)
        data = tree.map_structure(lambda x: _batch(x, distribution), data)
        running, _state.running = getattr(_state, "running", False), True
        try:
            with mixed():
                return tree.map_structure(whole, step(data))
        finally:
            _state.running = running

    setattr(self, name, distributed)


def _batch(x, distribution):
    if x is None or isinstance(x, (str, bytes)):
        return x
    x = core.convert_to_tensor(x)
    return distribute_data_input(x, distribution.get_data_layout(tuple(x.shape)), distribution.batch_dim_name)


def apply(original, self, grads, trainable_variables=None):
    """Gradients go to the placements of their variables: sums over the batch's axes are made here at the latest."""
    variables = self._trainable_variables if trainable_variables is None else trainable_variables
    grads = [
        g if g is None or getattr(v, "_layout", None) is None else distribute_tensor(g, v._layout)
        for g, v in zip(grads, variables)
    ]
    return original(self, grads, trainable_variables)
