"""Placements of torch for the texts of a manifest, and DTensors of them. DTensor is None in a torch that has none."""

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
    """torch's placement of a manifest's text."""
    name, _, arguments = text.partition("(")
    numbers = [int(n) for n in re.findall(r"-?\d+", arguments)]
    if name == "Shard":
        return Shard(numbers[0])
    if name == "StridedShard":
        return _StridedShard(numbers[0], split_factor=numbers[1])
    return Replicate() if name == "Replicate" else Partial(arguments.rstrip(")"))


def counted(placements, ndim, place):
    """Placements of a value with dims counted from the front. `place` says whose value it is, for people."""
    for p in placements:
        if type(p) is Shard and not -ndim <= p.dim < ndim:
            raise ManifestError(
                place, f"Shard({p.dim}) of a value with {ndim} dims", "write a layout that the value has"
            )
    return [Shard(p.dim % ndim) if type(p) is Shard else p for p in placements]


def from_local(local, mesh, placements, shape):
    """The DTensor of this shape that has these pieces, uneven ones, too. Nothing is communicated."""
    return _made(local, mesh, placements, shape=torch.Size(shape), stride=_strides(shape))


def _made(local, mesh, placements, **sizes):
    """The DTensor of a piece. What torch.compile sees is torch's own way, which it knows: it gives gradients no gradients."""
    if torch.compiler.is_compiling() or not (local.requires_grad and torch.is_grad_enabled()):
        return DTensor.from_local(local, mesh, placements, run_check=False, **sizes)
    return FromLocal.apply(local, DTensor.from_local(local.detach(), mesh, placements, run_check=False, **sizes))


class FromLocal(torch.autograd.Function):
    """A piece as the DTensor that was made of it. Unlike that of DTensor.from_local its gradient, where it is a sum that ranks leave open,
    has a gradient, too."""

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
        return gradient.to_local(grad_placements=ctx.made), None  # of a sum each rank makes a term of its own of it


def _strides(shape):
    strides, product = [], 1
    for size in reversed(shape):
        strides.append(product)
        product *= max(size, 1)
    return tuple(reversed(strides))


def redistributed(tensor, placements, place, sent=None):
    """A DTensor in these placements, whose dims may be counted from the end. `place` says whose value it is, for people; `sent`
    are DTensor.redistribute's dtypes, with which gradients come back over it where nothing moves, too."""
    wanted = counted(placements, tensor.ndim, place)
    if not sent and list(tensor.placements) == wanted:
        return carrying(tensor, place)
    return carrying(tensor.redistribute(placements=wanted, **(sent or {})), place)


def takes_dtypes():
    """Whether this torch's DTensor.redistribute takes forward_dtype and backward_dtype."""
    return {"forward_dtype", "backward_dtype"} <= set(inspect.signature(DTensor.redistribute).parameters)


def gathered(tensor, place="a value that is put together"):
    """The whole of a DTensor, plain, on every rank. `place` says whose value it is, for people."""
    whole = [Replicate()] * tensor.device_mesh.ndim
    moved = carrying(tensor.redistribute(placements=whole), place)
    return own(moved.to_local(), _was_sent(tensor, whole), place)


class Own(torch.autograd.Function):
    """The same value in the same memory, as a tensor of its own."""

    @staticmethod
    def forward(ctx, value, place):
        ctx.place = place
        return value.detach()

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return gradient, None


def own(value, is_fresh, place="a value"):
    """What DTensor.to_local gave, as a tensor that may be changed in place, which autograd lets nobody do to such a view. Only where
    nothing else is in this memory (`is_fresh`): a DTensor that a backward pass needs does not count what is changed under it."""
    return Own.apply(value, place) if is_fresh and value.requires_grad and torch.is_grad_enabled() else value


def left(tensor, placements, place, is_fresh, sent=None):
    """What leaves a module: a DTensor brought to these placements, as a plain tensor. `is_fresh`: nothing needs it as it is."""
    moved = redistributed(tensor, placements, place, sent)
    return own(moved.to_local(), is_fresh or _was_sent(tensor, moved.placements), place)


def _was_sent(tensor, placements):
    """Whether ranks communicate to bring a DTensor to these placements, into memory that is new."""
    sizes = tensor.device_mesh.shape
    return any(p != q and not p.is_replicate() and n > 1 for p, q, n in zip(tensor.placements, placements, sizes))


def ensure_dtensor(tensor, device_mesh, placements=None):
    """A plain tensor as a DTensor (Replicate without `placements`); a DTensor, and what is no tensor, as it is."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, DTensor):
        return tensor
    return _made(tensor, device_mesh, placements or [Replicate()] * device_mesh.ndim)
