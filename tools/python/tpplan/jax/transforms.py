"""One thing done to a module: a style, annotations alone, FSDP, rematerialisation.

Each function writes the plan that says it and lets the program compile it for this module, so that dims, layouts and what is
refused are those of every plan. Layouts that the arrays have already stay, and count: a dim may be cut over several axes.
Modules are concrete, abstract (their shardings are written), or made inside jit (they are constrained); NNX modules are changed in
place."""

import json
import re

from ..compiled import manifest_of
from ..export.file_text import file_text
from ..files import printable
from ..manifest import ManifestError
from .arrays import need_jax_mesh, sharding_of, with_shardings
from .modules import need_modules, wrapped, wrappers
from .processes import said_by_first_process
from .trees import leaves_of

# One rule leaves most of a model as it is, and uses one axis.
FLAGS = ("--allow", "TP4006", "--allow", "TP4007")


def column_parallel(
    module, mesh, axis="tp", *, input_layouts=None, output_layouts=None, data=(), batched=True, dims=None
):
    """A linear or embedding whose output dim is cut over `axis`, and so is its result, if `output_layouts` does not say otherwise
    ("Replicate" gathers it). `data` names the axes of the batch's dim, which its inputs and outputs keep. A module of another type says
    with `dims` what its parameters' dims are: {"weight": ["out", "in"]}. `batched` is that of `parallelize`."""
    rule = _rule("colwise", input_layouts=input_layouts, output_layouts=output_layouts)
    return _styled(module, mesh, axis, rule, data, batched, dims)


def row_parallel(
    module,
    mesh,
    axis="tp",
    *,
    input_layouts=None,
    output_layouts=None,
    skip_communication=False,
    data=(),
    batched=True,
    dims=None,
):
    """A linear or embedding whose input dim is cut over `axis`; its result is summed over it and is whole, if `output_layouts` does
    not say otherwise. With `skip_communication` nothing is said of the result: XLA sums it where it must. The rest is as above."""
    if skip_communication:
        if output_layouts is not None:
            raise ManifestError(
                "`output_layouts`", "says what becomes of a sum that skip_communication leaves open", "give one of them"
            )
        output_layouts = "Partial"
    rule = _rule("rowwise", input_layouts=input_layouts, output_layouts=output_layouts)
    return _styled(module, mesh, axis, rule, data, batched, dims)


def prepare_input(
    module,
    mesh,
    axis="tp",
    *,
    input_layouts=None,
    desired_input_layouts=None,
    input_kwarg_layouts=None,
    desired_input_kwarg_layouts=None,
    data=(),
    batched=True,
):
    """The module with its inputs brought to the desired layouts; its parameters are not touched. Layouts are those of a plan: a text
    or a list of them, None for an argument that is left alone. Of the two kinds one suffices: XLA knows how values come."""
    rule = _rule(
        "prepare_module_input",
        **_either("input_layouts", input_layouts, desired_input_layouts),
        **_either("input_kwarg_layouts", input_kwarg_layouts, desired_input_kwarg_layouts),
    )
    return _annotated(module, mesh, axis, rule, data, batched)


def prepare_output(module, mesh, axis="tp", *, output_layouts=None, desired_output_layouts=None, data=(), batched=True):
    """The module with its outputs brought to the desired layouts, likewise."""
    rule = _rule("prepare_module_output", **_either("output_layouts", output_layouts, desired_output_layouts))
    return _annotated(module, mesh, axis, rule, data, batched)


def prepare_input_output(
    module,
    mesh,
    axis="tp",
    *,
    input_layouts=None,
    desired_input_layouts=None,
    input_kwarg_layouts=None,
    desired_input_kwarg_layouts=None,
    output_layouts=None,
    desired_output_layouts=None,
    data=(),
    batched=True,
):
    """Both."""
    rule = _rule(
        "prepare_module_input_output",
        **_either("input_layouts", input_layouts, desired_input_layouts),
        **_either("input_kwarg_layouts", input_kwarg_layouts, desired_input_kwarg_layouts),
        **_either("output_layouts", output_layouts, desired_output_layouts),
    )
    return _annotated(module, mesh, axis, rule, data, batched)


def fully_shard(module, mesh, axis="fsdp", *, min_weight_size=2**18, patterns=None, remat=()):
    """The module, any tree, with each parameter of more than `min_weight_size` elements cut once more: over `axis`, along its
    largest dim that is not cut yet and that the axis divides. One that has no such dim, or is cut over `axis` already, stays as it is.
    `patterns` names the parameters, by globs over paths of parameters or modules; `remat` the modules under jax.checkpoint."""
    fsdp = {"axis": axis, "min_weight_size": min_weight_size}
    if patterns is not None:
        fsdp["patterns"] = _list_of(patterns)
    plan = {"axis": axis, "tp_plan": _specs_as_rules(_specs_of(module, mesh)), "fsdp": fsdp, "remat": _list_of(remat)}
    manifest = _compiled(module, mesh, plan)
    wanted = wrappers(module, manifest, mesh, True)
    return wrapped(with_shardings(module, manifest, mesh), "", wanted)


def filter_remat(module, patterns):
    """The module with jax.checkpoint around the modules that a glob of `patterns` matches; nothing else changes."""
    plan = {"axis": "all", "tp_plan": {"*": "replicate"}, "remat": _list_of(patterns)}
    manifest = _compile(module, [("all", 1)], plan)
    need_modules(module, manifest.remat)
    return wrapped(module, "", {path: (None, True) for path in manifest.remat})


def _rule(style, **options):
    return {"style": style} | {name: value for name, value in options.items() if value is not None}


def _either(name, given, desired):
    """Both options of a pair, of which one may be None."""
    return {name: desired if given is None else given, f"desired_{name}": given if desired is None else desired}


def _list_of(patterns):
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _styled(module, mesh, axis, rule, data, batched, dims):
    manifest = _compiled(module, mesh, _plan_of(axis, rule, data), dims)
    wanted = wrappers(module, manifest, mesh, batched)
    placed = _with_specs(manifest, _specs_of(module, mesh), module, mesh)
    return wrapped(with_shardings(module, placed, mesh), "", wanted)


def _annotated(module, mesh, axis, rule, data, batched):
    manifest = _compiled(module, mesh, _plan_of(axis, rule, data))
    return wrapped(module, "", wrappers(module, manifest, mesh, batched))


def _plan_of(axis, rule, data):
    plan = {"axis": axis, "tp_plan": {"": rule}}
    return plan | {"data": {"axes": _list_of(data)}} if data else plan


def _compiled(module, mesh, plan, dims=None):
    need_jax_mesh(mesh)
    return _compile(module, list(mesh.shape.items()), plan, dims)


def _compile(module, axes, plan, dims=None):
    """The manifest of a plan for this module. Raises PlanError with what the program finds wrong."""
    from ..export.jax_tree import model_graph

    def export():
        graph = model_graph(module)
        root = graph["modules"][0].get("parameters", {})
        for name, words in (dims or {}).items():
            if name not in root:
                raise ManifestError("`dims`", f"the module has no parameter `{printable(name)}`", "name its own")
            root[name]["dims"] = list(words)
        return file_text(graph)

    return manifest_of(plan, export, axes, flags=FLAGS, said=said_by_first_process)


def _specs_of(module, mesh):
    """{path: for each dim its axes} of all parameters, as they are placed."""
    specs = {}
    for leaf in leaves_of(module):
        if leaf.path is None or not leaf.is_parameter:
            continue
        sharding = sharding_of(leaf.value)
        if sharding is not None and dict(sharding.mesh.shape) != dict(mesh.shape):
            raise ManifestError(
                f"parameter `{printable(leaf.path)}`",
                f"is placed on another mesh: {json.dumps(dict(sharding.mesh.shape))}",
                "give the mesh that the model is on",
            )
        spec = [] if sharding is None else [*sharding.spec]
        spec += [None] * (leaf.value.ndim - len(spec))
        specs[leaf.path] = tuple(() if e is None else e if isinstance(e, tuple) else (e,) for e in spec)
    return specs


def _specs_as_rules(specs):
    """Of globs that are these paths."""
    return {
        re.sub(r"([*?[])", r"[\1]", path): {"spec": [list(axes) or None for axes in spec]}
        for path, spec in specs.items()
    }


def _with_specs(manifest, had, module, mesh):
    """The manifest in which each parameter has its spec and, before it, the axes that it is cut over already."""
    if not any(any(spec) for spec in had.values()):
        return manifest
    both = {
        path: tuple(old + tuple(axis for axis in new if axis not in old) for old, new in zip(had[path], tensor.spec))
        for path, tensor in manifest.parameters.items()
    }
    return _compiled(module, mesh, {"axis": mesh.axis_names[0], "tp_plan": _specs_as_rules(both)})
