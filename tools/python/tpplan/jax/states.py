"""States of training: trees that hold a model's parameters, and moments of them, under longer paths."""

import sys

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..manifest import ManifestError, load_manifest
from .arrays import constrained, shardings
from .trees import is_array, is_flax, leaves_of


def state_shardings(manifest, mesh, state):
    """The tree of a state of training (parameters, an optimizer's state, a step) with a NamedSharding for each array and None for what is
    none. An array whose path ends with a parameter's (`opt_state.0.mu.layers.0.weight`), and that has its shape, is cut as it is, all
    others are whole. Raises ManifestError for a tree that holds nothing of the model."""
    manifest = load_manifest(manifest)
    return jax.tree.unflatten(jax.tree.structure(state), _sharding_of_each(manifest, mesh, leaves_of(state)))


def hold_layout(state, manifest, mesh):
    """The state with each array in that sharding: at the end of a step, inside jit, where XLA else chooses the layout of what the
    step returns anew; and for an optimizer's state that is made inside jit. NNX modules and optimizers are changed in place, abstract
    arrays get their shardings written."""
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
        raise ManifestError("`state`", "holds no parameter of the manifest's model", "give a state of this model")
    return [(by_path[path] if path else whole) if is_array(leaf.value) else None for path, leaf in zip(found, leaves)]


def _parameter_of(manifest, leaf):
    """The longest path of a parameter that the leaf's path ends with, and whose shape it has; None where there is none."""
    path = leaf.path
    while path:
        tensor = manifest.parameters.get(path)
        if tensor is not None:
            return path if tuple(tensor.shape) == tuple(leaf.value.shape) else None
        path = path.partition(".")[2]
    return None
