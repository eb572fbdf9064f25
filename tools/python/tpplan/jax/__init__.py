"""Manifests in JAX: shardings of arrays, constraints at module boundaries, rematerialisation, sharded initialisation.

JAX computes with whole arrays and cuts them itself, so a manifest becomes NamedShardings: those of the parameters, and those
of the values at module boundaries as sharding constraints; XLA makes the collectives. Rank r of a manifest is device
`mesh.devices.flat[r]`. JAX has no word for pieces of unlike sizes and for dims whose segments are cut each by itself; both are
refused here, with the parameter's name.

A model is any pytree: an Equinox module, a Flax NNX module or its state, a dict of parameters; of arrays, or abstract
(jax.eval_shape). Paths are the keys joined by dots, as `python -m tpplan.export --jax` writes them.

model.py makes and places models, by the shardings of their arrays (arrays.py), with those of a checkpoint (weights.py), and gives
modules (modules.py) their constraints (boundaries.py); transforms.py does one thing to a module, by a plan of one rule; states.py
knows what of a state of training is a parameter's, checkpoints.py has it on disk; linen.py knows what a module of Linen is, trees.py
what a tree of JAX is.

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
