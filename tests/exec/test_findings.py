"""--format: diagnostics of the executor as documents and lines of the same schema as those of `tpplan check`."""

import json

import jsonschema
import pytest
from executor import ROOT, execute, succeeds
from weights import compile_manifest, random_tensors, write_file

SCHEMA = json.loads((ROOT / "schemas/diagnostics.schema.json").read_text())
SHAPES = {"m.a": ("float32", (8, 6)), "m.b": ("bfloat16", (4, 4))}


@pytest.fixture
def manifest(tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES | {"more": ("int8", (1,))}))
    return compile_manifest(tmp_path, SHAPES, {"m.a": ["tp", None]}, {"tp": 2})


def document(result, status):
    assert result.returncode == status, result.stderr
    said = json.loads(result.stderr)
    jsonschema.validate(said, SCHEMA)
    listed = [finding["severity"] for finding in said["diagnostics"]]
    assert (said["errors"], said["warnings"]) == (listed.count("error"), listed.count("warning"))
    return said["diagnostics"]


def test_error_has_code_place_and_rank_and_step_as_note(manifest, tmp_path):
    arguments = ["load", manifest, "--weights", tmp_path / "w.safetensors", "--format", "json"]
    warning, fault = document(execute(*arguments, env={"TPPLAN_EXEC_FAULT": "rank=1,step=1,kind=throw"}), 1)
    assert warning["code"] == "TP8026" and warning["place"]["file"] == str(tmp_path / "w.safetensors")
    assert fault == {
        "code": "TP8014",
        "name": "injected-failure",
        "severity": "error",
        "title": "injected failure",
        "message": "TPPLAN_EXEC_FAULT requests this failure",
        "place": {"file": str(manifest), "line": 1, "column": 1, "end_column": 1},
        "count": 1,
        "notes": [{"text": "rank 1 failed at step 1 (checking free memory)", "place": None}],
        "help": "unset TPPLAN_EXEC_FAULT",
    } | {"title": fault["title"]}


def test_hanging_rank_is_in_the_json_document(manifest, tmp_path):
    arguments = ["load", manifest, "--weights", tmp_path / "w.safetensors", "--format", "json", "--deadline", 1]
    _, fault = document(execute(*arguments, env={"TPPLAN_EXEC_FAULT": "rank=1,step=2,kind=hang"}), 1)
    assert fault["code"] == "TP8008" and "rank 1, which is still at step 2" in fault["message"]


def test_file_diagnostics_have_lines_and_columns(manifest, tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"PK\x03\x04" + bytes(64))
    (finding,) = document(execute("load", manifest, "--weights", tmp_path / "w.safetensors", "--format", "json"), 2)
    assert finding["code"] == "TP6001" and finding["place"]["file"] == str(tmp_path / "w.safetensors")
    (tmp_path / "other.json").write_text(manifest.read_text().replace('"dp"', '"dq"').replace('"tp"', '"tq"', 1))
    found = document(
        execute("load", tmp_path / "other.json", "--weights", tmp_path / "w.safetensors", "--format", "json"), 1
    )
    assert found and all(f["code"].startswith("TP7") and f["place"]["line"] >= 1 for f in found)


def test_result_on_stdout_and_diagnostics_on_stderr(manifest, tmp_path):
    arguments = ["verify", manifest, "--weights", tmp_path / "w.safetensors", "--format", "json"]
    result = succeeds(*arguments, "--json")
    assert json.loads(result.stdout)["equal"]
    assert [f["code"] for f in document(result, 0)] == ["TP8026"]
    assert [f["code"] for f in document(succeeds(*arguments), 0)] == ["TP8026"]
    assert document(succeeds(*arguments, "--quiet"), 0) == []


def test_jsonl_lines_are_the_diagnostics_of_json(manifest, tmp_path):
    arguments = ["load", manifest, "--weights", tmp_path / "w.safetensors", "--staging", "1MB"]
    env = {"TPPLAN_EXEC_FAULT": "rank=0,step=1,kind=throw"}
    lines = [json.loads(line) for line in execute(*arguments, "--format", "jsonl", env=env).stderr.splitlines()]
    assert len(lines) == 2 and lines == document(execute(*arguments, "--format", "json", env=env), 1)


def test_unknown_format_is_a_usage_error(manifest, tmp_path):
    assert execute("load", manifest, "--weights", tmp_path, "--format", "xml").returncode == 2
