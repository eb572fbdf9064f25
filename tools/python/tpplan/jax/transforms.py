"""Applies one transformation to a module: a style, annotations only, FSDP, or rematerialization.

Each function writes a plan with one rule, and the program compiles it for this module. Dims, layouts and errors are
therefore those of every plan. Existing shardings of the arrays are preserved and combined: several axes may shard a
dim. Modules may be concrete, abstract (they store their shardings), or created inside jit (they get constraints). NNX
modules are changed in place.
"""

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

# A plan with one rule leaves most of a model unsharded, and uses one axis; both are intended here.
FLAGS = ("--allow", "TP4006", "--allow", "TP4007")


def column_parallel(
    module, mesh, axis="tp", *, input_layouts=None, output_layouts=None, data=(), batched=True, dims=None
):
    """Returns a linear or embedding module with its output dim sharded over `axis`.

    Its result is sharded as well, unless `output_layouts` specifies another layout ("Replicate" gathers it). `data`
    names the axes of the batch dim, over which inputs and outputs stay sharded. `dims` names the dims of the
    parameters of a module of another type: {"weight": ["out", "in"]}. `batched` is as in `parallelize`.
    """
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
    """Returns a linear or embedding module with its input dim sharded over `axis`.

    Its result is reduced over `axis` and replicated, unless `output_layouts` specifies another layout.
    `skip_communication=True` leaves the result unconstrained, and XLA reduces it where needed. `data`, `dims` and
    `batched` are as in `column_parallel`.
    """
    if skip_communication:
        if output_layouts is not None:
            raise ManifestError(
                "`output_layouts`",
                "cannot be combined with skip_communication, which leaves the result partial",
                "pass only one of them",
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
    """Returns the module with its inputs constrained to the desired layouts; its parameters are unchanged. Layouts
    are those of a plan: a text or a list of texts, None for an argument to skip. One of `input_layouts` and
    `desired_input_layouts` suffices, because XLA knows the layouts of the values."""
    rule = _rule(
        "prepare_module_input",
        **_either("input_layouts", input_layouts, desired_input_layouts),
        **_either("input_kwarg_layouts", input_kwarg_layouts, desired_input_kwarg_layouts),
    )
    return _annotated(module, mesh, axis, rule, data, batched)


def prepare_output(module, mesh, axis="tp", *, output_layouts=None, desired_output_layouts=None, data=(), batched=True):
    """Returns the module with its outputs constrained to the desired layouts; its parameters are unchanged. One of
    `output_layouts` and `desired_output_layouts` suffices."""
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
    """Returns the module with its inputs and outputs constrained, as `prepare_input` and `prepare_output` do."""
    rule = _rule(
        "prepare_module_input_output",
        **_either("input_layouts", input_layouts, desired_input_layouts),
        **_either("input_kwarg_layouts", input_kwarg_layouts, desired_input_kwarg_layouts),
        **_either("output_layouts", output_layouts, desired_output_layouts),
    )
    return _annotated(module, mesh, axis, rule, data, batched)


def fully_shard(module, mesh, axis="fsdp", *, min_weight_size=2**18, patterns=None, remat=()):
    """Returns the module, any tree, with each parameter of more than `min_weight_size` elements sharded over `axis`
    as well.

    The largest unsharded dim that the axis divides is sharded. A parameter without such a dim, or already sharded
    over `axis`, is unchanged. `patterns` are globs over paths of parameters or modules (default: all parameters).
    `remat` are globs of modules to run under jax.checkpoint.
    """
    fsdp = {"axis": axis, "min_weight_size": min_weight_size}
    if patterns is not None:
        fsdp["patterns"] = _list_of(patterns)
    plan = {"axis": axis, "tp_plan": _specs_as_rules(_specs_of(module, mesh)), "fsdp": fsdp, "remat": _list_of(remat)}
    manifest = _compiled(module, mesh, plan)
    wanted = wrappers(module, manifest, mesh, True)
    return wrapped(with_shardings(module, manifest, mesh), "", wanted)


def filter_remat(module, patterns):
    """Returns the module with jax.checkpoint around the modules whose path matches a glob of `patterns`."""
    plan = {"axis": "all", "tp_plan": {"*": "replicate"}, "remat": _list_of(patterns)}
    manifest = _compile(module, [("all", 1)], plan)
    need_modules(module, manifest.remat)
    return wrapped(module, "", {path: (None, True) for path in manifest.remat})


def _rule(style, **options):
    return {"style": style} | {name: value for name, value in options.items() if value is not None}


def _either(name, given, desired):
    """Returns both options of a pair; one that is None gets the value of the other."""
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
    """Returns the Manifest of a plan for this module. Raises PlanError with the program's diagnostics, and
    ManifestError for `dims` of a parameter that the module lacks."""
    from ..export.jax_tree import model_graph

    def export():
        graph = model_graph(module)
        root = graph["modules"][0].get("parameters", {})
        for name, words in (dims or {}).items():
            if name not in root:
                raise ManifestError(
                    "`dims`", f"the module has no parameter `{printable(name)}`", "use a parameter name of the module"
                )
            root[name]["dims"] = list(words)
        return file_text(graph)

    return manifest_of(plan, export, axes, flags=FLAGS, said=said_by_first_process)


def _specs_of(module, mesh):
    """Returns {path: axes of each dim} of all parameters, from their current shardings. Raises ManifestError if one
    is on another mesh."""
    specs = {}
    for leaf in leaves_of(module):
        if leaf.path is None or not leaf.is_parameter:
            continue
        sharding = sharding_of(leaf.value)
        if sharding is not None and dict(sharding.mesh.shape) != dict(mesh.shape):
            raise ManifestError(
                f"parameter `{printable(leaf.path)}`",
                f"is on a different mesh: {json.dumps(dict(sharding.mesh.shape))}",
                "pass the mesh of the model",
            )
        spec = [] if sharding is None else [*sharding.spec]
        spec += [None] * (leaf.value.ndim - len(spec))
        specs[leaf.path] = tuple(() if e is None else e if isinstance(e, tuple) else (e,) for e in spec)
    return specs


def _specs_as_rules(specs):
    """Returns rules that assign these specs, keyed by paths with glob characters escaped."""
    return {
        re.sub(r"([*?[])", r"[\1]", path): {"spec": [list(axes) or None for axes in spec]}
        for path, spec in specs.items()
    }


def _with_specs(manifest, had, module, mesh):
    """Returns a manifest in which each dim has the axes that shard it already, followed by those of `manifest`."""
    if not any(any(spec) for spec in had.values()):
        return manifest
    both = {
        path: tuple(old + tuple(axis for axis in new if axis not in old) for old, new in zip(had[path], tensor.spec))
        for path, tensor in manifest.parameters.items()
    }
    return _compiled(module, mesh, {"axis": mesh.axis_names[0], "tp_plan": _specs_as_rules(both)})
