"""Shared reading: one rank reads each replicated tensor and broadcasts it to the others over the mesh's process
groups."""

import hashlib
import math
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from ..load_library import LoadError
from ..manifest import ManifestError
from .communication import raw

BATCH = 1 << 30  # bytes that this rank reads before it sends them


def whole_dims(value):
    """Returns the mesh dims over which a DTensor is replicated, without dims of size 1."""
    return tuple(d for d, p in enumerate(value.placements) if p.is_replicate() and value.device_mesh.size(d) > 1)


def mesh_of(placed):
    """Returns the device mesh of {path: DTensor}. Raises ManifestError if there is none or more than one."""
    meshes = [value.device_mesh for value in placed.values()]
    if not meshes or any(mesh != meshes[0] for mesh in meshes):
        reason = (
            "needs DTensors, but none are given"
            if not meshes
            else "needs one device mesh, but the DTensors have several"
        )
        raise ManifestError("`share`", reason, "pass DTensors of one mesh, or read without `share`")
    return meshes[0]


@dataclass
class Sharing:
    """The assignment of tensors to the ranks that read them; every rank of a mesh computes the same. `whole` maps a
    path to the mesh dims over which it is replicated, () if only this rank reads it. `readers` maps a path to the
    reader's coordinate along these dims.
    """

    mesh: object
    whole: dict
    readers: dict = field(default_factory=dict)


def deal_out(sharing, sizes):
    """Chooses the reader of each tensor. `sizes` is {path: (id shared by tied paths, bytes)}, in the same order on
    all ranks. The rank with the fewest bytes so far reads the next tensor."""
    _agree(sharing, sizes)
    loads, of_twins = {}, {}
    for path, (twin, size) in sizes.items():
        dims = sharing.whole[path]
        load = loads.setdefault(dims, [0] * math.prod(sharing.mesh.size(d) for d in dims))
        if (twin, dims) not in of_twins:
            of_twins[twin, dims] = min(range(len(load)), key=load.__getitem__)
            load[of_twins[twin, dims]] += size
        sharing.readers[path] = _place(sharing.mesh, dims, of_twins[twin, dims])


def is_reader(sharing, path):
    here = sharing.mesh.get_coordinate()
    return all(here[d] == index for d, index in zip(sharing.whole[path], sharing.readers[path]))


def send(sharing, path, value):
    """Broadcasts a value in place from its reader to all ranks that hold it, one mesh dim at a time."""
    mesh, dims, reader = sharing.mesh, sharing.whole[path], sharing.readers[path]
    here = mesh.get_coordinate()
    if not dims or value.numel() == 0:
        return
    there = value if value.device.type == mesh.device_type else value.to(mesh.device_type)
    for i, dim in enumerate(dims):
        if all(here[d] == index for d, index in zip(dims[i + 1 :], reader[i + 1 :])):
            group = mesh.get_group(dim)
            dist.broadcast(raw(there), dist.get_global_rank(group, reader[i]), group=group)
    if there is not value:
        value.copy_(there)


def _place(mesh, dims, number):
    """Returns the coordinate, along these mesh dims, of the rank with this linear index."""
    place = []
    for d in reversed(dims):
        number, index = divmod(number, mesh.size(d))
        place.append(index)
    return tuple(reversed(place))


def _agree(sharing, sizes):
    """Raises LoadError on all ranks if they request different tensors; they would deadlock otherwise."""
    mesh = sharing.mesh
    text = repr([(path, sharing.whole[path]) for path in sizes]).encode()
    own = int.from_bytes(hashlib.sha256(text).digest()[:7], "big")
    told = torch.tensor([own, -own], dtype=torch.int64, device=mesh.device_type)
    for dim in range(mesh.ndim):
        dist.all_reduce(told, op=dist.ReduceOp.MAX, group=mesh.get_group(dim))
    if told[0] != -told[1]:
        raise LoadError("`share`: ranks request different tensors\n  = help: request the same tensors on every rank")
