#!/usr/bin/env python3
"""Times the walk over a model's operations, compared with other checks of the same plan: a dry run of transformers on a
fake process group, and Shardy's propagation of a model of the same size in jaxlib. With --peers, also counts which
recorded plans, right and wrong, are rejected by tpplan, the dry run and Meta's type checker spmd_types.

    cmake --build build --target tpplan_bench && python3 tests/bench/bench_walk.py [--layers 80 98 273] [--peers]

Times are user and system seconds of full processes, medians of alternating runs. `reading` reads and validates the
model file, its operations and the plan. `check` does that too; `judging` is the rest of it: matching, inference, and
the walk, forward and backward. Needs torch and transformers to trace the operations, and jax for Shardy. Skips
spmd_types, with the reason, if it is missing (tests/requirements-bench.txt).
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from judge_cases import judge_cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIZES = {
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 1024,
}
LAYERS = """  "model.layers.*.self_attn.q_proj": colwise
  "model.layers.*.self_attn.k_proj": colwise
  "model.layers.*.self_attn.v_proj": colwise
  "model.layers.*.self_attn.o_proj": rowwise
  "model.layers.*.mlp.gate_proj": colwise
  "model.layers.*.mlp.up_proj": colwise
  "model.layers.*.mlp.down_proj": rowwise
"""
OF_FRAMEWORKS = """  "model.embed_tokens": embedding_rowwise
  "lm_head": colwise_gather_output
"""
OF_TORCH = """  "model.embed_tokens": {style: rowwise, input_layouts: Replicate}
  "lm_head": {style: colwise, output_layouts: Replicate}
"""
# Runtime of a plan: its dialect, and its rules for modules outside of layers.
WAYS = {
    "transformers": ("transformers", OF_FRAMEWORKS),
    "parallelize_module": ("torch", OF_TORCH),
    "tpplan.torch": ("glob", OF_FRAMEWORKS),
}

# One step of the first rank on a fake process group.
DRY_RUN = """
import json, sys, torch, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = dist.init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
config = LlamaConfig(num_hidden_layers=int(sys.argv[1]), attn_implementation="eager", **json.loads(sys.argv[2]))
model = LlamaForCausalLM._from_config(config)
plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=4))
apply_tensor_parallelism(model, mesh, plan)
model(torch.zeros(2, 16, dtype=torch.long)).logits.sum().backward()
"""

# Shardy's complete pipeline over the gradient of Llama-like blocks. Prints its CPU seconds without JAX's tracing.
SHARDY = """
import json, sys, time, jax, jax.numpy as jnp
jax.config.update("jax_num_cpu_devices", 4)
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib.mlir import passmanager
from jax.sharding import NamedSharding, PartitionSpec as P
layers, size = int(sys.argv[1]), json.loads(sys.argv[2])
mesh = jax.make_mesh((4,), ("tp",), axis_types=(jax.sharding.AxisType.Auto,))
d, f, heads, vocab = size["hidden_size"], size["intermediate_size"], size["num_attention_heads"], size["vocab_size"]
shapes = {"q": ((d, d), P(None, "tp")), "k": ((d, d), P(None, "tp")), "v": ((d, d), P(None, "tp")), "o": ((d, d), P("tp")),
          "gate": ((d, f), P(None, "tp")), "up": ((d, f), P(None, "tp")), "down": ((f, d), P("tp")), "n1": ((d,), P()), "n2": ((d,), P())}
def array(shape, spec): return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
params = {"embed": array((vocab, d), P("tp")), "head": array((d, vocab), P(None, "tp")),
          "layers": [{n: array(*s) for n, s in shapes.items()} for _ in range(layers)]}
def norm(x, w): return w * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
def block(x, p):
    b, s, _ = x.shape
    h = norm(x, p["n1"])
    q, k, v = ((h @ p[n]).reshape(b, s, heads, d // heads).transpose(0, 2, 1, 3) for n in "qkv")
    a = jax.nn.softmax(q @ k.swapaxes(2, 3) / (d // heads) ** 0.5) @ v
    x = x + a.transpose(0, 2, 1, 3).reshape(b, s, d) @ p["o"]
    h = norm(x, p["n2"])
    return x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
def loss(params, ids):
    x = params["embed"][ids]
    for p in params["layers"]: x = block(x, p)
    return jnp.sum(x @ params["head"])
module = jax.jit(jax.grad(loss)).lower(params, jax.ShapeDtypeStruct((2, 16), jnp.int32)).compiler_ir("stablehlo")
with module.context:
    manager = passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)")
    start = time.process_time()
    manager.run(module.operation)
    print(time.process_time() - start)
"""


def cpu_seconds(command, may_fail=False):
    """Returns user and system seconds of one process, its status, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0 and not may_fail:
        sys.exit(f"failed: {command[:4]}\n{result.stdout}\n{result.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result.returncode, result.stdout


def record(folder, layers):
    """Writes a model file with operations. Returns it and the number of its operations, without module boundaries."""
    model = folder / f"model-{layers}.json"
    sizes = json.dumps(SIZES | {"num_hidden_layers": layers})
    step = ["--mode", "train", "--batch", 2, "--sequence", 16, "--attention", "eager"]
    export = [sys.executable, "-m", "tpplan.export", "--transformers", "LlamaForCausalLM", "--kwargs", sizes]
    cpu_seconds([*export, *step, "-o", model])
    graph = json.loads(model.read_text())["graph"]
    borders = {graph["strings"].index(name) for name in ("@enter", "@exit")}
    return model, sum(node[0] not in borders for node in graph["nodes"])


def plan_of(way):
    dialect, others = WAYS[way]
    return f"format: tpplan.plan/1\ndialect: {dialect}\nmesh: {{tp: 4}}\ntp_plan:\n{others}{LAYERS}"


def own_row(build, folder, recorded, way, runs):
    """Returns one line of the table: seconds of full processes, medians of alternating runs."""
    layers, model, operations = recorded
    plan = folder / "plan.yaml"
    plan.write_text(plan_of(way))
    commands = {
        "check": [build / "tpplan", "check", model, plan, "-q"],
        "reading": [build / "tpplan", "compile", model, plan, "--print", "plan"],
        "SAX pass": [build / "tests" / "tpplan_sax_pass", model],
    }
    times = {name: [] for name in commands}
    for _ in range(runs + 1):
        for name, command in commands.items():
            times[name].append(cpu_seconds(command)[0])
    check, reading, sax = (statistics.median(seconds[1:]) * 1e3 for seconds in times.values())
    size = model.stat().st_size / 1e6
    return (
        f"| {layers} | {way} | {operations:,} | {size:.2f} MB | {check:.1f} ms | {reading:.1f} ms | {sax:.1f} ms "
        f"| {reading / sax:.2f} | {check - reading:.1f} ms |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--layers", type=int, nargs="+", default=[80, 98, 273], help="models of so many layers")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument(
        "--step", type=int, default=1, help="every how many of the recorded plans is judged (default: 1)"
    )
    parser.add_argument(
        "--spmd-python", default=sys.executable, help="a Python that has spmd_types (default: this one)"
    )
    arguments = parser.parse_args()
    scratch = tempfile.TemporaryDirectory(prefix="tpplan-bench-")
    folder = pathlib.Path(scratch.name)
    os.environ["PYTHONPATH"] = str(ROOT / "tools" / "python")
    print("| layers | run by | operations | model file | check | reading | SAX pass | reading / SAX | judging |")
    print("|---|---|---|---|---|---|---|---|---|")
    for layers in arguments.layers:
        recorded = layers, *record(folder, layers)
        for way in WAYS:
            print(own_row(arguments.build, folder, recorded, way, arguments.runs), flush=True)
    if arguments.peers:
        first = arguments.layers[0], json.dumps(SIZES)
        seconds, *_ = cpu_seconds([sys.executable, "-c", DRY_RUN, *first])
        print(f"dry run of {first[0]} layers on a fake process group: {seconds * 1e3:.0f} ms")
        *_, printed = cpu_seconds([sys.executable, "-c", SHARDY, *first])
        print(f"Shardy's propagation of the gradient, alone: {float(printed.split()[-1]) * 1e3:.0f} ms", flush=True)
        for line in judge_cases(arguments.build / "tpplan", folder, arguments.step, arguments.spmd_python, cpu_seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
