"""Fields of a diagnostic in JSON: its name, and the module and the parameter that it is about."""

import json

from conftest import ROOT, linear_model, plan_text, run
from read_formats import check_text

LLAMA = ROOT / "plans" / "models" / "llama-3-8b.json"


def fields(result):
    return [
        tuple(d.get(key) for key in ("code", "name", "module", "parameter"))
        for d in json.loads(result.stdout)["diagnostics"]
    ]


def test_indivisible_dim_names_its_parameter(tmp_path):
    result = check_text(tmp_path, linear_model(a__w=[6, 8]), plan_text({"a.w": "colwise"}), format="json")
    assert fields(result)[0] == ("TP5001", "indivisible-dim", "a.w", "a.w.weight")


def test_wrong_operation_names_its_module():
    result = run("check", LLAMA, ROOT / "tests/plans/wrong/output-colwise.yaml", "--format", "json")
    assert fields(result) == [("TP5102", "operand-sizes-differ", "model.layers.0.self_attn.o_proj", None)]


def test_wrong_gradient_names_its_parameter(tmp_path):
    shipped = (ROOT / "plans" / "llama.yaml").read_text()
    style = "replicated_with_grad_allreduce"
    (tmp_path / "plan.yaml").write_text(
        shipped.replace("tp_plan:\n", f'tp_plan:\n  "model.layers.*.input_layernorm": {style}\n')
    )
    result = run("check", LLAMA, tmp_path / "plan.yaml", "--format", "json")
    norm = "model.layers.31.input_layernorm"  # the backward pass starts at the last layer
    assert fields(result) == [("TP5112", "replicated-gradient-reduced", norm, f"{norm}.weight")]
