"""Loads a checkpoint as JAX arrays: libtpplan_load reads each device's shards into the memory of the arrays."""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ..manifest import load_manifest
from ..load_weights import read_new
from .arrays import check_jax_mesh, shardings

ALIGNMENT = 64  # bytes; JAX uses numpy memory of this alignment without a copy


def load(manifest, weights, mesh, *, rename=None):
    """Returns {path: jax.Array} of every parameter, sharded as the manifest specifies, and of the buffers in the
    checkpoint, replicated.

    Each process reads the shards of its local devices. On CPUs the arrays use the memory that was read into.
    `weights` and `rename` are as in tpplan.load. Raises LoadError, and ManifestError as `shardings` does.
    """
    manifest = load_manifest(manifest)
    check_jax_mesh(manifest, mesh)
    wanted = shardings(manifest, mesh)
    whole = NamedSharding(mesh, PartitionSpec())
    pieces = {}  # path -> arrays, one per local device
    for rank, device in enumerate(mesh.devices.flat):
        if device.process_index != jax.process_index():
            continue
        there = {}  # id of a value -> its array on this device; tied tensors share it
        for path, value in read_new(manifest, weights, rank, _aligned, rename=rename).items():
            if id(value) not in there:
                there[id(value)] = jax.device_put(value, device)
            pieces.setdefault(path, []).append(there[id(value)])
    shapes = {path: tensor.shape for path, tensor in (*manifest.parameters.items(), *manifest.buffers.items())}
    return {
        path: jax.make_array_from_single_device_arrays(shapes[path], wanted.get(path, whole), arrays)
        for path, arrays in pieces.items()
    }


def _aligned(shape, dtype):
    """Returns an empty numpy array with the alignment at which JAX uses its memory without a copy."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)
