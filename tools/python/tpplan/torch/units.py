"""FSDP units: all-gathers the parameters of a module and its submodules in one buffer for the module's forward.

The gathered tensors are freed after the forward. The backward gathers them again at first use and reduce-scatters
their gradients in one buffer. The next unit is prefetched while one runs: in the forward the unit that followed it in
the last step, in the backward the preceding one.

A unit holds parameters of one dtype that, among data axes, only FSDP's axis shards. All other parameters are gathered
one by one (views.py). So are parameters used while their unit does not run, and traced code, because torch.compile
orders collectives itself.
"""

import contextlib
import itertools
import math
from dataclasses import dataclass, field

import torch

from .. import slices
from ..files import printable
from .communication import joined, padded, pieces_of_ranks, raw
from .notes import passing
from .pieces import like
from .placements import DTensor
from .views import viewing


@dataclass(eq=False)
class Unit:
    """Parameters of one dtype, with their positions in the buffer that every rank sends."""

    held: list  # Held of each parameter
    steps: list  # Step of each parameter, all along the same group
    shapes: list  # shapes after the gathering; model axes still shard them
    is_freed: bool  # True to free after the forward; False for the root, whose backward needs it at once
    holders: list = field(default_factory=list)  # (module, name, i): which modules hold parameter i
    lengths: list = field(
        default_factory=list
    )  # per parameter, the largest local size of its sharded dim over the ranks
    slots: list = field(default_factory=list)  # per parameter, the number of elements that a rank sends
    ends: list = field(default_factory=list)
    are_even: list = field(default_factory=list)  # per parameter, True if concatenated shards are the full tensor
    place: str = ""  # parameter names for error notes
    next: object = None  # the unit that followed this one in the last step
    ahead: object = None  # (out, work, versions) of a prefetch

    def __post_init__(self):
        self.lengths = [max(map(sum, step.pieces)) for step in self.steps]
        self.slots = [n * math.prod(_others(shape, step)) for n, (shape, step) in zip(self.lengths, self.pairs())]
        self.ends = list(itertools.accumulate(self.slots))
        self.are_even = [s.dim == 0 and len(s.before) == 1 and len({*s.pieces}) == 1 for s in self.steps]
        others = f" and {len(self.held) - 1} more of its FSDP unit" if self.held[1:] else ""
        self.place = f"parameter `{printable(self.held[0].tensor.path)}`{others}"

    def pairs(self):
        return list(zip(self.shapes, self.steps))

    def versions(self):
        return [(held.value._version, held.value._local_tensor._version) for held in self.held]


def units_of(state):
    """Returns {module path: its units}; empty if the manifest has no FSDP axis."""
    if state.manifest.fsdp_axis is None:
        return {}
    group, paths = state.mesh.get_group(state.manifest.fsdp_axis), {*state.manifest.fsdp_units, ""}
    found = {}
    for held in state.by_id.values():
        if (
            not held.is_parameter
            or [sums for _, sums in held.way.moves] != [True]
            or held.way.moves[0][0].group != group
        ):
            continue
        path = held.tensor.path
        while path not in paths:
            path = path.rpartition(".")[0]
        found.setdefault((path, held.tensor.dtype), []).append(held)
    units, holders = {}, {}
    for module in state.model.modules():
        for name, value in module._parameters.items():
            holders.setdefault(id(value), []).append((module, name))
    for (path, _), members in found.items():
        steps = [held.way.moves[0][0] for held in members]
        shapes = [_shape(state, held.tensor, step) for held, step in zip(members, steps)]
        held_by = [(*holder, i) for i, held in enumerate(members) for holder in holders[id(held.value)]]
        units.setdefault(path, []).append(Unit(members, steps, shapes, path != "", held_by))
    return units


def _shape(state, tensor, step):
    """Returns the shape of the tensor that a step gathers on this rank."""
    shape = slices.local_shape(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)
    return (*shape[: step.dim], sum(step.before), *shape[step.dim + 1 :])


def _others(shape, step):
    return (*shape[: step.dim], *shape[step.dim + 1 :])


def _sent(unit, i, piece):
    """Returns shard `piece` of parameter i flattened, and padded to the largest shard of any rank."""
    return (piece if unit.are_even[i] else padded(piece, unit.steps[i], unit.lengths[i])).reshape(-1)


def _begin(unit):
    """Starts the all-gather of this rank's shards. Returns (output buffer, work)."""
    mine = torch.cat([_sent(unit, i, held.value._local_tensor) for i, held in enumerate(unit.held)])
    out = mine.new_empty(len(unit.steps[0].pieces) * len(mine))
    gather = getattr(torch.distributed, "all_gather_single", None) or torch.distributed.all_gather_into_tensor
    return out, gather(raw(out), raw(mine), group=unit.steps[0].group, async_op=True)


def _end(unit, out, work):
    """Waits for the all-gather and returns the gathered tensors."""
    work.wait()
    slots = torch.split_with_sizes_copy(out.view(len(unit.steps[0].pieces), -1), unit.slots, 1)
    return [_whole(unit, i, slot) for i, slot in enumerate(slots)]


def _whole(unit, i, ranks):
    shape, step = unit.shapes[i], unit.steps[i]
    if unit.are_even[i]:
        return ranks.view(shape)
    return joined([one.view(unit.lengths[i], *_others(shape, step)) for one in ranks], step)


class Run:
    """One execution of a unit's module, with the gathered tensors it uses."""

    def __init__(self, unit, previous):
        self.unit, self.previous, self.wholes, self.ahead, self.place = unit, previous, None, None, unit.place
        self.versions, self.storages = unit.versions(), {}

    def hold(self, wholes):
        self.wholes = wholes
        self.storages = {whole.untyped_storage()._cdata: i for i, whole in enumerate(wholes)}

    def again(self, i):
        """Returns gathered tensor i for the backward; the first call gathers the unit again and prefetches the
        preceding one. Raises RuntimeError if a parameter has changed since the forward."""
        if self.wholes is None:
            if self.unit.versions() != self.versions:
                raise RuntimeError(
                    f"parameter `{self.unit.held[0].tensor.path}` or another one of its FSDP unit changed between a "
                    "forward pass and its backward pass\n"
                    "  = help: call backward before the optimizer's step"
                )
            self.wholes = _end(self.unit, *(self.ahead or self.begin()))
            self.ahead, before = None, self.previous
            if before is not None and before.unit.is_freed and before.wholes is None and before.ahead is None:
                before.ahead = before.begin()
        return self.wholes[i]

    def begin(self):
        with torch.no_grad():
            return _begin(self.unit)

    def pack(self, tensor):
        local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
        i = self.storages.get(local.untyped_storage()._cdata)
        if i is None:
            return tensor
        spec = tensor._spec if isinstance(tensor, DTensor) else None
        return _Saved(self, i, local.size(), local.stride(), local.storage_offset(), spec)


@dataclass
class _Saved:
    """The object that autograd saves for backward instead of a gathered tensor: its Run, index and view."""

    run: Run
    i: int
    size: tuple
    stride: tuple
    offset: int
    spec: object


def _unpack(saved):
    if not isinstance(saved, _Saved):
        return saved
    local = saved.run.again(saved.i).as_strided(saved.size, saved.stride, saved.offset)
    return local if saved.spec is None else DTensor(local, saved.spec, requires_grad=False)


class GatherUnit(torch.autograd.Function):
    """All-gathers the parameters of a unit. The backward reduce-scatters their gradients over the FSDP axis and
    all-reduces them over the other data axes."""

    @staticmethod
    def forward(ctx, run, *parameters):
        ctx.set_materialize_grads(False)
        ctx.run, ctx.place, ahead, run.unit.ahead = run, run.unit.place, run.unit.ahead, None
        if ahead is not None and ahead[2] != run.versions:  # the prefetched values are outdated
            ahead[1].wait()
            ahead = None
        run.hold(_end(run.unit, *(ahead or _begin(run.unit))[:2]))
        return tuple(run.wholes)

    @staticmethod
    def backward(ctx, *gradients):
        passing(ctx)
        unit, ctx.run.wholes = ctx.run.unit, None
        if torch.is_grad_enabled() and any(g is not None and g.requires_grad for g in gradients):
            raise RuntimeError(
                f"parameter `{printable(unit.held[0].tensor.path)}` and its FSDP unit do not support gradients of "
                "gradients\n"
                "  = help: gather each parameter separately with parallelize(..., units=False)"
            )
        some = next(g for g in gradients if g is not None)
        count, sections = len(unit.steps[0].pieces), []
        for i, gradient in enumerate(gradients):
            if gradient is None:
                sections.append(some.new_zeros(count, unit.slots[i]))
            elif unit.are_even[i]:
                sections.append(gradient.reshape(count, -1))
            else:
                pieces = pieces_of_ranks(gradient, unit.steps[i])
                sections.append(torch.stack([_sent(unit, i, piece) for piece in pieces]))
        # The last section counts the ranks that have each gradient. A gradient that no rank has stays None, and all
        # ranks take part in the reduce_scatter.
        sections.append(some.new_tensor([g is not None for g in gradients]).expand(count, -1))
        stacked = torch.cat(sections, 1).view(-1)
        mine = stacked.new_empty(len(stacked) // count)
        scatter = getattr(torch.distributed, "reduce_scatter_single", None) or torch.distributed.reduce_scatter_tensor
        scatter(mine, stacked, group=unit.steps[0].group)
        *slots, there = mine.split_with_sizes([*unit.slots, len(gradients)])
        found = []
        for i, (gradient, slot) in enumerate(zip(gradients, slots)):
            is_there = ctx.needs_input_grad[i + 1] and (gradient is not None or there[i].item() > 0)
            found.append(_gradient(unit, i, slot) if is_there else None)
        return None, *found


def _gradient(unit, i, slot):
    """Returns a parameter's gradient from this rank's slot of the reduce_scatter."""
    shape, step, held = unit.shapes[i], unit.steps[i], unit.held[i]
    local = slot.view(unit.lengths[i], *_others(shape, step))
    if not unit.are_even[i]:
        local = local[: sum(step.pieces[step.index])].movedim(0, step.dim).contiguous()
    for group in reversed(held.way.data_sums):
        torch.distributed.all_reduce(local, group=group)
    return like(held.value, local)


@contextlib.contextmanager
def units_gathered(state, units, is_root):
    """Gathers these units for the forward of their module. `is_root`: the module is the model."""
    if torch.compiler.is_compiling():
        yield
        return
    before, runs, shown = dict(state.gathered), [], []
    if is_root:
        state.last_run, state.root_runs = None, True
    for unit in units:
        previous = state.last_run if state.root_runs else None
        run = Run(unit, previous)
        with viewing():
            wholes = GatherUnit.apply(run, *[held.value for held in unit.held])
        state.gathered.update((id(held.value), whole) for held, whole in zip(unit.held, wholes))
        if state.model_mesh is None:
            shown += _show(unit, wholes)
        runs.append(run)
        if state.root_runs:  # False if a checkpoint recomputes the forward
            if previous is not None:
                previous.unit.next = unit
            state.last_run = run
            if unit.next is not None and unit.next.ahead is None:
                begun = Run(unit.next, None).begin()
                unit.next.ahead = (*begun, unit.next.versions())
    try:
        with contextlib.ExitStack() as stack:
            freed = [run for run in runs if run.unit.is_freed]
            if freed and torch.is_grad_enabled() and not _has_hooks():
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda t: _packed(freed, t), _unpack))
            yield
    finally:
        state.gathered = before
        for module, name in shown:
            module.__dict__.pop(name, None)
        for run in runs:
            run.wholes = None  # tensors that autograd has saved itself stay alive
        if is_root:
            state.root_runs = False


def _show(unit, wholes):
    """Sets the gathered tensors as attributes of the modules that hold the parameters. Returns [(module, name)] of
    those set. A replaced parameter is skipped; views() reports it."""
    shown = []
    for module, name, i in unit.holders:
        if module._parameters.get(name) is unit.held[i].value and name not in module.__dict__:
            module.__dict__[name] = wholes[i]
            shown.append((module, name))
    return shown


def _has_hooks():
    """Returns True if other saved-tensor hooks are active, such as those of a checkpoint."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top is not None and top(True) is not None


def _packed(runs, tensor):
    for run in runs:
        kept = run.pack(tensor)
        if kept is not tensor:
            return kept
    return tensor
