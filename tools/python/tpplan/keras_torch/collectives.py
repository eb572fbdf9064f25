"""Collectives along the axes of the current mesh."""

import keras
import torch

from ..manifest import ManifestError
from ..torch import communication
from ..torch.placements import DTensor, Replicate, Shard, gathered


def all_gather_variable(variable):
    """Returns the full value of a variable or tensor as a plain tensor on every rank. Every rank must call it."""
    return whole(getattr(variable, "value", variable))


def whole(value):
    """Returns a DTensor as a plain, gathered tensor; other values unchanged."""
    if not isinstance(value, DTensor):
        return value
    if all(type(p) in (Shard, Replicate) or p.is_partial() for p in value.placements):
        return value.full_tensor()
    # torch's full_tensor is correct for strided shards only if they are even; Keras creates no others.
    return gathered(value)


def all_reduce(tensor, op="sum", axis_name=None):
    """Returns the ranks' tensors reduced along an axis of the current mesh (default: all axes). `op` is "sum",
    "mean", "max" or "min"; other values raise ValueError."""
    ops = {
        "sum": torch.distributed.ReduceOp.SUM,
        "mean": torch.distributed.ReduceOp.SUM,
        "max": torch.distributed.ReduceOp.MAX,
        "min": torch.distributed.ReduceOp.MIN,
    }
    if op not in ops:
        raise ValueError(f"`op` must be one of {', '.join(ops)}. Received: op={op}")
    result, mesh = tensor.detach().clone(), _current_mesh()
    for axis in mesh.mesh_dim_names if axis_name is None else [axis_name]:
        torch.distributed.all_reduce(result, ops[op], group=mesh.get_group(axis))
        result = result / mesh.size(mesh.mesh_dim_names.index(axis)) if op == "mean" else result
    return result


def all_gather(tensor, axis, axis_name):
    """Returns the ranks' tensors along an axis of the current mesh, concatenated in dim `axis`. Their sizes in that
    dim may differ."""
    mesh = _current_mesh()
    group, count = mesh.get_group(axis_name), mesh.size(mesh.mesh_dim_names.index(axis_name))
    sizes = [torch.zeros(1, dtype=torch.int64, device=tensor.device) for _ in range(count)]
    torch.distributed.all_gather(sizes, torch.tensor([tensor.shape[axis]], device=tensor.device), group=group)
    pieces = tuple((int(size),) for size in sizes)
    step = communication.Step(axis, group, (sum(map(sum, pieces)),), pieces, mesh.get_local_rank(axis_name))
    return communication.all_gather(tensor.detach(), step)


def _current_mesh():
    distribution = keras.distribution.distribution()
    if distribution is None:
        raise ManifestError(
            "`mesh`",
            "no distribution is set",
            "keras.distribution.set_distribution(tpplan.keras.model_parallel(manifest))",
        )
    return distribution.device_mesh.backend_mesh
