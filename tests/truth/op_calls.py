"""Calls of single operations: as nodes of a graph for the program, and with tensors as every rank holds them."""

import dataclasses
import math

import torch

ELLIPSIS = object()
TOLERANCES = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}


@dataclasses.dataclass(frozen=True, eq=False)
class T:
    """An operand: its shape, and the kind of its elements. Each T of a call is a separate tensor."""

    shape: tuple
    kind: str = "float"
    high: int = 0

    def __init__(self, *shape, kind="float", high=0):
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "high", high)


@dataclasses.dataclass(frozen=True)
class Size:
    """The size of dim `dim` of the call's operand `operand` as a traced size, or an operation on it."""

    operand: int
    dim: int
    operation: str = ""
    number: int = 0


@dataclasses.dataclass(frozen=True)
class Call:
    name: str
    args: tuple
    kwargs: dict

    def operands(self):
        found = []

        def walk(part):
            if isinstance(part, T) and not any(part is t for t in found):
                found.append(part)
            elif isinstance(part, (tuple, list)):
                for p in part:
                    walk(p)

        walk(self.args)
        walk(tuple(self.kwargs.values()))
        return found

    def with_tensors(self, tensors):
        """Returns (args, kwargs) in torch's form."""
        operands = self.operands()

        def made(part):
            if isinstance(part, T):
                return next(t for o, t in zip(operands, tensors) if o is part)
            if isinstance(part, Size):
                size = tensors[part.operand].shape[part.dim]
                return size // part.number if part.operation == "floordiv" else size
            if isinstance(part, slice):
                return slice(made(part.start), made(part.stop), made(part.step))
            if isinstance(part, tuple):
                return tuple(made(p) for p in part)
            return Ellipsis if part is ELLIPSIS else part

        return made(self.args), {k: made(v) for k, v in self.kwargs.items()}


def call(name, *args, **kwargs):
    return Call(name, args, kwargs)


def fill(operand, generator):
    """Returns the full tensor of an operand."""
    shape, kind = operand.shape, operand.kind
    if kind in ("float", "whole"):
        return torch.rand(shape, generator=generator, dtype=torch.float64) * 0.7 + 0.2
    if kind == "complex":
        return torch.randn(shape, generator=generator, dtype=torch.complex128)
    if kind == "bfloat":
        return torch.randint(-1, 2, shape, generator=generator).to(torch.bfloat16)  # so that products are exact
    if kind == "zeros":
        return torch.zeros(shape, dtype=torch.float64)
    if kind == "triangular":
        return torch.tril(torch.rand(shape, generator=generator, dtype=torch.float64)) + 2 * torch.eye(
            shape[-1], dtype=torch.float64
        )
    if kind == "bool":
        return torch.rand(shape, generator=generator) > 0.4
    if kind == "int":
        return torch.randint(1, 6, shape, generator=generator)
    if kind == "offsets":
        return torch.tensor([operand.high // 3, operand.high], dtype=torch.int32)
    if kind == "counts":
        return torch.tensor([1, 2, 1, 2, 1, 2])
    if kind == "order":
        return torch.randperm(math.prod(shape), generator=generator)
    if kind == "sorted":
        return torch.rand(shape, generator=generator, dtype=torch.float64).sort(-1).values
    if kind == "places":  # every position once along dim `high`
        return torch.rand(shape, generator=generator).argsort(operand.high)
    index = torch.randint(0, operand.high, shape, generator=generator)
    return index.flatten().index_fill(0, torch.tensor([0]), operand.high - 1).reshape(shape)


def graph_of(calls, wholes, results):
    """Returns a model file whose graph has a node for each call, with separate operands."""
    strings, shapes, sizes, values, leaves, nodes = {}, {}, [], [], [], []

    def name(text):
        return strings.setdefault(text, len(strings))

    def value(tensor, grad=0):
        values.append([shapes.setdefault(tuple(tensor.shape), len(shapes)), name(str(tensor.dtype)[6:]), grad])
        return len(values) - 1

    for number, (c, tensors, made) in enumerate(zip(calls, wholes, results)):
        operands = c.operands()
        ids = [value(t) for t in tensors]
        leaves += [[v, "input", name(f"x{number}.{i}")] for i, v in enumerate(ids)]

        def encode(part):
            if isinstance(part, T):
                return [next(i for o, i in zip(operands, ids) if o is part)]
            if isinstance(part, Size):
                sizes.append(["size", ids[part.operand], part.dim])
                if part.operation:
                    sizes.append([part.operation, [len(sizes) - 1], part.number])
                return ["e", len(sizes) - 1]
            if isinstance(part, slice):
                return ["s", encode(part.start), encode(part.stop), encode(part.step)]
            if isinstance(part, tuple):
                return ["t", *map(encode, part)]
            if part is ELLIPSIS:
                return ["x"]
            if isinstance(part, torch.dtype):
                return ["d", str(part)[6:]]
            if isinstance(part, float) and not math.isfinite(part):
                return ["f", "-inf"]
            return part

        keywords = [part for k, v in c.kwargs.items() for part in (name(k), encode(v))]
        nodes.append([name(c.name), [encode(a) for a in c.args], keywords, [value(t) for t in made]])
    graph = {"mode": "train", "dtype": "float64", "batch": 2, "sequence": 2, "strings": list(strings), "shapes": [list(s) for s in shapes],
             "sizes": sizes, "values": values, "leaves": leaves, "nodes": nodes, "guards": [], "output": nodes[-1][3][0]}  # fmt: skip
    return {
        "format": "tpplan.model/1",
        "name": "Ops",
        "framework": "torch",
        "modules": [{"path": "", "type": "Ops"}],
        "graph": graph,
    }


# ---- local tensors ----


def layouts_of(operand, ranks):
    """Returns every layout to try for an operand."""
    if operand.kind == "whole":  # the only layout that a rule accepts
        return ["R"]
    found = ["R", *[f"S{d}" for d, size in enumerate(operand.shape) if size > 1]]
    found += [f"K{d}" for d, size in enumerate(operand.shape) if size % (2 * ranks) == 0]
    if operand.kind in ("float", "zeros", "complex", "int", "triangular", "bfloat"):
        found.append("P")
    if operand.kind == "zeros":
        found.append("Z")
    return found


def spread(whole, layout, ranks, generator):
    if layout in ("R", "Z"):
        return [whole.clone() for _ in range(ranks)]
    if layout == "P":
        if whole.dtype in (torch.int64, torch.bfloat16):
            terms = [torch.randint(-1, 2, whole.shape, generator=generator).to(whole.dtype) for _ in range(ranks - 1)]
        else:
            terms = [torch.randn(whole.shape, generator=generator, dtype=whole.dtype) for _ in range(ranks - 1)]
        return [*terms, whole - sum(terms)]
    dim = int(layout[1:])
    if layout[0] == "S":
        return pieces(whole, dim, ranks)
    return [torch.cat(pair, dim) for pair in zip(*[pieces(half, dim, ranks) for half in whole.chunk(2, dim)])]


def pieces(whole, dim, ranks):
    """Returns the chunks of torch.chunk, with empty ones for ranks without a chunk."""
    found = list(whole.chunk(ranks, dim))
    return [p.clone() for p in found] + [whole.narrow(dim, 0, 0).clone() for _ in range(ranks - len(found))]


def positions(dim, rank):
    """Returns the global indices of a dim that a rank holds."""
    return [i for begin, end in dim["runs"][rank] for i in range(begin, end)]


def take(whole, described, rank):
    """Returns a rank's local tensor of a full tensor by the program's layout. If only the sizes of a dim are known, all
    elements along it are equal, as many as the rank holds.
    """
    for d, dim in enumerate(described["dims"]):
        index = [0] * dim["local"][rank] if dim["any"] else positions(dim, rank)
        whole = whole.index_select(d, torch.tensor(index, dtype=torch.int64)) if whole.shape[d] or not index else whole
    return whole


def same(a, b):
    if a.shape != b.shape:
        return False
    if not a.numel():
        return True
    if a.dtype == torch.bool or b.dtype == torch.bool or not (a.is_floating_point() or a.is_complex()):
        return bool((a == b).all())
    tolerance = TOLERANCES.get(a.dtype, 1e-8)
    return bool(torch.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True).all())
