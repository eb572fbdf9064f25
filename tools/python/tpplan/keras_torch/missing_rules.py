"""What DTensor has no rule for, or has one that fails: computed whole on every rank, in forward and backward passes alike."""

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
_state = threading.local()  # running: the thread is inside a look-up


def add_missing_rules():
    """From now on an operation that DTensor has no rule for gathers what it is given, and its results are whole; each is said once,
    as a warning of the logger `tpplan`."""
    propagator = DTensor._op_dispatcher.sharding_propagator
    plainly = propagator.propagate_op_sharding_non_cached

    def filled(propagate):
        def sharding_of(schema):
            if getattr(_state, "running", False):  # DTensor tries operations that one is made of
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
    """Whether a value among these is cut in pieces that do not lie together, as what a view makes of an inner dim that was cut: torch
    searches for minutes for what to do with two of them."""
    specs = specs if isinstance(specs, (list, tuple)) else [specs]
    return any(isinstance(p, _StridedShard) for spec in specs if spec is not None for p in spec.placements)


def _is_composite(op):
    """DTensor takes these apart by itself when it is told that there is no rule."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)


def _whole(schema, propagator, plainly):
    """The sharding of an operation whose operands and results are whole; None where that cannot be, as for what is written into a
    tensor that is cut. It is worked out by a rule that stands for the time of this look-up: DTensor remembers what comes of it."""
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
    """What DTensor remembers a sharding by: all that is given beside tensors, since results have sizes that depend on it."""
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
        _log.warning("%s is computed whole on every rank: %s", op, why)
