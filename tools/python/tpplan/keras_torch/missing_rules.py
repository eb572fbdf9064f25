"""Fallback for operations without a working DTensor rule: computed on replicated operands, in the forward and the
backward."""

import functools
import logging
import threading

import torch
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding

from ..torch.placements import DTensor, Replicate, _StridedShard

_log = logging.getLogger("tpplan")
_said = set()
_lock = threading.RLock()
_state = threading.local()  # running: the thread is inside a sharding propagation


def add_missing_rules():
    """Patches DTensor's sharding propagation: an operation without a rule gathers its operands, and its results are
    replicated. The logger `tpplan` warns once per operation."""
    propagator = DTensor._op_dispatcher.sharding_propagator
    plainly = propagator.propagate_op_sharding_non_cached

    def filled(propagate):
        def sharding_of(schema):
            if getattr(_state, "running", False):  # DTensor is trying the operations of a decomposition
                return propagate(schema)
            _state.running = True
            try:
                found = propagate(schema)
                if _interleaves(found.output_spec) and not _interleaves(schema.args_spec):
                    with _lock:
                        return _whole(schema, propagator, plainly) or found
                return found
            except Exception as error:
                if _is_composite(schema.op):
                    raise
                with _lock:
                    found = _whole(schema, propagator, plainly)
                if found is None:
                    raise
                _say(schema.op, error)
                return found
            finally:
                _state.running = False

        return sharding_of

    propagator.propagate_op_sharding = filled(propagator.propagate_op_sharding)
    propagator.propagate_op_sharding_non_cached = filled(plainly)


def _interleaves(specs):
    """Returns True if one of these specs has a strided shard, as a view of a sharded inner dim has. torch's search
    for a strategy with two such operands takes minutes."""
    specs = specs if isinstance(specs, (list, tuple)) else [specs]
    return any(isinstance(p, _StridedShard) for spec in specs if spec is not None for p in spec.placements)


def _is_composite(op):
    """Returns True if DTensor decomposes the operation itself when it has no rule."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)


def _whole(schema, propagator, plainly):
    """Returns the sharding of an operation with replicated operands and results; None if there is none, as for
    in-place writes to a sharded tensor. Its rule is registered for this propagation only, because DTensor caches the
    result."""
    op = schema.op
    tables = (propagator.op_strategy_funcs, propagator.op_single_dim_strategy_funcs)
    infos = (propagator.op_to_schema_info, propagator.op_to_schema_info_for_single_dim_strategy)
    before, known = [table.pop(op, None) for table in tables], infos[0].get(op)
    try:
        register_sharding(op)(functools.partial(_all_whole, op))
        infos[0][op] = known or infos[1].get(op) or _key_of(op)
        return plainly(schema)
    except Exception:
        return None
    finally:
        for table, stood in zip(tables, before):
            table.pop(op, None)
            if stood is not None:
                table[op] = stood


def _key_of(op):
    """Returns the schema info that defines DTensor's cache key: all non-tensor arguments, because the result sizes
    depend on them."""
    arguments = op._schema.arguments
    first = next((i for i, a in enumerate(arguments) if "Tensor" not in str(a.type)), 100)
    return RuntimeSchemaInfo(first, [a.name for a in arguments if a.kwarg_only] or None, needs_pytree=True)


def _all_whole(op, *args, **kwargs):
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if hasattr(leaf, "placements")]
    returned = [Replicate() if "Tensor" in str(r.type) else None for r in op._schema.returns]
    return [(returned, [Replicate()] * len(tensors))]


def _say(op, error):
    if op not in _said:
        _said.add(op)
        why = next(iter(str(error).splitlines()), "") or type(error).__name__
        _log.warning("%s is computed on replicated tensors on every rank: %s", op, why)
