"""Proofs of what a manifest says twice: placements, local shapes, replicas and collectives follow from specs and layouts."""

import math
import re

from .. import slices
from ..files import printable
from .manifest import COMPILE_AGAIN, ManifestError
from .totals import counted, sum_totals

MAX_LOCAL_SHAPES = 1 << 16
OPEN = "Partial(sum)"


def prove_tensor(where, tensor, mesh, uneven):
    """What is written must be what the spec says."""
    if not slices.is_legal(tensor.shape, tensor.spec, tensor.segments, mesh, uneven):
        raise ManifestError(
            where,
            f"the spec {[list(axes) for axes in tensor.spec]} is not legal for shape {list(tensor.shape)}",
            COMPILE_AGAIN,
        )
    derived = slices.placements_of(tensor.spec, tensor.segments, mesh)
    count = slices.shard_count(tensor.spec, mesh)
    if (None if derived is None else tuple(derived)) != tensor.placements:
        raise ManifestError(where, "`placements` are not what its spec says", COMPILE_AGAIN)
    if tuple(map(tuple, _local_shapes(where, tensor, mesh))) != tensor.local_shapes:
        raise ManifestError(where, "`local_shape` is not what its spec says", COMPILE_AGAIN)
    _prove_offsets(where, tensor, mesh)
    if tensor.replicas != math.prod(size for _, size in mesh) // count:
        raise ManifestError(where, "`replicas` is not what its spec says", COMPILE_AGAIN)
    if tensor.norm_weight is not None and tensor.norm_weight * tensor.replicas != 1:
        raise ManifestError(where, "`norm_weight` is not 1 over `replicas`", COMPILE_AGAIN)
    for axis, kind in tensor.grad_reduce:
        wanted = "reduce_scatter" if any(axis in axes for axes in tensor.spec) else "all_reduce"
        if kind != wanted:
            raise ManifestError(
                where,
                f"its gradient is written to {printable(kind)} over `{axis}`, where its spec says {wanted}",
                COMPILE_AGAIN,
            )


def _prove_offsets(where, tensor, mesh):
    """The offsets say of the first rank, the last one, and the first along each axis what the spec says."""
    if [dim for dim, _, _ in tensor.offsets] != [dim for dim, axes in enumerate(tensor.spec) if axes]:
        raise ManifestError(where, "`offsets` are not of the dims that its spec cuts", COMPILE_AGAIN)
    distances = [math.prod(size for _, size in mesh[axis + 1 :]) for axis in range(len(mesh))]
    last = math.prod(size for _, size in mesh) - 1
    for rank in {0, last, *(min(distance, last) for distance in distances)}:
        coordinate = slices.coordinate_of(mesh, rank)
        held = slices.shard_slice(tensor.shape, tensor.spec, tensor.segments, mesh, coordinate)
        for dim, levels, segments in tensor.offsets:
            if any(len(level) != 3 or 0 in level for level in levels):
                raise ManifestError(where, "`offsets` have levels of ranks that are none", COMPILE_AGAIN)
            piece = sum(rank // stride % count * pieces for stride, count, pieces in levels)
            lengths = [[size for count, size in runs for _ in range(count)] for runs in segments if _are_runs(runs)]
            if any(piece >= len(sizes) for sizes in lengths) or len(lengths) != len(held[dim]):
                raise ManifestError(where, "`offsets` have other pieces than its spec", COMPILE_AGAIN)
            begin = 0
            for sizes, (first, end) in zip(lengths, held[dim], strict=True):
                found = begin + sum(sizes[:piece])
                if sizes[piece] != end - first or (end > first and found != first):
                    raise ManifestError(where, "`offsets` are not what its spec says", COMPILE_AGAIN)
                begin += sum(sizes)


def _are_runs(runs):
    return all(len(run) == 2 for run in runs) and sum(run[0] for run in runs) < 1 << 31


def _local_shapes(where, tensor, mesh):
    if slices.is_even(tensor.shape, tensor.spec, tensor.segments, mesh):
        origin = {name: 0 for name, _ in mesh}
        return [slices.local_shape(tensor.shape, tensor.spec, tensor.segments, mesh, origin)]
    if slices.shard_count(tensor.spec, mesh) > MAX_LOCAL_SHAPES:
        raise ManifestError(where, f"has more than {MAX_LOCAL_SHAPES} different local shapes", COMPILE_AGAIN)
    return slices.list_local_shapes(tensor.shape, tensor.spec, tensor.segments, mesh)


def prove_steps(where, value, mesh):
    """The steps that the manifest says bring a value from its one layout to the other, and its gradient back: they are carried
    out on the layouts, not found again."""
    if not value.source or not value.target:
        if value.forward or value.backward or value.gradient:
            raise ManifestError(where, "has steps between layouts that it does not say", COMPILE_AGAIN)
        return
    axes = [name for name, _ in mesh]
    if _carried_out(value.source, value.forward, axes) != value.target:
        raise ManifestError(where, "`forward` is not what brings `from` to `to`", COMPILE_AGAIN)
    if value.gradient is None:
        if value.backward:
            raise ManifestError(where, "has `backward` without `gradient`", COMPILE_AGAIN)
        return
    comes, goes = value.gradient
    pairs = list(zip(_whole(value.target), comes, _whole(value.source), goes))
    for arrives, came, leaves, went in pairs:
        is_open = came == OPEN and arrives == "Replicate"
        stays = is_open and went == OPEN and leaves == "Replicate"
        if not (is_open or came == arrives) or not (stays or went == leaves):
            raise ManifestError(where, "`gradient` is not what the value's layouts say", COMPILE_AGAIN)
    if len({len(value.source), len(value.target), len(comes), len(goes), len(axes)}) != 1:
        raise ManifestError(where, "a layout has another number of placements than the mesh has axes", COMPILE_AGAIN)
    if _carried_out(comes, value.backward, axes) != goes:
        raise ManifestError(where, "`backward` is not what brings the gradient of `to` to `from`", COMPILE_AGAIN)


def _whole(layouts):
    """The layouts of a gradient: that of a sum is the same on all ranks."""
    return tuple("Replicate" if layout.startswith("Partial") else layout for layout in layouts)


def _carried_out(layouts, steps, axes):
    """The layouts after these steps; None where one does not start from what is there: from the wrong placement, or from
    pieces that an axis to the right in the mesh cuts once more."""
    now = list(layouts)
    for step in steps:
        at = axes.index(step.axis)
        cut, held = f"Shard({step.dim})", f"Shard({step.from_dim})"
        starts, ends = {
            "all_gather": (cut, "Replicate"),
            "all_reduce": ("Partial", "Replicate"),
            "reduce_scatter": ("Partial", cut),
            "all_to_all": (held, cut),
            "slice": ("Replicate", cut),
        }.get(step.kind, (None, None))
        touched = {starts, ends} - {"Replicate", "Partial"}
        if starts is None or not now[at].startswith(starts) or any(layout in touched for layout in now[at + 1 :]):
            return None
        now[at] = ends
    return tuple(now)


def prove_rules(manifest):
    """Who names a rule names one that there is, and has its style; a module stands under one once."""
    styles, seen = {}, set()
    for thing in (*manifest.parameters.values(), *manifest.buffers.values(), *manifest.modules):
        where = f"`{printable(thing.path)}`"
        if thing.rule is not None and not 0 <= thing.rule < len(manifest.rules):
            raise ManifestError(where, f"there is no rule {thing.rule}", COMPILE_AGAIN)
        if (thing.rule is None) != (thing.style is None) or styles.setdefault(thing.rule, thing.style) != thing.style:
            raise ManifestError(where, "`rule` and `style` do not fit each other", COMPILE_AGAIN)
    for module in manifest.modules:
        if (module.path, module.rule) in seen:
            raise ManifestError(f"`{printable(module.path)}`", "stands twice under its rule", COMPILE_AGAIN)
        seen.add((module.path, module.rule))


def prove_boundaries(manifest):
    """Every rule stands at as many modules as it says."""
    for number, rule in enumerate(manifest.rules):
        found = sum(module.rule == number for module in manifest.modules)
        if rule.modules not in (None, found):
            raise ManifestError(
                "`modules`",
                f"the rule `{printable(rule.key)}` stands at the boundaries of {rule.modules} modules, and {found} are listed",
                COMPILE_AGAIN,
            )


def prove_sent_dtypes(manifest):
    """What a value sends goes in its rule's type, and nothing else has one; a rule names a type that something goes in. Token
    ids, which have no gradient, stay ids."""
    used = [set() for _ in manifest.rules]
    for module in manifest.modules:
        rule = manifest.rules[module.rule]
        for value in (*module.inputs, *module.outputs):
            wanted = [
                dtype if value.gradient and any(step.kind != "slice" for step in steps) else None
                for dtype, steps in ((rule.forward_dtype, value.forward), (rule.backward_dtype, value.backward))
            ]
            if wanted != [value.forward_dtype, value.backward_dtype]:
                raise ManifestError(
                    f"module `{printable(module.path)}`",
                    f"does not send what it moves in the types that its rule `{printable(rule.key)}` says",
                    COMPILE_AGAIN,
                )
            used[module.rule] |= {("forward", value.forward_dtype), ("backward", value.backward_dtype)}
    for rule, sent in zip(manifest.rules, used, strict=True):
        for way, dtype in (("forward", rule.forward_dtype), ("backward", rule.backward_dtype)):
            if dtype is not None and (way, dtype) not in sent:
                raise ManifestError(
                    "`rules`",
                    f"the rule `{printable(rule.key)}` says a type that none of its modules sends anything in",
                    COMPILE_AGAIN,
                )


def prove_sides(manifest):
    """A module that cuts its weight says what comes in and goes out, where that stays as it is, too."""
    modules = {(module.path, module.rule): module for module in manifest.modules}
    for tensor in manifest.parameters.values():
        cut = any(axis != manifest.fsdp_axis for axes in tensor.spec for axis in axes)
        if not cut or tensor.kind not in ("linear", "embedding") or len(tensor.shape) != 2 or tensor.segments:
            continue
        module = modules.get((re.sub(r"(^|[./])[^./]*$", "", tensor.path), tensor.rule))
        if module is not None and bool(module.inputs) != bool(module.outputs):
            raise ManifestError(
                f"module `{printable(module.path)}`",
                "cuts its weight, and lists values of one side alone",
                COMPILE_AGAIN,
            )


def prove_sums(manifest, is_signed):
    """Gradients are summed over the axes over which they are open, and the steps of every parameter make it whole for its
    module and bring its gradient to where it is kept."""
    data = {*manifest.data_axes, *([manifest.fsdp_axis] if manifest.fsdp_axis else [])}
    for tensor in manifest.parameters.values():
        where = f"parameter `{printable(tensor.path)}`"
        sums = manifest.rules[tensor.rule].sums if tensor.rule is not None else None
        if is_signed and None in tensor.summed_by:
            raise ManifestError(where, "does not say who sums its gradient", COMPILE_AGAIN)
        open_axes = [axis for axis, _ in manifest.mesh if axis in data or axis == sums]
        summed = [axis for axis, _ in tensor.grad_reduce]
        if summed != open_axes:
            raise ManifestError(
                where, f"its gradient is open over {open_axes}, and `grad_reduce` sums it over {summed}", COMPILE_AGAIN
            )
        scattered = {axis for axis, kind in tensor.grad_reduce if kind == "reduce_scatter"}
        whole = tuple(tuple(axis for axis in axes if axis not in data) for axes in tensor.spec)
        before = tuple(tuple(axis for axis in axes if axis not in scattered) for axes in tensor.spec)
        for part, start, sums, end in (("gather", tensor.spec, (), whole), ("reduce", before, summed, tensor.spec)):
            steps = [step.step for step in tensor.steps if step.part == part]
            if _cut_after(start, sums, steps) != end:
                raise ManifestError(where, "`steps` are not what the spec, `grad_reduce` and `fsdp` say", COMPILE_AGAIN)


def _cut_after(spec, open_axes, steps):
    """The spec after these steps; None where one does not start from what is there, or a sum stays open."""
    spec, open_axes = [list(axes) for axes in spec], set(open_axes)
    for step in steps:
        if step.kind != "all_reduce" and (step.dim is None or not 0 <= step.dim < len(spec)):
            return None
        if step.kind in ("all_reduce", "reduce_scatter"):
            if step.axis not in open_axes:
                return None
            open_axes.remove(step.axis)
        if step.kind == "all_gather":
            if spec[step.dim][-1:] != [step.axis]:
                return None
            spec[step.dim].pop()
        elif step.kind != "all_reduce":
            if step.kind not in ("reduce_scatter", "slice") or any(step.axis in axes for axes in spec):
                return None
            spec[step.dim].append(step.axis)
    return None if open_axes else tuple(map(tuple, spec))


def prove_ties(manifest):
    """Names of one tensor are parameters, in one group each, and cut alike."""
    seen = set()
    for group in manifest.tied:
        for path in group:
            if path not in manifest.parameters or path in seen or len(group) < 2:
                raise ManifestError(
                    "`tied`", f"`{printable(path)}` is no parameter, or is tied twice or alone", COMPILE_AGAIN
                )
            seen.add(path)
            first, other = manifest.parameters[group[0]], manifest.parameters[path]
            if (first.shape, first.dtype, first.spec, first.segments) != (
                other.shape,
                other.dtype,
                other.spec,
                other.segments,
            ):
                raise ManifestError(
                    "`tied`", f"`{printable(group[0])}` and `{printable(path)}` are not cut alike", COMPILE_AGAIN
                )


def prove_totals(manifest):
    """The totals are the sums over the parameters, tied ones counted once."""
    if sum_totals(manifest, counted(manifest, manifest.tied)) != manifest.totals:
        raise ManifestError("`totals`", "are not the sums over the parameters", COMPILE_AGAIN)
