"""Values of parameters and buffers: where they come from, cut into this rank's piece, and put together again."""

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
    """Replaces the module's own parameters and buffers. `aliases` has the paths of each by the id of the whole tensor;
    `replaced` maps that id to (whole, spread), for the other names of a tensor."""
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
        # By setattr, for modules that keep lists of their parameters (nn.LSTM).
        setattr(module, name, replaced[id(value)][1])


def maker(model, path):
    """What makes the values of the module that has this parameter or buffer: in a model of transformers the `_init_weights` of the
    model around it, which makes buffers that no checkpoint has, too; else its reset_parameters, or None."""
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
    """Gives these own tensors of a module ({name: path}) memory, and values by what makes them. Raises ManifestError where that
    leaves one without."""
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
                "is on the meta device, and what makes the values of its module gives it none",
                "give its value in `shards`, or build that module on a real device",
            )


def pick(whole, tensor, state):
    """This rank's piece of a whole tensor, in memory of its own."""
    return take_runs(
        whole, slices.shard_slice(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)
    )


def take_runs(whole, runs):
    """The runs of each dim of a tensor, as slices.shard_slice lists them, in memory of their own."""
    for dim, parts in enumerate(runs):
        if sum(end - begin for begin, end in parts) != whole.shape[dim]:
            whole = torch.cat([whole.narrow(dim, begin, end - begin) for begin, end in parts], dim)
    return whole.clone(memory_format=torch.contiguous_format)


def _spread(state, local, tensor):
    """A piece as a DTensor of the manifest's placements, or as a Pieces where these would not do."""
    if needs_pieces(tensor, state.manifest.mesh):
        return pieces_of(local, state.mesh, cutting_of(state, tensor))
    return from_local(local, state.mesh, [placement(text) for text in tensor.placements], tensor.shape)


def spread_loaded(state):
    """load_state_dict takes whole tensors: they are cut as what they are copied into."""

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
    """The whole of a spread parameter or buffer (or of its gradient; None where it has none), on every rank. Every rank must
    call it. Unlike DTensor.full_tensor it is right for segments, too."""
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
