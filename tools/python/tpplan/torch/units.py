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
from .communication import joined, padded, pieces_of_ranks, raw
from .placements import DTensor
from .views import sum_gradient, viewing


@dataclass(eq=False)
class Unit:
    """Parameters of one type, and where each stands in the buffer that every rank sends."""

    held: list  # of Held
    steps: list  # of Step, each along the same group
    shapes: list  # of the whole tensors, as model axes cut them
    is_freed: bool  # behind the module's forward; the root's would be asked for at once
    ends: list = field(default_factory=list)
    next: object = None  # the unit that ran behind this one in the last step
    ahead: object = None  # (out, work, versions) of a gathering that was begun

    def __post_init__(self):
        lengths = [max(map(sum, step.pieces)) * math.prod(_others(shape, step)) for shape, step in self.pairs()]
        self.ends = list(itertools.accumulate(lengths))

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
    units = {}
    for (path, _), members in found.items():
        steps = [held.way.moves[0][0] for held in members]
        shapes = [_shape(state, held.tensor, step) for held, step in zip(members, steps)]
        units.setdefault(path, []).append(Unit(members, steps, shapes, path != ""))
    return units


def _shape(state, tensor, step):
    """What a step gives: the shape of the piece that this rank holds, with the dim as it is without the step."""
    shape = slices.local_shape(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)
    return (*shape[: step.dim], sum(step.before), *shape[step.dim + 1 :])


def _others(shape, step):
    return (*shape[: step.dim], *shape[step.dim + 1 :])


def _begin(unit, locals_):
    """Sends this rank's pieces: (what comes, the work)."""
    lengths = [max(map(sum, step.pieces)) for step in unit.steps]
    mine = torch.cat([padded(t, s, n).reshape(-1) for t, s, n in zip(locals_, unit.steps, lengths)])
    out = mine.new_empty(len(unit.steps[0].pieces) * len(mine))
    gather = getattr(torch.distributed, "all_gather_single", None) or torch.distributed.all_gather_into_tensor
    return out, gather(raw(out), raw(mine), group=unit.steps[0].group, async_op=True)


def _end(unit, out, work):
    """The whole tensors, of what has come."""
    work.wait()
    ranks = out.view(len(unit.steps[0].pieces), -1)
    slots = [ranks[:, end - slot_of(unit, i) : end] for i, end in enumerate(unit.ends)]
    return [_whole(shape, step, slot) for (shape, step), slot in zip(unit.pairs(), slots)]


def slot_of(unit, i):
    """How long the slot of a parameter is."""
    return unit.ends[i] - (unit.ends[i - 1] if i else 0)


def _is_even(step):
    return step.dim == 0 and len(step.before) == 1 and len({piece for piece in step.pieces}) == 1


def _whole(shape, step, ranks):
    if _is_even(step):
        return ranks.reshape(shape)
    length = max(map(sum, step.pieces))
    return joined([one.reshape(length, *_others(shape, step)) for one in ranks], step)


class Run:
    """One run of a unit's module, and the whole tensors that it holds."""

    def __init__(self, unit, previous):
        self.unit, self.previous, self.wholes, self.ahead = unit, previous, None, None
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
            return _begin(self.unit, [held.value._local_tensor for held in self.unit.held])

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
    """The whole tensors of a unit; their gradients are summed and cut."""

    @staticmethod
    def forward(ctx, run, *locals_):
        ctx.set_materialize_grads(False)
        ctx.run, ahead, run.unit.ahead = run, run.unit.ahead, None
        if ahead is not None and ahead[2] != run.versions:  # of values that are no more
            ahead[1].wait()
            ahead = None
        run.hold(_end(run.unit, *(ahead or _begin(run.unit, locals_))[:2]))
        return tuple(run.wholes)

    @staticmethod
    def backward(ctx, *gradients):
        unit, ctx.run.wholes = ctx.run.unit, None
        some = next(g for g in gradients if g is not None)
        count, sections = len(unit.steps[0].pieces), []
        for i, (shape, step) in enumerate(unit.pairs()):
            if gradients[i] is None:
                sections.append(some.new_zeros(count, slot_of(unit, i)))
            elif _is_even(step):
                sections.append(gradients[i].reshape(count, -1))
            else:
                length = max(map(sum, step.pieces))
                parts = [padded(piece, step, length).reshape(1, -1) for piece in pieces_of_ranks(gradients[i], step)]
                sections.append(torch.cat(parts))
        # Behind them, how many ranks have each gradient: one that no rank has stays none, and nobody waits for another.
        sections.append(some.new_tensor([g is not None for g in gradients]).expand(count, -1))
        stacked = torch.cat(sections, 1).reshape(-1)
        mine = stacked.new_empty(len(stacked) // count)
        scatter = getattr(torch.distributed, "reduce_scatter_single", None) or torch.distributed.reduce_scatter_tensor
        scatter(mine, stacked, group=unit.steps[0].group)
        found = []
        for i, (shape, step) in enumerate(unit.pairs()):
            there = ctx.needs_input_grad[i + 1] and (gradients[i] is not None or mine[unit.ends[-1] + i].item() > 0)
            slot = mine[unit.ends[i] - slot_of(unit, i) : unit.ends[i]]
            found.append(_mine(slot, shape, step) if there else None)
        return None, *found


def _mine(slot, shape, step):
    own = slot.view(max(map(sum, step.pieces)), *_others(shape, step))[: sum(step.pieces[step.index])]
    return own.movedim(0, step.dim).contiguous()


@contextlib.contextmanager
def units_gathered(state, units, is_root):
    """While a module runs that gathers these units."""
    if torch.compiler.is_compiling():
        yield
        return
    before, runs = dict(state.gathered), []
    if is_root:
        state.last_run, state.root_runs = None, True
    for unit in units:
        previous = state.last_run if state.root_runs else None
        run = Run(unit, previous)
        with viewing():
            locals_ = [sum_gradient(held.value.to_local(), held.way.data_sums) for held in unit.held]
            wholes = GatherUnit.apply(run, *locals_)
        state.gathered.update((id(held.value), whole) for held, whole in zip(unit.held, wholes))
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
        for run in runs:
            run.wholes = None  # what autograd holds itself stays
        if is_root:
            state.root_runs = False


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
