"""Keras variables as DTensors: at creation, at every assignment, and in an existing model."""

import keras
import torch
from keras.src.backend.torch import core

from .. import slices
from ..load_weights import read_new
from ..torch.placements import DTensor
from ..torch.weights import fail_together
from .collectives import whole
from .distribute import distribute_tensor, distribute_variable
from .saving import held


def spread_variables(model, distribution):
    """Shards the variables of a built model, and their existing optimizer variables, over a distribution's mesh, in
    place."""
    distribution.device_mesh.backend_mesh  # initializes the process group
    for variable in model.variables:
        _spread(variable, distribution)
    for slot, variable in _slots(getattr(model, "optimizer", None), model.trainable_variables):
        slot._layout = variable._layout
        _spread(slot, distribution)
    for layer in model._flatten_layers():
        if hasattr(layer, "_torch_params"):
            layer._track_variables()


def read_pieces(weights, manifest, device_mesh):
    """Returns {path: local shard of this rank} of a checkpoint. Every rank must call it; if one fails, all raise."""
    mesh, pieces, failure = device_mesh.backend_mesh, None, None
    rank = slices.rank_of(manifest.mesh, dict(zip(device_mesh.axis_names, mesh.get_coordinate())))
    try:
        pieces = read_new(manifest, weights, rank, lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, dtype)))
    except Exception as error:  # the others wait
        failure = error
    fail_together(mesh, rank, failure, "read its weights")
    return pieces


def fill_variables(model, values):
    """Copies local shards into the variables at their paths."""
    with torch.no_grad():
        for variable in model.variables:
            if variable.path in values:
                value = variable._value
                (value.to_local() if isinstance(value, DTensor) else value).copy_(values[variable.path])


def is_spread(variable):
    """Returns True if the variable's value is a DTensor."""
    return isinstance(variable._value, DTensor)


def _slots(optimizer, variables):
    """Yields (optimizer variable, its model variable), matched by the name that Keras generates."""
    longest_first = sorted(variables, key=lambda v: len(v.path), reverse=True)
    for slot in getattr(optimizer, "variables", ()):
        for variable in longest_first:
            if slot.shape == variable.shape and slot.name.startswith(variable.path.replace("/", "_") + "_"):
                yield slot, variable
                break


def _spread(variable, distribution):
    """Makes a variable's value a DTensor if it is trainable or has a layout that shards it."""
    layout = variable._layout
    if layout is None and distribution is not None:
        layout = distribution.get_variable_layout(variable)
        if not variable._trainable and not any(layout.axes):
            layout = None
    if layout is None or isinstance(variable._value, DTensor) or variable._value.is_meta:
        return
    variable._layout = layout
    variable._value = torch.nn.Parameter(
        distribute_variable(variable._value, layout), requires_grad=variable._value.requires_grad
    )


# Patches of Keras methods, see patches.py. `original` is the replaced method.


def initialize(original, self, value):
    original(self, value)
    if self._shape is None:
        self._shape = tuple(self._value.shape)
    _spread(self, keras.distribution.distribution())


def direct_assign(original, self, value):
    own = self.value
    if isinstance(own, DTensor):
        with torch.no_grad():
            value = distribute_tensor(value, self._layout)
            own.to_local().copy_(value.to_local())
    else:
        original(self, whole(value))


def array(original, self, dtype=None, copy=None):
    value = held(self)
    value = core.convert_to_numpy(whole(self.value)) if value is None else value
    return value.astype(dtype) if dtype else value
