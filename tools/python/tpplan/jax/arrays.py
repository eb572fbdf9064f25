"""Shardings of a model's arrays: a manifest's specs as JAX has them."""

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
    """The sharding of every parameter: {path: NamedSharding}; or, given a model (abstract or not), its tree with a
    NamedSharding for each array and None for what is none: for jax.device_put and out_shardings.

    Raises ManifestError where the manifest does not fit the mesh or the model, or is cut as JAX cannot."""
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
    """The sharding of each leaf, None for what is no array."""
    whole = NamedSharding(mesh, PartitionSpec())
    return [by_path.get(x.path, whole) if is_array(x.value) else None for x in leaves]


def batch_sharding(manifest, mesh):
    """The sharding of the batch: the axes of `data` cut its dim."""
    manifest = load_manifest(manifest)
    check_jax_mesh(manifest, mesh)
    return NamedSharding(mesh, PartitionSpec(*[None] * manifest.data_dim, manifest.data_axes or None))


def constrain(tree, manifest, mesh):
    """The tree with each array constrained to its sharding: inside jit, for a model that is made there."""
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
    """The tree with a PartitionSpec for each array and None for what is none: of arrays that are placed, of abstract ones whose
    sharding is written, and inside jit of those that were placed there; of others it is P()."""
    found = [sharding_of(x.value) for x in leaves_of(tree)]
    specs = [
        None if not is_array(x.value) else PartitionSpec() if sharding is None else sharding.spec
        for x, sharding in zip(leaves_of(tree), found)
    ]
    return jax.tree.unflatten(jax.tree.structure(tree), specs)


# What was constrained inside jit: JAX does not say how, so it is noted here as long as the array lives. {id: (the array, weakly,
# its sharding)}
_constrained_arrays = {}


def constrained(value, sharding):
    """The array with this sharding: moved there, inside jit constrained to it, of an abstract one written."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding)
    if not isinstance(value, jax.core.Tracer):
        return jax.device_put(value, sharding)
    value = jax.lax.with_sharding_constraint(value, sharding)
    key = id(value)
    _constrained_arrays[key] = weakref.ref(value, lambda _: _constrained_arrays.pop(key, None)), sharding
    return value


def sharding_of(value):
    """The NamedSharding of an array, abstract or not; None where it has none, or where nobody says."""
    if isinstance(value, jax.core.Tracer):
        array, sharding = _constrained_arrays.get(id(value), (lambda: None, None))
        return sharding if array() is value else None
    sharding = getattr(value, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


def need_jax_mesh(mesh):
    """Refuses what is no mesh of JAX."""
    if not isinstance(mesh, (jax.sharding.Mesh, jax.sharding.AbstractMesh)):
        raise ManifestError("`mesh`", f"{type(mesh).__name__} is no mesh of JAX", "make one with jax.make_mesh")


def check_jax_mesh(manifest, mesh):
    """Refuses what is no mesh of JAX, or not the manifest's."""
    need_jax_mesh(mesh)
    check_mesh(manifest, list(mesh.shape.items()))


def check_leaves(manifest, leaves):
    """Holds the manifest against the arrays of a model, both ways."""
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
    """The PartitionSpec of a tensor. Raises ManifestError for one that JAX cannot cut so."""
    where, sizes = f"parameter `{printable(tensor.path)}`", dict(manifest.mesh)
    for dim, axes in enumerate(tensor.spec):
        count = math.prod(sizes[axis] for axis in axes)
        if count > 1 and len(tensor.segments.get(dim) or ()) > 1:
            raise ManifestError(
                where,
                f"dim {dim} has segments, which JAX cannot cut each by itself",
                "keep the parts in parameters of their own",
            )
        if tensor.shape[dim] % count:
            raise ManifestError(
                where,
                f"dim {dim} of size {tensor.shape[dim]} is cut over {count} ranks unevenly, which JAX refuses",
                "compile with `uneven: error`, which names what to change",
            )
    return PartitionSpec(*slices.entries_of(tensor.spec))


def with_shardings(model, manifest, mesh, loaded=None):
    """The model with its arrays placed; abstract ones have their shardings written. Arrays that are `loaded` ({path: array})
    take the place of the model's."""
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
