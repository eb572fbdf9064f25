"""Models, plans and values of `tpplan-exec init`, and a reference implementation of threefry."""

import json
import struct

from conftest import run
from executor import succeeds

NORMAL = {"normal": {"mean": 0, "std": 0.02}}


def model_of(tensors, framework="torch", kind="Linear", **more):
    """A model with one module per tensor: {path of the module: (shape, dtype)}."""
    name = "kernel" if framework == "keras" else "weight"
    modules = [
        {"path": path, "type": kind, "parameters": {name: {"shape": list(shape), "dtype": dtype, **parts}}}
        for path, (shape, dtype, *rest) in tensors.items()
        for parts in [rest[0] if rest else {}]
    ]
    return {
        "format": "tpplan.model/1",
        "name": "m",
        "framework": framework,
        "modules": [{"path": "", "type": "M"}, *modules],
        **more,
    }


def compile_plan(folder, model, mesh=None, rules=None, init=None, **more):
    plan = {"format": "tpplan.plan/1", "mesh": mesh or {"tp": 1}, "tp_plan": rules or {"*": "replicate"}, **more}
    if init is not None:
        plan["init"] = init
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "plan.yaml").write_text(json.dumps(plan))
    result = run("compile", folder / "model.json", folder / "plan.yaml", "-o", folder / "manifest.json", "--quiet")
    assert result.returncode == 0, result.stderr.decode()
    return folder / "manifest.json"


def read_tensors(path):
    """Returns {name: (dtype, shape, bytes)} of a safetensors file."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    return {name: (e["dtype"], e["shape"], body[slice(*e["data_offsets"])]) for name, e in header.items()}


def initialise(manifest, seed=0, **more):
    out = manifest.parent / f"whole-{seed}.safetensors"
    result = succeeds("init", manifest, "--seed", seed, "--consolidated", out, "--json", **more)
    return read_tensors(out), json.loads(result.stdout)


# ---- threefry, from its definition ----

MASK = 0xFFFFFFFF


def threefry(key, x, y):
    keys = (key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (x + keys[0]) & MASK, (y + keys[1]) & MASK
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) & MASK
            y = ((y << turn | y >> (32 - turn)) & MASK) ^ x
        x, y = (x + keys[(group + 1) % 3]) & MASK, (y + keys[(group + 2) % 3] + group + 1) & MASK
    return x, y


def hash_of(path):
    h = 0xCBF29CE484222325
    for byte in path.replace("/", ".").encode():
        h = (h ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return h


def key_of(seed, path):
    key = (seed >> 32, seed & MASK)
    for part in (hash_of(path) >> 32, hash_of(path) & MASK):
        key = threefry(key, 0, part)
    return key
