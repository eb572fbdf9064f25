"""Collectives on the shards of one dim along one mesh axis. All of them are exact for uneven shards and for segments."""

from dataclasses import dataclass

import torch

from .. import slices
from ..compiled import said_by_first
from ..files import printable
from .notes import passing


@dataclass(frozen=True)
class Step:
    """The shards of one dim over one mesh axis, the last of the axes that shard the dim.

    A dim is one interval, or one per segment. `before` holds the lengths of the intervals under the preceding axes
    only; `pieces[i]` holds those on rank i of the axis. `index` is this rank's index on the axis.
    """

    dim: int
    group: object
    before: tuple
    pieces: tuple
    index: int
    place: str = "a shard"  # tensor name for error notes


@dataclass(frozen=True)
class Cutting:
    """The sharding of a tensor over a mesh of (name, size), with this rank's coordinate: together they determine the
    local elements.
    """

    path: str
    shape: tuple
    spec: tuple
    segments: dict
    mesh: tuple
    coordinate: dict


def alike(one, other):
    """Returns True if the local shards of two tensors hold the same indices on every rank."""
    return (one.shape, one.spec, one.segments) == (other.shape, other.spec, other.segments)


def step_of(cutting, device_mesh, dim, axes):
    """Returns the Step of dim `dim` for the last of `axes`; the dim is already sharded over the preceding ones."""
    sizes, axis = dict(cutting.mesh), axes[-1]
    runs = [
        slices.cut(run, axes[:-1], cutting.mesh, cutting.coordinate)
        for run in slices.segment_runs(cutting.shape[dim], cutting.segments.get(dim))
    ]
    pieces = tuple(
        tuple(e - b for b, e in (slices.chunk(*run, sizes[axis], i) for run in runs)) for i in range(sizes[axis])
    )
    before, place = tuple(e - b for b, e in runs), f"`{printable(cutting.path)}`"
    return Step(dim, device_mesh.get_group(axis), before, pieces, cutting.coordinate[axis], place)


def pieces_of_ranks(whole, step):
    """Returns the shards of all ranks of the axis, sliced from a tensor that is full along the axis."""
    runs = torch.split(whole, list(step.before), step.dim)
    parts = [torch.split(run, [piece[i] for piece in step.pieces], step.dim) for i, run in enumerate(runs)]
    return [
        torch.cat([part[rank] for part in parts], step.dim) if len(parts) > 1 else parts[0][rank]
        for rank in range(len(step.pieces))
    ]


def padded(tensor, step, length):
    """Returns a contiguous copy with the dim moved to the front and zero-padded to `length`."""
    moved = tensor.movedim(step.dim, 0)
    if moved.shape[0] == length:
        return moved.contiguous()
    padded = moved.new_zeros((length, *moved.shape[1:]))
    padded[: moved.shape[0]] = moved
    return padded


def raw(tensor):
    """Returns the bytes of a contiguous tensor, because some backends do not support all dtypes."""
    return tensor.reshape(-1).view(torch.uint8)


def all_gather(local, step):
    """Returns the tensor all-gathered along the step's axis; `local` is this rank's shard."""
    length = max(sum(piece) for piece in step.pieces)
    mine = padded(local, step, length)
    gathered = [torch.empty_like(mine) for _ in step.pieces]
    torch.distributed.all_gather([raw(g) for g in gathered], raw(mine), group=step.group)
    return joined(gathered, step)


def joined(gathered, step):
    """Concatenates the padded shards of all ranks, which have the dim in front, into the full intervals of the dim."""
    parts = [
        torch.split(g[: sum(piece)].movedim(0, step.dim), list(piece), step.dim)
        for g, piece in zip(gathered, step.pieces)
    ]
    return torch.cat([part[i] for i in range(len(step.before)) for part in parts], step.dim).contiguous()


def _reduce_scatter(whole, step):
    """Returns this rank's shard of the sum over the ranks of the axis."""
    length = max(sum(piece) for piece in step.pieces)
    stacked = torch.cat([padded(piece, step, length) for piece in pieces_of_ranks(whole, step)])
    mine = stacked.new_empty((length, *stacked.shape[1:]))
    scatter = getattr(torch.distributed, "reduce_scatter_single", None) or torch.distributed.reduce_scatter_tensor
    scatter(mine, stacked, group=step.group)
    return mine[: sum(step.pieces[step.index])].movedim(0, step.dim).contiguous()


def all_reduce(value, group):
    """Returns the sum over the ranks of the group, as a new tensor."""
    sent = torch.ops._c10d_functional.all_reduce(value.contiguous(), "sum", group.group_name)
    return torch.ops._c10d_functional.wait_tensor(sent)


def from_first_rank(whole, mesh):
    """Returns the tensor of the mesh's first rank on all ranks, broadcast one axis at a time."""
    whole = whole.clone(memory_format=torch.contiguous_format)
    for axis in reversed(range(mesh.ndim)):
        if mesh.size(axis) > 1:
            group = mesh.get_group(axis)
            torch.distributed.broadcast(raw(whole), torch.distributed.get_global_rank(group, 0), group=group)
    return whole


def said_by_first_rank(make, mesh):
    """Calls make() on the mesh's first rank and returns its result, a JSON value, on all ranks. See said_by_first."""
    is_first = not any(mesh.get_coordinate())

    def send(data):
        length = int(from_first_rank(torch.tensor([len(data)], device=mesh.device_type), mesh))
        buffer = torch.frombuffer(bytearray(data if is_first else length), dtype=torch.uint8).to(mesh.device_type)
        return from_first_rank(buffer, mesh).cpu().numpy().tobytes()

    return said_by_first(make, is_first, send)


# The backward of each of these functions applies another of them, so that double backward works.


class Gather(torch.autograd.Function):
    """All-gathers along one axis. The backward reduce-scatters the gradient if `sums`, and slices it otherwise,
    because it is then the same on all ranks."""

    @staticmethod
    def forward(ctx, local, step, sums):
        ctx.step, ctx.sums, ctx.place = step, sums, step.place
        return all_gather(local, step)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return (Scatter if ctx.sums else Cut).apply(gradient, ctx.step), None, None


class Cut(torch.autograd.Function):
    """Slices this rank's shard along one axis. The backward all-gathers the gradient."""

    @staticmethod
    def forward(ctx, whole, step):
        ctx.step, ctx.place = step, step.place
        return pieces_of_ranks(whole, step)[step.index].clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return Gather.apply(gradient, ctx.step, False), None


class Scatter(torch.autograd.Function):
    """Reduce-scatters along one axis. The backward all-gathers the gradient."""

    @staticmethod
    def forward(ctx, whole, step):
        ctx.step, ctx.place = step, step.place
        return _reduce_scatter(whole, step)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return Gather.apply(gradient, ctx.step, True), None


class SumGradient(torch.autograd.Function):
    """Returns the value unchanged. The backward all-reduces its gradient over the group. `place` names the value in
    error notes."""

    @staticmethod
    def forward(ctx, value, group, place="a value"):
        ctx.group, ctx.place = group, place
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return SumOpen.apply(gradient, ctx.group, ctx.place), None, None


class SumOpen(torch.autograd.Function):
    """All-reduces a partial value over the group. The backward passes the gradient unchanged. `place` names the value
    in error notes."""

    @staticmethod
    def forward(ctx, value, group, place="a value"):
        ctx.group, ctx.place = group, place
        return all_reduce(value, group)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return SumGradient.apply(gradient, ctx.group, ctx.place), None, None
