"""Plain tensors that meet DTensors in one operation: by themselves in the model, elsewhere under `mixed()`."""

import contextlib
import functools
import threading

import torch

from .embeddings import is_cut_lookup, look_up
from .operations import RULES
from .placements import DTensor, ensure_dtensor
from .state import is_cut
from .views import is_viewing, view

# What asks a tensor for facts, and needs no view of it.
METADATA = {
    "__get__",
    "__set__",
    "size",
    "dim",
    "numel",
    "stride",
    "is_floating_point",
    "is_complex",
    "__len__",
    "__hash__",
    "__repr__",
    "requires_grad_",
    "ndimension",
    "nelement",
    "element_size",
    "is_contiguous",
    "data_ptr",
    "register_hook",
}
# What is asked as a fact, and is another view of the data.
TURNED = {getattr(torch.Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "real", "imag")}

_running = threading.local()  # now: the thread is inside the forward of a parallelized model


def _concerns(values):
    """Whether a DTensor is among the values, or in a list among them: spread parameters are DTensors. (These keep out of `types`.)"""
    for v in values:
        if type(v) is not torch.Tensor and (isinstance(v, DTensor) or (isinstance(v, (list, tuple)) and _concerns(v))):
            return True
    return False


class _Mixing(torch.overrides.TorchFunctionMode):
    """Plain tensors that meet DTensors in one operation become replicated DTensors; parameters of a parallelized model that
    are used outside their module are seen as their views."""

    def __init__(self, state=None, rules=None):
        super().__init__()
        self.state = state
        self.rules = rules or {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not (_concerns(args) or (kwargs and _concerns(kwargs.values()))) or is_viewing():
            return function(*args, **kwargs)
        if getattr(function, "__name__", "") in METADATA and function not in TURNED:
            return function(*args, **kwargs)
        if self.state is not None:
            args, kwargs = self.see(args, kwargs)
        mesh = next((t.device_mesh for t in tensors_of(args, kwargs) if isinstance(t, DTensor)), None)
        if mesh is not None:
            args, kwargs = map_tensors((args, kwargs), lambda t: ensure_dtensor(t, mesh))
        if self.state is not None and is_cut_lookup(function, args, kwargs):
            return look_up(args, kwargs)
        if mesh is not None and function in self.rules:
            return self.rules[function](function, args, kwargs)
        return function(*args, **kwargs)

    def see(self, args, kwargs):
        """The arguments with spread parameters replaced by views: plain where all of them are whole on the model axes and
        no other DTensor is about."""
        state = self.state
        spread = [t for t in tensors_of(args, kwargs) if id(t) in state.by_id]
        if not spread:
            return args, kwargs
        others = any(isinstance(t, DTensor) and id(t) not in state.by_id for t in tensors_of(args, kwargs))
        plain = not others and not any(is_cut(state, state.by_id[id(t)].tensor) for t in spread)
        return map_tensors((args, kwargs), lambda t: view(state, t, plain) if id(t) in state.by_id else t)


def is_running():
    """Whether the thread is inside the forward of a parallelized model."""
    return getattr(_running, "now", False)


@contextlib.contextmanager
def mixed(model=None):
    """Inside, operations of a DTensor with plain tensors work: the plain ones count as whole on every rank. Parameters keep
    their placements under operations in place. With a parallelized model its parameters are seen as in its forward, so that
    other methods of it may be called."""
    with _Mixing() if model is None else mixed_in(model._tpplan_state):
        yield


def mixed_by(rules):
    """The same, where `rules` say by {function: rule(function, args, kwargs)} how some functions compute with DTensors."""
    return _Mixing(rules=rules)


@contextlib.contextmanager
def mixed_in(state):
    """The same for the forward of a parallelized model; entered once, whichever module runs first."""
    if is_running():
        yield
        return
    _running.now = True
    try:
        with _Mixing(state, RULES):
            yield
    finally:
        _running.now = False


@functools.cache
def skip_frames():
    """Behind a break of its graph (an nn.LSTM, code of the user's own) torch.compile meets these as frames of their own: it compiles
    what they are called for instead."""
    from torch._dynamo.eval_frame import skip_code

    for function in (_Mixing.__torch_function__, _concerns, _Mixing.see):
        skip_code(function.__code__)


def map_tensors(tree, function):
    """The tree with its tensors replaced."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, function, tree)


def tensors_of(*trees):
    """The tensors of some trees."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(trees) if isinstance(leaf, torch.Tensor)]


def has_dtensor(tree):
    """Whether a DTensor is among the tensors of a tree."""
    if isinstance(tree, (list, tuple)):
        return any([has_dtensor(part) for part in tree])
    if isinstance(tree, dict):
        return any([has_dtensor(part) for part in tree.values()])
    if isinstance(tree, torch.Tensor) or tree is None or isinstance(tree, (bool, int, float, str)):
        return isinstance(tree, DTensor)
    return any(isinstance(t, DTensor) for t in tensors_of(tree))
