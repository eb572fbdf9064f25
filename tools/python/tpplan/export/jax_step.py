"""The step of a JAX model for export/program.py: modules that are called with arrays."""

import functools
import inspect
import sys

from ..files import InputError
from ..paths import join
from . import marks
from .shard_map import _arrays

EMBEDDINGS = ("Embed", "Embedding")  # types of modules; a model with one expects tokens


def step_of(tree, modules, settings):
    """Returns (run, arguments, sizes): run(*arrays) calls the model, `arguments` lists (kind, path, abstract array),
    `sizes` has batch and sequence. Raises InputError if the model cannot be called or its inputs are unknown."""
    import jax

    if not callable(tree):
        raise InputError(
            "the model has no __call__", "name an Equinox or Flax NNX module, or a function that makes one"
        )
    inputs = settings.inputs or _tokens(tree, modules, settings)
    arrays, paths, rebuild = _arrays(_marked(_in_mode(tree, settings.mode), modules))
    kinds = {
        join(module["path"], name): kind
        for module in modules["modules"]
        for kind, field in (("param", "parameters"), ("buffer", "buffers"))
        for name in module.get(field, {})
    }
    arguments = [
        (kinds.get(path, "other"), path or "", jax.ShapeDtypeStruct(array.shape, array.dtype))
        for array, path in zip(arrays, paths)
    ]
    for name, described in inputs.items():
        arguments.append(("input", name, jax.ShapeDtypeStruct(tuple(described["shape"]), described["dtype"])))
    more = {"key": jax.random.key(0)} if _needs_key(tree, settings.mode) else {}

    def run(*given):
        model, rest = rebuild(list(given[: len(arrays)])), given[len(arrays) :]
        call = lambda *values: model(**dict(zip(inputs, values)), **more)  # noqa: E731
        return (jax.vmap(call) if settings.vmap else call)(*rest)

    shape = next((list(x["shape"]) for x in inputs.values() if len(x["shape"]) > 1), [])
    return run, arguments, dict(zip(("batch", "sequence"), shape))


def _marked(tree, modules):
    from ..jax.boundaries import Constraint
    from ..jax.modules import _module_at, wrapped

    wanted = {}
    for path in (module["path"] for module in modules["modules"]):
        if callable(_module_at(tree, path)):
            both = (functools.partial(marks.mark_inputs, path), functools.partial(marks.mark_outputs, path))
            wanted[path] = (Constraint(*both), False, functools.partial(marks.module_scope, path))
    return wrapped(tree, "", wanted)


def _in_mode(tree, mode):
    """Returns the model in training or inference mode. An NNX module is changed in place."""
    equinox, nnx = sys.modules.get("equinox"), sys.modules.get("flax.nnx")
    if equinox is not None and isinstance(tree, equinox.Module):
        return equinox.nn.inference_mode(tree, mode == "eval")
    if nnx is not None and isinstance(tree, nnx.Module):
        tree.train() if mode == "train" else tree.eval()
    return tree


def _needs_key(tree, mode):
    return mode == "train" and "key" in inspect.signature(tree.__call__).parameters


def _tokens(tree, modules, settings):
    """Returns the description of the tokens of a language model: its first argument."""
    names = list(inspect.signature(tree.__call__).parameters)
    if not names or not any(module["type"] in EMBEDDINGS for module in modules["modules"]):
        raise InputError(
            "the arguments of the model's call are unknown",
            'describe them with --inputs, such as {"x": {"shape": [2, 64], "dtype": "float32"}}',
        )
    return {names[0]: {"shape": [settings.batch, settings.sequence], "dtype": "int32"}}
