"""The totals of a manifest: sums over parameters, as lib/manifest/manifest.cc (sum_totals) makes them."""

import math

from .dtypes import DTYPE_BITS
from .manifest import device_count, local_shape

TOTALS = ("parameters", "elements", "bytes", "max_bytes_per_rank", "ideal_bytes_per_rank", "replicated_bytes_per_rank")
MAX_LISTED_RANKS = 1 << 20


def counted(manifest, ties):
    """The parameters that the totals count: of a tensor's names, which `ties` groups, the first."""
    again = {path for group in ties for path in group[1:]}
    return [tensor for path, tensor in manifest.parameters.items() if path not in again]


def model_ways(manifest):
    """In how many ways the model could be cut: data axes over which nothing of it is cut do not count."""
    tensors = [*manifest.parameters.values(), *manifest.buffers.values()]
    cut = {axis for tensor in tensors for axes in tensor.spec for axis in axes} | {manifest.fsdp_axis}
    return math.prod(size for name, size in manifest.mesh if name in cut or name not in manifest.data_axes)


def sum_totals(manifest, tensors):
    """The totals that a manifest of these tensors alone has."""
    ranks, sizes = device_count(manifest), dict(manifest.mesh)
    totals = dict.fromkeys(TOTALS, 0)
    even, uneven_max, uneven = 0, 0, []
    for tensor in tensors:
        size = _bytes(tensor.dtype, tensor.shape)
        totals["parameters"] += 1
        totals["elements"] += math.prod(tensor.shape)
        totals["bytes"] += size
        ways = math.prod(sizes[axis] for axes in tensor.spec for axis in axes)
        totals["replicated_bytes_per_rank"] += size if ways == 1 else 0
        first = _bytes(tensor.dtype, tensor.local_shapes[0])
        if len(tensor.local_shapes) == 1:
            even += first
        else:
            uneven_max += first  # the first piece is the largest
            uneven.append(tensor)
    totals["max_bytes_per_rank"] = even + uneven_max
    totals["ideal_bytes_per_rank"] = -(-totals["bytes"] // model_ways(manifest))
    per_rank = None
    if ranks <= MAX_LISTED_RANKS:
        per_rank = [even] * ranks
        for rank in range(ranks if uneven else 0):
            per_rank[rank] += sum(_bytes(t.dtype, local_shape(manifest, t, rank)) for t in uneven)
    totals["bytes_per_rank"] = per_rank
    return totals


def _bytes(dtype, shape):
    return -(-math.prod(shape) * DTYPE_BITS[dtype] // 8)
