"""Executes a graph with tensors, following the schema: a second interpretation of the traced graph."""

import math
import operator

import torch
import torch.nn.functional as F

SIZE_OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
                   "neg": operator.neg}  # fmt: skip
PROPERTIES = ("T", "mT", "H", "mH", "real", "imag", "data")
METHODS_FIRST = ("unfold", "type", "repeat", "where_")
OWN_NAMES = {
    "view_as_dtype": torch.Tensor.view,
    "im2col": F.unfold,
    "col2im": F.fold,
    "histc": lambda x, **bins: torch.histc(x.float(), **bins).to(x.dtype),  # transformers casts on the CPU only
}


def function_of(name):
    """Returns the torch function that a node calls."""
    if name in PROPERTIES:
        return lambda tensor: getattr(tensor, name)
    if name in OWN_NAMES:
        return OWN_NAMES[name]
    holders = (
        (torch.Tensor, F, torch)
        if name in METHODS_FIRST
        else (F, torch, torch._C._nn, torch.linalg, torch.special, torch.Tensor)
    )
    if name.startswith("fft_"):
        return getattr(torch.fft, name.removeprefix("fft_"))
    short = name.removeprefix("linalg_")
    for holder in holders:
        found = getattr(holder, name, None) or (getattr(holder, short, None) if holder is torch.linalg else None)
        if callable(found) and not isinstance(found, torch.dtype):
            return found
    raise LookupError(f"torch has no {name}")


class Graph:
    """The field `graph` of a model file with its tables resolved."""

    def __init__(self, graph):
        self.graph, self.strings = graph, graph["strings"]
        self.shapes = [graph["shapes"][v[0]] for v in graph["values"]]
        self.dtypes = [self.strings[v[1]] for v in graph["values"]]
        self.requires_grad = [bool(v[2]) for v in graph["values"]]
        self.leaves = [(value, kind, self.strings[path]) for value, kind, path in graph["leaves"]]
        self.nodes = [(self.strings[n[0]], *n[1:]) for n in graph["nodes"]]
        self.sizes, self.guards = graph["sizes"], graph["guards"]
        self.outputs = graph["output"] if isinstance(graph["output"], list) else [graph["output"]]

    def size(self, operand, shape_of):
        """Returns the value of an operand of `sizes`, if values have the shapes shape_of(value)."""
        if not isinstance(operand, list):
            return operand
        entry = self.sizes[operand[0]]
        if entry[0] == "size":
            return shape_of(entry[1])[entry[2]]
        return SIZE_OPERATIONS[entry[0]](*(self.size(e, shape_of) for e in entry[1:]))

    def argument(self, entry, values):
        """Returns an argument of a node in torch's form. `values` maps a value to its tensor."""
        if not isinstance(entry, list):
            return entry
        head = entry[0]
        if isinstance(head, int):
            return values[head]
        if head == "e":
            return self.size([entry[1]], lambda v: values[v].shape)
        if head == "t":
            return tuple(self.argument(e, values) for e in entry[1:])
        if head == "s":
            return slice(*(self.argument(e, values) for e in entry[1:]))
        return {"x": lambda: Ellipsis, "d": lambda: getattr(torch, entry[1]), "f": lambda: float(entry[1]), "h": lambda: entry[1],
                "o": lambda: torch.device("cpu")}[head]()  # fmt: skip

    def arguments(self, args, keywords, values):
        names = [self.strings[k] for k in keywords[::2]]
        return [self.argument(a, values) for a in args], {
            n: self.argument(a, values) for n, a in zip(names, keywords[1::2])
        }


def call(name, args, kwargs):
    """Returns the results of one node as a list of tensors. An in-place operation returns a changed copy."""
    if name == "__getitem__":
        return [args[0][index(args[1])]]
    if name == "__setitem__":
        made = args[0].clone()
        made[index(args[1])] = args[2]
        return [made]
    in_place = name.endswith("_") and not name.startswith("__")
    if in_place or kwargs.get("inplace"):
        args = [args[0].clone(), *args[1:]]
    if name in ("batch_norm", "instance_norm"):  # writes to running statistics
        args = [args[0], *(a.clone() if isinstance(a, torch.Tensor) and i < 2 else a for i, a in enumerate(args[1:]))]
    result = function_of(name)(*args, **kwargs)
    found = flat(result)
    if name in ("batch_norm", "instance_norm"):
        found += [a for a in args[1:3] if isinstance(a, torch.Tensor)]
    return found


def index(given):
    """A tuple inside an index is a list of positions."""
    return tuple(list(i) if isinstance(i, tuple) else i for i in given)


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in flat(part)] if isinstance(result, (tuple, list)) else []


def run(graph, tensors):
    """Returns the outputs, from {path or name of a leaf: tensor}. Checks shapes and dtypes of all values."""
    values = {value: tensors[path] for value, kind, path in graph.leaves}
    for node in graph.nodes:
        if node[0] == "@enter":
            for _, outside, inside, *_ in node[4]:
                values[inside] = values[outside]
        elif node[0] == "@exit":
            for _, inside, outside in node[2]:
                values[outside] = values[inside]
        else:
            name, args, keywords, results = node
            made = call(name, *graph.arguments(args, keywords, values)) if results or name not in HOST_READS else []
            assert len(made) >= len(results), f"{name} gives {len(made)} tensors, the graph has {len(results)}"
            for value, tensor in zip(results, made):
                values[value] = tensor if graph.requires_grad[value] else tensor.detach()  # created under no_grad
    return [values[v] for v in graph.outputs], values


HOST_READS = (
    "item",
    "tolist",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "is_nonzero",
    "equal",
    "allclose",
    "any",
    "all",
)


def guard_holds(graph, guard, shape_of):
    name, a, b, result = guard
    return getattr(operator, name)(graph.size(a, shape_of), graph.size(b, shape_of)) == result


def close(a, b):
    """Returns True if two tensors are equal up to rounding."""
    if a.shape != b.shape:
        return False
    if not b.numel():
        return True
    largest, tolerance = max(b.abs().max().item(), 1e-30), 1e-9 if b.dtype == torch.float64 else 1e-4
    return math.isfinite(largest) and (a - b).abs().max().item() <= tolerance * largest
