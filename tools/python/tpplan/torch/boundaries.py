"""Boundaries of modules: redistributes inputs and outputs to the manifest's layouts, with DTensor over the model
axes."""

from dataclasses import replace

import torch
from torch import nn

from .. import slices
from ..files import printable
from .communication import Gather, step_of
from .placements import DTensor, Partial, Replicate, Shard, counted, from_local, left, placement, redistributed
from .state import cutting_of, own_tensors

# The backward of these forwards does not read their output, so the output may be changed in place.
UNSAVED = (nn.Linear.forward, nn.Embedding.forward)


def _name(path):
    return f"module `{printable(path)}`" if path else "the model itself"


def read_layouts(state):
    """Fills state.names, state.layouts and state.sent: each module's printed name, and each boundary value's source
    and target placements and communication dtypes. Runs once, so that calls only look them up."""
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
    """Returns (container, key) of the argument that a boundary names; (None, None) if the call does not pass it."""
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
    """Redistributes the input that a boundary names to its target layout, in `args` or `kwargs`. Does nothing if the
    call does not pass it or it is no tensor."""
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
        # A replicated input that is multiplied with a weight shard has a partial gradient on every rank of that axis.
        cut = {axis for tensor in own_tensors(state, module) for axis in slices.used_axes(tensor.spec)}
        partial = [
            Partial() if p.is_replicate() and axis in cut else p for p, axis in zip(given.placements, state.model_axes)
        ]
        given = given.to_local(grad_placements=partial)
    elif value.use_local:
        given = given.to_local()
    holder[key] = given


def _sent_of(state, path, value, given):
    """Returns the forward and backward dtypes of a value, as keyword arguments of DTensor.redistribute. Raises
    ValueError if `forward_dtype` is set and the value is not floating point."""
    sent = state.sent[id(value)]
    if "forward_dtype" in sent and not given.is_floating_point():
        raise ValueError(
            f"{_name(path)}: a value is {given.dtype}, but `forward_dtype` would convert it to "
            f"{sent['forward_dtype']}\n"
            "  = help: remove `forward_dtype` from the rule, or move the rule to a module without such a value"
        )
    return sent


def _to_dtensor(state, path, given, placements, module=None):
    """Returns a plain tensor as a DTensor with these placements on the model axes; a DTensor is returned unchanged.

    Shards may be uneven, so the global size of a sharded dim is the all-reduced sum of the local sizes. A last dim
    that is sharded over one axis has the size `in_features` of the module, if any. Raises ValueError if the local
    shape does not fit the placements.
    """
    if isinstance(given, DTensor):
        return given
    given = given.contiguous()  # DTensor has the strides of a contiguous global tensor
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
            f"{_name(path)}: the rule declares {placements} for a value, but this rank's shard is "
            f"{list(given.shape)}; for a tensor of {shape} it would be {mine}\n"
            "  = help: pass the value in that layout, or change the layouts in the plan"
        )
    return from_local(given, state.model_mesh, placements, shape)


def prepare_output(state, path, value, result, fused, module):
    """Returns the module's result with the output that a boundary names redistributed to its target layout. `fused`
    lists the module's sharded tensors with segments. Raises ValueError if the result has no such output."""
    if state.model_mesh is None or value.source is None:
        return result
    if isinstance(result, torch.Tensor):
        if value.arg:
            raise ValueError(f"{_name(path)} has one output, but its boundary names output {value.arg}")
        return _prepare_value(state, path, value, result, fused, module)
    if not isinstance(result, (tuple, list)) or value.arg >= len(result):
        raise ValueError(
            f"{_name(path)} returns {type(result).__name__}, but its boundary names output {value.arg}\n"
            "  = help: return a tensor or a tuple from the module, or move the rule to another module"
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
    """Returns the all-gathered output of an nn.Linear whose last dim is sharded per segment, as dim 0 of its weight
    is."""
    weight = next((t for t in fused if len(t.shape) == 2), None)
    if weight is None or not isinstance(module, nn.Linear) or not weight.spec[0]:
        raise ValueError(f"{_name(path)}: tpplan.torch gathers an output with segments only for nn.Linear")
    axes = [axis for axis in weight.spec[0] if axis in state.model_axes]
    for i in range(len(axes), 0, -1):
        step = step_of(cutting_of(state, weight), state.mesh, 0, axes[:i])
        step = replace(step, dim=result.ndim - 1, place=state.names[path])
        result = Gather.apply(result, step, False)
    return result


def has_open_sum(values):
    """Returns True if one of these values has a Partial source placement."""
    return any(text.startswith("Partial") for value in values for text in value.source or ())
