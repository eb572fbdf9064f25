"""Boundaries of modules: inputs and outputs go to the layouts that the manifest says, by DTensor over the model axes."""

from dataclasses import replace

import torch
from torch import nn

from .. import slices
from ..files import printable
from .communication import Gather, step_of
from .placements import DTensor, Partial, Replicate, Shard, counted, from_local, left, placement, redistributed
from .state import cutting_of, own_tensors

# What these give, their own backward does not need.
UNSAVED = (nn.Linear.forward, nn.Embedding.forward)


def _name(path):
    return f"module `{printable(path)}`" if path else "the model itself"


def read_layouts(state):
    """Works out once what modules ask at each call: their names for people, and where each value comes from and goes to."""
    state.names.update((path, _name(path)) for path, _ in state.model.named_modules(remove_duplicate=False))
    for boundary in state.manifest.modules:
        for value in (*boundary.inputs, *boundary.outputs):
            if value.source is not None:
                state.layouts[id(value)] = tuple(
                    [
                        placement(text)
                        for text, (name, _) in zip(layout, state.manifest.mesh)
                        if name in state.model_axes
                    ]
                    for layout in (value.source, value.target or value.source)
                )
                dtypes = {"forward_dtype": value.forward_dtype, "backward_dtype": value.backward_dtype}
                state.sent[id(value)] = {key: getattr(torch, name) for key, name in dtypes.items() if name}


def _locate(value, names, args, kwargs):
    """The container and the key of the value that a boundary names; (None, None) where the call does not give it."""
    if value.kwarg is not None:
        if value.kwarg in kwargs:
            return kwargs, value.kwarg
        position = names.index(value.kwarg) if value.kwarg in names else len(args)
        return (args, position) if position < len(args) else (None, None)
    if value.arg < len(args):
        return args, value.arg
    name = names[value.arg] if value.arg < len(names) else None
    return (kwargs, name) if name in kwargs else (None, None)


def prepare_input(state, path, module, value, names, args, kwargs, runs_locally):
    """Puts one input that a boundary names, where the call gives it, into its layout, in `args` or `kwargs`."""
    if state.model_mesh is None or value.source is None:
        return
    holder, key = _locate(value, names, args, kwargs)
    given = None if holder is None else holder[key]
    if not isinstance(given, torch.Tensor):
        return
    source, target = state.layouts[id(value)]
    given = _to_dtensor(state, path, given, source, module)
    given = redistributed(given, target, state.names[path], _sent_of(state, path, value, given))
    if runs_locally:
        # A whole input that local pieces of weights are multiplied with gets a part of its gradient on every rank.
        cut = {axis for tensor in own_tensors(state, module) for axis in slices.used_axes(tensor.spec)}
        partial = [
            Partial() if p.is_replicate() and axis in cut else p for p, axis in zip(given.placements, state.model_axes)
        ]
        given = given.to_local(grad_placements=partial)
    elif value.use_local:
        given = given.to_local()
    holder[key] = given


def _sent_of(state, path, value, given):
    """The types in which a value and its gradient are sent, as DTensor.redistribute takes them."""
    sent = state.sent[id(value)]
    if "forward_dtype" in sent and not given.is_floating_point():
        raise ValueError(
            f"{_name(path)}: a value is {given.dtype}, and would be sent in {sent['forward_dtype']}\n"
            "  = help: take `forward_dtype` from the rule, or put the rule on a module that is given no such value"
        )
    return sent


def _to_dtensor(state, path, given, placements, module=None):
    """A plain tensor as a DTensor of these placements on the model axes. Sizes that are cut are taken from the weight where
    it says them, and added up over the ranks otherwise: pieces may be uneven."""
    if isinstance(given, DTensor):
        return given
    given = given.contiguous()  # as the strides of the whole say
    placements = counted(placements, given.ndim, state.names[path])
    cuts = [(axis, p.dim) for axis, p in zip(state.model_axes, placements) if isinstance(p, Shard)]
    if not cuts:
        return from_local(given, state.model_mesh, placements, given.shape)
    shape = list(given.shape)
    for axis, dim in cuts:
        known = getattr(module, "in_features", None) if dim == given.ndim - 1 and len(cuts) == 1 else None
        if isinstance(known, int):
            shape[dim] = known
        else:
            total = torch.tensor(shape[dim], device=given.device)
            torch.distributed.all_reduce(total, group=state.mesh.get_group(axis))
            shape[dim] = int(total)
    spec = [tuple(axis for axis, cut in cuts if cut == dim) for dim in range(given.ndim)]
    mine = slices.local_shape(shape, spec, {}, state.manifest.mesh, state.coordinate)
    if mine != list(given.shape):
        raise ValueError(
            f"{_name(path)}: a value is said to be {placements} and this rank's piece is {list(given.shape)}, where a "
            f"tensor of {shape} has {mine}\n  = help: give it in that layout, or change the plan's layouts"
        )
    return from_local(given, state.model_mesh, placements, shape)


def prepare_output(state, path, value, result, fused, module):
    """The result of a module with the output that a boundary names in its layout. `fused` are its tensors with segments."""
    if state.model_mesh is None or value.source is None:
        return result
    if isinstance(result, torch.Tensor):
        if value.arg:
            raise ValueError(f"{_name(path)} has one output, and its boundary names output {value.arg}")
        return _prepare_value(state, path, value, result, fused, module)
    if not isinstance(result, (tuple, list)) or value.arg >= len(result):
        raise ValueError(
            f"{_name(path)} gives {type(result).__name__}, and its boundary is for output {value.arg}\n"
            "  = help: let the module return a tensor or a tuple, or put the rule on another module"
        )
    if not isinstance(result[value.arg], torch.Tensor):
        return result
    replaced = list(result)
    replaced[value.arg] = _prepare_value(state, path, value, result[value.arg], fused, module)
    return type(result)(*replaced) if hasattr(result, "_fields") else type(result)(replaced)


def _prepare_value(state, path, value, result, fused, module):
    source, target = state.layouts[id(value)]
    if not isinstance(result, DTensor) and fused:
        if source == target:
            return result
        if any(isinstance(p, Shard) for p in source):
            result = result.to(_sent_of(state, path, value, result).get("forward_dtype", result.dtype))
            result, source = (
                _gather_fused(state, path, result, fused, module),
                [Replicate() if isinstance(p, Shard) else p for p in source],
            )
    result = _to_dtensor(state, path, result, source)
    sent = _sent_of(state, path, value, result)
    if not value.use_local:
        return redistributed(result, target, state.names[path], sent)
    return left(result, target, state.names[path], type(module).forward in UNSAVED, sent)


def _gather_fused(state, path, result, fused, module):
    """The whole of an output whose last dim has the segments of a weight's out dim."""
    weight = next((t for t in fused if len(t.shape) == 2), None)
    if weight is None or not isinstance(module, nn.Linear) or not weight.spec[0]:
        raise ValueError(f"{_name(path)}: an output with segments is gathered for nn.Linear only")
    axes = [axis for axis in weight.spec[0] if axis in state.model_axes]
    for i in range(len(axes), 0, -1):
        step = step_of(cutting_of(state, weight), state.mesh, 0, axes[:i])
        step = replace(step, dim=result.ndim - 1, place=state.names[path])
        result = Gather.apply(result, step, False)
    return result


def has_open_sum(values):
    """Whether one of these outputs leaves its module as parts of a sum."""
    return any(text.startswith("Partial") for value in values for text in value.source or ())
