"""Exports a manifest as torchtitan's ShardingConfigs, over the axis `tp`.

The types are those that titan_plan.py reads. A sharded dim is S, a partial value P. A replicated value is R if its
gradient is partial, and I if its gradient is replicated. A replicated parameter is R if `grad_reduce` sums its
gradient over `tp`.
"""

import inspect
from collections import defaultdict

from .files import InputError, printable
from .manifest import ManifestError, load_manifest, refuse_sent_dtypes, shard_dim
from .style_steps import STYLES
from .titan_plan import DATA_AXES

# Styles for which tpplan.torch does more than the layouts specify, and which a ShardingConfig can express.
EXPRESSIBLE = ("all_reduce", "local_params")


def sharding_configs(model, manifest):
    """Returns {module path: ShardingConfig} of a model, for `module._sharding_config`. `manifest` is a path or a
    result of load_manifest; the model may be torchtitan's or the user's.

    Raises ManifestError, with the path, for what a ShardingConfig cannot express. Raises InputError if torchtitan is
    missing.
    """
    try:
        from torchtitan.protocols.sharding import ShardingConfig, SpmdLayout
    except ImportError as error:
        raise InputError(f"torchtitan cannot be imported: {printable(error)}", "pip install torchtitan") from None
    import spmd_types
    from torchtitan.distributed.parallel_dims import MeshAxisName

    manifest = load_manifest(manifest)
    refuse_sent_dtypes(manifest, "a ShardingConfig cannot express it")
    axes = [name for name, _ in manifest.mesh]
    strange = [axis for axis in axes if axis != "tp" and axis not in DATA_AXES]
    if strange or "tp" not in axes:
        where = f"has an unsupported axis `{printable(strange[0])}`" if strange else "has no axis `tp`"
        raise ManifestError(
            "`mesh`", where, f"name the tensor-parallel axis `tp`, and each data axis one of {', '.join(DATA_AXES)}"
        )

    def layout(kind):
        """Returns the SpmdLayout of a dim or of a type letter; None for None."""
        made = spmd_types.S(kind) if isinstance(kind, int) else getattr(spmd_types, kind)
        return None if kind is None else SpmdLayout({MeshAxisName.TP: made})

    found = defaultdict(dict)
    for path, tensor in manifest.parameters.items():
        owner, _, name = path.rpartition(".")
        found[owner].setdefault("state_shardings", {})[name] = layout(_of_parameter(tensor))
    for boundary in manifest.modules:
        if boundary.style in STYLES and boundary.style not in EXPRESSIBLE:
            raise ManifestError(
                f"module `{printable(boundary.path)}`",
                f"has style {boundary.style}, which a ShardingConfig cannot express",
                "remove the rule of the module, or write its sharding as specs",
            )
        module, config = model.get_submodule(boundary.path), found[boundary.path]
        for value in boundary.inputs:
            if value.source is not None:
                name = value.kwarg or _argument(boundary.path, module, value.arg)
                for member, kind in zip(("in_src_shardings", "in_dst_shardings"), _ends(value, axes.index("tp"))):
                    config.setdefault(member, {})[name] = layout(kind)
        for value in boundary.outputs[:1]:
            if value.source is not None:
                source, target = _ends(value, axes.index("tp"))
                config["out_src_shardings"], config["out_dst_shardings"] = layout(source), layout(target)
        if len(boundary.outputs) > 1:
            raise ManifestError(
                f"module `{printable(boundary.path)}`",
                "has several outputs with layouts, but a ShardingConfig redistributes only one",
                "move the rule to a module with one output",
            )
    return {path: ShardingConfig(**members) for path, members in found.items()}


def _of_parameter(tensor):
    cut = [dim for dim, axes in enumerate(tensor.spec) if "tp" in axes]
    if cut and len(tensor.segments.get(cut[0]) or ()) > 1:
        raise ManifestError(
            f"parameter `{printable(tensor.path)}`",
            "is sharded per segment, but a ShardingConfig shards a dim contiguously",
            "split the segments into separate modules, or write `contiguous: true` if contiguous shards are intended",
        )
    if cut:
        return cut[0]
    return "R" if any(axis == "tp" for axis, _ in tensor.grad_reduce) else "I"


def _ends(value, tp):
    """Returns the types of a value before and after its boundary."""
    back, on = (g[tp] for g in value.gradient) if value.gradient else (None, None)
    return _of_layout(value.source[tp], on), _of_layout((value.target or value.source)[tp], back)


def _of_layout(layout, gradient):
    if layout.startswith("Shard"):
        return shard_dim(layout)
    if layout.startswith("Partial"):
        return "P"
    return "R" if (gradient or "").startswith("Partial") else "I"


def _argument(path, module, position):
    names = list(inspect.signature(module.forward).parameters)
    if position >= len(names):
        raise ManifestError(
            f"module `{printable(path)}`",
            f"has no positional argument {position} in its forward",
            "compile the plan for this model",
        )
    return names[position]
