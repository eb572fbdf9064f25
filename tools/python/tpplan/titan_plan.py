"""Exports torchtitan's ShardingConfigs as a plan file in the dialect glob: parameters, and inputs and outputs of
modules, over the axis `tp`.

torchtitan types each value on each axis: S(dim) is sharded, P is partial, R and I are replicated. The gradient of R
is partial, the gradient of I is replicated. A parameter of type R therefore needs its gradient all-reduced.
"""

import fnmatch
import importlib
import importlib.util
import re
import types

from .files import InputError, find_object, printable
from .write_plan import write_plan

DATA_AXES = ("dp_replicate", "dp_shard", "dp", "fsdp", "data")
NAME_HELP = "name a torchtitan model and flavor, such as llama3:debugmodel, or package.module:NAME of your model"


def from_torchtitan(name, mesh, kwargs, model=None):
    """Returns the plan file of a torchtitan model, MODEL:FLAVOR, or of `package.module:NAME`: a model whose modules
    have a ShardingConfig, or a function that returns one, called with `kwargs`.

    For a torchtitan model, `kwargs` may have `enable_sequence_parallel` and the arguments of its model_registry.
    """
    return titan_plan(build(name, mesh.get("tp", 1), kwargs), mesh)


def build(name, tp, kwargs):
    """Returns the model, on the meta device. Raises InputError if its code fails."""
    _titan()
    family, _, flavor = name.partition(":")
    own = "." not in family and importlib.util.find_spec(f"torchtitan.models.{family}") is not None
    try:
        made = _registered(family, flavor, dict(kwargs), tp) if own else find_object(name)
        if not own and callable(made) and not hasattr(made, "named_modules"):
            made = made(**kwargs)
        return _built(made)
    except InputError:
        raise
    except Exception as error:  # whatever its code raises
        raise InputError(
            f"`{printable(name)}` failed: {type(error).__name__}: {printable(error)}", NAME_HELP, 1
        ) from None


def _titan():
    try:
        return importlib.import_module("torchtitan.protocols.sharding")
    except ImportError as error:
        raise InputError(f"torchtitan cannot be imported: {printable(error)}", "pip install torchtitan") from None


def _registered(family, flavor, kwargs, tp):
    from torchtitan.config import ParallelismConfig

    sequence = kwargs.pop("enable_sequence_parallel", True)
    config = importlib.import_module(f"torchtitan.models.{family}").model_registry(flavor, **kwargs).model
    settings = ParallelismConfig(
        tensor_parallel_degree=tp, enable_sequence_parallel=sequence, spmd_backend="partial_dtensor"
    )
    config.update_from_config(config=types.SimpleNamespace(parallelism=settings))
    return config


def _built(made):
    import torch

    if hasattr(made, "named_modules"):
        return made
    with torch.device("meta"):
        return made.build()


def titan_plan(model, mesh):
    """Returns the plan file of a model whose modules have a ShardingConfig, on a mesh {axis: size}. Raises InputError
    if the mesh has no axis `tp` or an unknown axis."""
    strange = [axis for axis in mesh if axis != "tp" and axis not in DATA_AXES]
    if strange or "tp" not in mesh:
        raise InputError(
            f"the mesh has an unsupported axis `{printable(strange[0])}`" if strange else "the mesh has no axis `tp`",
            f"name the tensor-parallel axis `tp`, and each data axis one of {', '.join(DATA_AXES)}",
        )
    configs = {
        path: module._sharding_config
        for path, module in model.named_modules()
        if getattr(module, "_sharding_config", None) is not None
    }
    if not configs:
        raise InputError("no module of the model has a ShardingConfig", NAME_HELP, 1)
    rules = {}
    for path, config in configs.items():
        _add_module(rules, path, model.get_submodule(path), config)
    _gather_before_head(rules, configs)
    names = [path for path, _ in model.named_modules()] + [path for path, _ in model.named_parameters()]
    data = [axis for axis in mesh if axis in DATA_AXES]
    return write_plan("glob", mesh, _starred(rules, names), data={"axes": data, "dim": 0} if data else None)


def _type(layout):
    """Returns a layout's type on `tp`: "R", "I", "P", "S(0)", ...; None if it has none."""
    if layout is None:
        return None
    found = {str(getattr(axis, "value", axis)): kind for axis, kind in layout.per_axis_spmd_types().items()}.get("tp")
    if found is None:
        return None
    return f"S({found.dim})" if hasattr(found, "dim") else getattr(found, "name", str(found))


def _layout(kind):
    """Returns a type as the layout that plans write; None for no type."""
    if kind is None:
        return None
    if kind.startswith("S("):
        return f"Shard({kind[2:-1]})"
    return {"R": "Replicate", "I": "Replicate", "P": "Partial"}.get(kind)


def _add_module(rules, path, module, config):
    own = {name for name, _ in module.named_parameters(recurse=False)}
    states = {name: _type(layout) for name, layout in config.state_shardings.items() if name in own}
    sources = {name: _type(layout) for name, layout in (config.in_src_shardings or {}).items()}
    wanted = {name: _type(layout) for name, layout in (config.in_dst_shardings or {}).items()}
    out = config.out_src_shardings if not isinstance(config.out_src_shardings, tuple) else None
    out, target = _type(out), _type(config.out_dst_shardings)
    style = _style_of_layer(module, states, sources, out, target)
    if style is not None:
        rules[path] = style
        return
    for name, kind in states.items():
        rules[f"{path}.{name}" if path else name] = _state(module.get_parameter(name).ndim, kind)
    boundary = _boundary(sources, wanted, out, target)
    if boundary is not None:
        rules[path] = boundary


def _style_of_layer(module, states, sources, out, target):
    """Returns the style that expresses a layer's config; None if no style does."""
    from torch import nn

    weight, layout = states.get("weight"), _layout(target or out)
    if isinstance(module, nn.Linear) and weight == "S(0)" and states.get("bias", "S(0)") == "S(0)":
        return {"style": "colwise", "output_layouts": "Replicate"} if layout == "Replicate" else "colwise"
    if isinstance(module, nn.Linear) and weight == "S(1)" and out == "P":
        return "rowwise" if layout in (None, "Replicate") else {"style": "rowwise", "output_layouts": layout}
    if isinstance(module, nn.Embedding) and weight == "S(0)" and out == "P":
        plain = layout in (None, "Replicate")
        return (
            "embedding_rowwise"
            if plain
            else {"style": "rowwise", "input_layouts": "Replicate", "output_layouts": layout}
        )
    if states and set(states.values()) == {"I"}:
        return "replicate"
    if states and set(states.values()) == {"R"}:
        return "sequence_parallel" if set(sources.values()) == {"S(1)"} else "replicated_with_grad_allreduce"
    return None


def _state(ndim, kind):
    """Returns the rule of a single parameter."""
    if kind is not None and kind.startswith("S("):
        dim = int(kind[2:-1]) % ndim
        return {"spec": ["tp" if i == dim else None for i in range(ndim)], "contiguous": True}
    return "replicate" if kind == "I" else "replicated_with_grad_allreduce"


def _boundary(sources, wanted, out, target):
    """Returns the prepare_module_* rule for the inputs and outputs whose layout changes; None if none does. R and I
    are the same layout: the layers after R reduce its gradient."""
    changed = {
        name: (_layout(kind), _layout(wanted[name]))
        for name, kind in sources.items()
        if name in wanted and _layout(kind) != _layout(wanted[name])
    }
    ends = _layout(out) != _layout(target) and out is not None and target is not None
    options = {}
    if changed:
        options["input_kwarg_layouts"] = {name: a for name, (a, _) in changed.items()}
        options["desired_input_kwarg_layouts"] = {name: b for name, (_, b) in changed.items()}
    if ends:
        options |= {"output_layouts": _layout(out), "desired_output_layouts": _layout(target)}
    if not options:
        return None
    style = "prepare_module_input_output" if changed and ends else "prepare_module_input" if changed else None
    return {"style": style or "prepare_module_output"} | options


def _gather_before_head(rules, configs):
    """Lets the head gather the sequence if the config makes the last norm gather it, because a norm's style does not
    redistribute its output."""
    norm = configs.get("norm")
    if norm is None or rules.get("norm") != "sequence_parallel" or rules.get("lm_head") != "colwise":
        return
    if _type(norm.out_dst_shardings) in ("R", "I"):
        rules["lm_head"] = {"style": "colwise", "input_layouts": "Shard(1)"}


def _starred(rules, names):
    """Merges rules that are identical in all layers into one with `*` for the index, if that key matches no other
    name."""
    groups = {}
    for path, rule in rules.items():
        groups.setdefault(re.sub(r"(?<![^.])\d+(?![^.])", "*", path), []).append((path, rule))
    keys = {}
    for key, members in groups.items():
        paths = {path for path, _ in members}
        alike = all(rule == members[0][1] for _, rule in members)
        if alike and set(fnmatch.filter(names, key)) == paths:
            keys[key] = members[0][1]
        else:
            keys |= dict(members)
    return keys
