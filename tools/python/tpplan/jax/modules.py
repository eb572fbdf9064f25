"""Modules that constrain what goes in and out of them, and are rematerialised: of classes of their own, in a tree that is copied."""

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
    """{module path: (its Constraint or None, whether it is in `remat`)}. Raises ManifestError for a model that does not fit."""
    check_jax_mesh(manifest, mesh)
    check_leaves(manifest, leaves_of(model))
    wanted = {path: (c, False) for path, c in constraints(manifest, mesh, batched=batched).items()}
    for path in manifest.remat:
        wanted[path] = wanted.get(path, (None, False))[0], True
    need_modules(model, wanted)
    return wanted


def need_modules(model, paths):
    """Refuses a model that has no modules of these paths, or none that can be called."""
    for path in paths:
        if not callable(_module_at(model, path)):
            raise ManifestError(
                f"module `{printable(path)}`",
                "has a boundary or is in `remat`, and the model has no such module that can be called",
                "take constraints(manifest, mesh) and jax.checkpoint where the model computes it; for Linen, linen_boundaries",
            )


def _module_at(node, path):
    """The node of that path, or None. Names hold dots where keys of dicts do, so the longest name that fits is taken."""
    while path:
        fitting = [(name, child) for name, child in children_of(node)[0] if path == name or path.startswith(name + ".")]
        if not fitting:
            return None
        name, node = max(fitting, key=lambda pair: len(pair[0]))
        path = path[len(name) + 1 :]
    return node


def wrapped(node, path, wanted):
    """The node with the modules that are wanted of classes of their own, which call theirs."""
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
def _class_of(base, constraint, remat):
    """A subclass with this boundary. Its name and fields are those of its base: paths and types stay what they were."""

    def call(self, *args, **kwargs):
        if constraint is not None:
            args, kwargs = constraint.inputs(args, kwargs)
        result = _checkpointed(base, self, args, kwargs) if remat else base.__call__(self, *args, **kwargs)
        return result if constraint is None else constraint.outputs(result)

    call.__name__ = "__call__"
    return type(base)(
        base.__name__, (base,), {"__call__": call, "__module__": base.__module__, "__doc__": base.__doc__}
    )


def _checkpointed(base, module, args, kwargs):
    """base.__call__ under jax.checkpoint; what is no array is no input of it."""
    if is_flax(module, "Module"):
        return sys.modules["flax.nnx"].remat(lambda module, args: base.__call__(module, *args, **kwargs))(module, args)
    values, rebuild = split((module, args, kwargs))

    def call(*values):
        module, args, kwargs = rebuild(values)
        return base.__call__(module, *args, **kwargs)

    run, rebuild_result = arrays_alone(call)
    return rebuild_result(jax.checkpoint(run)(*values))
