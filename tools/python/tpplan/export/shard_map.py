"""Traces the operations that one rank of jax.shard_map runs under a plan: `--jax NAME --shard-map FUNCTION --plan
PLAN`."""

import inspect
import json

from ..compiled import PlanError, compile_plan
from ..files import InputError, find_object, printable, read_json
from ..manifest import ManifestError, read_manifest_text
from ..plans import read_mesh
from .file_text import file_text


def find(options, tree, modules):
    """Returns graph_text(...) for the options of `python -m tpplan.export`."""
    mesh = None if options.mesh is None else list(read_mesh(options.mesh).items())
    out_specs = None if options.out_specs is None else read_json(options.out_specs, "--out-specs")
    inputs = read_inputs(read_json(options.inputs, "--inputs"))
    return graph_text(tree, modules, find_object(options.shard_map), options.plan, inputs, out_specs, mesh)


def graph_text(tree, modules, function, plan, inputs, out_specs=None, mesh=None):
    """Returns the field `graph` of function(tree, **inputs), traced on the local shards that the plan gives each
    rank. `modules` is the model graph, `mesh` lists (axis, size) in order (default: the plan's mesh). Raises
    InputError if the plan or the inputs do not fit."""
    from ..jaxpr import record, tables

    if not callable(function):
        raise InputError("--shard-map does not name a function", "name the function that jax.shard_map calls")
    manifest = _compiled(modules, plan, mesh)
    specs = {path: tensor.spec for path, tensor in (manifest.parameters | manifest.buffers).items()}
    axes = dict(manifest.mesh)
    arrays, paths, rebuild = _arrays(tree)
    arguments = []
    for path, array in zip(paths, arrays):
        if path not in specs:
            raise InputError(f"array `{printable(path)}` is not in the model graph", "export the model again", 1)
        kind = "param" if path in manifest.parameters else "buffer"
        spec = tuple(tuple(axes) if axes else None for axes in specs[path])
        arguments.append(record.Argument(kind, path, tuple(array.shape), str(array.dtype), spec))
    for name, described in inputs.items():
        spec = read_spec(described.get("spec"), axes, f"--inputs: `{printable(name)}`", len(described["shape"]))
        arguments.append(record.Argument("input", name, tuple(described["shape"]), described["dtype"], spec))
    if not inputs:
        raise InputError(
            "no inputs of the program are described", f"describe them with --inputs{printable(_names_of(function))}", 1
        )

    def flat(*given):
        import jax

        model, rest = rebuild(list(given[: len(arrays)])), given[len(arrays) :]
        return [leaf for leaf in jax.tree.leaves(function(model, **dict(zip(inputs, rest)))) if hasattr(leaf, "shape")]

    if out_specs is not None:
        if not isinstance(out_specs, list):
            raise InputError("--out-specs is not a list", "write a list with a spec for each result, or null")
        out_specs = [read_spec(spec, axes, "--out-specs", None) for spec in out_specs]
    return tables.text(record.record(flat, arguments, axes, out_specs), {"mode": "eval"})


def read_inputs(inputs):
    """Returns the descriptions of the inputs, with default dtype float32, and with a spec for sharded inputs. Raises
    InputError if one has no shape or an unknown dtype."""
    import jax.numpy as jnp

    remedy = 'write an object such as {"tokens": {"shape": [2, 16], "dtype": "int32", "spec": ["data", null]}}'
    if not isinstance(inputs, dict):
        raise InputError("--inputs is not an object", remedy)
    read = {}
    for name, described in inputs.items():
        described = {"dtype": "float32"} | (described if isinstance(described, dict) else {})
        shape = described.get("shape")
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise InputError(f"--inputs: `{printable(name)}` has no shape", remedy)
        try:
            jnp.dtype(described["dtype"])
        except TypeError:
            raise InputError(f"--inputs: `{printable(name)}` has a dtype that JAX does not support", remedy) from None
        read[name] = described
    return read


def read_spec(spec, axes, place, ndim):
    """Returns the spec of a JSON list, as a tuple: None, or a tuple of axes (major to minor) for each dim; () for
    null, a replicated value. Raises InputError for anything else."""
    if spec is None:
        return ()
    remedy = 'write a list such as ["data", null], with an axis of the plan\'s mesh, or null, for each dim'
    if not isinstance(spec, list) or (ndim is not None and len(spec) > ndim):
        raise InputError(f"{place}: a spec is not a list with at most one entry per dim", remedy)
    made = []
    for entry in spec:
        names = entry if isinstance(entry, list) else [] if entry is None else [entry]
        for name in names:
            if not isinstance(name, str) or name not in axes:
                raise InputError(f"{place}: `{printable(str(name))}` is not an axis of the mesh", remedy)
        made.append(tuple(names) or None)
    return tuple(made)


def _names_of(function):
    try:
        names = list(inspect.signature(function).parameters)[1:]
    except (TypeError, ValueError):
        return ""
    return " '" + json.dumps({name: {"shape": [2, 16], "dtype": "int32"} for name in names}) + "'" if names else ""


def _compiled(modules, plan, mesh):
    import warnings

    flags = () if mesh is None else ("--mesh", ",".join(f"{axis}={size}" for axis, size in mesh))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `tpplan check` prints them as well
            return read_manifest_text(compile_plan(file_text(modules), plan, flags=flags), "manifest")
    except PlanError as error:
        raise InputError(f"the plan has errors: {error}", "fix it, and trace the program again", 1) from None
    except ManifestError as error:
        raise InputError(f"{error.place} {error.reason}", error.remedy, 1) from None


def _arrays(tree):
    """Returns the arrays of a model, their paths, and the function that rebuilds the model from new arrays."""
    import sys

    import jax

    from ..jax.trees import is_array, is_flax, leaves_of, split

    arrays, rebuild = split(tree)
    if not is_flax(tree, "Module"):
        paths = [leaf.path for leaf in leaves_of(tree) if is_array(leaf.value)]
        return arrays, paths, rebuild
    keyed = jax.tree_util.tree_flatten_with_path(sys.modules["flax.nnx"].state(tree))[0]
    paths = []
    for keys, _ in keyed:
        names = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in keys]
        paths.append(".".join(names[:-1] if names and names[-1] in ("value", "raw_value") else names))
    return arrays, paths, rebuild
