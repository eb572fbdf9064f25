"""Executes plans on real ranks and records the outcomes:

    python tests/truth/record_runs.py own|own_more|own_data|own_keras|transformers|findings OUTPUT.json.xz [--program
    TPPLAN] [--limit N]

`own`: the plan is compiled and applied by tpplan.torch.parallelize. `transformers`: transformers applies it itself. In
both cases tp processes with gloo execute one training step in float64 (eval mode, because dropout differs between
ranks). Every rank compares its output and every gradient with those of the unsharded model. data/README.md describes
the recorded fields.
"""

import argparse
import datetime
import json
import logging
import lzma
import math
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "tests" / "python"), str(ROOT / "tests" / "truth")]
os.environ |= {"HF_HUB_OFFLINE": "1", "TORCH_CPP_LOG_LEVEL": "FATAL", "GLOO_SOCKET_IFNAME": "lo"}
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from run_cases import (
    data_ranks,
    mesh_of,
    own_cases,
    own_data_cases,
    own_keras_cases,
    own_more_cases,
    plan_text,
    transformers_cases,
)  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

torch.set_num_threads(1)
TOLERANCE = 1e-6  # relative to a tensor's largest value; rounding errors are about 1e-13
FLOOR = 1e-9  # smaller gradients, relative to the largest one of the model, count as zero
PEER = re.compile(
    r"Connection closed|Connection reset|[Tt]imed out|Broken pipe|Socket|closed by peer|read error|write error"
)
STAGES = ("apply", "forward", "backward", "compare")


def randomize(model):
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in dict.fromkeys(model.parameters()):
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(noise / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else parameter + 0.2 * noise)
    return model.eval()


class Own:
    """Applies plans with tpplan.torch."""

    dialect = "glob"

    def __init__(self, program):
        self.program, self.folder = program, tempfile.mkdtemp()

    def cases(self):
        return own_cases()

    def build(self, case):
        import models

        return randomize(getattr(models, case["model"])(**case["kwargs"]).double())

    def inputs(self, case, batch=2, sequence=12):
        return {
            "tokens": torch.randint(
                0, case["kwargs"]["vocabulary"], (batch, sequence), generator=torch.Generator().manual_seed(1)
            )
        }

    def export(self, case):
        """Returns the model file with its operations."""
        from tpplan.export import operations, torch_module
        from tpplan.graph.settings import Settings

        settings = Settings(inputs={"tokens": {"shape": [2, 12], "dtype": "int64"}})
        with torch.device("meta"):
            import models

            model = getattr(models, case["model"])(**case["kwargs"]).double()
        return torch_module.model_graph(model) | {
            "graph": json.loads(operations.record(torch_module, model, "meta", settings))
        }

    def prepare(self, case, model_file):
        """Returns the argument of `apply`, or a reason why the plan is not executed. Operations are omitted: with them
        the program would reject wrong plans.
        """
        paths = [os.path.join(self.folder, name) for name in ("model.json", "plan.yaml", "manifest.json")]
        pathlib.Path(paths[0]).write_text(json.dumps({k: v for k, v in model_file.items() if k != "graph"}))
        pathlib.Path(paths[1]).write_text(
            plan_text(case["plan"], self.dialect, mesh_of(case), case.get("data", ()), case.get("fsdp"))
        )
        done = subprocess.run([self.program, "compile", *paths[:2], "-o", paths[2]], capture_output=True, text=True)
        return (paths[2], None) if done.returncode == 0 else (None, done.stderr[:200])

    def apply(self, model, mesh, case, manifest):
        from tpplan.torch import parallelize

        parallelize(model, manifest, mesh, broadcast=False, units=False)

    def tie(self, model):
        pass

    def gradient(self, model, path, parameter):
        from tpplan.torch import full_tensor

        return full_tensor(model, path, gradient=True)

    def output(self, result):
        return result


class OwnMore(Own):
    """Plans of other shapes: several axes, specs, uneven shards; also records the collectives of correct plans."""

    def cases(self):
        return own_more_cases()


class OwnKeras(Own):
    """Plans as layout maps."""

    dialect = "keras"

    def cases(self):
        return own_keras_cases()


class OwnData(Own):
    """Plans with FSDP and data axes, along which every rank has a batch of the recorded size."""

    def cases(self):
        return own_data_cases()

    def inputs(self, case):
        return super().inputs(case, batch=2 * data_ranks(case))


class Transformers:
    """Applies plans with transformers."""

    def __init__(self, program):
        from tpplan.export import transformers_model

        self.exporter = transformers_model
        logging.disable(logging.WARNING)
        transformers_model._transformers()

    def cases(self):
        return transformers_cases(lambda name, kwargs: dict(self.exporter.build(name, kwargs, "meta").tp_plan))

    def settings(self):
        from tpplan.graph.settings import Settings

        return Settings("eval", 2, 12, "eager", "eager", "float64")

    def build(self, case):
        """Returns an untied model, as after loading a checkpoint: weights are tied after the plan was applied."""
        from transformers import initialization

        torch.manual_seed(0)
        with initialization.no_tie_weights():
            return self.randomized(case)

    def randomized(self, case):
        return randomize(self.exporter.build(case["model"], case["kwargs"], "cpu", self.settings()))

    def inputs(self, case):
        return {
            "input_ids": torch.randint(
                3, case["kwargs"]["vocab_size"], (2, 12), generator=torch.Generator().manual_seed(1)
            ),
            "use_cache": False,
        }

    def export(self, case):
        from tpplan.export import operations
        from tpplan.graph.recording import Untraceable

        model = self.exporter.build(case["model"], case["kwargs"], "meta", self.settings())
        try:
            text = operations.record(self.exporter, model, "meta", self.settings())
        except Untraceable:
            text = operations.record(self.exporter, self.randomized(case), "cpu", self.settings())
        return self.exporter.model_graph(model) | {"graph": json.loads(text)}

    def prepare(self, case, model_file):
        return None, None

    def apply(self, model, mesh, case, _):
        from transformers.distributed import DistributedConfig
        from transformers.distributed.tensor_parallel import apply_tensor_parallelism

        model._tp_plan = dict(case["plan"])
        plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=case["tp"]))
        apply_tensor_parallelism(model, mesh, plan)
        model.tie_weights()

    def tie(self, model):
        model.tie_weights()

    def gradient(self, model, path, parameter):
        gradient = parameter.grad
        return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient

    def output(self, result):
        return self.exporter.main_output(result)[0]


class Findings(Transformers):
    """Small models with transformers: a failing case for each diagnostic of the walk, and one that does not fail."""

    def cases(self):
        import finding_models

        return finding_models.cases()

    def settings(self):
        from tpplan.graph.settings import Settings

        return Settings(inputs={"x": {"shape": [2, 12, 8], "dtype": "float64"}})

    def build(self, case):
        return self.randomized(case)

    def made(self, case):
        import finding_models

        return getattr(finding_models, case["model"])(finding_models.Config()).double()

    def randomized(self, case):
        return randomize(self.made(case))

    def inputs(self, case):
        return {"x": torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)}

    def export(self, case):
        from tpplan.export import operations

        with torch.device("meta"):
            model = self.made(case).eval()
        return self.exporter.model_graph(model) | {
            "graph": json.loads(operations.record(self.exporter, model, "meta", self.settings()))
        }


WAYS = {
    "own": Own,
    "own_more": OwnMore,
    "own_data": OwnData,
    "own_keras": OwnKeras,
    "transformers": Transformers,
    "findings": Findings,
}


def named(model):
    return list(model.named_parameters(remove_duplicate=False))


def loss_weights(shape):
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def loss_of(output, weights):
    return (output * weights).sum()


def difference(found, wanted, floor=0.0):
    """Returns the largest difference relative to the largest value, and the ratio that fits best."""
    if tuple(found.shape) != tuple(wanted.shape):
        return float("inf"), None
    largest = max(wanted.abs().max().item(), floor, 1e-300)
    square = (wanted * wanted).sum().item()
    return (found - wanted).abs().max().item() / largest, ((found * wanted).sum().item() / square if square else None)


def step(way, model, inputs):
    """Returns the output of the model, and the gradients by name."""
    way.tie(model)
    output = way.output(model(**inputs))
    loss_of(output, loss_weights(output.shape)).backward()
    return output.detach(), {name: p.grad for name, p in named(model)}


# Operations of torch.distributed -> (kind of collective, index of the input argument).
COLLECTIVES = {
    "all_reduce": ("all_reduce", 0), "all_reduce_": ("all_reduce", 0), "allreduce_": ("all_reduce", 0),
    "all_gather_into_tensor": ("all_gather", 0), "allgather_": ("all_gather", 1), "_allgather_base_": ("all_gather", 1),
    "reduce_scatter_tensor": ("reduce_scatter", 0), "_reduce_scatter_base_": ("reduce_scatter", 1),
    "all_to_all_single": ("all_to_all", 0), "alltoall_base_": ("all_to_all", 1), "alltoall_": ("all_to_all", 1),
}  # fmt: skip


def group_name(argument):
    """Returns the name of the group that an argument of a collective is or names; None if it is neither."""
    if isinstance(argument, torch.ScriptObject) and "ProcessGroup" in argument._type().qualified_name():
        return dist.ProcessGroup.unbox(argument).group_name
    return argument if isinstance(argument, str) else getattr(argument, "group_name", None)


class Calls(TorchDispatchMode):
    """Records the collectives of a step as [phase, kind, axis, shape of the input, dtype], in order."""

    def __init__(self, mesh, stage):
        super().__init__()
        self.stage, self.calls = stage, []
        self.axes = {mesh.get_group(name).group_name: name for name in mesh.mesh_dim_names}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented  # DTensor runs first; its collectives are seen afterwards
        if function.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd"):
            known = COLLECTIVES.get(function._schema.name.partition("::")[2])
            if known:
                kind, at = known
                given = args[at]
                while isinstance(given, (list, tuple)):
                    given = given[0]
                axis = next(
                    self.axes[name] for name in map(group_name, (*args, *(kwargs or {}).values())) if name in self.axes
                )
                self.calls.append(
                    [self.stage[0], kind, axis, list(given.shape), str(given.dtype).removeprefix("torch.")]
                )
        return function(*args, **(kwargs or {}))


def own_part(case, mesh, tensor):
    """Returns a rank's part of a batch: data axes shard dim 0, major first."""
    for axis in case.get("data", ()):
        tensor = torch.chunk(tensor, mesh_of(case)[axis])[mesh.get_local_rank(axis)]
    return tensor


def rank_main(way, case, model, inputs, wanted, prepared, rank, store, stage):
    sizes = mesh_of(case)
    world = math.prod(sizes.values())
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, world), rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60)
    )
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    stage[0] = "apply"
    way.apply(model, mesh, case, prepared)
    inputs = {
        name: own_part(case, mesh, value) if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }
    whole = wanted[0].shape
    wanted = own_part(case, mesh, wanted[0]), wanted[1]
    stage[0] = "forward"
    calls = Calls(mesh, stage)
    with calls:
        result = way.output(model(**inputs))
    output = result
    output = output.full_tensor() if isinstance(output, DTensor) else output
    found = {"output": difference(output.detach(), wanted[0])[0]}
    fits = torch.tensor([float(found["output"] != float("inf"))])
    dist.all_reduce(fits, dist.ReduceOp.MIN)
    if not fits.item():
        return found | {"output": None}
    stage[0] = "backward"
    with calls:
        loss_of(output, own_part(case, mesh, loss_weights(whole))).backward()
    stage[0] = "compare"
    floor = FLOOR * max(g.abs().max().item() for g in wanted[1].values() if g is not None)
    rows = []
    for name, parameter in named(model):
        gradient = way.gradient(model, name, parameter)
        if wanted[1][name] is None and gradient is None:
            continue
        gradient = torch.zeros_like(wanted[1][name]) if gradient is None else gradient
        other = torch.zeros_like(gradient) if wanted[1][name] is None else wanted[1][name]
        rows.append((*difference(gradient, other, floor), name))
    rows.sort(key=lambda row: row[0], reverse=True)
    return found | {
        "gradients": [r for r in rows if r[0] > TOLERANCE][:3],
        "bad": sum(r[0] > TOLERANCE for r in rows),
        "calls": calls.calls,
    }


def run_ranks(way, case, model, inputs, wanted, prepared):
    """Returns each rank's report: {"stage", "error"} or the result of rank_main. Stops ranks that wait for a failed
    one.
    """
    store = tempfile.mktemp(dir="/dev/shm")
    children, answers = {}, {}
    for rank in range(math.prod(mesh_of(case).values())):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            stage, answer = ["start"], {}
            try:
                os.close(reader)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                answer = rank_main(way, case, model, inputs, wanted, prepared, rank, store, stage)
            except BaseException as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:400]}
            os.write(writer, json.dumps(answer | {"stage": stage[0]}).encode())
            os.close(writer)
            if "error" not in answer:
                dist.barrier()
            os._exit(0)
        os.close(writer)
        children[reader] = rank, child
    waiting, deadline = set(children), time.time() + 90
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [], 0.5)
        for reader in ready:
            with os.fdopen(reader, "rb", closefd=True) as pipe:
                said = pipe.read()
            waiting.discard(reader)
            answers[children[reader][0]] = json.loads(said) if said else {"stage": "start", "error": "the process died"}
            if "error" in answers[children[reader][0]]:
                deadline = min(deadline, time.time() + 4)
        if time.time() > deadline:
            for reader in waiting:
                os.kill(children[reader][1], signal.SIGKILL)
            deadline = time.time() + 60
    for _, child in children.values():
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass
    if os.path.exists(store):
        os.unlink(store)
    return [answers[rank] for rank in range(math.prod(mesh_of(case).values()))]


def verdict(answers):
    errors = [a for a in answers if "error" in a]
    own = [a for a in errors if not PEER.search(a["error"]) and a["error"] != "the process died"] or errors
    if errors:
        first = min(own, key=lambda a: STAGES.index(a["stage"]) if a["stage"] in STAGES else 9)
        return {"outcome": f"crash_{first['stage']}", "error": first["error"][:200]}
    if any(a["output"] is None or a["output"] > TOLERANCE for a in answers):
        return {
            "outcome": "wrong_output",
            "output": max((a["output"] for a in answers if a["output"] is not None), default=None),
        }
    worst = max((a["gradients"][0] for a in answers if a["gradients"]), default=None)
    if worst:
        return {"outcome": "wrong_grad", "gradient": worst[2], "ratio": worst[1], "bad": max(a["bad"] for a in answers)}
    return {"outcome": "ok", "collectives": answers[0]["calls"]}


def reference(way, model, inputs):
    """Returns output and gradients of the unsharded model, computed in a separate process: autograd keeps threads,
    which a fork does not copy.
    """
    path = tempfile.mktemp(dir="/dev/shm")
    child = os.fork()
    if child == 0:
        try:
            torch.save(step(way, model, inputs), path)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    wanted = torch.load(path)
    os.unlink(path)
    return wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=tuple(WAYS))
    parser.add_argument("output")
    parser.add_argument("--program", default=os.environ.get("TPPLAN", str(ROOT / "build" / "tpplan")))
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    way = WAYS[options.way](options.program)
    models, rows, ready = {}, [], None
    for number, case in enumerate(way.cases()[: options.limit]):
        key = json.dumps([case["model"], case["kwargs"]], sort_keys=True)
        if key not in models:
            models[key] = way.export(case)
        if ready is None or ready[0] != (key, data_ranks(case)):
            model, inputs = way.build(case), way.inputs(case)
            ready = (key, data_ranks(case)), model, inputs, reference(way, model, inputs)
        prepared, refused = way.prepare(case, models[key])
        if refused:
            print(number, case["mutation"], "is refused:", refused.splitlines()[0], flush=True)
            continue
        found = verdict(run_ranks(way, case, *ready[1:], prepared))
        rows.append(
            {"file": list(models).index(key)} | {k: v for k, v in case.items() if k not in ("model", "kwargs")} | found
        )
        print(
            number,
            case["model"],
            mesh_of(case),
            case["mutation_kind"],
            case["mutation"],
            "->",
            *[v for k, v in found.items() if k != "collectives"],
            flush=True,
        )
        if number % 20 == 0:
            write(options.output, models, rows)
    write(options.output, models, rows)


def write(output, models, rows):
    versions = {"torch": torch.__version__}
    if "transformers" in sys.modules:
        versions["transformers"] = sys.modules["transformers"].__version__
    text = json.dumps({"versions": versions, "models": list(models.values()), "cases": rows}, separators=(",", ":"))
    pathlib.Path(output).write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main()
