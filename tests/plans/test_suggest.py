"""`tpplan suggest`: every size that it calls right or wrong is held against `tpplan check` and the manifest at that size."""

import json

import jsonschema
import pytest
from conftest import ROOT, linear_model, run
from llama_layer import LAYER

VALIDATOR = jsonschema.Draft7Validator(json.loads((ROOT / "schemas" / "suggestion.schema.json").read_text()))
CONFIG = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}


def plan_of(layer=LAYER, mesh=None, **more):
    rules = {f"model.layers.*.{name}": style for name, style in layer.items()}
    return {"format": "tpplan.plan/1", "mesh": mesh or {"tp": 2}, "tp_plan": rules} | more


def suggested(folder, plan, *flags, status=0):
    (folder / "config.json").write_text(json.dumps(CONFIG))
    if not (folder / "model.json").exists():
        assert run("import", "--from", "config", "config.json", "-o", "model.json", cwd=folder).returncode == 0
    (folder / "plan.yaml").write_text(json.dumps(plan))
    result = run("suggest", "model.json", "plan.yaml", "--format", "json", *flags, cwd=folder)
    assert result.returncode == status, result.stderr.decode()
    made = json.loads(result.stdout)
    VALIDATOR.validate(made)
    return made


FSDP = {"mesh": {"fsdp": 2, "tp": 2}, "fsdp": {"axis": "fsdp", "min_weight_size": 0, "patterns": ["*.weight"]}}


@pytest.mark.parametrize("more", [{}, FSDP, {"dialect": "transformers"}], ids=["tp", "tp and fsdp", "transformers"])
def test_a_size_is_right_where_check_finds_no_error_and_costs_what_it_counts(more, tmp_path):
    made = suggested(tmp_path, plan_of(**more), "--max-ranks", "16")
    assert {row["right"] for row in made["meshes"]} == {True, False}
    assert sum(row["own"] for row in made["meshes"]) == 1
    for row in made["meshes"]:
        mesh = ",".join(f"{axis}={size}" for axis, size in row["mesh"].items())
        inputs = ("model.json", "plan.yaml", "--mesh", mesh)
        checked = run("check", *inputs, "--costs", "--format", "json", cwd=tmp_path)
        assert (checked.returncode == 0) == row["right"], (mesh, checked.stdout.decode())
        report = json.loads(checked.stdout)
        if not row["right"]:
            errors = [d for d in report["diagnostics"] if d["severity"] == "error"]
            assert (row["code"], row["reason"]) in [
                (d["code"], said) for d in errors for said in (d["message"], *(note["text"] for note in d["notes"]))
            ]
            continue
        assert run("compile", *inputs, "-q", "-o", "manifest.json", cwd=tmp_path).returncode == 0
        manifest = json.loads((tmp_path / "manifest.json").read_bytes())
        assert row["parameter_bytes"] == max(manifest["totals"]["bytes_per_rank"])
        assert row["sent_bytes"] == report["costs"]["total"]["wire"]
        memory = report["costs"]["memory"]
        assert row["memory_bytes"] == memory["total"] and memory["recipe"] == made["recipe"] and memory["activations"]


def test_a_finding_comes_with_the_edit_that_mends_it(tmp_path):
    made = suggested(tmp_path, plan_of(LAYER | {"self_attn.o_proj": "colwise"}, dialect="transformers"))
    (error,) = [f for f in made["findings"] if f["severity"] == "error"]
    assert error["code"] == "TP5102" and error["help"].startswith("write `rowwise` for")
    assert [row["mesh"]["tp"] for row in made["meshes"] if row["right"]] == [1]  # on one rank every plan is


def test_no_more_ranks_are_tried_than_are_asked_for_and_the_own_mesh_always_is(tmp_path):
    made = suggested(tmp_path, plan_of(mesh={"tp": 4}), "--max-ranks", "2")
    assert [(row["ranks"], row["own"]) for row in made["meshes"]] == [(1, False), (2, False), (4, True)]


def test_without_operations_bytes_are_not_known(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(linear_model(a=[16, 16], b=[16, 16])))
    made = suggested(
        tmp_path, {"format": "tpplan.plan/1", "mesh": {"tp": 2}, "tp_plan": {"a": "colwise", "b": "rowwise"}}
    )
    assert {row["sent_bytes"] for row in made["meshes"] if row["right"]} == {None}
    assert {row["memory_bytes"] for row in made["meshes"] if row["right"]} == {None}
    text = run("suggest", "model.json", "plan.yaml", cwd=tmp_path).stdout.decode()
    assert "memory and sent a step are not known" in text


@pytest.mark.parametrize("mesh", [{"tp": 2}, {"an-axis-of-its-own": 2, "tp": 2}])
def test_the_table_fits_a_terminal(mesh, tmp_path):
    suggested(tmp_path, plan_of(mesh=mesh))
    text = run("suggest", "model.json", "plan.yaml", "--color", "never", cwd=tmp_path).stdout.decode()
    table = text[text.index("LlamaForCausalLM: ") :]
    assert max(map(len, table.splitlines())) <= 80
    assert "* " in table and "does not work:" in table and "TP5001" in table


def test_where_nothing_is_right_the_status_says_so(tmp_path):
    wrong = plan_of(LAYER | {"self_attn.q_porj": "colwise"})
    made = suggested(tmp_path, wrong, status=1)
    assert not any(row["right"] for row in made["meshes"]) and made["findings"][0]["code"] == "TP4001"


@pytest.mark.parametrize(
    "content, status", [(b"tp_plan: [", 2), (b"format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {a: sideways}\n", 1)]
)
def test_what_cannot_be_read_is_said_on_standard_error(content, status, tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(linear_model(a=[16, 16])))
    (tmp_path / "plan.yaml").write_bytes(content)
    result = run("suggest", "model.json", "plan.yaml", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (status, b"") and b"plan.yaml:" in result.stderr


@pytest.mark.parametrize("ranks", ["0", "-1", "many", "65537"])
def test_a_number_of_ranks_that_is_none_is_a_usage_error(ranks, tmp_path):
    result = run("suggest", "model.json", "plan.yaml", "--max-ranks", ranks, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, b"")
