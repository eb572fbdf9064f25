"""Training state as a manifest: optimizer moments, master weights and step counts.

Each state tensor is sharded like the parameter that it belongs to. A folder with such a manifest is saved, resharded
and read like any other.

    python -m tpplan.states manifest.json --of checkpoint -o states.json

writes the manifest of a folder of `save_states` on the mesh of manifest.json. `tpplan-exec reshard` needs one manifest
per mesh.
"""

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
from .input_files import open_regular

MAX_HEADER = 100 << 20
DTYPE_OF = {stored: name for name, stored in SAFETENSORS_DTYPES.items()}


def owner_of(manifest, path, shape):
    """Returns the Tensor of the manifest whose sharding a state has; None if the state is replicated. This is the
    tensor with the longest path that is a suffix of the state's path (`optimizer.exp_avg.layers.0.weight`), if its
    shape is the same."""
    while path:
        tensor = manifest.parameters.get(path) or manifest.buffers.get(path)
        if tensor is not None:
            return tensor if tuple(tensor.shape) == tuple(shape) else None
        path = path.partition(".")[2]
    return None


def states_manifest(manifest, tensors):
    """Returns the Manifest of {path: (dtype, shape)} on the mesh of a model's manifest. It has only parameters,
    without rules and boundaries, and does not depend on the order of the dict."""
    manifest = load_manifest(manifest)
    written = json.loads(manifest.text)
    entries = {entry["path"]: entry for entry in [*written.get("buffers", ()), *written["parameters"]]}
    lines, made = [], []
    for path in sorted(tensors):
        dtype, shape = tensors[path]
        if dtype not in DTYPE_BITS:
            raise ManifestError(
                f"state `{printable(path)}`",
                f"has dtype {printable(dtype)}, which a manifest cannot store",
                "save only numeric states",
            )
        owner = owner_of(manifest, path, shape)
        one = _whole(manifest, shape) if owner is None else owner
        lines.append(_entry(path, dtype, one, entries.get(one.path)))
        made.append(replace(one, path=path, dtype=dtype))
    alone = replace(manifest, parameters={t.path: t for t in made}, buffers={}, data_axes=(), fsdp_axis=None)
    return read_manifest_text(_text(written, lines, sum_totals(alone, made)), "the manifest of states")


def _whole(manifest, shape):
    """Returns a replicated tensor."""
    shape, ranks = tuple(shape), device_count(manifest)
    whole = ("Replicate",) * len(manifest.mesh)
    return Tensor("", shape, "", ((),) * len(shape), {}, whole, (shape,), None, ranks, (), None)


def _entry(path, dtype, tensor, written):
    """Returns the JSON entry of a tensor. `written` is the entry of the tensor whose sharding it has, or None."""
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
    """Returns the text of a manifest in the compiler's format, with one tensor per line."""
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
    """Returns {path: (dtype, global shape)} of a safetensors file or of all files of a folder. Raises ManifestError."""
    found, name = {}, os.fspath(weights)
    names, folder = [name], None
    try:
        if os.path.isdir(weights):
            folder = weights
            names = [os.path.join(weights, n) for n in sorted(os.listdir(weights)) if n.endswith(".safetensors")]
        for name in names:
            for path, dtype, end in _header_of(name, folder):
                known = found.setdefault(path, (dtype, end))
                if known[0] != dtype or len(known[1]) != len(end):
                    raise ManifestError(
                        printable(name),
                        f"`{printable(path)}` has a different dtype or number of dims than in other files",
                        "save the states again",
                    )
                found[path] = dtype, [max(pair) for pair in zip(known[1], end)]
    except OSError as error:
        raise ManifestError(printable(name), f"cannot be read: {error.strerror}", "name a checkpoint") from None
    if not found:
        raise ManifestError(printable(weights), "has no tensors", "name a folder that save_states wrote")
    return found


def _header_of(name, folder):
    """Returns (path, dtype, end) for each shard in a file; `end` is the shard's end in each dim of the global tensor."""
    with open_regular(name, folder) as file:
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
        raise ManifestError(printable(name), "is not a safetensors file", "copy it again, or save it again") from None


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tpplan.states",
        description="Writes a manifest of the states in a folder of save_states, for the mesh of MANIFEST.",
    )
    parser.add_argument("manifest", metavar="MANIFEST", help="manifest that shards the model's parameters")
    parser.add_argument(
        "--of", required=True, metavar="FOLDER", help="folder that save_states or `tpplan-exec reshard` wrote"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="output file (default: standard output)")
    options = parser.parse_args(arguments)
    try:
        text = states_manifest(options.manifest, stored_tensors(options.of)).text
    except ManifestError as error:
        raise InputError(f"{error.place}: {error.reason}", error.remedy, 1) from None
    write_output(options.output, text, [options.manifest, *(entry.path for entry in os.scandir(options.of))])


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
