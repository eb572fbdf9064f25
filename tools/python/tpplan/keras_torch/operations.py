"""Operations that Keras' layers ask of DTensors, beside those that are computed by pieces anywhere (torch/operations.py)."""

import torch
from torch.nn import functional as F

from ..torch.embeddings import is_cut_lookup, look_up
from ..torch.mixing import mixed_by
from ..torch.operations import RULES as BY_PIECES
from ..torch.operations import WHOLE, rule
from ..torch.placements import DTensor, from_local


def _embedding(signature, function, args, kwargs):
    """Rows of a table: tokens are gathered over the axes that cut the rows."""
    given = dict(zip(signature, args)) | kwargs
    tokens, table = given.pop("input"), given.pop("weight")
    at = [WHOLE if p.is_shard(0) else q for p, q in zip(table.placements, tokens.placements)]
    tokens = tokens.redistribute(placements=at)
    if is_cut_lookup(function, (tokens, table), given):
        return look_up((tokens, table), given)
    return function(tokens, table, **given)


def _unbind(function, args, kwargs):
    """Slices along a dim, which is gathered."""
    x, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
    at = [WHOLE if p.is_shard(dim % x.ndim) else p for p in x.placements]
    return function(x.redistribute(placements=at), dim)


def _view(function, args, kwargs):
    """A view, whose gradient may be a piece that lies in memory in another order than DTensor takes it to: it is laid out anew."""
    found = function(*args, **kwargs)
    if isinstance(found, DTensor) and found.requires_grad:
        found.register_hook(_in_order)
    return found


def _in_order(gradient):
    local = gradient.to_local() if isinstance(gradient, DTensor) else gradient
    if local.is_contiguous() or not isinstance(gradient, DTensor):
        return gradient
    return from_local(local.contiguous(), gradient.device_mesh, gradient.placements, gradient.shape)


RULES = {
    **BY_PIECES,
    **{
        f: _view
        for f in (torch.reshape, torch.Tensor.reshape, torch.Tensor.view, torch.flatten, torch.matmul, F.linear)
    },
    **{f: _unbind for f in (torch.unbind, torch.Tensor.unbind)},
    F.embedding: rule(_embedding, "input", "weight", "padding_idx"),
}


def computing():
    """Inside, plain tensors that meet DTensors count as whole on every rank, and operations with a rule here go by it."""
    return mixed_by(RULES)
