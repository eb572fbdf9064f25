"""The contents of a manifest as plain structs, and the local shards of its ranks."""

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction

from .. import slices

LAYOUT = re.compile(r"Replicate|Shard\((-?\d{1,2})\)|Partial\((sum|avg|max|min)\)", re.ASCII)

# Help texts of a ManifestError.
COMPILE_AGAIN = "compile the plan again, and do not edit manifests by hand"
EXPORT_AGAIN = "export this model again (python -m tpplan.export) and compile the plan with it"
WRITTEN_BY = "write a manifest with this version of tpplan: tpplan compile MODEL PLAN -o MANIFEST"


class ManifestError(ValueError):
    """A manifest that is unreadable, inconsistent, or does not match a model. `place` is the object, `remedy` the
    help."""

    def __init__(self, place, reason, remedy):
        self.place, self.reason, self.remedy = place, reason, remedy
        super().__init__(f"{place}: {reason}\n  = help: {remedy}")


@dataclass(frozen=True)
class Tensor:
    """One parameter or buffer. `spec` has a tuple of axis names per dim, major to minor. `segments` maps dims to the
    sizes of their segments. `placements` has one text per mesh axis, or is None if torch has no placement for the
    sharding."""

    path: str
    shape: tuple
    dtype: str
    spec: tuple
    segments: dict
    placements: tuple | None
    local_shapes: tuple
    style: str | None
    replicas: int
    grad_reduce: tuple  # (axis, "all_reduce" | "reduce_scatter")
    norm_weight: Fraction | None  # weight of a rank's squared gradient in the global norm; None for a buffer


@dataclass(frozen=True)
class Value:
    """One value at a module's boundary. Layouts are in mesh order; they are None if the plan does not specify them."""

    arg: int | None
    kwarg: str | None
    source: tuple | None
    target: tuple | None
    gradient: tuple | None  # its layouts (before, after) in the backward pass; None: no gradient
    use_local: bool | None
    forward_dtype: str | None = None  # dtype of the forward redistribution and its result; None: the value's dtype
    backward_dtype: str | None = None  # dtype of the gradient's redistribution


@dataclass(frozen=True)
class Boundary:
    path: str
    style: str
    inputs: tuple
    outputs: tuple


@dataclass(frozen=True)
class Loss:
    """The computation of the loss from output `output` of the model. `reduction` and `gradients` are "mean" or "sum",
    `count` is "per_rank" or "global".
    """

    output: int
    reduction: str
    count: str
    axes: tuple
    gradients: str


@dataclass(frozen=True)
class LocalAttribute:
    """An attribute of a module, such as its number of heads, of which each rank has the part `size / ranks`."""

    path: str
    name: str
    size: int
    ranks: int


@dataclass(frozen=True)
class Manifest:
    model_name: str
    mesh: tuple  # (name, size), major to minor
    uneven: str
    parameters: dict  # path -> Tensor
    buffers: dict
    modules: tuple  # of Boundary
    tied: tuple = ()  # groups of paths of one tensor, with equal shardings; the totals count the first
    data_axes: tuple = ()
    data_dim: int = 0
    fsdp_axis: str | None = None
    fsdp_units: tuple = ()  # paths of FSDP units; "" is the model
    loss: Loss | None = None  # None if the plan does not specify it
    remat: tuple = ()
    local_attributes: tuple = ()  # of LocalAttribute
    counted: int = 0  # number of parameters; tied parameters count once
    text: str = field(default="", repr=False, compare=False)  # source text


def shard_dim(layout):
    """Returns the dim of a layout `Shard(dim)`, which may be negative; None for other layouts."""
    dim = LAYOUT.fullmatch(layout)[1]
    return None if dim is None else int(dim)


def device_count(manifest):
    return math.prod(size for _, size in manifest.mesh)


def local_slice(manifest, tensor, rank):
    """Returns, for each dim, the intervals of global indices in the rank's shard, as `tpplan show --rank` prints them."""
    return slices.shard_slice(
        tensor.shape, tensor.spec, tensor.segments, manifest.mesh, slices.coordinate_of(manifest.mesh, rank)
    )


def local_shape(manifest, tensor, rank):
    """Returns the shape of the rank's shard."""
    return slices.local_shape(
        tensor.shape, tensor.spec, tensor.segments, manifest.mesh, slices.coordinate_of(manifest.mesh, rank)
    )
