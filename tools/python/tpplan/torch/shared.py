"""What several ranks of a mesh hold alike is read by one of them, and sent to the others by the mesh's own process groups."""

import hashlib
import math
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from ..load_library import LoadError
from ..manifest import ManifestError
from .communication import raw

BATCH = 1 << 30  # bytes that this rank is given before they are sent


def whole_dims(value):
    """The dims of a DTensor's mesh over which its ranks hold the same."""
    return tuple(d for d, p in enumerate(value.placements) if p.is_replicate() and value.device_mesh.size(d) > 1)


def mesh_of(placed):
    """The mesh of {path: DTensor}. Raises ManifestError where there is none, or several."""
    meshes = [value.device_mesh for value in placed.values()]
    if not meshes or any(mesh != meshes[0] for mesh in meshes):
        reason = (
            "shares what DTensors hold, and there are none" if not meshes else "is given DTensors of several meshes"
        )
        raise ManifestError("`share`", reason, "give DTensors of one mesh, or read without `share`")
    return meshes[0]


@dataclass
class Sharing:
    """Who reads what, worked out alike by every rank of a mesh: `whole` has for each path the dims of the mesh over which
    its ranks hold the same, () where it is for this rank alone; `readers` the place along these of who reads it."""

    mesh: object
    whole: dict
    readers: dict = field(default_factory=dict)


def deal_out(sharing, sizes):
    """`sizes`: {path: (number that tied names share, bytes)} of all that is wanted, in an order that all ranks have. Of each
    who has read the least so far reads the next."""
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
    """Gives the value of who has read it to all that hold it, one dim of the mesh after the other."""
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
    """The place along these dims of a mesh of the rank with this number among them."""
    place = []
    for d in reversed(dims):
        number, index = divmod(number, mesh.size(d))
        place.append(index)
    return tuple(reversed(place))


def _agree(sharing, sizes):
    """Who is asked for other tensors than the others would wait for them, and they for it."""
    mesh = sharing.mesh
    text = repr([(path, sharing.whole[path]) for path in sizes]).encode()
    own = int.from_bytes(hashlib.sha256(text).digest()[:7], "big")
    told = torch.tensor([own, -own], dtype=torch.int64, device=mesh.device_type)
    for dim in range(mesh.ndim):
        dist.all_reduce(told, op=dist.ReduceOp.MAX, group=mesh.get_group(dim))
    if told[0] != -told[1]:
        raise LoadError(
            "`share`: ranks are asked for other tensors than each other\n  = help: give all of them the same"
        )
