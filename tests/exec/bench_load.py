"""Measures how fast weights are loaded and verified, compared with the limits of the machine, in one run:

    python tests/exec/bench_load.py [--size 2GiB] [--ranks 4] [--rounds 5] [--folder DIR]

Compares with plain parallel pread of the same file into fresh memory (pread_peer.cc, with as many threads and the same
kind of memory), with the package safetensors, which reads the same shards by get_slice, and with the memory bandwidth
(a parallel memcpy; bytes copied per second). The file is in the page cache. Each figure is the best of the rounds.
TPPLAN is the path of tpplan; tpplan-exec and tpplan_pread_peer are next to it or in its folder `tests`.
"""

import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from executor import PROGRAM, ROOT, run, succeeds  # noqa: E402

HIDDEN, INNER, VOCABULARY = 2048, 5632, 32000
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def shapes_of(size):
    """Names and shapes of a Llama in bfloat16 of about `size` bytes."""
    scale = 1 if size >= 1 << 30 else 16 if size >= 16 << 20 else 32
    hidden, inner, vocabulary = HIDDEN // scale, INNER // scale, VOCABULARY // scale
    shapes = {
        "model.embed_tokens.weight": (vocabulary, hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (vocabulary, hidden),
    }
    layer = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (hidden // 4, hidden),
        "self_attn.v_proj": (hidden // 4, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    bytes_of = lambda shape: 2 * (shape[0] if len(shape) == 1 else shape[0] * shape[1])
    layers = max(1, (size - sum(map(bytes_of, shapes.values()))) // sum(map(bytes_of, layer.values())))
    for i in range(layers):
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return shapes, bytes_of


def make_file(path, size):
    shapes, bytes_of = shapes_of(size)
    header, end = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + bytes_of(shape)]}
        end += bytes_of(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = random.Random(0).randbytes(16 << 20)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for at in range(0, end, len(block)):
            file.write(block[: end - at])
    return end


def make_checkpoint(folder, size, ranks):
    """Writes a weights file, and manifest.json for this number of ranks. Returns the file's path and the bytes of its
    tensors.
    """
    path = folder / "model.safetensors"
    data = make_file(path, size)
    assert run("import", "--from", "safetensors", path, "-o", folder / "model.json").returncode == 0
    result = run(
        "compile",
        folder / "model.json",
        ROOT / "plans" / "llama.yaml",
        "--mesh",
        f"tp={ranks}",
        "-o",
        folder / "manifest.json",
    )
    assert result.returncode == 0, result.stderr.decode()
    return path, data


def time_safetensors(path, slices, rounds):
    """Returns the seconds in which the package reads the shards of all ranks, with torch or numpy; None if it is not
    installed.
    """
    try:
        import torch  # noqa: F401
        from safetensors import safe_open
    except ImportError:
        return None
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        kept = []
        with safe_open(path, framework="pt") as file:
            for rank in slices:
                for name, intervals in rank.items():
                    part = file.get_slice(name)[tuple(slice(*runs[0]) for runs in intervals)]
                    kept.append(part.contiguous().clone() if part.untyped_storage().nbytes() != part.nbytes else part)
        best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="2GiB")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder")
    options = parser.parse_args()
    size = int(float(options.size[:-3]) * UNITS[options.size[-3:]])
    threads = len(os.sched_getaffinity(0))
    peer = next(
        p
        for p in (
            pathlib.Path(PROGRAM).with_name("tpplan_pread_peer"),
            pathlib.Path(PROGRAM).parent / "tests" / "tpplan_pread_peer",
        )
        if p.exists()
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        path, data = make_checkpoint(folder, size, options.ranks)
        slices = []
        for rank in range(options.ranks):
            lines = (
                run("show", folder / "manifest.json", "--rank", rank, "--format", "json").stdout.decode().splitlines()
            )
            slices.append({e["path"]: e["intervals"] for e in map(json.loads, lines)})
        machine, best = {"pread": 0, "copy": 0}, {"load": 0, "verify": 0}
        for _ in range(options.rounds):  # the methods alternate, so that other load affects all of them
            measured = json.loads(
                subprocess.run([peer, path, str(threads), "1"], check=True, capture_output=True).stdout
            )
            machine = {name: max(machine[name], measured[name]) for name in machine}
            for command, counted in (("load", "read_bytes"), ("verify", "compared_bytes")):
                said = json.loads(succeeds(command, folder / "manifest.json", "--weights", path, "--json").stdout)
                best[command] = max(best[command], said[counted] / said["seconds"] / 1e9)
        package = time_safetensors(path, slices, options.rounds)
    print(
        f"{data / 2**30:.2f} GiB in bfloat16, tp={options.ranks}, {threads} threads, page cache warm, best of {options.rounds}"
    )
    print(
        f"load    {best['load']:6.2f} GB/s, {100 * best['load'] / machine['pread']:4.0f} % "
        f"of plain parallel pread into fresh memory ({machine['pread']:.2f} GB/s)"
    )
    if package is None:
        print("load    no comparison with the package safetensors: it or torch is not installed")
    else:
        print(
            f"load    {best['load'] / (data / package / 1e9):5.1f} x the package safetensors "
            f"reading the same shards by get_slice ({data / package / 1e9:.2f} GB/s)"
        )
    print(
        f"verify  {best['verify']:6.2f} GB/s, {100 * best['verify'] / machine['copy']:4.0f} % "
        f"of the memory's bandwidth (parallel memcpy, {machine['copy']:.2f} GB/s)"
    )


if __name__ == "__main__":
    main()
