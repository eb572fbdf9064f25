"""Reads manifests from files and documents, and proves them."""

import hashlib
import json
import math
import re
from dataclasses import replace
from fractions import Fraction

from ..files import printable
from .dtypes import DTYPE_BITS, SENT_DTYPES
from .manifest import (
    COMPILE_AGAIN,
    LAYOUT,
    WRITTEN_BY,
    Boundary,
    Loss,
    Manifest,
    ManifestError,
    ParamStep,
    Rule,
    Step,
    Tensor,
    Value,
)
from .members import no_constants, no_duplicates, take, take_axes, take_list, take_sizes
from .prove import (
    prove_boundaries,
    prove_rules,
    prove_sent_dtypes,
    prove_sides,
    prove_steps,
    prove_sums,
    prove_tensor,
    prove_ties,
    prove_totals,
)
from .prove_rules import prove_values
from .totals import TOTALS

FORMAT = "tpplan.manifest/1"
SUMMERS = ("module", "fsdp", "ddp", "tpplan")


def load_manifest(source):
    """Reads a manifest from a path, or takes one that json.loads gave, and proves it. Raises ManifestError."""
    if isinstance(source, Manifest):
        return source
    if isinstance(source, dict):
        return replace(_read(source, "manifest"), text=json.dumps(source, ensure_ascii=False))
    name = printable(source)
    try:
        with open(source, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ManifestError(name, f"cannot be read: {error.strerror}", WRITTEN_BY) from None
    except ValueError as error:
        raise ManifestError(name, f"is not a JSON document: {error}", WRITTEN_BY) from None
    return read_manifest_text(text, name)


def read_manifest_text(text, name):
    """The same of a manifest's text; `name` is what errors call it."""
    try:
        document = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constants)
    except (ValueError, RecursionError) as error:
        raise ManifestError(name, f"is not a JSON document: {error}", WRITTEN_BY) from None
    manifest = _read(document, name)
    if "digest" in document and document["digest"] != digest_of(text):
        raise ManifestError(name, "is not as it was written: its text has another digest than it says", COMPILE_AGAIN)
    return replace(manifest, text=text)


def digest_of(text):
    """The digest of a manifest's text: of what stands before its last member and the comma there, without white space
    between values (lib/manifest/text_digest.h). None where the digest is not the last member."""
    last = re.search(r',\s*"digest"\s*:\s*"[^"]*"\s*}\s*\Z', text)
    if last is None:
        return None
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[^"\s]+', text[: last.start()])
    return "sha256:" + hashlib.sha256("".join(pieces).encode()).hexdigest()


MEMBERS = (
    *("format", "tool", "inputs", "mesh", "uneven", "rules", "parameters", "buffers", "tied", "modules", "init"),
    *("data", "loss", "fsdp", "remat", "totals", "collectives", "step", "costs", "digest"),
)


def _read(document, name):
    take(name, document, "format", str)
    for key in document:
        if key not in MEMBERS:
            raise ManifestError(name, f"a manifest has no member `{printable(key)}`", COMPILE_AGAIN)
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
        raise ManifestError("`mesh`", "has no axes, an axis twice, or too many ranks", COMPILE_AGAIN)
    uneven = take(name, document, "uneven", str)
    if uneven not in ("error", "torch"):
        raise ManifestError("`uneven`", "is neither error nor torch", COMPILE_AGAIN)
    data = take(name, document, "data", dict, None)
    fsdp = take(name, document, "fsdp", dict, None)
    manifest = Manifest(
        model_name=take(
            "`inputs.model`", take("`inputs`", take(name, document, "inputs", dict), "model", dict), "name", str
        ),
        mesh=mesh,
        uneven=uneven,
        parameters=_read_tensors(take(name, document, "parameters", list), mesh, uneven),
        buffers=_read_tensors(take(name, document, "buffers", list, []), mesh, uneven),
        modules=tuple(_read_boundary(entry, mesh) for entry in take(name, document, "modules", list)),
        rules=tuple(_read_rule(entry, mesh) for entry in take(name, document, "rules", list, [])),
        tied=tuple(
            take_list("`tied`", group, str)
            for group in take_list("`tied`", take(name, document, "tied", list, []), list)
        ),
        data_axes=take_axes("`data`", take("`data`", data, "axes", list), mesh) if data else (),
        data_dim=take("`data`", data, "dim", int) if data else 0,
        fsdp_axis=take_axes("`fsdp`", [take("`fsdp`", fsdp, "axis", str)], mesh)[0] if fsdp else None,
        fsdp_units=tuple(take_list("`fsdp`", take("`fsdp`", fsdp, "units", list), str)) if fsdp else (),
        loss=_read_loss(take(name, document, "loss", dict, None), mesh),
        remat=tuple(take_list("`remat`", take(name, document, "remat", list, []), str)),
        totals=_read_totals(take(name, document, "totals", dict)),
    )
    prove_rules(manifest)
    prove_boundaries(manifest)
    prove_sent_dtypes(manifest)
    prove_values(manifest, "digest" in document)
    prove_sides(manifest)
    prove_sums(manifest, "digest" in document)
    prove_ties(manifest)
    prove_totals(manifest)
    return manifest


def _read_tensors(entries, mesh, uneven):
    tensors = {}
    for entry in entries:
        path = take("`parameters`", entry, "path", str)
        where = f"parameter `{printable(path)}`"
        if path in tensors:
            raise ManifestError(where, "stands twice", COMPILE_AGAIN)
        tensors[path] = _read_tensor(where, path, entry, mesh, uneven)
    return tensors


def _read_tensor(where, path, entry, mesh, uneven):
    shape = take_sizes(where, take(where, entry, "shape", list))
    dtype = take(where, entry, "dtype", str)
    if dtype not in DTYPE_BITS:
        raise ManifestError(where, f"unknown dtype `{printable(dtype)}`", WRITTEN_BY)
    entries = [[] if e is None else [e] if isinstance(e, str) else e for e in take(where, entry, "spec", list)]
    spec = tuple(take_axes(where, e, mesh) for e in entries)
    segments = {}
    for dim, parts in take(where, entry, "segments", dict, {}).items():
        if not dim.isascii() or not dim.isdigit() or int(dim) >= len(shape):
            raise ManifestError(where, f"segments of dim `{printable(dim)}`, which there is not", COMPILE_AGAIN)
        segments[int(dim)] = list(take_sizes(where, parts))
    placements = take(where, entry, "placements", list, None)
    single = take(where, entry, "local_shape", list, None)
    shapes = [single] if single is not None else take(where, entry, "local_shapes", list)
    reduces = tuple(
        (take_axes(where, [take(where, r, "axis", str)], mesh)[0], take(where, r, "kind", str))
        for r in take(where, entry, "grad_reduce", list)
    )
    summers = tuple(_take_word(where, r, "by", SUMMERS, None) for r in entry["grad_reduce"])
    tensor = Tensor(
        path,
        shape,
        dtype,
        spec,
        segments,
        None if placements is None else tuple(take_list(where, placements, str)),
        tuple(take_sizes(where, s) for s in shapes),
        _read_offsets(where, take(where, entry, "offsets", list, [])),
        take(where, entry, "style", str, None),
        take(where, entry, "rule", int, None),
        take(where, entry, "reason", str),
        take(where, entry, "replicas", int),
        reduces,
        summers,
        _read_weight(where, take(where, entry, "norm_weight", str, None)),
        take(where, entry, "kind", str, None),
        tuple(take_list(where, take(where, entry, "dims", list, []), str)),
        tuple(_read_param_step(where, s, mesh) for s in take(where, entry, "steps", list, [])),
    )
    if tensor.dims and len(tensor.dims) != len(shape):
        raise ManifestError(where, f"{len(tensor.dims)} names of dims for {len(shape)} dims", COMPILE_AGAIN)
    prove_tensor(where, tensor, mesh, uneven)
    return tensor


def _read_offsets(where, entries):
    return tuple(
        (
            take(where, entry, "dim", int),
            tuple(take_sizes(where, level) for level in take(where, entry, "ranks", list)),
            tuple(
                tuple(take_sizes(where, run) for run in take_list(where, runs, list))
                for runs in take_list(where, take(where, entry, "runs", list), list)
            ),
        )
        for entry in entries
    )


def _take_word(where, entry, key, words, default=...):
    """A text that is one of these."""
    word = take(where, entry, key, str, default)
    if word is not default and word not in words:
        raise ManifestError(where, f"unknown `{key}` `{printable(word)}`", WRITTEN_BY)
    return word


def _read_weight(where, text):
    if text is None:
        return None
    if re.fullmatch("1/[1-9][0-9]{0,9}", text, re.ASCII) is None:
        raise ManifestError(where, f"`norm_weight` is `{printable(text)}`", WRITTEN_BY)
    return Fraction(text)


def _read_loss(loss, mesh):
    return loss and Loss(
        take("`loss`", loss, "output", int),
        _take_word("`loss`", loss, "reduction", ("mean", "sum")),
        _take_word("`loss`", loss, "count", ("per_rank", "global")),
        take_axes("`loss`", take("`loss`", loss, "axes", list), mesh),
        _take_word("`loss`", loss, "gradients", ("mean", "sum")),
    )


def _read_step(where, entry, mesh):
    return Step(
        take(where, entry, "kind", str),
        take_axes(where, [take(where, entry, "axis", str)], mesh)[0],
        take(where, entry, "dim", int, None),
        take(where, entry, "from_dim", int, None),
    )


def _read_param_step(where, entry, mesh):
    numbers = (take(where, entry, key, int) for key in ("elements", "bytes", "sent"))
    return ParamStep(take(where, entry, "part", str), _read_step(where, entry, mesh), *numbers)


def _read_boundary(entry, mesh):
    path = take("`modules`", entry, "path", str)
    where = f"module `{printable(path)}`"
    values = {
        side: tuple(_read_value(where, v, mesh) for v in take(where, entry, side, list))
        for side in ("inputs", "outputs")
    }
    return Boundary(
        path, take(where, entry, "style", str), take(where, entry, "rule", int), values["inputs"], values["outputs"]
    )


def _read_rule(entry, mesh):
    axes = (take("`rules`", entry, key, str, None) for key in ("sums", "axis"))
    sums, axis = (None if name is None else take_axes("`rules`", [name], mesh)[0] for name in axes)
    sides = ("inputs", "outputs") if axis is not None else ()
    return Rule(
        take("`rules`", entry, "key", str),
        take("`rules`", entry, "modules", int, None),
        sums,
        *_read_sent_dtypes("`rules`", entry),
        take("`rules`", entry, "holds", dict, None),
        axis,
        *(tuple(map(_read_rule_value, take_list("`rules`", take("`rules`", entry, s, list), dict))) for s in sides),
        **({"bare": take("`rules`", entry, "bare", int, 0)} if sides else {}),
    )


def _read_rule_value(entry):
    return tuple(
        take("`rules`", entry, key, kind, None) for key, kind in (("arg", int), ("kwarg", str), ("use_local", bool))
    )


def _read_sent_dtypes(where, entry):
    return (_take_word(where, entry, key, SENT_DTYPES, None) for key in ("forward_dtype", "backward_dtype"))


def _read_layouts(where, entry, mesh):
    layouts = {}
    for key in ("from", "to"):
        layout = take(where, entry, key, list, None)
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
            raise ManifestError(where, "`gradient` lacks a layout", WRITTEN_BY)
    steps = {
        key: tuple(_read_step(where, s, mesh) for s in take(where, entry, key, list, []))
        for key in ("forward", "backward")
    }
    value = Value(
        take(where, entry, "arg", int, None),
        take(where, entry, "kwarg", str, None),
        source,
        target,
        gradient,
        take(where, entry, "use_local", bool, None),
        steps["forward"],
        steps["backward"],
        *_read_sent_dtypes(where, entry),
    )
    prove_steps(where, value, mesh)
    return value


def _read_totals(totals):
    read = {key: take("`totals`", totals, key, int) for key in TOTALS}
    per_rank = take("`totals`", totals, "bytes_per_rank", list, None)
    read["bytes_per_rank"] = None if per_rank is None else list(take_sizes("`totals.bytes_per_rank`", per_rank))
    return read
