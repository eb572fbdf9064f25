"""Operations of torch for which DTensor's sharding is wrong or missing. They compute on local shards, with placements
chosen here for each mesh axis. Their gradients are those of the local operations."""

import functools
import math

from torch.nn import functional as F

from .placements import Partial, Replicate, Shard, from_local

WHOLE = Replicate and Replicate()


def _cuts(value, axis, dim):
    """Returns True if the mesh axis shards this dim of a DTensor by a plain, even Shard."""
    p = value.placements[axis]
    count = math.prod([value.device_mesh.size(i) for i, other in enumerate(value.placements) if other.is_shard(dim)])
    return type(p) is Shard and p.dim == dim and value.shape[dim] % count == 0


def _piece(value, placements, gradients):
    """Returns the local shard after redistribution to `placements`; `gradients` are the placements of its gradient."""
    return value.redistribute(placements=placements).to_local(grad_placements=gradients)


def _convolution(signature, function, args, kwargs):
    """Computes a convolution on local shards.

    Each mesh axis shards the batch, or the weight's output channels, or the weight's input channels. The result is
    then sharded on the batch, sharded on the channels, or partial. All other shardings, such as spatial ones, are
    gathered first.
    """
    given = dict(zip(signature, args)) | kwargs
    x, weight, bias = given.pop("input"), given.pop("weight"), given.pop("bias", None)
    batched, turned, groups = x.ndim == weight.ndim, "output_padding" in signature, given.get("groups", 1)
    outs, ins = (1, 0) if turned else (0, 1)
    channels = weight.shape[1] * groups if turned else weight.shape[0]
    x_at, x_grad, w_at, w_grad, out_at = [], [], [], [], []
    for axis in range(x.device_mesh.ndim):
        found = (WHOLE, WHOLE, WHOLE, WHOLE, WHOLE)
        if batched and _cuts(x, axis, 0):
            found = (Shard(0), Shard(0), WHOLE, Partial(), Shard(0))
        elif batched and groups == 1 and _cuts(weight, axis, outs):
            found = (WHOLE, Partial(), Shard(outs), Shard(outs), Shard(1))
        elif batched and groups == 1 and _cuts(weight, axis, ins):
            found = (Shard(1), Shard(1), Shard(ins), Shard(ins), Partial())
        for places, place in zip((x_at, x_grad, w_at, w_grad, out_at), found):
            places.append(place)
    local = function(_piece(x, x_at, x_grad), _piece(weight, w_at, w_grad), None, **given)
    local = local.contiguous()
    shape = (x.shape[0], channels, *local.shape[2:]) if batched else local.shape
    result = from_local(local, x.device_mesh, out_at, shape)
    return result if bias is None else result + bias.reshape(-1, *[1] * (weight.ndim - 2))


def _attention(signature, function, args, kwargs):
    """Computes attention over (batch, heads, sequence, dim): each rank computes its shard of the batch and of the
    heads. Other dims are gathered first."""
    given = dict(zip(signature, args)) | kwargs
    names = [n for n in ("query", "key", "value", "attn_mask") if given.get(n) is not None]
    query, mesh = given["query"], given["query"].device_mesh
    whole = {name: given[name].shape for name in names}
    held = [given[n] for n in names if n != "attn_mask"]
    dims = (0, 1) if query.ndim == 4 and all(v.ndim == 4 for v in held) and not given.get("enable_gqa") else ()
    places = [next((dim for dim in dims if any(_cuts(v, axis, dim) for v in held)), None) for axis in range(mesh.ndim)]
    for dim in dims:
        count = math.prod([mesh.size(axis) for axis, found in enumerate(places) if found == dim])
        if any(v.shape[dim] != query.shape[dim] or v.shape[dim] % count for v in held):
            places = [None if found == dim else found for found in places]
    for name in names:
        at, gradient = [], []
        for dim in places:
            from_end = None if dim is None else len(whole[name]) - 4 + dim  # masks may have fewer dims
            cut = dim is not None and from_end >= 0 and whole[name][from_end] == query.shape[dim]
            at.append(Shard(from_end) if cut else WHOLE)
            gradient.append(at[-1] if cut or dim is None else Partial())
        given[name] = _piece(given[name], at, gradient)
    local = function(**given)
    placements = [WHOLE if dim is None else Shard(dim) for dim in places]
    return from_local(local, mesh, placements, (*whole["query"][:-1], whole["value"][-1]))


def _rms_norm(signature, function, args, kwargs):
    """Computes RMS norm with the outer dims sharded. The normalized dims are gathered first."""
    given = dict(zip(signature, args)) | kwargs
    x, weight = given.pop("input"), given.pop("weight", None)
    outer = x.ndim - len(given["normalized_shape"])
    at = [p if p.is_shard() and p.dim < outer and _cuts(x, i, p.dim) else WHOLE for i, p in enumerate(x.placements)]
    if weight is not None:
        weight = _piece(weight, [WHOLE] * len(at), [WHOLE if p == WHOLE else Partial() for p in at])
    return from_local(function(_piece(x, at, at), weight=weight, **given), x.device_mesh, at, x.shape)


def rule(compute, *signature):
    """Returns a rule (function, args, kwargs) that calls `compute` with the argument names of `signature`."""
    return functools.partial(compute, signature)


_CONV = ("input", "weight", "bias", "stride", "padding")
_OPERANDS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
RULES = {
    **{f: rule(_convolution, *_CONV, "dilation", "groups") for f in (F.conv1d, F.conv2d, F.conv3d)},
    **{
        f: rule(_convolution, *_CONV, "output_padding", "groups", "dilation")
        for f in (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
    },
    F.scaled_dot_product_attention: rule(_attention, *_OPERANDS),
    F.rms_norm: rule(_rms_norm, "input", "normalized_shape", "weight", "eps"),
}
