"""What is refused of a model, before anything of it is touched."""

from torch import nn

from .. import slices
from ..files import printable
from ..manifest import EXPORT_AGAIN, ManifestError
from .dispatch import experts_of
from .placements import takes_dtypes
from .state import fused_tensors
from .styles import ONE_AXIS_STYLES, rope_size
from .values import maker


def facts(tensor):
    """Shape and dtype, as a manifest names them."""
    if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
        return (), "nothing yet"
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def check_loss(manifest):
    """Refuses a plan that counts on gradients that are averaged."""
    if manifest.loss is not None and manifest.loss.gradients == "mean" and (manifest.data_axes or manifest.fsdp_axis):
        raise ManifestError(
            "`loss`",
            "its gradients are to be averaged over the data axes, and tpplan.torch sums them",
            "divide the loss by the count over all ranks, and write `loss: {count: global, gradients: sum}` in the plan",
        )


def check_modules(state, model):
    """Refuses modules that are not there, and boundaries and styles that cannot be run here."""
    modules, first = dict(model.named_modules(remove_duplicate=False)), {}
    for boundary in state.manifest.modules:
        where = f"module `{printable(boundary.path)}`"
        if boundary.path not in modules:
            raise ManifestError(where, "stands in the manifest, but the model has no such module", EXPORT_AGAIN)
        _check_style(state, model, where, boundary.style)
        _check_boundary(state, where, boundary, modules[boundary.path])
        if boundary.style == "ep_dispatch_experts":
            experts_of(state, boundary.path, modules[boundary.path])
        other = first.setdefault(id(modules[boundary.path]), boundary)
        if (boundary.style, boundary.inputs, boundary.outputs) != (other.style, other.inputs, other.outputs):
            raise ManifestError(
                where,
                f"is the same module as `{printable(other.path)}`, and the plan gives them different boundaries",
                "give all paths of one module one rule: it is called through one of them",
            )
    for path in state.manifest.remat:
        if path not in modules:
            raise ManifestError(
                f"module `{printable(path)}`", "is in `remat`, but the model has no such module", EXPORT_AGAIN
            )


def _check_style(state, model, where, style):
    if style in ONE_AXIS_STYLES and len(state.model_axes) != 1:
        raise ManifestError(
            where,
            f"style {style} needs a mesh with one axis beside the data axes",
            "name the others in `data`, or leave them out",
        )
    if style == "mla_kv_a_proj" and rope_size(model) is None:
        raise ManifestError(
            where, "style mla_kv_a_proj needs the model's config.qk_rope_head_dim", "give the model that attribute"
        )


def _check_boundary(state, where, boundary, module):
    """Data axes are out of the model's sight, and DTensor has no word for an output with segments."""
    data = [i for i, (name, _) in enumerate(state.manifest.mesh) if name in state.data_axes]
    values = boundary.inputs + boundary.outputs
    for value in values:
        if value.source and value.target and any(value.source[i] != value.target[i] for i in data):
            raise ManifestError(
                where,
                "its boundary moves values along a data axis",
                "let the rule name an axis that is neither in `data` nor fsdp's",
            )
    if any(v.forward_dtype or v.backward_dtype for v in values) and not takes_dtypes():
        raise ManifestError(
            where,
            "sends values in a type of their own, and DTensor.redistribute of this torch takes none",
            "install torch 2.8 or later, or take `forward_dtype` and `backward_dtype` from the plan",
        )
    fused = fused_tensors(state, boundary.path, module)
    if fused and any(not v.use_local and v.target == v.source and v.target for v in boundary.outputs):
        raise ManifestError(
            where,
            f"its output has the segments of `{printable(fused[0].path)}`, and cannot leave as a DTensor",
            "write `use_local_output: true`, or gather it with `output_layouts: Replicate`",
        )


def check_shards(state, shards):
    """Refuses shards that the manifest does not have, or has in another shape or dtype on this rank."""
    known = {**state.manifest.parameters, **state.manifest.buffers}
    for path, shard in shards.items():
        where = f"parameter `{printable(path)}`"
        if path not in known:
            raise ManifestError(
                where, "stands in `shards`, but not in the manifest", "load the shards with this manifest"
            )
        tensor = known[path]
        shape = slices.local_shape(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)
        if list(shard.shape) != shape or facts(shard)[1] != tensor.dtype:
            raise ManifestError(
                where,
                f"its shard is {list(shard.shape)} {facts(shard)[1]}, and this rank holds {shape} {tensor.dtype}",
                "load the shards of this rank with this manifest",
            )


def check_sources(model, parameters, buffers, shards):
    """Refuses tensors on the meta device that have no value in `shards`, and no module that makes one."""
    for table, kind in ((parameters, "parameter"), (buffers, "buffer")):
        for paths in table.values():
            tensor = next(iter(paths.values()))
            if not tensor.is_meta or any(path in shards for path in paths):
                continue
            if maker(model, next(iter(paths))) is None:
                raise ManifestError(
                    f"{kind} `{printable(next(iter(paths)))}`",
                    "is on the meta device, and its module has no reset_parameters",
                    "give its value in `shards`, or build that module on a real device",
                )
