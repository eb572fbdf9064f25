"""Operations of Keras' layers for which DTensor needs rules, in addition to those of torch/operations.py."""

import functools
import inspect

import torch
from keras.src.backend.torch import core
from keras.src.backend.torch import numpy as keras_numpy
from torch.nn import functional as F

from ..torch.embeddings import is_cut_lookup, look_up
from ..torch.mixing import mixed_by
from ..torch.operations import RULES as BY_PIECES
from ..torch.operations import WHOLE, rule
from ..torch.placements import DTensor, ensure_dtensor, from_local


def _embedding(signature, function, args, kwargs):
    """Computes an embedding. Tokens are gathered over the axes that shard the vocabulary."""
    given = dict(zip(signature, args)) | kwargs
    tokens, table = given.pop("input"), given.pop("weight")
    at = [WHOLE if p.is_shard(0) else q for p, q in zip(table.placements, tokens.placements)]
    tokens = tokens.redistribute(placements=at)
    if is_cut_lookup(function, (tokens, table), given):
        return look_up((tokens, table), given)
    return function(tokens, table, **given)


def _unbind(function, args, kwargs):
    """Unbinds a dim, which is gathered first."""
    x, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
    at = [WHOLE if p.is_shard(dim % x.ndim) else p for p in x.placements]
    return function(x.redistribute(placements=at), dim)


def _view(function, args, kwargs):
    """Computes a view and makes its local gradient contiguous, because DTensor assumes contiguous strides."""
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
    """Returns a mode in which plain tensors that are combined with DTensors count as replicated, and RULES apply."""
    return mixed_by(RULES)


def mix_operands():
    """Patches Keras' functions of two operands (`keras.ops.subtract`), so that a plain operand of a DTensor counts as
    replicated outside of a model's call, too. A converted operand gets its gradient, and torch.compile traces it."""
    for name, function in list(vars(keras_numpy).items()):
        if inspect.isfunction(function) and function.__module__ == keras_numpy.__name__:
            if list(inspect.signature(function).parameters)[:2] == ["x1", "x2"]:
                setattr(keras_numpy, name, _mixed(function))


def _mixed(function):
    @functools.wraps(function)
    def call(x1, x2, *args, **kwargs):
        values = [x.value if isinstance(x, core.Variable) else x for x in (x1, x2)]
        mesh = next((x.device_mesh for x in values if isinstance(x, DTensor)), None)
        if mesh is not None:
            x1, x2 = (x if isinstance(x, (int, float, complex)) else _placed(x, mesh) for x in values)
        return function(x1, x2, *args, **kwargs)

    return call


def _placed(value, mesh):
    return ensure_dtensor(core.convert_to_tensor(value), mesh)
