"""Programs in the files of JAX and Keras models: the costs of a plan, and faulty programs."""

import json

import pytest
from conftest import ROOT, run

CASE = ROOT / "tests/golden/operations/jax-program-collectives"
MODEL = json.loads((CASE / "model.json").read_text())


def check(folder, model, *options, plan=None):
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "plan.yaml").write_text(plan or (CASE / "plan.yaml").read_text())
    return run("check", folder / "model.json", folder / "plan.yaml", "--color", "never", *options)


def changed(**fields):
    return MODEL | {"program": MODEL["program"] | fields}


def test_costs_name_module_operation_parameter_and_rule(tmp_path):
    costs = json.loads(check(tmp_path, MODEL, "--costs", "--format", "json").stdout)["costs"]
    call = next(c for c in costs["compiled"] if c["phase"] == "forward" and c["axes"] == ["tp"])
    assert call["kind"] == "all_reduce" and call["module"] == "layers.1" and call["operation"] == "dot_general"
    assert call["parameter"] == "layers.1.weight" and call["rule"] == "layers.1" and call["bytes"] == 2 * 8 * 4
    assert costs["wire"] > 0 and "reason" not in costs
    text = check(tmp_path, MODEL, "--costs").stdout.decode()
    assert "collectives of a step as XLA inserts them" in text and "layers.1: dot_general" in text


def test_replicated_plan_on_one_data_rank_sends_nothing(tmp_path):
    plan = "format: tpplan.plan/1\nmesh: {tp: 4}\naxis: tp\ntp_plan: {'*': replicate}\n"
    costs = json.loads(check(tmp_path, MODEL, "--costs", "--format", "json", plan=plan).stdout)["costs"]
    assert costs["compiled"] == [] and costs["wire"] == 0


def test_operations_without_a_rule_are_named(tmp_path):
    ops = [
        [*op[:1], "stablehlo.fft", *op[2:]] if op[1] == "stablehlo.maximum" else op for op in MODEL["program"]["ops"]
    ]
    text = check(tmp_path, changed(ops=ops)).stdout.decode()
    assert "operations without a rule: stablehlo.fft" in text


def test_model_without_a_program_says_how_to_record_one(tmp_path):
    text = check(tmp_path, {k: v for k, v in MODEL.items() if k != "program"}).stdout.decode()
    assert "python -m tpplan.export --jax NAME" in text


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"arguments": MODEL["program"]["arguments"][1:]}, "`arguments` has"),
        ({"gradients": []}, "`gradients` has"),
        ({"arguments": [["param", "absent"], *MODEL["program"]["arguments"][1:]]}, "is not in the model"),
        ({"arguments": [["param", "layers.1.weight"], *MODEL["program"]["arguments"][1:]]}, "another shape"),
        ({"arguments": [["weight", "x"], *MODEL["program"]["arguments"][1:]]}, "the kind of an argument"),
        ({"gradients": ["absent", *MODEL["program"]["gradients"][1:]]}, "is not a parameter"),
        ({"batch": 0}, "`batch` is not a size"),
        ({"outs": [99999]}, "value 99999 is used where it is not defined"),
        ({"ops": [[0, "stablehlo.add", [99999], [], {}, "", []]]}, "value 99999 is used"),
    ],
)
def test_faulty_programs_are_rejected(tmp_path, fields, said):
    result = check(tmp_path, changed(**fields))
    assert result.returncode == 2 and b"TP2017" in result.stdout and said in result.stdout.decode(), result.stdout
