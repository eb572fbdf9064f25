"""Loads the shards of one rank from safetensors files, reading no more than that rank holds."""

import itertools
import json
import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from .files import printable
from .manifest import SAFETENSORS_DTYPES, ManifestError, device_count, load_manifest, local_slice


def load_safetensors(manifest, files, rank, *, framework="pt", tied=()):
    """The shards that `rank` holds of every parameter of the manifest: {path: tensor of the local shape}.

    `files` is a safetensors file, a list of them, or a `model.safetensors.index.json`. `framework` is what safetensors calls
    the kind of tensors to make: "pt" or "numpy". A checkpoint holds a tied tensor under one of its names: those that the
    manifest ties, and the groups in `tied` (names that the plan cuts differently, as some of transformers' do).
    Raises ManifestError for a tensor that is missing or has another shape or dtype."""
    try:
        from safetensors import safe_open
    except ImportError:
        raise ManifestError(
            "load_safetensors", "needs the package `safetensors`, which is not installed", "pip install safetensors"
        ) from None
    manifest = load_manifest(manifest)
    if not 0 <= rank < device_count(manifest):
        raise ManifestError(
            f"rank {rank}", f"the manifest is for {device_count(manifest)} ranks", "ranks are counted from 0"
        )
    other_names = {path: group for group in (*manifest.tied, *tied) for path in group}
    opened, where_is = {}, {}
    try:
        for file in _files_of(files):
            opened[file] = _open(safe_open, file, framework)
            for name in opened[file].keys():
                if name in where_is:
                    raise ManifestError(
                        printable(file),
                        f"`{printable(name)}` stands in `{printable(where_is[name])}` too",
                        "give each tensor once",
                    )
                where_is[name] = file
        shards = {}
        for path, tensor in manifest.parameters.items():
            name = next((n for n in (path, *other_names.get(path, ())) if n in where_is), None)
            if name is None:
                raise ManifestError(
                    f"parameter `{printable(path)}`",
                    "stands in none of the files",
                    "give all files of the checkpoint; where it is another name of a tensor, name both in `tied`",
                )
            shards[path] = _read_shard(
                opened[where_is[name]], name, tensor, local_slice(manifest, tensor, rank), framework
            )
        return shards
    finally:
        for file in opened.values():
            file.__exit__(None, None, None)


def _open(safe_open, file, framework):
    try:
        return safe_open(file, framework=framework).__enter__()
    except Exception as error:  # safetensors raises its own types, and the system's
        raise ManifestError(printable(file), f"cannot be read: {error}", "give safetensors files") from None


def _files_of(files):
    """The safetensors files that a path, a list of paths or an index names, each once."""
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    found = []
    for path in map(str, paths):
        found += _files_of_index(Path(path)) if path.endswith(".json") else [path]
    return list(dict.fromkeys(found))


def _files_of_index(index):
    """The files of a weight_map, all beside the index or below it."""
    remedy = "give a model.safetensors.index.json, or the files themselves"
    try:
        document = json.loads(index.read_text(encoding="utf-8"))
        names = dict.fromkeys(document["weight_map"].values())
    except OSError as error:
        raise ManifestError(printable(index), f"cannot be read: {error.strerror}", remedy) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ManifestError(printable(index), "is no index of safetensors files", remedy) from None
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
                f"weight_map names `{printable(name)}`, which leaves the directory of the index",
                remedy,
            )
    return [str(index.parent / name) for name in names]


def _read_shard(file, name, tensor, runs, framework):
    where = f"parameter `{printable(tensor.path)}`"
    view = file.get_slice(name)
    if tuple(view.get_shape()) != tensor.shape:
        raise ManifestError(
            where,
            f"has shape {list(view.get_shape())} in the file and {list(tensor.shape)} in the manifest",
            "give the checkpoint of the model that the plan was compiled for",
        )
    if view.get_dtype() != SAFETENSORS_DTYPES.get(tensor.dtype):
        raise ManifestError(
            where,
            f"is {view.get_dtype()} in the file and {tensor.dtype} in the manifest",
            "export the model in the checkpoint's dtype and compile the plan again, or convert the checkpoint",
        )
    try:
        if 0 in tensor.shape or not tensor.shape:
            view = file.get_tensor(name)
        # safetensors takes an empty slice at the beginning of a dim, but not at its end.
        pieces = [
            view[tuple(slice(begin, end) if begin < end else slice(0, 0) for begin, end in piece)]
            for piece in itertools.product(*runs)
        ]
    except Exception as error:  # a type that numpy lacks, a file that ends early
        raise ManifestError(
            where, f"cannot be read: {error}", 'read with framework="pt", or give a whole file'
        ) from None
    return _join(pieces, [len(r) for r in runs], framework)


def _join(pieces, counts, framework):
    """Puts the pieces of a product of runs together, the last dim varying fastest; in memory of their own, for safetensors'
    slices are views of the whole tensor in the mapped file."""
    if framework == "pt":
        from torch import cat as concatenate
    else:
        from numpy import concatenate
    for dim in reversed(range(len(counts))):
        if counts[dim] > 1:
            pieces = [concatenate(pieces[i : i + counts[dim]], dim) for i in range(0, len(pieces), counts[dim])]
    return pieces[0].contiguous().clone() if framework == "pt" else pieces[0].copy()
