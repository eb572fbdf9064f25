"""Every command on a page runs and prints the output on the page.

TPPLAN_UPDATE_GOLDEN=1 in the environment writes the outputs and the table of styles: read the difference."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
from conftest import PROGRAM, ROOT, codes, linear_model, plan_text, run, write
from pages import excerpt, expected_status, pages, run_step, steps_of, write_shown

IS_UPDATE = os.environ.get("TPPLAN_UPDATE_GOLDEN") == "1"
FIRST_CHANGE = "lib/README.md"  # test_first_change.py runs its commands
PAGES = [page for page in pages() if page != FIRST_CHANGE and steps_of(page)]
FRONT = (ROOT / "README.md").read_text()
COMMAND_LINE = (ROOT / "tools/README.md").read_text()
PLANS = (ROOT / "plans/README.md").read_text()


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("plans", "tests", "schemas"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    return folder


def test_pages_show_commands():
    assert {"README.md", "tools/README.md", "tools/tpplan/README.md", "tools/tpplan-exec/README.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_print_the_shown_output(page, checkout):
    wrong, outputs = [], []
    for step in steps_of(page):
        status, lines = run_step(step, checkout)
        outputs.append(excerpt(step.shown, lines) if step.shown else [])
        if status != expected_status(step):
            wrong.append(f"$ {step.command}\nexit status {status}\n" + "\n".join(lines))
        elif not lines and "-o" not in step.command.split():
            wrong.append(f"$ {step.command}\nprints nothing")
        elif outputs[-1] != step.shown and not IS_UPDATE:
            wrong.append(f"$ {step.command}\n" + "\n".join(outputs[-1]))
    assert not wrong, "\n".join(wrong)
    assert {path.name for path in checkout.iterdir()} == {"plans", "tests", "schemas", "build"}, "left in the checkout"
    if IS_UPDATE:
        write_shown(page, outputs)


def test_shown_plan_is_valid(tmp_path):
    plan = re.search(r"```yaml\n(.*?)```", PLANS, re.S).group(1)
    (tmp_path / "plan.yaml").write_text(plan)
    (tmp_path / "model.json").write_text(
        '{"format": "tpplan.model/1", "name": "m", "framework": "torch", "modules": []}'
    )
    result = run("compile", tmp_path / "model.json", tmp_path / "plan.yaml", "--print", "plan")
    assert result.returncode == 0, result.stderr.decode()


def test_shown_settings_are_valid(tmp_path):
    settings = re.search(r"```yaml\n(strict: .*?)```", COMMAND_LINE, re.S).group(1)
    (tmp_path / ".tpplan.yaml").write_text(settings)
    model, plan = write(tmp_path, linear_model(wq=[16, 8], big=[4096, 4096]), plan_text({"wq": "colwise"}))
    result = run("check", model, plan, cwd=tmp_path)
    assert result.returncode == 1 and result.stdout.startswith(b"::error ") and b"TP5021" in result.stdout


def test_shown_suppression_is_valid(tmp_path):
    suppress = re.search(r"```yaml\n(suppress:.*?)```", COMMAND_LINE, re.S).group(1)
    model, plan = write(tmp_path, linear_model(a__wq=[16, 8]), plan_text({"*q": "colwise", "*.wq": "colwise"}))
    assert codes(run("check", model, plan)) == ["TP4004"]
    plan.write_text(plan.read_text() + suppress)
    assert codes(run("check", model, plan)) == []


def test_quickstart_commands_work(checkout):
    lines = re.findall(r"^say (build/tpplan .*)$", (ROOT / "tools" / "quickstart").read_text(), re.M)
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line.replace('"$manifest"', "build/llama-3-8b.manifest.json"))
        result = subprocess.run([PROGRAM, *words[1:]], cwd=checkout, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def test_tools_are_valid_bash_scripts():
    scripts = [
        path
        for folder in ("tools", "tools/scripts")
        for path in (ROOT / folder).iterdir()
        if path.is_file() and "bash" in path.read_text().split("\n")[0]
    ]
    assert {"quickstart", "test", "package", "get-tpplan"} <= {path.name for path in scripts}
    for path in scripts:
        assert path.stat().st_mode & 0o111
        assert subprocess.run([shutil.which("bash"), "-n", path]).returncode == 0


def test_ci_calls_the_test_command():
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert commands[-1] == "./tools/test --all" and "||" not in "".join(commands)
    assert "./tools/quickstart" in FRONT and "./tools/test" in (ROOT / "tests/README.md").read_text()


# ---- the table of styles ----

BEFORE_STYLES, STYLES, AFTER_STYLES = re.fullmatch(
    r"(.*\n\| style \|[^\n]*\n\|[-|]+\|\n)(.*?\n)(\n.*)", PLANS, re.S
).groups()


def explained(style):
    """{heading: text} of `tpplan explain STYLE`."""
    found, heading = {}, ""
    for line in run("explain", style).stdout.decode().splitlines()[1:]:
        if line.startswith(" " * 12):
            found[heading] += " " + line.strip()
        else:
            heading, found[heading] = line.split(None, 1)
    return found


def style_row(style):
    """The row of a style as `tpplan explain` describes it."""
    found = explained(style)
    cut = re.match(r"dim `\w+`", found["shards"])
    cells = [
        f"`{style}`",
        found["for"],
        (cut[0].removeprefix("dim ") if cut else "") + (", each segment" if "segments" in found["shards"] else ""),
        found["input"],
        found["output"],
        "yes" if "gradients" in found else "",
    ]
    return "| " + " | ".join("" if cell == "unchanged" else cell for cell in cells) + " |"


def find_all(node, key):
    if isinstance(node, dict):
        if key in node:
            yield node[key]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from find_all(item, key)


def test_table_of_styles_matches_explain():
    schema = json.loads((ROOT / "schemas" / "plan.schema.json").read_text())
    styles = sorted(max((place for place in find_all(schema, "enum") if "colwise" in place), key=len))
    rows = "".join(f"{style_row(style)}\n" for style in styles)
    if IS_UPDATE:
        (ROOT / "plans/README.md").write_text(BEFORE_STYLES + rows + AFTER_STYLES)
    else:
        assert STYLES == rows


# ---- the table of foreign words ----

WORD_ROW = re.compile(r"^\| (`[^|]*) \| [^|]* \| (.*) \|$", re.M)


def test_foreign_style_help_matches_the_table(tmp_path):
    """The program may have fewer words than the table, but it suggests no other style."""
    styles = {}
    for words, replacement in WORD_ROW.findall(PLANS.split("## Words of other frameworks")[1]):
        for word in re.findall(r"`([A-Z]\w+|\w+_parallel)`", words):
            styles.setdefault(word, set()).update(re.findall(r"`([a-z_]+)`", replacement))
    known = []
    for word in styles:
        result = run("check", *write(tmp_path, linear_model(wq=[16, 8]), plan_text({"wq": word})))
        hints = re.findall(r"did you mean `(\w+)`", result.stdout.decode())
        assert set(hints) <= styles[word], word
        known += hints
    assert len(known) >= 14
