"""A rank's shards of a checkpoint, read by libtpplan_load into the memory that the model uses."""

import torch
import torch.distributed as dist

from .. import slices
from ..load_library import LoadError
from ..load_weights import read_new
from .shared import Sharing


def read_pieces(state, weights):
    """Returns {path: local shard} on the CPU, in pinned memory if the mesh has GPUs. Every rank must call it; if one
    fails, all raise."""
    rank = slices.rank_of(state.manifest.mesh, state.coordinate)
    is_pinned = state.mesh.device_type == "cuda"

    def make(shape, dtype):
        return torch.empty(shape, dtype=getattr(torch, dtype), device="cpu", pin_memory=is_pinned)

    if getattr(weights, "share", None):
        return read_new(state.manifest, weights, rank, make, sharing=_sharing_of(state))
    pieces, failure = None, None
    try:
        pieces = read_new(state.manifest, weights, rank, make)
    except Exception as error:  # no raise yet: the other ranks wait in fail_together
        failure = error
    fail_together(state.mesh, rank, failure, "read its weights")
    return pieces


def _sharing_of(state):
    """Returns the Sharing of all tensors: the mesh dims over which each is replicated."""
    whole = {}
    for path, tensor in (state.manifest.parameters | state.manifest.buffers).items():
        used = {axis for axes in tensor.spec for axis in axes}
        whole[path] = tuple(
            d for d, axis in enumerate(state.mesh.mesh_dim_names) if axis not in used and state.mesh.size(d) > 1
        )
    return Sharing(state.mesh, whole)


def fail_together(mesh, rank, failure, what):
    """Raises on every rank of a mesh if one has a failure: that rank its own error, the others LoadError naming it.
    Every rank must call it."""
    failed = torch.tensor([0 if failure is None else rank + 1], device=mesh.device_type)
    for axis in range(mesh.ndim):
        dist.all_reduce(failed, op=dist.ReduceOp.MAX, group=mesh.get_group(axis))
    if failure is not None:
        raise failure
    if failed.item():
        raise LoadError(f"rank {failed.item() - 1} cannot {what}; that rank raises the error")
