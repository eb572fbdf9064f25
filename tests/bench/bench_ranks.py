#!/usr/bin/env python3
"""Measures the cost of a job by its number of ranks: CPU seconds and memory of the full job, with all ranks as threads
of one process.

    cmake --build build --target tpplan tpplan-exec && python3 tests/bench/bench_ranks.py [--ranks 8 32 128 512]
    [--tensors 100]

The weights have the same size for every number of ranks, so only the overhead of the job grows. `save` writes a folder
with one file per rank, `load` reads it, `verify` compares it with its checksums, `reshard` converts it to a mesh with
other axes, and `same` to its own mesh. Each runs once. Needs only Python, no GPU. `-`: the command failed, or took more
than --limit seconds; larger numbers of ranks are then skipped.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMANDS = ("save", "load", "verify", "reshard", "same")
COLUMNS = 64
DEADLINE = 600  # seconds; thousands of threads share few processors, and none of them is late


def write_model(folder, tensors, rows):
    modules = [
        {"path": f"m.{i}", "type": "Thing", "parameters": {"w": {"shape": [rows, COLUMNS], "dtype": "float32"}}}
        for i in range(tensors)
    ]
    model = {"format": "tpplan.model/1", "name": "Test", "framework": "torch", "modules": modules, "tied": []}
    (folder / "model.json").write_text(json.dumps(model))


def compile_plan(program, folder, fsdp, tp, name):
    plan = f"format: tpplan.plan/1\nmesh: {{fsdp: {fsdp}, tp: {tp}}}\ntp_plan:\n"
    rule = '"m.*.w": {spec: [fsdp, tp]}\ninit: {"m.*.w": {normal: {mean: 0, std: 1}}}\n'
    (folder / "plan.yaml").write_text(plan + "  " + rule)
    command = [program, "compile", folder / "model.json", folder / "plan.yaml", "-o", folder / name]
    subprocess.run(command, check=True, capture_output=True)


def measure(command, limit):
    """Returns (CPU seconds, peak MiB) of a process; None if it fails or exceeds the limit."""
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    watch = threading.Timer(limit, job.kill)
    watch.start()
    said = job.stderr.read()
    _, status, used = os.wait4(job.pid, 0)
    watch.cancel()
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode != 0:
        print(f"{' '.join(map(str, command))}: status {job.returncode}: {said.decode()[:300]}", file=sys.stderr)
        return None
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def run_commands(build, folder, ranks, limit, wanted):
    """Returns {command: its cost} for this number of ranks."""
    wide, executor = min(8, ranks), build / "tpplan-exec"
    compile_plan(build / "tpplan", folder, ranks // wide, wide, "before.json")
    compile_plan(build / "tpplan", folder, ranks // (wide // 2), wide // 2, "after.json")
    shards = folder / f"shards-{ranks}"
    common = ["--quiet", "--deadline", str(DEADLINE)]
    calls = {
        "save": ["save", folder / "before.json", "--weights", folder / "w.safetensors", "-o", shards],
        "load": ["load", folder / "before.json", "--weights", shards],
        "verify": ["verify", folder / "before.json", "--from", shards, "--checksums", folder / f"sums-{ranks}"],
        "reshard": [
            "reshard",
            folder / "before.json",
            folder / "after.json",
            "--from",
            shards,
            "--to",
            folder / f"to-{ranks}",
        ],
        "same": [
            "reshard",
            folder / "before.json",
            folder / "before.json",
            "--from",
            shards,
            "--to",
            folder / f"eq-{ranks}",
        ],
    }
    costs = {}
    for name, call in calls.items():
        if name != "save" and name not in wanted:
            continue
        if name == "verify":
            sums = ["verify", folder / "before.json", "--from", shards, "--write-checksums", folder / f"sums-{ranks}"]
            if measure([executor, *sums, *common], limit) is None:
                continue
        costs[name] = measure([executor, *call, *common], limit)
        if name == "save" and costs[name] is None:
            break
    return costs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 32, 128, 512])
    parser.add_argument("--tensors", type=int, default=100)
    parser.add_argument("--limit", type=float, default=300, help="seconds that a command may take")
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=COMMANDS)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    print("| ranks | " + " | ".join(f"{name} s | MiB" for name in arguments.commands) + " |")
    print("|" + "---|" * (1 + 2 * len(arguments.commands)), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder, arguments.tensors, 2 * max(arguments.ranks))
        compile_plan(build / "tpplan", folder, 1, 1, "one.json")
        weights = [
            build / "tpplan-exec",
            "init",
            folder / "one.json",
            "--seed",
            "1",
            "--consolidated",
            folder / "w.safetensors",
            "--quiet",
        ]
        subprocess.run(weights, check=True)
        wanted = set(arguments.commands)
        for ranks in arguments.ranks:
            costs = run_commands(build, folder, ranks, arguments.limit, wanted)
            cells = [costs.get(name) for name in arguments.commands]
            text = [f"{cell[0]:.2f} | {cell[1]:.0f}" if cell else "- | -" for cell in cells]
            print(f"| {ranks:,} | " + " | ".join(text) + " |", flush=True)
            wanted = {name for name in wanted if costs.get(name)}


if __name__ == "__main__":
    main()
