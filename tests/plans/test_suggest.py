"""`tpplan suggest`: each size in its table is compared with `tpplan check` and the manifest at that size."""

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
def test_suggested_sizes_match_check_and_costs(more, tmp_path):
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


def test_diagnostic_includes_the_edit_that_fixes_it(tmp_path):
    made = suggested(tmp_path, plan_of(LAYER | {"self_attn.o_proj": "colwise"}, dialect="transformers"))
    (error,) = [f for f in made["findings"] if f["severity"] == "error"]
    assert error["code"] == "TP5102" and error["help"].startswith("write `rowwise` for")
    assert [row["mesh"]["tp"] for row in made["meshes"] if row["right"]] == [1]  # every plan is correct on one rank


def test_max_ranks_limits_the_sizes_except_the_current_mesh(tmp_path):
    made = suggested(tmp_path, plan_of(mesh={"tp": 4}), "--max-ranks", "2")
    assert [(row["ranks"], row["own"]) for row in made["meshes"]] == [(1, False), (2, False), (4, True)]


def test_bytes_are_unknown_without_operations(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(linear_model(a=[16, 16], b=[16, 16])))
    made = suggested(
        tmp_path, {"format": "tpplan.plan/1", "mesh": {"tp": 2}, "tp_plan": {"a": "colwise", "b": "rowwise"}}
    )
    assert {row["sent_bytes"] for row in made["meshes"] if row["right"]} == {None}
    assert {row["memory_bytes"] for row in made["meshes"] if row["right"]} == {None}
    text = run("suggest", "model.json", "plan.yaml", cwd=tmp_path).stdout.decode()
    assert "memory and bytes sent per step are unknown" in text


@pytest.mark.parametrize("mesh", [{"tp": 2}, {"an-axis-of-its-own": 2, "tp": 2}])
def test_table_fits_a_terminal(mesh, tmp_path):
    suggested(tmp_path, plan_of(mesh=mesh))
    text = run("suggest", "model.json", "plan.yaml", "--color", "never", cwd=tmp_path).stdout.decode()
    table = text[text.index("LlamaForCausalLM: ") :]
    assert max(map(len, table.splitlines())) <= 80
    assert "* " in table and "rejected:" in table and "TP5001" in table


def test_status_is_one_if_no_size_is_right(tmp_path):
    wrong = plan_of(LAYER | {"self_attn.q_porj": "colwise"})
    made = suggested(tmp_path, wrong, status=1)
    assert not any(row["right"] for row in made["meshes"]) and made["findings"][0]["code"] == "TP4001"


@pytest.mark.parametrize(
    "content, status", [(b"tp_plan: [", 2), (b"format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {a: sideways}\n", 1)]
)
def test_unreadable_input_is_reported_on_stderr(content, status, tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(linear_model(a=[16, 16])))
    (tmp_path / "plan.yaml").write_bytes(content)
    result = run("suggest", "model.json", "plan.yaml", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (status, b"") and b"plan.yaml:" in result.stderr


@pytest.mark.parametrize("ranks", ["0", "-1", "many", "65537"])
def test_wrong_max_ranks_is_a_usage_error(ranks, tmp_path):
    result = run("suggest", "model.json", "plan.yaml", "--max-ranks", ranks, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, b"")
