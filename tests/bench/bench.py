#!/usr/bin/env python3
"""Compares processes of tpplan with a bare nlohmann SAX pass over the same file, a bare Python, transformers and torch.

    cmake --build build --target tpplan_bench && python3 tests/bench/bench.py [--runs 9] [--peers] [--largest 100k]

The runs of a model alternate between the programs, because the speed of a machine drifts. The table has medians and ratios of
medians. `compile` is the elapsed time, including the sync of the manifest to disk. CPU is user and system time. A peak is the
largest resident memory of the runs. --peers also runs transformers' and torch's own matching (needs both installed): each builds
the model on the meta device over a fake process group, and applies its plan to every layer.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

LAYER = [
    ("self_attn.q_proj", "Linear", [16384, 16384]),
    ("self_attn.k_proj", "Linear", [1024, 16384]),
    ("self_attn.v_proj", "Linear", [1024, 16384]),
    ("self_attn.o_proj", "Linear", [16384, 16384]),
    ("mlp.gate_proj", "Linear", [53248, 16384]),
    ("mlp.up_proj", "Linear", [53248, 16384]),
    ("mlp.down_proj", "Linear", [16384, 53248]),
    ("input_layernorm", "LlamaRMSNorm", [16384]),
    ("post_attention_layernorm", "LlamaRMSNorm", [16384]),
]
RULES = {
    "*.q_proj": "colwise",
    "*.k_proj": "colwise",
    "*.v_proj": "colwise",
    "*.o_proj": "rowwise",
    "*.gate_proj": "colwise",
    "*.up_proj": "colwise",
    "*.down_proj": "rowwise",
    "model.embed_tokens": "rowwise",
    "lm_head": "colwise",
}

# Name, layers, rules. 9 parameters a layer, and 3 outside.
SIZES = [("405b", 126, 9), ("36k", 4000, 9), ("100k", 11111, 100), ("1m", 111111, 9)]

PEERS = {
    "transformers": """
import sys, torch, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import LlamaConfig, LlamaForCausalLM
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
mesh = dist.init_device_mesh("cpu", (8,), mesh_dim_names=("tp",))
with torch.device("meta"):
    model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=int(sys.argv[1]), hidden_size=16384, intermediate_size=53248,
                                         num_attention_heads=128, num_key_value_heads=8, vocab_size=128256))
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=8))
apply_tensor_parallelism(model, mesh, plan)
""",
    "torch": """
import sys, torch, torch.distributed as dist, torch.nn as nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
mesh = dist.init_device_mesh("cpu", (8,), mesh_dim_names=("tp",))
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        for name, o, i in [("q", 16384, 16384), ("k", 1024, 16384), ("v", 1024, 16384), ("o", 16384, 16384),
                           ("gate", 53248, 16384), ("up", 53248, 16384), ("down", 16384, 53248)]:
            self.add_module(name, nn.Linear(i, o, bias=False))
        self.n1, self.n2 = nn.RMSNorm(16384), nn.RMSNorm(16384)
with torch.device("meta"):
    model = nn.ModuleDict({"layers": nn.ModuleList(Layer() for _ in range(int(sys.argv[1]))),
                           "embed": nn.Embedding(128256, 16384), "head": nn.Linear(16384, 128256, bias=False)})
plan = {f"layers.*.{n}": ColwiseParallel() for n in ("q", "k", "v", "gate", "up")}
plan |= {f"layers.*.{n}": RowwiseParallel() for n in ("o", "down")} | {"head": ColwiseParallel()}
parallelize_module(model, mesh, plan)
""",
}


def write_model(path, layers):
    modules = [{"path": "", "type": "LlamaForCausalLM"}]

    def add(name, kind, shape):
        modules.append({"path": name, "type": kind, "parameters": {"weight": {"shape": shape, "dtype": "bfloat16"}}})

    add("model.embed_tokens", "Embedding", [128256, 16384])
    for i in range(layers):
        for name, kind, shape in LAYER:
            add(f"model.layers.{i}.{name}", kind, shape)
    add("model.norm", "LlamaRMSNorm", [16384])
    add("lm_head", "Linear", [128256, 16384])
    model = {"format": "tpplan.model/1", "name": "Llama", "framework": "torch", "modules": modules}
    path.write_text(json.dumps(model, indent=1 if layers < 1000 else None))


def write_plan(path, count):
    rules = [f'  "{key}": {style}\n' for key, style in RULES.items()]
    rules += [
        f'  "model.layers.{i}*.adapter_{i}.*proj?": {{style: colwise, optional: true}}\n'
        for i in range(count - len(rules))
    ]
    path.write_text("format: tpplan.plan/1\nmesh: {tp: 8}\ntp_plan:\n" + "".join(rules))


def measure(build, command):
    """Returns the elapsed seconds, CPU seconds and peak MiB of one run."""
    result = subprocess.run([build / "tests" / "tpplan_measure", *map(str, command)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"failed: {command}\n{result.stderr}")
    return tuple(float(number) for number in result.stdout.split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--largest", choices=[name for name, *_ in SIZES], default="1m")
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    scratch = tempfile.TemporaryDirectory(prefix="tpplan-bench-")
    folder = pathlib.Path(scratch.name)
    print(
        "| parameters | rules | model file | compile | CPU | CPU / Python | CPU / SAX | peak | peak / file | check CPU | "
        "Python CPU | SAX CPU | SAX peak |"
    )
    print("|" + "---|" * 13)
    for name, layers, rules in SIZES:
        model, plan, manifest = folder / f"{name}.json", folder / f"{name}.yaml", folder / "manifest.json"
        write_model(model, layers)
        write_plan(plan, rules)
        commands = {
            "compile": [arguments.build / "tpplan", "compile", model, plan, "-o", manifest, "-q"],
            "check": [arguments.build / "tpplan", "check", model, plan, "-q"],
            "python": [sys.executable, "-c", "pass"],
            "sax": [arguments.build / "tests" / "tpplan_sax_pass", model],
        }
        for command in commands.values():
            measure(arguments.build, command)
        results = {key: [] for key in commands}
        for _ in range(arguments.runs):
            for key, command in commands.items():
                results[key].append(measure(arguments.build, command))
        wall = statistics.median(seconds for seconds, _, _ in results["compile"])
        cpu = {key: statistics.median(seconds for _, seconds, _ in runs) for key, runs in results.items()}
        peak = {key: max(mib for _, _, mib in runs) for key, runs in results.items()}
        size = model.stat().st_size / 2**20
        milliseconds = {key: f"{seconds * 1e3:.1f} ms" for key, seconds in cpu.items()}
        print(
            f"| {layers * 9 + 3:,} | {rules} | {size:.1f} MiB | {wall * 1e3:.1f} ms | {milliseconds['compile']} | "
            f"{cpu['compile'] / cpu['python']:.2f} | {cpu['compile'] / cpu['sax']:.2f} | {peak['compile']:.1f} MiB | "
            f"{peak['compile'] / size:.1f} | {milliseconds['check']} | {milliseconds['python']} | {milliseconds['sax']} | "
            f"{peak['sax']:.1f} MiB |",
            flush=True,
        )
        if arguments.peers and name in ("405b", "36k"):
            for peer, script in PEERS.items():
                seconds, peer_cpu, mib = measure(arguments.build, [sys.executable, "-c", script, layers])
                print(
                    f"| {layers * 9 + 3:,} | | {peer} | {seconds * 1e3:.0f} ms | {peer_cpu * 1e3:.0f} ms | "
                    f"{peer_cpu / cpu['python']:.0f} | {peer_cpu / cpu['sax']:.0f} | {mib:.0f} MiB | | | | | |",
                    flush=True,
                )
        model.unlink()
        if name == arguments.largest:
            break


if __name__ == "__main__":
    main()
