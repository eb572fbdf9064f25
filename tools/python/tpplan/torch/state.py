"""What the modules of one parallelized model share."""

from dataclasses import dataclass, field

import torch

from .. import slices
from ..manifest import Manifest, ManifestError, Tensor
from ..paths import join
from .communication import Cutting


@dataclass
class Held:
    """A parameter or buffer that is spread: where it stands in the manifest, and the object that the modules hold."""

    tensor: Tensor
    value: torch.Tensor
    is_parameter: bool
    way: object = None  # of a parameter: how its module gets it (views.py)


@dataclass
class State:
    """What the modules of one parallelized model share."""

    model: object
    manifest: Manifest
    mesh: object
    coordinate: dict  # axis -> this rank's index
    data_axes: tuple
    model_axes: tuple
    model_mesh: object  # None where there are no model axes
    by_id: dict = field(default_factory=dict)  # id of the object that the modules hold -> Held
    gathered: dict = field(default_factory=dict)  # id of a parameter whose unit runs -> the whole of it (units.py)
    last_run: object = None  # of a unit, in the model's forward
    root_runs: bool = False
    names: dict = field(default_factory=dict)  # path of a module -> what people are told
    layouts: dict = field(
        default_factory=dict
    )  # id of a boundary's value -> placements before and behind, on the model axes
    sent: dict = field(
        default_factory=dict
    )  # the same -> in which types it is sent, as DTensor.redistribute takes them


def make_state(model, manifest, mesh):
    """The state of a model on this rank, with nothing spread yet."""
    used = set(manifest.data_axes) | ({manifest.fsdp_axis} if manifest.fsdp_axis else set())
    data = tuple(name for name, _ in manifest.mesh if name in used)
    axes = tuple(name for name, _ in manifest.mesh if name not in used)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ManifestError(
            "`mesh`",
            "this process is no part of the device mesh",
            "make the mesh over all processes that run the model",
        )
    model_mesh = mesh if not data else mesh[axes if len(axes) > 1 else axes[0]] if axes else None
    return State(model, manifest, mesh, dict(zip(mesh.mesh_dim_names, coordinate)), data, axes, model_mesh)


def cutting_of(state, tensor):
    """How a tensor of the manifest is cut, for this rank."""
    manifest = state.manifest
    return Cutting(tensor.path, tensor.shape, tensor.spec, tensor.segments, manifest.mesh, state.coordinate)


def own_tensors(state, module):
    """The module's own parameters that are spread."""
    return [state.by_id[id(p)].tensor for p in module._parameters.values() if id(p) in state.by_id]


def fused_tensors(state, path, module):
    """The module's own parameters whose segments the model axes cut: DTensor has no rules for them."""
    known = state.manifest.parameters
    own = [
        known[join(path, name)]
        for name, value in module._parameters.items()
        if value is not None and join(path, name) in known
    ]
    return [tensor for tensor in own if is_fused(state, tensor)]


def is_fused(state, tensor):
    """Whether the model axes cut segments of the tensor, each by itself."""
    return any(
        len(tensor.segments.get(dim) or ()) > 1 and any(axis in state.model_axes for axis in axes)
        for dim, axes in enumerate(tensor.spec)
    )


def is_cut(state, tensor):
    """Whether the model axes cut the tensor."""
    return not slices.used_axes(tensor.spec).isdisjoint(state.model_axes)
