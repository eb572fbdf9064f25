"""Model names with YAML syntax: every fix that writes such a name writes it as one key, and nothing else."""

import json
import pathlib
import sys

import pytest

from conftest import ROOT, linear_model, plan_text, run, write
from test_fix import applied

sys.path.append(str(pathlib.Path(ROOT) / "tests" / "lsp"))
from client import Client, edited  # noqa: E402

EVIL = '": colwise\n  "evil": rowwise\nevil: {a: "b'
NAMES = [
    'a"b',
    "a'b",
    "a\\b",
    "a\\d'b",
    "a\nb",
    "a\r\nb",
    "a\tb",
    "a\x85b",
    "a\u2028b",
    "a\u2029b",
    "a\x1b[2Jb",
    "a\x7fb",
    "a\x00b",
    "a\U000e0041b",
    "a\ufeffb",
    "a\U0001f600b",
    "a: b",
    "a #b",
    "a, b",
    "{a}",
    "&a",
    "!a",
    "- a",
    "? a",
    "%a",
    "a`b",
    EVIL,
    EVIL.replace('"', "'"),
    "##[error]a",
    "null",
    "~",
]
NAMES += [f"\\w{name}" for name in NAMES[:14]]
each_name = pytest.mark.parametrize("name", NAMES, ids=lambda name: name.encode("unicode_escape").decode())


def quoted(text):
    """A text in double quotes of YAML."""
    text = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == " " else f"\\U{ord(c):08x}" for c in text)


def sections_of(folder, plan):
    """The plan as the program reads it: the lines of --print plan. Text that older rules for line breaks would split stays on one line."""
    assert not set(plan) & set("\x85\u2028\u2029\x1b\x7f\x00"), plan
    (folder / "read.yaml").write_bytes(plan.encode())
    result = run("compile", "model.json", "read.yaml", "--print", "plan", cwd=folder)
    assert result.stdout, (plan, result.stderr.decode())
    return [line for line in result.stdout.decode().split("\n") if line]


def fixed_texts(folder, plan):
    """The plan after the edits of each diagnostic, from JSON, and after --fix."""
    (folder / "plan.yaml").write_bytes(plan.encode())
    result = run("check", "--format", "json", "model.json", "plan.yaml", cwd=folder)
    found = json.loads(result.stdout)["diagnostics"]
    texts = [applied(plan, fix["edits"]) for finding in found for fix in finding.get("fixes", [])]
    run("check", "--fix", "model.json", "plan.yaml", cwd=folder)
    return texts, (folder / "plan.yaml").read_bytes().decode()


@each_name
@pytest.mark.parametrize("dialect", ["glob", "regex"])
def test_similar_name_is_written_as_one_key(tmp_path, name, dialect):
    """The misspelt part is next to the hostile one, which the hint copies from the model."""
    path = f"model.layers.0.{name}.q_proj"
    model = linear_model(**{f"model.layers.{i}.{name}.q_proj": [16, 8] for i in range(2)}, **{"model.head": [16, 8]})
    key = f"model.layers.0.{name}.q_poj" if dialect == "glob" else "model/layers/0/" + path.split(".", 3)[3]
    plan = plan_text({"model.head": "colwise"}, dialect=dialect) + f"  {quoted(key)}: colwise\n"
    write(tmp_path, model, plan)
    before = sections_of(tmp_path, plan)
    texts, fixed = fixed_texts(tmp_path, plan)
    assert texts or dialect != "glob" or not name[-1].isalnum() or "evil" in name, fixed
    for text in [*texts, fixed]:
        after = sections_of(tmp_path, text)
        assert len(after) == len(before)
        assert sum(a != b for a, b in zip(before, after)) <= 1 + name.count("\n"), (before, after)


@each_name
def test_similar_dim_name_is_written_as_one_name(tmp_path, name):
    model = linear_model(wq=[16, 8])
    weight = model["modules"][1]["parameters"]["weight"]
    weight["logical_axes"] = [f"{name}heads", "embed"]
    plan = "format: tpplan.plan/1\ndialect: logical\nmesh: {tp: 4}\ntp_plan:\n  - [embed, null]\n"
    plan += f"  - [{quoted(name + 'haeds')}, tp]\n"
    write(tmp_path, model, plan)
    for text in (lambda pair: [*pair[0], pair[1]])(fixed_texts(tmp_path, plan)):
        assert len(sections_of(tmp_path, text)) == len(sections_of(tmp_path, plan))


@each_name
def test_suggested_rules_are_written_as_one_key_each(tmp_path, name):
    shapes = {f"model.layers.{i}.{name}.{side}": [4096, 4096] for i in range(2) for side in ("up_proj", "down_proj")}
    shapes["model.layers.0.x.up_proj"] = [16, 16]
    model = linear_model(**shapes)
    plan = plan_text({"model.layers.*.x.up_proj": "colwise_gather_output"}, mesh="{tp: 2}")
    plan += 'suppress: [{code: TP4006, reason: "kept"}]\n'
    write(tmp_path, model, plan)
    before = sections_of(tmp_path, plan)
    result = run("check", "--format", "json", "--suggest", "model.json", "plan.yaml", cwd=tmp_path)
    suggestion = json.loads(result.stdout)["suggestion"]
    after = sections_of(tmp_path, applied(plan, suggestion["edits"]))
    assert [line for line in before if line not in after] == []
    rules = "\n".join(line for line in after if line not in before)
    assert rules.count("rule ") - rules.count("##[error]rule ") == len(suggestion["rules"])


@each_name
def test_first_plan_is_read_as_drafted(tmp_path, name):
    layers = ["self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj", name]
    shapes = {f"model.layers.{i}.{name}.{layer}": [4096, 4096] for i in range(2) for layer in layers}
    write(tmp_path, linear_model(**shapes, **{f"{name}.lm_head": [4096, 64]}), "")
    result = run("init", "model.json", "--mesh", "tp=2", "--no-schema", cwd=tmp_path)
    assert result.returncode in (0, 1), result
    if result.returncode == 0:
        sections_of(tmp_path, result.stdout.decode())
        checked = run("check", "model.json", "read.yaml", cwd=tmp_path)
        assert checked.returncode == 0, checked.stdout.decode()
    else:
        assert b"cannot be written" in result.stderr or b"can be cut" in result.stderr, result


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_completion_writes_a_name_as_one_key(tmp_path, quote):
    """Names that the quote cannot contain are omitted."""
    model = linear_model(**{f"model.layers.{i}.{name}.w{n}": [16, 8] for n, name in enumerate(NAMES) for i in range(2)})
    (tmp_path / "model.json").write_text(json.dumps(model))
    plan = plan_text({"head": "colwise"}) + f"  {quote}"
    with Client("--model", tmp_path / "model.json", cwd=tmp_path) as client:
        client.start()
        client.notify("initialized")
        client.open(tmp_path / "plan.yaml", plan)
        line = plan.count("\n")
        items = client.at("completion", tmp_path / "plan.yaml", line, len(quote) + 2)["items"]
    assert len(items) >= len(NAMES) // 2
    for item in items:
        text = plan + item["textEdit"]["newText"] + f"{quote}: rowwise\n"
        lines = sections_of(tmp_path, text)
        assert "".join(lines).count(": rowwise over tp") == 1, lines


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\x85b", "a\u2028b", "a\x1b[2Jb", EVIL])
def test_quick_fix_writes_a_name_as_one_key(tmp_path, name):
    key = quoted(f"layers.{name}.q_poj")
    plan = plan_text({"head": "colwise"}) + f"  {key}: colwise\n"
    write(tmp_path, linear_model(**{f"layers.{name}.q_proj": [16, 8], "head": [16, 8]}), plan)
    lines = sections_of(tmp_path, plan)
    with Client("--model", tmp_path / "model.json", cwd=tmp_path) as client:
        client.start()
        client.notify("initialized")
        found = client.open(tmp_path / "plan.yaml", plan)
        actions = [action for finding in found for action in client.actions(tmp_path / "plan.yaml", finding)]
    assert actions or name == EVIL
    for action in actions:
        (edits,) = action["edit"]["changes"].values()
        assert len(sections_of(tmp_path, edited(plan, edits))) == len(lines)
