"""Records the shardings of torchtitan for its own models (data/README.md):

python tests/truth/record_torchtitan.py OUTPUT.json.xz
"""

import json
import lzma
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "python"))
MODELS = (
    "llama3:debugmodel",
    "qwen3:debugmodel",
    "qwen3:debugmodel_non_fused_qkv",
    "qwen3:debugmodel_moe",
    "deepseek_v3:debugmodel",
    "gpt_oss:debugmodel",
    "kimi_k2_7:debugmodel",
    "muse_glimmer:debugmodel",
    "muse_glimmer:debugmodel_mm",
)


FEW_HEADS = "muse_glimmer"  # has two kv heads


def begin():
    """Creates a fake process group of 8 ranks, which does not communicate."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())


def record(name, tp, sequence):
    """Returns the model graph, the plan that tpplan reads, and torchtitan's result for each parameter: placements, the
    shape on rank 0, and the type over `tp` in its configuration.
    """
    import torch
    from tpplan import titan_plan
    from tpplan.export import torch_module

    model = titan_plan.build(name, tp, {"enable_sequence_parallel": sequence})
    case = {"name": name, "tp": tp, "sequence": sequence, "plan": titan_plan.titan_plan(model, {"tp": tp})}
    case["model"] = torch_module.model_graph(model)
    kinds = {
        f"{path}.{parameter}" if path else parameter: titan_plan._type(layout)
        for path, module in model.named_modules()
        if getattr(module, "_sharding_config", None) is not None
        for parameter, layout in module._sharding_config.state_shardings.items()
    }
    case["truth"] = {path: entry | {"type": kinds.get(path)} for path, entry in parallelized(model, tp).items()}
    assert isinstance(next(iter(model.parameters())), torch.nn.Parameter)
    return case


def parallelized(model, tp):
    """Returns torchtitan's result for each parameter, from the configurations of the modules."""
    from torchtitan.distributed import ParallelDims

    dims = ParallelDims(
        dp_replicate=1, dp_shard=8 // tp, cp=1, tp=tp, pp=1, ep=1, world_size=8, spmd_backend="partial_dtensor"
    )
    model.parallelize(dims)
    return {
        path: {
            "placements": [_word(p) for p in getattr(parameter, "placements", ())],
            "local": list((parameter.to_local() if hasattr(parameter, "to_local") else parameter).shape),
        }
        for path, parameter in model.named_parameters()
    }


def _word(placement):
    return f"Shard({placement.dim})" if placement.is_shard() else "Replicate"


def record_all():
    begin()
    return [
        record(name, tp, sequence)
        for name in MODELS
        for tp in ((2,) if name.startswith(FEW_HEADS) else (2, 4))
        for sequence in (True, False)
    ]


if __name__ == "__main__":
    os.environ["TORCH_CPP_LOG_LEVEL"] = "FATAL"
    text = json.dumps(record_all(), separators=(",", ":"))
    pathlib.Path(sys.argv[1]).write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
