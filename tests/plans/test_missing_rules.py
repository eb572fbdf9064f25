"""`tpplan check --suggest`: rules for uncovered parameters, in the plan's notation, that add no diagnostics."""

import json
import lzma
import subprocess

import jsonschema
import pytest
from conftest import ROOT, linear_model, run, write

VALIDATOR = jsonschema.Draft7Validator(json.loads((ROOT / "schemas" / "diagnostics.schema.json").read_text()))
SHIPPED = {  # a plan, its model, and words of the rules that the test removes
    "llama mlp": ("llama", "llama-3-8b", ["mlp."]),
    "llama one of three": ("llama", "llama-3-8b", ["v_proj"]),
    "llama vocabulary": ("llama", "llama-3-8b", ["embed_tokens"]),
    "qwen2 scores": ("qwen2", "qwen2.5-7b", ["lm_head"]),
    "gpt-neox mlp": ("gpt-neox", "gpt-neox-20b", [".mlp."]),
    "deepseek shared experts": ("deepseek-v3", "deepseek-v3", ["shared_experts"]),
    "deepseek latents": ("deepseek-v3", "deepseek-v3", ["kv_b_proj", "q_b_proj"]),
    "bert mlp": ("bert", "bert-base", ["intermediate", '"output.dense']),
    "t5 one of two": ("t5", "t5-base", ["DenseReluDense.wo"]),
    "equinox attention": ("equinox", "equinox-decoder", ["attention"]),
    "keras gates": ("keras-transformer", "keras-decoder", ["ffw_gating"]),
}


def model_path(name, folder):
    for path in (ROOT / "plans/models" / f"{name}.json", ROOT / "tests/plans/models" / f"{name}.json"):
        if path.exists():
            return path
    path = folder / f"{name}.json"
    path.write_bytes(lzma.decompress((ROOT / "tests/plans/models" / f"{name}.json.xz").read_bytes()))
    return path


def suggested(model, plan, *flags, status=0):
    """The field of the document. Also checks that patch(1) applies the printed diff, and that it equals the edits."""
    result = run("check", model, plan, "--suggest", "--format", "json", *flags)
    assert result.returncode == status, result.stdout.decode()
    document = json.loads(result.stdout)
    VALIDATOR.validate(document)
    made = document["suggestion"]
    shown = run("check", model, plan, "--suggest", "--quiet", *flags).stdout.decode()
    edited = plan.with_suffix(".edited.yaml")
    edited.write_bytes(plan.read_bytes())
    if made["rules"]:
        patch = shown[shown.index("\n--- ") + 1 : shown.index("\nchecked with these rules") + 1]
        done = subprocess.run(["patch", "-s", edited], input=patch.encode(), capture_output=True)
        assert done.returncode == 0, done.stdout
    else:
        assert "no rules to suggest" in shown
    lines = plan.read_text().split("\n")
    for edit in reversed(made["edits"]):
        assert (edit["line"], edit["column"]) == (edit["end_line"], edit["end_column"]), "only insertions"
        line = lines[edit["line"] - 1].encode()
        lines[edit["line"] - 1] = (
            line[: edit["column"] - 1] + edit["text"].encode() + line[edit["column"] - 1 :]
        ).decode()
    assert edited.read_text() == "\n".join(lines)
    return made, edited


@pytest.mark.parametrize("case", SHIPPED)
def test_removed_rules_are_suggested_and_shard_identically(case, tmp_path):
    plan_name, model_name, words = SHIPPED[case]
    model = model_path(model_name, tmp_path)
    whole = (ROOT / "plans" / f"{plan_name}.yaml").read_text()
    plan = tmp_path / "plan.yaml"
    plan.write_text("".join(f"{line}\n" for line in whole.splitlines() if not any(word in line for word in words)))
    ready = json.loads(run("compile", model, ROOT / "plans" / f"{plan_name}.yaml").stdout)
    lacks = run("check", model, plan).returncode
    made, edited = suggested(model, plan, status=lacks)
    assert made["rules"] and made["after"]["errors"] == 0
    assert made["after"]["warnings"] <= made["before"]["warnings"]
    manifest = json.loads(run("compile", model, edited).stdout)

    def cut(of):  # also the batch axis, in the Keras plan of the library
        return {p["path"]: p["spec"] for p in of["parameters"]}

    assert cut(manifest) == cut(ready)
    made, _ = suggested(model, edited)
    assert (made["rules"], made["left"]) == ([], [])


@pytest.mark.parametrize("name", sorted({(plan, model) for plan, model, _ in SHIPPED.values()}))
def test_library_plans_need_no_rules(name, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_bytes((ROOT / "plans" / f"{name[0]}.yaml").read_bytes())
    made, _ = suggested(model_path(name[1], tmp_path), plan)
    assert (made["rules"], made["edits"], made["left"]) == ([], [], [])


# Two layers, each with an MLP whose first half has a rule.
MODEL = linear_model(
    layers__0__mlp__w1=[1024, 512],
    layers__0__mlp__w2=[512, 1024],
    layers__1__mlp__w1=[1024, 512],
    layers__1__mlp__w2=[512, 1024],
)
NOTATIONS = {  # dialect and rules, and the lines below or before them
    "exact block": ('blocks:\n  "layers.*":\n    "mlp.w1": colwise', "", "layers.*", "mlp.w2", "rowwise"),
    "glob": ('tp_plan:\n  "*.w1": colwise', "", None, "*.w2", "rowwise"),
    "wide glob": ('tp_plan:\n    "layers.[01].mlp.w1":   colwise  # first', "", None, "layers.[01].mlp.w2", "rowwise"),
    "braces": ('tp_plan: {"layers.*.w1": colwise}', "", None, "layers.*.w2", "rowwise"),
    "a name with an axis": ('axis: dp\ntp_plan:\n  "*.w1": colwise', "dp", None, "*.w2", "rowwise"),
    "transformers": (
        'dialect: transformers\ntp_plan:\n  "layers.*.mlp.w1": colwise',
        "",
        None,
        "layers.*.mlp.w2",
        "rowwise",
    ),
    "torch": ('dialect: torch\ntp_plan:\n  "layers.*.mlp.w1": colwise', "", None, "layers.*.mlp.w2", "rowwise"),
    "regex": (
        "dialect: regex\ntp_plan:\n  'layers\\.\\d+\\.mlp\\.w1': colwise",
        "",
        None,
        "layers\\.\\d+\\.mlp\\.w2",
        "rowwise",
    ),
    "regex of numbers": (
        "dialect: regex\ntp_plan:\n  'layers\\.(0|1)\\.mlp\\.(w1)': colwise",
        "",
        None,
        "layers\\.(0|1)\\.mlp\\.w2",
        "rowwise",
    ),
    "keras": ('dialect: keras\ntp_plan:\n  "layers/\\\\d+/mlp/w1/weight": [tp, null]', "", None, None, "[null, tp]"),
    "parameters": ('tp_plan:\n  "*.w1.weight": {spec: [tp, null]}', "", None, "*.w2.weight", "{spec: [null, tp]}"),
    "a class of names": ('tp_plan:\n  "*.mlp.w[1]": colwise', "", None, "*.mlp.w2", "rowwise"),
}


@pytest.mark.parametrize("case", NOTATIONS)
def test_suggested_rule_uses_the_notation_of_its_neighbour(case, tmp_path):
    rules, axis, block, key, treatment = NOTATIONS[case]
    axes = f"{axis}: 4" if axis else "tp: 4"
    model, plan = write(tmp_path, MODEL, f"format: tpplan.plan/1\nmesh: {{{axes}}}\n{rules}\n")
    result = run("check", model, plan)
    made, edited = suggested(model, plan, status=result.returncode)
    assert made["left"] == []
    [rule] = made["rules"]
    assert rule.get("block") == block and rule["treatment"] == treatment
    assert key is None or rule["key"] == key
    assert (rule["parameters"], rule["bytes"]) == (2, 2 * 512 * 1024 * 4)
    manifest = json.loads(run("compile", model, edited).stdout)
    assert {p["path"]: p["local_shape"] for p in manifest["parameters"]} == {
        f"layers.{layer}.mlp.{name}.weight": shape
        for layer in (0, 1)
        for name, shape in (("w1", [256, 512]), ("w2", [512, 256]))
    }


def test_layers_without_a_rule_get_separate_keys(tmp_path):
    rules = '"*.w1": colwise\n  "layers.0.mlp.w2": rowwise'
    model, plan = write(tmp_path, MODEL, f"format: tpplan.plan/1\nmesh: {{tp: 4}}\ntp_plan:\n  {rules}\n")
    made, _ = suggested(model, plan)
    assert [(rule["key"], rule["treatment"]) for rule in made["rules"]] == [("layers.1.mlp.w2", "rowwise")]


def test_parameter_without_a_known_sharding_has_a_reason(tmp_path):
    odd = linear_model(mlp__w1=[1024, 512], mlp__w2=[512, 1024], other=[1001, 1003])
    model, plan = write(
        tmp_path, odd, 'format: tpplan.plan/1\nmesh: {tp: 4}\ntp_plan: {"*.w1": colwise, "*.w2": rowwise}\n'
    )
    made, _ = suggested(model, plan)
    assert made["rules"] == []
    [left] = made["left"]
    assert left["path"] == "other" and "TP5001" in left["reason"]
    shown = run("check", model, plan, "--suggest").stdout.decode()
    assert "no rules to suggest\nno known rule for `other`: " in shown


def test_plan_with_only_blocks_gets_the_tp_plan_key(tmp_path):
    plan = (
        'format: tpplan.plan/1\nmesh: {tp: 4}\nblocks:\n  "layers.*":\n    "mlp.w1": colwise\n    "mlp.w2": rowwise\n'
    )
    model = linear_model(
        **{"embed": [8, 8], "other": [1024, 1024], "layers__0__mlp__w1": [1024, 512], "layers__0__mlp__w2": [512, 1024]}
    )
    made, edited = suggested(*write(tmp_path, model, plan))
    assert [(rule["key"], rule["treatment"]) for rule in made["rules"]] == [("other", "colwise_gather_output")]
    assert "\ntp_plan:\n  # A single layer" in edited.read_text()


def test_last_line_may_lack_its_newline(tmp_path):
    model, plan = write(tmp_path, MODEL, 'format: tpplan.plan/1\nmesh: {tp: 4}\ntp_plan:\n  "*.w1": colwise')
    made, edited = suggested(model, plan)
    assert len(made["rules"]) == 1 and edited.read_text().endswith('\n  "*.w1": colwise\n  "*.w2": rowwise')


@pytest.mark.parametrize("format_name", ["jsonl", "sarif", "github", "gitlab", "markdown", "junit"])
def test_other_formats_reject_the_suggest_flag(format_name, tmp_path):
    files = write(tmp_path, MODEL, 'format: tpplan.plan/1\nmesh: {tp: 4}\ntp_plan: {"*.w1": colwise}\n')
    result = run("check", *files, "--suggest", "--format", format_name)
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"--suggest: format " in result.stderr


def test_unreadable_plan_prints_only_its_error(tmp_path):
    files = write(tmp_path, MODEL, 'format: tpplan.plan/1\nmesh: {tp: 4}\ntp_plan: {"*.w1": colwisse}\n')
    result = run("check", *files, "--suggest")
    assert result.returncode == 1 and b"no rules to suggest" not in result.stdout
