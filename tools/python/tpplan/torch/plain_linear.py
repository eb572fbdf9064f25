"""Linear modules that compute with plain pieces: their boundary says of every axis what the product of the pieces is, so that no DTensor
needs to find it out at every call. The collectives are those that DTensor would make, and anything else goes its way (boundaries.py).

Source of the table: Megatron-LM (arXiv 1909.08053), section 3; torch 2.13 (torch/distributed/tensor/parallel/style.py)."""

from dataclasses import dataclass

import torch
from torch import nn

from .. import slices
from .communication import SumGradient, SumOpen
from .placements import DTensor, Partial, Replicate, Shard
from .state import is_fused

# Of one axis: how it cuts the input, the weight (out, in), the bias and the output.
PRODUCTS = DTensor and (
    (Replicate(), Shard(0), Shard(0), Shard(-1)),
    (Shard(-1), Shard(1), Replicate(), Partial()),
    (Replicate(), Replicate(), Replicate(), Replicate()),
)


@dataclass(frozen=True)
class PlainLinear:
    """How a Linear runs on plain pieces. `gradient_sums` are the groups over which the gradient of its input is summed, `sums` those
    over which its output is, and `takes` how long the last dim of its input is on this rank; None where a value moves otherwise.
    `terms` are the sizes of the axes over which its output is such a sum."""

    gradient_sums: tuple | None
    takes: int
    sums: tuple | None
    terms: tuple
    place: str  # its name for people


def plain_linear(state, module, forward, boundary):
    """The PlainLinear of a module with this forward and boundary, whose layouts were read; None where DTensor has to say."""
    if getattr(forward, "__func__", None) is not nn.Linear.forward or state.model_mesh is None or boundary is None:
        return None
    held = [state.by_id.get(id(p)) for p in (module.weight, module.bias) if p is not None]
    if None in held or any(is_fused(state, one.tensor) for one in held):
        return None
    if len(boundary.inputs) != 1 or len(boundary.outputs) != 1:
        return None
    (given,), (made,) = boundary.inputs, boundary.outputs
    if given.arg != 0 or made.arg != 0 or not made.use_local or state.sent.get(id(given)) or state.sent.get(id(made)):
        return None
    if given.source is None or made.source is None:
        return None
    (source, taken), (product, target) = state.layouts[id(given)], state.layouts[id(made)]
    weight, *bias = (one.way.placements for one in held)
    found = [
        any(
            (x, w, y) == (row[0], row[1], row[3]) and all(b[axis] == row[2] for b in bias)
            for row in PRODUCTS
        )
        for axis, (x, w, y) in enumerate(zip(taken, weight, product))
    ]  # fmt: skip
    keeps_size = not any(p.is_shard() for p in product)  # on each rank that of the whole
    summed = all(p == q or (p.is_partial() and q.is_replicate()) for p, q in zip(product, target))
    if not all(found) or all(w.is_replicate() for w in weight) or not (product == target or keeps_size):
        return None
    groups = [(state.mesh.get_group(axis), n) for axis, n in zip(state.model_axes, state.model_mesh.shape)]
    return PlainLinear(
        tuple(g for (g, n), w in zip(groups, weight) if n > 1 and w == Shard(0)) if source == taken else None,
        _local_inputs(state, held[0].tensor),
        tuple(g for (g, n), p, q in zip(groups, product, target) if n > 1 and p != q) if summed else None,
        tuple(n for (_, n), p in zip(groups, product) if p.is_partial()),
        state.names[boundary.path],
    )


def _local_inputs(state, weight):
    """How many inputs this rank's piece of a weight has, where it is gathered over the data axes."""
    axes = [axis for axis in weight.spec[1] if axis in state.model_axes]
    begin, end = slices.cut((0, weight.shape[1]), axes, state.manifest.mesh, state.coordinate)
    return end - begin


def take(plain, args, kwargs):
    """Puts the input of a PlainLinear in its layout, in `args` or `kwargs`; False where it has to be moved otherwise."""
    holder, key = (args, 0) if args else (kwargs, "input")
    value = args[0] if args else kwargs.get("input")
    if plain.gradient_sums is None or not isinstance(value, torch.Tensor) or isinstance(value, DTensor):
        return False
    if not value.ndim or value.shape[-1] != plain.takes:
        return False
    for group in plain.gradient_sums:
        value = SumGradient.apply(value, group, plain.place)
    holder[key] = value
    return True


class Term(torch.autograd.Function):
    """What each rank adds to a sum over ranks that shall have the value once, as DTensor does; the gradient is whole on every rank."""

    @staticmethod
    def forward(ctx, value, sizes):
        ctx.sizes = sizes
        for size in sizes:
            value = value / size
        return value

    @staticmethod
    def backward(ctx, gradient):
        return Whole.apply(gradient, ctx.sizes), None


class Whole(torch.autograd.Function):
    """The same value; of its gradient, which is whole on every rank, each takes a part."""

    @staticmethod
    def forward(ctx, value, sizes):
        ctx.sizes = sizes
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        return Term.apply(gradient, ctx.sizes), None


def bias_of(plain, bias):
    """What a Linear adds to its product, where its output is a sum that ranks leave open: by itself nothing (`plain` is None)."""
    return None if plain is None else Term.apply(bias, plain.terms)


def give(plain, result):
    """The output of a PlainLinear in its layout; None where it has to be moved otherwise."""
    if plain.sums is None or isinstance(result, DTensor):
        return None
    for group in plain.sums:
        result = SumOpen.apply(result, group, plain.place)
    return result
