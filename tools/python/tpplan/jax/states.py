"""Training states: trees with a model's parameters and their optimizer moments, under longer paths."""

import sys

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..manifest import ManifestError, load_manifest
from .arrays import constrained, shardings
from .trees import is_array, is_flax, leaves_of


def state_shardings(manifest, mesh, state):
    """Returns the tree of a training state (parameters, optimizer state, step) with a NamedSharding for each array and
    None for other leaves. An array is sharded like a parameter if its path ends with the parameter's
    (`opt_state.0.mu.layers.0.weight`) and its shape is equal. Other arrays are replicated. Raises ManifestError if
    the tree has no parameter of the model."""
    manifest = load_manifest(manifest)
    return jax.tree.unflatten(jax.tree.structure(state), _sharding_of_each(manifest, mesh, leaves_of(state)))


def hold_layout(state, manifest, mesh):
    """Returns the state with each array constrained to its sharding. Call it inside jit at the end of a step, where
    XLA would otherwise choose the layouts of the outputs, or on an optimizer state that is created inside jit. NNX
    modules and optimizers are updated in place; abstract arrays get the shardings as an attribute."""
    manifest = load_manifest(manifest)
    if is_flax(state, "Pytree"):
        nnx = sys.modules["flax.nnx"]
        nnx.update(state, hold_layout(nnx.state(state), manifest, mesh))
        return state
    leaves = leaves_of(state)
    wanted = _sharding_of_each(manifest, mesh, leaves)
    new = [
        leaf.value if sharding is None else constrained(leaf.value, sharding) for leaf, sharding in zip(leaves, wanted)
    ]
    return jax.tree.unflatten(jax.tree.structure(state), new)


def _sharding_of_each(manifest, mesh, leaves):
    by_path, whole = shardings(manifest, mesh), NamedSharding(mesh, PartitionSpec())
    found = [_parameter_of(manifest, leaf) for leaf in leaves]
    if not any(found):
        raise ManifestError("`state`", "has no parameter of the manifest", "pass a state of this model")
    return [(by_path[path] if path else whole) if is_array(leaf.value) else None for path, leaf in zip(found, leaves)]


def _parameter_of(manifest, leaf):
    """Returns the path of the parameter that a leaf belongs to: the longest one that is a suffix of the leaf's path,
    if its shape is equal; otherwise None."""
    path = leaf.path
    while path:
        tensor = manifest.parameters.get(path)
        if tensor is not None:
            return path if tuple(tensor.shape) == tuple(leaf.value.shape) else None
        path = path.partition(".")[2]
    return None
