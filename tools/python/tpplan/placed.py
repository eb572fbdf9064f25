"""DTensors as destinations of a checkpoint: determines this process's rank on the manifest's mesh, and checks
placements against the manifest."""

from . import slices
from .files import printable
from .manifest import ManifestError

AS_THE_MANIFEST = "distribute it as the manifest specifies, or pass its local tensor and `rank`"


def is_placed(value):
    return hasattr(value, "device_mesh") and hasattr(value, "placements")


def placed_rank(manifest, values, asked):
    """Returns this process's rank on the manifest's mesh, from the meshes of {path in the manifest: DTensor}.

    A mesh may have only some of the manifest's axes. Raises ManifestError if two meshes give different indices on an
    axis. Raises it as well if no mesh has an axis that shards one of the paths in `asked`.
    """
    coordinate = {}
    for path, value in values.items():
        for axis, index in _coordinate_of(manifest, path, value).items():
            if coordinate.setdefault(axis, index) != index:
                raise ManifestError(
                    _where(path),
                    f"is at index {index} of axis `{axis}`, but other DTensors are at {coordinate[axis]}",
                    "use one mesh for all DTensors",
                )
    known = _tensors_of(manifest)
    for axis, size in manifest.mesh:
        cut = next((p for p in asked if p in known and any(axis in axes for axes in known[p].spec)), None)
        if axis not in coordinate and size > 1 and cut is not None:
            raise ManifestError(
                "`into`", f"no DTensor has axis `{axis}`, which shards `{printable(cut)}`", "pass `rank`"
            )
    return slices.rank_of(manifest.mesh, {axis: coordinate.get(axis, 0) for axis, _ in manifest.mesh})


def check_placed(manifest, rank, path, value):
    """Raises ManifestError if a DTensor is not sharded as in the manifest, or if its local shard is not that of
    `rank`."""
    tensor, where = _tensors_of(manifest)[path], _where(path)
    sizes, own = dict(manifest.mesh), slices.coordinate_of(manifest.mesh, rank)
    there = _coordinate_of(manifest, path, value)
    used = [axis for axes in tensor.spec for axis in axes if sizes[axis] > 1]
    for axis in used:
        if axis not in there:
            raise ManifestError(where, f"is not sharded over `{axis}`, but the manifest requires it", AS_THE_MANIFEST)
        if there[axis] != own[axis]:
            raise ManifestError(
                where,
                f"is at index {there[axis]} of axis `{axis}`, but rank {rank} is at {own[axis]}",
                "pass the tensor of this rank",
            )
    cutting = getattr(value, "_cutting", None)
    if cutting is not None:  # a Pieces stores its sharding
        from .torch.communication import alike

        if not alike(cutting, tensor):
            raise ManifestError(where, "is sharded differently in the manifest", AS_THE_MANIFEST)
        return
    axes = _axes_of(manifest, path, value.device_mesh)
    names = [axis or name for axis, name in zip(axes, value.device_mesh.mesh_dim_names or axes)]
    mesh = list(zip(names, value.device_mesh.shape))
    held = tuple(tuple(axis for axis in entry if axis in there) for entry in tensor.spec)
    wanted = slices.placements_of(held, tensor.segments, mesh)
    if wanted is None:
        raise ManifestError(where, "is a DTensor, but torch has no placement for its segments", AS_THE_MANIFEST)
    has = [_text_of(placement) for placement in value.placements]
    if any(size > 1 and one != other for (_, size), one, other in zip(mesh, has, wanted)):
        reason = f"is {_list(names, has)}, but the manifest specifies {_list(names, wanted)}"
        raise ManifestError(where, reason, AS_THE_MANIFEST)


def _where(path):
    return f"`{printable(path)}`"


def _list(names, placements):
    return ", ".join(f"{placement} over {name}" for name, placement in zip(names, placements))


def _tensors_of(manifest):
    return manifest.parameters | manifest.buffers


def _coordinate_of(manifest, path, value):
    """Returns {axis of the manifest: index} of this process on a DTensor's mesh. Raises ManifestError if the process
    is not on it."""
    coordinate = value.device_mesh.get_coordinate()
    if coordinate is None:
        raise ManifestError(_where(path), "this process is not in its mesh", "load only in the processes of its mesh")
    axes = _axes_of(manifest, path, value.device_mesh)
    return {axis: index for axis, index in zip(axes, coordinate) if axis is not None}


def _axes_of(manifest, path, mesh):
    """Returns the manifest's axis for each dim of a DTensor's mesh; None for a dim that the manifest lacks. Axes
    match by name. If no name matches, they match by position, and the mesh shapes must be equal."""
    sizes, names = dict(manifest.mesh), mesh.mesh_dim_names or ()
    if not set(names) & set(sizes):
        if tuple(mesh.shape) != tuple(sizes.values()):
            raise ManifestError(
                _where(path),
                f"is on a mesh of {list(mesh.shape)}, but the manifest's mesh is {sizes}",
                "name the axes of its mesh as in the manifest (mesh_dim_names)",
            )
        return list(sizes)
    for name, size in zip(names, mesh.shape):
        if sizes.get(name, size) != size:
            raise ManifestError(
                _where(path),
                f"axis `{name}` of its mesh has {size} ranks, but {sizes[name]} in the manifest",
                "compile the plan for this mesh",
            )
    return [name if name in sizes else None for name in names]


def _text_of(placement):
    """Returns a torch placement as manifests write it."""
    factor = getattr(placement, "split_factor", None)
    if not hasattr(placement, "dim"):
        return type(placement).__name__
    return f"Shard({placement.dim})" if factor is None else f"StridedShard({placement.dim}, {factor})"
