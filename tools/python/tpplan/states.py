"""States of training beside a model's parameters (moments of an optimizer, master weights, counts of steps) as tensors that are cut
as the parameters that they belong to: one manifest of all, by which a folder is saved, resharded and read like any other.

    python -m tpplan.states manifest.json --of checkpoint -o states.json

writes the manifest that a folder of `save_states` has on the mesh of manifest.json: `tpplan-exec reshard` takes one for each mesh."""

import argparse
import json
import os
import struct
import sys
from dataclasses import replace

from . import slices
from .files import InputError, printable, run_command, write_output
from .manifest import (
    DTYPE_BITS,
    FORMAT,
    SAFETENSORS_DTYPES,
    ManifestError,
    Tensor,
    device_count,
    digest_of,
    load_manifest,
    read_manifest_text,
    sum_totals,
)

MAX_HEADER = 100 << 20
DTYPE_OF = {stored: name for name, stored in SAFETENSORS_DTYPES.items()}


def owner_of(manifest, path, shape):
    """The Tensor of the manifest that a state belongs to, as which it is cut: the longest path that its path ends with
    (`optimizer.exp_avg.layers.0.weight`), where that has its shape. None: every rank holds all of it."""
    while path:
        tensor = manifest.parameters.get(path) or manifest.buffers.get(path)
        if tensor is not None:
            return tensor if tuple(tensor.shape) == tuple(shape) else None
        path = path.partition(".")[2]
    return None


def states_manifest(manifest, tensors):
    """The Manifest of {path: (dtype, shape)} on the mesh of a model's manifest: parameters alone, without rules and boundaries. It
    depends on these two alone, not on the order of the dict."""
    manifest = load_manifest(manifest)
    written = json.loads(manifest.text)
    entries = {entry["path"]: entry for entry in [*written.get("buffers", ()), *written["parameters"]]}
    lines, made = [], []
    for path in sorted(tensors):
        dtype, shape = tensors[path]
        if dtype not in DTYPE_BITS:
            raise ManifestError(f"state `{printable(path)}`", f"is of type {printable(dtype)}", "save numbers alone")
        owner = owner_of(manifest, path, shape)
        one = _whole(manifest, shape) if owner is None else owner
        lines.append(_entry(path, dtype, one, entries.get(one.path)))
        made.append(replace(one, path=path, dtype=dtype))
    alone = replace(manifest, parameters={t.path: t for t in made}, buffers={}, data_axes=(), fsdp_axis=None)
    return read_manifest_text(_text(written, lines, sum_totals(alone, made)), "the manifest of states")


def _whole(manifest, shape):
    """A tensor that every rank holds."""
    shape, ranks = tuple(shape), device_count(manifest)
    whole = ("Replicate",) * len(manifest.mesh)
    return Tensor("", shape, "", ((),) * len(shape), {}, whole, (shape,), (), None, None, "", ranks, (), (), None)


def _entry(path, dtype, tensor, written):
    """The line of a tensor; of one that is cut as another what that one's says of it."""
    spec = slices.entries_of(tensor.spec) if written is None else written["spec"]
    entry = {"path": path, "shape": list(tensor.shape), "dtype": dtype, "spec": list(spec)}
    entry["placements"] = None if tensor.placements is None else list(tensor.placements)
    if written is None:
        entry["local_shape"] = list(tensor.shape)
    else:
        entry |= {key: written[key] for key in ("segments", "local_shape", "local_shapes", "offsets") if key in written}
    return entry | {
        "style": None,
        "rule": None,
        "reason": "default",
        "replicas": tensor.replicas,
        "grad_reduce": [],
        "init": None,
    }


def _text(written, lines, totals):
    """The text of a manifest: as the compiler writes it, a tensor a line."""
    members = {"format": FORMAT, **{key: written[key] for key in ("tool", "inputs", "mesh", "uneven")}, "rules": []}
    parameters = ",\n    ".join(json.dumps(line, ensure_ascii=False) for line in lines)
    rest = {"modules": [], "buffers": [], "tied": [], "data": None, "loss": None, "fsdp": None, "remat": []}
    rest |= {"init": {"algorithm": "threefry2x32-jax", "distributions": []}, "totals": totals}
    lines = f"\n    {parameters}\n  " if lines else ""
    text = "{\n  " + ",\n  ".join([*_members(members), f'"parameters": [{lines}]', *_members(rest)])
    digest = digest_of(text + ', "digest": ""}')
    return f'{text},\n  "digest": "{digest}"\n}}\n'


def _members(members):
    return [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in members.items()]


def stored_tensors(weights):
    """{path: (dtype, whole shape)} of what a safetensors file has, or the files of a folder together. Raises ManifestError."""
    weights, found = os.fspath(weights), {}
    names = [weights]
    try:
        if os.path.isdir(weights):
            names = [os.path.join(weights, n) for n in sorted(os.listdir(weights)) if n.endswith(".safetensors")]
        for name in names:
            for path, dtype, end in _header_of(name):
                known = found.setdefault(path, (dtype, end))
                if known[0] != dtype or len(known[1]) != len(end):
                    raise ManifestError(
                        printable(name), f"`{printable(path)}` is not what other files say", "save again"
                    )
                found[path] = dtype, [max(pair) for pair in zip(known[1], end)]
    except OSError as error:
        raise ManifestError(printable(weights), f"cannot be read: {error.strerror}", "name a checkpoint") from None
    if not found:
        raise ManifestError(printable(weights), "holds no tensors", "name a folder that save_states wrote")
    return found


def _header_of(name):
    """(path, dtype, where it ends in the whole tensor) of each piece of a file."""
    with open(name, "rb") as file:
        length = file.read(8)
        length = struct.unpack("<Q", length)[0] if len(length) == 8 else MAX_HEADER + 1
        text = file.read(length) if length <= MAX_HEADER else b""
    try:
        header = json.loads(text)
        offsets = json.loads(header.pop("__metadata__", {}).get("DCP_SHARDING_INFO", "{}"))
        return [
            (
                path,
                DTYPE_OF[said["dtype"]],
                [
                    a + b
                    for a, b in zip(said["shape"], offsets.get(path, {}).get("saved_offsets", [0] * len(said["shape"])))
                ],
            )
            for path, said in header.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ManifestError(printable(name), "is no safetensors file", "copy it again, or save it again") from None


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tpplan.states",
        description="Writes the manifest of a folder of save_states for the mesh of another manifest.",
    )
    parser.add_argument("manifest", metavar="MANIFEST", help="of the model, by which its parameters are cut")
    parser.add_argument("--of", required=True, metavar="FOLDER", help="that save_states or `tpplan-exec reshard` wrote")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write (default: standard output)")
    options = parser.parse_args(arguments)
    try:
        text = states_manifest(options.manifest, stored_tensors(options.of)).text
    except ManifestError as error:
        raise InputError(f"{error.place}: {error.reason}", error.remedy, 1) from None
    write_output(options.output, text, [options.manifest])


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
