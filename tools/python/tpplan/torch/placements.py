"""torch placements for the texts of a manifest, and DTensors with them. DTensor is None if torch has no
torch.distributed.tensor."""

import inspect
import re

import torch

from ..manifest import ManifestError
from .notes import carrying, passing

try:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import Placement, _StridedShard
except ImportError:  # torch before 2.5, or built without distributed
    DeviceMesh = DTensor = Partial = Placement = Replicate = Shard = _StridedShard = None


def need_dtensor():
    if DTensor is None:
        raise ManifestError(
            "torch",
            f"torch {torch.__version__} has no DTensor (torch.distributed.tensor)",
            "install torch 2.5 or later, with distributed",
        )


def placement(text):
    """Returns the torch placement of a manifest's text, such as `Shard(0)` or `StridedShard(0, 2)`."""
    name, _, arguments = text.partition("(")
    numbers = [int(n) for n in re.findall(r"-?\d+", arguments)]
    if name == "Shard":
        return Shard(numbers[0])
    if name == "StridedShard":
        return _StridedShard(numbers[0], split_factor=numbers[1])
    return Replicate() if name == "Replicate" else Partial(arguments.rstrip(")"))


def counted(placements, ndim, place):
    """Returns placements with nonnegative dims. Raises ManifestError if the value has no such dim. `place` names the
    value in errors."""
    for p in placements:
        if type(p) is Shard and not -ndim <= p.dim < ndim:
            raise ManifestError(
                place, f"Shard({p.dim}) is out of range for a value with {ndim} dims", "use a dim that the value has"
            )
    return [Shard(p.dim % ndim) if type(p) is Shard else p for p in placements]


def from_local(local, mesh, placements, shape):
    """Returns the DTensor with this global shape and these local shards, which may be uneven. Does not communicate."""
    return _made(local, mesh, placements, shape=torch.Size(shape), stride=_strides(shape))


def _made(local, mesh, placements, **sizes):
    """Wraps a local shard as a DTensor. Traced code uses DTensor.from_local, which torch.compile knows but which has
    no double backward for partial values."""
    if torch.compiler.is_compiling() or not (local.requires_grad and torch.is_grad_enabled()):
        return DTensor.from_local(local, mesh, placements, run_check=False, **sizes)
    return FromLocal.apply(local, DTensor.from_local(local.detach(), mesh, placements, run_check=False, **sizes))


class FromLocal(torch.autograd.Function):
    """Returns a local shard as the DTensor `made` from it. Unlike DTensor.from_local, it supports double backward for
    partial values."""

    @staticmethod
    def forward(ctx, local, made):
        ctx.set_materialize_grads(False)
        ctx.made, ctx.placements = made.placements, [Replicate() if p.is_partial() else p for p in made.placements]
        return DTensor(local.view_as(local), made._spec, requires_grad=local.requires_grad)

    @staticmethod
    def backward(ctx, gradient):
        if gradient is None:
            return None, None
        if list(gradient.placements) != ctx.placements:
            gradient = gradient.redistribute(placements=ctx.placements)
        return gradient.to_local(
            grad_placements=ctx.made
        ), None  # the gradient of this gradient has the placements of the value


def _strides(shape):
    strides, product = [], 1
    for size in reversed(shape):
        strides.append(product)
        product *= max(size, 1)
    return tuple(reversed(strides))


def redistributed(tensor, placements, place, sent=None):
    """Redistributes a DTensor to these placements; dims may be negative. `place` names the value in error notes.
    `sent` holds the dtype arguments of DTensor.redistribute; they apply to the gradient even if no placement changes.
    """
    wanted = counted(placements, tensor.ndim, place)
    if not sent and list(tensor.placements) == wanted:
        return carrying(tensor, place)
    return carrying(tensor.redistribute(placements=wanted, **(sent or {})), place)


def takes_dtypes():
    """Returns True if this torch's DTensor.redistribute has `forward_dtype` and `backward_dtype`."""
    return {"forward_dtype", "backward_dtype"} <= set(inspect.signature(DTensor.redistribute).parameters)


def gathered(tensor, place="a gathered value"):
    """Returns a DTensor as a plain, replicated tensor. `place` names the value in error notes."""
    whole = [Replicate()] * tensor.device_mesh.ndim
    moved = carrying(tensor.redistribute(placements=whole), place)
    return own(moved.to_local(), _was_sent(tensor, whole), place)


class Own(torch.autograd.Function):
    """Returns the value as a tensor that is no view but shares its memory. The backward passes the gradient
    unchanged."""

    @staticmethod
    def forward(ctx, value, place):
        ctx.place = place
        return value.detach()

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return gradient, None


def own(value, is_fresh, place="a value"):
    """Returns a result of DTensor.to_local such that it may be changed in place, which autograd rejects for that
    view. Does so only if `is_fresh`: nothing else uses its memory. A DTensor that is saved for backward does not
    detect changes of its local tensor."""
    return Own.apply(value, place) if is_fresh and value.requires_grad and torch.is_grad_enabled() else value


def left(tensor, placements, place, is_fresh, sent=None):
    """Returns a module's output as a plain tensor: redistributes the DTensor and takes its local shard. `is_fresh`:
    no backward needs its current values."""
    moved = redistributed(tensor, placements, place, sent)
    return own(moved.to_local(), is_fresh or _was_sent(tensor, moved.placements), place)


def _was_sent(tensor, placements):
    """Returns True if redistribution to these placements communicates, and so writes to new memory."""
    sizes = tensor.device_mesh.shape
    return any(p != q and not p.is_replicate() and n > 1 for p, q, n in zip(tensor.placements, placements, sizes))


def ensure_dtensor(tensor, device_mesh, placements=None):
    """Returns a plain tensor as a DTensor with `placements` (default: Replicate on all axes). DTensors and values
    that are no tensors are returned unchanged."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, DTensor):
        return tensor
    return _made(tensor, device_mesh, placements or [Replicate()] * device_mesh.ndim)
