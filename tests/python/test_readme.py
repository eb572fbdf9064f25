"""The page of tools/python and the example of the front page: their code runs, and their flags exist."""

import ast
import importlib
import json
import re
import subprocess
import sys
import textwrap

import bridge
import pytest
from apart import run_apart
from bridge import ranks  # noqa: F401
from conftest import PROGRAM, ROOT

TEXT = (ROOT / "tools" / "python" / "README.md").read_text()
CODE = [textwrap.dedent(code) for code in re.findall(r"```python\n(.*?)```", TEXT, re.S)]
SHELL = [
    line.split("#")[0].strip() for block in re.findall(r"```sh\n(.*?)```", TEXT, re.S) for line in block.splitlines()
]
NEEDS = {"tpplan.torch": ["torch"], "tpplan.jax": ["jax"], "tpplan.keras": ["keras", "jax"]}
FRONT = (ROOT / "README.md").read_text()
(JOB,) = re.findall(r"```python\n(.*?)```", FRONT, re.S)
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 128,
}


def test_every_framework_has_its_page():
    assert len(CODE) == 10 and len(SHELL) >= 8


@pytest.mark.parametrize(
    "code",
    CODE,
    ids=[
        "torch",
        "saving",
        "serving",
        "going on",
        "jax plan",
        "jax",
        "jax functions",
        "shard_map",
        "keras plan",
        "keras",
    ],
)
def test_imports_of_the_page_exist(code, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")  # read at the import of Keras
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.ImportFrom) or not node.module.startswith("tpplan"):
            continue
        bridge.needs(*NEEDS[node.module])
        module = importlib.import_module(node.module)
        assert all(hasattr(module, name.name) for name in node.names), node.module


def test_flags_of_the_page_are_those_of_the_exporter():
    shown = set(re.findall(r"(--[a-z-]+)", " ".join(line for line in SHELL if "tpplan.export" in line)))
    text = subprocess.run([sys.executable, "-m", "tpplan.export", "--help"], capture_output=True, text=True).stdout
    assert shown and all(flag in text for flag in shown)


def test_transformers_commands_of_the_page_write_a_manifest(tmp_path):
    bridge.needs("torch", "transformers")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    steps = [line for line in SHELL if "--transformers config.json" in line or "--plan-from transformers" in line]
    assert len(steps) == 4  # with the operations of a decode step and of a training step
    checked = next(line for line in SHELL if "check decode.json" in line)
    for line in [*steps, "tpplan compile model.json plan.yaml -o manifest.json", checked]:
        words = line.split()
        words[0] = {"python": sys.executable, "tpplan": PROGRAM}[words[0]]
        result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "manifest.json").read_text())["mesh"] == [{"name": "tp", "size": 8}]


def run_the_front_page(rank, folder):
    """The example of the front page on two processes, and serving: logits and tokens match one process."""
    import os

    import torch
    import transformers

    os.chdir(folder)
    os.environ["TPPLAN"] = PROGRAM
    tokens = torch.arange(32).view(2, 16)
    code = JOB.replace('"cuda"', '"cpu"').replace("(8,)", "(2,)")
    exec(code, job := {"tokens": tokens})
    with torch.no_grad():
        plain = transformers.AutoModelForCausalLM.from_pretrained(folder)
        expected = plain(tokens).logits
        assert (job["logits"] - expected).abs().max() < 1e-5
        exec(next(code for code in CODE if "generate" in code), job)
        assert torch.equal(job["generated"], plain.generate(tokens, max_new_tokens=8, do_sample=False))
        assert job["model"](tokens).past_key_values.layers[0].keys.shape[1] == LLAMA["num_key_value_heads"] // 2


def test_example_of_the_front_page_runs(tmp_path, ranks):  # noqa: F811
    bridge.needs("torch", "transformers")
    from transformers import AutoConfig, AutoModelForCausalLM

    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path))
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    for words in (
        ["import", "--from", "config", "config.json", "-o", "model.json"],
        ["init", "model.json", "--mesh", "tp=2", "-o", "plan.yaml"],
        ["compile", "model.json", "plan.yaml", "-o", "manifest.json"],
    ):
        result = subprocess.run([PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    ranks.run(2, run_the_front_page, str(tmp_path))


PLAN = """
format: tpplan.plan/1
fsdp: {min_weight_size: 0}
data: {axes: [fsdp]}
tp_plan:
  embed: {style: rowwise, input_layouts: Replicate}
blocks:
  layers.*: {mlp.gate_proj: colwise, mlp.up_proj: colwise, mlp.down_proj: rowwise}
"""


def follow_the_page(rank, folder):
    """Two jobs: the first trains and saves, the second resumes. Four processes replace the page's eight devices."""
    import os

    import models
    import torch

    os.chdir(folder)
    os.environ["TPPLAN"] = PROGRAM
    train, torchs, ours = (next(c for c in CODE if word in c) for word in ("parallelize", "dcp", "load_states"))
    torch.manual_seed(rank)
    given = {
        "torch": torch,
        "make_model": lambda: models.Llama().double(),
        "batch": torch.arange(32).view(2, 2, 8) % 7,
        "tokens_in_the_whole_batch": 16,
        "cross_entropy": lambda x, y, reduction: torch.nn.functional.cross_entropy(
            x.flatten(0, 1), y.flatten(), reduction=reduction
        ),
    }
    train = train.replace('"cuda"', '"cpu"').replace("(2, 4)", "(2, 2)")
    train = train.replace("mesh)  # in place", "mesh, inputs={'tokens': batch[0]})  # in place")
    exec(train, first := dict(given))
    first["optimizer"].step()
    for saving in (torchs, ours):
        save, resume = saving.split("# ...")
        imports = "\n".join(line for line in save.splitlines() if "import" in line)
        exec(save.replace("step-1000", f"step-{len(save)}"), first)
        exec(train.split("tokens, targets")[0], second := dict(given))  # before it trains
        exec(imports + "\n#" + resume.replace("step-1000", f"step-{len(save)}"), second)
        for one, other in zip(first["model"].parameters(), second["model"].parameters()):
            assert torch.equal(one.to_local(), other.to_local())
            assert torch.equal(
                *(run["optimizer"].state[p]["exp_avg"].to_local() for run, p in ((first, one), (second, other)))
            )


def test_page_trains_saves_and_resumes(tmp_path, ranks):  # noqa: F811
    bridge.needs("torch")
    (tmp_path / "plan.yaml").write_text(PLAN)
    ranks.run(4, follow_the_page, str(tmp_path))


@pytest.mark.parametrize("framework", ["jax", "keras"])
def test_one_call_of_the_page_runs(tmp_path, framework, monkeypatch):
    bridge.needs("jax", "equinox", "flax", "optax", "keras")
    monkeypatch.setenv("TPPLAN", PROGRAM)
    code = next(code for code in CODE if f"tpplan.{framework}" in code)
    assert '"plan.yaml"' in code
    run_apart(f"{framework}_checks", "follow_the_page", tmp_path, code)


def test_functions_of_the_page_run(tmp_path, monkeypatch):
    bridge.needs("jax", "equinox", "flax", "optax")
    monkeypatch.setenv("TPPLAN", PROGRAM)
    run_apart("jax_checks", "follow_the_functions", tmp_path, next(code for code in CODE if "column_parallel" in code))
