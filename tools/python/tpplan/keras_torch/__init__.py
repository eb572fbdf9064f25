"""The distribution library that Keras' torch backend lacks, of DTensors: one process a device, under torchrun.

`install()` puts it where Keras looks for one, once a process. Under a current distribution then, as on JAX:
trainable variables, and those with a layout, are DTensors from their creation on, and every assignment keeps their
placements; outputs of layers go to their layouts; `fit`, `evaluate` and `predict` cut each batch, which every process gets
whole, over the batch's axes; plain tensors that meet DTensors count as whole on every rank. Metrics, counters and states of
random generators stay plain, the same on every rank. The functions have the names and arguments of
keras/src/backend/jax/distribution_lib.py.
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
