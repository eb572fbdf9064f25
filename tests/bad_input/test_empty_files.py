"""The error for an empty file describes its kind, not always a model."""

import pytest
from conftest import run

KINDS = {
    "write a manifest": ["show", "empty.json"],
    "write a manifest, exported": ["export", "empty.json", "--to", "jax"],
    "start the model": ["check", "empty.json", "plan.yaml"],
    "give the config.json": ["import", "--from", "config", "empty.json"],
    "record a JAX program:": ["propagate", "empty.json"],
    "write an index": ["import", "--from", "safetensors", "empty.json"],
    "write a file of shardings": ["import", "--from", "jax", "empty.json"],
    "write a file of shardings, of torch": ["import", "--from", "torch", "empty.json"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_empty_file_error_matches_its_kind(kind, tmp_path):
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "plan.yaml").write_text("format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {}\n")
    result = run(*KINDS[kind], cwd=tmp_path)
    text = (result.stdout + result.stderr).decode()
    assert result.returncode == 2, text
    assert "empty.json:1:1: error[TP1008]: the file is empty" in text
    assert f"= help: {kind.split(',')[0]} " in " ".join(text.split()), text
