"""Combines plain tensors with DTensors in one operation: always inside a parallelized model, elsewhere under
`mixed()`."""

import contextlib
import functools
import threading

import torch

from .embeddings import is_cut_lookup, look_up
from .operations import RULES
from .placements import DTensor, ensure_dtensor
from .state import is_cut
from .views import is_viewing, view

# Attributes and methods that return metadata, for which a parameter needs no gathered view.
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
# Attribute getters that return a view of the data, so they are no metadata.
TURNED = {getattr(torch.Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "real", "imag")}

_running = threading.local()  # now: the thread is inside the forward of a parallelized model


def _concerns(values):
    """Returns True if a DTensor is among the values or in a nested list. `types` of __torch_function__ does not list
    DTensors, because they disable it."""
    for v in values:
        if type(v) is not torch.Tensor and (isinstance(v, DTensor) or (isinstance(v, (list, tuple)) and _concerns(v))):
            return True
    return False


class _Mixing(torch.overrides.TorchFunctionMode):
    """Converts plain tensors to replicated DTensors if they are combined with DTensors. Replaces parameters of a
    parallelized model that are used outside their module by their views."""

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
        """Returns the arguments with parallelized parameters replaced by views. The views are plain if all of them
        are replicated over the model axes and no other DTensor is among the arguments."""
        state = self.state
        spread = [t for t in tensors_of(args, kwargs) if id(t) in state.by_id]
        if not spread:
            return args, kwargs
        others = any(isinstance(t, DTensor) and id(t) not in state.by_id for t in tensors_of(args, kwargs))
        plain = not others and not any(is_cut(state, state.by_id[id(t)].tensor) for t in spread)
        return map_tensors((args, kwargs), lambda t: view(state, t, plain) if id(t) in state.by_id else t)


def is_running():
    """Returns True if this thread is inside the forward of a parallelized model."""
    return getattr(_running, "now", False)


@contextlib.contextmanager
def mixed(model=None):
    """Enables operations that combine DTensors with plain tensors; the plain ones count as replicated.

    Parameters keep their placements under in-place operations. If `model` is a parallelized model, its parameters are
    gathered as in its forward, so that its other methods may be called.
    """
    with _Mixing() if model is None else mixed_in(model._tpplan_state):
        yield


def mixed_by(rules):
    """Returns a mode as of `mixed()`, in which `rules`, {function: rule(function, args, kwargs)}, compute some
    functions of DTensors."""
    return _Mixing(rules=rules)


@contextlib.contextmanager
def mixed_in(state):
    """Enables mixing inside the forward of a parallelized model. Nested calls in the same thread do nothing."""
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
    """Makes torch.compile skip the frames of this mode. After a graph break (nn.LSTM, user code) it would otherwise
    compile them as separate frames instead of the operation that they call."""
    from torch._dynamo.eval_frame import skip_code

    for function in (_Mixing.__torch_function__, _concerns, _Mixing.see):
        skip_code(function.__code__)


def map_tensors(tree, function):
    """Returns the tree with `function` applied to its tensors."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, function, tree)


def tensors_of(*trees):
    """Returns the tensors of these trees as a list."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(trees) if isinstance(leaf, torch.Tensor)]


def has_dtensor(tree):
    """Returns True if a DTensor is among the tensors of a tree."""
    if isinstance(tree, (list, tuple)):
        return any([has_dtensor(part) for part in tree])
    if isinstance(tree, dict):
        return any([has_dtensor(part) for part in tree.values()])
    if isinstance(tree, torch.Tensor) or tree is None or isinstance(tree, (bool, int, float, str)):
        return isinstance(tree, DTensor)
    return any(isinstance(t, DTensor) for t in tensors_of(tree))
