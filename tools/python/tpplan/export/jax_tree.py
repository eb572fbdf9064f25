"""Exports the model graph of a JAX model: any pytree of arrays or shapes (Equinox modules, Flax NNX modules, dicts of
parameters)."""

import inspect
import itertools
import sys

from ..files import InputError, find_object, printable
from ..manifest import DTYPE_BITS, ManifestError
from ..paths import join

# (name, ndim) of a leaf in a Flax Linen dict of parameters -> kind of its module, because Linen stores no module
# types.
LINEN_KINDS = {("kernel", 2): "linear", ("embedding", 2): "embedding", ("scale", 1): "norm"}

# Attributes with the head counts of a module, in order of preference.
ATTRIBUTE_NAMES = {
    "num_heads": ("num_heads", "num_query_heads"),
    "num_kv_heads": ("num_kv_heads", "num_key_value_heads"),
    "head_dim": ("head_dim", "qk_size"),
}

# Dims of layers whose parameters may be stacked, without the stacking dims.
STACKED_DIMS = {
    ("equinox.Linear", "weight"): ["out", "in"],
    ("equinox.Linear", "bias"): ["out"],
    ("equinox.Embedding", "weight"): ["in", "out"],
    ("flax.Linear", "kernel"): ["in", "out"],
    ("flax.Linear", "bias"): ["out"],
    ("flax.Embed", "embedding"): ["in", "out"],
}

# Attributes with the sizes of these dims, in order of preference.
SIZE_NAMES = {"in": ("in_features", "num_embeddings"), "out": ("out_features", "features", "embedding_size")}


def build(name, kwargs, device="meta"):
    """Returns the pytree that `package.module:NAME` names, or that a class or function returns for `kwargs` under
    jax.eval_shape, without memory or values. Arguments `key` and `rngs` without a default are supplied, because JSON
    cannot express them. Raises InputError if the model's code fails."""
    jax_bridge = _jax_bridge()
    made = find_object(name)
    if not callable(made) or any(leaf.path is not None for leaf in jax_bridge.leaves_of(made)):
        if kwargs:
            raise InputError(f"`{printable(name)}` is already a model, so --kwargs does not apply", "omit --kwargs")
        return made
    try:
        return jax_bridge.abstract(lambda: made(**kwargs, **_randomness(made, kwargs)))
    except Exception as error:  # whatever the model's code raises
        raise InputError(
            f"`{printable(name)}` failed: {type(error).__name__}: {printable(error, 500)}",
            "pass its arguments with --kwargs, and do not read array values: it runs under jax.eval_shape",
            1,
        ) from None


def _randomness(made, kwargs):
    import jax

    try:
        parameters = inspect.signature(made.__init__ if isinstance(made, type) else made).parameters
    except (TypeError, ValueError):
        return {}
    given = {}
    for name, value in (("key", lambda: jax.random.key(0)), ("rngs", lambda: __import__("flax.nnx").nnx.Rngs(0))):
        if name in parameters and parameters[name].default is inspect.Parameter.empty and name not in kwargs:
            given[name] = value()
    return given


def _jax_bridge():
    try:
        from .. import jax as jax_bridge
    except ImportError:
        raise InputError("jax is not installed", "pip install jax") from None
    return jax_bridge


def model_graph(tree, name=None):
    """Returns the model graph (a dict) of a pytree. A node with arrays is a module, and so are its ancestors.
    Partitioning names (Linen's boxes, NNX's metadata) become `logical_axes`. Raises InputError for a tree without
    arrays, and for an unknown dtype."""
    jax_bridge = _jax_bridge()
    try:
        leaves = jax_bridge.leaves_of(tree)
    except ManifestError as error:
        raise InputError(f"{error.place} {error.reason}", error.remedy, 1) from None
    if not any(leaf.path for leaf in leaves):
        raise InputError(
            f"a value of type {type(tree).__module__}.{type(tree).__qualname__} is not a model",
            "pass a tree of arrays or of shapes",
            1,
        )
    modules = {}
    _walk(jax_bridge, tree, "", modules)
    wanted = {leaf.path: leaf for leaf in leaves if leaf.path is not None}
    for path, leaf in wanted.items():
        owner = next(module for module in (path.rpartition(".")[0], "") if module in modules)
        _add_tensor(modules[owner], path[len(owner) + 1 :] if owner else path, path, leaf)
    kept = [_finish(module) for path, module in modules.items() if _holds(path, wanted)]
    return {
        "format": "tpplan.model/1",
        "name": name or type(tree).__name__,
        "framework": "jax",
        "modules": kept,
        "tied": jax_bridge.ties_of([leaf for leaf in leaves if leaf.is_parameter]),
    }


def _walk(jax_bridge, node, path, modules):
    """Adds all nodes that are no leaves to `modules`, by path, parents first."""
    children, _ = jax_bridge.children_of(node)
    if not children or jax_bridge.is_box(node):
        return
    modules[path] = {"path": path, "type": type(node).__name__, "node": node}
    for name, child in children:
        _walk(jax_bridge, child, join(path, name), modules)


def _holds(path, wanted):
    return not path or any(p.startswith(path + ".") for p in wanted)


def _add_tensor(module, name, path, leaf):
    dtype = str(leaf.value.dtype)
    if dtype not in DTYPE_BITS:
        raise InputError(
            f"array `{printable(path)}` has dtype {printable(dtype)}, which tpplan does not support",
            "convert it, or remove it from the tree",
            1,
        )
    entry = {"shape": [int(size) for size in leaf.value.shape], "dtype": dtype}
    dims = _dims(module["node"], name, entry["shape"], path)
    if dims:
        entry["dims"] = dims
    module.setdefault("parameters" if leaf.is_parameter else "buffers", {})[name] = entry
    names = _logical_names(leaf.box)
    if names and len(names) == len(entry["shape"]):
        entry["logical_axes"] = names


def _logical_names(box):
    """Returns the logical names of an array's dims; None if they are tuples of mesh axes, to which logical rules do
    not apply."""
    names = getattr(box, "names", None)
    if names is None and hasattr(box, "get_metadata"):
        metadata = box.get_metadata()
        names = metadata.get("out_sharding", metadata.get("sharding_names", metadata.get("sharding")))
    if not isinstance(names, (tuple, list)) or any(n is not None and not isinstance(n, str) for n in names):
        return None
    return [n or None for n in names]


def _dims(node, name, shape, path):
    """Returns the dim names of a stacked layer or of Flax' LinearGeneral; None for others. LinearGeneral has several
    input and output dims; styles shard the first of each (the heads)."""
    own, ndim = STACKED_DIMS.get((_public_type(node), name)), len(shape)
    if own and ndim > len(own):
        return _stacked_dims(node, own, shape, path)
    if type(node).__name__ != "LinearGeneral" or name not in ("kernel", "bias") or not hasattr(node, "out_features"):
        return None
    outs = _group("out", node.out_features)
    ins = _group("in", node.in_features)
    dims = ins + outs if name == "kernel" else outs
    return dims if len(dims) == ndim else None


def _stacked_dims(node, own, shape, path):
    """Returns the dim names of a stacked layer. nnx.vmap and eqx.filter_vmap stack at any axis (`out_axes`), so the
    sizes of the layer's attributes decide; the stacking dims come first if no position fits. Prints a note if several
    do, because the first is then a guess."""
    wanted = [
        next((v for v in (getattr(node, a, None) for a in SIZE_NAMES[dim]) if isinstance(v, int)), None) for dim in own
    ]
    count = len(shape) - len(own)
    fitting = [
        stack
        for stack in itertools.combinations(range(len(shape)), count)
        if [size for at, size in enumerate(shape) if at not in stack] == wanted
    ]
    if len(fitting) > 1:
        print(
            f"note: the sizes of `{printable(path)}` do not show which dim stacks the layers: dim {fitting[0][0]} is "
            "assumed",
            file=sys.stderr,
        )
    stack = fitting[0] if fitting else range(count)
    layers, others = itertools.count(), iter(own)
    names = []
    for at in range(len(shape)):
        number = next(layers) if at in stack else 0
        names.append(next(others) if at not in stack else f"layers_{number}" if number else "layers")
    return names


def _public_type(node):
    """Returns `framework.Class` of a node's first base class in Equinox or Flax; None if it has none."""
    for base in type(node).__mro__:
        framework = base.__module__.partition(".")[0]
        if framework in ("equinox", "flax"):
            return f"{framework}.{base.__name__}"
    return None


def _group(word, features):
    count = len(features) if isinstance(features, (tuple, list)) else 1
    return [word] + [f"{word}_{i}" for i in range(1, count)]


def _finish(module):
    """Returns the module as it is written: with kind and attributes, without the node."""
    node = module.pop("node")
    kind = None
    if isinstance(node, dict):
        kind = next(
            (
                LINEN_KINDS[n, len(p["shape"])]
                for n, p in module.get("parameters", {}).items()
                if (n, len(p["shape"])) in LINEN_KINDS
            ),
            None,
        )
    elif type(node).__name__ == "LinearGeneral":
        kind = "linear"
    if kind:
        module["kind"] = kind
    if "Attention" in type(node).__name__:
        found = {}
        for key, candidates in ATTRIBUTE_NAMES.items():
            value = next((v for v in (getattr(node, c, None) for c in candidates) if type(v) is int and v > 0), None)
            if value is not None:
                found[key] = value
        if "num_heads" in found:
            module["attributes"] = found | module.get("attributes", {})
    order = ("path", "type", "kind", "parameters", "buffers", "attributes")
    return {key: module[key] for key in order if key in module}
