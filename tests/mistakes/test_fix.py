"""`tpplan check --fix`: the proposed edits remove their diagnostics; --diff shows the same edits and writes no file."""

import json

import pytest

from conftest import run
from project import KERAS_PLAN, PLAN, edited, write_project
from slips_matching import MATCHING
from slips_meaning import MEANING
from slips_syntax import SYNTAX
from slips_values import VALUES

PLANS = {"plan.yaml": ("model.json", PLAN), "keras.yaml": ("keras.json", KERAS_PLAN)}
MISTAKES = [*SYNTAX, *VALUES, *MATCHING, *MEANING]


def findings_of(folder, model):
    return json.loads(run("check", "--format", "json", model, "edited.yaml", cwd=folder).stdout)["diagnostics"]


def key(finding):
    return finding["code"], finding["message"], finding["place"]["line"], finding["place"]["column"]


def applied(text, edits):
    """The text after the edits: places are lines and columns in bytes."""
    data = text.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for edit in reversed(edits):
        begin = starts[edit["line"] - 1] + edit["column"] - 1
        end = starts[edit["end_line"] - 1] + edit["end_column"] - 1
        data = data[:begin] + edit["text"].encode() + data[end:]
    return data.decode()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name.replace(" ", "-"))
def test_proposed_edit_removes_its_diagnostic(mistake, tmp_path):
    write_project(tmp_path)
    model, plan = PLANS[mistake.file]
    text = edited(plan, mistake.edits)
    (tmp_path / "edited.yaml").write_bytes(text.encode())
    before = findings_of(tmp_path, model)
    for finding in before:
        for fix in finding.get("fixes", []):
            (tmp_path / "edited.yaml").write_bytes(applied(text, fix["edits"]).encode())
            assert key(finding) not in map(key, findings_of(tmp_path, model))


def test_fix_writes_the_diff_and_leaves_nothing_fixable(tmp_path):
    write_project(tmp_path)
    rules = {7: '  "model.layers.*.self_attn.q_proj":colwise', 8: '  "layers.*.self_attn.k_proj": colwsie'}
    (tmp_path / "plan.yaml").write_text(edited(PLAN, rules))
    wrong = (tmp_path / "plan.yaml").read_text()
    shown = run("check", "--diff", "model.json", "plan.yaml", cwd=tmp_path)
    assert shown.returncode == 2 and (tmp_path / "plan.yaml").read_text() == wrong
    fixed = run("check", "--fix", "model.json", "plan.yaml", cwd=tmp_path)
    assert fixed.returncode == 0 and (tmp_path / "plan.yaml").read_text() == PLAN
    diff = fixed.stdout.decode().split("LlamaForCausalLM")[0]
    assert shown.stdout.decode().startswith(diff) and diff.count('\n-  "') == 2 and diff.count('\n+  "') == 2


def test_duplicate_rule_is_removed_with_all_its_lines(tmp_path):
    write_project(tmp_path)
    again = '  "model.layers.*.self_attn.[qk]_proj":\n    style: colwise\n'
    (tmp_path / "plan.yaml").write_text(PLAN.replace("data:", again + "data:"))
    fixed = run("check", "--fix", "model.json", "plan.yaml", cwd=tmp_path)
    assert fixed.returncode == 0 and (tmp_path / "plan.yaml").read_text() == PLAN


def test_correct_plan_is_not_written(tmp_path):
    write_project(tmp_path)
    before = (tmp_path / "plan.yaml").stat().st_mtime_ns
    assert run("check", "--fix", "model.json", "plan.yaml", cwd=tmp_path).returncode == 0
    assert (tmp_path / "plan.yaml").stat().st_mtime_ns == before


def test_standard_input_cannot_be_fixed(tmp_path):
    write_project(tmp_path)
    result = run("check", "--fix", "model.json", "-", stdin=PLAN.encode(), cwd=tmp_path)
    assert result.returncode == 2 and b"as a file" in result.stderr
