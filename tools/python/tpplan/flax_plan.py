"""Logical axis rules of Flax as a plan file, in the dialect regex, resolved by Flax itself."""

import json

from . import plans
from .files import InputError, find_object, printable
from .write_plan import write_plan

# What Flax' examples and MaxText call the dim of the batch.
BATCH_NAMES = ("batch", "activation_batch")


def from_flax(name, mesh, kwargs, model=None):
    """A list of (logical name, mesh axis, axes or None), or a function that makes one from `kwargs`, resolved for the arrays
    of a model graph that python -m tpplan.export --jax wrote: the names of their dims stand there (`logical_axes`)."""
    if model is None:
        raise InputError(
            "logical axis rules need the model, which names its dims", "give the model graph with --model model.json"
        )
    found = find_object(name)
    if callable(found):
        try:
            found = found(**kwargs)
        except Exception as error:  # whatever the function raises
            raise InputError(
                f"`{printable(name)}` failed: {type(error).__name__}: {printable(error)}",
                "give its arguments with --kwargs",
                1,
            ) from None
    try:
        with open(model, encoding="utf-8") as file:
            names, shapes = names_in(json.load(file))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{printable(model)} is no model graph: {printable(error)}", "write one with python -m tpplan.export --jax"
        ) from None
    return flax_plan(found, names, shapes, mesh)


def names_in(graph):
    """{path: names of its dims, or None} and {path: shape} of the parameters of a model graph."""
    names, shapes = {}, {}
    for module in graph["modules"]:
        for parameter, entry in module.get("parameters", {}).items():
            path = ".".join(filter(None, (module["path"], parameter)))
            shapes[path] = entry["shape"]
            names[path] = module.get("attributes", {}).get("logical_axes", {}).get(parameter)
    return names, shapes


def flax_plan(rules, names, shapes, mesh):
    """The plan of logical axis rules over parameters: `names` {path: names of its dims, or None: it stays whole}. The axes of
    the first rule for a name of BATCH_NAMES cut the batch."""
    try:
        from flax.linen import spmd
    except ImportError:
        raise InputError("flax is not installed", "pip install flax") from None
    if not any(names.values()):
        raise InputError(
            "no parameter of the model names its dims",
            "annotate it: nn.with_logical_partitioning, or nnx.with_partitioning",
            1,
        )
    groups = {}
    for path, logical in names.items():
        if not logical:
            continue
        if not isinstance(logical, list) or len(logical) != len(shapes[path]):
            raise InputError(
                f"parameter `{printable(path)}` names {printable(logical)} for its {len(shapes[path])} dims",
                "name each dim, or None",
                1,
            )
        try:
            spec = spmd.logical_to_mesh_axes(tuple(tuple(n) if isinstance(n, list) else n for n in logical), rules)
            spec = tuple(spec) + (None,) * (len(logical) - len(spec))
        except Exception as error:  # Flax's own complaints, and those about what is no list of rules
            raise InputError(
                f"Flax refuses these rules for parameter `{printable(path)}`: {printable(error)}",
                "name a list of (logical name, mesh axis)",
                1,
            ) from None
        groups.setdefault(tuple(tuple(e) if isinstance(e, tuple) else e for e in spec), []).append(path)
    keys = {}
    for spec, paths in groups.items():
        keys[plans._expression("", paths, shapes, ".")] = {
            "spec": [list(e) if isinstance(e, tuple) else e for e in spec]
        }
    return write_plan("regex", mesh, keys, data=_data(rules))


def _data(rules):
    """The plan's `data`; None where the rules say nothing of a batch."""
    axes = next((axes for name, axes in rules if name in BATCH_NAMES), None)
    return {"axes": [axes] if isinstance(axes, str) else list(axes), "dim": 0} if axes else None
