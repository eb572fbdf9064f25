"""Exports plans of the frameworks as plan files (schemas/plan.schema.json), each in the dialect with the same semantics."""

import json
import re
from dataclasses import dataclass
from typing import Callable

from .files import InputError, find_object, printable
from .write_plan import write_plan


def read_mesh(text):
    """Returns {axis: size} of a text such as fsdp=2,tp=4. Raises InputError for anything else."""
    mesh = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name or not size.isascii() or not size.isdigit() or int(size) < 1 or name in mesh:
            raise InputError(f"--mesh `{printable(text)}` is not a mesh", "write axes with sizes, such as fsdp=2,tp=4")
        mesh[name] = int(size)
    return mesh


# transformers


def from_transformers(name, mesh, kwargs, model=None):
    """Returns the plan file of the merged plan that transformers ships for a class, as `tp_plan="auto"` uses it.
    `name` is a class, a model type or a config.json."""
    from .export import transformers_model

    return transformers_plan(transformers_model.build(name, kwargs), mesh)


def transformers_plan(model, mesh):
    rules = dict(model.tp_plan or {})
    if not rules:
        raise InputError(f"transformers ships no plan for {type(model).__name__}", "write a plan by hand", 1)
    return write_plan("transformers", mesh, rules, uneven="torch")


# torch


def from_torch(name, mesh, kwargs, model=None):
    """Returns the plan file of `package.module:NAME`: a dict for parallelize_module, or a function that returns one,
    called with `kwargs`."""
    found = find_object(name)
    if callable(found) and not isinstance(found, type) and not hasattr(found, "_apply"):
        try:
            found = found(**kwargs)
        except Exception as error:  # whatever the function raises
            raise InputError(
                f"`{printable(name)}` failed: {type(error).__name__}: {printable(error)}",
                "pass its arguments with --kwargs",
                1,
            ) from None
    return torch_plan(found, mesh)


def torch_plan(plan, mesh):
    """Returns the plan file of a dict for torch's parallelize_module, {key: ParallelStyle}, or of one style for the
    root module. Raises InputError for other values and styles."""
    from torch.distributed.tensor.parallel import style as styles

    if isinstance(plan, styles.ParallelStyle):
        plan = {"": plan}
    if not isinstance(plan, dict) or not all(isinstance(key, str) for key in plan):
        raise InputError(
            "the object is not a plan for parallelize_module",
            "name a dict of module names and ParallelStyle objects",
            1,
        )
    return write_plan(
        "torch", mesh, {key: _torch_rule(styles, key, value) for key, value in plan.items()}, uneven="torch"
    )


def _torch_rule(styles, key, style):
    """Returns the rule of one style: its name, with the options that differ from its defaults (torch 2.13,
    torch/distributed/tensor/parallel/style.py)."""
    options = {}
    kind = type(style)
    if kind is styles.ColwiseParallel or kind is styles.RowwiseParallel:
        name = "colwise" if kind is styles.ColwiseParallel else "rowwise"
        defaults = kind()
        for option in ("input_layouts", "output_layouts"):
            if getattr(style, option) != getattr(defaults, option):
                options[option] = _layout(key, getattr(style, option)[0])
        local = True
    elif kind is styles.SequenceParallel:
        name, local = "sequence_parallel", False
        if style.sequence_sharding[0].dim != 1:
            options["sequence_dim"] = style.sequence_sharding[0].dim
    elif kind is styles.PrepareModuleInput:
        name, local = "prepare_module_input", False
        options |= _input_options(key, style)
    elif kind is styles.PrepareModuleOutput:
        name, local = "prepare_module_output", True
        options |= _output_options(key, style)
    elif kind is styles.PrepareModuleInputOutput:
        name, local = "prepare_module_input_output", True
        options |= _input_options(key, style.prepare_module_input) | _output_options(key, style.prepare_module_output)
        if style.prepare_module_input.use_local_output:
            options["use_local_input"] = True
        style = style.prepare_module_output
    else:
        raise InputError(f"`{printable(key)}`: {kind.__name__} is not a style of torch", "write its rule by hand", 1)
    if style.use_local_output != local:
        options["use_local_output"] = bool(style.use_local_output)
    return {"style": name, **options} if options else name


def _input_options(key, style):
    options = {}
    if style.input_layouts is not None:
        options["input_layouts"] = [_layout(key, p) for p in style.input_layouts]
        options["desired_input_layouts"] = [_layout(key, p) for p in style.desired_input_layouts]
    if style.input_kwarg_layouts:
        options["input_kwarg_layouts"] = {n: _layout(key, p) for n, p in style.input_kwarg_layouts.items()}
        options["desired_input_kwarg_layouts"] = {
            n: _layout(key, p) for n, p in style.desired_input_kwarg_layouts.items()
        }
    return options


def _output_options(key, style):
    return {
        "output_layouts": [_layout(key, p) for p in style.output_layouts],
        "desired_output_layouts": [_layout(key, p) for p in style.desired_output_layouts],
    }


def _layout(key, placement):
    """Returns a torch placement as plans write it; None for None. Raises InputError if plans have no such layout."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    if placement is None:
        return None
    if type(placement) is Replicate:
        return "Replicate"
    if type(placement) is Shard:
        return f"Shard({placement.dim})"
    if type(placement) is Partial and placement.reduce_op in ("sum", "avg", "max", "min"):
        return "Partial" if placement.reduce_op == "sum" else f"Partial({placement.reduce_op})"
    raise InputError(
        f"`{printable(key)}`: a plan cannot express the layout {placement}", "use Replicate, Shard or Partial", 1
    )


# EasyLM and similar codebases: an ordered list of (regular expression, PartitionSpec)


def from_easylm(name, mesh, kwargs, model=None):
    """Returns the plan file of `package.module:NAME`: an ordered list of (regex, PartitionSpec), or a function that
    returns one, called with `kwargs`. `model` is the path of the model graph against which the rules are resolved."""
    if model is None:
        raise InputError(
            "an ordered list of rules needs the model graph, because the first matching rule applies",
            "pass the model graph with --model model.json",
        )
    found = find_object(name)
    if callable(found) and not isinstance(found, type):
        try:
            found = found(**kwargs)
        except Exception as error:
            raise InputError(
                f"`{printable(name)}` failed: {type(error).__name__}: {printable(error)}",
                "pass its arguments with --kwargs",
                1,
            ) from None
    try:
        with open(model, encoding="utf-8") as file:
            graph = json.load(file)
        separator = "/" if graph["framework"] == "keras" else "."
        shapes = {
            separator.join(filter(None, (m["path"], n))): p["shape"]
            for m in graph["modules"]
            for n, p in m.get("parameters", {}).items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{printable(model)} is not a model graph: {printable(error)}", "write one with python -m tpplan.export"
        ) from None
    return easylm_plan(found, shapes, mesh, separator)


def easylm_plan(rules, shapes, mesh, separator="."):
    """Returns the plan file, in dialect regex, of an ordered list of (regex, PartitionSpec) for the parameters {path:
    shape}.

    The rules apply as in EasyLM's match_partition_rules: names are joined by `/`, re.search matches, and the first
    matching rule applies. Tensors of one element are replicated. Raises InputError for a parameter that no rule
    matches.

    Keys of a tpplan plan must not overlap. The regex of a rule is therefore kept only if it matches exactly the
    parameters to which the rule applies. Otherwise their paths are written.
    """
    compiled = []
    try:
        for pattern, spec in rules:
            compiled.append(
                (pattern, re.compile(pattern), [list(e) if isinstance(e, (tuple, list)) else e for e in spec])
            )
    except (TypeError, ValueError, re.error) as error:
        raise InputError(
            f"the object is not a list of (regular expression, PartitionSpec): {printable(error)}",
            "name such a list",
            1,
        ) from None
    won = [[] for _ in compiled]
    whole = []
    for path, shape in shapes.items():
        if not shape or all(size == 1 for size in shape):
            whole.append(path)
            continue
        name = path.replace(separator, "/")
        winner = next((i for i, (_, expression, _) in enumerate(compiled) if expression.search(name)), None)
        if winner is None:
            raise InputError(
                f"no rule matches parameter `{printable(path)}`",
                'end the list with a rule for all parameters: (".*", PartitionSpec())',
                1,
            )
        won[winner].append(path)
    keys = {}
    for (pattern, _, spec), paths in [*zip(compiled, won), (("", None, []), whole)]:
        groups = {}
        for path in paths:
            if len(spec) > len(shapes[path]):
                raise InputError(
                    f"rule `{printable(pattern)}` has {len(spec)} entries, but parameter `{printable(path)}` has "
                    f"{len(shapes[path])} dims",
                    "write a separate rule for this parameter",
                    1,
                )
            groups.setdefault(len(shapes[path]) == len(spec), []).append(path)
        for is_full, group in groups.items():
            keys[_expression(pattern, group, shapes, separator)] = {"spec": spec if is_full else [*spec, "..."]}
    return write_plan("regex", mesh, keys)


# Syntax that RE2 rejects or reads differently from Python's re: lookaround, atomic and conditional groups, comments,
# flags, names, possessive repetitions, repetitions without a lower bound or above 1000, named classes, some escapes.
ONLY_PYTHON = re.compile(r"\(\?(?![:i])|[*+?}]\+|\{,|\{\d*,?\d{4,}|\[\[:|\\[ZAgbBuUN1-9]")
# Classes that match only ASCII in RE2, but all of Unicode in Python.
ASCII_IN_RE2 = re.compile(r"\\[dDwWsS]")


def _expression(pattern, paths, shapes, separator):
    """Returns a regex that matches exactly these full paths. It is the first of three that does: the rule's regex,
    the paths with `[0-9]+` for their indices, or the paths."""
    wanted = set(paths)
    numbers_open = {
        re.sub(r"(?<=[./])\d+(?=\\?[./])", "[0-9]+", re.escape(path).replace("\\.", ".")).replace(".", "\\.")
        for path in paths
    }
    own = f".*(?:{pattern.replace('/', re.escape(separator))}).*" if pattern else None
    for candidate in (own, "|".join(sorted(numbers_open)), "|".join(sorted(map(re.escape, paths)))):
        # RE2 must read the key as Python does, or another candidate is used.
        if candidate is None or ONLY_PYTHON.search(candidate):
            continue
        if ASCII_IN_RE2.search(candidate) and not all(path.isascii() for path in shapes):
            continue
        try:
            matched = {path for path in shapes if re.fullmatch(candidate, path)}
        except re.error:
            continue
        if matched == wanted:
            return candidate
    return "|".join(sorted(map(re.escape, paths)))


@dataclass(frozen=True)
class PlanSource:
    make: Callable  # (name, mesh, kwargs, model) -> text of the plan file
    help: str


# Keras, torchtitan and Flax, whose modules are imported on use


def from_keras(name, mesh, kwargs, model=None):
    from .keras_plan import from_keras

    return from_keras(name, mesh, kwargs, model)


def from_torchtitan(name, mesh, kwargs, model=None):
    from .titan_plan import from_torchtitan

    return from_torchtitan(name, mesh, kwargs, model)


def from_flax(name, mesh, kwargs, model=None):
    from .flax_plan import from_flax

    return from_flax(name, mesh, kwargs, model)


PLAN_SOURCES = {
    "transformers": PlanSource(from_transformers, "model class with a plan in transformers"),
    "torch": PlanSource(from_torch, "dict for parallelize_module, as package.module:NAME"),
    "easylm": PlanSource(from_easylm, "ordered list of (regex, PartitionSpec), as package.module:NAME, with --model"),
    "keras": PlanSource(from_keras, "LayoutMap or ModelParallel, as package.module:NAME"),
    "torchtitan": PlanSource(
        from_torchtitan, "model with ShardingConfigs: MODEL:FLAVOR of torchtitan, or package.module:NAME"
    ),
    "flax": PlanSource(from_flax, "list of logical axis rules, as package.module:NAME"),
}
