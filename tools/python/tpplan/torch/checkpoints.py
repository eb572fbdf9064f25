"""Training states on disk: saves and loads parameters, optimizer state and further tensors, in a folder that any mesh
can resume from."""

import json

import torch

from .. import slices
from ..files import printable
from ..manifest import ManifestError
from ..new_folder import begin_folder, drop_folder, finish_folder
from ..load_weights import load, save_own
from ..states import states_manifest, stored_tensors
from .communication import said_by_first_rank
from .placements import DTensor
from .weights import fail_together

OPTIMIZER, SETTINGS = (
    "optimizer",
    "optimizer.settings",
)  # `optimizer.<name>.<path>` is a tensor of the optimizer's state


def save_states(folder, model, optimizer=None, *, more=None):
    """Writes a new folder with the training states of a parallelized model. Every rank must call it.

    The folder has the parameters and persistent buffers under their paths. It has each tensor of the optimizer's
    state as `optimizer.exp_avg.<path>`, and the optimizer's settings. `more` adds {name: {path: tensor}}, such as
    {"master": {path: float32 DTensor}}, under `<name>.<path>`.

    A tensor with the shape of its parameter is sharded as the parameter is. All others must be the same on every
    rank; the first rank's value is written. The folder has the format of `tpplan-exec save`, for the manifest that
    `python -m tpplan.states` prints. It appears under its name once all ranks have written.

    Raises ManifestError for states that cannot be saved. An error on one rank is raised on every rank.
    """
    state = _state_of(model)
    rank = slices.rank_of(state.manifest.mesh, state.coordinate)
    tensors, settings = _tensors_of(model, optimizer, more or {}), None
    if optimizer is not None:
        settings = said_by_first_rank(lambda: _settings_of(optimizer, _names_of(model, more or {})), state.mesh)
        text = json.dumps(settings).encode()
        tensors[SETTINGS] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    made = said_by_first_rank(lambda: begin_folder(folder), state.mesh)
    failure = None
    try:
        manifest = states_manifest(
            state.manifest, {path: (str(t.dtype).removeprefix("torch."), tuple(t.shape)) for path, t in tensors.items()}
        )
        save_own(manifest, rank, made, {path: _local(tensor) for path, tensor in tensors.items()})
    except Exception as error:  # the others wait
        failure = error
    try:
        fail_together(state.mesh, rank, failure, "write its states")
    except Exception:
        if rank == 0:
            drop_folder(made)
        raise
    said_by_first_rank(lambda: finish_folder(made, folder), state.mesh)


def load_states(folder, model, optimizer=None, *, more=None, threads=0):
    """Reads a folder of save_states, written on any mesh, into a parallelized model, its optimizer and the tensors of
    `more`.

    Every rank must call it. The optimizer's state and settings are replaced, whether it is new or used. Further
    states in the folder are not read. `threads` is the number of reading threads, as in tpplan.load.

    Raises ManifestError or LoadError, on every rank, if the folder lacks a state or a state has another shape.
    Nothing is changed in that case, unless reading from the disk fails midway.
    """
    state, more = _state_of(model), more or {}
    rank = slices.rank_of(state.manifest.mesh, state.coordinate)
    stored = said_by_first_rank(lambda: stored_tensors(folder), state.mesh)
    failure = None
    try:

        def read(into):
            manifest = states_manifest(state.manifest, {path: _stored(stored, path) for path in into})
            only = lambda name: name if name in into else None  # noqa: E731
            load(manifest, folder, into=into, rank=rank, threads=threads, rename=only)

        into, slots, settings = _tensors_of(model, None, more), {}, None
        if optimizer is not None:
            text = torch.empty(_stored(stored, SETTINGS)[1], dtype=torch.uint8)
            read({SETTINGS: text})
            settings, names = json.loads(bytes(text.tolist())), _names_of(model, more)
            _check_groups(optimizer, names, settings["groups"])
            slots = _slots_of(optimizer, names, stored)
        read(into | {path: value for path, (_, _, value) in slots.items()})
        if optimizer is not None:
            _set_optimizer(optimizer, names, slots, settings)
    except Exception as error:  # the others wait
        failure = error
    fail_together(state.mesh, rank, failure, "read its states")


def _state_of(model):
    if not hasattr(model, "_tpplan_state"):
        raise ManifestError("model", "is not parallelized", "pass the model that tpplan.torch.parallelize returned")
    return model._tpplan_state


def _tensors_of(model, optimizer, more):
    """Returns {path in the folder: tensor} of all states, without the optimizer's settings."""
    found = dict(model.named_parameters())
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                found[f"{prefix}.{name}" if prefix else name] = buffer
    for name, tensors in more.items():
        _add(found, {f"{name}.{path}": tensor for path, tensor in tensors.items()})
    if optimizer is not None:
        names = _names_of(model, more)
        for parameter, state in optimizer.state.items():
            path = _name_of(names, parameter)
            _add(found, {f"{OPTIMIZER}.{k}.{path}": v for k, v in state.items() if isinstance(v, torch.Tensor)})
    return {path: tensor.detach() for path, tensor in found.items()}


def _add(found, new):
    for path, tensor in new.items():
        if path in found or not isinstance(tensor, torch.Tensor):
            reason = "is given twice" if path in found else f"is {type(tensor).__name__}, not a tensor"
            raise ManifestError(f"state `{printable(path)}`", reason, "pass {name: {path: tensor}} with each path once")
        found[path] = tensor


def _local(tensor):
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).contiguous().cpu()


def _names_of(model, more):
    """Returns {id: path} of the tensors that an optimizer may train: the parameters, and their copies in `more`."""
    names = {id(tensor): path for tensors in more.values() for path, tensor in tensors.items()}
    return names | {id(parameter): path for path, parameter in model.named_parameters()}


def _name_of(names, parameter):
    if id(parameter) not in names:
        raise ManifestError(
            "optimizer",
            f"trains a tensor of shape {list(parameter.shape)} that is not a parameter of the model",
            'pass the other trained tensors in `more`: {"master": {path: tensor}}',
        )
    return names[id(parameter)]


def _settings_of(optimizer, names):
    """Returns the optimizer's groups and its state values that are no tensors, as JSON values. Raises ManifestError
    if one cannot be written."""
    values = {}
    for parameter, state in optimizer.state.items():
        plain = {key: value for key, value in state.items() if not isinstance(value, torch.Tensor)}
        if plain:
            values[_name_of(names, parameter)] = plain
    groups = [
        {
            key: [_name_of(names, p) for p in value] if key == "params" else _number(value)
            for key, value in group.items()
        }
        for group in optimizer.param_groups
    ]
    try:
        text = json.dumps({"groups": groups, "values": values})
    except (TypeError, ValueError) as error:
        raise ManifestError(
            "optimizer", f"has values that JSON cannot store: {error}", "save these values separately"
        ) from None
    return json.loads(text)


def _number(value):
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def _stored(stored, path):
    if path not in stored:
        raise ManifestError(
            f"state `{printable(path)}`", "is not in the checkpoint", "load only states that were saved"
        )
    return stored[path]


def _slots_of(optimizer, names, stored):
    """Returns {path in the folder: (parameter, state name, tensor)} of the optimizer's saved state. The tensor is the
    existing one if shape and dtype fit, else a new one."""
    trained = {_name_of(names, p): (p, group) for group in optimizer.param_groups for p in group["params"]}
    found = {}
    for path, (dtype, shape) in stored.items():
        if path == SETTINGS or not path.startswith(f"{OPTIMIZER}."):
            continue
        name, _, own = path[len(OPTIMIZER) + 1 :].partition(".")
        if own not in trained:
            raise ManifestError(
                f"state `{printable(path)}`",
                "belongs to a parameter that the optimizer does not train",
                "create the optimizer as in the job that saved it",
            )
        parameter, group = trained[own]
        found[path] = (
            parameter,
            name,
            _slot(optimizer.state.get(parameter, {}).get(name), parameter, group, dtype, shape),
        )
    return found


def _slot(there, parameter, group, dtype, shape):
    dtype = getattr(torch, dtype)
    if isinstance(there, torch.Tensor) and (there.dtype, list(there.shape)) == (dtype, list(shape)):
        return there
    if shape and list(shape) == list(parameter.shape):
        return torch.empty_like(parameter.detach(), dtype=dtype)
    is_there = group.get("capturable") or group.get("fused")
    return torch.empty(shape, dtype=dtype, device=parameter.device if is_there else "cpu")


def _check_groups(optimizer, names, groups):
    held = [[_name_of(names, p) for p in group["params"]] for group in optimizer.param_groups]
    if held != [group["params"] for group in groups]:
        raise ManifestError(
            "optimizer",
            "has different parameter groups than the saved optimizer",
            "create the optimizer as in the job that saved it",
        )


def _set_optimizer(optimizer, names, slots, settings):
    for group, saved in zip(optimizer.param_groups, settings["groups"]):
        for key, value in saved.items():
            if isinstance(group.get(key), torch.Tensor):
                group[key].fill_(value)
            elif key != "params":
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
    by_name = {_name_of(names, p): p for group in optimizer.param_groups for p in group["params"]}
    optimizer.state.clear()
    for parameter, name, value in slots.values():
        optimizer.state[parameter][name] = value
    for path, values in settings["values"].items():
        optimizer.state[by_name[path]].update(values)
