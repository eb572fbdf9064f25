"""Measures how fast weights are loaded onto a GPU, compared with the limits of its bus, in one run:

    python tests/exec/gpu_bench.py [--size 2GiB] [--ranks 4] [--rounds 5] [--folder DIR] [--device cuda]

Compares `tpplan-exec load --device cuda`, all ranks on one GPU, with a copy of as many bytes from pinned memory
(pinned_copy.cc), and with plain parallel pread of the same file into fresh memory (pread_peer.cc): one of the two is
the limit. The file is in the page cache. Each figure is the best of the rounds. TPPLAN is as for bench_load.py.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from bench_load import UNITS, make_checkpoint  # noqa: E402
from executor import PROGRAM, succeeds  # noqa: E402

TESTS = pathlib.Path(PROGRAM).parent / "tests"


def measure(program, *arguments):
    done = subprocess.run([TESTS / program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"skipped: {program}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="2GiB")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    size = int(float(options.size[:-3]) * UNITS[options.size[-3:]])
    threads = len(os.sched_getaffinity(0))
    copy = measure("tpplan_pinned_copy", options.device, size)["pinned_copy"]  # also reports a missing GPU
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        path, data = make_checkpoint(folder, size, options.ranks)
        load = pread = 0
        for _ in range(options.rounds):
            pread = max(pread, measure("tpplan_pread_peer", path, threads, 1)["pread"])
            said = json.loads(
                succeeds(
                    "load", folder / "manifest.json", "--weights", path, "--device", options.device, "--json"
                ).stdout
            )
            load = max(load, said["read_bytes"] / said["seconds"] / 1e9)
    print(
        f"{data / 2**30:.2f} GiB in bfloat16, tp={options.ranks} on one device ({options.device}), "
        f"{threads} threads, page cache warm, best of {options.rounds}"
    )
    print(
        f"load  {load:6.2f} GB/s, {100 * load / copy:4.0f} % of a copy from pinned memory ({copy:.2f} GB/s), "
        f"{100 * load / pread:4.0f} % of plain parallel pread ({pread:.2f} GB/s)"
    )


if __name__ == "__main__":
    main()
