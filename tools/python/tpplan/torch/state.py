"""The state that the modules of one parallelized model share."""

from dataclasses import dataclass, field

import torch

from .. import slices
from ..manifest import Manifest, ManifestError, Tensor
from ..paths import join
from .communication import Cutting


@dataclass
class Held:
    """A parallelized parameter or buffer: its tensor in the manifest, and the object that the modules hold."""

    tensor: Tensor
    value: torch.Tensor
    is_parameter: bool
    way: object = None  # of a parameter: its Way (views.py)


@dataclass
class State:
    """The state that the modules of one parallelized model share."""

    model: object
    manifest: Manifest
    mesh: object
    coordinate: dict  # axis -> this rank's index
    data_axes: tuple
    model_axes: tuple
    model_mesh: object  # None if there are no model axes
    by_id: dict = field(default_factory=dict)  # id of the object that the modules hold -> Held
    gathered: dict = field(
        default_factory=dict
    )  # id of a parameter of a running unit -> its gathered tensor (units.py)
    last_run: object = None  # the last unit's Run in this forward of the model
    root_runs: bool = False
    names: dict = field(default_factory=dict)  # path of a module -> its name in messages
    layouts: dict = field(
        default_factory=dict
    )  # id of a boundary's value -> source and target placements on the model axes
    sent: dict = field(default_factory=dict)  # id of a boundary's value -> dtype arguments of DTensor.redistribute


def make_state(model, manifest, mesh):
    """Returns the state of a model on this rank, before any value is sharded. Raises ManifestError if the process is
    not on the mesh."""
    used = set(manifest.data_axes) | ({manifest.fsdp_axis} if manifest.fsdp_axis else set())
    data = tuple(name for name, _ in manifest.mesh if name in used)
    axes = tuple(name for name, _ in manifest.mesh if name not in used)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ManifestError(
            "`mesh`", "this process is not in the device mesh", "make the mesh over all processes that run the model"
        )
    model_mesh = mesh if not data else mesh[axes if len(axes) > 1 else axes[0]] if axes else None
    return State(model, manifest, mesh, dict(zip(mesh.mesh_dim_names, coordinate)), data, axes, model_mesh)


def cutting_of(state, tensor):
    """Returns the Cutting of a manifest tensor on this rank: how it is sharded."""
    manifest = state.manifest
    return Cutting(tensor.path, tensor.shape, tensor.spec, tensor.segments, manifest.mesh, state.coordinate)


def own_tensors(state, module):
    """Returns the manifest tensors of the module's direct parameters."""
    return [state.by_id[id(p)].tensor for p in module._parameters.values() if id(p) in state.by_id]


def fused_tensors(state, path, module):
    """Returns the module's direct parameters with segments that model axes shard; DTensor has no rules for them."""
    known = state.manifest.parameters
    own = [
        known[join(path, name)]
        for name, value in module._parameters.items()
        if value is not None and join(path, name) in known
    ]
    return [tensor for tensor in own if is_fused(state, tensor)]


def is_fused(state, tensor):
    """Returns True if a model axis shards each segment of the tensor separately."""
    return any(
        len(tensor.segments.get(dim) or ()) > 1 and any(axis in state.model_axes for axis in axes)
        for dim, axes in enumerate(tensor.spec)
    )


def is_cut(state, tensor):
    """Returns True if a model axis shards the tensor."""
    return not slices.used_axes(tensor.spec).isdisjoint(state.model_axes)
