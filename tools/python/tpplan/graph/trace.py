"""Calls a module once and returns its operations."""

import contextlib
import inspect

from .boundaries import modules_recorded
from .calls import Recorder, record
from .recording import INPUT, Recording, Untraceable, add_value, learn, look_up, place
from .sizes import loops_counted
from .views import read

__all__ = ["Untraceable", "trace"]


def trace(model, args, kwargs, device, main_output=None):
    """Calls model(*args, **kwargs), whose tensors are on `device`, and returns the Recording.

    `outputs` has the ids of the results that the loss uses: those of main_output(result), or every floating-point
    tensor if it returns None. Raises Untraceable, with the reason, if the call fails or returns no tensor.
    """
    import torch
    import torch.utils.checkpoint

    recording = Recording(_names(model))
    names = [*list(inspect.signature(model.forward).parameters)[: len(args)], *kwargs]
    for name, tensor in zip(names, [*args, *kwargs.values()]):
        if isinstance(tensor, torch.Tensor):
            value = add_value(recording, tensor)
            recording.leaves.append((value, INPUT, name))
            learn(recording, tensor, value)
    modules = list(model.named_modules())
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.device(device))
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(modules_recorded(recording, torch, modules))
            stack.enter_context(_functions_recorded(recording, torch))
            stack.enter_context(loops_counted())
            stack.enter_context(Recorder(recording, torch))
            result = model(*args, **kwargs)
    except (Untraceable, RecursionError, MemoryError):
        raise
    except Exception as error:  # whatever the model's code raises
        raise Untraceable(f"{place(recording)} fails: {type(error).__name__}: {str(error)[:300]}") from error
    found = (main_output(result) if main_output else None) or _floats(torch, result)
    recording.outputs = [read(recording, look_up(recording, tensor)) for tensor in found]
    if not recording.outputs:
        raise Untraceable("the model returns no floating-point tensor")
    return recording


def _names(model):
    names = {}
    for kind, tensors in (("param", model.named_parameters()), ("buffer", model.named_buffers())):
        for path, tensor in tensors:
            names.setdefault(id(tensor), (kind, path))
    return names


def _floats(torch, result):
    if isinstance(result, torch.Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, dict):
        result = result.values()
    elif not isinstance(result, (tuple, list)):
        return []
    return [tensor for part in result for tensor in _floats(torch, part)]


@contextlib.contextmanager
def _functions_recorded(recording, torch):
    """Traces each autograd.Function, and each function under vmap, as one operation. A checkpoint is traced as its
    function, whose backward it has.

    Patches the functions that torch 2.13 calls internally, so that names bound earlier are traced as well:
    Function.apply calls the apply of its base class, and torch.vmap calls vmap_impl.
    """
    base, apis = torch.autograd.Function.__mro__[1], torch._functorch.apis
    plain_vmap, inside = apis.vmap_impl, []

    def one(name, function, args, kwargs):
        if inside:  # inside an operation that is already one node
            return function(*args, **kwargs)
        before = len(recording.nodes)
        inside.append(name)
        try:
            with torch._C.DisableTorchFunction():
                result = record(recording, torch, name, function, args, kwargs)
        finally:
            inside.pop()
        if any(node[0] == "@enter" for node in recording.nodes[before:]):
            raise Untraceable(f"{place(recording)} runs modules inside {name}, which tpplan traces as one operation")
        return result

    def apply(cls, *args, **kwargs):
        if cls is torch.utils.checkpoint.CheckpointFunction and not inside:
            return args[0](*args[2:])
        return one(cls.__name__, super(base, cls).apply, args, kwargs)

    def vmap(function, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
        def mapped(*args, **kwargs):
            return plain_vmap(function, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)

        return one("vmap", mapped, args, kwargs)

    base.apply, apis.vmap_impl = classmethod(apply), vmap
    try:
        yield
    finally:
        del base.apply
        apis.vmap_impl = plain_vmap
