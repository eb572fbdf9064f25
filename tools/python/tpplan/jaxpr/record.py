"""Traces what one rank runs under jax.shard_map, together with the global program.

The program is traced twice, without data or devices. On a mesh of one rank every shard is the full array and every
collective is the identity. On the target mesh the arrays are local shards. Both jaxprs have the same equations.

A number that differs, such as a size or the row range of a vocabulary shard, comes from the shards or the mesh. Both
values are stored. A trace is therefore valid for one plan on one mesh; the first operations (`in_spec`)
name their specs.
"""

import dataclasses

import jax
import numpy as np
from jax.sharding import AbstractMesh, PartitionSpec

from ..files import InputError, printable
from . import primitives, tables
from .tables import Number, Value

# Primitives that call a jaxpr -> the parameter with that jaxpr, which is inlined.
INLINED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_lin": "call_jaxpr",
    "run_state": "jaxpr",
}
# A longer scan is traced as one operation, for which no rule exists.
MOST_TURNS = 256


@dataclasses.dataclass(frozen=True)
class Argument:
    """An array argument of the program: a parameter of the model with its path, or an input with its name."""

    kind: str
    path: str
    shape: tuple
    dtype: str
    spec: tuple  # for each dim None, an axis, or a tuple of axes


@dataclasses.dataclass
class Walk:
    recording: tables.Recording
    whole: dict  # variable of the one-rank jaxpr -> Value or Number
    local: dict  # variable of the mesh's jaxpr -> Value or Number
    before_sum: dict  # result of a collective in the mesh's jaxpr only -> its operand


def record(function, arguments, mesh, out_specs=None):
    """Returns the Recording of function(*arrays) as a rank of `mesh`, {axis: size}, runs it. `out_specs` has a spec
    for each result, or None for a replicated one. Raises InputError if the program fails or its two traces differ."""
    whole = _trace(function, arguments, dict.fromkeys(mesh, 1), "on one rank")
    local = _trace(function, arguments, mesh, "on the mesh " + ", ".join(f"{a}={n}" for a, n in mesh.items()))
    recording = tables.Recording()
    walk = Walk(recording, {}, {}, {})
    bound = [_bind(recording, argument, mesh) for argument in arguments]
    consts = len(whole.jaxpr.invars) - len(arguments)
    for i, (w, n) in enumerate(zip(whole.jaxpr.invars, local.jaxpr.invars)):
        value = _constant(walk, whole.consts[i], local.consts[i]) if i < consts else bound[i - consts]
        walk.whole[w] = walk.local[n] = value
    results = _run(walk, whole.jaxpr, local.jaxpr)
    specs = list(out_specs) if out_specs is not None else []
    if len(specs) > len(results):
        raise InputError(
            f"there are {len(specs)} specs for {len(results)} results", "give one spec per result, in order"
        )
    specs += [None] * (len(results) - len(specs))
    for value, spec in zip(results, specs):
        if isinstance(value, Value):
            spec = _spec_argument(tuple(spec or ()), len(value.whole))
            out = tables.new_value(recording, value.whole, value.whole, value.dtype)
            tables.add_node(recording, "out_spec", [[value.id], spec], [out])
            recording.outputs.append(out.id)
    if not recording.outputs:
        raise InputError("the program returns no array", "return the arrays that the model computes", 1)
    return recording


@dataclasses.dataclass
class Traced:
    jaxpr: object
    consts: list


def _trace(function, arguments, mesh, where):
    """Returns the jaxpr that a rank runs, with the values of its closed-over constants, which come before the
    arguments. Raises InputError if the program fails."""
    specs = [PartitionSpec(*argument.spec) for argument in arguments]
    shapes = [jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in arguments]
    try:
        mapped = jax.shard_map(
            function,
            mesh=AbstractMesh(tuple(mesh.values()), tuple(mesh)),
            in_specs=tuple(specs),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
        outer = jax.make_jaxpr(mapped)(*shapes)
    except Exception as error:  # whatever the program raises
        raise InputError(
            f"the program fails {where}: {type(error).__name__}: {printable(str(error), 500)}",
            "make it accept the local shards of the plan: it is traced as one rank of jax.shard_map",
            1,
        ) from None
    equation = next(e for e in outer.jaxpr.eqns if e.primitive.name == "shard_map")
    known = dict(zip(outer.jaxpr.constvars, outer.consts))
    inner = equation.params["jaxpr"]
    consts = []
    for given in equation.invars[: len(inner.invars) - len(arguments)]:
        consts.append(given.val if hasattr(given, "val") else known[given])
    return Traced(inner, consts)


def _bind(recording, argument, mesh):
    local = list(argument.shape)
    for dim, axes in enumerate(argument.spec):
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            local[dim] //= mesh[axis]
    leaf = tables.add_leaf(recording, argument.kind, argument.path, argument.shape, argument.shape, argument.dtype)
    value = tables.new_value(recording, argument.shape, local, argument.dtype)
    spec = _spec_argument(argument.spec, len(argument.shape))
    sizes = ["t", *[part for axis, size in mesh.items() for part in (axis, size)]]
    tables.add_node(recording, "in_spec", [[leaf.id], spec, sizes], [value])
    return value


def _spec_argument(spec, ndim):
    spec = (*spec, *[None] * (ndim - len(spec)))
    return ["t", *[["t", *axes] if isinstance(axes, (tuple, list)) else axes for axes in spec]]


def _constant(walk, whole, local):
    """Returns an array or number that the program closes over. Raises InputError if an array differs between the two
    traces."""
    shape, own = np.shape(whole), np.shape(local)
    dtype = str(getattr(whole, "dtype", None) or np.asarray(whole).dtype)
    if not shape and not own:
        return Number(np.asarray(whole).item(), np.asarray(local).item(), dtype)
    if shape != own or (whole is not local and not np.array_equal(np.asarray(whole), np.asarray(local))):
        raise InputError(
            "an array that is created outside of JAX differs between the mesh and one rank",
            "create it with jax.numpy, or pass it as an input with a spec",
            1,
        )
    recording = walk.recording
    return tables.add_leaf(recording, "constant", f"constant {len(recording.leaves)}", shape, own, dtype)


def _read(walk, whole, local):
    """Returns an operand of an equation: a Value or a Number. Raises InputError if the two traces use different
    values."""
    if hasattr(local, "val"):
        at_first = whole.val if hasattr(whole, "val") else walk.whole[whole].whole
        dtype = str(local.aval.dtype) if hasattr(local.aval, "dtype") else "int32"
        if np.shape(local.val):
            return _constant(walk, at_first, local.val)
        return Number(np.asarray(at_first).item(), np.asarray(local.val).item(), dtype)
    first, value = walk.whole.get(whole), walk.local[local]
    while isinstance(value, Value) and first != value and value.id in walk.before_sum:
        if first == walk.before_sum[value.id]:
            return walk.local[local]
        value = walk.before_sum[value.id]
    if first != value:
        raise _other_way("an operation has a different operand")
    return walk.local[local]


def _other_way(what):
    return InputError(
        f"the program on the mesh differs from the program on one rank: {what}",
        "remove code that depends on the number of ranks: both traces must match",
        1,
    )


def _run(walk, whole, local):
    """Adds the equations of both jaxprs, pairwise. Returns the program's results. Raises InputError if they differ in
    more than collectives."""
    first, own = list(whole.eqns), list(local.eqns)
    at = 0
    for equation in own:
        name = equation.primitive.name
        known = first[at].primitive.name if at < len(first) else None
        if name != known:
            if name not in primitives.SUMS:
                raise _other_way(f"`{known}` on one rank, `{name}` on the mesh")
            _sum_of_the_mesh(walk, equation)
            continue
        _run_equation(walk, first[at], equation)
        at += 1
    if at < len(first):
        raise _other_way(f"`{first[at].primitive.name}` is missing on the mesh")
    return [_read(walk, w, n) for w, n in zip(whole.outvars, local.outvars)]


def _sum_of_the_mesh(walk, equation):
    """Adds a collective that only the mesh's jaxpr has. On one rank it is the identity."""
    axes = primitives.axis_names(equation.params["axes"])
    for var, out in zip(equation.invars, equation.outvars):
        value = walk.local[var]
        made = tables.new_value(walk.recording, value.whole, value.local, value.dtype)
        tables.add_node(walk.recording, primitives.SUMS[equation.primitive.name], [[value.id], axes], [made])
        walk.local[out] = made
        walk.before_sum[made.id] = value


def _run_equation(walk, whole, local):
    name = whole.primitive.name
    if len(whole.invars) != len(local.invars) or len(whole.outvars) != len(local.outvars):
        raise _other_way(f"`{name}`")
    ins = [_read(walk, w, n) for w, n in zip(whole.invars, local.invars)]
    if name in INLINED:
        made = _inline(walk, whole.params[INLINED[name]], local.params[INLINED[name]], ins)
    elif name == "scan" and whole.params["length"] == local.params["length"] <= MOST_TURNS:
        made = _scan(walk, whole, local, ins)
    elif name == "debug_callback":
        made = []
    else:
        made = primitives.make(primitives.Step(walk.recording, name, whole, local, ins))
    for w, n, value in zip(whole.outvars, local.outvars, made):
        walk.whole[w] = walk.local[n] = value


def _inline(walk, whole, local, ins):
    """Adds the equations of a called jaxpr. Each call binds its variables again, because one jaxpr may be called
    several times."""
    inner, own = getattr(whole, "jaxpr", whole), getattr(local, "jaxpr", local)
    for i, (a, b) in enumerate(zip(inner.constvars, own.constvars)):
        walk.whole[a] = walk.local[b] = _constant(walk, whole.consts[i], local.consts[i])
    for a, b, value in zip(inner.invars, own.invars, ins):
        walk.whole[a] = walk.local[b] = value
    return _run(walk, inner, own)


def _scan(walk, whole, local, ins):
    """Unrolls a scan: adds its body once per iteration."""
    consts, carried, turns = (whole.params[key] for key in ("num_consts", "num_carry", "length"))
    fixed, carry, stacked = ins[:consts], ins[consts : consts + carried], ins[consts + carried :]
    collected = []
    order = range(turns - 1, -1, -1) if whole.params["reverse"] else range(turns)
    for turn in order:
        rows = [_row(walk, x, turn) for x in stacked]
        results = _inline(walk, whole.params["jaxpr"], local.params["jaxpr"], [*fixed, *carry, *rows])
        carry = results[:carried]
        collected.append(results[carried:])
    if whole.params["reverse"]:
        collected.reverse()
    return [*carry, *[_stack(walk, [turn[i] for turn in collected]) for i in range(len(whole.outvars) - carried)]]


def _row(walk, x, turn):
    if isinstance(x, Number):
        return x
    value = tables.new_value(walk.recording, x.whole[1:], x.local[1:], x.dtype)
    tables.add_node(walk.recording, "select", [[x.id], 0, turn], [value])
    return value


def _stack(walk, rows):
    """Returns the stacked results of the iterations."""
    shapes = {(row.whole, row.local) for row in rows if isinstance(row, Value)}
    if len(shapes) != 1 or not all(isinstance(row, Value) for row in rows):
        raise InputError(
            "a scan stacks numbers or arrays of different shapes", "return arrays of one shape from the scan body", 1
        )
    whole, local = shapes.pop()
    value = tables.new_value(walk.recording, (len(rows), *whole), (len(rows), *local), rows[0].dtype)
    tables.add_node(walk.recording, "stack", [["t", *[[row.id] for row in rows]], 0], [value])
    return value
