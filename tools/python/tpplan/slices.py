"""Which elements a rank holds: a sharding as a function from mesh coordinates to runs of global indices.

The rules are those of lib/sharding (chunk, shard_slice, placements_of), which `tpplan show --rank` prints; the tests hold
this file to that program. Nothing here needs a framework.

A mesh is a list of (name, size), major to minor. A rank is the row-major index of its coordinate. A spec has for each dim
of the tensor the axis names that cut it, major to minor; `segments` maps a fused dim to the sizes of its parts.
"""

import math


def spec_of(entries):
    """The spec of a PartitionSpec, whose entries are None, an axis, or several."""
    return tuple(() if entry is None else (entry,) if isinstance(entry, str) else tuple(entry) for entry in entries)


def entries_of(spec):
    """The entries of that PartitionSpec."""
    return tuple(None if not axes else axes[0] if len(axes) == 1 else tuple(axes) for axes in spec)


def coordinate_of(mesh, rank):
    """Mesh coordinate of a rank, as {axis name: index}."""
    coordinate = {}
    for name, size in reversed(mesh):
        rank, coordinate[name] = divmod(rank, size)
    return coordinate


def rank_of(mesh, coordinate):
    """The rank of a mesh coordinate."""
    rank = 0
    for name, size in mesh:
        rank = rank * size + coordinate[name]
    return rank


def chunk(begin, end, count, index):
    """Piece `index` of `count` of a run as torch.chunk cuts it: pieces of ceil(size / count), the last ones shorter or
    empty. An empty piece stands at the end of the run."""
    piece = -(-(end - begin) // count)
    start = min(begin + index * piece, end)
    return start, min(start + piece, end)


def segment_runs(size, segments):
    """The runs of a dim before it is cut: the whole dim, or its segments."""
    if not segments:
        return [(0, size)]
    runs, begin = [], 0
    for segment in segments:
        runs.append((begin, begin + segment))
        begin += segment
    return runs


def cut(run, axes, mesh, coordinate):
    """The piece of one run that a coordinate holds: axes cut one after the other, major first."""
    sizes = dict(mesh)
    for axis in axes:
        run = chunk(*run, sizes[axis], coordinate[axis])
    return run


def shard_slice(shape, spec, segments, mesh, coordinate):
    """For each dim the half-open runs of global indices that the coordinate holds, in storage order: one run, or one for
    each segment. Over all coordinates of the axes in the spec they tile the tensor."""
    return [
        [cut(run, axes, mesh, coordinate) for run in segment_runs(size, segments.get(dim))]
        for dim, (size, axes) in enumerate(zip(shape, spec))
    ]


def local_shape(shape, spec, segments, mesh, coordinate):
    """Sizes of that slice: for each dim the sum of its runs."""
    return [
        sum(end - begin for begin, end in runs) if axes else size
        for size, axes, runs in zip(shape, spec, shard_slice(shape, spec, segments, mesh, coordinate))
    ]


def used_axes(spec):
    """The axes that a spec uses."""
    return {axis for axes in spec for axis in axes}


def axes_in_mesh_order(spec, mesh):
    """The same in mesh order: what `local_shapes` of a manifest runs over."""
    used = used_axes(spec)
    return [name for name, _ in mesh if name in used]


def shard_count(spec, mesh):
    """Product of the sizes of the axes that a spec uses."""
    sizes = dict(mesh)
    return math.prod(sizes[axis] for axes in spec for axis in axes)


def list_local_shapes(shape, spec, segments, mesh):
    """One local shape for each coordinate of the axes in the spec, row-major in mesh order; a single one where all agree."""
    sizes = dict(mesh)
    coordinates = [{}]
    for axis in axes_in_mesh_order(spec, mesh):
        coordinates = [{**c, axis: i} for c in coordinates for i in range(sizes[axis])]
    shapes = [local_shape(shape, spec, segments, mesh, c) for c in coordinates]
    return shapes[:1] if all(s == shapes[0] for s in shapes) else shapes


def is_even(shape, spec, segments, mesh):
    """Whether the product of the axes of each dim divides the dim, or each of its segments."""
    sizes = dict(mesh)
    return all(
        part % math.prod(sizes[axis] for axis in axes) == 0
        for dim, (size, axes) in enumerate(zip(shape, spec))
        for part in segments.get(dim) or [size]
    )


def is_legal(shape, spec, segments, mesh, uneven):
    """Whether lib/sharding's check_sharding finds nothing: known axes, each at most once; segments that add up to their
    dim; and, unless uneven pieces are allowed, even ones."""
    sizes = dict(mesh)
    used = [axis for axes in spec for axis in axes]
    if len(spec) != len(shape) or len(set(used)) != len(used) or any(axis not in sizes for axis in used):
        return False
    for dim, (size, axes) in enumerate(zip(shape, spec)):
        if axes and sum(segments.get(dim) or [size]) != size:
            return False
    return uneven != "error" or is_even(shape, spec, segments, mesh)


def placements_of(spec, segments, mesh):
    """The same seen per mesh axis, as a manifest writes it: `Replicate`, `Shard(d)`, `StridedShard(d, k)`. None where torch
    has no word for it: segments that are not torch.chunk's pieces of their dim."""
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
