"""A model spread over a mesh: everything is checked first, then values are cut, then modules are wrapped."""

from torch import nn

from ..manifest import ManifestError, check_buffers, check_mesh, check_parameters, load_manifest
from .checks import check_loss, check_modules, check_shards, check_sources, facts
from .modules import wrap_modules
from .placements import DeviceMesh, need_dtensor
from .state import make_state
from .values import spread_module


def parallelize(model, manifest, device_mesh, *, shards=None, broadcast=True):
    """Spreads `model` over `device_mesh` as the manifest says, in place; returns the model.

    `manifest` is a path or what load_manifest gave, `device_mesh` a DeviceMesh with the names and sizes of its mesh. Values
    come from `shards` ({path: this rank's piece}, as load_safetensors gives them) where it has the path, and from the model of
    the mesh's first rank otherwise (`broadcast=False`: every rank takes its own, and they must be alike). A model on the meta
    device is made one module at a time: from `shards`, or by the module's reset_parameters.

    Raises ManifestError before anything is touched where the manifest contradicts itself or does not fit the model or mesh."""
    need_dtensor()
    if not isinstance(model, nn.Module):
        raise ManifestError("model", f"{type(model).__name__} is no nn.Module", "give the model itself")
    if hasattr(model, "_tpplan_state"):
        raise ManifestError("model", "is parallelized already", "make a new model")
    manifest, shards = load_manifest(manifest), shards or {}
    if not isinstance(device_mesh, DeviceMesh):
        raise ManifestError(
            "device mesh", f"{type(device_mesh).__name__} is no DeviceMesh", "make one with init_device_mesh"
        )
    names = device_mesh.mesh_dim_names or [None] * device_mesh.ndim
    check_mesh(manifest, list(zip(names, device_mesh.shape)))
    parameters, buffers = _names_of(model)
    check_parameters(
        manifest,
        {path: facts(p) for paths in parameters.values() for path, p in paths.items()},
        [list(paths) for paths in parameters.values() if len(paths) > 1],
    )
    check_buffers(manifest, {path: facts(b) for paths in buffers.values() for path, b in paths.items()})
    check_loss(manifest)
    state = make_state(manifest, device_mesh)
    check_modules(state, model)
    check_shards(state, shards)
    check_sources(model, parameters, buffers, shards)
    aliases = {key: list(paths) for key, paths in (*parameters.items(), *buffers.items())}
    replaced = {}
    for _, module in list(model.named_modules()):
        spread_module(state, module, aliases, replaced, shards, broadcast)
    wrap_modules(state, model)
    model._tpplan_state = state
    return model


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
