"""Rules of transformers' FP8 quantizer: the manifest has the style that `update_parallel_plan` gives each parameter."""

import json

import bridge
import pytest

bridge.needs("torch", "transformers")

import torch  # noqa: E402
from bridge import run  # noqa: E402
from torch import nn  # noqa: E402
from transformers import FineGrainedFP8Config  # noqa: E402
from transformers.distributed.parallel_utils import _get_parameter_plan, replace_layer_number_by_wildcard  # noqa: E402
from transformers.quantizers.auto import AutoHfQuantizer  # noqa: E402

SIZES = {  # of parameters of one layer
    "self_attn.q_proj.weight": [512, 256],
    "self_attn.q_proj.weight_scale_inv": [4, 2],
    "self_attn.q_proj.activation_scale": [],
    "self_attn.o_proj.weight": [256, 512],
    "self_attn.o_proj.weight_scale_inv": [2, 4],
    "mlp.experts.gate_up_proj": [4, 512, 256],
    "mlp.experts.gate_up_proj_scale_inv": [4, 4, 2],
    "mlp.experts.down_proj": [4, 256, 256],
    "mlp.experts.down_proj_scale_inv": [4, 2, 2],
}
PLAN = {
    "layers.*.self_attn.q_proj": "colwise",
    "layers.*.self_attn.o_proj": "rowwise",
    "layers.*.mlp.experts.gate_up_proj": "grouped_gemm",
    "layers.*.mlp.experts.down_proj": "grouped_gemm",
}
SHARDED_DIM = {"colwise": -2, "rowwise": -1, "grouped_gemm": 0}


def parameters():
    return {f"layers.{layer}.{name}": shape for layer in range(2) for name, shape in SIZES.items()}


class Named(nn.Module):
    def named_parameters(self, *_, **__):
        return ((name, torch.empty(shape, device="meta")) for name, shape in parameters().items())


def dtype_of(name):
    return "float32" if "scale" in name else "float8_e4m3fn"


@pytest.mark.parametrize("whole_layers", [True, False])
def test_scales_have_the_styles_of_the_quantizer(tmp_path, whole_layers):
    plan = dict(PLAN) if whole_layers else {key: PLAN[key] for key in list(PLAN)[2:]}
    theirs = dict(plan)
    AutoHfQuantizer.from_config(FineGrainedFP8Config(), pre_quantized=True).update_parallel_plan(Named(), theirs)
    modules = {}
    for name, shape in parameters().items():
        path, _, leaf = name.rpartition(".")
        kind = "FP8Experts" if path.endswith("experts") else "FP8Linear"
        module = modules.setdefault(path, {"path": path, "type": kind, "parameters": {}})
        module["parameters"][leaf] = {"shape": shape, "dtype": dtype_of(leaf)}
    model = {"format": "tpplan.model/1", "name": "M", "framework": "torch", "modules": list(modules.values())}
    (tmp_path / "m.json").write_text(json.dumps(model))
    rules = "".join(f'  "{key}": {style}\n' for key, style in plan.items())
    (tmp_path / "p.yaml").write_text(
        f"format: tpplan.plan/1\ndialect: transformers\nmesh: {{tp: 2}}\nuneven: torch\ntp_plan:\n{rules}"
    )
    result = run("compile", tmp_path / "m.json", tmp_path / "p.yaml", "-o", tmp_path / "manifest.json")
    assert result.returncode == 0, result.stderr.decode()
    ours = {p["path"]: p["spec"] for p in json.loads((tmp_path / "manifest.json").read_text())["parameters"]}
    for name, shape in parameters().items():
        style = _get_parameter_plan(replace_layer_number_by_wildcard(name), theirs)
        wanted = [None] * len(shape)
        if style in SHARDED_DIM:
            wanted[SHARDED_DIM[style]] = "tp"
        assert ours[name] == wanted, (name, style)
