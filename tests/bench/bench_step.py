#!/usr/bin/env python3
"""Measures a training step per rank with tpplan.torch, compared with other implementations for the same model, in one
run:

    python tests/bench/bench_step.py [--hidden 64] [--layers 4] [--batch 2] [--length 32] [--rounds 15] [--ranks 2]

The model is a Llama of transformers in float32 on CPU ranks with gloo: forward, backward and an SGD step. `tp` is the
plan that ships with transformers, applied by its apply_tensor_parallelism and by tpplan.torch. `fsdp` is torch's
fully_shard of each layer and of the model, and the equivalent plan. The implementations alternate in the same
processes. Prints the round with the least CPU time of the first rank (all its threads), in milliseconds, and the ratio
to the other implementation. Gradients are first compared with those of one process. Other work on the machine affects
elapsed times more than CPU times.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "tests" / "python"), str(ROOT / "tests")]

FSDP = """format: tpplan.plan/1
tp_plan: {}
data: {axes: [data]}
fsdp: {axis: data, min_weight_size: 0, policy: dim0, units: [model.layers.*]}
"""


def make(options):
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        hidden_size=options.hidden, intermediate_size=2 * options.hidden, num_hidden_layers=options.layers,
        num_attention_heads=4, num_key_value_heads=4, vocab_size=256, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def by_transformers(options, mesh, manifest):
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    model = make(options)
    plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=mesh.size()))
    apply_tensor_parallelism(model, mesh, plan)
    return model


def by_fully_shard(options, mesh, manifest):
    from torch.distributed.fsdp import fully_shard

    model = make(options)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def by_tpplan(options, mesh, manifest):
    from tpplan.torch import parallelize

    return parallelize(make(options), manifest, mesh)


def by_parameter(options, mesh, manifest):
    from tpplan.torch import parallelize

    return parallelize(make(options), manifest, mesh, units=False)


# Axis of the mesh, implementation, and the one that it is compared with.
CONTENDERS = {
    "transformers, tp": ("tp", by_transformers, None),
    "tpplan, tp": ("tp", by_tpplan, "transformers, tp"),
    "fully_shard": ("data", by_fully_shard, None),
    "tpplan, fsdp, units": ("data", by_tpplan, "fully_shard"),
    "tpplan, fsdp, parameter by parameter": ("data", by_parameter, "fully_shard"),
}


def compiled(options, axis, folder):
    """Compiles the plan for an axis and returns the path of the manifest."""
    python, program = [sys.executable, "-m", "tpplan.export"], os.environ.get("TPPLAN", ROOT / "build" / "tpplan")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'tools' / 'python'}:{pathlib.Path(__file__).parent}"}
    names = "config.json", "model.json", "plan.yaml", "manifest.json"
    config, model, plan, manifest = (folder / f"{axis}-{name}" for name in names)
    config.write_text(json.dumps(make(options).config.to_dict() | {"architectures": ["LlamaForCausalLM"]}))
    run = lambda *command: subprocess.run([str(c) for c in command], check=True, env=environment, capture_output=True)  # noqa: E731
    run(*python, "--transformers", config, "--no-graph", "--dtype", "float32", "-o", model)
    if axis == "tp":
        run(*python, "--plan-from", "transformers", config, "--mesh", f"tp={options.ranks}", "-o", plan)
    else:
        plan.write_text(FSDP)
    run(program, "compile", model, plan, "--mesh", f"{axis}={options.ranks}", "-o", manifest)
    return str(manifest)


def gradients_of(model, axis, mesh):
    from torch.distributed.tensor import DTensor

    return {
        path: p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for path, p in model.named_parameters()
    }


def rank_of(rank, options, manifests, port, results):
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=options.ranks)
    tokens = torch.randint(0, 256, (options.batch, options.length), generator=torch.Generator().manual_seed(2))
    whole = make(options)
    whole(tokens, labels=tokens).loss.backward()
    steps, spent = {}, {}
    for name, (axis, shard, _) in CONTENDERS.items():
        mesh = init_device_mesh("cpu", (options.ranks,), mesh_dim_names=(axis,))
        model = shard(options, mesh, manifests[axis])
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        scale = (
            options.ranks if name.startswith("tpplan, fsdp") else 1
        )  # it sums the gradients of the batches, which are identical here

        def step(model=model, optimizer=optimizer, scale=scale, update=True):
            (model(tokens, labels=tokens).loss / scale).backward()
            if update:
                optimizer.step()
                optimizer.zero_grad()

        step(update=False)
        for path, gradient in gradients_of(model, axis, mesh).items():
            wanted = whole.get_parameter(path).grad
            assert torch.allclose(gradient, wanted, atol=1e-4), (name, path, (gradient - wanted).abs().max())
        optimizer.zero_grad()
        steps[name], spent[name] = step, []
    for _ in range(options.rounds):
        for name, step in steps.items():
            torch.distributed.barrier()
            begin = time.process_time(), time.perf_counter()
            step()
            spent[name].append((time.process_time() - begin[0], time.perf_counter() - begin[1]))
    if options.profile and rank == 0:
        profiled(steps[options.profile], options.rounds)
    elif options.profile:
        for _ in range(options.rounds):
            steps[options.profile]()
    if rank == 0:
        results.put(spent)


def profiled(step, rounds):
    import cProfile
    import pstats

    profile = cProfile.Profile()
    profile.enable()
    for _ in range(rounds):
        step()
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(40)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("hidden", 64), ("layers", 4), ("batch", 2), ("length", 32), ("rounds", 15), ("ranks", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument(
        "--profile", choices=CONTENDERS, help="where the first rank's time goes in this one, instead of the table alone"
    )
    options = parser.parse_args()
    import torch.multiprocessing
    from bridge import free_port

    with tempfile.TemporaryDirectory() as folder:
        manifests = {axis: compiled(options, axis, pathlib.Path(folder)) for axis in ("tp", "data")}
        context = torch.multiprocessing.get_context("spawn")
        results, port = context.Queue(), free_port()
        given = options, manifests, port, results
        processes = [context.Process(target=rank_of, args=(r, *given), daemon=True) for r in range(options.ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            sys.exit("a rank failed")
    spent = results.get()
    print("| | ms of processor | ms | ratio |\n|---|---|---|---|")
    for name, (_, _, beside) in CONTENDERS.items():
        busy, wall = (min(one[i] for one in spent[name]) * 1000 for i in (0, 1))
        ratio = f"{busy / (min(one[0] for one in spent[beside]) * 1000):.2f}" if beside else ""
        print(f"| {name} | {busy:.1f} | {wall:.1f} | {ratio} |")


if __name__ == "__main__":
    main()
