"""Units of FSDP: what a module holds, with all below it, is gathered at once, in one buffer, while it runs. Behind it the whole tensors
are freed, and gathered again where the backward pass first asks for one of them; their gradients leave in one buffer, too. While a
unit runs the next one is on its way: the one that came behind it in the step before, or in the backward pass the one before it.

Units hold what only FSDP's axis cuts beside model axes, each type of numbers apart; all else is gathered parameter by parameter
(views.py), and so is all that is used where its unit does not run, and what torch.compile sees, which orders calls itself."""

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
    """Parameters of one type, and where each stands in the buffer that every rank sends."""

    held: list  # of Held
    steps: list  # of Step, each along the same group
    shapes: list  # of the whole tensors, as model axes cut them
    is_freed: bool  # behind the module's forward; the root's would be asked for at once
    holders: list = field(default_factory=list)  # (module, name, i): which modules hold parameter i
    lengths: list = field(default_factory=list)  # of the longest piece of each, along its dim
    slots: list = field(default_factory=list)  # how many numbers of each a rank sends
    ends: list = field(default_factory=list)
    are_even: list = field(default_factory=list)  # pieces that stand one behind the other in the whole
    place: str = ""  # whose tensors these are, for people
    next: object = None  # the unit that ran behind this one in the last step
    ahead: object = None  # (out, work, versions) of a gathering that was begun

    def __post_init__(self):
        self.lengths = [max(map(sum, step.pieces)) for step in self.steps]
        self.slots = [n * math.prod(_others(shape, step)) for n, (shape, step) in zip(self.lengths, self.pairs())]
        self.ends = list(itertools.accumulate(self.slots))
        self.are_even = [s.dim == 0 and len(s.before) == 1 and len({*s.pieces}) == 1 for s in self.steps]
        others = f" and {len(self.held) - 1} more of its unit" if self.held[1:] else ""
        self.place = f"parameter `{printable(self.held[0].tensor.path)}`{others}"

    def pairs(self):
        return list(zip(self.shapes, self.steps))

    def versions(self):
        return [(held.value._version, held.value._local_tensor._version) for held in self.held]


def units_of(state):
    """{path: the units that its module gathers}."""
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
    """What a step gives: the shape of the piece that this rank holds, with the dim as it is without the step."""
    shape = slices.local_shape(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)
    return (*shape[: step.dim], sum(step.before), *shape[step.dim + 1 :])


def _others(shape, step):
    return (*shape[: step.dim], *shape[step.dim + 1 :])


def _sent(unit, i, piece):
    """The numbers of a piece of parameter i, as long as those of any rank."""
    return (piece if unit.are_even[i] else padded(piece, unit.steps[i], unit.lengths[i])).reshape(-1)


def _begin(unit):
    """Sends this rank's pieces: (what comes, the work)."""
    mine = torch.cat([_sent(unit, i, held.value._local_tensor) for i, held in enumerate(unit.held)])
    out = mine.new_empty(len(unit.steps[0].pieces) * len(mine))
    gather = getattr(torch.distributed, "all_gather_single", None) or torch.distributed.all_gather_into_tensor
    return out, gather(raw(out), raw(mine), group=unit.steps[0].group, async_op=True)


def _end(unit, out, work):
    """The whole tensors, of what has come."""
    work.wait()
    slots = torch.split_with_sizes_copy(out.view(len(unit.steps[0].pieces), -1), unit.slots, 1)
    return [_whole(unit, i, slot) for i, slot in enumerate(slots)]


def _whole(unit, i, ranks):
    shape, step = unit.shapes[i], unit.steps[i]
    if unit.are_even[i]:
        return ranks.view(shape)
    return joined([one.view(unit.lengths[i], *_others(shape, step)) for one in ranks], step)


class Run:
    """One run of a unit's module, and the whole tensors that it holds."""

    def __init__(self, unit, previous):
        self.unit, self.previous, self.wholes, self.ahead, self.place = unit, previous, None, None, unit.place
        self.versions, self.storages = unit.versions(), {}

    def hold(self, wholes):
        self.wholes = wholes
        self.storages = {whole.untyped_storage()._cdata: i for i, whole in enumerate(wholes)}

    def again(self, i):
        """A whole tensor for the backward pass; the first one gathers all."""
        if self.wholes is None:
            if self.unit.versions() != self.versions:
                raise RuntimeError(
                    f"parameter `{self.unit.held[0].tensor.path}`, or one that is gathered with it, was changed between a forward "
                    "pass and its backward pass\n  = help: call backward before the optimizer's step"
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
    """What autograd keeps in a whole tensor's place."""

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
    """The whole tensors of a unit, of its parameters; their gradients are summed, cut as the parameters are, and summed over
    the other data axes."""

    @staticmethod
    def forward(ctx, run, *parameters):
        ctx.set_materialize_grads(False)
        ctx.run, ctx.place, ahead, run.unit.ahead = run, run.unit.place, run.unit.ahead, None
        if ahead is not None and ahead[2] != run.versions:  # of values that are no more
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
                f"parameter `{printable(unit.held[0].tensor.path)}`, and what is gathered with it: gradients of gradients do not come "
                "through a unit of FSDP\n  = help: gather parameter by parameter, with parallelize(..., units=False)"
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
        # Behind them, how many ranks have each gradient: one that no rank has stays none, and nobody waits for another.
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
    """A parameter's gradient, of this rank's part of what was scattered."""
    shape, step, held = unit.shapes[i], unit.steps[i], unit.held[i]
    local = slot.view(unit.lengths[i], *_others(shape, step))
    if not unit.are_even[i]:
        local = local[: sum(step.pieces[step.index])].movedim(0, step.dim).contiguous()
    for group in reversed(held.way.data_sums):
        torch.distributed.all_reduce(local, group=group)
    return like(held.value, local)


@contextlib.contextmanager
def units_gathered(state, units, is_root):
    """While a module runs that gathers these units."""
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
        if state.root_runs:  # not where a checkpoint runs again
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
            run.wholes = None  # what autograd holds itself stays
        if is_root:
            state.root_runs = False


def _show(unit, wholes):
    """Lets the modules that hold a unit's parameters find the whole tensors in their place: which ones. One whose parameter was
    replaced is left to say so."""
    shown = []
    for module, name, i in unit.holders:
        if module._parameters.get(name) is unit.held[i].value and name not in module.__dict__:
            module.__dict__[name] = wholes[i]
            shown.append((module, name))
    return shown


def _has_hooks():
    """Whether a checkpoint, or whoever else, keeps what is saved in its own way."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top is not None and top(True) is not None


def _packed(runs, tensor):
    for run in runs:
        kept = run.pack(tensor)
        if kept is not tensor:
            return kept
    return tensor
