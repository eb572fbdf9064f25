"""Values of parameters and buffers: finds their source, shards them, and gathers them again."""

import functools

import torch
from torch import nn

from .. import slices
from ..files import printable
from ..manifest import ManifestError
from .communication import all_gather, from_first_rank, step_of
from .pieces import needs_pieces, pieces_of
from .placements import DTensor, from_local, placement
from .state import Held, cutting_of


def spread_module(state, module, aliases, replaced, shards, broadcast):
    """Replaces the module's direct parameters and buffers by sharded ones. `aliases` maps the id of an original
    tensor to its paths. `replaced` maps that id to (original, sharded), for tied tensors."""
    own = [
        (table, name, value)
        for table in (module._parameters, module._buffers)
        for name, value in table.items()
        if value is not None
    ]
    given = {
        id(value): next((p for p in aliases[id(value)] if p in shards), None)
        for _, _, value in own
        if id(value) not in replaced
    }
    fresh = {
        name: aliases[id(value)][0]
        for _, name, value in own
        if id(value) in given and value.is_meta and given[id(value)] is None
    }
    if fresh:
        _materialise(state, module, fresh)
    for table, name, value in own:
        if id(value) not in replaced:
            path = aliases[id(value)][0]
            tensor = (state.manifest.parameters if table is module._parameters else state.manifest.buffers)[path]
            with torch.no_grad():
                if given[id(value)] is not None:
                    local = shards[given[id(value)]].to(state.mesh.device_type)
                else:
                    whole = table[name].detach().to(state.mesh.device_type)
                    local = pick(from_first_rank(whole, state.mesh) if broadcast else whole, tensor, state)
            spread = _spread(state, local, tensor)
            if table is module._parameters:
                spread = nn.Parameter(spread, requires_grad=value.requires_grad)
            state.by_id[id(spread)] = Held(tensor, spread, table is module._parameters)
            replaced[id(value)] = value, spread
        # setattr, because nn.LSTM keeps a list of its parameters and updates it there.
        setattr(module, name, replaced[id(value)][1])


def maker(model, path):
    """Returns the function that initializes the module holding this parameter or buffer, or None.

    In a transformers model it is `_init_weights` of the innermost enclosing pretrained model, which initializes
    non-persistent buffers as well. Otherwise it is the module's reset_parameters.
    """
    owner = path.rpartition(".")[0]
    module = model.get_submodule(owner)
    atoms = owner.split(".") if owner else []
    for count in range(len(atoms), -1, -1):
        around = model.get_submodule(".".join(atoms[:count]))
        if hasattr(around, "config") and callable(getattr(around, "_init_weights", None)):
            return functools.partial(around._init_weights, module)
    reset = getattr(module, "reset_parameters", None)
    return reset if callable(reset) else None


def _materialise(state, module, fresh):
    """Allocates these meta tensors of a module, {name: path}, on the device and initializes the module. Raises
    ManifestError if a floating-point value stays uninitialized."""
    made = {}
    for table in (module._parameters, module._buffers):
        for name, value in table.items():
            if value is None or name not in fresh or not value.is_meta:
                continue
            empty = torch.empty_like(value, device=state.mesh.device_type)
            made[name] = empty.fill_(float("nan")) if value.is_floating_point() else empty
            table[name] = nn.Parameter(empty, value.requires_grad) if table is module._parameters else empty
    with torch.no_grad():
        maker(state.model, next(iter(fresh.values())))()
    for name, value in made.items():
        if value.is_floating_point() and value.isnan().any():
            raise ManifestError(
                f"`{printable(fresh[name])}`",
                "is on the meta device, but the initialization of its module does not set it",
                "pass its value in `shards`, or build the module on a real device",
            )


def pick(whole, tensor, state):
    """Returns this rank's shard of a full tensor, as a copy."""
    return take_runs(
        whole, slices.shard_slice(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)
    )


def take_runs(whole, runs):
    """Returns a copy of these intervals of each dim, as slices.shard_slice lists them."""
    for dim, parts in enumerate(runs):
        if sum(end - begin for begin, end in parts) != whole.shape[dim]:
            whole = torch.cat([whole.narrow(dim, begin, end - begin) for begin, end in parts], dim)
    return whole.clone(memory_format=torch.contiguous_format)


def _spread(state, local, tensor):
    """Returns a local shard as a DTensor with the manifest's placements, or as a Pieces if torch has none for it."""
    if needs_pieces(tensor, state.manifest.mesh):
        return pieces_of(local, state.mesh, cutting_of(state, tensor))
    return from_local(local, state.mesh, [placement(text) for text in tensor.placements], tensor.shape)


def spread_loaded(state):
    """Returns a load_state_dict pre-hook that shards full tensors as their parameters are sharded."""

    def hook(module, state_dict, prefix, *_):
        for name, value in (*module._parameters.items(), *module._buffers.items()):
            held, key = state.by_id.get(id(value)), prefix + name
            loaded = state_dict.get(key)
            if (
                held is None
                or not isinstance(loaded, torch.Tensor)
                or isinstance(loaded, DTensor)
                or tuple(loaded.shape) != held.tensor.shape
            ):
                continue
            piece = pick(loaded.detach().to(state.mesh.device_type), held.tensor, state)
            state_dict[key] = _spread(state, piece, held.tensor)

    return hook


def full_tensor(model, path, gradient=False):
    """Returns the full tensor of a parameter or buffer at `path`, or of its gradient (None if it has none), on every
    rank. Every rank must call it. Unlike DTensor.full_tensor, it supports segments."""
    state = model._tpplan_state
    held = _held_of(state, model, path)
    value = held.value.grad if gradient else held.value
    if value is None:
        return None
    with torch.no_grad():
        local, cutting = value.to_local(), cutting_of(state, held.tensor)
        for dim, axes in enumerate(held.tensor.spec):
            for i in range(len(axes), 0, -1):
                local = all_gather(local, step_of(cutting, state.mesh, dim, list(axes[:i])))
    return local


def _held_of(state, model, path):
    owner, _, name = path.rpartition(".")
    module = model.get_submodule(owner)
    return state.by_id[id(module._parameters[name] if name in module._parameters else module._buffers[name])]
