"""Shards tensors, variables and batches of which every process has the full value."""

import math

import torch
from keras.src import tree

from .. import slices
from ..torch.communication import from_first_rank
from ..torch.placements import DTensor, ensure_dtensor, from_local, redistributed
from ..torch.values import take_runs
from .layouts import placements_for


def distribute_tensor(tensor, layout):
    """Returns a tree with its tensors and DTensors in this layout. Plain tensors are full on every rank. Meta tensors
    and other leaves are unchanged."""
    return tree.map_structure(lambda t: _distribute(t, layout), tensor)


def _distribute(tensor, layout):
    if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
        return tensor
    mesh, placements = layout.device_mesh.backend_mesh, placements_for(layout, tensor.shape)
    if isinstance(tensor, DTensor):
        return redistributed(tensor, placements, "layout of an output")
    if tensor.requires_grad and not tensor.is_leaf:  # autograd must differentiate through this value
        return ensure_dtensor(tensor, mesh).redistribute(placements=placements)
    return _cut(tensor, mesh, placements, layout)


def _cut(tensor, mesh, placements, layout):
    """Returns this rank's shard of a full tensor, copied, as a DTensor."""
    if getattr(layout, "_tpplan_placements", None) is not None:
        return ensure_dtensor(tensor, mesh).redistribute(placements=placements)
    spec = slices.spec_of(layout.axes)
    spec += ((),) * (tensor.ndim - len(spec))
    names = list(zip(layout.device_mesh.axis_names, layout.device_mesh.shape))
    coordinate = dict(zip(layout.device_mesh.axis_names, mesh.get_coordinate()))
    local = take_runs(tensor.detach(), slices.shard_slice(tensor.shape, spec, {}, names, coordinate))
    return from_local(local, mesh, placements, tensor.shape)


def distribute_variable(value, layout):
    """Returns a variable's value in this layout. The mesh's first rank provides a plain value."""
    if isinstance(value, DTensor) or value.is_meta:
        return distribute_tensor(value, layout)
    return distribute_tensor(from_first_rank(value.detach(), layout.device_mesh.backend_mesh), layout)


def distribute_data_input(per_process_batch, layout, batch_dim_name=None):
    """Returns a batch of the mesh's first rank, sharded over the batch axes. A batch that they do not divide stays
    replicated, because DTensor's mean over uneven shards is not the mean of the batch."""
    if (
        not isinstance(per_process_batch, torch.Tensor)
        or isinstance(per_process_batch, DTensor)
        or per_process_batch.is_meta
    ):
        return per_process_batch
    sizes, mesh = dict(zip(layout.device_mesh.axis_names, layout.device_mesh.shape)), layout.device_mesh.backend_mesh
    has_gradient = per_process_batch.requires_grad and torch.is_grad_enabled()
    whole = ensure_dtensor(per_process_batch, mesh) if has_gradient else from_first_rank(per_process_batch, mesh)
    for dim, axes in enumerate(slices.spec_of(layout.axes)):
        if whole.shape[dim] % math.prod(sizes[axis] for axis in axes):
            return ensure_dtensor(whole, mesh)
    return distribute_tensor(whole, layout)
