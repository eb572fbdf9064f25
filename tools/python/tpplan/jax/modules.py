"""Modules that constrain their inputs and outputs, or are rematerialized: instances of subclasses, in a copied tree."""

import contextlib
import dataclasses
import functools
import sys

import jax

from ..files import printable
from ..manifest import ManifestError
from ..paths import join
from .arrays import check_jax_mesh, check_leaves
from .boundaries import constraints
from .trees import arrays_alone, children_of, is_box, is_flax, leaves_of, split


def wrappers(model, manifest, mesh, batched):
    """Returns {module path: (its Constraint or None, True if it is in `remat`)}. Raises ManifestError if the manifest
    does not fit the model."""
    check_jax_mesh(manifest, mesh)
    check_leaves(manifest, leaves_of(model))
    wanted = {path: (c, False) for path, c in constraints(manifest, mesh, batched=batched).items()}
    for path in manifest.remat:
        wanted[path] = wanted.get(path, (None, False))[0], True
    need_modules(model, wanted)
    return wanted


def need_modules(model, paths):
    """Raises ManifestError if the model lacks a module at one of these paths, or it is not callable."""
    for path in paths:
        if not callable(_module_at(model, path)):
            raise ManifestError(
                f"module `{printable(path)}`",
                "has a boundary or is in `remat`, but the model has no callable module at this path",
                "call constraints(manifest, mesh) and jax.checkpoint in the model's code; for Linen use "
                "linen_boundaries",
            )


def _module_at(node, path):
    """Returns the node at that path, or None. A dict key may contain dots, so the longest matching name is used."""
    while path:
        fitting = [(name, child) for name, child in children_of(node)[0] if path == name or path.startswith(name + ".")]
        if not fitting:
            return None
        name, node = max(fitting, key=lambda pair: len(pair[0]))
        path = path[len(name) + 1 :]
    return node


def wrapped(node, path, wanted):
    """Returns the node with the modules of `wanted` replaced by instances of subclasses that apply their Constraint
    and remat. An entry may have a third item: a function that returns a context manager around the call."""
    if not any(key == path or not path or key.startswith(path + ".") for key in wanted):
        return node
    children, rebuild = children_of(node)
    if is_box(node) or rebuild is None:
        return node
    new = [wrapped(child, join(path, name), wanted) for name, child in children]
    if any(a is not b for a, (_, b) in zip(new, children)):
        node = rebuild(new)
    if path not in wanted:
        return node
    made = _class_of(type(node), *wanted[path])
    if is_flax(node, "Module"):
        object.__setattr__(node, "__class__", made)
        return node
    copy = object.__new__(made)
    for field in dataclasses.fields(node):
        if hasattr(node, field.name):
            object.__setattr__(copy, field.name, getattr(node, field.name))
    return copy


@functools.lru_cache(maxsize=None)
def _class_of(base, constraint, remat, around=contextlib.nullcontext):
    """Returns a subclass that applies this Constraint and remat. It has the name and the fields of its base, so that
    paths and types are unchanged."""

    def call(self, *args, **kwargs):
        if constraint is not None:
            args, kwargs = constraint.inputs(args, kwargs)
        with around():
            result = _checkpointed(base, self, args, kwargs) if remat else base.__call__(self, *args, **kwargs)
        return result if constraint is None else constraint.outputs(result)

    call.__name__ = "__call__"
    return type(base)(
        base.__name__, (base,), {"__call__": call, "__module__": base.__module__, "__doc__": base.__doc__}
    )


def _checkpointed(base, module, args, kwargs):
    """Calls base.__call__ under jax.checkpoint; only arrays are its inputs."""
    if is_flax(module, "Module"):
        return sys.modules["flax.nnx"].remat(lambda module, args: base.__call__(module, *args, **kwargs))(module, args)
    values, rebuild = split((module, args, kwargs))

    def call(*values):
        module, args, kwargs = rebuild(values)
        return base.__call__(module, *args, **kwargs)

    run, rebuild_result = arrays_alone(call)
    return rebuild_result(jax.checkpoint(run)(*values))
