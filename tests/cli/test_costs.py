"""tpplan check --costs: the calls in the manifest, identical layers once, with totals by the formulas of nccl-tests."""

import collections
import json
import math
import os
import re

import jsonschema
import pytest
from conftest import ROOT, linear_model, on_terminal, plan_text, run, signed, write

LLAMA = ROOT / "plans/models/llama-3-8b.json"
SCHEMA = json.loads((ROOT / "schemas/diagnostics.schema.json").read_text())
DENSE = {f"model.layers.*.self_attn.{n}_proj": "colwise" for n in "qkv"} | {
    "model.layers.*.self_attn.o_proj": "rowwise", "model.layers.*.mlp.gate_proj": "colwise", "model.layers.*.mlp.up_proj": "colwise",
    "model.layers.*.mlp.down_proj": "rowwise", "model.embed_tokens": "embedding_rowwise", "lm_head": "colwise_gather_output",
}  # fmt: skip
MESH = "{tp: 8}"


def plan_file(folder, rules, mesh=MESH):
    (folder / "plan.yaml").write_text(plan_text(rules, mesh=mesh, dialect="transformers"))
    return folder / "plan.yaml"


def costs_of(model, plan, *flags):
    result = run("check", model, plan, "--costs", "--format", "json", *flags)
    document = json.loads(result.stdout)
    jsonschema.Draft7Validator(SCHEMA).validate(document)
    return document["costs"]


def calls_of(model, plan, *flags):
    result = run("compile", model, plan, *flags)
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)["collectives"]


def unfolded(text):
    """The paths of "a.{0..2, 5}.b": a.0.b, a.1.b, a.2.b, a.5.b."""
    found = re.search(r"\{([0-9., ]+)\}", text)
    if not found:
        return [text]
    numbers = []
    for part in found[1].split(", "):
        first, _, last = part.partition("..")
        numbers += range(int(first), int(last or first) + 1)
    return [text[: found.start()] + str(n) + rest for n in numbers for rest in unfolded(text[found.end() :])]


def rows_of(costs):
    """Every call of the groups."""
    found = collections.Counter()
    for group in costs["groups"]:
        layers = unfolded(group["layers"]) if "layers" in group else [""]
        assert len(layers) == group["count"]
        for row in group["rows"]:
            modules = [path for text in row["modules"] for path in unfolded(text)]
            assert row["calls"] % len(modules) == 0
            for layer in layers:
                for module in modules:
                    path = ".".join(part for part in (layer, module) if part)
                    found[
                        row["phase"], row["kind"], row["axis"], path, tuple(row["shape"]), row["dtype"], row["bytes"]
                    ] += row["calls"] // len(modules)
    return found


def moved(call, ranks):
    """Payload and bytes on the wire of a call: nccl-tests' doc/PERFORMANCE.md."""
    payload = call["bytes"] * (ranks if call["kind"] == "all_gather" else 1)
    return payload, math.floor(payload * (2 if call["kind"] == "all_reduce" else 1) * (ranks - 1) / ranks)


def test_implicit_calls_are_marked_hidden_in_all_lists(tmp_path):
    """DTensor gathers a sharded tensor inside of the chunk operation."""
    case = ROOT / "tests/golden/operations/torch-chunk-gathers-dtensor"
    model, plan = case / "model.json", case / "plan.yaml"
    manifest = tmp_path / "m.json"
    assert run("compile", model, plan, "--mode", "infer", "-o", manifest).returncode == 0
    calls = json.loads(manifest.read_text())["collectives"]
    assert [(call["kind"], call.get("hidden")) for call in calls] == [("all_gather", True), ("all_reduce", None)]
    costs = costs_of(model, plan, "--mode", "infer")
    rows = [
        (row["kind"], row.get("hidden"), row.get("operation")) for group in costs["groups"] for row in group["rows"]
    ]
    assert rows == [("all_gather", True, "chunk"), ("all_reduce", None, None)]
    assert costs["hidden"] == {"calls": 1, "payload": 64, "wire": 32}
    text = run("check", model, plan, "--costs", "--mode", "infer").stdout.decode()
    assert "1 of the 2 collectives of a step is hidden" in text and "64 B of 96 B" in text
    assert "fwd all_gather (hidden)  the model: chunk" in text and "hidden    1 call" in text
    assert (
        "hidden  all_gather over tp of [2, 4] float32 in the forward of `chunk`"
        in run("explain", model, plan, "").stdout.decode()
    )
    # An explicit call differs from a hidden one: without the mark in one manifest, diff reports one removed and one added call.
    bare = tmp_path / "bare.json"
    document = json.loads(manifest.read_text())
    assert [call.pop("hidden", None) for call in document["collectives"]] == [True, None]
    bare.write_text(json.dumps(signed(document)))
    changes = json.loads(run("diff", bare, manifest, "--format", "json").stdout)["calls"]
    assert [(c["before"], c["after"], c.get("hidden")) for c in changes] == [(0, 1, True), (1, 0, None)]
    assert ", hidden" in run("diff", bare, manifest).stdout.decode()
    assert "forward, hidden" in run("report", manifest).stdout.decode()


@pytest.mark.parametrize(
    "flags", [(), ("--mode", "infer"), ("--batch", "8", "--sequence", "512")], ids=["train", "infer", "resized"]
)
def test_cost_rows_match_the_manifest_and_the_formulas(tmp_path, flags):
    plan = plan_file(tmp_path, DENSE)
    calls, costs = calls_of(LLAMA, plan, *flags), costs_of(LLAMA, plan, *flags)
    key = ("phase", "kind", "axis", "module", "shape", "dtype", "bytes")
    expected = collections.Counter(tuple(tuple(c[k]) if k == "shape" else c[k] for k in key) for c in calls)
    assert expected and rows_of(costs) == expected
    for phase in ("forward", "backward", "total"):
        of_phase = [moved(c, 8) for c in calls if phase in ("total", c["phase"])]
        assert costs[phase] == {
            "calls": len(of_phase),
            "payload": sum(p for p, _ in of_phase),
            "wire": sum(w for _, w in of_phase),
        }
    assert sum(g["wire"] * g["count"] for g in costs["groups"]) == costs["total"]["wire"]
    assert (costs["batch"], costs["sequence"]) == ((8, 512) if "--batch" in flags else (2, 2048))


def test_verdict_and_costs_fit_one_screen(tmp_path):
    result = run("check", LLAMA, plan_file(tmp_path, DENSE), "--topology", ROOT / "plans/topologies/h100.yaml")
    lines = result.stdout.decode().splitlines()
    assert result.returncode == 0 and sum(math.ceil(len(line) / 80) for line in lines) <= 44
    assert max(map(len, lines[2:])) <= 80
    assert lines[0].startswith("LlamaForCausalLM on [tp=8]") and "model.layers.{0..31}, 32 layers, each" in lines
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("columns", [44, 60, 80, 200])
def test_narrow_terminal_puts_names_on_separate_lines(tmp_path, columns):
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CLICOLOR")} | {"TERM": "xterm"}
    text = on_terminal(columns, "check", LLAMA, plan_file(tmp_path, DENSE), "--costs", env=env)
    assert "\x1b[1mcollectives of a step" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    table = plain[plain.index("outside layers") :].splitlines()
    rows = [line for line in table if line.startswith((" fwd", " bwd"))]
    assert len(rows) == 7 and all(("[2, 2048" in row) == (columns >= 80) for row in rows)
    assert max(map(len, table)) <= columns
    assert sum("[2, 2048" in line for line in table) == 7


def test_costs_without_operations_have_a_reason_and_a_help(tmp_path):
    model, plan = write(
        tmp_path, linear_model(a=[8, 8]), plan_text({"a": "colwise_gather_output"}, dialect="transformers")
    )
    costs = costs_of(model, plan)
    assert costs["reason"] == "the model file has no operations" and "python -m tpplan.export" in costs["help"]
    text = run("check", model, plan, "--costs").stdout.decode()
    assert "no forecast of collectives: the model file has no operations" in text and "python -m tpplan.export" in text


def test_failing_step_has_no_forecast(tmp_path):
    plan = plan_file(tmp_path, DENSE | {"model.layers.*.self_attn.o_proj": "colwise"})
    assert costs_of(LLAMA, plan)["reason"] == "a step of this plan fails"
    (tmp_path / "plan.yaml").write_text("format: tpplan.plan/1\n")
    assert costs_of(LLAMA, plan)["reason"] == "an error was found before the operations were walked"


DATA = "data: {axes: [dp, fsdp]}\nfsdp: {axis: fsdp}\n"


def data_plan(folder, dialect):
    (folder / "plan.yaml").write_text(plan_text(DENSE, mesh="{dp: 2, fsdp: 2, tp: 2}", dialect=dialect) + DATA)
    return folder / "plan.yaml"


def test_data_axes_are_listed_if_the_runtime_uses_them(tmp_path):
    ours, theirs = costs_of(LLAMA, data_plan(tmp_path, "glob")), costs_of(LLAMA, data_plan(tmp_path, "transformers"))
    assert {axis for _, _, axis, *_ in rows_of(ours)} == {"dp", "fsdp", "tp"} and "unlisted" not in ours
    assert {axis for _, _, axis, *_ in rows_of(theirs)} == {"tp"} and theirs["unlisted"] == ["dp", "fsdp"]
    text = run("check", LLAMA, tmp_path / "plan.yaml", "--costs").stdout.decode()
    assert "not listed: calls over dp=2, fsdp=2, which the wrapper of the model makes (FSDP2, DDP)" in text
    assert "batch 2 on each data rank, sequence 2048" in text
    resized = costs_of(LLAMA, tmp_path / "plan.yaml", "--mesh", "dp=1,fsdp=1")
    assert "unlisted" not in resized


def test_show_prints_the_compiled_step(tmp_path):
    plan, manifest = data_plan(tmp_path, "transformers"), tmp_path / "manifest.json"
    assert run("compile", LLAMA, plan, "--batch", "4", "--sequence", "512", "-o", manifest).returncode == 0
    assert json.loads(manifest.read_text())["step"] == {"batch": 4, "sequence": 512, "unlisted": ["dp", "fsdp"]}
    shown = run("show", manifest).stdout.decode()
    assert "rank 0: batch 4 on each data rank, sequence 512" in shown and "not listed: calls over dp=2, fsdp=2" in shown
    assert run("report", manifest, "-o", tmp_path / "report.html").returncode == 0
    page = (tmp_path / "report.html").read_text()
    assert (
        "For a step with batch 4 on each rank of the data axes, sequence 512." in page
        and "Not listed: calls over dp=2, fsdp=2" in page
    )


def test_regather_note_when_plan_names_units(tmp_path):
    words, manifest = (
        "not listed: calls that gather `fsdp.units` again in the backward pass\n",
        tmp_path / "manifest.json",
    )
    for dialect, units, flags, is_said in (
        ("glob", ", units: [model.layers.*]", (), True),
        ("glob", "", (), False),
        ("glob", ", units: [model.layers.*]", ("--mesh", "fsdp=1"), False),
        ("transformers", ", units: [model.layers.*]", (), False),
    ):
        plan = data_plan(tmp_path, dialect)
        plan.write_text(plan.read_text().replace("fsdp: {axis: fsdp}", f"fsdp: {{axis: fsdp{units}}}"))
        assert (words in run("check", LLAMA, plan, "--costs", *flags).stdout.decode()) == is_said, (dialect, units)
        assert run("compile", LLAMA, plan, "-o", manifest, *flags).returncode == 0
        assert (words in run("show", manifest).stdout.decode()) == is_said, (dialect, units, flags)
        assert run("report", manifest, "-o", tmp_path / "report.html").returncode == 0
        assert ("gather `fsdp.units` again" in (tmp_path / "report.html").read_text()) == is_said


def test_other_formats_reject_the_costs_flag(tmp_path):
    result = run("check", LLAMA, plan_file(tmp_path, DENSE), "--costs", "--format", "sarif")
    assert result.returncode == 2 and b"--costs: format sarif cannot contain costs" in result.stderr


def test_costs_need_the_flag(tmp_path):
    plan = plan_file(tmp_path, DENSE)
    assert "costs" not in json.loads(run("check", LLAMA, plan, "--format", "json").stdout)
    assert b"collectives" not in run("check", LLAMA, plan).stdout


@pytest.mark.parametrize("recipe", ("none", "adamw", "adamw_mixed"))
def test_inference_memory_is_parameters_and_results(tmp_path, recipe):
    plan = plan_file(tmp_path, DENSE)
    memory = costs_of(LLAMA, plan, "--mode", "infer", "--recipe", recipe)["memory"]
    terms = {term["name"]: term["bytes"] for term in memory["terms"]}
    assert set(terms) == {"parameters", "buffers", "results"} and memory["total"] == sum(terms.values())
    suggested = run("suggest", LLAMA, plan, "--mode", "infer", "--recipe", recipe, "--format", "json", "--max-ranks", 8)
    (own,) = [mesh for mesh in json.loads(suggested.stdout)["meshes"] if mesh["own"]]
    assert own["memory_bytes"] == memory["total"]
    text = run("check", LLAMA, plan, "--costs", "--mode", "infer", "--recipe", recipe).stdout.decode()
    assert "temporary activations and caches are not counted" in text and "loss" not in text


# ---- the summary lists unchecked parts ----

UNCHECKED = "operations, gradients and collectives were not checked: "
RIGHT = plan_text({"a": "colwise", "b": "rowwise"})


def summary_of(model, plan, *flags):
    result = run("check", model, plan, *flags)
    assert result.returncode == 0, result.stdout.decode()
    return [line for line in result.stdout.decode().splitlines() if "not checked" in line]


def test_torch_plan_is_walked_with_nothing_unchecked(tmp_path):
    torch = tmp_path / "torch.yaml"
    torch.write_text(plan_text({key: style for key, style in DENSE.items() if ".mlp." in key}, dialect="torch"))
    assert summary_of(LLAMA, torch) == summary_of(LLAMA, torch, "--runtime", "tpplan") == []
    assert [call["kind"] for call in calls_of(LLAMA, torch) if call["phase"] == "forward"] == ["all_reduce"] * 32


def test_verdict_needs_checked_operations(tmp_path):
    plan = plan_file(tmp_path, DENSE)
    verdict = run("check", LLAMA, plan).stdout.decode().splitlines()[-1]
    assert re.fullmatch(r"no errors.*: forward and backward pass of \d+ operations were checked", verdict)
    verdict = run("check", LLAMA, plan, "--mode", "infer").stdout.decode().splitlines()[-1]
    assert re.fullmatch(r"no errors.*: forward pass of \d+ operations was checked", verdict)
    files = write(tmp_path, linear_model(a=[8, 8], b=[8, 8]), RIGHT)
    assert b"no errors" not in run("check", *files).stdout


def test_summary_without_operations_has_a_reason_and_a_help(tmp_path):
    (line,) = summary_of(*write(tmp_path, linear_model(a=[8, 8], b=[8, 8]), RIGHT))
    assert line.startswith(UNCHECKED + "the model file has no operations") and "python -m tpplan.export" in line
