"""Which elements a rank holds: maps mesh coordinates to intervals of global indices.

The rules are those of lib/sharding (chunk, shard_slice, placements_of), which `tpplan show --rank` prints; tests
compare this file with that program. No framework is needed.

A mesh is a list of (name, size), major to minor. A rank is the row-major index of its coordinate. A spec has, for
each dim of the tensor, the names of the axes that shard it, major to minor. `segments` maps a fused dim to the sizes
of its parts.
"""

import math


def spec_of(entries):
    """Returns the spec of a PartitionSpec, whose entries are None, an axis, or several axes."""
    return tuple(() if entry is None else (entry,) if isinstance(entry, str) else tuple(entry) for entry in entries)


def entries_of(spec):
    """Returns the PartitionSpec entries of a spec: None, an axis, or a tuple of axes for each dim."""
    return tuple(None if not axes else axes[0] if len(axes) == 1 else tuple(axes) for axes in spec)


def coordinate_of(mesh, rank):
    """Returns the mesh coordinate of a rank, as {axis name: index}."""
    coordinate = {}
    for name, size in reversed(mesh):
        rank, coordinate[name] = divmod(rank, size)
    return coordinate


def rank_of(mesh, coordinate):
    """Returns the rank of a mesh coordinate."""
    rank = 0
    for name, size in mesh:
        rank = rank * size + coordinate[name]
    return rank


def chunk(begin, end, count, index):
    """Returns chunk `index` of `count` of the interval [begin, end), as torch.chunk splits it. Each chunk has
    ceil(size / count) elements; the last ones are shorter or empty. An empty chunk is at the end of the interval."""
    piece = -(-(end - begin) // count)
    start = min(begin + index * piece, end)
    return start, min(start + piece, end)


def segment_runs(size, segments):
    """Returns the intervals of an unsharded dim: one, or one for each segment."""
    if not segments:
        return [(0, size)]
    runs, begin = [], 0
    for segment in segments:
        runs.append((begin, begin + segment))
        begin += segment
    return runs


def cut(run, axes, mesh, coordinate):
    """Returns the part of one interval that a coordinate holds. The axes split it one after the other, major first."""
    sizes = dict(mesh)
    for axis in axes:
        run = chunk(*run, sizes[axis], coordinate[axis])
    return run


def shard_slice(shape, spec, segments, mesh, coordinate):
    """Returns, for each dim, the half-open intervals of global indices that the coordinate holds, in storage order:
    one, or one for each segment. The shards of all coordinates of the spec's axes tile the tensor."""
    return [
        [cut(run, axes, mesh, coordinate) for run in segment_runs(size, segments.get(dim))]
        for dim, (size, axes) in enumerate(zip(shape, spec))
    ]


def local_shape(shape, spec, segments, mesh, coordinate):
    """Returns the shape of the coordinate's local shard."""
    return [
        sum(end - begin for begin, end in runs) if axes else size
        for size, axes, runs in zip(shape, spec, shard_slice(shape, spec, segments, mesh, coordinate))
    ]


def used_axes(spec):
    """Returns the set of axes that a spec uses."""
    return {axis for axes in spec for axis in axes}


def is_even(shape, spec, segments, mesh):
    """Returns True if every dim, or every segment of it, is divisible by the product of its axes' sizes."""
    sizes = dict(mesh)
    return all(
        part % math.prod(sizes[axis] for axis in axes) == 0
        for dim, (size, axes) in enumerate(zip(shape, spec))
        for part in segments.get(dim) or [size]
    )


def placements_of(spec, segments, mesh):
    """Returns the placement on each mesh axis, as a manifest writes it: `Replicate`, `Shard(d)` or `StridedShard(d,
    k)`. Returns None if torch has no placement for it: the segments are not the chunks of torch.chunk."""
    order = {name: i for i, (name, _) in enumerate(mesh)}
    sizes = dict(mesh)
    placements = ["Replicate"] * len(mesh)
    for dim, axes in enumerate(spec):
        parts = segments.get(dim) or []
        whole = sum(parts)
        chunks = [chunk(0, whole, len(parts), i) for i in range(len(parts))]
        if axes and parts != [end - begin for begin, end in chunks]:
            return None
        for i, axis in enumerate(axes):
            factor = math.prod(sizes[before] for before in axes[:i] if order[before] > order[axis])
            if factor == 1 and len(parts) > 1:
                factor = len(parts)
            placements[order[axis]] = f"StridedShard({dim}, {factor})" if factor > 1 else f"Shard({dim})"
    return placements
