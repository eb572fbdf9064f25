"""tpplan check --run: run files, their errors, and contradictions with the plan."""

import json

import jsonschema
import pytest
from conftest import ROOT, run

MODEL = ROOT / "plans/models/llama-3-8b.json"
PLAN = ROOT / "plans/llama.yaml"
SCHEMA = jsonschema.Draft7Validator(json.loads((ROOT / "schemas/run.schema.json").read_text()))
DIAGNOSTICS = jsonschema.Draft7Validator(json.loads((ROOT / "schemas/diagnostics.schema.json").read_text()))


def check(folder, content, *options, plan=PLAN):
    """Exit status and JSON document of a check with this run."""
    path = folder / "run.yaml"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    result = run("check", MODEL, plan, "--run", path, "--format", "json", *options)
    document = json.loads(result.stdout)
    assert not list(DIAGNOSTICS.iter_errors(document))
    return result.returncode, document


def step(**keys):
    return {"format": "tpplan.run/1"} | keys


RIGHT = [
    step(),
    step(batch=1, sequence=8, accumulation=3),
    step(recipe="sgd", compiled=True),
    step(compiled="kernels", attention="unfused", causal=True),
    *(step(checkpointing=how) for how in ("none", "full", "selective_ops", {"every": 2}, {"save": ["linear"]})),
    step(checkpointing={"recompute": ["attention", "collectives", "every_second_linear"]}),
    *(step(loss=loss) for loss in ("plain", "fused", {"chunked": 8})),
    step(gather_dtype="float8_e4m3fn", reduce_dtype="bfloat16", reshard_after_forward=False),
    step(fp8="rowwise", async_tp=True, optimizer="fused", loss_dtype="bfloat16"),
]

# A wrong run, and the text in its line that the diagnostic points at.
WRONG = {
    "no format": ({"batch": 1}, None),
    "another format": ({"format": "tpplan.plan/1"}, None),
    "an unknown key": (step(btch=1), '"btch"'),
    "a batch of zero": (step(batch=0), "0"),
    "a negative sequence": (step(sequence=-1), "-1"),
    "a fractional accumulation": (step(accumulation=1.5), "1.5"),
    "a count above the limit": (step(batch=1 << 25), str(1 << 25)),
    "a count in quotes": (step(batch="8"), '"8"'),
    "an unknown recipe": (step(recipe="adam"), '"adam"'),
    "a list for a name": (step(attention=["flash"]), None),
    "an unknown checkpointing": (step(checkpointing="some"), '"some"'),
    "no checkpointed operation": (step(checkpointing={"save": []}), None),
    "an unknown operation": (step(checkpointing={"save": ["norm"]}), '"norm"'),
    "two kinds of checkpointing": (step(checkpointing={"every": 2, "save": ["linear"]}), None),
    "every zeroth layer": (step(checkpointing={"every": 0}), "0"),
    "no chunk": (step(loss={"chunked": 0}), "0"),
    "an unknown part of the loss": (step(loss={"parts": 2}), '"parts"'),
    "attention to later tokens": (step(causal=False), "false"),
    "a gathered integer": (step(gather_dtype="int8"), '"int8"'),
    "a word for a boolean": (step(async_tp="on"), '"on"'),
}


@pytest.mark.parametrize("content", RIGHT, ids=json.dumps)
def test_right_run_is_accepted_and_printed(content, tmp_path):
    assert SCHEMA.is_valid(content)
    status, document = check(tmp_path, content)
    assert (status, document["errors"]) == (0, 0)
    printed = document["costs"]["run"]
    assert set(printed["given"]) == set(content) - {"format"}
    assert set(SCHEMA.schema["properties"]) - {"format"} == set(printed) - {"given"}
    for key, value in content.items():
        if key != "format" and not isinstance(value, dict):
            assert printed[key] == value


@pytest.mark.parametrize("name", WRONG)
def test_wrong_run_is_rejected_at_its_value(name, tmp_path):
    content, text = WRONG[name]
    assert not SCHEMA.is_valid(content)
    status, document = check(tmp_path, content)
    assert status == 2
    (found,) = document["diagnostics"]
    assert found["code"] == "TP9107" and found["place"]["file"].endswith("run.yaml") and found["help"]
    if text:
        assert json.dumps(content)[found["place"]["column"] - 1 :].startswith(text)


def test_options_override_the_run(tmp_path):
    _, document = check(tmp_path, step(batch=4, recipe="sgd"), "--batch", 1, "--recipe", "adamw")
    printed = document["costs"]["run"]
    assert (printed["batch"], printed["recipe"], printed["sequence"]) == (1, "adamw", 2048)
    assert document["costs"]["memory"]["recipe"] == "adamw" and document["costs"]["batch"] == 1


def test_batch_one_of_an_imported_config(tmp_path):
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "torch_dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert run("import", "--from", "config", tmp_path / "config.json", "-o", tmp_path / "m.json").returncode == 0
    (tmp_path / "plan.yaml").write_text('format: tpplan.plan/1\nmesh: {tp: 1}\ntp_plan: {"*": replicate}\n')
    (tmp_path / "run.yaml").write_text(json.dumps(step(batch=1, sequence=32)))
    options = ("--run", tmp_path / "run.yaml", "--format", "json")
    result = run("check", tmp_path / "m.json", tmp_path / "plan.yaml", *options)
    assert result.returncode == 0, result.stdout
    assert json.loads(result.stdout)["costs"]["batch"] == 1


CONTRADICTIONS = {
    "checkpointing and remat": ({"remat": ["model.layers.*"]}, step(checkpointing="full")),
    "none and remat": ({"remat": ["model.layers.*"]}, step(checkpointing="none")),
    "parallel loss of the run": ({}, step(loss="parallel")),
    "parallel loss of the plan": ({"loss": {"reduction": "mean", "cross_entropy": "parallel"}}, step(loss="plain")),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradiction_is_an_error_at_the_key_of_the_run(name, tmp_path):
    changes, content = CONTRADICTIONS[name]
    plan = {"format": "tpplan.plan/1", "mesh": {"tp": 2}, "tp_plan": {"*": "replicate"}}
    if "cross_entropy" in str(changes):
        plan["tp_plan"] = {"lm_head": {"style": "colwise", "output_layouts": "Shard(-1)", "use_local_output": False}}
    (tmp_path / "plan.yaml").write_text(json.dumps(plan | changes))
    status, document = check(tmp_path, content, plan=tmp_path / "plan.yaml")
    assert status == 1
    (found,) = [d for d in document["diagnostics"] if d["severity"] == "error"]
    key = next(key for key in content if key != "format")
    assert found["code"] == "TP9108" and json.dumps(content)[found["place"]["column"] - 1 :].startswith(f'"{key}"')


def test_remat_without_checkpointing_is_no_contradiction(tmp_path):
    plan = {"format": "tpplan.plan/1", "mesh": {"tp": 2}, "tp_plan": {"*": "replicate"}, "remat": ["model.layers.*"]}
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    assert check(tmp_path, step(), plan=tmp_path / "plan.yaml")[0] == 0


def test_step_is_compared_with_the_memory_of_the_gpu(tmp_path):
    for batch, fits in ((1, True), (64, False)):
        topology = ("--topology", ROOT / "plans/topologies/h100.yaml")
        _, document = check(tmp_path, step(batch=batch, sequence=4096), *topology)
        memory = document["costs"]["memory"]
        assert memory["fits"] == fits == (memory["reserved_bytes"] <= memory["capacity_bytes"])
        text = run("check", MODEL, PLAN, "--run", tmp_path / "run.yaml", *topology).stdout.decode()
        assert ("\n fits: " in text) == fits and ("\n does not fit: " in text) != fits


def test_memory_without_a_run_is_the_sum_of_its_terms(tmp_path):
    costs = json.loads(run("check", MODEL, PLAN, "--costs", "--format", "json").stdout)["costs"]
    assert "run" not in costs and "active_bytes" not in costs["memory"]


def peak(folder, **keys):
    return check(folder, step(batch=4, sequence=2048, **keys))[1]["costs"]["memory"]["active_bytes"]


def test_run_changes_the_peak_in_the_right_direction(tmp_path):
    plain = peak(tmp_path)
    assert peak(tmp_path, checkpointing="full") < peak(tmp_path, checkpointing="selective_ops") < plain
    assert peak(tmp_path, checkpointing="full") < peak(tmp_path, checkpointing={"every": 2}) < plain
    assert peak(tmp_path, checkpointing={"save": ["attention"]}) < peak(tmp_path, checkpointing={"save": ["linear"]})
    assert peak(tmp_path, loss={"chunked": 8}) < peak(tmp_path, loss_dtype="bfloat16") < plain
    assert peak(tmp_path, loss="fused") < plain
    assert peak(tmp_path, compiled=True) < plain < peak(tmp_path, attention="unfused")
    assert peak(tmp_path, accumulation=2) > plain
    assert peak(tmp_path, recipe="sgd") < plain < peak(tmp_path, recipe="adamw_mixed")
