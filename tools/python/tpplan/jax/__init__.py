"""Manifests in JAX: shardings of arrays, constraints at module boundaries, rematerialization, sharded initialization.

JAX computes on global arrays and partitions them itself. A manifest therefore becomes NamedShardings of the
parameters, and sharding constraints on the values at module boundaries; XLA inserts the collectives. Rank r of a
manifest is device `mesh.devices.flat[r]`. JAX supports neither uneven shards nor dims sharded per segment. Both raise
ManifestError with the parameter's path.

A model is any pytree of concrete or abstract (jax.eval_shape) arrays: an Equinox module, a Flax NNX module or its
state, a dict of parameters. Paths are the keys joined by dots, as `python -m tpplan.export --jax` writes them.

- model.py creates and places models, with the shardings of arrays.py, and with the arrays of a checkpoint
  (weights.py).
- modules.py gives modules the constraints of boundaries.py.
- transforms.py applies one style to a module, by a plan with one rule.
- states.py matches training states with parameters; checkpoints.py saves and loads them.
- linen.py handles Flax Linen, trees.py pytrees.

Sources: JAX 0.10 (NamedSharding, with_sharding_constraint), Equinox 0.13, Flax 0.12.
"""

from ..manifest import LAYOUT
from ..paths import join
from .arrays import batch_sharding, constrain, get_partition_spec, shardings
from .boundaries import Constraint, constraints, layout_spec
from .checkpoints import load_states, save_states
from .linen import linen_boundaries
from .model import initialize, make_parallel, parallelize
from .states import hold_layout, state_shardings
from .transforms import (
    column_parallel,
    filter_remat,
    fully_shard,
    prepare_input,
    prepare_input_output,
    prepare_output,
    row_parallel,
)
from .trees import Leaf, abstract, children_of, is_array, is_box, leaves_of, ties_of
from .weights import load

__all__ = [
    "LAYOUT",
    "Constraint",
    "Leaf",
    "abstract",
    "batch_sharding",
    "children_of",
    "column_parallel",
    "constrain",
    "constraints",
    "filter_remat",
    "fully_shard",
    "get_partition_spec",
    "hold_layout",
    "initialize",
    "is_array",
    "is_box",
    "join",
    "layout_spec",
    "leaves_of",
    "linen_boundaries",
    "load",
    "load_states",
    "make_parallel",
    "parallelize",
    "prepare_input",
    "prepare_input_output",
    "prepare_output",
    "row_parallel",
    "save_states",
    "shardings",
    "state_shardings",
    "ties_of",
]
