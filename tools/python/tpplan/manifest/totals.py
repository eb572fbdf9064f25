"""Totals of a manifest: sums over its tensors, computed as in lib/manifest/manifest.cc (sum_totals)."""

import math

from .dtypes import DTYPE_BITS
from .manifest import device_count, local_shape

TOTALS = ("parameters", "elements", "bytes", "max_bytes_per_rank", "ideal_bytes_per_rank", "replicated_bytes_per_rank")
MAX_LISTED_RANKS = 1 << 20


def model_ways(manifest):
    """Returns into how many shards the model could be split. Data axes that shard no tensor do not count."""
    tensors = [*manifest.parameters.values(), *manifest.buffers.values()]
    cut = {axis for tensor in tensors for axes in tensor.spec for axis in axes} | {manifest.fsdp_axis}
    return math.prod(size for name, size in manifest.mesh if name in cut or name not in manifest.data_axes)


def sum_totals(manifest, tensors):
    """Returns the totals of a manifest with only these tensors."""
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
            uneven_max += first  # the first local shape is the largest
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
