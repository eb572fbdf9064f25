"""Loads the shards of one rank from safetensors files without reading the other ranks' shards."""

import itertools
import json
import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from .files import printable
from .manifest import SAFETENSORS_DTYPES, ManifestError, device_count, load_manifest, local_slice
from .input_files import MAX_INDEX, open_regular, read_text

GIVE_FILES = "give safetensors files"


def load_safetensors(manifest, files, rank, *, framework="pt", tied=()):
    """Returns the shards of `rank` of every parameter of the manifest: {path: tensor of the local shape}.

    `files` is a safetensors file, a list of them, or a `model.safetensors.index.json`. `framework` is safetensors'
    name of the tensor library: "pt" or "numpy". A checkpoint has a tied tensor under one of its names. Ties come from
    the manifest and from the groups in `tied`, whose names the plan may shard differently.

    Raises ManifestError if a tensor is missing or has another shape or dtype.
    """
    try:
        from safetensors import safe_open
    except ImportError:
        raise ManifestError(
            "load_safetensors", "needs the package `safetensors`, which is not installed", "pip install safetensors"
        ) from None
    manifest = load_manifest(manifest)
    if not 0 <= rank < device_count(manifest):
        raise ManifestError(
            f"rank {rank}",
            f"the manifest is for {device_count(manifest)} ranks",
            "use a rank of the mesh: ranks start at 0",
        )
    other_names = {path: group for group in (*manifest.tied, *tied) for path in group}
    opened, where_is = {}, {}
    try:
        for file, folder in _files_of(files).items():
            opened[file] = _open(safe_open, file, folder, framework)
            for name in opened[file].keys():
                if name in where_is:
                    raise ManifestError(
                        printable(file),
                        f"`{printable(name)}` is also in `{printable(where_is[name])}`",
                        "keep each tensor in one file only",
                    )
                where_is[name] = file
        shards = {}
        for path, tensor in manifest.parameters.items():
            name = next((n for n in (path, *other_names.get(path, ())) if n in where_is), None)
            if name is None:
                raise ManifestError(
                    f"parameter `{printable(path)}`",
                    "is in none of the files",
                    "give all files of the checkpoint; if the parameter is another name of a stored tensor, list "
                    "both in `tied`",
                )
            shards[path] = _read_shard(
                opened[where_is[name]], name, tensor, local_slice(manifest, tensor, rank), framework
            )
        return shards
    finally:
        for file in opened.values():
            file.__exit__(None, None, None)


def _open(safe_open, file, folder, framework):
    try:
        with open_regular(
            file, folder
        ) as opened:  # safetensors maps the file that was checked, even if the path is replaced
            return safe_open(f"/proc/self/fd/{opened.fileno()}", framework=framework).__enter__()
    except OSError as error:
        raise ManifestError(printable(file), f"cannot be read: {error.strerror or error}", GIVE_FILES) from None
    except Exception as error:  # safetensors raises its own types and OSError
        raise ManifestError(printable(file), f"cannot be read: {error}", GIVE_FILES) from None


def _files_of(files):
    """Returns {safetensors file: the folder that must contain it, or None} for a path, a list of paths or an index."""
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    found = {}
    for path in map(str, paths):
        folder = Path(path).parent if path.endswith(".json") else None
        found |= dict.fromkeys([path] if folder is None else _files_of_index(Path(path)), folder)
    return found


def _files_of_index(index):
    """Returns the files of a weight_map. Raises ManifestError unless all are in or below the folder of the index."""
    remedy = "give a model.safetensors.index.json, or the files themselves"
    try:
        document = json.loads(read_text(index, MAX_INDEX))
        names = dict.fromkeys(document["weight_map"].values())
    except OSError as error:
        raise ManifestError(printable(index), f"cannot be read: {error.strerror}", remedy) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ManifestError(printable(index), "is not an index of safetensors files", remedy) from None
    for name in names:
        parts = PurePosixPath(name).parts if isinstance(name, str) else ()
        if (
            not parts
            or ".." in parts
            or "\0" in name
            or PurePosixPath(name).is_absolute()
            or PureWindowsPath(name).drive
            or "\\" in name
        ):
            raise ManifestError(
                printable(index),
                f"weight_map names `{printable(name)}`, which is outside the folder of the index",
                remedy,
            )
    return [str(index.parent / name) for name in names]


def _read_shard(file, name, tensor, runs, framework):
    where = f"parameter `{printable(tensor.path)}`"
    view = file.get_slice(name)
    if tuple(view.get_shape()) != tensor.shape:
        raise ManifestError(
            where,
            f"has shape {list(view.get_shape())} in the file, but {list(tensor.shape)} in the manifest",
            "give the checkpoint of the model that the plan was compiled for",
        )
    if view.get_dtype() != SAFETENSORS_DTYPES.get(tensor.dtype):
        raise ManifestError(
            where,
            f"is {view.get_dtype()} in the file, but {tensor.dtype} in the manifest",
            "export the model in the checkpoint's dtype and compile the plan again, or convert the checkpoint",
        )
    try:
        if 0 in tensor.shape or not tensor.shape:
            view = file.get_tensor(name)
        # safetensors accepts an empty slice at the start of a dim, but not at its end.
        pieces = [
            view[tuple(slice(begin, end) if begin < end else slice(0, 0) for begin, end in piece)]
            for piece in itertools.product(*runs)
        ]
    except Exception as error:  # a dtype that numpy does not have, or a truncated file
        raise ManifestError(
            where, f"cannot be read: {error}", 'read with framework="pt", or give a complete file'
        ) from None
    return _join(pieces, [len(r) for r in runs], framework)


def _join(pieces, counts, framework):
    """Concatenates the pieces of a product of intervals, whose last dim varies fastest. Copies them, because
    safetensors' slices are views that keep the mapped file alive."""
    if framework == "pt":
        from torch import cat as concatenate
    else:
        from numpy import concatenate
    for dim in reversed(range(len(counts))):
        if counts[dim] > 1:
            pieces = [concatenate(pieces[i : i + counts[dim]], dim) for i in range(0, len(pieces), counts[dim])]
    return pieces[0].contiguous().clone() if framework == "pt" else pieces[0].copy()
