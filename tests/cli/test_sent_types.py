"""Communication dtypes of boundaries (`forward_dtype`, `backward_dtype`) are the same in every command that prints a boundary or counts
its bytes."""

import json
import math

import pytest
from conftest import EXECUTOR, ROOT, run, run_program

MODEL = ROOT / "plans/models/llama-3-8b.json"
PLAN = """\
format: tpplan.plan/1
mesh: {tp: 2}
tp_plan:
  "model.layers.*.self_attn.[qkv]_proj": colwise
  "model.layers.*.self_attn.o_proj": rowwise
  "model.layers.*.mlp.gate_proj": colwise
  "model.layers.*.mlp.up_proj": %s
  "model.layers.*.mlp.down_proj": rowwise
  "lm_head": %s
  "model.embed_tokens": embedding_rowwise
"""
PLAIN = PLAN % ("colwise", "colwise_gather_output")
TYPED = PLAN % ("{style: colwise, backward_dtype: float32}", "{style: colwise_gather_output, forward_dtype: float32}")
BYTES = {"bfloat16": 2, "float32": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sent")
    for name, text in (("plain", PLAIN), ("typed", TYPED)):
        (folder / f"{name}.yaml").write_text(text)
        result = run("compile", MODEL, folder / f"{name}.yaml", "-o", folder / f"{name}.json")
        assert result.returncode == 0, result.stderr
    return folder


def output(*arguments, program=None):
    result = run_program(program, *arguments) if program else run(*arguments)
    text = result.stdout if isinstance(result.stdout, str) else result.stdout.decode()
    return text


def test_commands_print_the_dtypes_of_a_boundary(folder):
    changes = output("diff", folder / "plain.json", folder / "typed.json")
    assert "-> arg 0 [Replicate] to [Replicate], backward all_reduce over tp, backward in float32" in changes
    assert "backward slice dim -1 over tp, forward in float32, as a local tensor" in changes
    why = output("explain", MODEL, folder / "typed.yaml", "lm_head")
    assert "backward slice dim -1 over tp; forward in float32\n" in why
    assert "input 0: [Replicate] -> [Replicate]; backward all_reduce over tp\n" in why
    assert output("report", folder / "typed.json", "-o", folder / "typed.html") == ""
    page = (folder / "typed.html").read_text()
    assert page.count("Values are sent in") == page.count("Gradients are sent in") == 1
    order = output("run", folder / "typed.json", "--print", "schedule", program=EXECUTOR)
    assert "output lm_head x 1: float32[" in order
    assert "options   axis, optional, forward_dtype, backward_dtype\n" in output("explain", "colwise_gather_output")


def test_fmt_and_print_plan_preserve_dtypes(folder):
    assert run("fmt", folder / "typed.yaml").returncode == 0
    assert (folder / "typed.yaml").read_text() == TYPED
    read = output("compile", MODEL, folder / "typed.yaml", "--print", "plan")
    assert "rule model.layers.*.mlp.up_proj: colwise over tp backward_dtype=float32\n" in read


def test_all_byte_counts_use_the_communication_dtypes(folder):
    listed = json.loads((folder / "typed.json").read_text())["collectives"]
    plain = json.loads((folder / "plain.json").read_text())["collectives"]
    as_float = [c for c in listed if c["dtype"] == "float32"]
    assert sorted({(c["phase"], c["kind"], c["module"].rpartition(".")[2]) for c in as_float}) == [
        ("backward", "all_reduce", "up_proj"),
        ("forward", "all_gather", "lm_head"),
    ]
    assert len(as_float) == 33
    assert all(c["bytes"] == math.prod(c["shape"]) * BYTES[c["dtype"]] for c in listed)
    for one, other in zip(listed, plain, strict=True):
        differs = one["dtype"] == "float32"
        assert one["bytes"] == other["bytes"] * (2 if differs else 1)
        assert {**one, "dtype": "", "bytes": 0} == {**other, "dtype": "", "bytes": 0}
    costs = json.loads(output("check", MODEL, folder / "typed.yaml", "--costs", "--format", "json"))["costs"]
    counted = sum(row["bytes"] * row["calls"] * group["count"] for group in costs["groups"] for row in group["rows"])
    assert counted == sum(c["bytes"] for c in listed)
    shown = json.loads(output("diff", folder / "plain.json", folder / "typed.json", "--format", "json"))
    more = sum(call["bytes_after"] - call["bytes_before"] for call in shown["calls"])
    assert more == sum(c["bytes"] for c in listed) - sum(c["bytes"] for c in plain)
