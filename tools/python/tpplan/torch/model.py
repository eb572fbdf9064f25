"""Parallelizes a model over a device mesh: checks everything first, then shards the values, then wraps the modules."""

from torch import nn

from ..compiled import manifest_of
from ..export.live_model import torch_text
from ..manifest import ManifestError, check_buffers, check_mesh, check_parameters
from .checks import check_local_attributes, check_loss, check_modules, check_shards, check_sources, facts
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
    """Parallelizes `model` over `device_mesh` in place, as the plan specifies, and returns the model.

    `plan` is a path, a text or a dict of a plan or of a manifest, or a result of load_manifest. The first rank of the
    mesh reads it; a plan is compiled for this model and mesh. The axes of a plan must be the axes of the mesh, which
    provides their sizes; a plan without a mesh uses this one.

    `inputs` describes the inputs of forward, so that the checker can trace a step: tensors by name, or {"shape":
    [...], "dtype": "..."}. A model that takes `input_ids` needs none. `manifest` is the path to which the compiled
    manifest is written. `device_mesh` is a DeviceMesh with the axis names and sizes of the manifest.

    FSDP parameters are all-gathered per unit of the plan's `fsdp.units` (units.py), if the plan has any.
    `units=False` gathers each parameter for the forward of its module, which are the collectives that the manifest
    lists. `units=True` makes the model one unit if the plan names none.

    Each value comes from the first of these sources that has it:

    - `weights`, as tpplan.load takes it: a safetensors file, an index, a folder, or a folder written by `tpplan-exec
      save`. Each rank reads its shards.
    - `shards`: {path: local shard of this rank}, as load_safetensors returns them. `weights` and `shards` exclude
      each other.
    - the model of the mesh's first rank. With `broadcast=False` each rank uses its local values, which must be
      identical on all ranks.

    A model on the meta device is materialized one module at a time: from `weights` or `shards`, or by the module's
    reset_parameters.

    Raises PlanError, with the diagnostics, on every rank if the plan is wrong. Raises ManifestError before any change
    if the manifest is inconsistent or does not fit the model or the mesh. Raises LoadError on every rank if one rank
    cannot read its weights.
    """
    need_dtensor()
    if not isinstance(model, nn.Module):
        raise ManifestError("model", f"{type(model).__name__} is not an nn.Module", "pass an nn.Module")
    if hasattr(model, "_tpplan_state"):
        raise ManifestError("model", "is already parallelized", "create a new model")
    if weights is not None and shards is not None:
        raise ManifestError("`weights`", "cannot be combined with `shards`", "pass only one of them")
    shards = shards or {}
    if not isinstance(device_mesh, DeviceMesh):
        raise ManifestError(
            "device mesh", f"{type(device_mesh).__name__} is not a DeviceMesh", "make one with init_device_mesh"
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
    check_local_attributes(manifest, model)
    if weights is not None:
        shards = read_pieces(state, weights)
    check_shards(state, shards)
    check_sources(model, parameters, buffers, shards)
    aliases = {key: list(paths) for key, paths in (*parameters.items(), *buffers.items())}
    replaced = {}
    for _, module in list(model.named_modules()):
        spread_module(state, module, aliases, replaced, shards, broadcast)
    modules = dict(model.named_modules(remove_duplicate=False))
    shared = {(id(modules[a.path]), a.name): a for a in manifest.local_attributes}  # each once, under any path
    for attribute in shared.values():
        setattr(modules[attribute.path], attribute.name, attribute.size // attribute.ranks)
    wrap_modules(
        state, model, any(manifest.fsdp_units) if units is None else units
    )  # "" is the model itself, not a unit that the plan names
    model._tpplan_state = state
    note_backward_passes()
    skip_frames()
    return model


def _manifest_of(model, plan, device_mesh, axes, inputs, keep):
    """Returns the Manifest: `plan` itself if it is one, else the plan compiled on the first rank of the mesh."""

    def said(make):
        if None in dict(axes) or device_mesh.get_coordinate() is None:
            raise ManifestError(
                "device mesh",
                "has no axis names, or does not contain this process",
                "make it with init_device_mesh(..., mesh_dim_names=...)",
            )
        return said_by_first_rank(make, device_mesh)

    flags = () if any(p.requires_grad for p in model.parameters()) else ("--mode", "infer")
    return manifest_of(plan, lambda: torch_text(model, inputs), axes, keep, flags, said)


def _names_of(model):
    """Returns (parameters, buffers), each {id(tensor): {path: tensor}} with all paths of a tied tensor."""
    parameters, buffers = {}, {}
    for table, named in (
        (parameters, model.named_parameters(remove_duplicate=False)),
        (buffers, model.named_buffers(remove_duplicate=False)),
    ):
        for path, tensor in named:
            table.setdefault(id(tensor), {})[path] = tensor
    return parameters, buffers
