"""Precedence: flag, environment variable, .tpplan.yaml, for every variable of both programs, and codes that are both denied and
allowed."""

import json
import os
import subprocess

import pytest
from conftest import EXECUTOR, codes, linear_model, plan_text, run, write
from test_settings import project  # noqa: F401


def check(project, *flags, env=None, command="check"):
    return run(command, project / "model.json", project / "plan.yaml", *flags, cwd=project, env=env)


def status(result):
    return result.returncode


def is_colored(result):
    return b"\x1b[" in result.stdout


def is_quiet(result):
    return b"each rank" not in result.stdout


# variable, its value, a flag with another value, a line of the file with another value; the observed setting, and its value with the
# variable; with the flag; with the file only
TABLE = [
    ("TPPLAN_STRICT", "1", ["--strict=false"], "strict: false", status, 1, 0, 0),
    ("TPPLAN_STRICT", "0", ["--strict"], "strict: true", status, 0, 1, 1),
    ("TPPLAN_DENY", "TP4004", ["--deny", "TP4006"], "deny: [TP4006]", status, 1, 0, 0),
    ("TPPLAN_ALLOW", "TP4004", ["--allow", "TP4006"], "allow: [TP4006]", codes, [], ["TP4004"], ["TP4004"]),
    ("TPPLAN_FORMAT", "json", ["--format", "human"], "format: human", lambda r: r.stdout[:1], b"{", b"/", b"/"),
    ("TPPLAN_COLOR", "always", ["--color", "never"], "color: never", is_colored, True, False, False),
    ("TPPLAN_QUIET", "1", ["--quiet=false"], "quiet: false", is_quiet, True, False, False),
    ("TPPLAN_QUIET", "0", ["--quiet"], "quiet: true", is_quiet, False, True, True),
]


@pytest.mark.parametrize(
    ("variable", "value", "flag", "line", "seen", "by_variable", "by_flag", "by_file"),
    TABLE,
    ids=[f"{row[0]}={row[1]}" for row in TABLE],
)
def test_precedence_is_flag_variable_file(project, variable, value, flag, line, seen, by_variable, by_flag, by_file):
    (project / ".tpplan.yaml").write_text(line)
    assert seen(check(project)) == by_file
    assert seen(check(project, env={variable: value})) == by_variable
    assert seen(check(project, *flag, env={variable: value})) == by_flag


def test_flag_share_takes_precedence_over_the_variable(project):
    write(project, linear_model(wq=[16, 8], big=[512, 64]), plan_text({"wq": "colwise"}))
    assert check(project, env={"TPPLAN_MAX_REPLICATED": "5%"}).returncode == 1
    assert check(project, "--max-replicated", "100%", env={"TPPLAN_MAX_REPLICATED": "5%"}).returncode == 0


def test_config_flag_takes_precedence_over_the_variable(project):
    (project / "strict.yaml").write_text("strict: true")
    (project / "mild.yaml").write_text("strict: false")
    assert check(project, env={"TPPLAN_CONFIG": "strict.yaml"}).returncode == 1
    assert check(project, "--config", "mild.yaml", env={"TPPLAN_CONFIG": "strict.yaml"}).returncode == 0


def test_variable_affects_only_commands_with_its_option(project):
    (project / "manifest.json").write_bytes(check(project, command="compile").stdout)
    shown = run(
        "show",
        project / "manifest.json",
        "--format",
        "human",
        env={"TPPLAN_FORMAT": "nonsense", "TPPLAN_STRICT": "nonsense"},
    )
    assert shown.returncode == 0 and shown.stdout.startswith(b"Test on")


def executor(*words, env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TPPLAN_")}
    return subprocess.run([EXECUTOR, *map(str, words)], capture_output=True, text=True, timeout=60, env=clean | env)


@pytest.mark.parametrize(
    ("command", "variable", "value", "flag"),
    [
        ("run", "TPPLAN_EXEC_BACKEND", "mpi", ["--backend", "local"]),
        ("run", "TPPLAN_EXEC_DEVICE", "cuda", ["--device", "cpu"]),
        ("init", "TPPLAN_EXEC_BACKEND", "mpi", ["--backend", "local"]),
        ("init", "TPPLAN_EXEC_DEVICE", "cuda", ["--device", "cpu"]),
    ],
)
def test_executor_flag_takes_precedence_over_its_variable(project, command, variable, value, flag):
    (project / "manifest.json").write_bytes(check(project, command="compile").stdout)
    words = [
        command,
        project / "manifest.json",
        *(["--seed", 1] if command == "init" else ["--iterations", 1, "--json"]),
    ]
    assert executor(*words, env={variable: value}).stdout.find('"backend": "local", "device": "cpu"') < 0
    won = executor(*words, *flag, env={variable: value})
    assert won.returncode == 0, won.stderr
    if command == "run":
        assert (json.loads(won.stdout)["backend"], json.loads(won.stdout)["device"]) == ("local", "cpu")


@pytest.mark.parametrize(("variable", "value"), [("TPPLAN_EXEC_BACKEND", "smoke"), ("TPPLAN_EXEC_DEVICE", "tpu")])
def test_wrong_executor_variable_is_named(project, variable, value):
    result = executor("run", project / "manifest.json", env={variable: value})
    assert result.returncode == 2 and f"{variable}={value}: " in result.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TPPLAN_STRICT", "perhaps"),
        ("TPPLAN_QUIET", "perhaps"),
        ("TPPLAN_DENY", "TP9999"),
        ("TPPLAN_ALLOW", "TP9999"),
        ("TPPLAN_MAX_REPLICATED", "5"),
        ("TPPLAN_FORMAT", "yaml"),
        ("TPPLAN_COLOR", "blue"),
    ],
)
def test_wrong_variable_is_named(project, variable, value):
    result = check(project, env={variable: value})
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.startswith(f"tpplan: error: {variable}={value}: ".encode())
    assert b"--" not in result.stderr.splitlines()[0]


# .tpplan.yaml, variables, flags; whether TP4004 is an error, a warning or omitted
SOURCES = [
    ("allow: [TP4004]", {}, ["--deny", "TP4004"], 1, ["TP4004"]),
    ("allow: [TP4004]", {"TPPLAN_DENY": "TP4004"}, [], 1, ["TP4004"]),
    ("", {"TPPLAN_ALLOW": "TP4004"}, ["--deny", "TP4004"], 1, ["TP4004"]),
    ("deny: [TP4004]", {}, ["--allow", "TP4004"], 0, []),
    ("deny: [TP4004]", {"TPPLAN_ALLOW": "tp4004"}, [], 0, []),
    ("", {"TPPLAN_DENY": "TP4004"}, ["--allow", "TP4004"], 0, []),
    ("allow: [TP4004, TP4006]", {}, ["--deny", "TP4006"], 0, []),
]


@pytest.mark.parametrize(("text", "env", "flags", "wanted", "found"), SOURCES)
def test_stronger_source_sets_the_severity_of_a_code(project, text, env, flags, wanted, found):
    (project / ".tpplan.yaml").write_text(text)
    result = check(project, *flags, env=env)
    assert (result.returncode, codes(result)) == (wanted, found)


def test_code_both_denied_and_allowed_is_rejected(project):
    result = check(project, "--deny", "TP4006,TP4004", "--allow", "tp4004")
    assert (result.returncode, result.stderr) == (2, b"tpplan: error: --deny and --allow both name TP4004\n")
    result = check(project, env={"TPPLAN_DENY": "TP4004", "TPPLAN_ALLOW": "TP4004"})
    assert (result.returncode, result.stderr) == (2, b"tpplan: error: TPPLAN_DENY and TPPLAN_ALLOW both name TP4004\n")
    (project / ".tpplan.yaml").write_text("deny: [TP4004]\nallow: [TP4006, TP4004]\n")
    result = check(project)
    assert (
        result.returncode == 2
        and b".tpplan.yaml:2:17: error[TP3003]: `deny` and `allow` both name TP4004" in result.stderr
    )


@pytest.mark.parametrize("share", ["5", "x", "[5%]", "101%"])
def test_wrong_share_in_the_file_has_its_place(project, share):
    (project / ".tpplan.yaml").write_text(f"strict: true\nmax_replicated: {share}\n")
    result = check(project)
    assert result.returncode == 2 and b".tpplan.yaml:2:17: error[TP3003]: `max_replicated`" in result.stderr


def test_settings_file_that_is_no_file_is_reported(project):
    (project / ".tpplan.yaml").mkdir()
    result = check(project)
    assert (
        result.returncode == 2
        and b".tpplan.yaml:1:1: error[TP1001]: cannot read the settings: is not a regular file" in result.stderr
    )
    assert check(project, "--no-config").returncode == 0


@pytest.mark.parametrize("command", ["compile", "report", "export"])
def test_settings_file_is_rejected_as_output(project, command):
    (project / "manifest.json").write_bytes(check(project, command="compile").stdout)
    (project / ".tpplan.yaml").write_text("quiet: true\n")
    words = {
        "compile": ["model.json", "plan.yaml"],
        "report": ["manifest.json"],
        "export": ["manifest.json", "--to", "jax"],
    }[command]
    result = run(command, *words, "-o", ".tpplan.yaml", cwd=project)
    assert result.returncode == 2 and b"error[TP1010]: the output is the settings file" in result.stderr
    assert (project / ".tpplan.yaml").read_text() == "quiet: true\n"
