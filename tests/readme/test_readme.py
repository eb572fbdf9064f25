"""Every command that the README shows runs, and its figures are the program's."""

import json
import re
import shlex
import shutil
import subprocess

import pytest
from conftest import EXECUTOR, PROGRAM, ROOT, codes, linear_model, plan_text, run, write

TEXT = (ROOT / "README.md").read_text()
COMMANDS = [
    line[2:]
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.S)
    for line in block.splitlines()
    if line.startswith("$ ")
]
STATUS = re.compile(r"# exit status (\d)")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("plans", "tests", "schemas"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    return folder


def test_the_readme_shows_commands():
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_readme_runs(command, checkout):
    expected = int(STATUS.search(command).group(1)) if STATUS.search(command) else 0
    words = shlex.split(command, comments=True)
    program = {"build/tpplan": PROGRAM, "build/tpplan-exec": EXECUTOR}[words[0]]
    result = subprocess.run([program, *words[1:]], cwd=checkout, capture_output=True, text=True)
    assert result.returncode == expected, result.stderr
    assert result.stdout or result.stderr or "-o" in words
    assert {path.name for path in checkout.iterdir()} == {"plans", "tests", "schemas", "build"}, "left in the checkout"


def test_the_shown_finding_is_what_the_program_prints(checkout):
    shown = re.search(r"```\n(plans/seeds.yaml:.*?)```", TEXT, re.S).group(1)
    result = run("check", "tests/plans/models/seeds.json", "plans/seeds.yaml", cwd=checkout)
    assert result.stdout.decode() == shown


def test_the_shown_finding_of_the_walk_is_what_the_program_prints(checkout):
    shown = re.search(r"```\n(tests/plans/wrong/.*?)```", TEXT, re.S).group(1)
    result = run("check", "plans/models/llama-3-8b.json", "tests/plans/wrong/output-colwise.yaml", cwd=checkout)
    assert result.stdout.decode() == shown


def test_the_shown_costs_are_what_the_program_prints(checkout):
    command, shown = re.search(
        r"\$ build/tpplan (check [^\n]* --costs [^\n]*)\n```\n\n```\n(.*?)```", TEXT, re.S
    ).groups()
    assert run(*shlex.split(command), cwd=checkout).stdout.decode() == shown


def test_the_shown_plan_is_a_plan(tmp_path):
    plan = re.search(r"```yaml\n(.*?)```", TEXT, re.S).group(1)
    (tmp_path / "plan.yaml").write_text(plan)
    (tmp_path / "model.json").write_text(
        '{"format": "tpplan.model/1", "name": "m", "framework": "torch", "modules": []}'
    )
    result = run("compile", tmp_path / "model.json", tmp_path / "plan.yaml", "--print", "plan")
    assert result.returncode == 0, result.stderr.decode()


def test_the_shown_settings_are_settings(tmp_path):
    settings = re.search(r"```yaml\n(strict: .*?)```", TEXT, re.S).group(1)
    (tmp_path / ".tpplan.yaml").write_text(settings)
    model, plan = write(tmp_path, linear_model(wq=[16, 8], big=[4096, 4096]), plan_text({"wq": "colwise"}))
    result = run("check", model, plan, cwd=tmp_path)
    assert result.returncode == 1 and result.stdout.startswith(b"::error ") and b"TP5021" in result.stdout


def test_the_shown_suppression_is_one(tmp_path):
    suppress = re.search(r"```yaml\n(suppress:.*?)```", TEXT, re.S).group(1)
    model, plan = write(tmp_path, linear_model(a__wq=[16, 8]), plan_text({"*q": "colwise", "*.wq": "colwise"}))
    assert codes(run("check", model, plan)) == ["TP4004"]
    plan.write_text(plan.read_text() + suppress)
    assert codes(run("check", model, plan)) == []


def test_quickstart_runs_commands_that_work(checkout):
    lines = re.findall(r"^say (build/tpplan .*)$", (ROOT / "tools" / "quickstart").read_text(), re.M)
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line.replace('"$manifest"', "build/llama-3-8b.manifest.json"))
        result = subprocess.run([PROGRAM, *words[1:]], cwd=checkout, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def test_the_tools_are_scripts_that_bash_accepts():
    scripts = [
        path for path in (ROOT / "tools").iterdir() if path.is_file() and "bash" in path.read_text().split("\n")[0]
    ]
    assert {"quickstart", "test", "package", "get-tpplan"} <= {path.name for path in scripts}
    for path in scripts:
        assert path.stat().st_mode & 0o111
        assert subprocess.run([shutil.which("bash"), "-n", path]).returncode == 0


def test_ci_calls_the_test_command():
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert commands[-1] == "./tools/test --all" and "||" not in "".join(commands)
    assert "./tools/test" in TEXT and "./tools/quickstart" in TEXT


# ---- the table of styles ----

STYLES = re.findall(
    r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", TEXT.split("## The styles")[1].split("\n## ")[0], re.M
)


def explained(style):
    """{heading: text} of `tpplan explain STYLE`."""
    said, heading = {}, ""
    for line in run("explain", style).stdout.decode().splitlines()[1:]:
        if line.startswith(" " * 12):
            said[heading] += " " + line.strip()
        else:
            heading, said[heading] = line.split(None, 1)
    return said


def test_the_table_of_styles_has_every_style_once():
    schema = json.loads((ROOT / "schemas" / "plan.schema.json").read_text())
    styles = max((place for place in find_all(schema, "enum") if "colwise" in place), key=len)
    assert sorted(name for name, *_ in STYLES) == sorted(styles)


def find_all(node, key):
    if isinstance(node, dict):
        if key in node:
            yield node[key]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from find_all(item, key)


@pytest.mark.parametrize("row", STYLES, ids=lambda row: row[0])
def test_the_table_of_styles_says_what_explain_does(row):
    name, stands_on, cuts, comes_in, goes_out = row
    said = explained(name)
    assert stands_on == said["for"]
    assert (comes_in or "left alone", goes_out or "left alone") == (said["input"], said["output"])
    assert re.findall(r"`(\w+)`", cuts) == re.findall(r"^dim `(\w+)`", said["cuts"])
    assert ("half by half" in cuts) == ("segments" in said["cuts"])
    assert ("sums its gradient" in cuts) == ("gradients" in said)
