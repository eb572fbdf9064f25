"""Communication: the pieces of one dim along one axis. All of it is exact for uneven pieces and for segments."""

from dataclasses import dataclass

import torch

from .. import slices
from ..compiled import said_by_first
from ..files import printable
from .notes import passing


@dataclass(frozen=True)
class Step:
    """One axis that cuts one dim of a tensor last: `before` are the lengths of the dim's runs without it, `pieces[i]` those
    that rank i of the axis holds."""

    dim: int
    group: object
    before: tuple
    pieces: tuple
    index: int
    place: str = "a piece"  # whose dim it is, for people


@dataclass(frozen=True)
class Cutting:
    """How a tensor is cut over a mesh of (name, size), and which coordinate this rank has: what says the elements it holds."""

    path: str
    shape: tuple
    spec: tuple
    segments: dict
    mesh: tuple
    coordinate: dict


def alike(one, other):
    """Whether two tensors are cut so that pieces of one rank hold elements of the same places."""
    return (one.shape, one.spec, one.segments) == (other.shape, other.spec, other.segments)


def step_of(cutting, device_mesh, dim, axes):
    """The cut of dim `dim` by the last of `axes`, after the others."""
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
    """The pieces of all ranks of the axis, cut out of a tensor that has the dim's runs whole."""
    runs = torch.split(whole, list(step.before), step.dim)
    parts = [torch.split(run, [piece[i] for piece in step.pieces], step.dim) for i, run in enumerate(runs)]
    return [
        torch.cat([part[rank] for part in parts], step.dim) if len(parts) > 1 else parts[0][rank]
        for rank in range(len(step.pieces))
    ]


def padded(tensor, step, length):
    """The tensor with the dim in front, and zeros behind it up to `length`."""
    moved = tensor.movedim(step.dim, 0)
    if moved.shape[0] == length:
        return moved.contiguous()
    padded = moved.new_zeros((length, *moved.shape[1:]))
    padded[: moved.shape[0]] = moved
    return padded


def raw(tensor):
    """The bytes of a contiguous tensor: backends do not know all types."""
    return tensor.reshape(-1).view(torch.uint8)


def all_gather(local, step):
    """The dim's runs whole along the axis, of every rank's piece."""
    length = max(sum(piece) for piece in step.pieces)
    mine = padded(local, step, length)
    gathered = [torch.empty_like(mine) for _ in step.pieces]
    torch.distributed.all_gather([raw(g) for g in gathered], raw(mine), group=step.group)
    return joined(gathered, step)


def joined(gathered, step):
    """The dim's runs whole, of the padded pieces of every rank, which have the dim in front."""
    parts = [
        torch.split(g[: sum(piece)].movedim(0, step.dim), list(piece), step.dim)
        for g, piece in zip(gathered, step.pieces)
    ]
    return torch.cat([part[i] for i in range(len(step.before)) for part in parts], step.dim).contiguous()


def _reduce_scatter(whole, step):
    """This rank's piece of the sum of every rank's runs."""
    length = max(sum(piece) for piece in step.pieces)
    stacked = torch.cat([padded(piece, step, length) for piece in pieces_of_ranks(whole, step)])
    mine = stacked.new_empty((length, *stacked.shape[1:]))
    scatter = getattr(torch.distributed, "reduce_scatter_single", None) or torch.distributed.reduce_scatter_tensor
    scatter(mine, stacked, group=step.group)
    return mine[: sum(step.pieces[step.index])].movedim(0, step.dim).contiguous()


def all_reduce(value, group):
    """The sum of every rank's value, in memory of its own."""
    sent = torch.ops._c10d_functional.all_reduce(value.contiguous(), "sum", group.group_name)
    return torch.ops._c10d_functional.wait_tensor(sent)


def from_first_rank(whole, mesh):
    """The tensor as the first rank of the mesh holds it: axis by axis."""
    whole = whole.clone(memory_format=torch.contiguous_format)
    for axis in reversed(range(mesh.ndim)):
        if mesh.size(axis) > 1:
            group = mesh.get_group(axis)
            torch.distributed.broadcast(raw(whole), torch.distributed.get_global_rank(group, 0), group=group)
    return whole


def said_by_first_rank(make, mesh):
    """What make() returns on the mesh's first rank, a JSON value, on all ranks (said_by_first)."""
    is_first = not any(mesh.get_coordinate())

    def send(data):
        length = int(from_first_rank(torch.tensor([len(data)], device=mesh.device_type), mesh))
        buffer = torch.frombuffer(bytearray(data if is_first else length), dtype=torch.uint8).to(mesh.device_type)
        return from_first_rank(buffer, mesh).cpu().numpy().tobytes()

    return said_by_first(make, is_first, send)


# The gradient of each of these is another of them, so that gradients have gradients.


class Gather(torch.autograd.Function):
    """Whole along one axis; the gradient is summed and cut (`sums`), or is the same on all ranks and only cut."""

    @staticmethod
    def forward(ctx, local, step, sums):
        ctx.step, ctx.sums, ctx.place = step, sums, step.place
        return all_gather(local, step)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return (Scatter if ctx.sums else Cut).apply(gradient, ctx.step), None, None


class Cut(torch.autograd.Function):
    """This rank's piece along one axis; the gradients of the pieces are put together."""

    @staticmethod
    def forward(ctx, whole, step):
        ctx.step, ctx.place = step, step.place
        return pieces_of_ranks(whole, step)[step.index].clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return Gather.apply(gradient, ctx.step, False), None


class Scatter(torch.autograd.Function):
    """This rank's piece along one axis of the sum of every rank's; the gradients of the pieces are put together."""

    @staticmethod
    def forward(ctx, whole, step):
        ctx.step, ctx.place = step, step.place
        return _reduce_scatter(whole, step)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return Gather.apply(gradient, ctx.step, True), None


class SumGradient(torch.autograd.Function):
    """The same value; its gradient is summed over the ranks of an axis. `place` says whose it is, for people."""

    @staticmethod
    def forward(ctx, value, group, place="a value"):
        ctx.group, ctx.place = group, place
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return SumOpen.apply(gradient, ctx.group, ctx.place), None, None


class SumOpen(torch.autograd.Function):
    """The sum of every rank's value over an axis; its gradient is whole on every rank, and is the terms', too. `place` as above."""

    @staticmethod
    def forward(ctx, value, group, place="a value"):
        ctx.group, ctx.place = group, place
        return all_reduce(value, group)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        return SumGradient.apply(gradient, ctx.group, ctx.place), None, None
