"""The distribution library that Keras' torch backend lacks, based on DTensor: one process per device, under torchrun.

`install()` registers it with Keras, once per process. Under a current distribution the behaviour is that of JAX:

- Trainable variables, and variables with a layout, are DTensors from their creation. Assignments keep their
  placements.
- Outputs of layers are redistributed to their layouts.
- `fit`, `evaluate` and `predict` shard each batch over the batch axes. Every process gets the full batch.
- Plain tensors that are combined with DTensors count as replicated.
- Metrics, counters and states of random generators stay plain, the same on every rank.

The functions have the names and arguments of keras/src/backend/jax/distribution_lib.py.
"""

from .collectives import all_gather, all_gather_variable, all_reduce
from .devices import (
    _to_backend_mesh,
    all_processes,
    get_device_count,
    initialize,
    keras_mesh,
    list_devices,
    mesh_info,
    num_processes,
    process_id,
)
from .distribute import distribute_data_input, distribute_tensor, distribute_variable
from .layouts import _to_backend_layout, find_layout, output_layout, placements_of, torch_path
from .patches import PATCHES, install
from .variables import fill_variables, is_spread, read_pieces, spread_variables

__all__ = [
    "PATCHES",
    "_to_backend_layout",
    "_to_backend_mesh",
    "all_gather",
    "all_gather_variable",
    "all_processes",
    "all_reduce",
    "distribute_data_input",
    "distribute_tensor",
    "distribute_variable",
    "fill_variables",
    "find_layout",
    "get_device_count",
    "initialize",
    "install",
    "is_spread",
    "keras_mesh",
    "list_devices",
    "mesh_info",
    "num_processes",
    "output_layout",
    "placements_of",
    "process_id",
    "read_pieces",
    "spread_variables",
    "torch_path",
]
