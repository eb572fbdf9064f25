"""Exports the model graph of a torch.nn.Module. It reads names, shapes and dtypes only, so the module may be on the
meta device."""

import contextlib
import inspect
import sys

from ..files import InputError, find_object, printable
from ..graph.settings import make_input, read_dtype
from ..manifest import DTYPE_BITS
from ..paths import join
from . import heads

# Module attributes with sizes that plan styles need.
SIZE_NAMES = ("in_features", "out_features", "embedding_dim")

# Endings of type names from which lib/model/module_kinds.cc infers the kind; for other names the file has the kind.
NORM_ENDINGS = ("Norm", "Normalization", "NormGated", "Norm1d", "Norm2d", "Norm3d")

# Type names, or endings of them, that module_kinds.cc reads as linear layers and embeddings, and excluded endings.
LINEAR_NAMES = ("Linear",)
EMBEDDING_NAMES = ("Embedding", "EmbeddingBag")
NO_EMBEDDINGS = ("RotaryEmbedding", "PatchEmbedding")

# Linear modules whose rows are the gate's, followed by up's.
GATE_UP_IN_BLOCKS = ("gate_up_proj",)


def build(name, kwargs, device="meta", settings=None):
    """Returns the module that `package.module:NAME` names, or that a class or function returns for `kwargs`, on
    `device`. It is converted to the dtype of `settings`, if any. Raises InputError if its code fails."""
    torch = _torch()
    made = find_object(name)
    if not isinstance(made, torch.nn.Module):
        if not callable(made):
            raise InputError(
                f"`{printable(name)}` is {_article(made)}, not a model",
                "name an nn.Module, or a class or function that returns one",
            )
        try:
            with torch.device(device):
                made = made(**kwargs)
        except Exception as error:  # whatever the model's code raises
            raise InputError(
                f"`{printable(name)}` failed: {type(error).__name__}: {printable(error, 500)}",
                "pass its arguments with --kwargs; if it cannot be built on the meta device, use --device cpu",
                1,
            ) from None
    elif kwargs:
        raise InputError(f"`{printable(name)}` is already a module, so --kwargs does not apply", "omit --kwargs")
    return made if settings is None or settings.dtype is None else made.to(read_dtype(settings.dtype))


def inputs(model, settings, device):
    """Returns (positional arguments, keyword arguments) for a call of forward; both are empty if the inputs are
    unknown."""
    signature = inspect.signature(model.forward).parameters
    accepted, alone = list(signature), inspect.Parameter.KEYWORD_ONLY
    described = dict(settings.inputs)
    if not described and "input_ids" in accepted:
        described = {"input_ids": {"shape": [settings.batch, settings.sequence], "dtype": "int64"}}
    made = {name: make_input(d, device, smallest_table(model)) for name, d in described.items()}
    in_order = list(made) == accepted[: len(made)] and not any(signature[name].kind == alone for name in made)
    return (tuple(made.values()), {}) if in_order else ((), made)


def smallest_table(model):
    """Returns the number of rows of the smallest embedding; smaller indices are valid for every embedding."""
    torch = _torch()
    return min(
        (m.num_embeddings for m in model.modules() if isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag))),
        default=2,
    )


def main_output(result):
    """Returns None: the loss uses all floating-point tensors of the result."""
    return None


def traceable():
    return contextlib.nullcontext()


def model_graph(model, name=None):
    """Returns the model graph (a dict, see schemas/model.schema.json) of an nn.Module. Prints inferred head sizes as
    notes. Raises InputError for other values, and for lazy parameters and unknown dtypes."""
    torch = _torch()
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{_article(model)} is not an nn.Module", "pass an nn.Module", 1)
    modules, names = [], {}
    for path, module in _named_modules(model):
        entry = {"path": path, "type": type(module).__name__}
        kind = _kind(torch, module)
        if kind:
            entry["kind"] = kind
        features = _features(torch, module)
        if features:
            entry["features"] = features
        parameters = {n: _tensor(join(path, n), p) for n, p in module._parameters.items() if p is not None}
        buffers = {n: _tensor(join(path, n), b) for n, b in module._buffers.items() if b is not None}
        if parameters:
            _add_facts(torch, path, module, parameters)
            entry["parameters"] = parameters
        if buffers:
            entry["buffers"] = buffers
        attributes = _attributes(torch, path, module)
        if attributes:
            entry["attributes"] = attributes
        modules.append(entry)
        for parameter_name, parameter in module._parameters.items():
            if parameter is not None:
                names.setdefault(id(parameter), []).append(join(path, parameter_name))
    for guess in heads.complete(modules):
        print(f"note: {guess}", file=sys.stderr)
    return {
        "format": "tpplan.model/1",
        "name": name or type(model).__name__,
        "framework": "torch",
        "modules": modules,
        "tied": [paths for paths in names.values() if len(paths) > 1],
    }


def _torch():
    try:
        import torch
    except ImportError:
        raise InputError("torch is not installed", "pip install torch") from None
    return torch


def _article(value):
    return f"a value of type {type(value).__module__}.{type(value).__qualname__}"


def _named_modules(model):
    """Yields (path, module) under all paths, as in state_dict, parents first. Raises InputError if a module contains
    itself."""

    def walk(path, module, above):
        yield path, module
        for name, child in module._modules.items():
            if child is None:
                continue
            if child in above:
                raise InputError(
                    f"module `{printable(join(path, name))}` contains itself",
                    "remove the cycle: tpplan needs a tree of modules",
                    1,
                )
            yield from walk(join(path, name), child, above | {child})

    return walk("", model, {model})


def _tensor(path, tensor):
    import torch

    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise InputError(
            f"parameter `{printable(path)}` has no shape yet", "run the model once to initialize its lazy modules", 1
        )
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPE_BITS:
        raise InputError(
            f"parameter `{printable(path)}` has dtype {dtype}, which tpplan does not support",
            "convert it to a supported dtype",
            1,
        )
    return {"shape": [int(size) for size in tensor.shape], "dtype": dtype}


def _kind(torch, module):
    """Returns the module's kind if its type name implies none or a wrong one; None otherwise."""
    nn, name = torch.nn, type(module).__name__
    norms = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
    if isinstance(module, nn.Linear):
        return None if name.endswith("Linear") else "linear"
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        says_it = name == "EmbeddingBag" or (name.endswith("Embedding") and not name.endswith(NO_EMBEDDINGS))
        return None if says_it else "embedding"
    if isinstance(module, norms):
        return None if name.endswith(NORM_ENDINGS) else "norm"
    if _only_called(module, LINEAR_NAMES) or _only_called(module, EMBEDDING_NAMES):
        return "other"
    if _is_experts(module) and not name.endswith("Experts"):
        return "experts"
    return None


def _only_called(module, names):
    """Returns True if the type name matches `names`, although the module is not torch's."""
    name = type(module).__name__
    return name in names or (
        name.endswith(names)
        and not name.endswith(NO_EMBEDDINGS)
        and any(p is not None for p in module._parameters.values())
    )


def _features(torch, module):
    """Returns which of `in_features` and `out_features` the module has ("in", "out", "both", "none"), because
    transformers reads them; None if its type implies it."""
    if isinstance(module, torch.nn.Linear):
        return None
    found = [name for name in ("in", "out") if heads.ask(module, f"{name}_features") is not None]
    if found:
        return "both" if len(found) == 2 else found[0]
    weight = module._parameters.get("weight")
    like_linear = weight is not None and weight.ndim == 2 and not isinstance(module, torch.nn.Embedding)
    return "none" if like_linear or type(module).__name__.endswith("Linear") else None


def _is_experts(module):
    """Returns True if the module holds the weights of all experts in one parameter, as transformers' experts do."""
    count = getattr(module, "num_experts", None)
    return (
        type(count) is int
        and hasattr(module, "is_transposed")
        and any(p is not None and p.ndim == 3 and p.shape[0] == count for p in module._parameters.values())
    )


def _add_facts(torch, path, module, parameters):
    """Adds dims and segments that module types do not imply, in place."""
    weight = parameters.get("weight")
    if (
        weight
        and len(weight["shape"]) == 2
        and not isinstance(module, (torch.nn.Linear, torch.nn.Embedding, torch.nn.EmbeddingBag))
    ):
        sizes = [heads.ask(module, "out_features"), heads.ask(module, "in_features")]
        if _only_called(module, LINEAR_NAMES) and (None in sizes or weight["shape"] == sizes):
            weight["dims"] = ["out", "in"]
            if len(parameters.get("bias", weight)["shape"]) == 1:
                parameters["bias"]["dims"] = ["out"]
        elif _only_called(module, EMBEDDING_NAMES):
            weight["dims"] = ["in", "out"]
    if isinstance(module, torch.nn.MultiheadAttention) and "in_proj_weight" in parameters:
        size = module.embed_dim
        parameters["in_proj_weight"] |= {"dims": ["out", "in"], "segments": {"out": [size] * 3}}
        if "in_proj_bias" in parameters:
            parameters["in_proj_bias"] |= {"dims": ["out"], "segments": {"out": [size] * 3}}
    if _is_experts(module):
        for name, entry in parameters.items():
            if len(entry["shape"]) != 3:
                continue
            if module.is_transposed:
                entry["dims"] = ["expert", "in", "out"]
            out = entry["shape"][2 if module.is_transposed else 1]
            if (
                name in GATE_UP_IN_BLOCKS
                and getattr(module, "is_concatenated", False)
                and getattr(module, "has_gate", False)
                and out % 2 == 0
            ):
                entry["segments"] = {"out": [out // 2] * 2}
    if isinstance(module, torch.nn.Linear) and path.rpartition(".")[2] in GATE_UP_IN_BLOCKS:
        out = module.out_features
        for entry in parameters.values() if out % 2 == 0 else ():
            entry["segments"] = {"out": [out // 2] * 2}


def _attributes(torch, path, module):
    """Returns head counts of an attention module, the number of experts of an expert module or router, and sizes that
    plan styles need."""
    found = heads.attributes(module)
    experts = heads.ask(module, "num_experts")
    if module._parameters and type(experts) is int and experts > 0:
        found["num_experts"] = experts
    if not isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):  # their sizes are those of the weight
        for key in SIZE_NAMES:
            size = heads.ask(module, key)
            if type(size) is int and size > 0:
                found[key] = size
    config = heads.ask(module, "config")
    rope = (
        heads.ask(config.get_text_config(), "qk_rope_head_dim")
        if path == "" and hasattr(config, "get_text_config")
        else None
    )
    if type(rope) is int and rope > 0:  # the style mla_kv_a_proj needs it
        found["qk_rope_head_dim"] = rope
    return found
