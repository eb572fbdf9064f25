"""DTensors that are read into: which rank of a manifest's mesh their process is, and whether they are cut as the manifest says."""

from . import slices
from .files import printable
from .manifest import ManifestError

AS_THE_MANIFEST = "distribute it as the manifest says, or give its local tensor and `rank`"


def is_placed(value):
    return hasattr(value, "device_mesh") and hasattr(value, "placements")


def placed_rank(manifest, values, asked):
    """The rank that this process is on the manifest's mesh, by the meshes of {path in the manifest: DTensor}, which may have some
    of its axes each: over one that none of them has nothing of what is `asked` may be cut. Raises ManifestError where they do not
    say it."""
    coordinate = {}
    for path, value in values.items():
        for axis, index in _coordinate_of(manifest, path, value).items():
            if coordinate.setdefault(axis, index) != index:
                raise ManifestError(
                    _where(path), f"is at {index} of axis `{axis}`, others at {coordinate[axis]}", "give one mesh"
                )
    known = _tensors_of(manifest)
    for axis, size in manifest.mesh:
        cut = next((p for p in asked if p in known and any(axis in axes for axes in known[p].spec)), None)
        if axis not in coordinate and size > 1 and cut is not None:
            raise ManifestError(
                "`into`", f"no DTensor is on axis `{axis}`, which cuts `{printable(cut)}`", "give `rank`"
            )
    return slices.rank_of(manifest.mesh, {axis: coordinate.get(axis, 0) for axis, _ in manifest.mesh})


def check_placed(manifest, rank, path, value):
    """Raises ManifestError where a DTensor is cut otherwise than the manifest says, or its process has another piece than `rank`."""
    tensor, where = _tensors_of(manifest)[path], _where(path)
    sizes, own = dict(manifest.mesh), slices.coordinate_of(manifest.mesh, rank)
    there = _coordinate_of(manifest, path, value)
    used = [axis for axes in tensor.spec for axis in axes if sizes[axis] > 1]
    for axis in used:
        if axis not in there:
            raise ManifestError(where, f"is not cut over `{axis}`, as the manifest has it", AS_THE_MANIFEST)
        if there[axis] != own[axis]:
            raise ManifestError(
                where, f"is at {there[axis]} of axis `{axis}`, and rank {rank} at {own[axis]}", "give the rank's own"
            )
    cutting = getattr(value, "_cutting", None)
    if cutting is not None:  # a Pieces, which says itself what it holds
        from .torch.communication import alike

        if not alike(cutting, tensor):
            raise ManifestError(where, "is cut otherwise than the manifest has it", AS_THE_MANIFEST)
        return
    axes = _axes_of(manifest, path, value.device_mesh)
    names = [axis or name for axis, name in zip(axes, value.device_mesh.mesh_dim_names or axes)]
    mesh = list(zip(names, value.device_mesh.shape))
    held = tuple(tuple(axis for axis in entry if axis in there) for entry in tensor.spec)
    wanted = slices.placements_of(held, tensor.segments, mesh)
    if wanted is None:
        raise ManifestError(where, "is a DTensor, and torch has no placement for its segments", AS_THE_MANIFEST)
    has = [_text_of(placement) for placement in value.placements]
    if any(size > 1 and one != other for (_, size), one, other in zip(mesh, has, wanted)):
        reason = f"is {_list(names, has)}, and the manifest has it {_list(names, wanted)}"
        raise ManifestError(where, reason, AS_THE_MANIFEST)


def _where(path):
    return f"`{printable(path)}`"


def _list(names, placements):
    return ", ".join(f"{placement} over {name}" for name, placement in zip(names, placements))


def _tensors_of(manifest):
    return manifest.parameters | manifest.buffers


def _coordinate_of(manifest, path, value):
    """{axis of the manifest: index} of the process on a DTensor's mesh."""
    coordinate = value.device_mesh.get_coordinate()
    if coordinate is None:
        raise ManifestError(_where(path), "this process is no part of its mesh", "load where it has a piece")
    axes = _axes_of(manifest, path, value.device_mesh)
    return {axis: index for axis, index in zip(axes, coordinate) if axis is not None}


def _axes_of(manifest, path, mesh):
    """For each dim of a DTensor's mesh the axis of the manifest that it is: by its name; where no name is the manifest's, the
    one in its place, if the meshes are alike. None: the manifest has no such axis."""
    sizes, names = dict(manifest.mesh), mesh.mesh_dim_names or ()
    if not set(names) & set(sizes):
        if tuple(mesh.shape) != tuple(sizes.values()):
            raise ManifestError(
                _where(path),
                f"is on a mesh of {list(mesh.shape)}, and the manifest's is {sizes}",
                "give the axes of its mesh the manifest's names (mesh_dim_names)",
            )
        return list(sizes)
    for name, size in zip(names, mesh.shape):
        if sizes.get(name, size) != size:
            raise ManifestError(
                _where(path),
                f"axis `{name}` of its mesh has {size} ranks, the manifest's {sizes[name]}",
                "compile it anew",
            )
    return [name if name in sizes else None for name in names]


def _text_of(placement):
    """A placement of torch as manifests write it."""
    factor = getattr(placement, "split_factor", None)
    if not hasattr(placement, "dim"):
        return type(placement).__name__
    return f"Shard({placement.dim})" if factor is None else f"StridedShard({placement.dim}, {factor})"
