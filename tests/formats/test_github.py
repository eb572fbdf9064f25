"""Workflow commands of GitHub: escaping, limits, and that no other output is a command."""

import re

import pytest

from conftest import linear_model, plan_text, write
from read_formats import check, check_text, commands, described, many_findings
from test_formats import CASES, HOSTILE_NAMES

ANNOTATIONS = ("error", "warning", "notice")


def lines_of(folder, model, plan, *flags):
    return check_text(folder, model, plan, *flags, format="github").stdout.decode().split("\n")[:-1]


def test_annotation_has_place_title_message_and_help(tmp_path):
    inputs = linear_model(m__wq=[8, 8]), plan_text({"wq": "colwise"})
    (finding,) = described(tmp_path, *inputs)
    (line,) = lines_of(tmp_path, *inputs)
    assert line == (
        f"::error file=plan.yaml,line=5,col=3,endColumn=7,title=TP4001%3A {finding['title']}::"
        f"{finding['message']} ({finding['label']})%0Ahelp: {finding['help']}"
    )


def test_limit_is_at_the_parameter_that_exceeds_it(tmp_path):
    model, plan, flags, *_ = CASES["a limit"]
    (line,) = lines_of(tmp_path, model, plan, *flags)
    assert re.match(
        r"::error file=model.json,line=1,col=\d+,endColumn=\d+,title=TP9001%3A resource limit::the total size of the model .*`w.weight`",
        line,
    )


def test_values_are_escaped_for_the_runner(tmp_path):
    name = "a%b:c,d\r\ne=f.yaml"
    write(tmp_path, linear_model(w=[8, 8]), "")
    (tmp_path / name).write_text(plan_text({"50%": "colwise"}))
    text = check("model.json", name, format="github", cwd=tmp_path).stdout.decode()
    assert text.startswith(
        "::error file=a%25b%3Ac%2Cd%0D%0Ae=f.yaml,line=5,col=3,endColumn=8,title=TP4001%3A rule matches nothing::rule `50%25` "
    )
    assert text.count("\n") == 1
    ((_, properties, message),) = commands(text)
    assert properties["file"] == name and message.startswith("rule `50%` ")


def test_leading_dot_is_dropped_for_annotations(tmp_path):
    write(tmp_path, linear_model(w=[8, 8]), plan_text({"nothing": "colwise"}))
    text = check("model.json", "././plan.yaml", format="github", cwd=tmp_path).stdout.decode()
    assert commands(text)[0][1]["file"] == "plan.yaml"


@pytest.mark.parametrize("character, written", [("\x1b", "\\x1b"), ("\u202e", "\\u202e"), ("\x07", "\\x07")])
def test_control_characters_in_file_names_are_escaped(tmp_path, character, written):
    name = f"a{character}[31m.yaml"
    write(tmp_path, linear_model(w=[8, 8]), "")
    (tmp_path / name).write_text(plan_text({"nothing": "colwise"}))
    text = check("model.json", name, format="github", cwd=tmp_path).stdout.decode()
    assert character not in text and commands(text)[0][1]["file"] == f"a{written}[31m.yaml"


@pytest.mark.parametrize("errors, warnings", [(10, 10), (11, 10), (10, 11), (25, 30), (0, 15), (40, 0)])
def test_annotation_limits_apply_and_the_rest_is_text(tmp_path, errors, warnings):
    lines = lines_of(tmp_path, *many_findings(errors, warnings))
    kinds = [command[0] for command in commands("\n".join(lines))]
    shown = ["error"] * min(errors, 10) + ["warning"] * min(warnings, 10)
    rest = errors + warnings - len(shown)
    unchecked = ["notice"] if errors == 0 else []  # the model has no operations
    assert kinds == shown + (["notice", "group", "endgroup"] if rest else []) + unchecked
    plain = [line for line in lines if not line.startswith("::")]
    assert len(plain) == rest
    assert sum(line.startswith("error[TP4001] plan.yaml:") for line in plain) == max(0, errors - 10)
    assert sum(line.startswith("warning[TP2004] model.json:") for line in plain) == max(0, warnings - 10)


def test_notice_counts_the_diagnostics_only_in_the_log(tmp_path):
    lines = lines_of(tmp_path, *many_findings(12, 11))
    (notice,) = [command for command in commands("\n".join(lines)) if command[0] == "notice"]
    assert notice == (
        "notice",
        {"title": "tpplan"},
        "and 2 errors, 1 warning more, in the log of this step: TP2004 x 1, TP4001 x 2",
    )
    assert "::group::2 errors, 1 warning more" in lines


def test_step_has_ten_annotations_of_a_kind_at_most(tmp_path):
    found = [command[0] for command in commands("\n".join(lines_of(tmp_path, *many_findings(3000, 45))))]
    assert all(found.count(kind) <= 10 for kind in ANNOTATIONS)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_in_the_log_are_no_commands(tmp_path, name):
    model, _ = many_findings(0, 0)
    write(tmp_path, model, "")
    keys = {f"{'::error::' if i % 2 else '##[error]'}{i}": "colwise" for i in range(15)}
    live = {path: "colwise" for path in ("w",)}
    (tmp_path / name).write_text(plan_text(live | keys))
    text = check("model.json", name, format="github", cwd=tmp_path).stdout.decode()
    lines = text.split("\n")[:-1]
    inside = lines[lines.index("::group::5 errors more") + 1 : lines.index("::endgroup::")]
    assert len(inside) == 5 and all(line.startswith("error[TP4001] ") and "##[" not in line for line in inside)
    assert all(re.match(r"::(error|notice|group|endgroup)", line) for line in lines if line not in inside)
