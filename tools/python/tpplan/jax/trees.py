"""Trees of JAX as models: their leaves with paths, the boxes of Flax around arrays, what two names share."""

import dataclasses
import sys
from typing import Any

import jax
import numpy as np

from ..files import printable
from ..manifest import ManifestError
from ..paths import join


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One leaf of a tree, in the order of jax.tree.leaves. `path` is None for what is no tensor: functions, numbers, states
    of random generators. `box` is the object around the array: a Variable of Flax NNX, a metadata box of Flax Linen."""

    path: str | None
    value: Any
    box: Any
    is_parameter: bool


def leaves_of(tree):
    """The leaves of a tree as a list of Leaf. Raises ManifestError for two arrays of one path."""
    found, paths = [], {}
    for path, value, box in _walk(tree, "", None):
        is_rng = box is not None and is_flax(box, "RngState")
        named = is_array(value) and not is_rng
        found.append(
            Leaf(
                path if named else None,
                value,
                box,
                named and not (is_flax(box, "Variable") and not is_flax(box, "Param")),
            )
        )
        if named and path in paths:
            raise ManifestError(
                f"parameter `{printable(path)}`", "is the path of two arrays of the model", "keys of dicts hold no dots"
            )
        paths[path] = True
    return found


def children_of(node):
    """The children of one node with their names, and the function that makes the node from others; ([], None) of a leaf."""
    keyed, structure = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    if len(keyed) == 1 and not keyed[0][0]:
        return [], None
    return [(_name_of(keys[0]), child) for keys, child in keyed], lambda children: jax.tree_util.tree_unflatten(
        structure, children
    )


def is_array(value):
    return isinstance(value, (jax.Array, np.ndarray, jax.ShapeDtypeStruct))


def is_box(node):
    """Whether a node holds one array under its own name: a Variable of NNX, a box of Linen's partitioning."""
    return (
        is_flax(node, "Variable")
        or (meta := sys.modules.get("flax.core.meta")) is not None
        and isinstance(node, meta.AxisMetadata)
    )


def is_flax(value, name):
    """Whether a value is of this class of flax.nnx, which may not be imported."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, getattr(nnx, name))


def _walk(node, path, box):
    """Path, value and box of each leaf."""
    children, _ = children_of(node)
    if not children:
        if jax.tree.structure(node).num_leaves == 1:
            yield path, node, box
        return
    for name, child in children:
        # The array in a box has the name of the box.
        yield from _walk(child, path if is_box(node) else join(path, name), node if is_box(node) else box)


def _name_of(key):
    for attribute in ("name", "idx", "key"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def ties_of(leaves):
    """Groups of paths that name one Variable of Flax NNX. Arrays in other trees are values, and share nothing."""
    names = {}
    for leaf in leaves:
        if leaf.path is not None and is_flax(leaf.box, "Variable"):
            names.setdefault(id(leaf.box), []).append(leaf.path)
    return [paths for paths in names.values() if len(paths) > 1]


def split(tree):
    """The arrays of a tree, and the function that makes the tree from others; NNX modules keep what they share."""
    if is_flax(tree, "Module"):
        graph, state = sys.modules["flax.nnx"].split(tree)
        arrays, structure = jax.tree.flatten(state)
        return arrays, lambda new: sys.modules["flax.nnx"].merge(graph, jax.tree.unflatten(structure, new))
    leaves, structure = jax.tree.flatten(tree)
    is_kept = [not is_array(leaf) for leaf in leaves]
    kept = [leaf if keep else None for leaf, keep in zip(leaves, is_kept)]

    def rebuild(new):
        new = iter(new)
        return jax.tree.unflatten(structure, [leaf if keep else next(new) for leaf, keep in zip(kept, is_kept)])

    return [leaf for leaf in leaves if is_array(leaf)], rebuild


def arrays_alone(make):
    """`make`, whose tree may hold anything, as a function that JAX can trace, which returns the tree's arrays alone; and a
    function that makes the tree of its last call from others."""
    last = []

    def arrays(*args):
        values, rebuild = split(make(*args))
        last[:] = [rebuild]
        return values

    return arrays, lambda values: last[0](values)


def plain_arrays(make, args, kwargs):
    """make(*args, **kwargs) with Flax's own placing of annotated arrays turned off: the manifest places them."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or not hasattr(nnx, "use_eager_sharding"):
        return make(*args, **kwargs)
    with nnx.use_eager_sharding(False):
        return make(*args, **kwargs)


def abstract(make, *args, **kwargs):
    """What make(*args, **kwargs) returns, with shapes in place of arrays (jax.eval_shape), whatever else its tree holds."""
    arrays, rebuild = arrays_alone(lambda *args: plain_arrays(make, args, kwargs))
    return rebuild(jax.eval_shape(arrays, *args))
