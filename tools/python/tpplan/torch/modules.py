"""The modules of a parallelized model: each gets a forward that prepares its inputs, gathers its parameters and
prepares its outputs."""

import contextlib
import functools
import inspect

import torch
import torch.utils.checkpoint
from torch import nn

from ..files import printable
from ..manifest import ManifestError
from .boundaries import has_open_sum, prepare_input, prepare_output, read_layouts
from .dispatch import dealt_out
from .mixing import has_dtensor, is_running, map_tensors, mixed_in
from .pieces import Pieces
from .placements import DTensor, ensure_dtensor, gathered
from .plain_linear import bias_of, give, plain_linear, take
from .state import fused_tensors, is_cut, own_tensors
from .styles import has_property, rope_size, run_steps, steps_of
from .units import units_gathered, units_of
from .values import spread_loaded
from .views import view, views, way_of


def wrap_modules(state, model, units):
    """Wraps the forward of every module that has a boundary, parameters, buffers or FSDP units, or is under remat.
    Each module is wrapped once. `units` enables the FSDP units of units.py."""
    modules = dict(model.named_modules(remove_duplicate=False))
    boundaries = {
        id(modules[boundary.path]): boundary for boundary in state.manifest.modules
    }  # check_modules: the same under all paths of a module
    remat = {id(modules[path]) for path in state.manifest.remat}
    rope = rope_size(model)
    asks_for_dtensors = any(value.use_local is False for b in state.manifest.modules for value in b.outputs)
    read_layouts(state)
    for held in state.by_id.values():
        held.way = way_of(state, held.tensor) if held.is_parameter else None
    units = units_of(state) if units else {}
    for path, module in model.named_modules():
        own = boundaries.get(id(module))
        holds = any(v is not None for v in (*module._parameters.values(), *module._buffers.values()))
        gathers = units.get(path, ())
        if own or holds or gathers or id(module) in remat or module is model:
            ends_plain = module is model and not asks_for_dtensors
            _wrap(state, path, module, own, rope, id(module) in remat, ends_plain, gathers)
        if holds:
            module.register_load_state_dict_pre_hook(spread_loaded(state))


def _wrap(state, path, module, boundary, rope, remat, ends_plain, units):
    original = module.forward
    names = _argument_names(original)
    fused = fused_tensors(state, path, module)
    style, inputs, outputs = (boundary.style, boundary.inputs, boundary.outputs) if boundary else (None, (), ())
    plain_way = plain_linear(state, module, original, boundary)
    input_steps, output_steps = steps_of(style, "input"), steps_of(style, "output")
    runs_locally = bool(fused) or has_property(style, "runs_locally") or plain_way is not None
    adds_open_bias = runs_locally and getattr(module, "bias", None) is not None and has_open_sum(outputs)
    adds_open_bias = adds_open_bias and isinstance(module, nn.Linear)
    late_bias = adds_open_bias and plain_way is None
    own = [] if state.model_mesh is None or runs_locally else own_tensors(state, module)
    is_spread = any(is_cut(state, tensor) for tensor in own)
    if has_property(style, "dispatches_experts"):
        original = dealt_out(state, path, module, original, names)

    gathering = units_gathered if units or (module is state.model and state.manifest.fsdp_axis) else _as_before
    # A module that only holds parameters needs no wrapper if its unit has gathered them (units.py).
    asks_more = state.model_mesh is not None or boundary or units or module is state.model
    asks_more = asks_more or any(b is not None for b in module._buffers.values())
    holds = frozenset(name for name, value in module._parameters.items() if value is not None)

    def run(*args, **kwargs):
        if not is_running():
            with mixed_in(state), noted(state):
                return run_within(*args, **kwargs)
        if not asks_more and holds <= module.__dict__.keys():
            return original(*args, **kwargs)
        return run_within(*args, **kwargs)

    def run_within(*args, **kwargs):
        with gathering(state, units, module is state.model):
            args, kwargs = list(args), dict(kwargs)
            for value in () if plain_way and take(plain_way, args, kwargs) else inputs:
                prepare_input(state, path, module, value, names, args, kwargs, runs_locally)
            if input_steps:
                args[0] = run_steps(input_steps, state, path, args[0], rope)
            # A module computes on plain tensors unless a parameter is sharded over a model axis: then plain inputs
            # become DTensors.
            given = bool(own) and has_dtensor((args, kwargs))
            plain, spread_here = not (given or is_spread), is_spread and not given
            if spread_here:
                args, kwargs = map_tensors((args, kwargs), lambda t: ensure_dtensor(t, state.model_mesh))
            bias = view(state, module.bias, plain=True) if adds_open_bias else None
            with views(state, module, plain, {"bias": bias_of(plain_way, bias)} if adds_open_bias else {}):
                result = original(*args, **kwargs)
            result = run_steps(output_steps, state, path, result, rope)
            summed = give(plain_way, result) if plain_way else None
            for value in outputs if summed is None else ():
                result = prepare_output(state, path, value, result, fused, module)
            result = result if summed is None else summed
            if late_bias:
                bias = bias.to(result.dtype)
                result = result + (ensure_dtensor(bias, state.model_mesh) if isinstance(result, DTensor) else bias)
            if (spread_here or ends_plain) and not outputs:
                result = map_tensors(result, lambda t: gathered(t, state.names[path]) if isinstance(t, DTensor) else t)
            return result

    def rematerialised(*args, **kwargs):
        if not torch.is_grad_enabled():
            return run(*args, **kwargs)
        return torch.utils.checkpoint.checkpoint(run, *args, use_reentrant=False, **kwargs)

    if any(isinstance(value, Pieces) for value in module._parameters.values()):
        run = torch.compiler.disable(
            run, reason="dynamo assumes that a DTensor has placements of torch, but a Pieces has others"
        )

    # inspect.signature (which transformers uses) sees the arguments of the original forward.
    module.forward = functools.wraps(module.forward)(rematerialised if remat else run)
    module.__deepcopy__ = _refuse_copy


def _as_before(state, units, is_root):
    return contextlib.nullcontext()


@contextlib.contextmanager
def noted(state):
    """Adds a note with the innermost running module to an exception raised inside."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "add_note"):
            error.add_note(_where(state, error))
        raise


def _where(state, error):
    paths, running, frame = {id(m): path for path, m in state.model.named_modules()}, state.model, error.__traceback__
    while frame is not None:
        held = frame.tb_frame.f_locals
        running = next((held[n] for n in ("self", "module") if id(held.get(n)) in paths), running)
        frame = frame.tb_next
    style = next((b.style for b in state.manifest.modules if b.path == paths[id(running)]), "no rule")
    name = printable(paths[id(running)]) or "the model itself"
    return f"in module `{name}` ({type(running).__name__}, {style}), run by tpplan.torch"


def _refuse_copy(memo):
    raise ManifestError(
        "model",
        "is parallelized, so a copy would still call the original",
        "copy the model before parallelize, or parallelize another model",
    )


def _argument_names(function):
    try:
        return [
            name
            for name, p in inspect.signature(function).parameters.items()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return []
