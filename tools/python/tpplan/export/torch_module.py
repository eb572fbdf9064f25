"""The model graph of a torch.nn.Module. Only names, shapes and types are read, so a module on the meta device will do."""

import contextlib
import inspect
import sys

from ..files import InputError, find_object, printable
from ..graph.settings import make_input, read_dtype
from ..manifest import DTYPE_BITS
from ..paths import join
from . import heads

# Sizes that styles of plans ask a module for.
SIZE_NAMES = ("in_features", "out_features", "embedding_dim")

# Endings of type names that lib/model/module_kinds.cc reads as the kind; a type with another name says its kind itself.
NORM_ENDINGS = ("Norm", "Normalization", "NormGated", "Norm1d", "Norm2d", "Norm3d")

# Names and endings of names by which it knows linear layers and embeddings, and endings that it knows to be neither.
LINEAR_NAMES = ("Linear",)
EMBEDDING_NAMES = ("Embedding", "EmbeddingBag")
NO_EMBEDDINGS = ("RotaryEmbedding", "PatchEmbedding")

# Linear modules whose rows are the gate's and then the other's.
GATE_UP_IN_BLOCKS = ("gate_up_proj",)


def build(name, kwargs, device="meta", settings=None):
    """The module that `package.module:NAME` names: a module, or a class or function that makes one from `kwargs`, called
    on the meta device unless another one is named; in the dtype of `settings` if that names one. Raises InputError."""
    torch = _torch()
    made = find_object(name)
    if not isinstance(made, torch.nn.Module):
        if not callable(made):
            raise InputError(
                f"`{printable(name)}` is {_article(made)}, which is no model",
                "name an nn.Module, or a class or function that makes one",
            )
        try:
            with torch.device(device):
                made = made(**kwargs)
        except Exception as error:  # whatever the model's code raises
            raise InputError(
                f"`{printable(name)}` failed: {type(error).__name__}: {printable(error, 500)}",
                "give its arguments with --kwargs; what cannot be built on the meta device may be built with --device cpu",
                1,
            ) from None
    elif kwargs:
        raise InputError(f"`{printable(name)}` is a module already, and takes no --kwargs", "leave them out")
    return made if settings is None or settings.dtype is None else made.to(read_dtype(settings.dtype))


def inputs(model, settings, device):
    """What forward is called with: positional arguments, and keywords."""
    signature = inspect.signature(model.forward).parameters
    accepted, alone = list(signature), inspect.Parameter.KEYWORD_ONLY
    described = dict(settings.inputs)
    if not described and "input_ids" in accepted:
        described = {"input_ids": {"shape": [settings.batch, settings.sequence], "dtype": "int64"}}
    made = {name: make_input(d, device, smallest_table(model)) for name, d in described.items()}
    in_order = list(made) == accepted[: len(made)] and not any(signature[name].kind == alone for name in made)
    return (tuple(made.values()), {}) if in_order else ((), made)


def smallest_table(model):
    """The number of rows of the smallest embedding: indices below it fit all of them."""
    torch = _torch()
    return min(
        (m.num_embeddings for m in model.modules() if isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag))),
        default=2,
    )


def main_output(result):
    """The tensors that a loss is made of: None says all."""
    return None


def traceable():
    return contextlib.nullcontext()


def model_graph(model, name=None):
    """The model graph (a dict, as schemas/model.schema.json has it) of an nn.Module. Raises InputError for what is no
    module, and for parameters that have no shape yet or a type that tpplan does not know."""
    torch = _torch()
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{_article(model)} is no model", "give an nn.Module", 1)
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
    """All modules under all their paths, as state_dict names them, parents first. A module inside itself is an error."""

    def walk(path, module, above):
        yield path, module
        for name, child in module._modules.items():
            if child is None:
                continue
            if child in above:
                raise InputError(
                    f"module `{printable(join(path, name))}` contains itself", "tpplan needs a tree of modules", 1
                )
            yield from walk(join(path, name), child, above | {child})

    return walk("", model, {model})


def _tensor(path, tensor):
    import torch

    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise InputError(
            f"parameter `{printable(path)}` has no shape yet",
            "run the model once, so that its lazy modules know their sizes",
            1,
        )
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPE_BITS:
        raise InputError(
            f"parameter `{printable(path)}` has dtype {dtype}, which tpplan does not know", "convert it", 1
        )
    return {"shape": [int(size) for size in tensor.shape], "dtype": dtype}


def _kind(torch, module):
    """The kind, where the name of the type does not say it or says another one."""
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
    """Whether a module that is none of torch's has a type that tpplan would take for one of these by its name."""
    name = type(module).__name__
    return name in names or (
        name.endswith(names)
        and not name.endswith(NO_EMBEDDINGS)
        and any(p is not None for p in module._parameters.values())
    )


def _features(torch, module):
    """Which of `in_features` and `out_features` the module has, where its type does not say it. transformers asks for them."""
    if isinstance(module, torch.nn.Linear):
        return None
    found = [name for name in ("in", "out") if heads.ask(module, f"{name}_features") is not None]
    if found:
        return "both" if len(found) == 2 else found[0]
    weight = module._parameters.get("weight")
    like_linear = weight is not None and weight.ndim == 2 and not isinstance(module, torch.nn.Embedding)
    return "none" if like_linear or type(module).__name__.endswith("Linear") else None


def _is_experts(module):
    """Whether the module owns weights of all experts in one, as transformers' experts do."""
    count = getattr(module, "num_experts", None)
    return (
        type(count) is int
        and hasattr(module, "is_transposed")
        and any(p is not None and p.ndim == 3 and p.shape[0] == count for p in module._parameters.values())
    )


def _add_facts(torch, path, module, parameters):
    """Dims and segments of what the table of module types does not know."""
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
    """Heads of an attention module, the number of experts of a module that owns their weights or routes to them, and sizes that
    styles of plans ask for."""
    found = heads.attributes(module)
    experts = heads.ask(module, "num_experts")
    if module._parameters and type(experts) is int and experts > 0:
        found["num_experts"] = experts
    if not isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):  # theirs are the sizes of the weight
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
    if type(rope) is int and rope > 0:  # what the style mla_kv_a_proj goes by
        found["qk_rope_head_dim"] = rope
    return found
