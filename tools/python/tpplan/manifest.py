"""Reads sharding manifests (schemas/manifest.schema.json), proves them, and holds them against a model's parameters.

Nothing here needs a framework. What is proven is what `read_manifest` proves (lib/manifest): placements, local shapes and
replicas follow from the spec, specs are legal, totals are the sums. A manifest that was edited after it was written fails.
"""

import json
import math
import re
from dataclasses import dataclass, field

from . import slices

FORMAT = "tpplan.manifest/1"

# Bits of one stored element, by torch's name of the type; the table of lib/sharding/dtype.cc.
DTYPE_BITS = {
    "bfloat16": 16,
    "float32": 32,
    "float16": 16,
    "float64": 64,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float8_e4m3": 8,
    "float8_e3m4": 8,
    "float8_e4m3b11fnuz": 8,
    "float4_e2m1fn_x2": 8,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "int8": 8,
    "uint8": 8,
    "int16": 16,
    "uint16": 16,
    "int32": 32,
    "uint32": 32,
    "int64": 64,
    "uint64": 64,
    "int4": 4,
    "uint4": 4,
    "int2": 2,
    "uint2": 2,
    "bool": 8,
    "complex32": 32,
    "complex64": 64,
    "complex128": 128,
    "qint8": 8,
    "quint8": 8,
    "qint32": 32,
}

LAYOUT = re.compile(r"Replicate|Shard\(-?\d{1,2}\)|Partial\((sum|avg|max|min)\)", re.ASCII)

COMPILE_AGAIN = "a manifest is not edited by hand: compile the plan again"
EXPORT_AGAIN = "export this model again (python -m tpplan.export) and compile the plan with it"
WRITTEN_BY = "tpplan compile writes manifests"
MAX_LISTED_RANKS = 1 << 20
MAX_LOCAL_SHAPES = 1 << 16


class ManifestError(ValueError):
    """A manifest that cannot be read, contradicts itself, or does not fit. `place` says where, `remedy` what to do."""

    def __init__(self, place, reason, remedy):
        self.place, self.reason, self.remedy = place, reason, remedy
        super().__init__(f"{place}: {reason}\n  = help: {remedy}")


@dataclass(frozen=True)
class Tensor:
    """One parameter or buffer. `spec` has for each dim a tuple of axis names, major to minor; `segments` maps dims to the
    sizes of their parts; `placements` has one text a mesh axis, or is None where torch has no word for the sharding."""

    path: str
    shape: tuple
    dtype: str
    spec: tuple
    segments: dict
    placements: tuple | None
    local_shapes: tuple
    style: str | None
    rule: int | None
    reason: str
    replicas: int
    grad_reduce: tuple  # (axis, "all_reduce" | "reduce_scatter")
    kind: str | None = None  # of its module: linear, embedding or norm; None for others
    dims: tuple = ()  # names of the dims of a linear's or embedding's parameter; () where nobody says


@dataclass(frozen=True)
class Value:
    """One value at a module's boundary: layouts in mesh order, or None where nobody says."""

    arg: int | None
    kwarg: str | None
    source: tuple | None
    target: tuple | None
    use_local: bool | None
    forward: tuple
    backward: tuple  # (kind, axis)


@dataclass(frozen=True)
class Boundary:
    path: str
    style: str
    inputs: tuple
    outputs: tuple


@dataclass(frozen=True)
class Manifest:
    model_name: str
    mesh: tuple  # (name, size), major to minor
    uneven: str
    parameters: dict  # path -> Tensor
    buffers: dict
    modules: tuple  # of Boundary
    tied: tuple = ()  # groups of paths that are one tensor and cut alike; the first counts in the totals
    data_axes: tuple = ()
    data_dim: int = 0
    fsdp_axis: str | None = None
    remat: tuple = ()
    totals: dict = field(default_factory=dict)


def device_count(manifest):
    return math.prod(size for _, size in manifest.mesh)


def load_manifest(source):
    """Reads a manifest from a path, or takes one that json.loads gave, and proves it. Raises ManifestError."""
    if isinstance(source, Manifest):
        return source
    if isinstance(source, dict):
        return _read(source, "manifest")
    name = _shown(source)
    try:
        with open(source, encoding="utf-8") as file:
            document = json.load(file, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
    except OSError as error:
        raise ManifestError(name, f"cannot be read: {error.strerror}", WRITTEN_BY) from None
    except (ValueError, RecursionError) as error:
        raise ManifestError(name, f"is not a JSON document: {error}", WRITTEN_BY) from None
    return _read(document, name)


def local_slice(manifest, tensor, rank):
    """For each dim the runs of global indices that `rank` holds of a tensor; what `tpplan show --rank` prints."""
    return slices.shard_slice(tensor.shape, tensor.spec, tensor.segments, manifest.mesh, slices.coordinate_of(manifest.mesh, rank))


def local_shape(manifest, tensor, rank):
    return slices.local_shape(tensor.shape, tensor.spec, tensor.segments, manifest.mesh, slices.coordinate_of(manifest.mesh, rank))


def check_parameters(manifest, parameters, ties=()):
    """Holds the manifest against a model's parameters: {path: (shape, dtype name)}, and groups of paths that name one tensor.

    Raises ManifestError, naming the parameter, when one is missing here or there, when a shape or dtype differs, when names
    of one tensor are cut differently, and when the totals are not the sums over these tensors."""
    unknown = [path for path in parameters if path not in manifest.parameters]
    missing = [path for path in manifest.parameters if path not in parameters]
    for paths, what in (
        (unknown, "is a parameter of the model that the manifest does not have"),
        (missing, "stands in the manifest, but the model has no such parameter"),
    ):
        if paths:
            more = f" ({len(paths) - 1} more like it)" if len(paths) > 1 else ""
            raise ManifestError(f"parameter `{_shown(paths[0])}`", what + more, EXPORT_AGAIN)
    for path, (shape, dtype) in parameters.items():
        tensor = manifest.parameters[path]
        if tuple(shape) != tensor.shape:
            raise ManifestError(
                f"parameter `{_shown(path)}`",
                f"has shape {list(shape)} in the model and {list(tensor.shape)} in the manifest",
                EXPORT_AGAIN,
            )
        if dtype != tensor.dtype:
            raise ManifestError(
                f"parameter `{_shown(path)}`",
                f"is {dtype} in the model and {tensor.dtype} in the manifest",
                f"build the model in {tensor.dtype}, or " + EXPORT_AGAIN,
            )
    counted = dict.fromkeys(parameters, True)
    for group in ties:
        first = manifest.parameters[group[0]]
        for path in group[1:]:
            counted[path] = False
            other = manifest.parameters[path]
            if (other.spec, other.segments) != (first.spec, first.segments):
                raise ManifestError(
                    f"parameter `{_shown(path)}`",
                    f"is the same tensor as `{_shown(group[0])}` in the model, and the manifest cuts them differently",
                    "give both ends one rule, or build the model with untied weights",
                )
    tied = sum(not c for c in counted.values())
    if manifest.totals["parameters"] != len(counted) - tied:
        raise ManifestError(
            "`totals`",
            f"the manifest counts {manifest.totals['parameters']} tensors, the model has {len(counted) - tied}, with names "
            "of one tensor counted once",
            EXPORT_AGAIN,
        )
    if _sum_totals(manifest, [t for path, t in manifest.parameters.items() if counted[path]]) != manifest.totals:
        raise ManifestError("`totals`", "are not the sums over the parameters", COMPILE_AGAIN)


def check_mesh(manifest, axes):
    """Holds the manifest against a running mesh: its (name or None, size), major to minor. Raises ManifestError."""
    written = ", ".join(f"{name}={size}" for name, size in manifest.mesh)
    found = ", ".join(f"{name}={size}" for name, size in axes)
    sizes_differ = [size for _, size in axes] != [size for _, size in manifest.mesh]
    names_differ = any(name is None or name != wanted for (name, _), (wanted, _) in zip(axes, manifest.mesh))
    if sizes_differ or names_differ:
        raise ManifestError(
            "`mesh`",
            f"the manifest is for [{written}], the device mesh is [{found}]",
            "make the device mesh with these names and sizes, in this order, or compile the plan with --mesh",
        )


def _shown(text):
    """A path as a message may show it: printable, and not too long."""
    text = str(text)
    text = text.encode("utf-8", "replace").decode() if not text.isprintable() else text
    text = "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text[:200])
    return text if len(text) < 200 else text[:200] + "..."


def _no_duplicates(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"`{_shown(next(k for k in keys if keys.count(k) > 1))}` stands twice in an object")
    return members


def _no_constants(name):
    raise ValueError(f"`{name}` is not JSON")


def _take(where, members, key, kinds, default=...):
    """The member of an object, of one of these kinds; `default` where it may be absent."""
    if not isinstance(members, dict):
        raise ManifestError(where, "is not an object", WRITTEN_BY)
    value = members.get(key, default)
    if value is ...:
        raise ManifestError(where, f"`{key}` is missing", WRITTEN_BY)
    if value is not default and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in _tuple(kinds))):
        raise ManifestError(where, f"`{key}` is {_kind(value)}", WRITTEN_BY)
    return value


def _tuple(kinds):
    return kinds if isinstance(kinds, tuple) else (kinds,)


def _kind(value):
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return names.get(type(value), "null")


def _list(where, value, kind):
    if not isinstance(value, list) or any(not isinstance(v, kind) or isinstance(v, bool) for v in value):
        raise ManifestError(where, "is not a list of the right kind", WRITTEN_BY)
    return value


def _sizes(where, value):
    if any(size < 0 for size in _list(where, value, int)):
        raise ManifestError(where, "a size is negative", COMPILE_AGAIN)
    return tuple(value)


def _read(document, name):
    _take(name, document, "format", str)
    if document["format"] != FORMAT:
        raise ManifestError(name, f"format `{_shown(document['format'])}` is not `{FORMAT}`", WRITTEN_BY)
    mesh = tuple((_take("`mesh`", axis, "name", str), _take("`mesh`", axis, "size", int)) for axis in _take(name, document, "mesh", list))
    names = [axis for axis, _ in mesh]
    if not mesh or len(set(names)) != len(names) or any(size < 1 for _, size in mesh) or math.prod(s for _, s in mesh) >= 1 << 31:
        raise ManifestError("`mesh`", "has no axes, an axis twice, or too many ranks", COMPILE_AGAIN)
    uneven = _take(name, document, "uneven", str)
    if uneven not in ("error", "torch"):
        raise ManifestError("`uneven`", "is neither error nor torch", COMPILE_AGAIN)
    data = _take(name, document, "data", dict, None)
    fsdp = _take(name, document, "fsdp", dict, None)
    manifest = Manifest(
        model_name=_take("`inputs.model`", _take("`inputs`", _take(name, document, "inputs", dict), "model", dict), "name", str),
        mesh=mesh,
        uneven=uneven,
        parameters=_read_tensors(_take(name, document, "parameters", list), mesh, uneven),
        buffers=_read_tensors(_take(name, document, "buffers", list, []), mesh, uneven),
        modules=tuple(_read_boundary(entry, mesh) for entry in _take(name, document, "modules", list)),
        tied=tuple(_list("`tied`", group, str) for group in _list("`tied`", _take(name, document, "tied", list, []), list)),
        data_axes=_axes("`data`", _take("`data`", data, "axes", list), mesh) if data else (),
        data_dim=_take("`data`", data, "dim", int) if data else 0,
        fsdp_axis=_axes("`fsdp`", [_take("`fsdp`", fsdp, "axis", str)], mesh)[0] if fsdp else None,
        remat=tuple(_list("`remat`", _take(name, document, "remat", list, []), str)),
        totals=_read_totals(_take(name, document, "totals", dict)),
    )
    _check_ties(manifest)
    if _sum_totals(manifest, _counted(manifest)) != manifest.totals:
        raise ManifestError("`totals`", "are not the sums over the parameters", COMPILE_AGAIN)
    return manifest


def _axes(where, value, mesh):
    names = {name for name, _ in mesh}
    for axis in _list(where, value, str):
        if axis not in names:
            raise ManifestError(where, f"`{_shown(axis)}` is not an axis of the mesh", COMPILE_AGAIN)
    return tuple(value)


def _read_tensors(entries, mesh, uneven):
    tensors = {}
    for entry in entries:
        path = _take("`parameters`", entry, "path", str)
        where = f"parameter `{_shown(path)}`"
        if path in tensors:
            raise ManifestError(where, "stands twice", COMPILE_AGAIN)
        tensors[path] = _read_tensor(where, path, entry, mesh, uneven)
    return tensors


def _read_tensor(where, path, entry, mesh, uneven):
    shape = _sizes(where, _take(where, entry, "shape", list))
    dtype = _take(where, entry, "dtype", str)
    if dtype not in DTYPE_BITS:
        raise ManifestError(where, f"unknown dtype `{_shown(dtype)}`", WRITTEN_BY)
    entries = [[] if e is None else [e] if isinstance(e, str) else e for e in _take(where, entry, "spec", list)]
    spec = tuple(_axes(where, e, mesh) for e in entries)
    segments = {}
    for dim, parts in _take(where, entry, "segments", dict, {}).items():
        if not dim.isascii() or not dim.isdigit() or int(dim) >= len(shape):
            raise ManifestError(where, f"segments of dim `{_shown(dim)}`, which there is not", COMPILE_AGAIN)
        segments[int(dim)] = list(_sizes(where, parts))
    placements = _take(where, entry, "placements", list, None)
    single = _take(where, entry, "local_shape", list, None)
    shapes = [single] if single is not None else _take(where, entry, "local_shapes", list)
    reduces = tuple(
        (_axes(where, [_take(where, r, "axis", str)], mesh)[0], _take(where, r, "kind", str))
        for r in _take(where, entry, "grad_reduce", list)
    )
    tensor = Tensor(
        path,
        shape,
        dtype,
        spec,
        segments,
        None if placements is None else tuple(_list(where, placements, str)),
        tuple(_sizes(where, s) for s in shapes),
        _take(where, entry, "style", str, None),
        _take(where, entry, "rule", int, None),
        _take(where, entry, "reason", str),
        _take(where, entry, "replicas", int),
        reduces,
        _take(where, entry, "kind", str, None),
        tuple(_list(where, _take(where, entry, "dims", list, []), str)),
    )
    if tensor.dims and len(tensor.dims) != len(shape):
        raise ManifestError(where, f"{len(tensor.dims)} names of dims for {len(shape)} dims", COMPILE_AGAIN)
    _prove(where, tensor, mesh, uneven)
    return tensor


def _prove(where, tensor, mesh, uneven):
    """What is written must be what the spec says."""
    if not slices.is_legal(tensor.shape, tensor.spec, tensor.segments, mesh, uneven):
        raise ManifestError(
            where, f"the spec {[list(axes) for axes in tensor.spec]} is not legal for shape {list(tensor.shape)}", COMPILE_AGAIN
        )
    derived = slices.placements_of(tensor.spec, tensor.segments, mesh)
    count = slices.shard_count(tensor.spec, mesh)
    if (None if derived is None else tuple(derived)) != tensor.placements:
        raise ManifestError(where, "`placements` are not what its spec says", COMPILE_AGAIN)
    if tuple(map(tuple, _local_shapes(where, tensor, mesh))) != tensor.local_shapes:
        raise ManifestError(where, "`local_shape` is not what its spec says", COMPILE_AGAIN)
    if tensor.replicas != math.prod(size for _, size in mesh) // count:
        raise ManifestError(where, "`replicas` is not what its spec says", COMPILE_AGAIN)
    for axis, kind in tensor.grad_reduce:
        wanted = "reduce_scatter" if any(axis in axes for axes in tensor.spec) else "all_reduce"
        if kind != wanted:
            raise ManifestError(
                where, f"its gradient is written to {_shown(kind)} over `{axis}`, where its spec says {wanted}", COMPILE_AGAIN
            )


def _local_shapes(where, tensor, mesh):
    sizes = dict(mesh)
    even = all(
        part % math.prod(sizes[a] for a in axes) == 0
        for dim, axes in enumerate(tensor.spec)
        for part in tensor.segments.get(dim) or [tensor.shape[dim]]
    )
    if even:
        origin = {name: 0 for name, _ in mesh}
        return [slices.local_shape(tensor.shape, tensor.spec, tensor.segments, mesh, origin)]
    if slices.shard_count(tensor.spec, mesh) > MAX_LOCAL_SHAPES:
        raise ManifestError(where, f"has more than {MAX_LOCAL_SHAPES} different local shapes", COMPILE_AGAIN)
    return slices.list_local_shapes(tensor.shape, tensor.spec, tensor.segments, mesh)


def _read_boundary(entry, mesh):
    path = _take("`modules`", entry, "path", str)
    where = f"module `{_shown(path)}`"
    values = {side: tuple(_read_value(where, v, mesh) for v in _take(where, entry, side, list)) for side in ("inputs", "outputs")}
    return Boundary(path, _take(where, entry, "style", str), values["inputs"], values["outputs"])


def _read_value(where, entry, mesh):
    layouts = {}
    for key in ("from", "to"):
        layout = _take(where, entry, key, list, None)
        if layout is not None and len(_list(where, layout, str)) != len(mesh):
            raise ManifestError(where, f"`{key}` has {len(layout)} placements for {len(mesh)} mesh axes", COMPILE_AGAIN)
        for text in layout or ():
            if LAYOUT.fullmatch(text) is None:
                raise ManifestError(where, f"unknown layout `{_shown(text)}`", COMPILE_AGAIN)
        layouts[key] = None if layout is None else tuple(layout)
    steps = {
        key: tuple(
            (_take(where, s, "kind", str), _axes(where, [_take(where, s, "axis", str)], mesh)[0])
            for s in _take(where, entry, key, list, [])
        )
        for key in ("forward", "backward")
    }
    if layouts["from"] and layouts["to"] and tuple(_forward(layouts["from"], layouts["to"], mesh)) != steps["forward"]:
        raise ManifestError(where, "`forward` is not what brings `from` to `to`", COMPILE_AGAIN)
    return Value(
        _take(where, entry, "arg", int, None),
        _take(where, entry, "kwarg", str, None),
        layouts["from"],
        layouts["to"],
        _take(where, entry, "use_local", bool, None),
        steps["forward"],
        steps["backward"],
    )


def _forward(source, target, mesh):
    """The collectives that bring one layout to another, axis by axis (lib/sharding/redistribute.cc)."""
    for (axis, _), before, after in zip(mesh, source, target, strict=True):
        if before == after:
            continue
        is_shard = after.startswith("Shard")
        if before.startswith("Partial"):
            yield ("reduce_scatter" if is_shard else "all_reduce"), axis
        elif before.startswith("Shard"):
            yield ("all_to_all" if is_shard else "all_gather"), axis
        else:
            yield "slice", axis


TOTALS = ("parameters", "elements", "bytes", "max_bytes_per_rank", "ideal_bytes_per_rank", "replicated_bytes_per_rank")


def _read_totals(totals):
    read = {key: _take("`totals`", totals, key, int) for key in TOTALS}
    per_rank = _take("`totals`", totals, "bytes_per_rank", list, None)
    read["bytes_per_rank"] = None if per_rank is None else list(_sizes("`totals.bytes_per_rank`", per_rank))
    return read


def _bytes(dtype, shape):
    return -(-math.prod(shape) * DTYPE_BITS[dtype] // 8)


def _check_ties(manifest):
    seen = set()
    for group in manifest.tied:
        for path in group:
            if path not in manifest.parameters or path in seen or len(group) < 2:
                raise ManifestError("`tied`", f"`{_shown(path)}` is no parameter, or is tied twice or alone", COMPILE_AGAIN)
            seen.add(path)
            first, other = manifest.parameters[group[0]], manifest.parameters[path]
            if (first.shape, first.dtype, first.spec, first.segments) != (other.shape, other.dtype, other.spec, other.segments):
                raise ManifestError("`tied`", f"`{_shown(group[0])}` and `{_shown(path)}` are not cut alike", COMPILE_AGAIN)


def _counted(manifest):
    """The parameters that the totals count: of a tensor's names the first."""
    again = {path for group in manifest.tied for path in group[1:]}
    return [tensor for path, tensor in manifest.parameters.items() if path not in again]


def _sum_totals(manifest, tensors):
    """The sums of lib/manifest/manifest.cc (sum_totals) over these tensors."""
    ranks = device_count(manifest)
    totals = dict.fromkeys(TOTALS, 0)
    even, uneven_max, uneven = 0, 0, []
    for tensor in tensors:
        size = _bytes(tensor.dtype, tensor.shape)
        totals["parameters"] += 1
        totals["elements"] += math.prod(tensor.shape)
        totals["bytes"] += size
        totals["replicated_bytes_per_rank"] += size if not any(tensor.spec) else 0
        first = _bytes(tensor.dtype, tensor.local_shapes[0])
        if len(tensor.local_shapes) == 1:
            even += first
        else:
            uneven_max += first  # the first piece is the largest
            uneven.append(tensor)
    totals["max_bytes_per_rank"] = even + uneven_max
    totals["ideal_bytes_per_rank"] = -(-totals["bytes"] // ranks)
    per_rank = None
    if ranks <= MAX_LISTED_RANKS:
        per_rank = [even] * ranks
        for rank in range(ranks if uneven else 0):
            per_rank[rank] += sum(_bytes(t.dtype, local_shape(manifest, t, rank)) for t in uneven)
    totals["bytes_per_rank"] = per_rank
    return totals
