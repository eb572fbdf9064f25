"""Patches of model calls, of the steps of `fit`, `evaluate` and `predict`, and of optimizers; see patches.py.
`original` is the replaced method."""

import contextlib
import functools
import logging
import threading

import keras
import numpy as np
import torch
from keras.src import tree
from keras.src.backend import any_symbolic_tensors, get_keras_mask, set_keras_mask
from keras.src.backend.torch import core

from .collectives import whole
from .distribute import distribute_data_input, distribute_tensor
from .operations import computing

_state = threading.local()  # running: the thread is inside a call or a step of a distributed model


def is_running():
    return getattr(_state, "running", False)


@contextlib.contextmanager
def _running(now):
    before, _state.running = is_running(), now
    try:
        yield
    finally:
        _state.running = before


def call(original, self, *args, **kwargs):
    """Runs a user's call of a model on the sharded batch. The arguments are full on every process, and the results
    are gathered to plain tensors, so that the user's losses and metrics need no DTensor."""
    distribution = keras.distribution.distribution()
    if is_running() or distribution is None:
        return original(self, *args, **kwargs)
    with _running(True), computing():
        if any_symbolic_tensors(args, kwargs):
            return original(self, *args, **kwargs)
        args, kwargs = tree.map_structure(lambda x: _part(x, distribution), (args, kwargs))
        return tree.map_structure(_whole_with_mask, original(self, *args, **kwargs))


def _whole_with_mask(value):
    mask = get_keras_mask(value)
    value = whole(value)
    if mask is not None:
        set_keras_mask(value, whole(mask))
    return value


def losses(original, self):
    """Returns the losses of layers and regularizers: as plain tensors, except inside a distributed step."""
    if is_running() or keras.distribution.distribution() is None:
        return original(self)
    with computing():
        return [whole(loss) for loss in original(self)]


@functools.cache
def _say_not_compiled():
    logging.getLogger("tpplan").warning(
        "jit_compile=True is ignored, so the steps of the distributed model are not compiled: torch.compile "
        "makes several graphs of Keras' step, and DTensors between these graphs fail (torch: `Expected a "
        "DTensor tangent`)\n"
        "  = help: compile with jit_compile=False, or use the JAX backend, which compiles the steps"
    )


def make_function(name, original, self, *args, **kwargs):
    """Builds the function of one step, wrapped so that it shards its batch and returns plain tensors. `name` is its
    attribute."""
    before, compiles = getattr(self, name), self._jit_compile
    if compiles and keras.distribution.distribution() is not None:
        _say_not_compiled()
        self._jit_compile = False
    try:
        original(self, *args, **kwargs)
    finally:
        self._jit_compile = compiles
    step = getattr(self, name)
    if step is before:
        return

    @functools.wraps(step)
    def distributed(data):
        distribution = keras.distribution.distribution()
        if distribution is None:
            return step(data)
        data = tree.map_structure(lambda x: _batch(x, distribution), data)
        with _running(True), computing():
            return tree.map_structure(whole, step(data))

    setattr(self, name, distributed)


def _part(x, distribution):
    """Shards an argument of a call if it is a tensor or an array; returns other values unchanged."""
    return _batch(x, distribution) if isinstance(x, (torch.Tensor, np.ndarray)) else x


def _batch(x, distribution):
    """Returns a batch, sharded; scalars are the same on every rank."""
    if x is None or isinstance(x, (str, bytes)):
        return x
    x = core.convert_to_tensor(x)
    if x.ndim == 0:
        return x
    return distribute_data_input(x, distribution.get_data_layout(tuple(x.shape)), distribution.batch_dim_name)


def apply(original, self, grads, trainable_variables=None):
    """Redistributes gradients to the placements of their variables before the optimizer step. This reduces sums over
    the batch axes that are still partial."""
    if keras.distribution.distribution() is None:
        return original(self, grads, trainable_variables)
    variables = self._trainable_variables if trainable_variables is None else trainable_variables
    grads = [
        g if g is None or getattr(v, "_layout", None) is None else distribute_tensor(g, v._layout)
        for g, v in zip(grads, variables)
    ]
    with computing():
        return original(self, grads, trainable_variables)
