"""Manifests in JAX: shardings of arrays, constraints at module boundaries, rematerialisation, sharded initialisation.

JAX computes with whole arrays and cuts them itself, so a manifest becomes NamedShardings: those of the parameters, and those
of the values at module boundaries as sharding constraints; XLA makes the collectives. Rank r of a manifest is device
`mesh.devices.flat[r]`. JAX has no word for pieces of unlike sizes and for dims whose segments are cut each by itself; both are
refused here, with the parameter's name.

A model is any pytree: an Equinox module, a Flax NNX module or its state, a dict of parameters; of arrays, or abstract
(jax.eval_shape). Paths are the keys joined by dots, as `python -m tpplan.export --jax` writes them.

Sources: JAX 0.10 (NamedSharding, with_sharding_constraint), Equinox 0.13, Flax 0.12.
"""

import dataclasses
import functools
import math
import re
import sys
from typing import Any, Callable

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .manifest import EXPORT_AGAIN, ManifestError, _shown, check_mesh, check_parameters, load_manifest

LAYOUT = re.compile(r"Replicate|Shard\((-?\d+)\)|Partial\((?:sum|avg|max|min)\)")


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One leaf of a tree, in the order of jax.tree.leaves. `path` is None for what is no tensor: functions, numbers, states
    of random generators. `box` is the object around the array: a Variable of Flax NNX, a metadata box of Flax Linen."""

    path: str | None
    value: Any
    box: Any
    is_parameter: bool


@dataclasses.dataclass(frozen=True)
class Constraint:
    """Functions for one boundary: `inputs(args, kwargs)` gives them constrained, `outputs(result)` too."""

    inputs: Callable
    outputs: Callable


# Trees.

def leaves_of(tree):
    """The leaves of a tree as a list of Leaf. Raises ManifestError for two arrays of one path."""
    found, paths = [], {}
    for path, value, box in _walk(tree, "", None):
        is_rng = box is not None and _is_flax(box, "RngState")
        named = is_array(value) and not is_rng
        found.append(Leaf(path if named else None, value, box, named and not (_is_flax(box, "Variable") and not _is_flax(box, "Param"))))
        if named and path in paths:
            raise ManifestError(f"parameter `{_shown(path)}`", "is the path of two arrays of the model", "keys of dicts hold no dots")
        paths[path] = True
    return found


def children_of(node):
    """The children of one node with their names, and the function that makes the node from others; ([], None) of a leaf."""
    keyed, structure = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    if len(keyed) == 1 and not keyed[0][0]:
        return [], None
    return [(_name_of(keys[0]), child) for keys, child in keyed], lambda children: jax.tree_util.tree_unflatten(structure, children)


def is_array(value):
    return isinstance(value, (jax.Array, np.ndarray, jax.ShapeDtypeStruct))


def join(path, name):
    return f"{path}.{name}" if path else name


def is_box(node):
    """Whether a node holds one array under its own name: a Variable of NNX, a box of Linen's partitioning."""
    return _is_flax(node, "Variable") or (meta := sys.modules.get("flax.core.meta")) is not None and isinstance(node, meta.AxisMetadata)


def _is_flax(value, name):
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, getattr(nnx, name))


def _walk(node, path, box):
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
        if leaf.path is not None and _is_flax(leaf.box, "Variable"):
            names.setdefault(id(leaf.box), []).append(leaf.path)
    return [paths for paths in names.values() if len(paths) > 1]


def _split(tree):
    """The arrays of a tree, and the function that makes the tree from others; NNX modules keep what they share."""
    if _is_flax(tree, "Module"):
        graph, state = sys.modules["flax.nnx"].split(tree)
        arrays, structure = jax.tree.flatten(state)
        return arrays, lambda new: sys.modules["flax.nnx"].merge(graph, jax.tree.unflatten(structure, new))
    leaves, structure = jax.tree.flatten(tree)
    where = [i for i, leaf in enumerate(leaves) if is_array(leaf)]

    def rebuild(new):
        filled = list(leaves)
        for i, value in zip(where, new):
            filled[i] = value
        return jax.tree.unflatten(structure, filled)

    return [leaves[i] for i in where], rebuild


def _plain_arrays(make, args, kwargs):
    """make(*args, **kwargs) with Flax's own placing of annotated arrays turned off: the manifest places them."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or not hasattr(nnx, "use_eager_sharding"):
        return make(*args, **kwargs)
    with nnx.use_eager_sharding(False):
        return make(*args, **kwargs)


def abstract(make, *args, **kwargs):
    """What make(*args, **kwargs) returns, with shapes in place of arrays (jax.eval_shape), whatever else its tree holds."""
    kept = []

    def arrays(*args, **kwargs):
        values, rebuild = _split(_plain_arrays(make, args, kwargs))
        kept.append(rebuild)
        return values

    shapes = jax.eval_shape(functools.partial(arrays, **kwargs), *args)
    return kept[-1](shapes)


# Parameters.

def shardings(manifest, mesh, tree=None):
    """The sharding of every parameter: {path: NamedSharding}; or, given a model (abstract or not), its tree with a
    NamedSharding for each array and None for what is none: for jax.device_put and out_shardings.

    Raises ManifestError where the manifest does not fit the mesh or the model, or is cut as JAX cannot."""
    manifest = load_manifest(manifest)
    _check_mesh(manifest, mesh)
    by_path = {path: NamedSharding(mesh, _spec_of(manifest, tensor)) for path, tensor in manifest.parameters.items()}
    if tree is None:
        return by_path
    leaves = leaves_of(tree)
    _check_leaves(manifest, leaves)
    whole = NamedSharding(mesh, PartitionSpec())
    return jax.tree.unflatten(jax.tree.structure(tree), [by_path.get(x.path, whole) if is_array(x.value) else None for x in leaves])


def batch_sharding(manifest, mesh):
    """The sharding of the batch: the axes of `data` cut its dim."""
    manifest = load_manifest(manifest)
    _check_mesh(manifest, mesh)
    return NamedSharding(mesh, PartitionSpec(*[None] * manifest.data_dim, manifest.data_axes or None))


def constrain(tree, manifest, mesh):
    """The tree with each array constrained to its sharding: inside jit, for a model that is made there."""
    wanted = shardings(manifest, mesh, tree)
    values, structure = jax.tree.flatten(tree)
    places = jax.tree.leaves(wanted, is_leaf=lambda x: x is None)
    return jax.tree.unflatten(structure, [v if s is None else jax.lax.with_sharding_constraint(v, s) for v, s in zip(values, places)])


def initialize(make, manifest, mesh, *args, batched=True, **kwargs):
    """The model that make(*args, **kwargs) makes, made under jit: each device computes its own pieces only, and the values
    are those of make. `args` may be arrays, such as the key. Boundaries, `remat` and `batched` are those of `parallelize`."""
    manifest = load_manifest(manifest)
    model = abstract(make, *args, **kwargs)
    wanted = _wrappers(model, manifest, mesh, batched)
    placed, _ = _split(_with_shardings(model, manifest, mesh))
    kept = []

    def arrays(*args):
        values, rebuild = _split(_plain_arrays(make, args, kwargs))
        kept.append(rebuild)
        return values

    values = jax.jit(arrays, out_shardings=[shape.sharding for shape in placed])(*args)
    return _wrapped(kept[-1](values), "", wanted)


def parallelize(model, manifest, mesh, *, batched=True):
    """The model with its arrays placed as the manifest says, with its modules' boundaries constrained, and with
    jax.checkpoint around the modules of `remat`. A NNX module is changed in place, of other trees a copy is made; a tree
    without modules (a dict of parameters) has arrays only, and a manifest with boundaries or `remat` is refused.

    `batched=False` is for modules that are called with one example, under jax.vmap: layouts are then counted without the
    batch's dim, and its axes are left to vmap (`spmd_axis_name`). An abstract model gets its shardings written."""
    manifest = load_manifest(manifest)
    wanted = _wrappers(model, manifest, mesh, batched)
    return _wrapped(_with_shardings(model, manifest, mesh), "", wanted)


def _with_shardings(model, manifest, mesh):
    leaves = leaves_of(model)
    by_path = shardings(manifest, mesh)
    whole = NamedSharding(mesh, PartitionSpec())

    def place(leaf):
        sharding = by_path.get(leaf.path, whole)
        if isinstance(leaf.value, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(leaf.value.shape, leaf.value.dtype, sharding=sharding)
        return jax.device_put(leaf.value, sharding)

    if _is_flax(model, "Module"):
        nnx = sys.modules["flax.nnx"]
        state = nnx.state(model)
        nnx.update(model, jax.tree.unflatten(jax.tree.structure(state), [place(x) for x in leaves_of(state)]))
        return model
    return jax.tree.unflatten(jax.tree.structure(model), [place(x) if is_array(x.value) else x.value for x in leaves])


def _check_mesh(manifest, mesh):
    if not isinstance(mesh, (jax.sharding.Mesh, jax.sharding.AbstractMesh)):
        raise ManifestError("`mesh`", f"{type(mesh).__name__} is no mesh of JAX", "make one with jax.make_mesh")
    check_mesh(manifest, list(mesh.shape.items()))


def _check_leaves(manifest, leaves):
    """Holds the manifest against the arrays of a model, both ways."""
    found = {x.path: (tuple(x.value.shape), x.value.dtype.name) for x in leaves if x.path is not None and x.is_parameter}
    check_parameters(manifest, found, ties_of([x for x in leaves if x.is_parameter]))
    buffers = {x.path: (tuple(x.value.shape), x.value.dtype.name) for x in leaves if x.path is not None and not x.is_parameter}
    for path in [*manifest.buffers, *buffers]:
        wanted = manifest.buffers.get(path)
        if path not in buffers or wanted is None or buffers[path] != (wanted.shape, wanted.dtype):
            raise ManifestError(f"buffer `{_shown(path)}`", "is not the same in the model and the manifest", EXPORT_AGAIN)


def _spec_of(manifest, tensor):
    """The PartitionSpec of a tensor; what tpplan.keras writes into layouts."""
    where, sizes = f"parameter `{_shown(tensor.path)}`", dict(manifest.mesh)
    for dim, axes in enumerate(tensor.spec):
        count = math.prod(sizes[axis] for axis in axes)
        if count > 1 and len(tensor.segments.get(dim) or ()) > 1:
            raise ManifestError(where, f"dim {dim} has segments, which JAX cannot cut each by itself",
                                "keep the parts in parameters of their own")
        if tensor.shape[dim] % count:
            raise ManifestError(where, f"dim {dim} of size {tensor.shape[dim]} is cut over {count} ranks unevenly, which JAX refuses",
                                "compile with `uneven: error`, which names what to change")
    return PartitionSpec(*[None if not axes else axes[0] if len(axes) == 1 else tuple(axes) for axes in tensor.spec])


# Module boundaries.

def constraints(manifest, mesh, *, batched=True):
    """{module path: Constraint} for all boundaries of a manifest. A value goes to the layout in which the boundary hands it
    on; a sum that is still open (Partial), and a value of which the manifest says nothing, are left to XLA."""
    manifest = load_manifest(manifest)
    _check_mesh(manifest, mesh)
    types = set(getattr(mesh, "axis_types", ()))
    if manifest.modules and any("Auto" not in str(kind) for kind in types):
        raise ManifestError("`mesh`", "constraints need axes of type Auto",
                            "jax.make_mesh(sizes, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names))")
    return {boundary.path: _constraint(manifest, mesh, boundary, batched) for boundary in manifest.modules}


def _constraint(manifest, mesh, boundary, batched):
    for value in boundary.inputs + boundary.outputs:
        for text in value.target or value.source or ():
            if LAYOUT.fullmatch(text) is None:
                raise ManifestError(f"module `{_shown(boundary.path)}`", f"unknown layout `{_shown(text)}`", "compile the plan again")

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
    """The PartitionSpec of a value at a module's boundary. Raises ManifestError for a dim that the value has not, or that
    does not divide: JAX would replicate such a value without a word."""
    entries = [[] for _ in shape]
    sizes = dict(manifest.mesh)
    for (axis, size), text in zip(manifest.mesh, layout):
        if text == "Replicate" or size == 1 or (not batched and axis in manifest.data_axes):
            continue
        dim = int(LAYOUT.fullmatch(text)[1])
        given = dim
        dim = len(shape) + dim if dim < 0 else dim - (not batched and dim > manifest.data_dim)
        if not 0 <= dim < len(shape):
            raise ManifestError(f"module `{_shown(path)}`", f"Shard({given}) of a value of shape {list(shape)}",
                                "count layouts from the end where modules are called under vmap"
                                if batched else "write a layout that the value has")
        entries[dim].append(axis)
    for dim, axes in enumerate(entries):
        if shape[dim] % math.prod(sizes[axis] for axis in axes):
            raise ManifestError(f"module `{_shown(path)}`",
                                f"dim {dim} of a value of shape {list(shape)} is cut over {', '.join(axes)} unevenly",
                                "give it a size that the axes divide")
    return PartitionSpec(*[tuple(axes) if axes else None for axes in entries])


def _wrappers(model, manifest, mesh, batched):
    """{module path: (its Constraint or None, whether it is in `remat`)}. Raises ManifestError for a model that does not fit."""
    _check_mesh(manifest, mesh)
    _check_leaves(manifest, leaves_of(model))
    wanted = {path: (c, False) for path, c in constraints(manifest, mesh, batched=batched).items()}
    for path in manifest.remat:
        wanted[path] = wanted.get(path, (None, False))[0], True
    for path in wanted:
        if not callable(_module_at(model, path)):
            raise ManifestError(f"module `{_shown(path)}`",
                                "has a boundary or is in `remat`, and the model has no such module that can be called",
                                "take constraints(manifest, mesh) and jax.checkpoint where the model computes it")
    return wanted


def _module_at(node, path):
    """The node of that path, or None. Names hold dots where keys of dicts do, so the longest name that fits is taken."""
    while path:
        fitting = [(name, child) for name, child in children_of(node)[0] if path == name or path.startswith(name + ".")]
        if not fitting:
            return None
        name, node = max(fitting, key=lambda pair: len(pair[0]))
        path = path[len(name) + 1:]
    return node


def _wrapped(node, path, wanted):
    """The node with the modules that are wanted of classes of their own, which call theirs."""
    if not any(key == path or not path or key.startswith(path + ".") for key in wanted):
        return node
    children, rebuild = children_of(node)
    if is_box(node) or rebuild is None:
        return node
    new = [_wrapped(child, join(path, name), wanted) for name, child in children]
    if any(a is not b for a, (_, b) in zip(new, children)):
        node = rebuild(new)
    if path not in wanted:
        return node
    made = _class_of(type(node), *wanted[path])
    if _is_flax(node, "Module"):
        object.__setattr__(node, "__class__", made)
        return node
    copy = object.__new__(made)
    for field in dataclasses.fields(node):
        if hasattr(node, field.name):
            object.__setattr__(copy, field.name, getattr(node, field.name))
    return copy


@functools.lru_cache(maxsize=None)
def _class_of(base, constraint, remat):
    """A subclass with this boundary. Its name and fields are those of its base: paths and types stay what they were."""
    def call(self, *args, **kwargs):
        if constraint is not None:
            args, kwargs = constraint.inputs(args, kwargs)
        result = _checkpointed(base, self, args, kwargs) if remat else base.__call__(self, *args, **kwargs)
        return result if constraint is None else constraint.outputs(result)

    call.__name__ = "__call__"
    return type(base)(base.__name__, (base,), {"__call__": call, "__module__": base.__module__, "__doc__": base.__doc__})


def _checkpointed(base, module, args, kwargs):
    """base.__call__ under jax.checkpoint; what is no array is no input of it."""
    if _is_flax(module, "Module"):
        return sys.modules["flax.nnx"].remat(lambda module, args: base.__call__(module, *args, **kwargs))(module, args)
    values, structure = jax.tree.flatten((module, args, kwargs))
    where = [i for i, value in enumerate(values) if is_array(value)]
    others = []

    def run(*arrays):
        filled = list(values)
        for i, value in zip(where, arrays):
            filled[i] = value
        module, args, kwargs = jax.tree.unflatten(structure, filled)
        leaves, tree = jax.tree.flatten(base.__call__(module, *args, **kwargs))
        others[:] = [tree, [None if is_array(leaf) else leaf for leaf in leaves]]
        return [leaf for leaf in leaves if is_array(leaf)]

    arrays = iter(jax.checkpoint(run)(*[values[i] for i in where]))
    tree, kept = others
    return jax.tree.unflatten(tree, [next(arrays) if leaf is None else leaf for leaf in kept])
