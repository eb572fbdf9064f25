"""Weights for tests, written and read byte by byte: safetensors files, their models and manifests, and the shards of
ranks.
"""

import itertools
import json
import math
import random
import struct

from executor import run

# Specs that shard each dim, or several, over a mesh that has `tp` and may have `fsdp`.
SPECS = {
    "rows": ["tp", None],
    "columns": [None, "tp"],
    "both": ["fsdp", "tp"],
    "stacked": [None, "tp", "fsdp"],
    "line": ["tp"],
    "large": ["tp", "fsdp"],
    "thin": [None, "tp"],
}
BITS = {
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "bool": 8,
    "uint8": 8,
    "int8": 8,
    "float8_e5m2": 8,
    "float8_e4m3fn": 8,
    "float8_e8m0fnu": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2fnuz": 8,
    "int16": 16,
    "uint16": 16,
    "float16": 16,
    "bfloat16": 16,
    "int32": 32,
    "uint32": 32,
    "float32": 32,
    "complex64": 64,
    "float64": 64,
    "int64": 64,
    "uint64": 64,
}
NAMES = {
    "float4_e2m1fn": "F4",
    "float6_e2m3fn": "F6_E2M3",
    "float6_e3m2fn": "F6_E3M2",
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "complex64": "C64",
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
}


def byte_count(dtype, shape):
    return math.prod(shape) * BITS[dtype] // 8


def random_tensors(shapes, seed=0):
    """Converts {name: (dtype, shape)} to {name: (dtype, shape, bytes)} with random bytes, including NaNs."""
    source = random.Random(seed)
    return {name: (dtype, shape, source.randbytes(byte_count(dtype, shape))) for name, (dtype, shape) in shapes.items()}


def write_file(path, tensors, metadata=None):
    header, data = {} if metadata is None else {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {
            "dtype": NAMES[dtype],
            "shape": list(shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_file(path):
    """Returns (metadata, {name: (dtype, shape, bytes)}) of a file. Checks that the header is padded to 8 bytes and the
    file has no gaps.
    """
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    assert length % 8 == 0
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    dtypes = {short: name for name, short in NAMES.items()}
    metadata = header.pop("__metadata__")
    assert max((e["data_offsets"][1] for e in header.values()), default=0) == len(data)
    order = [(-BITS[dtypes[e["dtype"]]], name) for name, e in header.items()]
    assert order == sorted(order)  # the order of the reference writer
    return metadata, {
        name: (dtypes[e["dtype"]], tuple(e["shape"]), data[slice(*e["data_offsets"])]) for name, e in header.items()
    }


def write_index(folder, tensors, files=2):
    """Writes tensors to several files with an index, like Hugging Face."""
    names = list(tensors)
    weight_map = {}
    for i in range(files):
        file = f"model-{i + 1:05}-of-{files:05}.safetensors"
        write_file(folder / file, {n: tensors[n] for n in names[i::files]}, {"format": "pt"})
        weight_map |= dict.fromkeys(names[i::files], file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def compile_manifest(folder, shapes, specs, mesh, name="manifest.json", tied=(), segments=None, buffers=()):
    """Writes the manifest of a model with these parameters ({name: (dtype, shape)}), sharded by these specs ({name:
    spec}).
    """
    modules = {}
    for parameter, (dtype, shape) in shapes.items():
        path, _, leaf = parameter.rpartition(".")
        module = modules.setdefault(path, {"path": path, "type": "Thing"})
        entry = {"shape": list(shape), "dtype": dtype} | (
            {"segments": segments[parameter]} if segments and parameter in segments else {}
        )
        if segments and parameter in segments:
            entry["dims"] = [f"d{i}" for i in range(len(shape))]
        module.setdefault("buffers" if parameter in buffers else "parameters", {})[leaf] = entry
    model = {
        "format": "tpplan.model/1",
        "name": "Test",
        "framework": "torch",
        "modules": list(modules.values()),
        "tied": [list(t) for t in tied],
    }
    axes = ", ".join(f"{axis}: {size}" for axis, size in mesh.items())
    rules = "".join(f"  {json.dumps(parameter)}: {{spec: {json.dumps(spec)}}}\n" for parameter, spec in specs.items())
    plan = f"format: tpplan.plan/1\nmesh: {{{axes}}}\nuneven: torch\n" + (
        f"tp_plan:\n{rules}" if rules else "tp_plan: {}\n"
    )
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "plan.yaml").write_text(plan)
    result = run("compile", folder / "model.json", folder / "plan.yaml", "-o", folder / name)
    assert result.returncode == 0, result.stderr.decode()
    return folder / name


def slices(manifest, ranks):
    """Returns [{path: intervals}] by rank, as `tpplan show` prints them."""
    out = []
    for rank in range(ranks):
        result = run("show", manifest, "--rank", rank, "--format", "json")
        assert result.returncode == 0, result.stderr.decode()
        entries = [json.loads(line) for line in result.stdout.decode().splitlines()]
        out.append({e["path"]: e["intervals"] for e in entries})
    return out


def elements(shape, box):
    """Returns the row-major indices of the elements of a box [(begin, end), ...] of a tensor."""
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    for index in itertools.product(*(range(*run_) for run_ in box)):
        yield sum(i * s for i, s in zip(index, strides))


def cut(tensor, box):
    """Returns the bytes of a box of a tensor with whole bytes per element."""
    dtype, shape, content = tensor
    width = BITS[dtype] // 8
    return b"".join(content[n * width : (n + 1) * width] for n in elements(shape, box))
