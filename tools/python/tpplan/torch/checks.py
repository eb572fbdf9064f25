"""Checks of a model against a manifest, which run before the model is changed."""

from torch import nn

from .. import slices
from ..files import printable
from ..manifest import EXPORT_AGAIN, ManifestError
from .dispatch import experts_of
from .placements import takes_dtypes
from .state import fused_tensors
from .styles import has_property, needs_one_axis, rope_size, sums_tail_gradient
from .values import maker


def facts(tensor):
    """Returns (shape, dtype name) of a tensor, as a manifest writes them; ((), "nothing yet") for a lazy parameter."""
    if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
        return (), "nothing yet"
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def check_loss(manifest):
    """Raises ManifestError if the plan averages gradients over data axes."""
    if manifest.loss is not None and manifest.loss.gradients == "mean" and (manifest.data_axes or manifest.fsdp_axis):
        raise ManifestError(
            "`loss`",
            "the plan averages gradients over the data axes, but tpplan.torch sums them",
            "divide the loss by the count over all ranks, and write `loss: {count: global, gradients: sum}` in the plan",
        )


def check_modules(state, model):
    """Raises ManifestError for modules that the model lacks, and for boundaries and styles that this runtime does not
    support."""
    modules, first = dict(model.named_modules(remove_duplicate=False)), {}
    for boundary in state.manifest.modules:
        where = f"module `{printable(boundary.path)}`"
        if boundary.path not in modules:
            raise ManifestError(where, "is in the manifest but not in the model", EXPORT_AGAIN)
        _check_style(state, model, where, boundary.style)
        _check_boundary(state, where, boundary, modules[boundary.path])
        if has_property(boundary.style, "dispatches_experts"):
            experts_of(state, boundary.path, modules[boundary.path])
        other = first.setdefault(id(modules[boundary.path]), boundary)
        if (boundary.style, boundary.inputs, boundary.outputs) != (other.style, other.inputs, other.outputs):
            raise ManifestError(
                where,
                f"is the same module as `{printable(other.path)}`, but the plan has different boundaries for them",
                "write the same rule for all paths of a shared module",
            )
    for path in state.manifest.remat:
        if path not in modules:
            raise ManifestError(f"module `{printable(path)}`", "is in `remat` but not in the model", EXPORT_AGAIN)


def check_local_attributes(manifest, model):
    """Raises ManifestError for an attribute that a module lacks, or whose value is not the one of the manifest."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for attribute in manifest.local_attributes:
        where = f"module `{printable(attribute.path)}`"
        if attribute.path not in modules:
            raise ManifestError(where, "is in `local_attributes` but not in the model", EXPORT_AGAIN)
        value = getattr(modules[attribute.path], attribute.name, None)
        if type(value) is not int:
            raise ManifestError(
                where,
                f"has no number `{printable(attribute.name)}`",
                "write the attribute that the code uses in `local_attributes` of the plan",
            )
        if value != attribute.size:
            raise ManifestError(
                where,
                f"`{printable(attribute.name)}` is {value}, but the manifest divides {attribute.size} by "
                f"{attribute.ranks} ranks",
                "build the model with its global sizes: parallelize divides them",
            )


def _check_style(state, model, where, style):
    if needs_one_axis(style) and len(state.model_axes) != 1:
        raise ManifestError(
            where,
            f"style {style} needs a mesh with exactly one axis that is not a data axis",
            "list the other axes in `data`, or remove them from the mesh",
        )
    if sums_tail_gradient(style) and rope_size(model) is None:
        raise ManifestError(
            where,
            f"style {style} needs the model's config.qk_rope_head_dim",
            "set this attribute on the model's config",
        )


def _check_boundary(state, where, boundary, module):
    """Raises ManifestError if this runtime does not support a boundary. It must not redistribute along a data axis,
    or send in a dtype that this torch cannot. A segmented output must not be a DTensor, because torch has no
    placement for it."""
    data = [i for i, (name, _) in enumerate(state.manifest.mesh) if name in state.data_axes]
    values = boundary.inputs + boundary.outputs
    for value in values:
        if value.source and value.target and any(value.source[i] != value.target[i] for i in data):
            raise ManifestError(
                where,
                "its boundary redistributes values over a data axis",
                "use an axis in the rule that is neither in `data` nor the FSDP axis",
            )
    if any(v.forward_dtype or v.backward_dtype for v in values) and not takes_dtypes():
        raise ManifestError(
            where,
            "has `forward_dtype` or `backward_dtype`, but DTensor.redistribute of this torch does not support them",
            "install torch 2.8 or later, or remove `forward_dtype` and `backward_dtype` from the plan",
        )
    fused = fused_tensors(state, boundary.path, module)
    if fused and any(not v.use_local and v.target == v.source and v.target for v in boundary.outputs):
        raise ManifestError(
            where,
            f"its output has the segments of `{printable(fused[0].path)}`, so it cannot be a DTensor",
            "write `use_local_output: true`, or gather it with `output_layouts: Replicate`",
        )


def check_shards(state, shards):
    """Raises ManifestError for shards that the manifest lacks, or whose shape or dtype differs from this rank's local
    shard."""
    known = {**state.manifest.parameters, **state.manifest.buffers}
    for path, shard in shards.items():
        where = f"parameter `{printable(path)}`"
        if path not in known:
            raise ManifestError(where, "is in `shards` but not in the manifest", "load the shards with this manifest")
        tensor = known[path]
        shape = slices.local_shape(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)
        if list(shard.shape) != shape or facts(shard)[1] != tensor.dtype:
            raise ManifestError(
                where,
                f"its shard is {list(shard.shape)} {facts(shard)[1]}, but the manifest specifies {shape} "
                f"{tensor.dtype} for this rank",
                "load the shards of this rank with this manifest",
            )


def check_sources(model, parameters, buffers, shards):
    """Raises ManifestError for tensors on the meta device that have neither a value in `shards` nor a module that
    initializes them."""
    for table, kind in ((parameters, "parameter"), (buffers, "buffer")):
        for paths in table.values():
            tensor = next(iter(paths.values()))
            if not tensor.is_meta or any(path in shards for path in paths):
                continue
            if maker(model, next(iter(paths))) is None:
                raise ManifestError(
                    f"{kind} `{printable(next(iter(paths)))}`",
                    "is on the meta device, but its module has no reset_parameters",
                    "pass its value in `shards`, or build the module on a real device",
                )
