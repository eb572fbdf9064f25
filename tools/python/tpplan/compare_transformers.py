"""python -m tpplan.compare_transformers: compares transformers' sharding of its models with tpplan's, class by class.

Covers every model class that can be built from its default configuration and ships a plan. transformers applies that
plan on torch's fake process group. tpplan compiles the exported model graph with the exported plan. The placements, the
local shape of every rank and the indices of each dim that it holds are compared; torch's placements split the dims.
"""

import argparse
import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass

from . import manifest as manifests
from .export import torch_module, transformers_model
from .files import InputError, printable, run_command
from .plans import transformers_plan

SIZES = (2, 3, 4, 8)


@dataclass
class Row:
    """The result for one class. `status` is "agrees", "differs", "refused" (both reject the sizes in `note`), "no
    plan" or "cannot be built". The last two are not counted."""

    name: str
    status: str
    parameters: int = 0
    sharded: int = 0
    note: str = ""


def model_classes():
    """Returns the sorted names of all classes to which transformers' auto classes lead."""
    from transformers.models.auto import modeling_auto as auto

    names = set()
    for mapping in (
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
        "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    ):
        for found in getattr(auto, mapping, {}).values():
            names |= set(found if isinstance(found, (list, tuple)) else [found])
    return sorted(names)


def compare_class(name, program, sizes=SIZES):
    """Compares one class at these sizes. Returns its Row."""
    try:
        model = transformers_model.build(name, {})
        if not model.tp_plan:
            return Row(name, "no plan")
    except InputError as error:
        return Row(name, "cannot be built", note=str(error).splitlines()[0][:100])
    graph, plan = torch_module.model_graph(model), transformers_plan(model, {"tp": 2})
    refused, sharded = [], 0
    for size in sizes:
        truth = shard_with_transformers(name, size)
        found = compile_plan(program, graph, plan, size)
        if isinstance(truth, str) or isinstance(found, str):
            if isinstance(truth, str) and isinstance(found, str):
                refused.append(size)
                continue
            return Row(
                name,
                "differs",
                note=f"tp {size}: transformers: {truth[:80] if isinstance(truth, str) else 'loads'}; "
                f"tpplan: {found[:80] if isinstance(found, str) else 'compiles'}",
            )
        sharded = sum(t is not None for t in truth.values())
        wrong = next(
            (path for path in found.parameters if path not in truth or difference(found, path, truth[path], size)), None
        )
        if wrong is not None or set(truth) != set(found.parameters):
            return Row(
                name,
                "differs",
                note=f"tp {size}: {wrong or 'other names'}: {difference(found, wrong, truth[wrong], size) if wrong in truth else ''}",
            )
    count = sum(len(module.get("parameters", {})) for module in graph["modules"])
    note = f"both reject tp {', '.join(map(str, refused))}" if refused else ""
    return Row(name, "agrees" if len(refused) < len(sizes) else "refused", count, sharded, note)


def shard_with_transformers(name, size):
    """Returns {parameter: torch placement or None} after transformers applied its plan on rank 0 of `size`, or the
    text of its error."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor
    from transformers import initialization
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    with fake_ranks(size):
        with initialization.no_tie_weights():
            model = transformers_model.build(name, {})
        try:
            plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=size))
            apply_tensor_parallelism(model, init_device_mesh("cpu", (size,), mesh_dim_names=("tp",)), plan)
        except Exception as error:  # a rejection, of any type
            return f"{type(error).__name__}: {error}"
        placements = {}
        for path, parameter in model.named_parameters(remove_duplicate=False):
            placements[path] = parameter.placements[0] if isinstance(parameter, DTensor) else None
            if (
                isinstance(parameter, DTensor)
                and list(parameter.to_local().shape)
                != torch_pieces(parameter.shape, parameter.placements[0], size)[0][0]
            ):
                return f"the local shape of {path} on rank 0 does not match its placement"
        return placements


@contextlib.contextmanager
def fake_ranks(size):
    """Runs as rank 0 of a fake process group, which does not communicate."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


PIECES = {}


def torch_pieces(shape, placement, size):
    """Returns, for each rank, (local shape, dim, the indices of the dim that it holds or None for all), as torch's
    placement splits it."""
    import torch
    from torch.distributed.tensor import Replicate

    shape = list(shape)
    if placement is None or isinstance(placement, Replicate):
        return [(shape, None, None)] * size
    dim = placement.dim % len(shape)
    key = (shape[dim], size, getattr(placement, "split_factor", 1))
    if key not in PIECES:
        split = (
            type(placement)(0, split_factor=placement.split_factor)
            if hasattr(placement, "split_factor")
            else type(placement)(0)
        )
        pieces, _ = split._split_tensor(torch.arange(shape[dim]), size, with_padding=False, contiguous=True)
        PIECES[key] = [piece.tolist() for piece in pieces]
    return [(shape[:dim] + [len(piece)] + shape[dim + 1 :], dim, piece) for piece in PIECES[key]]


def compile_plan(program, graph, plan, size):
    """Returns the Manifest, or the program's error text if it rejects the plan."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("model.json", "plan.yaml", "manifest.json")]
        for path, text in zip(paths, (json.dumps(graph), plan)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run(
            [program, "compile", *paths[:2], "--mesh", f"tp={size}", "-o", paths[2]], capture_output=True, check=False
        )
        return manifests.load_manifest(paths[2]) if done.returncode == 0 else done.stderr.decode(errors="replace")


def difference(manifest, path, placement, size):
    """Returns how the manifest differs from a placement for one parameter, as text; empty if it does not."""
    tensor = manifest.parameters[path]
    name = "Replicate" if placement is None else type(placement).__name__.lstrip("_")
    if name in ("Shard", "StridedShard"):
        name += f"({placement.dim % len(tensor.shape)}" + (
            f", {placement.split_factor})" if name == "StridedShard" else ")"
        )
    if tensor.placements != (name,):
        return f"{name}, not {tensor.placements}"
    for rank, (shape, dim, indices) in enumerate(torch_pieces(tensor.shape, placement, size)):
        if manifests.local_shape(manifest, tensor, rank) != shape:
            return f"rank {rank} has local shape {shape}"
        runs = manifests.local_slice(manifest, tensor, rank)
        for d, size_of_dim in enumerate(tensor.shape):
            held = [i for run in runs[d] for i in range(*run)] if d == dim else None
            if (held != indices) if d == dim else (sum(e - b for b, e in runs[d]) != size_of_dim):
                return f"rank {rank} has different indices of dim {d}"
    return ""


def find_program(given):
    program = given or os.environ.get("TPPLAN", "tpplan")
    try:
        subprocess.run([program, "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise InputError(
            f"cannot run {printable(program)}", "pass the path of the program with --tpplan PATH"
        ) from None
    return program


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tpplan.compare_transformers", description=__doc__.split("\n\n")[1])
    parser.add_argument(
        "classes", nargs="*", metavar="CLASS", help="model classes (default: all models of the auto classes)"
    )
    parser.add_argument("--tpplan", metavar="PATH", help="path of tpplan (default: $TPPLAN, or tpplan on the PATH)")
    parser.add_argument("--verbose", action="store_true", help="also list the classes without a plan")
    options = parser.parse_args(arguments)
    program = find_program(options.tpplan)
    transformers_model._transformers()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    counts = {}
    for name in options.classes or model_classes():
        row = compare_class(name, program)
        counts[row.status] = counts.get(row.status, 0) + 1
        if options.verbose or row.status in ("agrees", "differs", "refused"):
            print(f"{row.status:16}{row.name:56}{row.sharded:6} of {row.parameters:6}  {row.note}", flush=True)
    judged = sum(counts.get(key, 0) for key in ("agrees", "differs", "refused"))
    print(
        f"{judged - counts.get('differs', 0)} of {judged} classes agree at tp "
        f"{', '.join(map(str, SIZES))}; {counts.get('no plan', 0)} have no plan, "
        f"{counts.get('cannot be built', 0)} cannot be built from their default configurations"
    )
    return 1 if counts.get("differs") or not judged else 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
