"""Exports the model graph of a Keras 3 model, on any backend. The paths are those that a LayoutMap looks up."""

from ..files import InputError, find_object, printable
from ..manifest import DTYPE_BITS

ATTRIBUTE_NAMES = {
    "num_heads": ("num_heads", "num_query_heads", "_num_heads"),
    "num_kv_heads": ("num_key_value_heads",),
    "head_dim": ("key_dim", "head_dim", "_key_dim"),
}


def build(name, kwargs, device="meta"):
    """Returns the model that `package.module:NAME` names, or that a class or function returns for `kwargs`. It is
    built on the meta device on the torch backend, and under jax.eval_shape on JAX, so its weights take no memory.
    Raises InputError if its code fails."""
    keras = _keras()
    made = find_object(name)
    if isinstance(made, keras.layers.Layer):
        if kwargs:
            raise InputError(f"`{printable(name)}` is already a model, so --kwargs does not apply", "omit --kwargs")
        return made
    if not callable(made):
        raise InputError(
            f"`{printable(name)}` is {_article(made)}, not a model",
            "name a Keras model, or a class or function that returns one",
        )
    try:
        return _abstract(keras, device, lambda: made(**kwargs))
    except Exception as error:  # whatever the model's code raises
        raise InputError(
            f"`{printable(name)}` failed: {type(error).__name__}: {printable(error, 500)}",
            "pass its arguments with --kwargs; if building it needs array values, name a model instance",
            1,
        ) from None


def _abstract(keras, device, make):
    if keras.backend.backend() == "torch" and device == "meta":
        with keras.device("meta"):
            return make()
    if keras.backend.backend() == "jax":
        import jax

        made = []
        jax.eval_shape(lambda: made.append(make()))
        return made[0]
    return make()


def _keras():
    try:
        import keras
    except ImportError as error:
        raise InputError(
            f"keras cannot be imported: {printable(error)}", "pip install keras, and set KERAS_BACKEND"
        ) from None
    if not hasattr(keras, "distribution"):
        raise InputError("the installed keras is not Keras 3", "pip install 'keras>=3'") from None
    return keras


def _article(value):
    return f"a value of type {type(value).__module__}.{type(value).__qualname__}"


def model_graph(model, name=None):
    """Returns the model graph (a dict) of a Keras model or layer. States of random generators are not included.

    Raises InputError if the value is no model, is not built, or has two variables with the same path, which a
    LayoutMap cannot tell apart.
    """
    keras = _keras()
    if not isinstance(model, keras.layers.Layer):
        raise InputError(f"{_article(model)} is not a Keras model", "pass a Keras model", 1)
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Layer)]
    unbuilt = next((layer for layer in layers if not layer.built), None)
    if unbuilt is not None:
        raise InputError(
            f"layer `{printable(unbuilt.path)}` is not built, so it has no weights",
            "call model.build(input_shape), or call the model once",
            1,
        )
    modules, seen = {}, {}
    for layer in layers:
        if layer is model or (layer.path and not _own(layer)):
            modules.setdefault(
                "" if layer is model else layer.path, _module(layer, "" if layer is model else layer.path)
            )
        for kind, variables in (
            ("parameters", layer._trainable_variables),
            ("buffers", layer._non_trainable_variables),
        ):
            for variable in variables:
                _add(modules, seen, layer, kind, variable)
    return {
        "format": "tpplan.model/1",
        "name": name or type(model).__name__,
        "framework": "keras",
        "modules": list(modules.values()),
        "tied": [],
    }


def _own(layer):
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def _module(layer, path):
    module = {"path": path, "type": type(layer).__name__}
    if "Attention" in type(layer).__name__:
        found = {}
        for key, candidates in ATTRIBUTE_NAMES.items():
            value = next((v for v in (getattr(layer, c, None) for c in candidates) if type(v) is int and v > 0), None)
            if value is not None:
                found[key] = value
        if "num_heads" in found:
            module["attributes"] = found
    return module


def _add(modules, seen, layer, kind, variable):
    if id(variable) in seen:
        return
    path = variable.path
    owner, _, name = path.rpartition("/")
    if path in seen.values():
        raise InputError(f"two variables have the path `{printable(path)}`", "give the layers unique names", 1)
    seen[id(variable)] = path
    dtype = _dtype(variable)
    if dtype not in DTYPE_BITS:
        raise InputError(
            f"variable `{printable(path)}` has dtype {printable(dtype)}, which tpplan does not support",
            "convert it to a supported dtype",
            1,
        )
    entry = {"shape": [int(size) for size in variable.shape], "dtype": dtype}
    dims = _dims(layer, name, len(entry["shape"]))
    if dims:
        entry["dims"] = dims
    if owner not in modules:
        modules[owner] = _module(layer, owner)
    modules[owner].setdefault(kind, {})[name] = entry


def _dtype(variable):
    import keras

    return keras.backend.standardize_dtype(variable._dtype)


def _dims(layer, name, ndim):
    """Returns the dim names of an EinsumDense parameter, from its equation; None for other layers. Styles shard the
    first input dim (`in`) and the first output dim (`out`); the others are numbered."""
    equation = getattr(layer, "equation", None)
    if type(layer).__name__ != "EinsumDense" or name not in ("kernel", "bias") or not isinstance(equation, str):
        return None
    inputs, _, rest = equation.replace(" ", "").replace("...", "").partition(",")
    kernel, _, output = rest.partition("->")
    if name == "bias":
        axes = getattr(layer, "bias_axes", None) or ""
        letters = [letter for letter in output if letter in axes]
    else:
        letters = list(kernel)
    names, counts = [], {"in": 0, "out": 0}
    for letter in letters:
        word = "in" if letter in inputs and letter not in output else "out"
        names.append(word if counts[word] == 0 else f"{word}_{counts[word]}")
        counts[word] += 1
    return names if len(names) == ndim else None
