"""JAX pytrees as models: leaves with paths, Flax' boxes around arrays, and tied parameters."""

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
    """One leaf of a tree, in the order of jax.tree.leaves. `path` is None for a leaf that is no tensor: a function, a
    number, the state of a random generator. `box` is the object around the array: a Variable of Flax NNX, or a
    metadata box of Flax Linen."""

    path: str | None
    value: Any
    box: Any
    is_parameter: bool


def leaves_of(tree):
    """Returns the leaves of a tree as a list of Leaf. Raises ManifestError if two arrays have the same path."""
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
                f"parameter `{printable(path)}`",
                "is the path of two arrays in the model",
                "remove dots from the keys of dicts",
            )
        paths[path] = True
    return found


def children_of(node):
    """Returns [(name, child)] of one node, and the function that rebuilds the node from new children; ([], None) for
    a leaf."""
    keyed, structure = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    if len(keyed) == 1 and not keyed[0][0]:
        return [], None
    return [(_name_of(keys[0]), child) for keys, child in keyed], lambda children: jax.tree_util.tree_unflatten(
        structure, children
    )


def is_array(value):
    return isinstance(value, (jax.Array, np.ndarray, jax.ShapeDtypeStruct))


def is_box(node):
    """Returns True if a node holds one array under its own name: a Variable of NNX, or a box of Linen's partitioning."""
    return (
        is_flax(node, "Variable")
        or (meta := sys.modules.get("flax.core.meta")) is not None
        and isinstance(node, meta.AxisMetadata)
    )


def is_flax(value, name):
    """Returns True if a value is an instance of this class of flax.nnx; False if flax.nnx is not imported."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, getattr(nnx, name))


def _walk(node, path, box):
    """Yields (path, value, box) of each leaf."""
    children, _ = children_of(node)
    if not children:
        if jax.tree.structure(node).num_leaves == 1:
            yield path, node, box
        return
    for name, child in children:
        # An array in a box has the path of the box.
        yield from _walk(child, path if is_box(node) else join(path, name), node if is_box(node) else box)


def _name_of(key):
    for attribute in ("name", "idx", "key"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def ties_of(leaves):
    """Returns groups of paths that name the same Variable of Flax NNX. Other trees hold arrays by value and have no
    ties."""
    names = {}
    for leaf in leaves:
        if leaf.path is not None and is_flax(leaf.box, "Variable"):
            names.setdefault(id(leaf.box), []).append(leaf.path)
    return [paths for paths in names.values() if len(paths) > 1]


def split(tree):
    """Returns the arrays of a tree, and the function that rebuilds the tree from new arrays. NNX modules stay tied."""
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
    """Wraps `make`, whose result may be any tree, for tracing by JAX. Returns a function that returns only the arrays
    of the result, and a function that rebuilds the tree of its last call from new arrays."""
    last = []

    def arrays(*args):
        values, rebuild = split(make(*args))
        last[:] = [rebuild]
        return values

    return arrays, lambda values: last[0](values)


def plain_arrays(make, args, kwargs):
    """Returns make(*args, **kwargs), with Flax' eager sharding of annotated arrays disabled, because the manifest
    places them."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or not hasattr(nnx, "use_eager_sharding"):
        return make(*args, **kwargs)
    with nnx.use_eager_sharding(False):
        return make(*args, **kwargs)


def abstract(make, *args, **kwargs):
    """Returns the result of make(*args, **kwargs) with shapes instead of arrays (jax.eval_shape). Its tree may have
    other leaves."""
    arrays, rebuild = arrays_alone(lambda *args: plain_arrays(make, args, kwargs))
    return rebuild(jax.eval_shape(arrays, *args))
