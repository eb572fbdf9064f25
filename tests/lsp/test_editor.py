"""`tpplan lsp` in the role of an editor: diagnostics of the edited text, hover, completion and fixes."""

import json

import pytest
from client import Client, edited, uri_of
from conftest import ROOT, run

LLAMA = ROOT / "plans" / "models" / "llama-3-8b.json"
RULES = """\
  "model.embed_tokens": embedding_rowwise
  "lm_head": colwise_gather_output
blocks:
  "model.layers.*":
    "self_attn.[qkv]_proj": colwise
    "self_attn.o_proj": rowwise
    "mlp.up_proj": colwise
    "mlp.gate_proj": colwise
    "mlp.down_proj": rowwise
"""
PLAN = "format: tpplan.plan/1\nmesh: {tp: 8}\ntp_plan:\n" + RULES


@pytest.fixture
def project(tmp_path):
    """The path of a plan that the project's settings list with its model."""
    plan = tmp_path / "plans" / "mine.yaml"
    plan.parent.mkdir()
    plan.write_text(PLAN)
    (tmp_path / ".git").mkdir()
    (tmp_path / LLAMA.name).write_bytes(LLAMA.read_bytes())
    (tmp_path / ".tpplan.yaml").write_text(f"checks: [{{model: {LLAMA.name}, plan: plans/*.yaml}}]\n")
    return plan


@pytest.fixture
def editor(tmp_path):
    with Client(cwd=tmp_path) as client:
        client.start()
        client.notify("initialized")
        yield client


def line_of(text, words):
    return next(number for number, line in enumerate(text.split("\n")) if words in line)


def checked(plan):
    """The diagnostics of `tpplan check --format json`: (code, line and columns from 0)."""
    result = run("check", "--format", "json", LLAMA, plan)
    places = [(d["code"], d["place"]) for d in json.loads(result.stdout)["diagnostics"]]
    return [(code, at["line"] - 1, at["column"] - 1, at["end_column"] - 1) for code, at in places]


def told(findings):
    return [
        (d["code"], d["range"]["start"]["line"], d["range"]["start"]["character"], d["range"]["end"]["character"])
        for d in findings
    ]


def test_server_lists_its_capabilities(tmp_path):
    with Client(cwd=tmp_path) as client:
        said = client.start()
        assert said["capabilities"]["positionEncoding"] == "utf-16"
        assert said["capabilities"]["textDocumentSync"] == {"openClose": True, "change": 1, "save": True}
        assert said["serverInfo"]["name"] == "tpplan"
        assert run("--version").stdout.decode().split()[-1] == said["serverInfo"]["version"]
        assert client.end() == 0
        assert client.process.stderr.read() == b""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mlp.up_proj", "mlp.pu_proj"),
        ('"self_attn.o_proj": rowwise', '"self_attn.o_proj": colwise'),
        ("colwise_gather_output", "colwise_gather"),
        ("mesh: {tp: 8}", "mesh: {tp:8}"),
        ('    "mlp.gate_proj": colwise\n', ""),
        ("{tp: 8}", "{tp: 3}"),
    ],
)
def test_diagnostics_of_unsaved_text_match_check(editor, project, old, new, tmp_path):
    assert editor.open(project) == []
    wrong = PLAN.replace(old, new)
    findings = editor.change(project, wrong)
    assert project.read_text() == PLAN, "nothing is written"
    (tmp_path / "wrong.yaml").write_text(wrong)
    assert told(findings) == checked(tmp_path / "wrong.yaml") != []
    assert all(d["source"] == "tpplan" and d["severity"] in (1, 2) for d in findings)
    assert editor.change(project, PLAN, version=3) == []


def test_message_has_notes_and_help(editor, project):
    (found,) = editor.open(project, PLAN.replace("mlp.up_proj", "mlp.pu_proj"))[:1]
    assert found["message"].startswith("rule `mlp.pu_proj` matches nothing")
    assert "help: did you mean `mlp.up_proj`?" in found["message"].replace("\n", " ")


def test_project_settings_apply_in_the_editor(editor, project, tmp_path):
    wrong = PLAN + '    "nothing.*": {style: colwise, optional: true}\n    "mlp.up_proj*": colwise\n'
    before = editor.open(project, wrong)
    assert before and {d["severity"] for d in before} == {2}
    settings = tmp_path / ".tpplan.yaml"
    kept = settings.read_text()
    settings.write_text(kept + "strict: true\n")
    editor.notify("workspace/didChangeWatchedFiles", changes=[])
    assert {d["severity"] for d in editor.findings()} == {1}
    settings.write_text(kept + f"allow: [{before[0]['code']}]\n")
    editor.notify("textDocument/didSave", textDocument={"uri": uri_of(project)})
    assert editor.findings() == [d for d in before if d["code"] != before[0]["code"]]


def test_diagnostics_name_their_meshes_unless_all_agree(editor, project, tmp_path):
    settings = tmp_path / ".tpplan.yaml"
    settings.write_text(settings.read_text().replace("}]", ", mesh: [tp=8, tp=3]}]"))
    findings = editor.open(project)
    assert findings and all("note: reported with mesh tp=3" in d["message"] for d in findings)
    settings.write_text(settings.read_text().replace("tp=8, tp=3", "tp=3"))
    editor.notify("textDocument/didSave", textDocument={"uri": uri_of(project)})
    again = editor.findings()
    assert told(again) == told(findings) and not any("note: reported with mesh tp=3" in d["message"] for d in again)


def test_baseline_diagnostics_are_not_sent(editor, project, tmp_path):
    project.write_text(PLAN + '    "mlp.no_such": colwise\n')
    settings = tmp_path / ".tpplan.yaml"
    settings.write_text(settings.read_text() + "baseline: known.json\n")
    run("check", "--write-baseline", cwd=tmp_path)
    assert (tmp_path / "known.json").exists()
    assert editor.open(project) == []


def test_option_or_neighbouring_file_selects_the_model(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    (tmp_path / "model.json").symlink_to(LLAMA)
    with Client("--model", LLAMA, cwd=tmp_path) as client:
        client.start()
        assert client.open(plan) == []
    with Client(cwd=ROOT) as client:
        client.start(rootUri=uri_of(tmp_path), initializationOptions={"model": "model.json"})
        assert client.open(plan) == []
        assert [d["code"] for d in client.change(plan, PLAN.replace("o_proj", "x_proj"))][:1] == ["TP4001"]
    with Client(cwd=tmp_path) as client:
        client.start()
        (only,) = client.open(plan)
        assert only["severity"] == 3 and "only the plan's syntax is checked" in only["message"] and "code" not in only
        found = client.change(plan, PLAN.replace("colwise_gather_output", "colwise_gather"))
        assert [d.get("code") for d in found] == ["TP3005", None]


def test_broken_settings_file_is_reported_and_not_fatal(editor, project, tmp_path):
    (tmp_path / ".tpplan.yaml").write_text("checks: 8\n")
    (only,) = editor.open(project)
    assert only["severity"] == 3 and ".tpplan.yaml" in only["message"]


def test_unreadable_model_is_reported_at_the_plan_start(editor, project, tmp_path):
    (tmp_path / "broken.json").write_text('{"format": "tpplan.model/1",\n "name": }')
    (tmp_path / ".tpplan.yaml").write_text("checks: [{model: broken.json, plan: plans/mine.yaml}]\n")
    (found,) = editor.open(project)
    assert found["message"].startswith("broken.json:2:") and found["range"]["start"] == {"line": 0, "character": 0}


def test_other_documents_are_ignored(editor, tmp_path):
    other = tmp_path / "compose.yaml"
    assert editor.open(other, "services: [unclosed\n") == []
    assert editor.at("hover", other, 0, 2) is None
    assert editor.at("completion", other, 0, 2) is None


def test_closing_a_document_clears_its_diagnostics(editor, project):
    assert editor.open(project, "format: tpplan.plan/1\n")
    editor.notify("textDocument/didClose", textDocument={"uri": uri_of(project)})
    assert editor.findings() == []
    assert editor.at("hover", project, 0, 0) is None


def test_places_count_utf_16_units(editor, project):
    text = PLAN + '    # 𝄞é\n    "𝄞é.模": colwise  # 𝄞\n    "mlp.pu_proj": colwise\r\n    "𝄞": rowwise\n'
    findings = editor.open(project, text)
    places = {d["message"].split("`")[1]: d["range"] for d in findings if "`" in d["message"]}
    line = line_of(text, '"𝄞é.模"')
    assert places["𝄞é.模"]["start"] == {"line": line, "character": 4}
    assert places["𝄞é.模"]["end"] == {"line": line, "character": 4 + 2 + 2 + 1 + 1 + 1}
    assert places["𝄞"]["end"] == {"line": line + 2, "character": 4 + 4}


def test_hover_on_a_rule_lists_its_parameters(editor, project):
    editor.open(project)
    line = line_of(PLAN, "o_proj")
    said = editor.at("hover", project, line, 8)["contents"]
    assert said["kind"] == "markdown"
    assert "32 parameters" in said["value"]
    assert "[4096, 4096] bfloat16, [4096, 512] a rank" in said["value"]
    assert "{0..31}" in said["value"].replace("&#123;", "{").replace("&#125;", "}").replace("&#46;", ".")
    qkv = editor.at("hover", project, line_of(PLAN, "[qkv]"), 8)["contents"]["value"]
    assert "96 parameters" in qkv and "[512, 4096] a rank" in qkv and "[128, 4096] a rank" in qkv


def test_hover_explains_styles_and_codes(editor, project):
    text = PLAN + 'suppress:\n  - {code: TP4006, reason: "small"}\n'
    editor.open(project, text)
    style = editor.at("hover", project, line_of(text, "o_proj"), 26)["contents"]["value"]
    assert style == "```\n" + run("explain", "rowwise").stdout.decode() + "```\n"
    page = editor.at("hover", project, line_of(text, "TP4006"), 14)["contents"]["value"]
    assert page == run("explain", "TP4006", "--color", "never").stdout.decode()
    assert editor.at("hover", project, 0, 0) is None


def test_hover_works_while_the_yaml_is_broken(editor, project):
    editor.open(project, PLAN + '    "mlp')
    assert "rowwise" in editor.at("hover", project, line_of(PLAN, "o_proj"), 26)["contents"]["value"]


def labels(editor, path, line, character):
    return [item["label"] for item in editor.at("completion", path, line, character)["items"]]


def completed(editor, path, text, words):
    """The labels at `|`, and the text with the first item that contains these words."""
    line = line_of(text, "|")
    character = text.split("\n")[line].index("|")
    text = text.replace("|", "")
    editor.open(path, text)
    items = editor.at("completion", path, line, character)["items"]
    chosen = next((item for item in items if item["label"] == words), None)
    return [item["label"] for item in items], edited(text, [chosen["textEdit"]]) if chosen else None


HEAD = "format: tpplan.plan/1\nmesh: {tp: 8}\n"


@pytest.mark.parametrize(
    ("text", "chosen", "line"),
    [
        ("tp_plan:\n  |", "model.layers.*.mlp.up_proj", '  "model.layers.*.mlp.up_proj"'),
        ("tp_plan:\n  lm_|", "lm_head", '  "lm_head"'),
        (
            'tp_plan:\n  "lm_head": colwise\n  "model.layers.*.s|',
            "model.layers.*.self_attn.q_proj.weight",
            '  "model.layers.*.self_attn.q_proj.weight',
        ),
        ('blocks:\n  "model.layers.*":\n    "mlp.|', "mlp.down_proj", '    "mlp.down_proj'),
        ("blocks:\n  |", "model.layers.*", '  "model.layers.*"'),
        ('tp_plan:\n  "lm_head": |', "colwise_gather_output", '  "lm_head": colwise_gather_output'),
        ('tp_plan:\n  "lm_head": col|', "colwise", '  "lm_head": colwise'),
        ('tp_plan:\n  "lm_head": {style: |}', "rowwise", '  "lm_head": {style: rowwise}'),
        ('tp_plan:\n  "lm_head":\n    style: r|', "rowwise", "    style: rowwise"),
        ("dialect: regex\ntp_plan:\n  |", r"model\.layers\.\d+\.mlp\.up_proj", r"  'model\.layers\.\d+\.mlp\.up_proj'"),
        ('dialect: regex\ntp_plan:\n  "m|', r"model\.norm", r'  "model\\.norm'),
        ("dialect: torch\ntp_plan:\n  model.n|", "model.norm", '  "model.norm"'),
    ],
)
def test_completion_writes_paths_and_styles(editor, project, text, chosen, line):
    _, written = completed(editor, project, HEAD + text, chosen)
    assert written.split("\n")[-1] == line


@pytest.mark.parametrize(
    "text",
    ["|", "mesh: {tp: |", "tp_plan:\n  # |", 'tp_plan:\n  "lm_head": {axis: |', "remat:\n  - |", 'tp_plan:\n  "a" |'],
)
def test_completion_is_empty_at_other_places(editor, project, text):
    assert completed(editor, project, "format: tpplan.plan/1\n" + text, "")[0] == []


def test_completion_depends_on_the_dialect(editor, project):
    styles, _ = completed(editor, project, HEAD + 'dialect: torch\ntp_plan:\n  "lm_head": |', "")
    assert "prepare_module_input" in styles and "packed_colwise" not in styles
    keys, _ = completed(editor, project, HEAD + "dialect: torch\ntp_plan:\n  |", "")
    assert "lm_head" in keys and "lm_head.weight" not in keys


def test_completed_path_has_its_type_and_count(editor, project):
    editor.open(project, HEAD + "tp_plan:\n  ")
    items = {item["label"]: item for item in editor.at("completion", project, 3, 2)["items"]}
    item = items["model.layers.*.mlp.up_proj"]
    assert item["detail"] == "32 x Linear" and "model.layers.{0..31}.mlp.up_proj" in item["documentation"]["value"]
    assert items["lm_head.weight"]["detail"] == "[128256, 4096]"


def test_quick_fix_removes_its_diagnostic(editor, project):
    wrong = PLAN.replace("mlp.up_proj", "mlp.pu_proj")
    findings = editor.open(project, wrong)
    (found,) = [d for d in findings if d["code"] == "TP4001"]
    (action,) = editor.actions(project, found)[:1]
    assert action["kind"] == "quickfix" and "mlp.up_proj" in action["title"]
    assert action["diagnostics"] == [found]
    mended = edited(wrong, action["edit"]["changes"][uri_of(project)])
    assert editor.change(project, mended) == []


@pytest.mark.parametrize(
    "right, wrong",
    [
        ('"self_attn.o_proj": rowwise', '"self_attn.o_proj": colwise'),
        ('"mlp.down_proj": rowwise', '"mlp.down_proj": colwise'),
        ('"lm_head": colwise_gather_output', '"lm_head": colwise_gather_output\n  "model.norm": sequence_parallel'),
    ],
)
def test_fix_for_the_operations_is_offered_at_the_error(editor, project, right, wrong):
    text = PLAN.replace(right, wrong)
    findings = editor.open(project, text)
    found = next(d for d in findings if d["code"] >= "TP5100")
    (action,) = editor.actions(project, found)
    assert "this change alone fixes the plan" in action["title"] and action["diagnostics"] == [found]
    mended = edited(text, action["edit"]["changes"][uri_of(project)])
    assert editor.change(project, mended) == []


def test_missing_rules_are_offered(editor, project):
    wrong = PLAN.replace('    "mlp.gate_proj": colwise\n', "")
    findings = editor.open(project, wrong)
    (found,) = [d for d in findings if d["code"] == "TP4006"]
    (action,) = [action for action in editor.actions(project, found) if "without one" in action["title"]]
    assert editor.change(project, edited(wrong, action["edit"]["changes"][uri_of(project)])) == []


def test_correct_plan_has_no_actions(editor, project):
    editor.open(project)
    whole = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}}
    assert editor.actions(project, whole) == []


def test_incremental_change_is_applied_at_its_range(editor, project):
    editor.open(project)
    line = line_of(PLAN, "up_proj")
    part = {"start": {"line": line, "character": 9}, "end": {"line": line, "character": 11}}
    document = {"uri": uri_of(project), "version": 2}
    editor.notify("textDocument/didChange", textDocument=document, contentChanges=[{"range": part, "text": "pu"}])
    assert told(editor.findings()) and "mlp.pu_proj" in editor.told[uri_of(project)][0]["message"]


def test_fast_typing_reports_only_the_last_text(editor, project):
    editor.open(project)
    messages = []
    for version, text in enumerate([PLAN + "x", PLAN + "xy", PLAN], 2):
        params = {"textDocument": {"uri": uri_of(project), "version": version}, "contentChanges": [{"text": text}]}
        body = json.dumps({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": params}).encode()
        messages.append(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    editor.write(b"".join(messages))
    message = editor.read()
    assert (message["params"]["version"], message["params"]["diagnostics"]) == (4, [])


def test_path_with_blanks_and_unicode_is_found(tmp_path):
    plan = tmp_path / "a b %20é" / "plan.yaml"
    plan.parent.mkdir()
    (plan.parent / LLAMA.name).write_bytes(LLAMA.read_bytes())
    (plan.parent / ".tpplan.yaml").write_text(f"checks: [{{model: {LLAMA.name}, plan: plan.yaml}}]\n")
    with Client(cwd=ROOT) as client:
        client.start()
        assert client.open(plan, PLAN) == []
