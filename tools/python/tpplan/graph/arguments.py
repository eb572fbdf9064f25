"""Arguments of calls: as they are written into a graph, and as torch takes them."""

import math

from .recording import intern_size
from .sizes import HostFloat, HostInt, HostNumber, Shape, Size

# Calls that take their sizes or dims one by one or as a tuple: written as a tuple, from this position on.
VARIADIC = dict.fromkeys(
    ("view", "reshape", "expand", "permute", "repeat", "tile", "new_empty", "new_zeros", "new_ones", "flip"), 1
) | dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), 0)

# Names under which one operation comes.
SAME_OP = {
    "__eq__": "eq", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor", "__invert__": "bitwise_not",
    "__rsub__": "rsub", "__rpow__": "rpow", "__rdiv__": "rdiv", "__rtruediv__": "rdiv",
    "__floordiv__": "floor_divide", "__rfloordiv__": "rfloor_divide",
    "__iand__": "__iand__", "__rmatmul__": "rmatmul", "__rmod__": "rmod", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift", "__ne__": "ne", "__lt__": "lt",
    "__gt__": "gt", "__le__": "le", "__ge__": "ge",
    "__abs__": "abs", "__neg__": "neg", "__add__": "add", "__radd__": "add", "__mul__": "mul", "__rmul__": "mul", "__sub__": "sub",
    "__truediv__": "div", "__div__": "div", "__pow__": "pow", "__mod__": "remainder", "__matmul__": "matmul",
    "true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub", "negative": "neg", "concat": "cat", "concatenate": "cat",
    "absolute": "abs", "clip": "clamp", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne",
    "swapaxes": "transpose", "swapdims": "transpose", "view_copy": "view", "ravel": "flatten",
}  # fmt: skip

# Functions of torch.nn.functional that are another operation than the method of their name: as torch's own operators call them.
OTHER_OP = {"unfold": "im2col", "fold": "col2im"}

# Calls whose operands come in the other order: written as the operation with the usual one.
REVERSED = {
    "rsub": "sub",
    "rpow": "pow",
    "rdiv": "div",
    "rfloor_divide": "floor_divide",
    "rmatmul": "matmul",
    "rmod": "remainder",
}


# Keywords that say nothing about what is computed.
SILENT = frozenset(("device", "_stacklevel", "non_blocking", "pin_memory", "layout", "memory_format", "requires_grad"))


# What torch takes Python's types for.
TYPES = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}


def name_of(function):
    """The name of the operation, and whether it is a getter of an attribute."""
    name = getattr(function, "__name__", None) or str(function)
    if name == "__get__":
        return function.__self__.__name__, True
    if name in OTHER_OP and getattr(function, "__module__", None) == "torch.nn.functional":
        return OTHER_OP[name], False
    return SAME_OP.get(name, name), False


def plain(value):
    """The same arguments without sizes that remember."""
    kind = type(value)
    if kind is Size:
        return value.real
    if kind in (tuple, Shape):
        return tuple([plain(v) for v in value])
    if kind is list:
        return [plain(v) for v in value]
    if kind is dict:
        return {k: plain(v) for k, v in value.items()}
    if kind is slice:
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    if kind is HostInt:
        return int.__index__(value)
    if kind is HostFloat:
        return float.__add__(value, 0.0)
    return value


def encode(recording, value, torch, value_of):
    """An argument as the graph has it. `value_of(tensor)` is the id of a tensor."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is Size:
        operand = intern_size(recording, value.expression)
        return ["e", operand[0]] if type(operand) is list else operand
    if isinstance(value, torch.Tensor):
        return [value_of(value)]
    if isinstance(value, (tuple, list)):
        return ["t", *[encode(recording, v, torch, value_of) for v in value]]
    if isinstance(value, HostNumber):
        return ["h", plain(value) if math.isfinite(value) else 0]
    if kind is float:
        return value if math.isfinite(value) else ["f", "nan" if value != value else "inf" if value > 0 else "-inf"]
    if kind is slice:
        return ["s", *[encode(recording, v, torch, value_of) for v in (value.start, value.stop, value.step)]]
    if value is Ellipsis:
        return ["x"]
    if kind is torch.dtype:
        return ["d", str(value)[6:]]
    if kind is type and value in TYPES:
        return ["d", TYPES[value]]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return encode(recording, float(value), torch, value_of)
    return ["o", kind.__name__]


def ordered(name, args, kwargs, is_method):
    """Name and arguments in the form that the graph has: one order, sizes as a tuple, an index as a tuple, no keyword that is
    None, as that is what none means."""
    kwargs = {k: v for k, v in kwargs.items() if v is not None and k not in SILENT}
    for first in ("input", "self", "tensors", "tensor"):
        if not args and first in kwargs:
            args = (kwargs.pop(first),)
    if name == "where" and is_method:
        return name, (args[1], args[0], *args[2:]), kwargs
    if name in REVERSED:
        return REVERSED[name], (args[1], args[0], *args[2:]), kwargs
    if name in VARIADIC:
        first = VARIADIC[name]
        given = args[first:]
        if len(given) == 1 and isinstance(given[0], (tuple, list)):
            given = given[0]
        elif name == "view" and len(given) == 1 and not isinstance(given[0], int):
            return "view_as_dtype", args, kwargs
        if given or first < len(args):
            return name, (*args[:first], tuple(given)), kwargs
        return name, args, kwargs
    if name in ("__getitem__", "__setitem__") and type(args[1]) is not tuple:
        return name, (args[0], (args[1],), *args[2:]), kwargs
    return name, args, kwargs
