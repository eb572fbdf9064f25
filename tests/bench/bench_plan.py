#!/usr/bin/env python3
"""Measures the work of one rank before it moves data, by the number of ranks: seconds and MiB of a rank in the middle.

    cmake --build build --target tpplan_bench && python3 tests/bench/bench_plan.py [--ranks 8 64 512] [--tensors 1000]

Tensors are sharded over both axes of the mesh, {fsdp: ranks / 8, tp: 8}, and resharded to {fsdp: ranks / 4, tp: 4}.
`save` lists the rank's files, `load` plans its reads, `reshard` lists the holders before and after and the files that
the rank reads and writes. Times are medians of five processes.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

from bench_ranks import compile_plan, write_model

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMANDS = ("save", "load", "reshard")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 512, 1000, 4096])
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    print("| ranks | " + " | ".join(f"{name} ms | MiB" for name in COMMANDS) + " |")
    print("|" + "---|" * (1 + 2 * len(COMMANDS)), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder, arguments.tensors, 2 * math.lcm(*arguments.ranks))
        for ranks in arguments.ranks:
            compile_plan(build / "tpplan", folder, ranks // 8, 8, "before.json")
            compile_plan(build / "tpplan", folder, ranks // 4, 4, "after.json")
            command = [build / "tests" / "tpplan_plan_one_rank", folder / "before.json", folder / "after.json"]
            runs = [
                json.loads(subprocess.run([*command, str(ranks // 2)], check=True, capture_output=True).stdout)
                for _ in range(arguments.runs)
            ]
            cells = [[statistics.median(run[name][i] for run in runs) for i in range(2)] for name in COMMANDS]
            text = [f"{1000 * seconds:.1f} | {mebibytes:.1f}" for seconds, mebibytes in cells]
            print(f"| {ranks:,} | " + " | ".join(text) + " |", flush=True)


if __name__ == "__main__":
    main()
