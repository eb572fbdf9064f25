"""The pages of `tpplan explain CODE`: one for each code, with examples that the tests execute.

The info string of a fenced block names its content: `yaml plan`, `json model`, `json manifest`, or `sh`, a script in which `tpplan` and
`tpplan-exec` are the programs. `console` shows errors that not every machine can produce (a lost rank, a failing disk); it is not
executed, and only pages of the executor use it. An example runs in a folder with model.json and plan.yaml: the defaults next to this file,
or the blocks of the page. Blocks missing in Right are those of Wrong. Plans of a page are fragments: warnings about missing neighbours
count only on the pages about them."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import EXECUTOR, NEIGHBOURS, PROGRAM, ROOT, run

HERE = pathlib.Path(__file__).resolve().parent
PAGES = ROOT / "lib" / "diagnostics" / "explain"
KINDS = ROOT / "lib" / "diagnostics" / "diagnostic_kinds.def"
ROW = re.compile(
    r'^TPPLAN_DIAGNOSTIC\((TP\d{4}), (\w+), (Error|Warning), (Content|Input|Limit), "([^"]*)"', re.MULTILINE
)
TABLE = KINDS.read_text(encoding="utf-8")
ROWS = {code: (severity.lower(), failure, title) for code, _, severity, failure, title in ROW.findall(TABLE)}
NAMES = {code: re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower() for code, name, *_ in ROW.findall(TABLE)}
FILES = {
    "yaml plan": "plan.yaml",
    "json model": "model.json",
    "json manifest": "manifest.json",
    "sh": "example.sh",
    "console": "shown.txt",
}
EXIT_STATUS = {"Content": 1, "Input": 2, "Limit": 3}

# Errors of other machines, users or processes, or a wrong program: tests/exec and tests/cli test their messages.
SHOWN = (
    "TP1012",
    "TP8005",
    "TP8006",
    "TP8007",
    "TP8009",
    "TP8010",
    "TP8011",
    "TP8013",
    "TP8015",
    "TP8017",
    "TP8028",
    "TP8029",
    "TP8041",
    "TP8061",
    "TP8062",
)

# Variables of a launcher that started these tests, which would turn an example into a rank.
LAUNCHERS = (
    "TPPLAN_EXEC",
    "SLURM_",
    "OMPI_",
    "PMI_",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_",
)

each_code = pytest.mark.parametrize("code", ROWS)


def page(code):
    return (PAGES / f"{code}.md").read_text(encoding="utf-8")


def section(text, name):
    """The blocks under `## name`: {file name: content}."""
    body = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL).group(1)
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
    return {FILES[role]: content for role, content in blocks}


def put(folder, blocks):
    for name, content in blocks.items():
        (folder / name).write_text(content, encoding="utf-8")


def run_example(folder, blocks, about):
    """Exit status and [(code, severity), ...] of one section; its other files are in `folder`."""
    put(folder, blocks)
    if "example.sh" in blocks:
        result = run_script(folder)
    elif "manifest.json" in blocks:
        result = run("show", "manifest.json", cwd=folder)
    else:
        result = run("compile", "model.json", "plan.yaml", cwd=folder)
    found = re.findall(r": (error|warning)\[(TP\d{4})\]: ", (result.stderr + result.stdout).decode())
    return result.returncode, [(code, severity) for severity, code in found if code == about or code not in NEIGHBOURS]


def run_script(folder):
    script = 'tpplan() { "$TPPLAN" "$@"; }\ntpplan-exec() { "$TPPLAN_EXEC" "$@"; }\n. ./example.sh'
    programs = {"TPPLAN": str(pathlib.Path(PROGRAM).resolve()), "TPPLAN_EXEC": str(pathlib.Path(EXECUTOR).resolve())}
    env = (
        {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        | programs
        | {"NO_COLOR": "1"}
    )
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, env=env, timeout=60)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.json").write_bytes((HERE / "default_model.json").read_bytes())
    (tmp_path / "plan.yaml").write_bytes((HERE / "default_plan.yaml").read_bytes())
    return tmp_path


def test_every_row_of_the_table_is_parsed():
    assert len(ROWS) == TABLE.count("\nTPPLAN_DIAGNOSTIC(")


def test_every_page_belongs_to_a_code():
    assert {path.name for path in PAGES.iterdir()} == {f"{code}.md" for code in ROWS}


@each_code
def test_explain_prints_the_page(code):
    for name in (code, code.lower(), NAMES[code]):
        result = run("explain", name)
        assert (result.returncode, result.stderr) == (0, b"")
        assert result.stdout.decode() == page(code)


@pytest.mark.parametrize("word, code", [("tp8022", "TP8022"), ("TP4001", "TP4001"), ("rank-late", "TP8008")])
def test_executor_prints_the_page_too(word, code):
    result = subprocess.run([EXECUTOR, "explain", word], capture_output=True, timeout=20)
    assert (result.returncode, result.stdout.decode(), result.stderr) == (0, page(code), b"")
    assert subprocess.run([EXECUTOR, "explain", "TP0000"], capture_output=True, timeout=20).returncode == 2


@pytest.mark.parametrize("name", ["TP0000", "TP9999", "TP400", "TP40011", "4001", "", "TP4001.md", "unmatched-rules"])
def test_explain_rejects_an_unknown_code(name):
    result = run("explain", name)
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"error" in result.stderr


@each_code
def test_title_matches_the_table(code):
    assert page(code).splitlines()[:2] == [f"# {code}: {ROWS[code][2]}", f"`{NAMES[code]}`"]


@each_code
def test_page_is_prose_then_wrong_then_right(code):
    text = page(code)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Wrong", "Right"]
    introduction = text.split("\n## Wrong\n")[0].split("\n", 1)[1]
    assert introduction.strip() and "```" not in introduction
    assert section(text, "Wrong") and section(text, "Right")


@each_code
def test_page_fits_a_terminal(code):
    lines = page(code).splitlines()
    assert len(lines) <= 48
    assert [line for line in lines if len(line) > 80 and "#stablehlo" not in line] == []  # a string has no breaks


@each_code
def test_page_of_a_warning_calls_it_a_warning(code):
    introduction = page(code).split("## Wrong")[0].lower()
    assert ("warning" in introduction) == (ROWS[code][0] == "warning")


def shows_only(code, name):
    return list(section(page(code), name)) == ["shown.txt"]


def test_console_pages_are_those_that_cannot_be_executed():
    assert tuple(code for code in ROWS if shows_only(code, "Wrong")) == SHOWN
    for code in SHOWN:
        assert re.findall(r"\b(?:error|warning)\[(TP\d{4})\]", section(page(code), "Wrong")["shown.txt"]) == [code]
        assert shows_only(code, "Right") and "error[" not in section(page(code), "Right")["shown.txt"]


each_run_code = pytest.mark.parametrize("code", [code for code in ROWS if code not in SHOWN])


@each_run_code
def test_wrong_example_has_exactly_this_diagnostic(code, folder):
    severity, failure, _ = ROWS[code]
    status, found = run_example(folder, section(page(code), "Wrong"), code)
    assert found == [(code, severity)]
    assert status == (EXIT_STATUS[failure] if severity == "error" else 0)


@each_run_code
def test_right_example_has_no_diagnostic(code, folder):
    put(folder, section(page(code), "Wrong"))
    status, found = run_example(folder, section(page(code), "Right"), code)
    assert (status, found) == (0, [])
