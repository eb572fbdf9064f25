"""Views: parameters and buffers gathered over the data axes for the forward of their module."""

import contextlib
import threading
from dataclasses import dataclass

import torch

from .. import slices
from ..files import printable
from .communication import Cut, Gather, SumGradient, step_of
from .notes import passing
from .placements import DTensor, ensure_dtensor, from_local, placement
from .state import Held, cutting_of, is_fused
from .styles import sums_tail_gradient

_running = threading.local()  # viewing: the thread is inside view


def is_viewing():
    return getattr(_running, "viewing", False)


@dataclass(frozen=True)
class Way:
    """How a parameter becomes its view, computed once. Steps and groups are in the order of application in the
    forward. `open_sums` are the groups of model axes over which the gradient of a plain view is all-reduced."""

    data_sums: tuple
    moves: tuple  # (Step, None) slices; (Step, sums) all-gathers, and sums gradients if `sums`
    open_sums: tuple
    is_fused: bool
    placements: tuple
    as_it_is: bool  # True if the DTensor is used unchanged
    place: str  # parameter name for error notes


class Shown(torch.autograd.Function):
    """Returns a parameter as another DTensor with the same memory. The backward redistributes its gradient to the
    parameter's placements."""

    @staticmethod
    def forward(ctx, value, place):
        ctx.set_materialize_grads(False)
        ctx.placements, ctx.place = value.placements, place
        return DTensor(value._local_tensor.detach(), value._spec, requires_grad=value.requires_grad)

    @staticmethod
    def backward(ctx, gradient):
        passing(ctx)
        if gradient is None or gradient.placements == ctx.placements:
            return gradient, None
        return gradient.redistribute(placements=ctx.placements), None


def way_of(state, tensor):
    """Returns the Way of a parameter: gather it over the data axes, so that model axes alone shard it.

    The backward follows the manifest's `steps`: it reduce-scatters the gradient over the data axes that shard the
    parameter, and all-reduces it over the others.
    """
    cuts = {name for name, size in state.manifest.mesh if size > 1}
    cutting, moves = cutting_of(state, tensor), []
    for dim, axes in reversed(list(enumerate(tensor.spec))):
        held = [axis for axis in axes if axis in cuts]
        kept = [axis for axis in held if axis not in state.data_axes]
        while any(axis in state.data_axes for axis in held):
            moves.append((step_of(cutting, state.mesh, dim, held), held[-1] in state.data_axes))
            held.pop()
        moves += [(step_of(cutting, state.mesh, dim, kept[: i + 1]), None) for i in range(len(held), len(kept))]
    spec = [tuple(axis for axis in axes if axis in state.model_axes) for axes in tensor.spec]
    mesh = [(name, size) for name, size in state.manifest.mesh if name in state.model_axes]
    data_sums, fused = _groups_to_sum(state, tensor, state.data_axes), is_fused(state, tensor)
    open_axes = () if sums_tail_gradient(tensor.style) else state.model_axes
    return Way(
        data_sums,
        tuple(moves),
        _groups_to_sum(state, tensor, open_axes),
        fused,
        tuple(placement(text) for text in slices.placements_of(spec, {}, mesh)),
        state.model_mesh is state.mesh and not data_sums and not moves and not fused,
        f"parameter `{printable(tensor.path)}`",
    )


def _groups_to_sum(state, tensor, axes):
    """Returns the groups of those `axes` that do not shard the tensor and over which `grad_reduce` sums its gradient.
    The order is reversed, because the backward runs in reverse."""
    done = slices.used_axes(tensor.spec) | {name for name, size in state.manifest.mesh if size == 1}
    return tuple(
        state.mesh.get_group(axis) for axis, _ in reversed(tensor.grad_reduce) if axis in axes and axis not in done
    )


def sum_gradient(local, groups, place):
    for group in groups if torch.is_grad_enabled() else ():
        local = SumGradient.apply(local, group, place)
    return local


def view(state, value, plain):
    """Returns a parallelized parameter or buffer gathered over the data axes: as a plain tensor, or as a DTensor on
    the model axes."""
    before, _running.viewing = is_viewing(), True
    try:
        return _make_view(state, value, plain)
    finally:
        _running.viewing = before


@contextlib.contextmanager
def viewing():
    """Disables the replacement of parameters by views in this thread."""
    before, _running.viewing = is_viewing(), True
    try:
        yield
    finally:
        _running.viewing = before


def _make_view(state, value, plain):
    held = state.by_id.get(id(value))
    if held is None:
        return value
    tensor, way = held.tensor, held.way
    # The view is always a new tensor object, never the parameter itself.
    if (
        held.is_parameter
        and way.as_it_is
        and not plain
        and type(value) is DTensor
        and not torch.compiler.is_compiling()
    ):
        return Shown.apply(value, way.place)
    local = state.gathered.get(id(value))
    if local is None:
        local = value.to_local() if isinstance(value, DTensor) else value.view_as(value)
        if not held.is_parameter:
            return local
        local = sum_gradient(local, way.data_sums, way.place)
        for step, sums in way.moves:
            local = Cut.apply(local, step) if sums is None else Gather.apply(local, step, sums)
    if plain or state.model_mesh is None:
        return sum_gradient(local, way.open_sums, way.place)
    if way.is_fused:
        raise ValueError(
            f"parameter `{printable(tensor.path)}` is sharded per segment, so it cannot be combined with "
            "DTensors\n"
            "  = help: use it only in the forward of its module"
        )
    return from_local(local, state.model_mesh, way.placements, tensor.shape)


@contextlib.contextmanager
def views(state, module, plain, instead):
    """Replaces the module's direct parameters and buffers by views, or by the values of `instead`, {name: value},
    during its forward. A value that the module assigns to a buffer persists."""
    parameters = {name: p for name, p in module._parameters.items() if p is not None}
    buffers = {name: b for name, b in module._buffers.items() if isinstance(b, DTensor)}
    for name, value in (*parameters.items(), *buffers.items()):
        if id(value) not in state.by_id:
            raise ValueError(
                f"`{printable(name)}` of a {type(module).__name__} was replaced after the model was parallelized\n"
                "  = help: convert or change the model (.to(), .half(), new parameters) before parallelize"
            )
    shown = {name: view(state, b, plain) for name, b in buffers.items()}
    before = {name: module.__dict__[name] for name in parameters if name in module.__dict__}
    for name, parameter in parameters.items():
        module.__dict__[name] = instead[name] if name in instead else view(state, parameter, plain)
    module._buffers.update(shown)
    try:
        yield
    finally:
        for name in parameters:
            module.__dict__.pop(name, None)
        module.__dict__.update(before)
        for name, buffer in buffers.items():
            assigned = module._buffers.get(name)
            module._buffers[name] = buffer if assigned is shown[name] else _spread_buffer(state, buffer, assigned)


def _spread_buffer(state, old, assigned):
    """Returns a buffer that its module has assigned, as a replicated DTensor in place of the old one."""
    if assigned is None:
        return None
    held = state.by_id.pop(id(old))
    value = ensure_dtensor(assigned.to_local() if isinstance(assigned, DTensor) else assigned, state.mesh)
    state.by_id[id(value)] = Held(held.tensor, value, False)
    return value
