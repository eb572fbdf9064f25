"""Arguments of calls: their encoding in a graph, and the plain values that torch gets."""

import math

from .recording import intern_size
from .sizes import HostFloat, HostInt, HostNumber, Shape, Size

# Calls that accept sizes or dims one by one or as a tuple -> position of the first; encoded as a tuple. torch accepts
# both if a list of sizes is the only positional argument after the tensor.
VARIADIC = dict.fromkeys(
    (
        *("view", "reshape", "expand", "broadcast_to", "permute", "repeat", "tile", "flip"),
        *("new_empty", "new_zeros", "new_ones"),
    ),
    1,
) | dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), 0)

# Aliases of operations -> their names (lib/model/operations.def; tools/generate/write-schemas writes the rows).
SAME_OP = {
    "view_copy": "view", "ravel": "flatten", "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim",
    "__matmul__": "matmul", "grouped_mm": "_grouped_mm", "__add__": "add", "__radd__": "add", "__sub__": "sub",
    "subtract": "sub", "__neg__": "neg", "negative": "neg", "__eq__": "eq", "__ne__": "ne", "not_equal": "ne",
    "__lt__": "lt", "less": "lt", "__le__": "le", "less_equal": "le", "__gt__": "gt", "greater": "gt", "__ge__": "ge",
    "greater_equal": "ge", "__and__": "bitwise_and", "__rand__": "bitwise_and", "__or__": "bitwise_or",
    "__ror__": "bitwise_or", "__invert__": "bitwise_not", "__xor__": "bitwise_xor", "__floordiv__": "floor_divide",
    "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift", "__mul__": "mul", "__rmul__": "mul",
    "multiply": "mul", "__truediv__": "div", "__div__": "div", "true_divide": "div", "divide": "div", "__pow__": "pow",
    "__abs__": "abs", "absolute": "abs", "clip": "clamp", "logsigmoid": "log_sigmoid", "__mod__": "remainder",
    "concat": "cat", "concatenate": "cat",
}  # fmt: skip

# Functions of torch.nn.functional that differ from the method of the same name -> name of torch's operator.
OTHER_OP = {"unfold": "im2col", "fold": "col2im"}

# Calls with swapped operands -> the operation with the usual order.
REVERSED = {
    "rsub": "sub",
    "__rsub__": "sub",
    "__rpow__": "pow",
    "__rdiv__": "div",
    "__rtruediv__": "div",
    "__rfloordiv__": "floor_divide",
    "__rmatmul__": "matmul",
    "__rmod__": "remainder",
}


# Keywords that do not change the computed values.
SILENT = frozenset(("device", "_stacklevel", "non_blocking", "pin_memory", "layout", "memory_format", "requires_grad"))


# The dtypes that torch assigns to Python types.
TYPES = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}


def name_of(function):
    """Returns (name of the operation, True if it is the getter of an attribute)."""
    name = getattr(function, "__name__", None) or str(function)
    if name == "__get__":
        return function.__self__.__name__, True
    if name in OTHER_OP and getattr(function, "__module__", None) == "torch.nn.functional":
        return OTHER_OP[name], False
    return SAME_OP.get(name, name), False


def plain(value):
    """Returns the arguments with traced sizes and host numbers replaced by plain numbers."""
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
    """Returns an argument in the encoding of the graph. `value_of(tensor)` returns the id of a tensor."""
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
    """Returns (name, args, kwargs) in the canonical form of the graph: one operand order, sizes as a tuple, an index
    as a tuple, no keyword with value None."""
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
