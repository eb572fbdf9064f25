"""What a manifest says, as plain structs, and which elements its ranks hold."""

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction

from .. import slices

LAYOUT = re.compile(r"Replicate|Shard\((-?\d{1,2})\)|Partial\((sum|avg|max|min)\)", re.ASCII)

# What to do about a ManifestError.
COMPILE_AGAIN = "a manifest is not edited by hand: compile the plan again"
EXPORT_AGAIN = "export this model again (python -m tpplan.export) and compile the plan with it"
WRITTEN_BY = (
    "tpplan compile writes manifests: if another version of it wrote this one, compile the plan again with this version"
)


class ManifestError(ValueError):
    """A manifest that cannot be read, contradicts itself, or does not fit. `place` says where, `remedy` what to do."""

    def __init__(self, place, reason, remedy):
        self.place, self.reason, self.remedy = place, reason, remedy
        super().__init__(f"{place}: {reason}\n  = help: {remedy}")


@dataclass(frozen=True)
class Step:
    """One collective over one axis, as the manifest says it. `dim` and `from_dim` are None where the kind has none."""

    kind: str
    axis: str
    dim: int | None = None
    from_dim: int | None = None


@dataclass(frozen=True)
class ParamStep:
    """A step of a parameter: `part` is "gather" (for its module) or "reduce" (its gradient). `elements` and `bytes` are the
    payload on rank 0, `sent` what a rank sends of it in a ring."""

    part: str
    step: Step
    elements: int
    bytes: int
    sent: int


@dataclass(frozen=True)
class Tensor:
    """One parameter or buffer. `spec` has for each dim a tuple of axis names, major to minor; `segments` maps dims to the
    sizes of their parts; `placements` has one text a mesh axis, or is None where torch has no word for the sharding."""

    path: str
    shape: tuple
    dtype: str
    spec: tuple
    segments: dict
    placements: tuple | None
    local_shapes: tuple
    offsets: tuple  # of each cut dim (dim, levels of ranks, runs of its segments), as the schema says
    style: str | None
    rule: int | None
    reason: str
    replicas: int
    grad_reduce: tuple  # (axis, "all_reduce" | "reduce_scatter")
    summed_by: tuple  # of each of these: "module", "fsdp", "ddp" or "tpplan"; None where nobody says
    norm_weight: Fraction | None  # of its gradient's square on one rank; None where nobody says
    kind: str | None = None  # of its module: linear, embedding or norm; None for others
    dims: tuple = ()  # names of the dims of a linear's or embedding's parameter; () where nobody says
    steps: tuple = ()  # of ParamStep; () in manifests that were written before


@dataclass(frozen=True)
class Value:
    """One value at a module's boundary: layouts in mesh order, or None where nobody says."""

    arg: int | None
    kwarg: str | None
    source: tuple | None
    target: tuple | None
    gradient: tuple | None  # of two layouts: how its gradient comes back, and how it goes on; None where it has none
    use_local: bool | None
    forward: tuple  # of Step
    backward: tuple
    forward_dtype: str | None = None  # in which it is sent forward, and stays; None where in its own
    backward_dtype: str | None = None  # in which its gradient is sent backward


@dataclass(frozen=True)
class Rule:
    """What a rule of the plan did: `modules` stand under it (None where nobody says), and over `sums` they sum the gradients
    of its parameters."""

    key: str
    modules: int | None
    sums: str | None
    forward_dtype: str | None = None  # in which its modules send what has a gradient; None: in its own type
    backward_dtype: str | None = None  # and the gradients
    holds: dict | None = None  # kind -> how many of its parameters; None where nobody says, as of all below
    axis: str | None = None  # over which alone its modules change values; None of a spec, too
    inputs: tuple = ()  # (arg, kwarg, use_local) of each value that its modules touch
    outputs: tuple = ()
    bare: int = 0  # of its modules, those with no parameter in or below them


@dataclass(frozen=True)
class Boundary:
    path: str
    style: str
    rule: int
    inputs: tuple
    outputs: tuple


@dataclass(frozen=True)
class Loss:
    """How the loss is made of result `output` of the model: `reduction` and `gradients` are "mean" or "sum", `count` is
    "per_rank" or "global"."""

    output: int
    reduction: str
    count: str
    axes: tuple
    gradients: str


@dataclass(frozen=True)
class Manifest:
    model_name: str
    mesh: tuple  # (name, size), major to minor
    uneven: str
    parameters: dict  # path -> Tensor
    buffers: dict
    modules: tuple  # of Boundary
    rules: tuple = ()
    tied: tuple = ()  # groups of paths that are one tensor and cut alike; the first counts in the totals
    data_axes: tuple = ()
    data_dim: int = 0
    fsdp_axis: str | None = None
    fsdp_units: tuple = ()  # paths of the modules that are gathered as one; "" is the model
    loss: Loss | None = None  # None where the plan says nothing of it
    remat: tuple = ()
    totals: dict = field(default_factory=dict)
    text: str = field(default="", repr=False, compare=False)  # that it was read from


def shard_dim(layout):
    """The dim of a layout `Shard(dim)`, as it is written; None for other layouts."""
    dim = LAYOUT.fullmatch(layout)[1]
    return None if dim is None else int(dim)


def device_count(manifest):
    return math.prod(size for _, size in manifest.mesh)


def local_slice(manifest, tensor, rank):
    """For each dim the runs of global indices that `rank` holds of a tensor; what `tpplan show --rank` prints."""
    return slices.shard_slice(
        tensor.shape, tensor.spec, tensor.segments, manifest.mesh, slices.coordinate_of(manifest.mesh, rank)
    )


def local_shape(manifest, tensor, rank):
    """Sizes of that slice."""
    return slices.local_shape(
        tensor.shape, tensor.spec, tensor.segments, manifest.mesh, slices.coordinate_of(manifest.mesh, rank)
    )
