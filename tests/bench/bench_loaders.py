"""Measures loading a rank's shards from a checkpoint into torch tensors, with this project and with others, in one run:

    python tests/bench/bench_loaders.py [--size 2GiB] [--ranks 4] [--rounds 5] [--folder DIR] [--python PATH] [--loaders
    NAME ...]

The model is a Llama in bfloat16 (exec/bench_load.py), sharded over tp. One rank is loaded, from the page cache. Each
loader has a separate process, and the processes alternate. The round with the least CPU time counts: CPU seconds of all
threads, seconds, and peak memory in MiB above that of the idle process. Peak memory includes pages of mapped files, and
the shards except for `into tensors that are there`. Values are compared with those of tpplan.load. `--python` names an
environment that also has fastsafetensors and runai-model-streamer. Missing packages are skipped with the reason.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "exec"), str(ROOT / "tools" / "python")]


def empty_tensors(manifest, rank):
    import torch
    from tpplan.manifest import local_shape

    return {
        path: torch.empty(local_shape(manifest, tensor, rank), dtype=getattr(torch, tensor.dtype))
        for path, tensor in manifest.parameters.items()
    }


# Each loader takes (manifest, its path, weights, rank, number of ranks), does the setup, which is not timed, and
# returns the function that is timed: it returns {path: tensor}.


def by_load(manifest, path, weights, rank, _):
    import tpplan

    def read():
        into = empty_tensors(manifest, rank)
        tpplan.load(path, weights, rank=rank, into=into)
        return into

    return read


def by_load_there(manifest, path, weights, rank, _):
    import tpplan

    into = {name: tensor.zero_() for name, tensor in empty_tensors(manifest, rank).items()}

    def read():
        tpplan.load(path, weights, rank=rank, into=into)
        return into

    return read


def by_load_safetensors(manifest, path, weights, rank, _):
    import tpplan

    return lambda: tpplan.load_safetensors(manifest, weights, rank)


def by_get_slice(manifest, _, weights, rank, __):
    from safetensors import safe_open
    from tpplan.manifest import local_slice

    def read():
        found = {}
        with safe_open(weights, framework="pt") as file:
            for path, tensor in manifest.parameters.items():
                part = file.get_slice(path)[tuple(slice(*runs[0]) for runs in local_slice(manifest, tensor, rank))]
                found[path] = part.contiguous().clone()  # otherwise it is a view of the full tensor in the mapped file
        return found

    return read


def by_dcp(manifest, _, weights, rank, ranks):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageReader
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group(
        "fake", rank=rank, world_size=ranks, store=FakeStore()
    )  # the fake group does not communicate
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))

    def read():
        local = empty_tensors(manifest, rank)
        state = {}
        for path, tensor in manifest.parameters.items():
            cut = [dim for dim, axes in enumerate(tensor.spec) if axes]
            state[path] = DTensor.from_local(
                local[path], mesh, [Shard(cut[0]) if cut else Replicate()], run_check=False
            )
        dcp.load(state, storage_reader=HuggingFaceStorageReader(os.path.dirname(weights)), no_dist=True)
        return local

    return read


def whole_tensors(manifest, rank, tensors):
    """Returns this rank's shards of full tensors."""
    from tpplan.manifest import local_slice

    return {
        path: tensor[tuple(slice(*runs[0]) for runs in local_slice(manifest, manifest.parameters[path], rank))].clone()
        for path, tensor in tensors
    }


def by_fastsafetensors(manifest, _, weights, rank, __):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    def read():
        loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
        loader.add_filenames({0: [weights]})
        buffers = loader.copy_files_to_device()
        found = whole_tensors(manifest, rank, ((path, buffers.get_tensor(path)) for path in manifest.parameters))
        buffers.close()
        loader.close()
        return found

    return read


def by_runai(manifest, _, weights, rank, __):
    from runai_model_streamer import SafetensorsStreamer

    def read():
        with SafetensorsStreamer() as streamer:
            streamer.stream_file(weights)
            return whole_tensors(manifest, rank, streamer.get_tensors())

    return read


LOADERS = {
    "tpplan.load": by_load,
    "tpplan.load, into tensors that are there": by_load_there,
    "tpplan.load_safetensors": by_load_safetensors,
    "safetensors, get_slice": by_get_slice,
    "torch's DCP, HuggingFaceStorageReader": by_dcp,
    "fastsafetensors, all of the file": by_fastsafetensors,
    "run:ai's streamer, all of the file": by_runai,
}


def seconds_of_processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory_now():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def work(name, folder, rank, ranks):
    """Runs one loader once. Prints its measurements and a digest of its tensors."""
    import zlib

    import tpplan
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    manifest = tpplan.load_manifest(folder / "manifest.json")
    try:
        read = LOADERS[name](manifest, folder / "manifest.json", str(folder / "model.safetensors"), rank, ranks)
    except ImportError as error:
        return {"missing": str(error)}
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets the peak memory
    before, start, processor = memory_now(), time.perf_counter(), seconds_of_processor()
    found = read()
    seconds, processor = time.perf_counter() - start, seconds_of_processor() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            peak = int(line.split()[1])
    digest = 0
    for path in sorted(found):
        digest = zlib.crc32(found[path].contiguous().view(torch.uint8).numpy(), digest)
    return {"seconds": seconds, "processor": processor, "peak": peak * 1024 - before, "digest": digest}


def error_of(text):
    """Returns the last line of Python's output that names an error, and the lines after it."""
    lines = text.strip().splitlines() or ["nothing was said"]
    named = [i for i, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    return " ".join(line.strip() for line in lines[named[-1] if named else -1 :])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="2GiB")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--loaders", nargs="+", choices=LOADERS, default=list(LOADERS), metavar="NAME")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    rank = options.ranks - 1
    if options.work:
        print(json.dumps(work(options.work, pathlib.Path(options.folder), rank, options.ranks)))
        return
    from bench_load import PROGRAM, UNITS, make_checkpoint

    found = {name: [] for name in options.loaders}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        size = int(float(options.size[:-3]) * UNITS[options.size[-3:]])
        _, data = make_checkpoint(pathlib.Path(folder), size, options.ranks)
        for _ in range(options.rounds):
            for name in found:
                command = [options.python, __file__, "--work", name, "--folder", folder, "--ranks", str(options.ranks)]
                env = os.environ | {"TPPLAN": PROGRAM}  # the library is next to it
                ran = subprocess.run(command, capture_output=True, text=True, env=env)
                if ran.returncode:
                    found[name].append({"missing": error_of(ran.stderr)})
                else:
                    found[name].append(json.loads(ran.stdout.splitlines()[-1]))
    print(
        f"one rank of {options.ranks} of {data / 2**30:.2f} GiB in bfloat16, {len(os.sched_getaffinity(0))} processors, page cache "
        f"warm, the best of {options.rounds}"
    )
    print(f"{'':44}processor s  seconds  MiB at the peak")
    digests = {}
    for name, rounds in found.items():
        lacking = next((r["missing"] for r in rounds if "missing" in r), None)
        if lacking is not None:
            print(f"{name:44}not here: {lacking}")
            continue
        best = min(rounds, key=lambda r: r["processor"])
        digests[name] = best["digest"]
        print(f"{name:44}{best['processor']:11.2f}{best['seconds']:9.2f}{best['peak'] / 2**20:17.0f}")
    if not digests:
        sys.exit("none of them is here: nothing was measured")
    assert len(set(digests.values())) == 1, f"they bring different bytes: {digests}"


if __name__ == "__main__":
    main()
