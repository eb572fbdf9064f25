"""Shardings of a model's arrays: the specs of a manifest as JAX shardings."""

import math
import sys
import weakref

import jax
from jax.sharding import NamedSharding, PartitionSpec

from .. import slices
from ..files import printable
from ..manifest import ManifestError, check_buffers, check_mesh, check_parameters, load_manifest
from .trees import is_array, is_flax, leaves_of, ties_of


def shardings(manifest, mesh, tree=None):
    """Returns {path: NamedSharding} of every parameter.

    If `tree` is given, a model with concrete or abstract arrays, returns its tree instead: a NamedSharding for each
    array, None for other leaves. It fits jax.device_put and out_shardings.

    Raises ManifestError if the manifest does not fit the mesh or the model, or if JAX does not support a sharding.
    """
    manifest = load_manifest(manifest)
    check_jax_mesh(manifest, mesh)
    by_path = {
        path: NamedSharding(mesh, partition_spec(manifest, tensor)) for path, tensor in manifest.parameters.items()
    }
    if tree is None:
        return by_path
    leaves = leaves_of(tree)
    check_leaves(manifest, leaves)
    return jax.tree.unflatten(jax.tree.structure(tree), _sharding_of_each(leaves, by_path, mesh))


def _sharding_of_each(leaves, by_path, mesh):
    """Returns the sharding of each leaf, None for leaves that are no arrays; arrays without a path in `by_path` are
    replicated."""
    whole = NamedSharding(mesh, PartitionSpec())
    return [by_path.get(x.path, whole) if is_array(x.value) else None for x in leaves]


def batch_sharding(manifest, mesh):
    """Returns the NamedSharding of the batch: its dim is sharded over the axes of `data`."""
    manifest = load_manifest(manifest)
    check_jax_mesh(manifest, mesh)
    return NamedSharding(mesh, PartitionSpec(*[None] * manifest.data_dim, manifest.data_axes or None))


def constrain(tree, manifest, mesh):
    """Returns the tree with each array constrained to its sharding. For use inside jit, on a model that is created
    there."""
    manifest = load_manifest(manifest)
    leaves = leaves_of(tree)
    by_path = shardings(manifest, mesh)
    check_leaves(manifest, leaves)
    return jax.tree.unflatten(
        jax.tree.structure(tree),
        [
            x.value if sharding is None else constrained(x.value, sharding)
            for x, sharding in zip(leaves, _sharding_of_each(leaves, by_path, mesh))
        ],
    )


def get_partition_spec(tree):
    """Returns the tree with a PartitionSpec for each array, and None for other leaves.

    The spec is known for placed arrays, abstract arrays with a sharding, and arrays that this package has constrained
    inside jit. It is P() for all others.
    """
    found = [sharding_of(x.value) for x in leaves_of(tree)]
    specs = [
        None if not is_array(x.value) else PartitionSpec() if sharding is None else sharding.spec
        for x, sharding in zip(leaves_of(tree), found)
    ]
    return jax.tree.unflatten(jax.tree.structure(tree), specs)


# Shardings of the tracers constrained inside jit, because JAX does not expose them: {id: (weak reference to the
# array, sharding)}. An entry is removed with its array.
_constrained_arrays = {}


def constrained(value, sharding):
    """Returns the array with this sharding. A concrete array is moved, a tracer gets a constraint, an abstract array
    stores the sharding."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding)
    if not isinstance(value, jax.core.Tracer):
        return jax.device_put(value, sharding)
    value = jax.lax.with_sharding_constraint(value, sharding)
    key = id(value)
    _constrained_arrays[key] = weakref.ref(value, lambda _: _constrained_arrays.pop(key, None)), sharding
    return value


def sharding_of(value):
    """Returns the NamedSharding of a concrete or abstract array; None if it has none or it is unknown."""
    if isinstance(value, jax.core.Tracer):
        array, sharding = _constrained_arrays.get(id(value), (lambda: None, None))
        return sharding if array() is value else None
    sharding = getattr(value, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


def need_jax_mesh(mesh):
    """Raises ManifestError if the value is no JAX mesh."""
    if not isinstance(mesh, (jax.sharding.Mesh, jax.sharding.AbstractMesh)):
        raise ManifestError("`mesh`", f"{type(mesh).__name__} is not a mesh of JAX", "make one with jax.make_mesh")


def check_jax_mesh(manifest, mesh):
    """Raises ManifestError if the value is no JAX mesh, or differs from the manifest's mesh."""
    need_jax_mesh(mesh)
    check_mesh(manifest, list(mesh.shape.items()))


def check_leaves(manifest, leaves):
    """Raises ManifestError if the manifest and the model differ in parameters, buffers, shapes, dtypes or ties."""
    parameters, buffers = (
        {
            x.path: (tuple(x.value.shape), x.value.dtype.name)
            for x in leaves
            if x.path is not None and x.is_parameter is kind
        }
        for kind in (True, False)
    )
    check_parameters(manifest, parameters, ties_of([x for x in leaves if x.is_parameter]))
    check_buffers(manifest, buffers)


def partition_spec(manifest, tensor):
    """Returns the PartitionSpec of a manifest tensor, without trailing replicated dims, as XLA returns the arrays of a
    step: jit compiles again for P(None,) after P(). Raises ManifestError for sharded segments and uneven shards."""
    where, sizes = f"parameter `{printable(tensor.path)}`", dict(manifest.mesh)
    for dim, axes in enumerate(tensor.spec):
        count = math.prod(sizes[axis] for axis in axes)
        if count > 1 and len(tensor.segments.get(dim) or ()) > 1:
            raise ManifestError(
                where,
                f"dim {dim} has segments, but JAX cannot shard each segment separately",
                "store each segment in a separate parameter",
            )
        if tensor.shape[dim] % count:
            raise ManifestError(
                where,
                f"dim {dim} of size {tensor.shape[dim]} is sharded unevenly over {count} ranks, which JAX does "
                "not support",
                "compile with `uneven: error` to list the dims to change",
            )
    last = max((dim for dim, axes in enumerate(tensor.spec) if axes), default=-1)
    return PartitionSpec(*slices.entries_of(tensor.spec[: last + 1]))


def with_shardings(model, manifest, mesh, loaded=None):
    """Returns the model with its arrays placed; abstract arrays store their shardings. `loaded`, {path: array},
    replaces arrays of the model. An NNX module is changed in place."""
    leaves = leaves_of(model)
    by_path = shardings(manifest, mesh)
    whole = NamedSharding(mesh, PartitionSpec())

    def place(leaf):
        if loaded and leaf.path in loaded:
            return loaded[leaf.path]
        return constrained(leaf.value, by_path.get(leaf.path, whole))

    if is_flax(model, "Module"):
        nnx = sys.modules["flax.nnx"]
        state = nnx.state(model)
        nnx.update(model, jax.tree.unflatten(jax.tree.structure(state), [place(x) for x in leaves_of(state)]))
        return model
    return jax.tree.unflatten(jax.tree.structure(model), [place(x) if is_array(x.value) else x.value for x in leaves])
