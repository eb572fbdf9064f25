"""Loads a checkpoint as JAX arrays: libtpplan_load reads each device's shards into the memory of the arrays."""

import functools

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ..manifest import load_manifest
from ..load_weights import read_new
from .arrays import check_jax_mesh, shardings

ALIGNMENT = 64  # bytes; JAX uses numpy memory of this alignment without a copy


def load(manifest, weights, mesh, *, rename=None, on_module=None, progress=None):
    """Returns {path: jax.Array} of every parameter, sharded as the manifest specifies, and of the buffers in the
    checkpoint, replicated.

    Each process reads the shards of its local devices. On CPUs the arrays use the memory that was read into.
    `weights`, `rename`, `on_module` and `progress` are as in tpplan.load. A module is filled once it is on all local
    devices, and `progress` counts their bytes. Raises LoadError, and ManifestError as `shardings` does.
    """
    manifest = load_manifest(manifest)
    check_jax_mesh(manifest, mesh)
    wanted = shardings(manifest, mesh)
    whole = NamedSharding(mesh, PartitionSpec())
    pieces = {}  # path -> arrays, one per local device
    local = [(r, d) for r, d in enumerate(mesh.devices.flat) if d.process_index == jax.process_index()]
    for index, (rank, device) in enumerate(local):
        there = {}  # id of a value -> its array on this device; tied tensors share it
        options = {
            "rename": rename,
            "on_module": on_module if index == len(local) - 1 else None,
            "progress": progress and functools.partial(_progress_of_all, progress, index, len(local)),
        }
        for path, value in read_new(manifest, weights, rank, _aligned, **options).items():
            if id(value) not in there:
                there[id(value)] = jax.device_put(value, device)
            pieces.setdefault(path, []).append(there[id(value)])
    shapes = {path: tensor.shape for path, tensor in (*manifest.parameters.items(), *manifest.buffers.items())}
    return {
        path: jax.make_array_from_single_device_arrays(shapes[path], wanted.get(path, whole), arrays)
        for path, arrays in pieces.items()
    }


def _progress_of_all(progress, index, count, done_bytes, total_bytes):
    """Reports the bytes of `count` devices, of which `index` are read. JAX has no uneven shards, so all have equal
    sizes."""
    progress(index * total_bytes + done_bytes, count * total_bytes)


def _aligned(shape, dtype):
    """Returns an empty numpy array with the alignment at which JAX uses its memory without a copy."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)
