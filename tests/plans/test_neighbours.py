"""Common mistakes that crash or compute wrong numbers, in models without operations: each is a warning. test_plans.py tests that correct
plans have none."""

import json
import lzma
import pathlib

import pytest

from conftest import NEIGHBOURS, ROOT, codes, run
from llama_layer import LAYER

MODELS = pathlib.Path(__file__).resolve().parent / "models"
ENDS = {"model.embed_tokens": "embedding_rowwise", "lm_head": "colwise_gather_output"}
ATTENTION = {key: style for key, style in LAYER.items() if key.startswith("self_attn")}


def plan(block, ends=ENDS, dialect="glob"):
    rules = dict(ends)
    rules |= {f"model.layers.*.{key}": style for key, style in block.items()}
    lines = "".join(f'  "{key}": {style}\n' for key, style in rules.items())
    return f"format: tpplan.plan/1\ndialect: {dialect}\nmesh: {{tp: 2}}\ntp_plan:\n{lines}"


def without(*keys):
    return {key: style for key, style in LAYER.items() if key not in keys}


WRONG = {
    "everything colwise": ({key: "colwise" for key in LAYER}, ENDS, "TP5150"),
    "everything rowwise": ({key: "rowwise" for key in LAYER}, ENDS, "TP5151"),
    "o colwise": (LAYER | {"self_attn.o_proj": "colwise"}, ENDS, "TP5150"),
    "down colwise": (LAYER | {"mlp.down_proj": "colwise"}, ENDS, "TP5150"),
    "o forgotten": (without("self_attn.o_proj"), ENDS, "TP5150"),
    "down forgotten": (without("mlp.down_proj"), ENDS, "TP5150"),
    "q forgotten": (without("self_attn.q_proj"), ENDS, "TP5152"),
    "k forgotten": (without("self_attn.k_proj"), ENDS, "TP5152"),
    "v forgotten": (without("self_attn.v_proj"), ENDS, "TP5152"),
    "gate forgotten": (without("mlp.gate_proj"), ENDS, "TP5152"),
    "up forgotten": (without("mlp.up_proj"), ENDS, "TP5152"),
    "gate and up forgotten": (without("mlp.gate_proj", "mlp.up_proj"), ENDS, "TP5151"),
    "v gathered": (LAYER | {"self_attn.v_proj": "colwise_gather_output"}, ENDS, "TP5152"),
    "up rowwise": (LAYER | {"mlp.up_proj": "rowwise"}, ENDS, "TP5152"),
    "head not gathered": (LAYER, ENDS | {"lm_head": "colwise"}, "TP5150"),
    "embedding not gathered": (LAYER, ENDS | {"model.embed_tokens": "colwise"}, "TP5154"),
    "sequence not cut": (LAYER | {"input_layernorm": "sequence_parallel"}, ENDS, "TP5155"),
}


@pytest.fixture(scope="module")
def without_operations(tmp_path_factory):
    """Llama 3 8B as a model file without operations."""
    path = tmp_path_factory.mktemp("model") / "model.json"
    model = json.loads((ROOT / "plans" / "models" / "llama-3-8b.json").read_text())
    del model["graph"]
    path.write_text(json.dumps(model))
    return path


def neighbours(result):
    return {code for code in codes(result) if code in NEIGHBOURS}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_llama_plan_is_a_warning(name, tmp_path, without_operations):
    block, ends, code = WRONG[name]
    (tmp_path / "plan.yaml").write_text(plan(block, ends))
    result = run("check", without_operations, tmp_path / "plan.yaml", "--allow", "TP4006")
    assert result.returncode == 0 and code in neighbours(result), result.stdout.decode()


@pytest.mark.parametrize("dialect", ["glob", "regex"])
@pytest.mark.parametrize("name", WRONG)
def test_with_operations_it_is_an_error(name, dialect, tmp_path):
    """As tpplan.torch would run it: the checker computes the result and needs no heuristic."""
    block, ends, _ = WRONG[name]
    text = plan(block, ends, dialect)
    (tmp_path / "plan.yaml").write_text(text if dialect == "glob" else text.replace(".*.", "[.][0-9]+[.]"))
    result = run("check", ROOT / "plans" / "models" / "llama-3-8b.json", tmp_path / "plan.yaml", "--format", "json")
    found = json.loads(result.stdout)["diagnostics"]
    assert result.returncode == 1 and {d["fails"] for d in found if d["severity"] == "error"} <= {
        "forward",
        "output",
        "gradient",
    }, found
    assert not neighbours(result)


def test_correct_original_plan_has_no_warnings(tmp_path, without_operations):
    (tmp_path / "plan.yaml").write_text(plan(LAYER))
    result = run("check", without_operations, tmp_path / "plan.yaml")
    assert result.returncode == 0 and not codes(result), result.stdout.decode()


EXPERTS = {"mlp.experts.gate_up_proj": "packed_colwise", "mlp.experts.down_proj": "rowwise"}


DEALT = {"mlp.experts.gate_up_proj": "grouped_gemm", "mlp.experts.down_proj": "grouped_gemm"}


@pytest.mark.parametrize(
    ("summed", "found"),
    [
        ({}, {"TP5153"}),
        ({"mlp.experts": "moe_tp_experts"}, set()),
        (DEALT, {"TP5153"}),
        (DEALT | {"mlp.experts": "ep_dispatch_experts"}, set()),
    ],
)
def test_unreduced_experts_are_a_warning(summed, found, tmp_path):
    model = tmp_path / "mixtral.json"
    model.write_bytes(lzma.decompress((MODELS / "mixtral-8x7b.json.xz").read_bytes()))
    (tmp_path / "plan.yaml").write_text(plan(ATTENTION | EXPERTS | summed))
    assert neighbours(run("check", model, tmp_path / "plan.yaml")) == found


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (
            {
                "self_attn.q_proj.weight": "colwise",
                "self_attn.k_proj.weight": "colwise",
                "self_attn.v_proj.weight": "colwise",
            },
            "TP5156",
        ),
        (
            {
                "self_attn.q_proj": "colwise",
                "self_attn.k_proj": "colwise",
                "self_attn.v_proj": "colwise",
                "self_attn.o_proj": "rowwise",
            },
            None,
        ),
    ],
)
def test_forgotten_bias_is_a_warning(rules, found, tmp_path):
    model = tmp_path / "qwen2.json"
    model.write_bytes(lzma.decompress((MODELS / "qwen2.5-32b.json.xz").read_bytes()))
    (tmp_path / "plan.yaml").write_text(plan(rules))
    assert neighbours(run("check", model, tmp_path / "plan.yaml")) == ({found} if found else set())


def test_one_cause_is_one_diagnostic_with_a_count(tmp_path, without_operations):
    (tmp_path / "plan.yaml").write_text(plan(without("mlp.down_proj")))
    result = run("check", without_operations, tmp_path / "plan.yaml", "--allow", "TP4006")
    assert sorted(codes(result)) == ["TP5150", "TP5150"]  # gate and up, one rule each
    assert result.stdout.decode().count("and 31 modules more") == 2


@pytest.mark.parametrize(
    ("framework", "kind", "name", "shape", "spec"),
    [
        ("torch", "Linear", "weight", [64, 32], "[tp, null]"),
        ("jax", "Linear", "weight", [64, 32], "[tp, null]"),
        ("keras", "Dense", "kernel", [32, 64], "[null, tp]"),
    ],
)
def test_bias_may_be_replicated_in_global_array_frameworks(tmp_path, framework, kind, name, shape, spec):
    tensors = {name: {"shape": shape, "dtype": "float32"}, "bias": {"shape": [64], "dtype": "float32"}}
    modules = [{"path": "fc", "type": kind, "parameters": tensors}]
    model = {"format": "tpplan.model/1", "name": "Net", "framework": framework, "modules": modules}
    (tmp_path / "model.json").write_text(json.dumps(model))
    path = f"fc{'/' if framework == 'keras' else '.'}{name}"
    rules = f'format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan: {{"{path}": {{spec: {spec}}}}}\n'
    (tmp_path / "plan.yaml").write_text(rules)
    found = run("check", tmp_path / "model.json", tmp_path / "plan.yaml")
    assert ("TP5156" in codes(found)) == (framework == "torch")
