"""Applies a manifest to a torch model: `parallelize(model, manifest, device_mesh)`.

Parameters become DTensors on the whole mesh with the manifest's placements. The axes of the mesh are of two kinds. Over data
axes (those of `data`, and FSDP's) every rank computes with its own part of the batch, on tensors that know nothing of these
axes: a parameter that is cut over them is gathered where its module runs, and its gradient is summed back, once, as
`grad_reduce` says. Over the other axes, the model axes, modules with a boundary in the manifest compute with DTensors, and
their inputs and outputs go through from_local, redistribute and to_local as the boundary says, so that DTensor itself makes
the collectives and the sums of gradients. A module without a boundary computes with plain tensors, if it is given plain
tensors and holds its parameters whole, and with DTensors otherwise.

Gradients over data axes are sums over the ranks, not means: divide the loss by the size of the whole batch.

Sources of the rules: the manifest (lib/infer), torch 2.13 (torch/distributed/tensor/parallel/style.py), transformers 5.23
(distributed/tensor_parallel.py) for its styles of experts.
"""

import contextlib
import inspect
import math
import re
import threading
from dataclasses import dataclass, field

import torch
import torch.utils.checkpoint
from torch import nn

from . import slices
from .manifest import EXPORT_AGAIN, Manifest, ManifestError, Tensor, _shown, check_mesh, check_parameters, load_manifest

try:
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard
except ImportError:  # torch before 2.5, or built without distributed
    DTensor = None

# Styles whose modules compute with their own local pieces, as transformers runs them.
LOCAL_STYLES = ("moe_tp_experts", "local_params", "packed_colwise", "packed_rowwise", "all_reduce", "moe_identity_expert", "mla_kv_a_proj")
# Styles that dispatch tokens between ranks by code of the model, which is not here.
DISPATCH_STYLES = ("ep_dispatch_experts", "grouped_gemm")
# Styles that sum or divide over the axis of their rule, which a manifest says only where there is but one.
ONE_AXIS_STYLES = ("moe_identity_expert", "mla_kv_a_proj")
# What asks a tensor for facts, and needs no view of it.
METADATA = {"__get__", "__set__", "size", "dim", "numel", "stride", "is_floating_point", "is_complex", "__len__", "__hash__", "__repr__", "requires_grad_",
            "ndimension", "nelement", "element_size", "is_contiguous", "data_ptr", "register_hook"}

_running = threading.local()  # now: the thread is inside the forward of a parallelized model; viewing: inside _view


@dataclass
class Held:
    """A parameter or buffer that is spread: where it stands in the manifest, and the object that the modules hold."""

    tensor: Tensor
    value: torch.Tensor
    is_parameter: bool


@dataclass
class State:
    """What the modules of one parallelized model share."""

    manifest: Manifest
    mesh: object
    coordinate: dict  # axis -> this rank's index
    data_axes: tuple
    model_axes: tuple
    model_mesh: object  # None where there are no model axes
    by_id: dict = field(default_factory=dict)  # id of the object that the modules hold -> Held


@dataclass(frozen=True)
class Step:
    """One axis that cuts one dim of a tensor last: `before` are the lengths of the dim's runs without it, `pieces[i]` those
    that rank i of the axis holds."""

    dim: int
    group: object
    before: tuple
    pieces: tuple
    index: int


# The model.

def parallelize(model, manifest, device_mesh, *, shards=None, broadcast=True):
    """Spreads `model` over `device_mesh` as the manifest says, in place; returns the model.

    `manifest` is a path or what load_manifest gave, `device_mesh` a DeviceMesh with the names and sizes of its mesh. Values
    come from `shards` ({path: this rank's piece}, as load_safetensors gives them) where it has the path, and from the model of
    the mesh's first rank otherwise (`broadcast=False`: every rank takes its own, and they must be alike). A model on the meta
    device is made one module at a time: from `shards`, or by the module's reset_parameters.

    Raises ManifestError before anything is touched where the manifest contradicts itself or does not fit the model or mesh."""
    if DTensor is None:
        raise ManifestError("torch", f"torch {torch.__version__} has no DTensor (torch.distributed.tensor)", "install torch 2.5 or later, with distributed")
    if not isinstance(model, nn.Module):
        raise ManifestError("model", f"{type(model).__name__} is no nn.Module", "give the model itself")
    if hasattr(model, "_tpplan_state"):
        raise ManifestError("model", "is parallelized already", "make a new model")
    manifest = load_manifest(manifest)
    names = device_mesh.mesh_dim_names or [None] * device_mesh.ndim
    check_mesh(manifest, list(zip(names, device_mesh.shape)))
    parameters, buffers = _names_of(model)
    check_parameters(manifest, {path: _facts(p) for paths in parameters.values() for path, p in paths.items()},
                     [list(paths) for paths in parameters.values() if len(paths) > 1])
    _check_buffers(manifest, {path: b for paths in buffers.values() for path, b in paths.items()})
    state = _make_state(manifest, device_mesh)
    _check_boundaries(state, model)
    _check_values(state, model, parameters, buffers, shards or {})
    aliases = {key: list(paths) for key, paths in (*parameters.items(), *buffers.items())}
    replaced = {}
    for _, module in list(model.named_modules()):
        _spread_module(state, module, aliases, replaced, shards or {}, broadcast)
    _wrap_modules(state, model)
    model._tpplan_state = state
    return model


def _names_of(model):
    """{id: {path: tensor}} of the parameters and of the buffers, each under all its names."""
    parameters, buffers = {}, {}
    for table, named in ((parameters, model.named_parameters(remove_duplicate=False)), (buffers, model.named_buffers(remove_duplicate=False))):
        for path, tensor in named:
            table.setdefault(id(tensor), {})[path] = tensor
    return parameters, buffers


def _facts(tensor):
    if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
        return (), "nothing yet"
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def _check_buffers(manifest, buffers):
    for path, buffer in buffers.items():
        if path not in manifest.buffers:
            raise ManifestError(f"buffer `{_shown(path)}`", "is a buffer of the model that the manifest does not have", EXPORT_AGAIN)
        wanted = manifest.buffers[path]
        if _facts(buffer) != (wanted.shape, wanted.dtype):
            raise ManifestError(f"buffer `{_shown(path)}`", f"is {list(buffer.shape)} {_facts(buffer)[1]} in the model, and {list(wanted.shape)} "
                                f"{wanted.dtype} in the manifest", EXPORT_AGAIN)
    for path in manifest.buffers:
        if path not in buffers:
            raise ManifestError(f"buffer `{_shown(path)}`", "stands in the manifest, but the model has no such buffer", EXPORT_AGAIN)


def _make_state(manifest, mesh):
    used = set(manifest.data_axes) | ({manifest.fsdp_axis} if manifest.fsdp_axis else set())
    data = tuple(name for name, _ in manifest.mesh if name in used)
    model = tuple(name for name, _ in manifest.mesh if name not in used)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ManifestError("`mesh`", "this process is no part of the device mesh", "make the mesh over all processes that run the model")
    model_mesh = mesh if not data else mesh[model if len(model) > 1 else model[0]] if model else None
    return State(manifest, mesh, dict(zip(mesh.mesh_dim_names, coordinate)), data, model, model_mesh)


def _check_boundaries(state, model):
    """Refuses boundaries that this file cannot run, before anything is touched."""
    modules = dict(model.named_modules(remove_duplicate=False))
    data = {i for i, (name, _) in enumerate(state.manifest.mesh) if name in state.data_axes}
    for boundary in state.manifest.modules:
        where = f"module `{_shown(boundary.path)}`"
        if boundary.path not in modules:
            raise ManifestError(where, "stands in the manifest, but the model has no such module", EXPORT_AGAIN)
        if boundary.style in DISPATCH_STYLES:
            raise ManifestError(where, f"style {boundary.style} dispatches tokens by code of transformers", "load this model by transformers itself")
        if boundary.style in ONE_AXIS_STYLES and len(state.model_axes) != 1:
            raise ManifestError(where, f"style {boundary.style} needs a mesh with one axis beside the data axes", "name the others in `data`, or leave them out")
        for value in boundary.inputs + boundary.outputs:
            for source, target in [(value.source, value.target)] if value.source and value.target else []:
                if any(source[i] != target[i] for i in data):
                    raise ManifestError(where, "its boundary moves values along a data axis", "let the rule name an axis that is neither in `data` nor fsdp's")
        for text in {t for v in boundary.inputs + boundary.outputs for layout in (v.source, v.target) if layout for t in layout}:
            if re.fullmatch(r"Replicate|Shard\((-?\d+)\)|Partial\((sum|avg|max|min)\)", text) is None:
                raise ManifestError(where, f"unknown layout `{_shown(text)}`", "compile the plan again")
        if boundary.style == "mla_kv_a_proj" and _rope_size(model) is None:
            raise ManifestError(where, "style mla_kv_a_proj needs the model's config.qk_rope_head_dim", "give the model that attribute")
        fused = _fused_tensors(state, boundary.path, modules[boundary.path])
        if fused and any(not v.use_local and v.target == v.source and v.target for v in boundary.outputs):
            raise ManifestError(where, f"its output has the segments of `{_shown(fused[0].path)}`, and cannot leave as a DTensor",
                                "write `use_local_output: true`, or gather it with `output_layouts: Replicate`")
    for path in state.manifest.remat:
        if path not in modules:
            raise ManifestError(f"module `{_shown(path)}`", "is in `remat`, but the model has no such module", EXPORT_AGAIN)


def _check_values(state, model, parameters, buffers, shards):
    """Each value has a source, and shards have the shapes that the manifest says."""
    known = {**state.manifest.parameters, **state.manifest.buffers}
    for path, shard in shards.items():
        if path not in known:
            raise ManifestError(f"parameter `{_shown(path)}`", "stands in `shards`, but not in the manifest", "load the shards with this manifest")
        shape = _local_shape(state, known[path])
        if list(shard.shape) != shape or _facts(shard)[1] != known[path].dtype:
            raise ManifestError(f"parameter `{_shown(path)}`", f"its shard is {list(shard.shape)} {_facts(shard)[1]}, and this rank holds {shape} "
                                f"{known[path].dtype}", "load the shards of this rank with this manifest")
    modules = dict(model.named_modules(remove_duplicate=False))
    for table, kind in ((parameters, "parameter"), (buffers, "buffer")):
        for paths in table.values():
            tensor = next(iter(paths.values()))
            if not tensor.is_meta or any(path in shards for path in paths):
                continue
            owners = [modules[path.rpartition(".")[0]] for path in paths]
            if not any(callable(getattr(owner, "reset_parameters", None)) for owner in owners):
                raise ManifestError(f"{kind} `{_shown(next(iter(paths)))}`", "is on the meta device, and its module has no reset_parameters",
                                    "give its value in `shards`, or build that module on a real device")


def _local_shape(state, tensor):
    return slices.local_shape(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)


def _spread_module(state, module, aliases, replaced, shards, broadcast):
    """Replaces the module's own parameters and buffers. `aliases` has the paths of each by the id of the whole tensor;
    `replaced` maps that id to (whole, spread), for the other names of a tensor."""
    own = [(table, name, value) for table in (module._parameters, module._buffers) for name, value in table.items() if value is not None]
    given = {id(value): next((p for p in aliases[id(value)] if p in shards), None) for _, _, value in own if id(value) not in replaced}
    fresh = {name for _, name, value in own if id(value) in given and value.is_meta and given[id(value)] is None}
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
                    local = pick(_from_first_rank(state, whole) if broadcast else whole, tensor, state)
            spread = _spread(state, local, tensor)
            if table is module._parameters:
                spread = nn.Parameter(spread, requires_grad=value.requires_grad)
            state.by_id[id(spread)] = Held(tensor, spread, table is module._parameters)
            replaced[id(value)] = value, spread
        # By setattr, for modules that keep lists of their parameters (nn.LSTM).
        setattr(module, name, replaced[id(value)][1])


def _materialise(state, module, names):
    """Gives these own tensors of a module memory, and values by its reset_parameters."""
    for table in (module._parameters, module._buffers):
        for name, value in table.items():
            if value is None or name not in names or not value.is_meta:
                continue
            empty = torch.empty_like(value, device=state.mesh.device_type)
            table[name] = nn.Parameter(empty, value.requires_grad) if table is module._parameters else empty
    with torch.no_grad():
        module.reset_parameters()


def _from_first_rank(state, whole):
    """The tensor as the first rank of the mesh holds it: axis by axis, major first."""
    whole = whole.clone(memory_format=torch.contiguous_format)
    for axis, size in reversed(state.manifest.mesh):
        if size > 1:
            group = state.mesh.get_group(axis)
            torch.distributed.broadcast(whole, torch.distributed.get_global_rank(group, 0), group=group)
    return whole


def pick(whole, tensor, state):
    """This rank's piece of a whole tensor, in memory of its own."""
    runs = slices.shard_slice(tensor.shape, tensor.spec, tensor.segments, state.manifest.mesh, state.coordinate)
    for dim, parts in enumerate(runs):
        if sum(end - begin for begin, end in parts) != whole.shape[dim]:
            whole = torch.cat([whole.narrow(dim, begin, end - begin) for begin, end in parts], dim)
    return whole.clone(memory_format=torch.contiguous_format)


def _spread(state, local, tensor):
    """A piece as a DTensor of the manifest's placements; as it is, where torch has no word for its sharding."""
    if tensor.placements is None:
        return local
    return DTensor.from_local(local, state.mesh, [_placement(text) for text in tensor.placements], run_check=False,
                              shape=torch.Size(tensor.shape), stride=_strides(tensor.shape))


def _strides(shape):
    strides, product = [], 1
    for size in reversed(shape):
        strides.append(product)
        product *= max(size, 1)
    return tuple(reversed(strides))


def _join(path, name):
    return f"{path}.{name}" if path else name


def _placement(text):
    """torch's placement of a manifest's text."""
    name, _, arguments = text.partition("(")
    numbers = [int(n) for n in re.findall(r"-?\d+", arguments)]
    if name == "Shard":
        return Shard(numbers[0])
    if name == "StridedShard":
        return _StridedShard(numbers[0], split_factor=numbers[1])
    return Replicate() if name == "Replicate" else Partial(arguments.rstrip(")"))


# Communication: the pieces of one dim along one axis. All of them are exact for uneven pieces and for segments.

def _step(state, tensor, dim, axes):
    """The cut of dim `dim` by the last of `axes`, after the others."""
    sizes, axis = dict(state.manifest.mesh), axes[-1]
    runs = [slices.cut(run, axes[:-1], state.manifest.mesh, state.coordinate)
            for run in slices.segment_runs(tensor.shape[dim], tensor.segments.get(dim))]
    pieces = tuple(tuple(e - b for b, e in (slices.chunk(*run, sizes[axis], i) for run in runs)) for i in range(sizes[axis]))
    return Step(dim, state.mesh.get_group(axis), tuple(e - b for b, e in runs), pieces, state.coordinate[axis])


def _pieces_of(whole, step):
    """The pieces of all ranks of the axis, cut out of a tensor that has the dim's runs whole."""
    runs = torch.split(whole, list(step.before), step.dim)
    parts = [torch.split(run, [piece[i] for piece in step.pieces], step.dim) for i, run in enumerate(runs)]
    return [torch.cat([part[rank] for part in parts], step.dim) if len(parts) > 1 else parts[0][rank] for rank in range(len(step.pieces))]


def _padded(tensor, step, length):
    """The tensor with the dim in front, and zeros behind it up to `length`."""
    moved = tensor.movedim(step.dim, 0)
    if moved.shape[0] == length:
        return moved.contiguous()
    padded = moved.new_zeros((length, *moved.shape[1:]))
    padded[:moved.shape[0]] = moved
    return padded


def _all_gather(local, step):
    length = max(sum(piece) for piece in step.pieces)
    mine = _padded(local, step, length)
    gathered = [torch.empty_like(mine) for _ in step.pieces]
    torch.distributed.all_gather(gathered, mine, group=step.group)
    parts = [torch.split(g[:sum(piece)].movedim(0, step.dim), list(piece), step.dim) for g, piece in zip(gathered, step.pieces)]
    return torch.cat([part[i] for i in range(len(step.before)) for part in parts], step.dim).contiguous()


def _reduce_scatter(whole, step):
    length = max(sum(piece) for piece in step.pieces)
    stacked = torch.cat([_padded(piece, step, length) for piece in _pieces_of(whole, step)])
    mine = stacked.new_empty((length, *stacked.shape[1:]))
    scatter = getattr(torch.distributed, "reduce_scatter_single", None) or torch.distributed.reduce_scatter_tensor
    scatter(mine, stacked, group=step.group)
    return mine[:sum(step.pieces[step.index])].movedim(0, step.dim).contiguous()


class _Gather(torch.autograd.Function):
    """Whole along one axis; the gradient is summed and cut (`sums`), or is the same on all ranks and only cut."""

    @staticmethod
    def forward(ctx, local, step, sums):
        ctx.step, ctx.sums = step, sums
        return _all_gather(local, step)

    @staticmethod
    def backward(ctx, gradient):
        piece = _reduce_scatter(gradient, ctx.step) if ctx.sums else _pieces_of(gradient, ctx.step)[ctx.step.index].contiguous()
        return piece, None, None


class _Cut(torch.autograd.Function):
    """This rank's piece along one axis; the gradients of the pieces are put together."""

    @staticmethod
    def forward(ctx, whole, step):
        ctx.step = step
        return _pieces_of(whole, step)[step.index].clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx, gradient):
        return _all_gather(gradient, ctx.step), None


class _SumGradient(torch.autograd.Function):
    """The same value; its gradient is summed over the ranks of an axis."""

    @staticmethod
    def forward(ctx, value, group):
        ctx.group = group
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(gradient, group=ctx.group)
        return gradient, None


def _without_data_axes(state, local, tensor):
    """The piece as the model axes alone cut it, gathered over the data axes; the gradient is summed over them."""
    for dim, axes in enumerate(tensor.spec):
        kept, held = [axis for axis in axes if axis not in state.data_axes], list(axes)
        while any(axis in state.data_axes for axis in held):
            local = _Gather.apply(local, _step(state, tensor, dim, held), held[-1] in state.data_axes)
            held.pop()
        for i in range(len(held), len(kept)):
            local = _Cut.apply(local, _step(state, tensor, dim, kept[:i + 1]))
    used = {axis for axes in tensor.spec for axis in axes}
    for axis, _ in tensor.grad_reduce:
        if axis in state.data_axes and axis not in used and torch.is_grad_enabled():
            local = _SumGradient.apply(local, state.mesh.get_group(axis))
    return local


def full_tensor(model, path, gradient=False):
    """The whole of a spread parameter or buffer (or of its gradient; None where it has none), on every rank. Every rank must
    call it. Unlike DTensor.full_tensor it is right for segments, too."""
    state = model._tpplan_state
    held = _held_of(state, model, path)
    value = held.value.grad if gradient else held.value
    if value is None:
        return None
    with torch.no_grad():
        local = value.to_local() if isinstance(value, DTensor) else value
        for dim, axes in enumerate(held.tensor.spec):
            for i in range(len(axes), 0, -1):
                local = _all_gather(local, _step(state, held.tensor, dim, list(axes[:i])))
    return local


def _held_of(state, model, path):
    owner, _, name = path.rpartition(".")
    module = model.get_submodule(owner)
    return state.by_id[id(module._parameters[name] if name in module._parameters else module._buffers[name])]


# Modules.

def _wrap_modules(state, model):
    """Gives every module that has a boundary or holds something a forward that prepares and restores; once per module."""
    modules = dict(model.named_modules(remove_duplicate=False))
    boundaries = {}
    for boundary in state.manifest.modules:
        boundaries.setdefault(id(modules[boundary.path]), []).append(boundary)
    rope = _rope_size(model)
    for path, module in model.named_modules():
        own = boundaries.get(id(module), [])
        holds = any(v is not None for v in (*module._parameters.values(), *module._buffers.values()))
        if own or holds or path in state.manifest.remat or module is model:
            _wrap(state, path, module, own, rope, path in state.manifest.remat)
        if holds:
            module.register_load_state_dict_pre_hook(_spread_loaded(state))
    return model


def _rope_size(model):
    config = getattr(model, "config", None)
    if callable(getattr(config, "get_text_config", None)):
        config = config.get_text_config()
    return getattr(config, "qk_rope_head_dim", None)


def _spread_loaded(state):
    """load_state_dict takes whole tensors: they are cut as what they are copied into."""
    def hook(module, state_dict, prefix, *_):
        for name, value in (*module._parameters.items(), *module._buffers.items()):
            held, key = state.by_id.get(id(value)), prefix + name
            loaded = state_dict.get(key)
            if held is None or not isinstance(loaded, torch.Tensor) or isinstance(loaded, DTensor) or tuple(loaded.shape) != held.tensor.shape:
                continue
            piece = pick(loaded.detach().to(state.mesh.device_type), held.tensor, state)
            if isinstance(value, DTensor):
                piece = DTensor.from_local(piece, state.mesh, value.placements, run_check=False, shape=value.shape, stride=value.stride())
            state_dict[key] = piece
    return hook


def _wrap(state, path, module, boundaries, rope, remat):
    original = module.forward
    names = _argument_names(original)
    fused = _fused_tensors(state, path, module)
    styles = {boundary.style for boundary in boundaries}
    runs_locally = bool(fused) or not styles.isdisjoint(LOCAL_STYLES)
    inputs = [value for boundary in boundaries for value in boundary.inputs]
    outputs = [(boundary, value) for boundary in boundaries for value in boundary.outputs]

    def run(*args, **kwargs):
        with _mixing(state):
            args, kwargs = list(args), dict(kwargs)
            for value in inputs:
                _prepare_input(state, path, module, value, names, args, kwargs, runs_locally)
            if "moe_identity_expert" in styles:
                args[0] = args[0] / math.prod(state.model_mesh.shape)
            plain, spread_here = _how(state, module, runs_locally, args, kwargs)
            if spread_here:
                args, kwargs = _map((args, kwargs), lambda t: ensure_dtensor(t, state.model_mesh))
            late_bias = runs_locally and isinstance(module, nn.Linear) and module.bias is not None and _has_open_sum(outputs)
            bias = _view(state, module.bias, plain=True) if late_bias else None
            with _views(state, module, plain, hide=("bias",) if late_bias else ()):
                result = original(*args, **kwargs)
            if "mla_kv_a_proj" in styles:
                result = _sum_rope_gradient(state, result, rope)
            for _, value in outputs:
                result = _prepare_output(state, path, value, result, fused, module)
            if late_bias:
                result = result + (ensure_dtensor(bias, state.model_mesh) if isinstance(result, DTensor) else bias)
            if spread_here and not outputs:
                result = _map(result, lambda t: _gathered(t) if isinstance(t, DTensor) else t)
            return result

    def rematerialised(*args, **kwargs):
        if not torch.is_grad_enabled():
            return run(*args, **kwargs)
        return torch.utils.checkpoint.checkpoint(run, *args, use_reentrant=False, **kwargs)

    module.forward = rematerialised if remat else run
    module.__deepcopy__ = _refuse_copy


def _refuse_copy(memo):
    raise ManifestError("model", "is parallelized, and a copy would still run the first one", "copy the model before, or parallelize another one")


def _argument_names(function):
    try:
        return [name for name, p in inspect.signature(function).parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        return []


def _fused_tensors(state, path, module):
    """The module's own parameters whose segments the model axes cut: DTensor has no rules for them."""
    known = state.manifest.parameters
    own = [known[_join(path, name)] for name, value in module._parameters.items() if value is not None and _join(path, name) in known]
    return [tensor for tensor in own if _is_fused(state, tensor)]


def _is_fused(state, tensor):
    return any(len(tensor.segments.get(dim) or ()) > 1 and any(axis in state.model_axes for axis in axes) for dim, axes in enumerate(tensor.spec))


def _is_cut(state, tensor):
    return any(axis in state.model_axes for axes in tensor.spec for axis in axes)


def _map(tree, function):
    """The tree with its tensors replaced."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, function, tree)


def _tensors(*trees):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(trees) if isinstance(leaf, torch.Tensor)]


def _how(state, module, runs_locally, args, kwargs):
    """(whether the module computes with plain tensors, whether its plain inputs must become DTensors first)."""
    own = [state.by_id[id(p)].tensor for p in module._parameters.values() if id(p) in state.by_id]
    if state.model_mesh is None or runs_locally or not own:
        return True, False
    if any(isinstance(t, DTensor) for t in _tensors(args, kwargs)):
        return False, False
    cut = any(_is_cut(state, tensor) for tensor in own)
    return not cut, cut


def _view(state, value, plain):
    """What a module computes with: a spread parameter or buffer, gathered over the data axes; a plain tensor, or a DTensor
    on the model axes."""
    before, _running.viewing = getattr(_running, "viewing", False), True
    try:
        return _make_view(state, value, plain)
    finally:
        _running.viewing = before


def _make_view(state, value, plain):
    held = state.by_id.get(id(value))
    if held is None:
        return value
    local = value.to_local() if isinstance(value, DTensor) else value.view_as(value)  # another object than the spread one
    if not held.is_parameter:
        return local
    tensor = held.tensor
    local = _without_data_axes(state, local, tensor)
    if plain or state.model_mesh is None:
        used = {axis for axes in tensor.spec for axis in axes}
        sums = [axis for axis, _ in tensor.grad_reduce if axis in state.model_axes and axis not in used] if tensor.style != "mla_kv_a_proj" else []
        for axis in sums if torch.is_grad_enabled() else ():
            local = _SumGradient.apply(local, state.mesh.get_group(axis))
        return local
    if _is_fused(state, tensor):
        raise ValueError(f"parameter `{_shown(tensor.path)}` is cut segment by segment, and is used where DTensors are\n"
                         "  = help: use it in the forward of its own module only")
    spec = [tuple(axis for axis in axes if axis in state.model_axes) for axes in tensor.spec]
    mesh = [(name, size) for name, size in state.manifest.mesh if name in state.model_axes]
    placements = [_placement(text) for text in slices.placements_of(spec, {}, mesh)]
    return DTensor.from_local(local, state.model_mesh, placements, run_check=False, shape=torch.Size(tensor.shape), stride=_strides(tensor.shape))


@contextlib.contextmanager
def _views(state, module, plain, hide=()):
    """The module's own parameters and buffers as views, for the time of its forward. What it assigns to a buffer stays."""
    parameters = {name: p for name, p in module._parameters.items() if p is not None}
    buffers = {name: b for name, b in module._buffers.items() if isinstance(b, DTensor)}
    for name, value in (*parameters.items(), *buffers.items()):
        if id(value) not in state.by_id:
            raise ValueError(f"`{_shown(name)}` of a {type(module).__name__} was replaced after the model was parallelized\n"
                             "  = help: convert and change the model (.to(), .half(), new parameters) before")
    shown = {name: _view(state, b, plain) for name, b in buffers.items()}
    before = {name: module.__dict__[name] for name in parameters if name in module.__dict__}
    for name, parameter in parameters.items():
        module.__dict__[name] = None if name in hide else _view(state, parameter, plain)
    module._buffers.update(shown)
    try:
        yield
    finally:
        for name in parameters:
            module.__dict__.pop(name, None)
        module.__dict__.update(before)
        for name, buffer in buffers.items():
            assigned = module._buffers.get(name)
            module._buffers[name] = buffer if assigned is shown[name] else _spread_buffer(state, buffer, assigned)


def _spread_buffer(state, old, assigned):
    """A buffer that its module replaced, spread as the one before."""
    if assigned is None:
        return None
    local = assigned.to_local() if isinstance(assigned, DTensor) else assigned
    held = state.by_id.pop(id(old))
    value = DTensor.from_local(local, state.mesh, [Replicate()] * state.mesh.ndim, run_check=False)
    state.by_id[id(value)] = Held(held.tensor, value, False)
    return value


# Boundaries.

def _model_layout(state, layout):
    """A layout of the manifest on the model axes, as torch's placements."""
    return [_placement(text) for text, (name, _) in zip(layout, state.manifest.mesh) if name in state.model_axes]


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


def _prepare_input(state, path, module, value, names, args, kwargs, runs_locally):
    if state.model_mesh is None or value.source is None:
        return
    holder, key = _locate(value, names, args, kwargs)
    given = None if holder is None else holder[key]
    if not isinstance(given, torch.Tensor):
        return
    source, target = _model_layout(state, value.source), _model_layout(state, value.target or value.source)
    given = _to_dtensor(state, path, given, source, module)
    if list(given.placements) != _counted(target, given.ndim):
        given = given.redistribute(placements=_counted(target, given.ndim))
    if runs_locally:
        # A whole input that local pieces of weights are multiplied with gets a part of its gradient on every rank.
        cut = {a for p in module._parameters.values() if id(p) in state.by_id for axes in state.by_id[id(p)].tensor.spec for a in axes}
        partial = [Partial() if p.is_replicate() and axis in cut else p for p, axis in zip(given.placements, state.model_axes)]
        given = given.to_local(grad_placements=partial)
    elif value.use_local:
        given = given.to_local()
    holder[key] = given


def _counted(placements, ndim):
    """Placements with dims counted from the front."""
    return [Shard(p.dim % ndim) if isinstance(p, Shard) else p for p in placements]


def _to_dtensor(state, path, given, placements, module=None):
    """A plain tensor as a DTensor of these placements on the model axes. Sizes that are cut are taken from the weight where
    it says them, and added up over the ranks otherwise: pieces may be uneven."""
    if isinstance(given, DTensor):
        return given
    placements = _counted(placements, given.ndim)
    shape = list(given.shape)
    for i, placement in enumerate(placements):
        if not isinstance(placement, Shard):
            continue
        axis, dim = state.model_axes[i], placement.dim
        known = getattr(module, "in_features", None) if dim == given.ndim - 1 and sum(isinstance(p, Shard) for p in placements) == 1 else None
        if isinstance(known, int) and dim == given.ndim - 1:
            shape[dim] = known
        else:
            total = torch.tensor(shape[dim], device=given.device)
            torch.distributed.all_reduce(total, group=state.mesh.get_group(axis))
            shape[dim] = int(total)
    mine = slices.local_shape(shape, [tuple(state.model_axes[i] for i, p in enumerate(placements) if isinstance(p, Shard) and p.dim == d)
                                      for d in range(given.ndim)], {}, state.manifest.mesh, state.coordinate)
    if mine != list(given.shape):
        raise ValueError(f"module `{_shown(path)}`: a value is said to be {placements} and this rank's piece is {list(given.shape)}, where a tensor of "
                         f"{shape} has {mine}\n  = help: give it in that layout, or change the plan's layouts")
    return DTensor.from_local(given, state.model_mesh, placements, run_check=False, shape=torch.Size(shape), stride=_strides(shape))


def _prepare_output(state, path, value, result, fused, module):
    if state.model_mesh is None or value.source is None:
        return result
    if isinstance(result, torch.Tensor):
        if value.arg:
            raise ValueError(f"module `{_shown(path)}` has one output, and its boundary names output {value.arg}")
        return _prepare_value(state, path, value, result, fused, module)
    if not isinstance(result, (tuple, list)) or value.arg >= len(result):
        raise ValueError(f"module `{_shown(path)}` gives {type(result).__name__}, and its boundary is for output {value.arg}\n"
                         "  = help: let the module return a tensor or a tuple, or put the rule on another module")
    if not isinstance(result[value.arg], torch.Tensor):
        return result
    replaced = list(result)
    replaced[value.arg] = _prepare_value(state, path, value, result[value.arg], fused, module)
    return type(result)(*replaced) if hasattr(result, "_fields") else type(result)(replaced)


def _prepare_value(state, path, value, result, fused, module):
    source, target = _model_layout(state, value.source), _model_layout(state, value.target or value.source)
    if not isinstance(result, DTensor) and fused:
        if source == target:
            return result
        if any(isinstance(p, Shard) for p in source):
            result, source = _gather_fused(state, path, result, fused, module), [Replicate() if isinstance(p, Shard) else p for p in source]
    if not isinstance(result, DTensor):
        result = _to_dtensor(state, path, result, source)
    target = _counted(target, result.ndim)
    if list(result.placements) != target:
        result = result.redistribute(placements=target)
    return result.to_local() if value.use_local else result


def _gather_fused(state, path, result, fused, module):
    """The whole of an output whose last dim has the segments of a weight's out dim."""
    weight = next((t for t in fused if len(t.shape) == 2), None)
    if weight is None or not isinstance(module, nn.Linear) or not weight.spec[0]:
        raise ValueError(f"module `{_shown(path)}`: an output with segments is gathered for nn.Linear only")
    axes = [axis for axis in weight.spec[0] if axis in state.model_axes]
    for i in range(len(axes), 0, -1):
        step = _step(state, weight, 0, axes[:i])
        result = _Gather.apply(result, Step(result.ndim - 1, step.group, step.before, step.pieces, step.index), False)
    return result


def _has_open_sum(outputs):
    return any(text.startswith("Partial") for _, value in outputs if value.source for text in value.source)


def _sum_rope_gradient(state, result, size):
    """mla_kv_a_proj: the rope columns go past the column-sharded projection, which sums the gradient of the others."""
    passed, rope = result.split([result.shape[-1] - size, size], -1)
    for axis in state.model_axes:
        rope = _SumGradient.apply(rope, state.mesh.get_group(axis))
    return torch.cat([passed, rope], -1)


def _gathered(tensor):
    return tensor.redistribute(placements=[Replicate()] * tensor.device_mesh.ndim).to_local()


# Plain tensors that meet DTensors.

def ensure_dtensor(tensor, device_mesh, placements=None):
    """A plain tensor as a DTensor (Replicate without `placements`); a DTensor, and what is no tensor, as it is."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, DTensor):
        return tensor
    return DTensor.from_local(tensor, device_mesh, placements or [Replicate()] * device_mesh.ndim, run_check=False)


class _Mixing(torch.overrides.TorchFunctionMode):
    """Plain tensors that meet DTensors in one operation become replicated DTensors; parameters of a parallelized model that
    are used outside their module are seen as their views."""

    def __init__(self, state=None):
        super().__init__()
        self.state = state

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(_running, "viewing", False):
            return function(*args, **kwargs)
        if not self.concerns(args) and not self.concerns(kwargs.values()):
            return function(*args, **kwargs)
        if getattr(function, "__name__", "") in METADATA:
            return function(*args, **kwargs)
        if self.state is not None:
            args, kwargs = self.see(args, kwargs)
        mesh = next((t.device_mesh for t in _tensors(args, kwargs) if isinstance(t, DTensor)), None)
        if mesh is not None:
            args, kwargs = _map((args, kwargs), lambda t: ensure_dtensor(t, mesh))
        return function(*args, **kwargs)

    def concerns(self, values):
        """Whether a DTensor or a spread parameter is among the values, or in a list among them. (DTensor keeps out of `types`.)"""
        known = self.state.by_id if self.state is not None else ()
        return any(isinstance(v, DTensor) or id(v) in known or (isinstance(v, (list, tuple)) and self.concerns(v)) for v in values)

    def see(self, args, kwargs):
        """The arguments with spread parameters replaced by views: plain where all of them are whole on the model axes and
        no other DTensor is about."""
        state = self.state
        spread = [t for t in _tensors(args, kwargs) if id(t) in state.by_id]
        if not spread:
            return args, kwargs
        others = any(isinstance(t, DTensor) and id(t) not in state.by_id for t in _tensors(args, kwargs))
        plain = not others and not any(_is_cut(state, state.by_id[id(t)].tensor) for t in spread)
        return _map((args, kwargs), lambda t: _view(state, t, plain) if id(t) in state.by_id else t)


@contextlib.contextmanager
def mixed():
    """Inside, operations of a DTensor with plain tensors work: the plain ones count as whole on every rank. Parameters keep
    their placements under operations in place."""
    with _Mixing():
        yield


@contextlib.contextmanager
def _mixing(state):
    """The same for the forward of a parallelized model; entered once, whichever module runs first."""
    if getattr(_running, "now", False):
        yield
        return
    _running.now = True
    try:
        with _Mixing(state):
            yield
    finally:
        _running.now = False
