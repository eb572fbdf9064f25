"""Every format has the same content: codes, severities, places, counts and order, with the same exit status."""

import json
import re

import pytest

from conftest import ROOT, linear_model, plan_text, run, write
from read_formats import FORMATS, at_line_start, check, check_text, in_property, many_findings, read, shown

each_format = pytest.mark.parametrize("format", FORMATS)
each_other_format = pytest.mark.parametrize("format", [f for f in FORMATS if f != "json"])
each_machine_format = pytest.mark.parametrize("format", [f for f in FORMATS if f != "human"])

LAYERS = linear_model(**{f"layers__{i}__w": [30, 8] for i in range(32)})

# name: model, plan, flags, exit status, findings
CASES = {
    "nothing wrong": (linear_model(w=[8, 8]), plan_text({"w": "colwise"}), [], 0, 0),
    "one cause in 32 layers": (LAYERS, plan_text({"layers.*.w": "colwise"}), [], 1, 1),
    "a warning": (linear_model(w=[8, 8]), plan_text({"w": "colwise"}, mesh="{dp: 2, tp: 4}"), [], 0, 1),
    "a warning made an error": (
        linear_model(w=[8, 8]),
        plan_text({"w": "colwise"}, mesh="{dp: 2, tp: 4}"),
        ["--strict"],
        1,
        1,
    ),
    "several errors and warnings": (*many_findings(3, 4), [], 1, 7),
    "a note elsewhere": (linear_model(w=[8, 8]), plan_text({"*": "colwise", "w*": "rowwise"}), [], 1, 1),
    "JSON cut short": ('{"format": "tpplan.model/1", "modules": [', plan_text({"w": "colwise"}), [], 2, 1),
    "an empty plan": (linear_model(w=[8, 8]), "", [], 2, 1),
    "a plan of something else": (linear_model(w=[8, 8]), "- 1\n- 2\n", [], 2, 1),
    "a limit": (linear_model(w=[2**60, 4]), plan_text({"w": "colwise"}), [], 3, 1),
    "text that is not ASCII": (
        linear_model(größe=[8, 8]),
        plan_text({"größe": "colwise", "寸法": "colwise"}),
        [],
        1,
        1,
    ),
}

HOSTILE_NAMES = [
    "two\nlines.yaml",
    "quote\"s'.yaml",
    "<script>&amp;]]>.yaml",
    "100%0A.yaml",
    "bell\x07\x1b[31m\x7f.yaml",
    "plän-計画.yaml",
    "a:b,c=d.yaml",
    "[link](target).yaml",
    "::error::x.yaml",
    "##[error]x.yaml",
    " spaces .yaml",
    "a#b?c.yaml",
    "line\u2028break\x85.yaml",
]


def expected(findings, format):
    """The diagnostics of the JSON format, reduced to the fields of another format."""
    if format == "github":
        findings = sorted(findings, key=lambda finding: finding.severity)
    if format == "gitlab":
        findings = [f._replace(column=None, file=f.file or "plan.yaml", line=f.line or 1) for f in findings]
    if format == "github":
        findings = [f._replace(file=f.file and in_property(f.file)) for f in findings]
    if format in ("human", "junit", "markdown"):
        said = (lambda name: at_line_start(shown(name))) if format == "human" else shown
        findings = [f._replace(file=f.file and said(f.file)) for f in findings]
    return findings


@each_other_format
@pytest.mark.parametrize("case", CASES)
def test_diagnostics_and_exit_status_match_json(tmp_path, case, format):
    model, plan, flags, status, count = CASES[case]
    reference = check_text(tmp_path, model, plan, *flags, format="json")
    result = check_text(tmp_path, model, plan, *flags, format=format)
    assert reference.returncode == result.returncode == status
    findings = read("json", reference.stdout)
    assert len(findings) == count
    if format in ("sarif", "github"):
        findings = [f._replace(column=column_in_code_points(tmp_path, f)) for f in findings]
    assert read(format, result.stdout) == expected(findings, format)


def column_in_code_points(folder, finding):
    if finding.file is None:
        return None
    lines = (folder / finding.file).read_bytes().split(b"\n")
    return 1 + len(lines[finding.line - 1][: finding.column - 1].decode())


@each_format
def test_count_is_preserved(tmp_path, format):
    model, plan, *_ = CASES["one cause in 32 layers"]
    (finding,) = read(format, check_text(tmp_path, model, plan, format=format).stdout)
    assert finding.count == 32


@pytest.mark.parametrize(
    "format", [name for name in FORMATS if name not in ("github", "markdown")]
)  # which have smaller limits
def test_diagnostics_of_a_code_beyond_500_are_counted(tmp_path, format):
    output = check_text(tmp_path, *many_findings(1507, 3), format=format).stdout
    found = read(format, output)
    assert sum(f.code == "TP4001" for f in found) == 500 and sum(f.code == "TP2004" for f in found) == 3
    text = output.decode()
    assert ("1007 more diagnostics of TP4001" in text) or ('"unlisted": 1007' in text)


@each_other_format
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_file_name_matches_json(tmp_path, name, format):
    write(tmp_path, linear_model(w=[8, 8]), "")
    (tmp_path / name).write_text(plan_text({"nothing": "colwise", "w": "colwise"}))
    findings = read("json", check("model.json", name, format="json", cwd=tmp_path).stdout)
    assert [(f.code, f.file, f.line) for f in findings] == [("TP4001", name, 5)]
    assert read(format, check("model.json", name, format=format, cwd=tmp_path).stdout) == expected(findings, format)


@each_format
def test_file_name_that_is_not_utf8_is_readable(tmp_path, format):
    result = run(
        "check",
        b"\xffmodel.json".decode(errors="surrogateescape"),
        "plan.yaml",
        "--format",
        format,
        "--color",
        "never",
        cwd=tmp_path,
    )
    assert result.returncode == 2
    text = result.stdout.decode(errors="replace" if format == "human" else "strict")
    assert [finding.code for finding in read(format, text.encode())] == ["TP1001", "TP1001"]


@each_other_format
@pytest.mark.parametrize(
    "key",
    [
        "two\nlines",
        "<b>&\"'",
        "100%0A%25",
        "bell\x07\x1b[31m",
        "::error::x",
        "##[error]x",
        "[a](http://b)",
        "]]>",
        "\u2028",
        "\ufffe",
        "{0} {{",
    ],
)
def test_hostile_key_matches_json(tmp_path, key, format):
    text = plan_text({}) + f"  {json.dumps(key)}: colwise\n  w: colwise\n"
    reference = check_text(tmp_path, linear_model(w=[8, 8]), text, format="json")
    findings = read("json", reference.stdout)
    assert [f.code for f in findings] == ["TP4001"]
    assert key in json.loads(reference.stdout)["diagnostics"][0]["message"]
    result = check_text(tmp_path, linear_model(w=[8, 8]), text, format=format)
    assert read(format, result.stdout) == expected(findings, format)
    assert not [c for c in result.stdout if c < 0x20 and c != 0x0A], "a control character reached the output"


@each_format
def test_unreadable_inputs_are_diagnostics(tmp_path, format):
    result = check("absent.json", ".", format=format, cwd=tmp_path)
    assert result.returncode == 2
    findings = read(format, result.stdout)
    assert [(f.code, f.severity, f.file, f.line) for f in findings] == [
        ("TP1001", "error", "absent.json", 1),
        ("TP1001", "error", ".", 1),
    ]


@each_machine_format
def test_machine_formats_are_empty_without_diagnostics(tmp_path, format):
    model, plan, *_ = CASES["nothing wrong"]
    result = check_text(tmp_path, model, plan, format=format)
    assert (result.returncode, read(format, result.stdout), result.stderr) == (0, [], b"")


def test_only_the_human_format_has_a_summary(tmp_path):
    model, plan, *_ = CASES["nothing wrong"]
    for format in FORMATS:
        loud = check_text(tmp_path, model, plan, format=format).stdout
        quiet = check_text(tmp_path, model, plan, "--quiet", format=format).stdout
        assert (loud != quiet) == (format == "human"), format
        assert (b"each rank holds" in loud) == (format == "human"), format


def test_human_is_the_default_format(tmp_path):
    model, plan, *_ = CASES["several errors and warnings"]
    write(tmp_path, model, plan)
    assert (
        run("check", "model.json", "plan.yaml", cwd=tmp_path).stdout
        == check("model.json", "plan.yaml", format="human", cwd=tmp_path).stdout
    )


def test_json_lines_are_the_objects_of_json(tmp_path):
    model, plan, *_ = CASES["several errors and warnings"]
    document = json.loads(check_text(tmp_path, model, plan, format="json").stdout)
    lines = check_text(tmp_path, model, plan, format="jsonl").stdout.decode().splitlines()
    assert [json.loads(line) for line in lines] == document["diagnostics"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    entries = [
        f'{{"path":"layers.{i}.w","type":"Linear","parameters":{{"weight":{{"shape":[30,8],"dtype":"float32"}}}}}}'
        for i in range(100_000)
    ]
    model = (
        '{"format":"tpplan.model/1","name":"Large","framework":"torch","modules":[\n{"path":"","type":"Model"},\n'
        + ",\n".join(entries)
        + "]}"
    )
    write(folder, model, plan_text({"layers.*.w": "colwise"}))
    return folder


@each_format
def test_one_bad_rule_on_100000_parameters_is_one_diagnostic(large, format):
    result = check("model.json", "plan.yaml", format=format, cwd=large)
    assert result.returncode == 1
    findings = read(format, result.stdout)
    assert [(f.code, f.file, f.line, f.count) for f in findings] == [("TP5001", "plan.yaml", 5, 100_000)]
    if format == "github":
        assert result.stdout.count(b"\n") == 1


@each_format
def test_standard_input_has_its_default_or_given_name(tmp_path, format):
    write(tmp_path, linear_model(w=[8, 8]), "")
    plan = plan_text({"nothing": "colwise"}).encode()
    for flags, name in (([], "<stdin>"), (["--stdin-filename", "deploy/plan.yaml"], "deploy/plan.yaml")):
        result = check("model.json", "-", *flags, format=format, cwd=tmp_path, stdin=plan)
        assert result.returncode == 1
        assert {f.file for f in read(format, result.stdout)} == {name}


def test_model_on_standard_input_can_be_named_too(tmp_path):
    write(tmp_path, "{}", plan_text({"w": "colwise"}))
    result = check("-", "plan.yaml", "--stdin-filename", "made.json", format="json", cwd=tmp_path, stdin=b"{}")
    assert {f.file for f in read("json", result.stdout)} == {"made.json"}


def test_unused_stdin_filename_is_a_usage_error(tmp_path):
    write(tmp_path, linear_model(w=[8, 8]), plan_text({"w": "colwise"}))
    result = check("model.json", "plan.yaml", "--stdin-filename", "x.yaml", format="json", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"--stdin-filename" in result.stderr


def test_unknown_format_error_lists_all_formats(tmp_path):
    result = check("model.json", "plan.yaml", format="sariff", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, b"")
    assert all(format in result.stderr.decode() for format in FORMATS)


def test_unknown_format_in_the_settings_lists_all_formats(tmp_path):
    write(tmp_path, linear_model(w=[8, 8]), plan_text({"w": "colwise"}))
    (tmp_path / ".tpplan.yaml").write_text("format: sariff\n")
    result = run("check", "model.json", "plan.yaml", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, b"")
    assert all(format in result.stderr.decode() for format in FORMATS)


def test_help_and_readme_list_the_tested_formats():
    help_text = run("check", "--help").stdout.decode()
    assert re.search(r"--format FORMAT:\{(.*?)\}", help_text).group(1).split(",") == list(FORMATS)
    readme = (ROOT / "tools/README.md").read_text(encoding="utf-8")
    table = re.search(r"^\| `--format` \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", readme, re.MULTILINE).group(1)
    assert re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines())) == list(FORMATS)
