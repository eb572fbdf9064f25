"""A model spread over a mesh: everything is checked first, then values are cut, then modules are wrapped."""

from torch import nn

from ..compiled import manifest_of
from ..export.live_model import torch_text
from ..manifest import ManifestError, check_buffers, check_mesh, check_parameters
from .checks import check_loss, check_modules, check_shards, check_sources, facts
from .communication import said_by_first_rank
from .mixing import skip_frames
from .modules import wrap_modules
from .notes import note_backward_passes
from .placements import DeviceMesh, need_dtensor
from .state import make_state
from .values import spread_module
from .weights import read_pieces


def parallelize(
    model, plan, device_mesh, *, weights=None, shards=None, broadcast=True, inputs=None, manifest=None, units=None
):
    """Spreads `model` over `device_mesh` as the plan says, in place; returns the model.

    `plan` is a plan (path, text or dict), which the mesh's first rank reads and compiles for this model and mesh, or a
    manifest (the same, or what load_manifest gave). A plan's own axes must be this mesh's, which says their sizes;
    a plan without a mesh takes it.
    `inputs` says what forward takes, so that the plan is judged by the operations of a step (tensors by name, or
    {"shape": [...], "dtype": "..."}; a model that takes `input_ids` needs none); `manifest` is a path where the compiled
    manifest is kept. `device_mesh` is a DeviceMesh with the names and sizes of the manifest's mesh.

    What FSDP cuts is gathered as the plan's `fsdp.units` say (units.py), where it names some. `units=False` gathers each parameter where
    its module runs, which are the calls that a manifest lists; `units=True` makes the whole model one unit where the plan names none.

    Values come from `weights` (what tpplan.load takes: a safetensors file, an index, a folder, one that `tpplan-exec save` wrote),
    of which each rank reads its pieces; or from `shards` ({path: this rank's piece}, as load_safetensors gives them) where it
    has the path; and otherwise, as a buffer that the weights lack, from the model of the mesh's first rank (`broadcast=False`:
    every rank takes its own, and they must be alike). A model on the meta device is made one module at a time: from `weights`
    or `shards`, or by the module's reset_parameters.

    Raises PlanError, with the program's findings, for a plan that is wrong, on every rank; and before anything is touched
    ManifestError where the manifest contradicts itself or does not fit the model or mesh, and LoadError, on every rank, where
    one of them cannot read its weights."""
    need_dtensor()
    if not isinstance(model, nn.Module):
        raise ManifestError("model", f"{type(model).__name__} is no nn.Module", "give the model itself")
    if hasattr(model, "_tpplan_state"):
        raise ManifestError("model", "is parallelized already", "make a new model")
    if weights is not None and shards is not None:
        raise ManifestError("`weights`", "are given, and `shards`, too", "give one of them")
    shards = shards or {}
    if not isinstance(device_mesh, DeviceMesh):
        raise ManifestError(
            "device mesh", f"{type(device_mesh).__name__} is no DeviceMesh", "make one with init_device_mesh"
        )
    axes = list(zip(device_mesh.mesh_dim_names or [None] * device_mesh.ndim, device_mesh.shape))
    manifest = _manifest_of(model, plan, device_mesh, axes, inputs, manifest)
    check_mesh(manifest, axes)
    parameters, buffers = _names_of(model)
    check_parameters(
        manifest,
        {path: facts(p) for paths in parameters.values() for path, p in paths.items()},
        [list(paths) for paths in parameters.values() if len(paths) > 1],
    )
    check_buffers(manifest, {path: facts(b) for paths in buffers.values() for path, b in paths.items()})
    check_loss(manifest)
    state = make_state(model, manifest, device_mesh)
    check_modules(state, model)
    if weights is not None:
        shards = read_pieces(state, weights)
    check_shards(state, shards)
    check_sources(model, parameters, buffers, shards)
    aliases = {key: list(paths) for key, paths in (*parameters.items(), *buffers.items())}
    replaced = {}
    for _, module in list(model.named_modules()):
        spread_module(state, module, aliases, replaced, shards, broadcast)
    wrap_modules(
        state, model, any(manifest.fsdp_units) if units is None else units
    )  # "" is the model, which nobody named
    model._tpplan_state = state
    note_backward_passes()
    skip_frames()
    return model


def _manifest_of(model, plan, device_mesh, axes, inputs, keep):
    """The manifest that `plan` is, or becomes on the mesh's first rank."""

    def said(make):
        if None in dict(axes) or device_mesh.get_coordinate() is None:
            raise ManifestError(
                "device mesh", "has no names, or not this process", "init_device_mesh(..., mesh_dim_names=...)"
            )
        return said_by_first_rank(make, device_mesh)

    flags = () if any(p.requires_grad for p in model.parameters()) else ("--mode", "infer")
    return manifest_of(plan, lambda: torch_text(model, inputs), axes, keep, flags, said)


def _names_of(model):
    """{id: {path: tensor}} of the parameters and of the buffers, each under all its names."""
    parameters, buffers = {}, {}
    for table, named in (
        (parameters, model.named_parameters(remove_duplicate=False)),
        (buffers, model.named_buffers(remove_duplicate=False)),
    ):
        for path, tensor in named:
            table.setdefault(id(tensor), {})[path] = tensor
    return parameters, buffers
