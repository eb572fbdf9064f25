"""An empty file is answered with what a file of its kind is, not with what a model is."""

import pytest
from conftest import run

KINDS = {
    "a manifest": ["show", "empty.json"],
    "a manifest, exported": ["export", "empty.json", "--to", "jax"],
    "a model": ["check", "empty.json", "plan.yaml"],
    "a config": ["import", "--from", "config", "empty.json"],
    "an index of weights": ["import", "--from", "safetensors", "empty.json"],
    "a file of shardings": ["import", "--from", "jax", "empty.json"],
    "a file of shardings, of torch": ["import", "--from", "torch", "empty.json"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_file_is_answered_by_its_kind(kind, tmp_path):
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "plan.yaml").write_text("format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {}\n")
    result = run(*KINDS[kind], cwd=tmp_path)
    text = (result.stdout + result.stderr).decode()
    assert result.returncode == 2, text
    assert "empty.json:1:1: error[TP1008]: the file is empty" in text
    assert f"= help: {kind.split(',')[0]} " in " ".join(text.split()), text
