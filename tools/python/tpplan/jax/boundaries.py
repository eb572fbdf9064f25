"""Module boundaries as sharding constraints; XLA inserts the collectives."""

import dataclasses
import functools
import math
from typing import Callable, NamedTuple

import jax
from jax.sharding import NamedSharding, PartitionSpec

from .. import slices
from ..files import printable
from ..manifest import ManifestError, load_manifest, refuse_sent_dtypes, shard_dim
from .arrays import check_jax_mesh


@dataclasses.dataclass(frozen=True)
class Constraint:
    """Functions for one boundary: `inputs(args, kwargs)` returns the constrained arguments, `outputs(result)` the
    constrained result."""

    inputs: Callable
    outputs: Callable


class Axes(NamedTuple):
    """The fields of a manifest that layouts depend on."""

    mesh: tuple
    data_axes: tuple
    data_dim: int


def constraints(manifest, mesh, *, batched=True):
    """Returns {module path: Constraint} for all boundaries of a manifest. `batched=False` counts layouts without the
    batch dim, for modules under jax.vmap.

    A value is constrained to the boundary's target layout. Partial values, and values without a layout, are left to
    XLA. Raises ManifestError if the mesh has axes of a type other than Auto.
    """
    manifest = load_manifest(manifest)
    check_jax_mesh(manifest, mesh)
    types = set(getattr(mesh, "axis_types", ()))
    if manifest.modules and any("Auto" not in str(kind) for kind in types):
        raise ManifestError(
            "`mesh`",
            "sharding constraints need mesh axes of type Auto",
            "jax.make_mesh(sizes, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names))",
        )
    refuse_sent_dtypes(manifest, "XLA chooses the dtype of its collectives")
    axes = Axes(manifest.mesh, manifest.data_axes, manifest.data_dim)
    return {boundary.path: _constraint(axes, mesh, boundary, batched) for boundary in manifest.modules}


@functools.lru_cache(maxsize=None)
def _constraint(manifest, mesh, boundary, batched):
    """Returns the Constraint of a boundary. It is cached, so that modules with equal boundaries share a class and
    their trees a structure."""

    def place(value, given):
        layout = value.target or value.source
        if layout is None or not isinstance(given, jax.Array) or any(text.startswith("Partial") for text in layout):
            return given
        spec = layout_spec(manifest, boundary.path, layout, given.shape, batched)
        return jax.lax.with_sharding_constraint(given, NamedSharding(mesh, spec))

    def inputs(args, kwargs):
        args, kwargs = list(args), dict(kwargs)
        for value in boundary.inputs:
            if value.kwarg is not None and value.kwarg in kwargs:
                kwargs[value.kwarg] = place(value, kwargs[value.kwarg])
            elif value.arg is not None and value.arg < len(args):
                args[value.arg] = place(value, args[value.arg])
        return tuple(args), kwargs

    def outputs(result):
        if not isinstance(result, (tuple, list)):
            return place(boundary.outputs[0], result) if boundary.outputs else result
        places = {value.arg: value for value in boundary.outputs}
        new = [place(places[i], x) if i in places else x for i, x in enumerate(result)]
        return type(result)(*new) if hasattr(result, "_fields") else type(result)(new)

    return Constraint(inputs, outputs)


def layout_spec(manifest, path, layout, shape, batched=True):
    """Returns the PartitionSpec of a value of `shape` at a module's boundary. Raises ManifestError if the value lacks
    the dim, or if the axes do not divide it: JAX would silently replicate the value."""
    entries = [[] for _ in shape]
    sizes = dict(manifest.mesh)
    for (axis, size), text in zip(manifest.mesh, layout):
        if text == "Replicate" or size == 1 or (not batched and axis in manifest.data_axes):
            continue
        given = shard_dim(text)
        dim = len(shape) + given if given < 0 else given - (not batched and given > manifest.data_dim)
        if not 0 <= dim < len(shape):
            raise ManifestError(
                f"module `{printable(path)}`",
                f"Shard({given}) is out of range for a value of shape {list(shape)}",
                "use negative dims in the layouts of modules under vmap" if batched else "use a dim that the value has",
            )
        entries[dim].append(axis)
    for dim, axes in enumerate(entries):
        if shape[dim] % math.prod(sizes[axis] for axis in axes):
            raise ManifestError(
                f"module `{printable(path)}`",
                f"dim {dim} of a value of shape {list(shape)} is sharded unevenly over {', '.join(axes)}",
                "use a size that the axis sizes divide",
            )
    return PartitionSpec(*slices.entries_of(entries))
