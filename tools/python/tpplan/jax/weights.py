"""A checkpoint as arrays of JAX: each device's pieces, read by libtpplan_load into memory that becomes the arrays'."""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ..manifest import load_manifest
from ..reading import read_new
from .arrays import check_jax_mesh, shardings

ALIGNMENT = 64  # from which on JAX takes memory of numpy as it is


def load(manifest, weights, mesh, *, rename=None):
    """{path: jax.Array} of every parameter, sharded as the manifest says, and of the buffers that the weights have, whole. Each
    process reads the pieces of its own devices; on CPUs the memory that is read into is the arrays'. `weights` and `rename` are
    what tpplan.load takes. Raises LoadError, and ManifestError as `shardings` does."""
    manifest = load_manifest(manifest)
    check_jax_mesh(manifest, mesh)
    wanted = shardings(manifest, mesh)
    whole = NamedSharding(mesh, PartitionSpec())
    pieces = {}  # path: [array of a device]
    for rank, device in enumerate(mesh.devices.flat):
        if device.process_index != jax.process_index():
            continue
        there = {}  # of a tied tensor one array
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
    """An array that begins where JAX takes it without a copy."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)
