"""Simulates a plan numerically: executes the operations of a graph on n virtual ranks at once, in one process.

Every value is a list of n tensors, one per rank. Collectives are autograd functions over n tensors, forward and
backward. A value is a plain tensor or a DTensor; the declared placement of a DTensor is not checked, as in torch.
Styles of transformers 5.23 apply at module boundaries. `judge` compares every rank's outputs and gradients with those
of one rank.
"""

import dataclasses
import re

import graph_runs
import torch

TOLERANCE = 1e-4  # relative to a tensor's largest value; differences that a norm hides are below it

POINTWISE = frozenset(
    "add sub mul div pow neg exp log sqrt rsqrt abs silu gelu relu sigmoid tanh softplus to float type_as square clamp eq "
    "ne lt gt le ge where bitwise_and bitwise_or bitwise_not masked_fill dropout contiguous clone detach softmax mean sum "
    "layer_norm rms_norm var std max min double".split()
)
LAST_DIM = frozenset("softmax mean sum layer_norm rms_norm var std max min".split())
PACKED = 2  # parts of a fused weight


class Crash(Exception):
    """An error that torch would raise in a forward pass; `stage` is apply or forward."""

    def __init__(self, text, stage="forward"):
        self.stage = stage
        super().__init__(text)


class Unsupported(Exception):
    """An operation that this simulation does not support."""


@dataclasses.dataclass
class Many:
    """One value on all ranks. `kind` is None for plain tensors, else S (a shard of `dim`, whose global size is `size`),
    K (a shard of each part of a fused weight), R or P.
    """

    locals: list
    kind: str | None = None
    dim: int = 0
    size: int = 0


# ---- collectives ----


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx, forward, backward, *tensors):
        ctx.back = backward
        return tuple(t.view_as(t) if any(t is given for given in tensors) else t for t in forward(list(tensors)))

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, *ctx.back(list(gradients))


def _sum(tensors):
    if len({t.shape for t in tensors}) > 1:
        raise Crash("ranks sum tensors of different shapes")
    total = sum(tensors[1:], tensors[0])
    return [total.clone() for _ in tensors]


def _same(tensors):
    return tensors


def _whole(dim):
    def gather(tensors):
        whole = torch.cat(tensors, dim)
        return [whole.clone() for _ in tensors]

    return gather


def _pieces(dim):
    return lambda tensors: [piece(t, dim, len(tensors), r) for r, t in enumerate(tensors)]


def piece(tensor, dim, ranks, rank):
    """Returns the chunk of torch.chunk for a rank; empty if there are fewer chunks."""
    size = -(-tensor.shape[dim] // ranks)
    start = min(rank * size, tensor.shape[dim])
    return tensor.narrow(dim, start, min(size, tensor.shape[dim] - start)).clone()


def packed_piece(tensor, dim, ranks, rank):
    return torch.cat([piece(part, dim, ranks, rank) for part in tensor.chunk(PACKED, dim)], dim)


def together(many, forward, backward, **claim):
    return Many(list(_Together.apply(forward, backward, *many.locals)), **claim)


def plain(many):
    return Many(many.locals)


def summed_back(many):
    """Returns the value unchanged. The backward sums its gradients."""
    return together(many, _same, _sum, kind=many.kind, dim=many.dim, size=many.size)


def redistribute(many, kind, dim=0):
    """Redistributes a DTensor like torch, forward and backward."""
    ranks = len(many.locals)
    if kind == "S":
        dim %= many.locals[0].ndim
    if many.kind == kind and (kind != "S" or many.dim == dim):
        return many
    if many.kind == "P" and kind == "R":
        return together(many, _sum, _same, kind="R")
    if many.kind == "P" and kind == "S":
        size = many.locals[0].shape[dim]
        return together(many, lambda ts: _pieces(dim)(_sum(ts)), _whole(dim), kind="S", dim=dim, size=size)
    if many.kind == "R" and kind == "S":
        return together(many, _pieces(dim), _whole(dim), kind="S", dim=dim, size=many.locals[0].shape[dim])
    if many.kind in ("S", "K"):
        sizes = [t.shape[many.dim] for t in many.locals]
        if sum(sizes) != many.size:
            raise Crash(f"pieces of {sizes} are no {many.size}")
        if many.kind == "K":
            whole = together(
                many,
                _unpacked(many.dim),
                lambda gs: [packed_piece(g, many.dim, ranks, r) for r, g in enumerate(gs)],
                kind="R",
            )
        else:
            whole = together(many, _whole(many.dim), _pieces(many.dim), kind="R")
        return redistribute(whole, kind, dim)
    raise Unsupported(f"{many.kind} to {kind}")


def _unpacked(dim):
    def gather(tensors):
        parts = [t.chunk(PACKED, dim) for t in tensors]
        whole = torch.cat([part[i] for i in range(PACKED) for part in parts], dim)
        return [whole.clone() for _ in tensors]

    return gather


def claimed(many, kind, dim=0, size=None):
    """Wraps local tensors like from_local without a check."""
    if many.kind is not None:
        return many
    if kind == "S":
        dim %= many.locals[0].ndim
        size = sum(t.shape[dim] for t in many.locals) if size is None else size
        ranks = len(many.locals)
        for r, t in enumerate(many.locals):
            if t.shape[dim] != piece(torch.empty(size), 0, ranks, r).shape[0]:
                raise Crash(f"a piece of {t.shape[dim]} is no part of {size}")
    return Many(many.locals, kind, dim, size or 0)


# ---- operations of DTensors ----


def linear(x, weight, bias):
    if weight.kind in ("K", "P"):
        weight = redistribute(weight, "R")
    if x.kind in ("P", "K"):
        x = redistribute(x, "R")
    last = x.locals[0].ndim - 1
    if weight.kind == "S" and weight.dim == 0:
        x = redistribute(x, "R")
        bias = bias and (redistribute(bias, "S", 0) if bias.kind == "R" else bias)
        return each(torch.nn.functional.linear, summed_back(x), weight, bias, kind="S", dim=last, size=weight.size)
    if weight.kind == "S" or (x.kind == "S" and x.dim == last):
        x, weight = redistribute(x, "S", last), redistribute(weight, "S", 1)
        bias = bias and redistribute(bias, "R")
        ranks = len(x.locals)
        part = bias and together(bias, lambda ts: [t / ranks for t in ts], _same)
        return each(torch.nn.functional.linear, x, weight, part, kind="P")
    bias = bias and redistribute(bias, "R")
    if x.kind == "S":
        return each(
            torch.nn.functional.linear,
            x,
            summed_back(weight),
            bias and summed_back(bias),
            kind="S",
            dim=x.dim,
            size=x.size,
        )
    return each(torch.nn.functional.linear, x, weight, bias, kind="R")


def embedding(ids, weight):
    if weight.kind == "K":
        weight = redistribute(weight, "R")
    last = ids.locals[0].ndim
    if weight.kind == "S" and weight.dim == 0:
        ids, found, start = redistribute(ids, "R"), [], 0
        for tokens, table in zip(ids.locals, weight.locals):
            mine = (tokens >= start) & (tokens < start + table.shape[0])
            rows = (
                torch.nn.functional.embedding((tokens - start) * mine, table)
                if table.shape[0]
                else table.new_zeros((*tokens.shape, table.shape[1]))
            )
            found.append(rows * mine[..., None])
            start += table.shape[0]
        return Many(found, "P")
    if weight.kind == "S":
        return each(torch.nn.functional.embedding, redistribute(ids, "R"), weight, kind="S", dim=last, size=weight.size)
    if ids.kind == "S":
        return each(torch.nn.functional.embedding, ids, summed_back(weight), kind="S", dim=ids.dim, size=ids.size)
    return each(torch.nn.functional.embedding, ids, weight, kind="R")


def each(function, *many, **claim):
    """Applies the function on every rank."""
    try:
        return Many([function(*(m and m.locals[r] for m in many)) for r in range(len(many[0].locals))], **claim)
    except (RuntimeError, IndexError) as error:
        raise Crash(str(error)) from error


# ---- one execution ----


class Run:
    def __init__(self, model, ranks, plan, leaves):
        self.graph, self.ranks = graph_runs.Graph(model["graph"]), ranks
        self.modules = {m["path"]: m for m in model["modules"]}
        self.parameters = {_join(m["path"], n) for m in model["modules"] for n in m.get("parameters", {})}
        self.plan = plan
        self.rope = self.modules[""].get("attributes", {}).get("qk_rope_head_dim")
        self.styles = _expanded(self.modules, plan)
        self.grad_summed, self.local = set(), []
        self.values = {}
        self.leaves = {}  # path -> Many of leaf tensors, for gradients
        self._apply(leaves)

    def _apply(self, leaves):
        """Applies the plan: raises Crash for its errors, and shards the parameters."""
        if not self.plan:
            raise Crash("no plan", "apply")
        if unknown := set(self.plan.values()) - KNOWN:
            raise Crash(f"unknown styles {unknown}", "apply")
        for path, style in self.styles.items():
            module = self.modules.get(path)
            if path in self.parameters:
                continue
            kind, attributes = module["type"], module.get("attributes", {})
            has = (
                {"in", "out"}
                if self._is_linear(module)
                else {n for n in ("in", "out") if f"{n}_features" in attributes}
            )
            if style in ("colwise", "colwise_gather_output", "colwise_rep") and "out" not in has:
                raise Crash(f"{kind} has no out_features", "apply")
            if style in ("rowwise", "rowwise_split_input", "rowwise_rep") and "in" not in has:
                raise Crash(f"{kind} has no in_features", "apply")
        for value, kind, path in self.graph.leaves:
            whole = leaves[path]
            if kind != "param":
                self.values[value] = Many([whole] * self.ranks)
                continue
            many = self._sharded(path, whole)
            self.leaves[path] = many
            self.values[value] = many

    def _is_linear(self, module):
        weight = module.get("parameters", {}).get("weight")
        return module["type"].endswith("Linear") and weight is not None and "features" not in module

    def _sharded(self, path, whole):
        style, module = self.styles.get(path), path.rpartition(".")[0]
        if self.styles.get(module) == "sequence_parallel":
            if style not in (None, "sequence_parallel"):
                raise Unsupported("a sharded parameter in a module under sequence_parallel")
            return self._leaf([whole] * self.ranks, "R")
        dim, name = None, path.rpartition(".")[2]
        if style in ("colwise", "colwise_gather_output", "colwise_rep"):
            dim = whole.ndim - 2 if whole.ndim > 1 else 0
            if whole.ndim == 1:
                dim = 0
        elif style in ("rowwise", "rowwise_split_input", "rowwise_rep"):
            if name == "bias":
                return self._leaf([whole] * self.ranks, "R")
            dim = whole.ndim - 1
        elif style == "embedding_rowwise":
            dim = 0
        elif style == "embedding_colwise":
            dim = 1
            if whole.ndim < 2:
                raise Crash("no dim 1", "apply")
        elif style in ("packed_colwise", "packed_rowwise"):
            if whole.ndim == 1:
                if style == "packed_rowwise":
                    return self._leaf([whole] * self.ranks, "R")
                dim = 0
            else:
                dim = whole.ndim - 2 if style == "packed_colwise" else whole.ndim - 1
                return self._leaf(
                    [packed_piece(whole, dim, self.ranks, r) for r in range(self.ranks)], "K", dim, whole.shape[dim]
                )
        if dim is None:
            return self._leaf([whole] * self.ranks, None)
        return self._leaf([piece(whole, dim, self.ranks, r) for r in range(self.ranks)], "S", dim, whole.shape[dim])

    def _leaf(self, tensors, kind, dim=0, size=0):
        return Many([t.detach().clone().requires_grad_(t.is_floating_point()) for t in tensors], kind, dim, size)

    def forward(self):
        for node in self.graph.nodes:
            if node[0] == "@enter":
                self._enter(self.graph.strings[node[1]], node[2], node[4])
            elif node[0] == "@exit":
                self._exit(self.graph.strings[node[1]], node[2])
            else:
                self._call(*node)
        return [self.values[v] for v in self.graph.outputs]

    # Module boundaries.

    def _enter(self, path, positional, row):
        for _, outside, inside, *_ in row:
            self.values[inside] = self.values[outside]
        style = self.styles.get(path)
        if style in LOCAL:
            self.local.append(path)
        if style == "replicated_with_grad_allreduce":
            self.grad_summed.add(path)
        if style not in INPUTS:
            return
        given = {place[0]: inside for place, _, inside, *_ in row if len(place) == 1}
        if positional == 0:
            raise Crash(f"{path} is called with keywords only")
        if 0 not in given:
            raise Crash(f"the first argument of {path} is no tensor")
        INPUTS[style](self, self.modules[path], given)

    def _exit(self, path, row):
        for _, inside, outside in row:
            self.values[outside] = self.values[inside]
        style = self.styles.get(path)
        if style in LOCAL:
            self.local.remove(path)
        if style in OUTPUTS:
            if style == "sequence_parallel" and (len(row) != 1 or row[0][0]):
                return
            if len(row) != 1 or row[0][0]:
                raise Crash(f"{path} returns no tensor")
            self.values[row[0][2]] = OUTPUTS[style](self, self.modules[path], self.values[row[0][2]])

    # Operations.

    def _call(self, name, args, keywords, results):
        used = sorted({v for a in [*args, *keywords[1::2]] for v in _values_in(a)})
        many = {v: self._seen(v) for v in used}
        spread = [m for m in many.values() if m.kind is not None]
        if spread:
            made = self._dtensor_call(name, args, keywords, many)
        else:
            made = self._local_call(name, args, keywords, many)
        for value, found in zip(results, made):
            if not self.graph.requires_grad[value]:
                found = dataclasses.replace(found, locals=[t.detach() for t in found.locals])
            self.values[value] = found

    def _seen(self, value):
        """Returns a value; as a plain tensor if it is a parameter of a module that computes on local tensors."""
        many = self.values[value]
        if many.kind is not None and self.local:
            path = next((p for v, k, p in self.graph.leaves if v == value and k == "param"), None)
            if path is not None and path.rpartition(".")[0] in self.local:
                return plain(many)
        return many

    def _local_call(self, name, args, keywords, many):
        rows = []
        for rank in range(self.ranks):
            tensors = _Ranked(self.values, many, rank)
            given = self.graph.arguments(args, keywords, tensors)
            try:
                rows.append(graph_runs.call(name, *given))
            except (LookupError, NotImplementedError) as error:
                raise Unsupported(f"{name}: {error}") from error
            except (RuntimeError, IndexError, ValueError, TypeError) as error:
                raise Crash(f"{name}: {error}") from error
        return [Many(list(row)) for row in zip(*rows)]

    def _dtensor_call(self, name, args, keywords, many):
        single = [m for m in many.values() if m.kind is None and m.locals[0].numel() != 1]
        if single:
            raise Crash(f"{name} got mixed torch.Tensor and DTensor")
        many = {v: m if m.kind else dataclasses.replace(m, kind="R") for v, m in many.items()}
        listed = [many[a[0]] if isinstance(a, list) and a and isinstance(a[0], int) else None for a in args]
        if name == "linear":
            return [linear(listed[0], listed[1], listed[2] if len(listed) > 2 else None)]
        if name == "embedding":
            return [embedding(listed[0], listed[1])]
        many = {v: redistribute(m, "R") if m.kind in ("P", "K") else m for v, m in many.items()}
        first = next((m for m in many.values() if m.kind == "S"), None)
        behind = first and first.dim - first.locals[0].ndim
        if first is None or name.rstrip("_") not in POINTWISE or (name in LAST_DIM and behind == -1):
            many = {v: plain(redistribute(m, "R")) for v, m in many.items()}
            return [dataclasses.replace(m, kind="R") for m in self._local_call(name, args, keywords, many)]
        for value, m in many.items():
            tensor = m.locals[0]
            if m.kind == "S" and m.dim - tensor.ndim != behind:
                m = redistribute(m, "R")
            if m.kind == "R":
                cut = tensor.ndim + behind >= 0 and tensor.shape[behind] == first.size and first.size > 1
                m = redistribute(m, "S", tensor.ndim + behind) if cut else summed_back(m)
            many[value] = plain(m)
        made = self._local_call(name, args, keywords, many)
        return [Many(m.locals, "S", m.locals[0].ndim + behind, first.size) for m in made]


class _Ranked(dict):
    """The tensors of one rank by value. Sizes of DTensors are global."""

    def __init__(self, values, many, rank):
        super().__init__()
        self.values_, self.many, self.rank = values, many, rank

    def __missing__(self, value):
        if value in self.many:
            return self.many[value].locals[self.rank]
        return _Shaped(self.values_[value], self.rank)


class _Shaped:
    def __init__(self, many, rank):
        self.shape = list(many.locals[rank].shape)
        if many.kind in ("S", "K"):
            self.shape[many.dim] = many.size


def _values_in(argument):
    if isinstance(argument, list):
        if isinstance(argument[0], int):
            yield argument[0]
        elif argument[0] in ("t", "s"):
            for part in argument[1:]:
                yield from _values_in(part)


def _join(path, name):
    return f"{path}.{name}" if path else name


def _expanded(modules, plan):
    """Returns the style by path of module or parameter, as transformers finds it: a parameter without a rule has its
    module's style.
    """
    found = {}
    for path, module in modules.items():
        generic = re.sub(r"\.\d+(?=\.|$)", ".*", path)
        for name in module.get("parameters", {}):
            style = plan.get(_join(generic, name), plan.get(generic))
            if style is not None:
                found[_join(path, name)] = style
        if generic in plan:
            found[path] = plan[generic]
    return found


# ---- styles of transformers at module boundaries ----

LOCAL = ("packed_colwise", "moe_tp_experts", "local_params")


def _replicated_input(run, module, given):
    many = run.values[given[0]]
    run.values[given[0]] = redistribute(claimed(many, "R"), "R")


def _in_features(module):
    return module.get("attributes", {}).get("in_features") or module["parameters"]["weight"]["shape"][-1]


def _sharded_input(run, module, given):
    many = run.values[given[0]]
    run.values[given[0]] = redistribute(claimed(many, "S", -1, _in_features(module)), "S", -1)


def _split_input(run, module, given):
    run.values[given[0]] = redistribute(claimed(run.values[given[0]], "R"), "S", -1)


def _packed_input(run, module, given):
    many = redistribute(claimed(run.values[given[0]], "R"), "R")
    run.values[given[0]] = plain(summed_back(many))


def _experts_input(run, module, given):
    for position in (0, 2):
        if position in given and (position == 0 or 1 in given):
            run.values[given[position]] = plain(summed_back(run.values[given[position]]))


def _sequence_input(run, module, given):
    run.values[given[0]] = redistribute(claimed(run.values[given[0]], "S", 1), "S", 1)


def _identity_input(run, module, given):
    many = run.values[given[0]]
    run.values[given[0]] = Many([t / run.ranks for t in many.locals])


INPUTS = {
    "colwise": _replicated_input, "colwise_gather_output": _replicated_input, "colwise_rep": _replicated_input,
    "embedding_rowwise": _replicated_input, "embedding_colwise": _replicated_input,
    "rowwise": _sharded_input, "rowwise_split_input": _split_input, "rowwise_rep": _split_input,
    "packed_colwise": _packed_input, "moe_tp_experts": _experts_input, "sequence_parallel": _sequence_input,
    "moe_identity_expert": _identity_input,
}  # fmt: skip


def _last_dim_out(kind):
    def output(run, module, many):
        out = module.get("attributes", {}).get("out_features") or module["parameters"]["weight"]["shape"][0]
        return plain(redistribute(claimed(many, "S", -1, out), kind, -1))

    return output


def _summed_output(run, module, many):
    return plain(redistribute(claimed(many, "P"), "R"))


def _hidden_output(run, module, many):
    if many.kind is None:
        many = claimed(many, "S", -1, module["parameters"]["weight"]["shape"][1])
    return plain(redistribute(many, "R"))


def _rope_output(run, module, many):
    if not run.rope:
        raise Crash("the configuration has no qk_rope_head_dim")
    if many.kind is not None:
        raise Unsupported("mla_kv_a_proj of a DTensor")
    passed = Many([t[..., : t.shape[-1] - run.rope] for t in many.locals])
    rope = summed_back(Many([t[..., t.shape[-1] - run.rope :] for t in many.locals]))
    return Many([torch.cat(pair, -1) for pair in zip(passed.locals, rope.locals)])


OUTPUTS = {
    "colwise": _last_dim_out("S"), "colwise_gather_output": _last_dim_out("R"), "colwise_rep": _last_dim_out("R"),
    "rowwise": _summed_output, "rowwise_split_input": _summed_output, "rowwise_rep": _summed_output, "embedding_rowwise": _summed_output,
    "embedding_colwise": _hidden_output, "all_reduce": _summed_output,
    "moe_tp_experts": lambda run, module, many: together(many, _sum, _same),
    "sequence_parallel": lambda run, module, many: plain(many), "mla_kv_a_proj": _rope_output,
}  # fmt: skip


KNOWN = {
    *INPUTS,
    *OUTPUTS,
    *LOCAL,
    "packed_rowwise",
    "replicate",
    "replicated_with_grad_allreduce",
    "grouped_gemm",
    "ep_dispatch_experts",
}


# ---- the verdict ----


def loss_of(tensor):
    weights = torch.randn(tuple(tensor.shape), generator=torch.Generator().manual_seed(9), dtype=torch.float64).to(
        tensor.dtype
    )
    return (tensor * weights).sum()


def whole_run(model, leaves):
    """Returns (outputs, gradients by path) on one rank."""
    graph = graph_runs.Graph(model["graph"])
    leaves = {
        path: t.detach().clone().requires_grad_(t.is_floating_point()) if isinstance(t, torch.Tensor) else t
        for path, t in leaves.items()
    }
    outputs, _ = graph_runs.run(graph, leaves)
    sum(loss_of(o) for o in outputs).backward()
    paths = [path for _, kind, path in graph.leaves if kind == "param"]
    return [o.detach() for o in outputs], {path: leaves[path].grad for path in paths}


def same(found, wanted, floor=0.0):
    if found.shape != wanted.shape:
        return False
    return not wanted.numel() or bool((found - wanted).abs().max() <= TOLERANCE * max(wanted.abs().max().item(), floor))


def judge(model, ranks, plan, leaves, wanted=None):
    """("ok" | "crash_apply" | "crash_forward" | "wrong_output" | "wrong_grad", why). Raises Unsupported."""
    outputs, gradients = wanted or whole_run(model, leaves)
    try:
        run = Run(model, ranks, plan, leaves)
        found = run.forward()
    except Crash as crash:
        return f"crash_{crash.stage}", str(crash)
    for many, whole in zip(found, outputs):
        if many.kind is not None:
            raise Unsupported("a DTensor leaves the model")
        if not all(same(t.detach(), whole) for t in many.locals):
            return "wrong_output", str(list(many.locals[0].shape))
    torch.autograd.backward([loss_of(many.locals[r]) for many in found for r in range(ranks)])
    floor = 1e-9 * max((g.abs().max().item() for g in gradients.values() if g is not None), default=0.0)
    for path, many in run.leaves.items():
        owned = [t.grad if t.grad is not None else torch.zeros_like(t) for t in many.locals]
        if path.rpartition(".")[0] in run.grad_summed:
            owned = _sum(owned)
        if many.kind == "S":
            owned = _whole(many.dim)(owned)
        elif many.kind == "K":
            owned = _unpacked(many.dim)(owned)
        wanted_gradient = gradients[path] if gradients[path] is not None else torch.zeros_like(owned[0])
        if not all(same(g, wanted_gradient, floor) for g in owned):
            return "wrong_grad", path
    return "ok", ""
