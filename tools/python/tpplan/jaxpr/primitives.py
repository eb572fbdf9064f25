"""JAX primitives as operations of the graph, named and called as in lib/ops. One function per primitive takes the
Step and returns its results. A primitive without an entry is traced as `jax.<name>`, and the program reports that no
rule describes it."""

import dataclasses
import fractions
import string

from . import tables
from .tables import Number, Value


@dataclasses.dataclass
class Step:
    """One equation, in the global program and on a rank."""

    recording: tables.Recording
    name: str
    whole: object  # the equation of the global program
    local: object
    ins: list  # Value or Number

    @property
    def params(self):
        return self.whole.params

    @property
    def own(self):
        return self.local.params


# Elementwise operations, with operands in the same order.
POINTWISE = {
    "add": "add",
    "add_any": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "neg": "neg",
    "max": "maximum",
    "min": "minimum",
    "rem": "fmod",
    "pow": "pow",
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "log1p": "log1p",
    "expm1": "expm1",
    "tanh": "tanh",
    "logistic": "sigmoid",
    "rsqrt": "rsqrt",
    "sqrt": "sqrt",
    "cbrt": "pow",
    "square": "square",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "atan2": "atan2",
    "sinh": "sinh",
    "cosh": "cosh",
    "erf": "erf",
    "erfc": "erfc",
    "erf_inv": "erfinv",
    "abs": "abs",
    "sign": "sign",
    "floor": "floor",
    "ceil": "ceil",
    "round": "round",
    "is_finite": "isfinite",
    "eq": "eq",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "not": "bitwise_not",
    "stop_gradient": "detach",
    "copy": "clone",
    "copy_p": "clone",
    "device_put": "clone",
    "optimization_barrier": "clone",
    "reduce_precision": "trunc",
    "pvary": "clone",
    "pcast": "clone",
    "pbroadcast": "clone",
}
REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_max": "amax",
    "reduce_min": "amin",
    "reduce_prod": "prod",
    "reduce_or": "any",
    "reduce_and": "all",
}
CUMULATIVE = {"cumsum": "cumsum", "cumprod": "cumprod", "cumlogsumexp": "logcumsumexp"}
# Collectives that are the identity on an axis with one rank.
SUMS = {"psum": "psum", "psum_invariant": "psum", "psum2": "psum", "pmax": "pmax", "pmin": "pmin"}
# Primitives with inner programs that are not traced.
CONTROL = ("while", "cond", "pure_callback", "io_callback", "custom_partitioning", "shard_map", "scan")
SCALED = {"mul": False, "div": True}


def make(step):
    """Returns the results of the equation."""
    if step.name in POINTWISE:
        return pointwise(step)
    if step.name in REDUCTIONS:
        return [emit(step, REDUCTIONS[step.name], argument(step, 0), ["t", *map(int, step.params["axes"])])]
    if step.name in CUMULATIVE:
        return [emit(step, CUMULATIVE[step.name], argument(step, 0), int(step.params["axis"]))]
    if step.name in SUMS:
        return extrema(step)
    rule = RULES.get(step.name)
    made = rule(step) if rule is not None else None
    return made if made is not None else unknown(step)


def emit(step, operation, *arguments, out=0):
    """Adds one operation that computes the equation's result `out`, and returns its Value."""
    whole, local = step.whole.outvars[out].aval, step.local.outvars[out].aval
    return emit_as(step, operation, arguments, whole.shape, local.shape, dtype_of(whole))


def emit_as(step, operation, arguments, whole, local, dtype):
    value = tables.new_value(step.recording, whole, local, dtype)
    tables.add_node(step.recording, operation, list(arguments), [value])
    return value


def dtype_of(aval):
    return str(aval.dtype)


def is_float(dtype):
    return "float" in dtype


def argument(step, position):
    return written(step, step.ins[position])


def written(step, given):
    if isinstance(given, Value):
        return [given.id]
    if given.whole == given.local or given.whole != given.whole:
        return tables.number(given.whole)
    return tables.size(step.recording, given.whole, given.local)


def unknown(step):
    """Adds the equation under its own name, with those sizes of its results that differ on a rank."""
    arguments = [[given.id] if isinstance(given, Value) else tables.number(given.whole) for given in step.ins]
    results = []
    for whole, local in zip(step.whole.outvars, step.local.outvars):
        shape, own = getattr(whole.aval, "shape", ()), getattr(local.aval, "shape", ())
        if tuple(shape) != tuple(own):
            arguments += [tables.size(step.recording, w, n) for w, n in zip(shape, own) if w != n]
        results.append(tables.new_value(step.recording, shape, own, str(getattr(whole.aval, "dtype", "bool"))))
    if step.name in CONTROL or any(isinstance(g, Number) and differs(g) for g in step.ins):
        arguments.append(["o", step.name])
    tables.add_node(step.recording, f"jax.{step.name}", arguments, results)
    return results


def differs(number):
    return number.whole == number.whole and number.whole != number.local


def pointwise(step):
    if step.name in ("optimization_barrier", "pvary", "pcast", "pbroadcast"):
        return [
            emit(step, "clone", written(step, given), out=i) if isinstance(given, Value) else given
            for i, given in enumerate(step.ins)
        ]
    operation = POINTWISE[step.name]
    own = [i for i, given in enumerate(step.ins) if isinstance(given, Number) and differs(given)]
    if not own or not is_float(dtype_of(step.whole.outvars[0].aval)):
        return [emit(step, operation, *[written(step, given) for given in step.ins])]
    # A factor that differs on the ranks: the local values are scaled by the ratio.
    if step.name not in SCALED or len(own) > 1:
        return unknown(step)
    given = step.ins[own[0]]
    ratio = ratio_of(given.local, given.whole)
    if ratio is None:
        return unknown(step)
    if SCALED[step.name] and own[0] == 1:
        ratio = 1 / ratio
    arguments = [tables.number(g.whole) if isinstance(g, Number) else written(step, g) for g in step.ins]
    return [scaled(step, emit(step, operation, *arguments), ratio)]


def scaled(step, value, ratio):
    arguments = ([value.id], ratio.numerator, ratio.denominator)
    return emit_as(step, "local_scale", arguments, value.whole, value.local, value.dtype)


def ratio_of(local, whole):
    """Returns local / whole as a fraction; None if it is not positive, finite and rational."""
    if not whole or local / whole <= 0 or local / whole in (float("inf"), float("-inf")):
        return None
    ratio = fractions.Fraction(float(local / whole)).limit_denominator(1 << 16)
    return ratio if ratio and abs(float(ratio) * whole / local - 1) < 1e-6 else None


def extrema(step):
    if step.params.get("axis_index_groups") is not None:
        return unknown(step)
    axes = axis_names(step.own["axes"])
    return [
        emit(step, SUMS[step.name], written(step, given), axes, out=i) if isinstance(given, Value) else given
        for i, given in enumerate(step.ins)
    ]


def axis_names(axes):
    return ["t", *map(str, axes)] if isinstance(axes, (tuple, list)) else ["t", str(axes)]


def integer_pow(step):
    return [emit(step, "pow", argument(step, 0), int(step.params["y"]))]


def convert(step):
    before, behind = step.ins[0].dtype, dtype_of(step.whole.outvars[0].aval)
    if isinstance(step.ins[0], Number):
        cast = bool if behind == "bool" else float if is_float(behind) else int
        return [Number(cast(step.ins[0].whole), cast(step.ins[0].local), behind)]
    if behind == "bool":
        return [emit(step, "bool", argument(step, 0))]
    return [emit(step, "trunc" if is_float(before) and not is_float(behind) else "to", argument(step, 0))]


def broadcast_in_dim(step):
    whole, local = step.params["shape"], step.own["shape"]
    asked = tables.sizes(step.recording, whole, local)
    given = step.ins[0]
    if isinstance(given, Number):
        return [filled(step, given, whole, local, asked)]
    dims = step.params["broadcast_dimensions"]
    value = given
    for dim in range(len(whole)):
        if dim in dims:
            continue
        shapes = [(*shape[:dim], 1, *shape[dim:]) for shape in (value.whole, value.local)]
        value = emit_as(step, "unsqueeze", ([value.id], dim), *shapes, value.dtype)
    if value.whole == tuple(whole) and value.local == tuple(local):
        return [value]
    return [emit_as(step, "expand", ([value.id], asked), whole, local, value.dtype)]


def filled(step, given, whole, local, asked):
    if not differs(given) and not given.whole and given.whole == given.whole:
        return emit_as(step, "zeros", (asked,), whole, local, given.dtype)
    if not differs(given) or not is_float(given.dtype):
        return emit_as(step, "full", (asked, written(step, given)), whole, local, given.dtype)
    value = emit_as(step, "full", (asked, tables.number(given.whole)), whole, local, given.dtype)
    ratio = ratio_of(given.local, given.whole)
    return scaled(step, value, ratio) if ratio is not None else None


def reshape(step):
    if step.params["dimensions"] is not None:
        return None
    asked = tables.sizes(step.recording, step.params["new_sizes"], step.own["new_sizes"])
    if isinstance(step.ins[0], Number):
        return [filled(step, step.ins[0], step.params["new_sizes"], step.own["new_sizes"], asked)]
    return [emit(step, "reshape", argument(step, 0), asked)]


def squeeze(step):
    value = step.ins[0]
    for dim in sorted((int(d) for d in step.params["dimensions"]), reverse=True):
        shapes = [(*shape[:dim], *shape[dim + 1 :]) for shape in (value.whole, value.local)]
        value = emit_as(step, "squeeze", ([value.id], dim), *shapes, value.dtype)
    return [value]


def expand_dims(step):
    value = step.ins[0]
    for dim in sorted(int(d) for d in step.params["dimensions"]):
        shapes = [(*shape[:dim], 1, *shape[dim:]) for shape in (value.whole, value.local)]
        value = emit_as(step, "unsqueeze", ([value.id], dim), *shapes, value.dtype)
    return [value]


def transpose(step):
    return [emit(step, "permute", argument(step, 0), ["t", *map(int, step.params["permutation"])])]


def argextremum(step):
    if len(step.params["axes"]) != 1:
        return None
    return [emit(step, step.name, argument(step, 0), int(step.params["axes"][0]))]


def dot_general(step):
    if not all(isinstance(given, Value) for given in step.ins):
        return None
    (left, right), (left_batch, right_batch) = step.params["dimension_numbers"]
    letters = iter(string.ascii_letters)
    a = [next(letters) for _ in step.ins[0].whole]
    b = [None] * len(step.ins[1].whole)
    for x, y in (*zip(left, right), *zip(left_batch, right_batch)):
        b[y] = a[x]
    b = [letter or next(letters) for letter in b]
    out = [a[d] for d in left_batch]
    out += [letter for d, letter in enumerate(a) if d not in left and d not in left_batch]
    out += [letter for d, letter in enumerate(b) if d not in right and d not in right_batch]
    equation = f"{''.join(a)},{''.join(b)}->{''.join(out)}"
    return [emit(step, "einsum", equation, argument(step, 0), argument(step, 1))]


def slice_arguments(step, begins, ends, strides, own_begins, own_ends):
    """Returns the index of a slice as an argument; a dim that is taken fully has null bounds."""
    items, value = [], step.ins[0]
    for dim, (begin, end, stride) in enumerate(zip(begins, ends, strides)):
        own_begin, own_end = own_begins[dim], own_ends[dim]
        if not begin and not own_begin and end == value.whole[dim] and own_end == value.local[dim] and stride == 1:
            items.append(["s", None, None, None])
        else:
            begin = tables.size(step.recording, begin, own_begin)
            items.append(["s", begin, tables.size(step.recording, end, own_end), int(stride)])
    return ["t", *items]


def slice_(step):
    strides = step.params["strides"] or [1] * len(step.params["start_indices"])
    items = slice_arguments(
        step,
        step.params["start_indices"],
        step.params["limit_indices"],
        strides,
        step.own["start_indices"],
        step.own["limit_indices"],
    )
    return [emit(step, "__getitem__", argument(step, 0), items)]


def dynamic_slice(step):
    starts = step.ins[1:]
    whole, local = step.params["slice_sizes"], step.own["slice_sizes"]
    if all(isinstance(start, Number) for start in starts):
        begins = [max(0, min(int(s.whole), n - w)) for s, n, w in zip(starts, step.ins[0].whole, whole)]
        owns = [max(0, min(int(s.local), n - w)) for s, n, w in zip(starts, step.ins[0].local, local)]
        ends, own_ends = [b + w for b, w in zip(begins, whole)], [b + w for b, w in zip(owns, local)]
        items = slice_arguments(step, begins, ends, [1] * len(begins), owns, own_ends)
        return [emit(step, "__getitem__", argument(step, 0), items)]
    asked = tables.sizes(step.recording, whole, local)
    return [emit(step, "dynamic_slice", argument(step, 0), ["t", *[written(step, s) for s in starts]], asked)]


def concatenate(step):
    if not all(isinstance(given, Value) for given in step.ins):
        return None
    return [emit(step, "cat", ["t", *[[given.id] for given in step.ins]], int(step.params["dimension"]))]


def pad(step):
    config = step.params["padding_config"]
    plain = all(low >= 0 and high >= 0 and not inner for low, high, inner in config)
    if config != step.own["padding_config"] or not plain or not isinstance(step.ins[1], Number):
        return None
    amounts = [n for low, high, _ in reversed(config) for n in (int(low), int(high))]
    return [emit(step, "pad", argument(step, 0), ["t", *amounts], "constant", tables.number(step.ins[1].whole))]


def split(step):
    axis, pieces = int(step.params["axis"]), tables.sizes(step.recording, step.params["sizes"], step.own["sizes"])
    results = [
        tables.new_value(step.recording, w.aval.shape, n.aval.shape, dtype_of(w.aval))
        for w, n in zip(step.whole.outvars, step.local.outvars)
    ]
    tables.add_node(step.recording, "split", [argument(step, 0), pieces, axis], results)
    return results


def rev(step):
    return [emit(step, "flip", argument(step, 0), ["t", *map(int, step.params["dimensions"])])]


def select_n(step):
    if len(step.ins) != 3 or not isinstance(step.ins[0], Value):
        return None
    return [emit(step, "where", argument(step, 0), argument(step, 2), argument(step, 1))]


def clamp(step):
    return [emit(step, "clamp", argument(step, 1), argument(step, 0), argument(step, 2))]


def sort(step):
    if len(step.ins) != 1:
        return None
    return [emit(step, "sort", argument(step, 0), int(step.params["dimension"]))]


def gather(step):
    """Adds the gather of jnp.take along one dim, or of take_along_axis; returns None for other gathers."""
    x, index = step.ins
    if not isinstance(x, Value) or not isinstance(index, Value) or not index.whole or index.whole[-1] != 1:
        return None
    numbers, taken = step.params["dimension_numbers"], step.params["slice_sizes"]
    if len(numbers.start_index_map) != 1 or tuple(numbers.collapsed_slice_dims) != tuple(numbers.start_index_map):
        return None
    dim = int(numbers.start_index_map[0])
    shapes = [shape[:-1] for shape in (index.whole, index.local)]
    batching = tuple(numbers.operand_batching_dims)
    if batching:
        along = tuple(d for d in range(len(x.whole)) if d != dim)
        if batching != along or tuple(numbers.start_indices_batching_dims) != along or len(shapes[0]) != len(x.whole):
            return None
        rows = emit_as(step, "squeeze", ([index.id], len(shapes[0])), *shapes, index.dtype)
        return [emit(step, "gather", [x.id], dim, [rows.id])]
    if any(size != (1 if d == dim else x.whole[d]) for d, size in enumerate(taken)):
        return None
    if any(size != (1 if d == dim else x.local[d]) for d, size in enumerate(step.own["slice_sizes"])):
        return None
    if len(x.whole) == 1:
        x = emit_as(step, "unsqueeze", ([x.id], 1), (*x.whole, 1), (*x.local, 1), x.dtype)
        rows = emit_as(step, "squeeze", ([index.id], len(shapes[0])), *shapes, index.dtype)
        found = emit_as(step, "embedding", ([rows.id], [x.id]), *[(*s, 1) for s in shapes], x.dtype)
        return [emit(step, "squeeze", [found.id], len(shapes[0]))]
    if dim:
        order = [dim, *[d for d in range(len(x.whole)) if d != dim]]
        turned = [tuple(shape[d] for d in order) for shape in (x.whole, x.local)]
        x = emit_as(step, "permute", ([x.id], ["t", *order]), *turned, x.dtype)
    # The embedding returns the index's dims first, then the row's; the permute restores the requested order.
    if len(x.whole) != 2:
        return None
    rows_at = [d for d in range(len(step.whole.outvars[0].aval.shape)) if d not in numbers.offset_dims]
    order = [rows_at.index(d) if d in rows_at else len(rows_at) for d in range(len(rows_at) + len(numbers.offset_dims))]
    rows = emit_as(step, "squeeze", ([index.id], len(shapes[0])), *shapes, index.dtype)
    made = [(*shape, *rest[1:]) for shape, rest in zip(shapes, (x.whole, x.local))]
    found = emit_as(step, "embedding", ([rows.id], [x.id]), *made, x.dtype)
    return [found] if order == sorted(order) else [emit(step, "permute", [found.id], ["t", *order])]


def iota(step):
    asked = tables.sizes(step.recording, step.params["shape"], step.own["shape"])
    return [emit(step, "iota", asked, int(step.params["dimension"]))]


def all_gather(step):
    if not step.params["tiled"] or step.params.get("axis_index_groups") is not None:
        return None
    dim, axes = int(step.params["all_gather_dimension"]), axis_names(step.own["axis_name"])
    return [emit(step, "all_gather", argument(step, 0), dim, axes)]


def reduce_scatter(step):
    if not step.params["tiled"] or step.params.get("axis_index_groups") is not None:
        return None
    dim, axes = int(step.params["scatter_dimension"]), axis_names(step.own["axis_name"])
    return [emit(step, "reduce_scatter", argument(step, 0), dim, axes)]


def all_to_all(step):
    if not step.params.get("tiled", True) or step.params.get("axis_index_groups") is not None:
        return None
    split_axis, concat_axis = int(step.params["split_axis"]), int(step.params["concat_axis"])
    return [emit(step, "all_to_all", argument(step, 0), split_axis, concat_axis, axis_names(step.own["axis_name"]))]


def axis_index(step):
    return [emit(step, "axis_index", axis_names(step.own["axis_name"]))]


RULES = {
    "integer_pow": integer_pow,
    "convert_element_type": convert,
    "broadcast_in_dim": broadcast_in_dim,
    "reshape": reshape,
    "squeeze": squeeze,
    "expand_dims": expand_dims,
    "transpose": transpose,
    "argmax": argextremum,
    "argmin": argextremum,
    "dot_general": dot_general,
    "slice": slice_,
    "dynamic_slice": dynamic_slice,
    "concatenate": concatenate,
    "pad": pad,
    "split": split,
    "rev": rev,
    "select_n": select_n,
    "clamp": clamp,
    "sort": sort,
    "gather": gather,
    "iota": iota,
    "all_gather": all_gather,
    "all_gather_invariant": all_gather,
    "reduce_scatter": reduce_scatter,
    "all_to_all": all_to_all,
    "axis_index": axis_index,
}
