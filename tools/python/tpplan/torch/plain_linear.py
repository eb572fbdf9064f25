"""Linear modules that compute on local tensors. Their boundary fixes the layout of the matmul on every axis, so
DTensor need not infer it at each call. The collectives are those of DTensor; all other cases use DTensor
(boundaries.py).

Source of PRODUCTS: Megatron-LM (arXiv 1909.08053), section 3; torch 2.13
(torch/distributed/tensor/parallel/style.py).
"""

from dataclasses import dataclass

import torch
from torch import nn

from .. import slices
from .communication import SumGradient, SumOpen
from .placements import DTensor, Partial, Replicate, Shard
from .state import is_fused

# Strategies of one axis: placements of the input, the weight (out, in), the bias and the output.
PRODUCTS = DTensor and (
    (Replicate(), Shard(0), Shard(0), Shard(-1)),
    (Shard(-1), Shard(1), Replicate(), Partial()),
    (Replicate(), Replicate(), Replicate(), Replicate()),
)


@dataclass(frozen=True)
class PlainLinear:
    """How a Linear runs on local tensors.

    - `gradient_sums`: groups over which the gradient of the input is all-reduced; None if the input must be
      redistributed by DTensor.
    - `takes`: the local size of the last dim of the input.
    - `sums`: groups over which the output is all-reduced; None if the output must be redistributed by DTensor.
    - `terms`: sizes of the axes over which the output of the matmul is partial.
    """

    gradient_sums: tuple | None
    takes: int
    sums: tuple | None
    terms: tuple
    place: str  # module name for error notes


def plain_linear(state, module, forward, boundary):
    """Returns the PlainLinear of a module with this forward and boundary; None if DTensor must run it. read_layouts
    must have run."""
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
    keeps_size = not any(
        p.is_shard() for p in product
    )  # no dim of the output is sharded, so local and global sizes agree
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
    """Returns the local number of input features of a weight after gathering over the data axes."""
    axes = [axis for axis in weight.spec[1] if axis in state.model_axes]
    begin, end = slices.cut((0, weight.shape[1]), axes, state.manifest.mesh, state.coordinate)
    return end - begin


def take(plain, args, kwargs):
    """Puts the input of a PlainLinear into its layout, in `args` or `kwargs`, and returns True. Returns False,
    without a change, if DTensor must redistribute it."""
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
    """Divides a value by the sizes of the axes, so that its all-reduced sum is the value, as DTensor does for
    Partial. The backward passes the replicated gradient unchanged."""

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
    """Returns the value unchanged. The backward divides its replicated gradient by the sizes of the axes."""

    @staticmethod
    def forward(ctx, value, sizes):
        ctx.sizes = sizes
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        return Term.apply(gradient, ctx.sizes), None


def bias_of(plain, bias):
    """Returns the bias that a Linear adds before the reduction of its partial output; None if it is added after
    (`plain` is None)."""
    return None if plain is None else Term.apply(bias, plain.terms)


def give(plain, result):
    """Returns the output of a PlainLinear in its target layout; None if DTensor must redistribute it."""
    if plain.sums is None or isinstance(result, DTensor):
        return None
    for group in plain.sums:
        result = SumOpen.apply(result, group, plain.place)
    return result
