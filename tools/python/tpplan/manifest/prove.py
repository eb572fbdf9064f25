"""Proofs of what a manifest says twice: placements, local shapes, replicas and collectives follow from specs and layouts."""

import math

from .. import slices
from ..files import printable
from .manifest import COMPILE_AGAIN, ManifestError
from .totals import counted, sum_totals

MAX_LOCAL_SHAPES = 1 << 16


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


def _local_shapes(where, tensor, mesh):
    if slices.is_even(tensor.shape, tensor.spec, tensor.segments, mesh):
        origin = {name: 0 for name, _ in mesh}
        return [slices.local_shape(tensor.shape, tensor.spec, tensor.segments, mesh, origin)]
    if slices.shard_count(tensor.spec, mesh) > MAX_LOCAL_SHAPES:
        raise ManifestError(where, f"has more than {MAX_LOCAL_SHAPES} different local shapes", COMPILE_AGAIN)
    return slices.list_local_shapes(tensor.shape, tensor.spec, tensor.segments, mesh)


def prove_steps(where, value, mesh):
    """The steps that the manifest says bring a value from its one layout to the other, and its gradient back: they are carried
    out on the layouts, not found again. A gradient comes as the value went, its sums open where a step closes them."""
    if not value.source or not value.target:
        if value.forward or value.backward:
            raise ManifestError(where, "has steps between layouts that it does not say", COMPILE_AGAIN)
        return
    axes = [name for name, _ in mesh]
    if _carried_out(value.source, value.forward, axes) != value.target:
        raise ManifestError(where, "`forward` is not what brings `from` to `to`", COMPILE_AGAIN)
    summed = {step.axis for step in value.backward if step.kind in ("all_reduce", "reduce_scatter")}
    arriving = [
        "Partial(sum)" if axis in summed else layout for axis, layout in zip(axes, _whole(value.target), strict=True)
    ]
    if value.backward and _carried_out(arriving, value.backward, axes) != _whole(value.source):
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
