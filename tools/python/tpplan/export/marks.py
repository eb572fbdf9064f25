"""Marks in traced JAX programs: the module of each operation, and the values at module boundaries."""

import contextlib
import json
import re

import jax
from jax.extend import core
from jax.interpreters import ad, batching, mlir

TARGET = "tpplan.boundary"
_SCOPE = re.compile("@([^@]*)@")

# Identity of a value at a boundary. Its gradient is marked as well, because jax.lax.with_sharding_constraint constrains
# it in the same way. `mapped` are the dims that jax.vmap adds.
_boundary = core.Primitive("tpplan_boundary")
_boundary.def_impl(lambda x, **_: x)
_boundary.def_abstract_eval(lambda x, **_: x)
ad.deflinear2(_boundary, lambda gradient, _, **params: [_boundary.bind(gradient, **params)])


def _batched(args, dims, *, mapped, **params):
    (dim,) = dims
    moved = [d + (d >= dim) for d in mapped]
    return _boundary.bind(*args, mapped=tuple(sorted([*moved, dim])), **params), dim


def _lowered(context, x, *, module, value, mapped):
    described = {"module": module, "value": value, "mapped": ",".join(map(str, mapped))}
    attributes = {
        "call_target_name": mlir.ir.StringAttr.get(TARGET),
        "backend_config": mlir.ir.StringAttr.get(json.dumps(described)),
    }
    return mlir.ir.Operation.create("stablehlo.custom_call", [x.type], [x], attributes).results


batching.primitive_batchers[_boundary] = _batched
mlir.register_lowering(_boundary, _lowered)


def mark(value, module, name):
    """Returns the value, marked if it is an array: `name` is "in 0", "in mask" or "out 0"."""
    if not isinstance(value, jax.Array) or jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        return value
    return _boundary.bind(value, module=module, value=name, mapped=())


def mark_inputs(module, args, kwargs):
    return (
        tuple(mark(x, module, f"in {i}") for i, x in enumerate(args)),
        {name: mark(x, module, f"in {name}") for name, x in kwargs.items()},
    )


def mark_outputs(module, result):
    if not isinstance(result, (tuple, list)):
        return mark(result, module, "out 0")
    new = [mark(x, module, f"out {i}") for i, x in enumerate(result)]
    return type(result)(*new) if hasattr(result, "_fields") else type(result)(new)


@contextlib.contextmanager
def module_scope(path):
    """Names the operations that are traced inside after the module."""
    with jax.named_scope(f"@{path}@"):
        yield


def location_of(name, outer=None):
    """Returns (module, operation, True in the backward pass) of an operation's name in StableHLO. `outer` is that of
    the call whose function the operation is in: names there are relative."""
    scopes = _SCOPE.findall(name)
    module, backward = (outer[0], outer[2]) if outer else (None, False)
    backward = backward or "transpose(" in name
    rest = _SCOPE.sub("", name).rpartition("/")[2]
    return scopes[-1] if scopes else module, rest, backward
