"""Traces calls of torch functions."""

from torch.overrides import TorchFunctionMode

from .arguments import encode, name_of, ordered, plain
from .recording import Untraceable, add_value, learn, look_up, place
from .sizes import HostFloat, HostInt, Shape, Size, pin
from .views import read, written

# Calls that return metadata of a tensor, not its data; they are not in the graph.
QUESTIONS = frozenset(
    ("dim", "ndimension", "stride", "storage_offset", "is_contiguous", "element_size", "get_device",
     "is_floating_point", "is_complex", "is_signed", "__hash__", "__repr__", "__str__", "__format__", "data_ptr",
     "is_same_size", "requires_grad_", "register_hook", "is_shared", "is_inference", "untyped_storage", "storage",
     "retain_grad", "_is_view", "has_names", "is_pinned", "_set_grad_enabled", "get_default_dtype", "is_nested",
     "is_tensor", "is_storage", "__set__", "__delete__", "register_post_accumulate_grad_hook", "result_type",
     "can_cast", "promote_types", "is_neg", "is_conj", "is_autocast_enabled", "set_default_dtype", "__reduce_ex__",
     "__dir__", "nbytes", "is_set_to", "_has_compatible_shallow_copy_type", "set_grad_enabled", "layout",
     "is_coalesced", "is_distributed", "__contains_type__", "manual_seed", "get_rng_state", "set_rng_state",
     "initial_seed", "broadcast_shapes")
)  # fmt: skip
RUNNING_STATISTICS = ("batch_norm", "instance_norm")
GETTERS_OF_TENSORS = frozenset(("T", "mT", "H", "mH", "real", "imag", "data"))


class Recorder(TorchFunctionMode):
    def __init__(self, recording, torch):
        super().__init__()
        self.recording, self.torch = recording, torch

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, getter = name_of(function)
        if getter:
            if name == "shape":
                return shape_of(self.recording, args[0])
            if name not in GETTERS_OF_TENSORS:
                return function(*args, **kwargs)
        elif name in QUESTIONS:
            return function(*plain(args), **plain(kwargs))
        elif name in SIZE_QUESTIONS:
            return SIZE_QUESTIONS[name](self.recording, *args, **kwargs)
        return record(self.recording, self.torch, name, function, args, kwargs)


def shape_of(recording, tensor):
    value = read(recording, look_up(recording, tensor))
    return Shape(Size(s, ("size", value, d), recording.guards) for d, s in enumerate(tensor.shape))


def _size(recording, tensor, dim=None):
    shape = shape_of(recording, tensor)
    return shape if dim is None else shape[dim]


# A scalar has one element, but no dim to trace it from.
SIZE_QUESTIONS = {
    "size": _size,
    "numel": lambda recording, tensor: shape_of(recording, tensor).numel(),
    "nelement": lambda recording, tensor: shape_of(recording, tensor).numel(),
    "__len__": lambda recording, tensor: pin(shape_of(recording, tensor)[0]),
}


def record(recording, torch, name, function, args, kwargs):
    """Makes the call and adds its node. Returns its result, with tensors as separate objects. Raises Untraceable if
    the call needs data on the meta device."""
    name, ordered_args, ordered_kwargs = ordered(name, args, kwargs, type(function).__name__ == "method_descriptor")
    given = []

    def value_of(tensor):
        entry = look_up(recording, tensor)
        given.append(entry)
        return read(recording, entry)

    written_args = [encode(recording, a, torch, value_of) for a in ordered_args]
    written_kwargs = []
    for key, value in ordered_kwargs.items():
        written_kwargs += [key, encode(recording, value, torch, value_of)]
    versions = [entry.tensor._version for entry in given]
    try:
        if name in ("grouped_mm", "_grouped_mm") and given[0].tensor.is_meta:
            result = _grouped_on_meta(torch, function, *plain(args), **plain(kwargs))
        else:
            result = function(*plain(args), **plain(kwargs))
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, NotImplementedError) or "meta tensors" in str(error):
            raise Untraceable(f"{place(recording)} needs tensor data: {name}: {_first_line(error)}") from error
        raise
    before = len(given)
    changed = {}  # by storage: views count writes together, and the first argument is the written one
    for entry, version in zip(given, versions):
        if entry.tensor._version != version:
            changed.setdefault(entry.storage, entry)
    if name in RUNNING_STATISTICS and (
        kwargs.get("training") or kwargs.get("use_input_stats")
    ):  # these writes do not change _version
        changed |= {e.storage: e for e in given if any(e.tensor is a for a in args[1:3])}
    changed = list(changed.values())
    results = []
    result = _take(torch, result, results, {id(e.tensor) for e in given}, {id(e.tensor) for e in changed})
    if not results and not changed:
        if before == 0:
            return result
        recording.nodes.append([name, written_args, written_kwargs, []])
        return _from_host(result)
    made = [add_value(recording, tensor) for tensor in results]
    extra = [entry for entry in changed if not any(entry.tensor is t for t in results)]
    extra_ids = [add_value(recording, entry.tensor) for entry in extra]
    call = (name, written_args, written_kwargs, made)
    recording.nodes.append([name, written_args, written_kwargs, made + extra_ids])
    is_changed = {id(entry.tensor): entry for entry in changed}
    for i, (tensor, value) in enumerate(zip(results, made)):
        if id(tensor) in is_changed:
            written(recording, is_changed[id(tensor)], value)
            continue
        entry = learn(recording, tensor, value)
        entry.parent = next((e for e in given if e.storage == entry.storage and e.tensor is not tensor), None)
        if entry.parent is not None:
            entry.call, entry.place = call, i
    for entry, value in zip(extra, extra_ids):
        written(recording, entry, value)
    return result


def _take(torch, result, found, given, changed):
    """Collects the tensors of a result in `found`, and returns the result. An argument that is returned unchanged
    becomes a separate object."""
    if isinstance(result, torch.Tensor):
        if id(result) in given and id(result) not in changed:
            result = own(result)
        found.append(result)
        return result
    if isinstance(result, (tuple, list)):
        taken = [_take(torch, r, found, given, changed) for r in result]
        if all(a is b for a, b in zip(taken, result)):
            return result
        return type(result)(taken) if type(result) in (tuple, list) else tuple(taken)
    return result


def own(tensor):
    """Returns another object for the same tensor."""
    return tensor.view_as(tensor)


def _grouped_on_meta(torch, function, x, weight, **kwargs):
    """Computes a grouped matmul on the meta device in bfloat16, the only dtype for which torch infers its shape."""
    return function(x.to(torch.bfloat16), weight.to(torch.bfloat16), **kwargs).to(x.dtype)


def _from_host(result):
    if type(result) is int:
        return HostInt(result)
    if type(result) is float:
        return HostFloat(result)
    if type(result) is list:
        return [_from_host(r) for r in result]
    return result


def _first_line(error):
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
