"""Reads manifests from files and documents. Only the form and the digest are checked here; `tpplan show --verify`
checks that a manifest is consistent."""

import hashlib
import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from types import NoneType

from ..files import printable
from ..input_files import read_text
from .dtypes import DTYPE_BITS, SENT_DTYPES
from .manifest import (
    COMPILE_AGAIN,
    LAYOUT,
    WRITTEN_BY,
    Boundary,
    LocalAttribute,
    Loss,
    Manifest,
    ManifestError,
    Tensor,
    Value,
)
from .members import no_constants, no_duplicates, take, take_axes, take_list, take_sizes

FORMAT = "tpplan.manifest/1"


def load_manifest(source):
    """Reads a manifest from a path, or from a dict that json.loads returned; returns a Manifest unchanged. Raises
    ManifestError."""
    if isinstance(source, Manifest):
        return source
    if isinstance(source, dict):
        return replace(_read(source, "manifest"), text=json.dumps(source, ensure_ascii=False))
    name = printable(source)
    try:
        text = read_text(source)
    except OSError as error:
        raise ManifestError(name, f"cannot be read: {error.strerror}", WRITTEN_BY) from None
    except ValueError as error:
        raise ManifestError(name, f"is not a JSON document: {error}", WRITTEN_BY) from None
    return read_manifest_text(text, name)


def read_manifest_text(text, name):
    """Reads a manifest from its text; errors call it `name`. Raises ManifestError."""
    try:
        document = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constants)
    except (ValueError, RecursionError) as error:
        raise ManifestError(name, f"is not a JSON document: {error}", WRITTEN_BY) from None
    manifest = _read(document, name)
    if document.get("digest") is None or document["digest"] != digest_of(text):
        raise ManifestError(name, "was changed after it was written: its digest does not match its text", COMPILE_AGAIN)
    return replace(manifest, text=text)


def digest_of(text):
    """Returns the digest of a manifest's text; None if `digest` is not the last field. The digest covers the text
    before the last field and its comma, without whitespace between tokens (lib/manifest/text_digest.h)."""
    last = re.search(r',\s*"digest"\s*:\s*"[^"]*"\s*}\s*\Z', text)
    if last is None:
        return None
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[^"\s]+', text[: last.start()])
    return "sha256:" + hashlib.sha256("".join(pieces).encode()).hexdigest()


MEMBERS = (
    *("format", "tool", "inputs", "mesh", "uneven", "rules", "parameters", "buffers", "tied", "modules", "init"),
    *("data", "loss", "fsdp", "remat", "local_attributes", "totals", "collectives", "step", "costs", "digest"),
)


def _read(document, name):
    take(name, document, "format", str)
    for key in document:
        if key not in MEMBERS:
            raise ManifestError(name, f"a manifest has no key `{printable(key)}`", COMPILE_AGAIN)
    if document["format"] != FORMAT:
        raise ManifestError(name, f"format `{printable(document['format'])}` is not `{FORMAT}`", WRITTEN_BY)
    mesh = tuple(
        (take("`mesh`", axis, "name", str), take("`mesh`", axis, "size", int))
        for axis in take(name, document, "mesh", list)
    )
    names = [axis for axis, _ in mesh]
    if (
        not mesh
        or len(set(names)) != len(names)
        or any(size < 1 for _, size in mesh)
        or math.prod(s for _, s in mesh) >= 1 << 31
    ):
        raise ManifestError("`mesh`", "has no axes, a duplicate axis, a size below 1 or too many ranks", COMPILE_AGAIN)
    uneven = take(name, document, "uneven", str)
    if uneven not in ("error", "torch"):
        raise ManifestError("`uneven`", "must be error or torch", COMPILE_AGAIN)
    data = take(name, document, "data", (dict, NoneType))
    fsdp = take(name, document, "fsdp", (dict, NoneType))
    return Manifest(
        model_name=take(
            "`inputs.model`", take("`inputs`", take(name, document, "inputs", dict), "model", dict), "name", str
        ),
        mesh=mesh,
        uneven=uneven,
        parameters=_read_tensors(take(name, document, "parameters", list), mesh),
        buffers=_read_tensors(take(name, document, "buffers", list), mesh),
        modules=tuple(_read_boundary(entry, mesh) for entry in take(name, document, "modules", list)),
        tied=tuple(
            take_list("`tied`", group, str) for group in take_list("`tied`", take(name, document, "tied", list), list)
        ),
        data_axes=take_axes("`data`", take("`data`", data, "axes", list), mesh) if data else (),
        data_dim=take("`data`", data, "dim", int) if data else 0,
        fsdp_axis=take_axes("`fsdp`", [take("`fsdp`", fsdp, "axis", str)], mesh)[0] if fsdp else None,
        fsdp_units=tuple(take_list("`fsdp`", take("`fsdp`", fsdp, "units", list), str)) if fsdp else (),
        loss=_read_loss(take(name, document, "loss", (dict, NoneType)), mesh),
        remat=tuple(take_list("`remat`", take(name, document, "remat", list), str)),
        local_attributes=_read_local_attributes(take(name, document, "local_attributes", dict, None), mesh),
        counted=take("`totals`", take(name, document, "totals", dict), "parameters", int),
    )


def _read_local_attributes(document, mesh):
    if document is None:
        return ()
    where = "`local_attributes`"
    (axis,) = take_axes(where, [take(where, document, "axis", str)], mesh)
    return tuple(
        LocalAttribute(take(where, module, "path", str), name, size, dict(mesh)[axis])
        for module in take_list(where, take(where, document, "modules", list), dict)
        for name, size in zip(
            take(where, module, "attributes", dict), take_sizes(where, list(module["attributes"].values()))
        )
    )


def _read_tensors(entries, mesh):
    tensors = {}
    for entry in entries:
        path = take("`parameters`", entry, "path", str)
        where = f"parameter `{printable(path)}`"
        if path in tensors:
            raise ManifestError(where, "appears twice", COMPILE_AGAIN)
        tensors[path] = _read_tensor(where, path, entry, mesh)
    return tensors


def _read_tensor(where, path, entry, mesh):
    shape = take_sizes(where, take(where, entry, "shape", list))
    dtype = take(where, entry, "dtype", str)
    if dtype not in DTYPE_BITS:
        raise ManifestError(where, f"unknown dtype `{printable(dtype)}`", WRITTEN_BY)
    entries = [[] if e is None else [e] if isinstance(e, str) else e for e in take(where, entry, "spec", list)]
    spec = tuple(take_axes(where, e, mesh) for e in entries)
    segments = {}
    for dim, parts in take(where, entry, "segments", dict, {}).items():
        if not dim.isascii() or not dim.isdigit() or int(dim) >= len(shape):
            raise ManifestError(where, f"segments of dim `{printable(dim)}`, which does not exist", COMPILE_AGAIN)
        segments[int(dim)] = list(take_sizes(where, parts))
    placements = take(where, entry, "placements", (list, NoneType))
    single = take(where, entry, "local_shape", (list, NoneType))
    shapes = [single] if single is not None else take(where, entry, "local_shapes", list)
    reduces = tuple(
        (take_axes(where, [take(where, r, "axis", str)], mesh)[0], take(where, r, "kind", str))
        for r in take(where, entry, "grad_reduce", list)
    )
    return Tensor(
        path,
        shape,
        dtype,
        spec,
        segments,
        None if placements is None else tuple(take_list(where, placements, str)),
        tuple(take_sizes(where, s) for s in shapes),
        take(where, entry, "style", (str, NoneType)),
        take(where, entry, "replicas", int),
        reduces,
        _read_weight(where, take(where, entry, "norm_weight", str, None)),
    )


def _take_word(where, entry, key, words, default=...):
    """Returns a text field that must be one of `words`."""
    word = take(where, entry, key, str, default)
    if word is not default and word not in words:
        raise ManifestError(where, f"unknown `{key}`: `{printable(word)}`", WRITTEN_BY)
    return word


def _read_weight(where, text):
    if text is None:
        return None
    if re.fullmatch("1/[1-9][0-9]{0,9}", text, re.ASCII) is None:
        raise ManifestError(where, f"`norm_weight` is `{printable(text)}`, not a fraction such as 1/4", WRITTEN_BY)
    return Fraction(text)


def _read_loss(loss, mesh):
    return loss and Loss(
        take("`loss`", loss, "output", int),
        _take_word("`loss`", loss, "reduction", ("mean", "sum")),
        _take_word("`loss`", loss, "count", ("per_rank", "global")),
        take_axes("`loss`", take("`loss`", loss, "axes", list), mesh),
        _take_word("`loss`", loss, "gradients", ("mean", "sum")),
    )


def _read_boundary(entry, mesh):
    path = take("`modules`", entry, "path", str)
    where = f"module `{printable(path)}`"
    values = {
        side: tuple(_read_value(where, v, mesh) for v in take(where, entry, side, list))
        for side in ("inputs", "outputs")
    }
    return Boundary(path, take(where, entry, "style", str), values["inputs"], values["outputs"])


def _read_sent_dtypes(where, entry):
    return (_take_word(where, entry, key, SENT_DTYPES, None) for key in ("forward_dtype", "backward_dtype"))


def _read_layouts(where, entry, mesh):
    layouts = {}
    for key in ("from", "to"):
        layout = take(where, entry, key, (list, NoneType))
        if layout is not None and len(take_list(where, layout, str)) != len(mesh):
            raise ManifestError(where, f"`{key}` has {len(layout)} placements for {len(mesh)} mesh axes", COMPILE_AGAIN)
        for text in layout or ():
            if LAYOUT.fullmatch(text) is None:
                raise ManifestError(where, f"unknown layout `{printable(text)}`", COMPILE_AGAIN)
        layouts[key] = None if layout is None else tuple(layout)
    return layouts["from"], layouts["to"]


def _read_value(where, entry, mesh):
    source, target = _read_layouts(where, entry, mesh)
    gradient = take(where, entry, "gradient", dict, None)
    if gradient is not None:
        gradient = _read_layouts(where, gradient, mesh)
        if None in gradient:
            raise ManifestError(where, "`gradient` has no layout `from` or `to`", WRITTEN_BY)
    return Value(
        take(where, entry, "arg", int, None),
        take(where, entry, "kwarg", str, None),
        source,
        target,
        gradient,
        take(where, entry, "use_local", bool, None),
        *_read_sent_dtypes(where, entry),
    )
