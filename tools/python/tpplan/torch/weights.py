"""A rank's pieces of a checkpoint, read by libtpplan_load into memory that becomes the model's."""

import torch
import torch.distributed as dist

from .. import slices
from ..load_library import LoadError
from ..reading import read_new
from .shared import Sharing


def read_pieces(state, weights):
    """{path: this rank's piece}, on the CPU; for a mesh of GPUs in pinned memory, from which they are copied as they come. Every
    rank calls it; where one of them fails, all raise."""
    rank = slices.rank_of(state.manifest.mesh, state.coordinate)
    is_pinned = state.mesh.device_type == "cuda"

    def make(shape, dtype):
        return torch.empty(shape, dtype=getattr(torch, dtype), device="cpu", pin_memory=is_pinned)

    if getattr(weights, "share", None):
        return read_new(state.manifest, weights, rank, make, sharing=_sharing_of(state))
    pieces, failure = None, None
    try:
        pieces = read_new(state.manifest, weights, rank, make)
    except Exception as error:  # the others wait
        failure = error
    fail_together(state.mesh, rank, failure, "read its weights")
    return pieces


def _sharing_of(state):
    """Over which dims of the mesh each tensor of the manifest is whole."""
    whole = {}
    for path, tensor in (state.manifest.parameters | state.manifest.buffers).items():
        used = {axis for axes in tensor.spec for axis in axes}
        whole[path] = tuple(
            d for d, axis in enumerate(state.mesh.mesh_dim_names) if axis not in used and state.mesh.size(d) > 1
        )
    return Sharing(state.mesh, whole)


def fail_together(mesh, rank, failure, what):
    """Called by every rank of a device mesh: where one has a failure all raise, the others that this rank could not do it."""
    failed = torch.tensor([0 if failure is None else rank + 1], device=mesh.device_type)
    for axis in range(mesh.ndim):
        dist.all_reduce(failed, op=dist.ReduceOp.MAX, group=mesh.get_group(axis))
    if failure is not None:
        raise failure
    if failed.item():
        raise LoadError(f"rank {failed.item() - 1} cannot {what}, and says why")
