"""The page of tools/python: its code is Python, its names are there, its flags are the program's, and its first steps run."""

import ast
import importlib
import json
import re
import subprocess
import sys

import bridge
import pytest
from conftest import PROGRAM, ROOT

TEXT = (ROOT / "tools" / "python" / "README.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", TEXT, re.S)
SHELL = [
    line.split("#")[0].strip() for block in re.findall(r"```sh\n(.*?)```", TEXT, re.S) for line in block.splitlines()
]
NEEDS = {"tpplan.torch": ["torch"], "tpplan.jax": ["jax"], "tpplan.keras": ["keras", "jax"]}


def test_every_framework_has_its_page():
    assert len(CODE) == 3 and len(SHELL) >= 8


@pytest.mark.parametrize("code", CODE, ids=["torch", "jax", "keras"])
def test_what_the_code_imports_is_there(code, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")  # read when Keras is imported
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.ImportFrom) or not node.module.startswith("tpplan"):
            continue
        bridge.needs(*NEEDS[node.module])
        module = importlib.import_module(node.module)
        assert all(hasattr(module, name.name) for name in node.names), node.module


def test_the_flags_are_those_of_the_exporter():
    shown = set(re.findall(r"(--[a-z-]+)", " ".join(line for line in SHELL if "tpplan.export" in line)))
    text = subprocess.run([sys.executable, "-m", "tpplan.export", "--help"], capture_output=True, text=True).stdout
    assert shown and all(flag in text for flag in shown)


def test_a_transformers_config_becomes_a_manifest_as_the_page_says(tmp_path):
    bridge.needs("torch", "transformers")
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": 128,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    steps = [line for line in SHELL if "--transformers config.json" in line or "--plan-from transformers" in line]
    assert len(steps) == 3  # with the operations of a training step, too
    for line in [*steps, "tpplan compile model.json plan.yaml -o manifest.json"]:
        words = line.split()
        words[0] = {"python": sys.executable, "tpplan": PROGRAM}[words[0]]
        result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "manifest.json").read_text())["mesh"] == [{"name": "tp", "size": 8}]
