"""The way back to torchtitan: ShardingConfigs of a manifest, over the axis `tp`.

Types are what titan_plan.py reads: a cut dim is S, an open sum P, a whole value R where its gradient is open on the ranks, and I
where that is complete; of a parameter R, too, where somebody sums its gradient over `tp`."""

import inspect
from collections import defaultdict

from .files import InputError, printable
from .manifest import ManifestError, load_manifest, refuse_sent_dtypes, shard_dim
from .titan_plan import DATA_AXES

# Styles that say more than a ShardingConfig can.
UNSAID = (
    "packed_colwise",
    "packed_rowwise",
    "moe_tp_experts",
    "ep_dispatch_experts",
    "moe_identity_expert",
    "mla_kv_a_proj",
)


def sharding_configs(model, manifest):
    """{path of a module: ShardingConfig} of a model, of torchtitan or of one's own, by a manifest (a path, or what load_manifest
    gave), for `module._sharding_config`. Raises ManifestError for what a ShardingConfig has no words for, by its path, and InputError
    where torchtitan is missing."""
    try:
        from torchtitan.protocols.sharding import ShardingConfig, SpmdLayout
    except ImportError as error:
        raise InputError(f"torchtitan cannot be imported: {printable(error)}", "pip install torchtitan") from None
    import spmd_types
    from torchtitan.distributed.parallel_dims import MeshAxisName

    manifest = load_manifest(manifest)
    refuse_sent_dtypes(manifest, "a ShardingConfig has no word for it")
    axes = [name for name, _ in manifest.mesh]
    strange = [axis for axis in axes if axis != "tp" and axis not in DATA_AXES]
    if strange or "tp" not in axes:
        where = f"has axis `{printable(strange[0])}`" if strange else "has no axis `tp`"
        raise ManifestError("`mesh`", where, f"name it `tp`, and axes of the batch {', '.join(DATA_AXES)}")

    def layout(kind):
        """A layout of a dim, or of a letter."""
        made = spmd_types.S(kind) if isinstance(kind, int) else getattr(spmd_types, kind)
        return None if kind is None else SpmdLayout({MeshAxisName.TP: made})

    found = defaultdict(dict)
    for path, tensor in manifest.parameters.items():
        owner, _, name = path.rpartition(".")
        found[owner].setdefault("state_shardings", {})[name] = layout(_of_parameter(tensor))
    for boundary in manifest.modules:
        if boundary.style in UNSAID:
            raise ManifestError(
                f"module `{printable(boundary.path)}`",
                f"has style {boundary.style}, and a ShardingConfig has no words for it",
                "leave the module out, or write its cuts as specs",
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
                "gives several values, of which a ShardingConfig brings one to a layout",
                "write the rule for a module that gives one",
            )
    return {path: ShardingConfig(**members) for path, members in found.items()}


def _of_parameter(tensor):
    cut = [dim for dim, axes in enumerate(tensor.spec) if "tp" in axes]
    if cut and len(tensor.segments.get(cut[0]) or ()) > 1:
        raise ManifestError(
            f"parameter `{printable(tensor.path)}`",
            "is cut segment by segment, and a ShardingConfig cuts a dim as one",
            "make a module of each part, or write `contiguous: true` where that is meant",
        )
    if cut:
        return cut[0]
    return "R" if any(axis == "tp" for axis, _ in tensor.grad_reduce) else "I"


def _ends(value, tp):
    """The types of a value before and behind its boundary."""
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
            f"module `{printable(path)}`", f"takes no argument {position}", "compile the plan for this model"
        )
    return names[position]
