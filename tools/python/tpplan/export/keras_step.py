"""The step of a Keras model for export/program.py, on the JAX backend."""

import contextlib

from ..files import InputError
from . import marks


def step_of(model, modules, settings):
    """Returns (run, arguments, sizes) as jax_step.step_of. Sizes that the model's inputs leave open are the batch and
    the sequence of the settings. Raises InputError on other backends, or if the model has no inputs."""
    import keras

    if keras.backend.backend() != "jax":
        raise InputError("programs are recorded on Keras' JAX backend only", "set KERAS_BACKEND=jax, and install jax")
    inputs = _inputs(model, settings)
    groups = (("param", model.trainable_variables), ("buffer", model.non_trainable_variables))
    known = {
        "/".join(filter(None, (module["path"], name)))
        for module in modules["modules"]
        for field in ("parameters", "buffers")
        for name in module.get(field, {})
    }
    arguments = [
        (kind if v.path in known else "other", v.path, _abstract(v.shape, v.dtype))
        for kind, variables in groups
        for v in variables
    ]
    arguments += [("input", name, shape) for name, shape in inputs]
    first, second = (len(variables) for _, variables in groups)

    def run(*given):
        trainable, others, data = given[:first], given[first : first + second], given[first + second :]
        with _marked(model, modules):
            outputs, _ = model.stateless_call(
                list(trainable), list(others), *_call_arguments(model, data), training=settings.mode == "train"
            )
        return outputs

    shape = next((list(x.shape) for _, x in inputs if len(x.shape) > 1), [])
    return run, arguments, dict(zip(("batch", "sequence"), shape))


def _abstract(shape, dtype):
    import jax
    import keras

    return jax.ShapeDtypeStruct(tuple(shape), keras.backend.standardize_dtype(dtype))


def _inputs(model, settings):
    """Returns (name, abstract array) of the inputs: of `--inputs`, or of the model's own."""
    if settings.inputs:
        return [(name, _abstract(x["shape"], x["dtype"])) for name, x in settings.inputs.items()]
    found = getattr(model, "inputs", None)
    if not found:
        raise InputError("the model has no inputs of its own", "describe the arguments of its call with --inputs")
    open_sizes = (settings.batch, settings.sequence)
    return [
        (x.name, _abstract([size or open_sizes[min(i, 1)] for i, size in enumerate(x.shape)], x.dtype)) for x in found
    ]


def _call_arguments(model, data):
    """Returns the arguments of the model's call: a functional model takes its inputs as one structure."""
    from keras.src import tree

    structure = getattr(model, "_inputs_struct", None)
    return data if structure is None else (tree.pack_sequence_as(structure, list(data)),)


@contextlib.contextmanager
def _marked(model, modules):
    """Names the operations of the model's layers, and marks their outputs. ModelParallel constrains no inputs."""
    from keras.src.layers.layer import Layer

    exported = {module["path"] for module in modules["modules"]}
    original = Layer.__call__

    def call(self, *args, **kwargs):
        path = "" if self is model else self.path
        if path not in exported:
            return original(self, *args, **kwargs)
        with marks.module_scope(path):
            return marks.mark_outputs(path, original(self, *args, **kwargs))

    Layer.__call__ = call
    try:
        yield
    finally:
        Layer.__call__ = original
