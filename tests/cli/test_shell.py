"""Shell completions, manual page, hook, action, colours, help."""

import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import PROGRAM, ROOT, linear_model, plan_text, run, write

EXECUTOR = str(pathlib.Path(PROGRAM).with_name("tpplan-exec"))
both = pytest.mark.parametrize("program", [PROGRAM, EXECUTOR], ids=["tpplan", "tpplan-exec"])


def said(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=60).stdout


def commands_of(program):
    return re.findall(r"^  (\w+)  ", said(program, "--help").split("Subcommands:")[1], re.M)


COMMANDS = commands_of(PROGRAM)


def bash(script, *words):
    return subprocess.run(["bash", "-c", script, "bash", *map(str, words)], capture_output=True, text=True, timeout=60)


def complete(*words, program=PROGRAM):
    name = pathlib.Path(program).name
    script = (
        'source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        f'_{name}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    result = bash(script, program, name, *words)
    assert result.stderr == ""
    return result.stdout.split()


def test_help_lists_the_commands_of_the_readme():
    assert {"compile", "check", "explain", "show", "schema", "lint", "diff", "fmt", "completion", "man"} <= set(
        COMMANDS
    )


def test_bash_completes_commands_flags_and_choices():
    assert set(complete("che")) == {"check"}
    assert set(COMMANDS) <= set(complete(""))
    assert complete("check", "--stri") == ["--strict"]
    assert set(complete("compile", "--color", "")) == {"auto", "always", "never"}


@both
def test_bash_completes_every_command_and_flag(program):
    assert {"completion", "man"} < set(commands_of(program)) <= set(complete("", program=program))
    for command in commands_of(program):
        offered = set(complete(command, "-", program=program))
        flags = re.findall(r"^ +(?:-\w,\s*)?(--[a-z][a-z-]+)", said(program, command, "--help"), re.M)
        assert "--help" in flags and set(flags) <= offered, command


def test_bash_completes_folders_for_folder_options(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shard.txt").touch()
    assert complete("save", "--output", f"{tmp_path}/sh", program=EXECUTOR) == [f"{tmp_path}/shards"]
    assert len(complete("save", "--weights", f"{tmp_path}/sh", program=EXECUTOR)) == 2


@both
@pytest.mark.parametrize("shell, check", [("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])])
def test_other_shells_accept_their_script(tmp_path, shell, check, program):
    script = tmp_path / f"completion.{shell}"
    script.write_text(said(program, "completion", shell))
    for command in commands_of(program):
        assert command in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    result = subprocess.run([*check, script], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_flags_and_choices(tmp_path):
    (tmp_path / "tpplan.fish").write_bytes(run("completion", "fish").stdout)

    def offered(line):
        script = f"source {tmp_path}/tpplan.fish; complete -C '{line}'"
        text = subprocess.run(
            ["fish", "--no-config", "-c", script],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        return {entry.split("\t")[0] for entry in text.stdout.splitlines()}

    assert "check" in offered("tpplan che")
    assert set(COMMANDS) <= offered("tpplan ")
    assert "--strict" in offered("tpplan check --stri")
    assert {"auto", "always", "never"} <= offered("tpplan compile --color ")


def test_unknown_command_suggests_the_nearest():
    for words in (["chek", "a", "b"], ["--config", "x.yaml", "chek"], ["--no-config", "chek", "--strict"]):
        result = run(*words)
        assert (result.returncode, result.stdout) == (2, b"")
        assert result.stderr.startswith(b"tpplan: error: there is no command `chek`: did you mean `check`?\n")
    assert run("quite\x1bother").stderr.startswith(b"tpplan: error: there is no command `quite\\x1bother`\n")
    assert run().stderr.startswith(b"tpplan: error: A subcommand is required")


def test_unknown_shell_is_a_usage_error():
    assert run("completion", "tcsh").returncode == 2


@both
def test_manual_page_has_every_command_and_flag(program):
    name, page = pathlib.Path(program).name, said(program, "man").replace("\\-", "-")
    assert page.startswith(f".TH {name.upper()} 1")
    for command in commands_of(program):
        assert f'.SH "{name} {command}"' in page
        assert all(flag in page for flag in re.findall(r"--[a-z][a-z-]+", said(program, command, "--help")))
    assert "TPPLAN_EXEC_BACKEND" in page if program == EXECUTOR else "TPPLAN_STRICT" in page
    if shutil.which("man") and shutil.which("groff"):
        shown = subprocess.run(
            ["groff", "-man", "-Tascii", "-ww"], input=said(program, "man").encode(), capture_output=True
        )
        assert (shown.returncode, shown.stderr) == (0, b"")


def hook(*arguments):
    return subprocess.run(
        [ROOT / "tools" / "scripts" / "check-plans", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={"TPPLAN": PROGRAM, "PATH": "/usr/bin:/bin"},
    )


def test_hook_checks_each_plan_and_returns_the_worst_status(tmp_path):
    model, good = write(tmp_path, linear_model(wq=[16, 8]), plan_text({"wq": "colwise"}))
    bad, broken = tmp_path / "bad.yaml", tmp_path / "broken.yml"
    bad.write_text(plan_text({"wk": "colwise"}))
    broken.write_text("[")
    assert hook(model, good).returncode == 0
    result = hook(model, bad, good)
    assert (result.returncode, "TP4001" in result.stdout) == (1, True)
    assert hook(model, "--mesh=tp=2", good).returncode == 0
    assert hook(model, broken, bad).returncode == 2
    assert hook(model).returncode == 2


def test_hook_does_not_check_the_file_of_a_flag(tmp_path):
    model, plan = write(tmp_path, linear_model(wq=[16, 8]), plan_text({"*q": "colwise", "*wq": "colwise"}))
    (tmp_path / "ci.yaml").write_text("strict: true\n")
    for words in (["--config", tmp_path / "ci.yaml"], [f"--config={tmp_path / 'ci.yaml'}"]):
        result = hook(model, *words, plan)
        assert (result.returncode, result.stderr, result.stdout.count("TP4004")) == (1, "", 1)
    result = hook(model, "--config", tmp_path / "ci.yaml")
    assert (result.returncode, result.stdout, result.stderr) == (
        0,
        "",
        "check-plans: no plan is given (*.yaml, *.yml), so nothing is checked\n",
    )


def test_hook_file_names_the_scripts():
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert re.findall(r"^- id: (\S+)", text, re.M) == ["tpplan-check", "tpplan-fmt"]
    entries = re.findall(r"entry: (\S+)", text)
    assert len(entries) == 2 and all((ROOT / entry).stat().st_mode & 0o111 for entry in entries)


def test_format_hook_formats_or_names_the_plans(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {wq: colwise}\n")
    call = lambda *words: subprocess.run(
        [ROOT / "tools" / "scripts" / "fmt-plans", *map(str, words)],
        capture_output=True,
        text=True,
        env={"TPPLAN": PROGRAM, "PATH": "/usr/bin:/bin"},
    )
    result = call("--check", plan)
    assert (result.returncode, result.stdout) == (1, f"{plan}\n")
    assert call(plan).returncode == 0 and plan.read_text().endswith("tp_plan:\n  wq: colwise\n")
    assert call("--check", plan).returncode == 0 and call().returncode == 2


def test_action_runs_check_with_annotations(tmp_path):
    text = (ROOT / ".github/actions/tpplan/action.yml").read_text()
    get, check = re.findall(r"^      run: '(.*)'$", text, re.M)
    assert "tools/scripts/get-tpplan" in get and "--format github" in check
    for name in ("model", "plan", "arguments", "program"):
        assert re.search(rf"^  {name}:$", text, re.M) and f"inputs.{name}" in text
    model, plan = write(tmp_path, linear_model(wq=[16, 8]), plan_text({"wk": "colwise"}))
    environment = {
        "MODEL": str(model),
        "PLAN": str(plan),
        "ARGUMENTS": "--mesh tp=2",
        "PROGRAM": PROGRAM,
        "PATH": "/usr/bin:/bin",
    }
    result = subprocess.run(["bash", "-c", check], capture_output=True, text=True, env=environment)
    assert result.returncode == 1
    assert re.match(r"::error file=.*plan\.yaml,line=5,", result.stdout)


@pytest.mark.parametrize(
    "environment, flags, colored",
    [
        ({}, [], False),
        ({"FORCE_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
        ({"CLICOLOR_FORCE": "1"}, [], True),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
        ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
    ],
)
def test_colour_follows_flag_then_variables_then_terminal(tmp_path, environment, flags, colored):
    result = run(
        "check", *write(tmp_path, linear_model(wq=[16, 8]), plan_text({"wk": "colwise"})), *flags, env=environment
    )
    assert (b"\x1b[" in result.stdout) == colored


def test_lint_reports_dialects_that_read_a_key_differently(tmp_path):
    paths = write(
        tmp_path,
        linear_model(layers__0__wq=[16, 8], layers__1__wq=[16, 8], head=[8, 8]),
        plan_text({"*.wq": "colwise", "head": "colwise"}),
    )
    result = run("lint", *paths)
    text = result.stdout.decode()
    assert result.returncode == 0
    assert "warning[TP4010]: `*.wq` selects 2 parameters in this dialect" in text
    assert "torch: 0" in text and "transformers: 0" in text


def test_lint_reports_only_requested_dialects(tmp_path):
    rules = {"model.embed": "colwise"}
    paths = write(tmp_path, linear_model(model__embed=[16, 8]), plan_text(rules))
    alone = run("lint", *paths)
    assert (alone.returncode, alone.stdout) == (0, b"every key means the same in glob, torch, transformers\n")
    asked = run("lint", *paths, "--dialect", "keras", "--dialect", "regex").stdout.decode()
    assert "keras: 0" in asked and "torch" not in asked
    expression = write(tmp_path, linear_model(a=[16, 8]), plan_text({"a.weight": "colwise"}, dialect="regex"))
    assert b"keras" in run("lint", *expression).stdout
    assert run("lint", *paths, "--dialect", "karas").returncode == 2


LINTED = linear_model(layers__0__wq=[16, 8], layers__1__wq=[16, 8])


@pytest.mark.parametrize(
    ("settings", "env", "flags", "status", "said"),
    [
        ("allow: [TP4010]", {}, [], 0, ""),
        ("", {"TPPLAN_ALLOW": "TP4010"}, [], 0, ""),
        ("", {}, ["--allow", "TP4010"], 0, ""),
        ("deny: [TP4010]", {}, [], 1, "error[TP4010]"),
        ("allow: [TP4010]", {}, ["--deny", "TP4010"], 1, "error[TP4010]"),
        ("strict: true", {}, [], 1, "error[TP4010]"),
        ("", {}, ["--strict"], 1, "error[TP4010]"),
        ("", {}, [], 0, "warning[TP4010]"),
    ],
)
def test_lint_uses_the_settings_and_the_flags(tmp_path, settings, env, flags, status, said):
    paths = write(tmp_path, LINTED, plan_text({"*.wq": "colwise"}))
    (tmp_path / ".tpplan.yaml").write_text(settings)
    result = run("lint", *paths, *flags, cwd=tmp_path, env=env)
    text = result.stdout.decode()
    assert (result.returncode, bool(text)) == (status, bool(said)) and said in text


def test_lint_suppression_affects_only_lint(tmp_path):
    paths = write(tmp_path, LINTED, plan_text({"*.wq": "colwise"}, more='suppress: [{code: TP4010, reason: "ours"}]\n'))
    for command in ("lint", "check"):
        result = run(command, *paths, "--strict")
        assert result.returncode == 0 and b"TP" not in result.stdout, command
    paths = write(
        tmp_path,
        linear_model(wq=[16, 8]),
        plan_text(
            {"wq.weight": "colwise"},
            dialect="glob",
            more='suppress: [{code: TP4010, rule: "other", reason: "ours"}, {code: TP4004, reason: "x"}]\n',
        ),
    )
    result = run("lint", *paths)
    assert result.stdout.count(b"TP3017") == 1 and b"the suppressed warning TP4010 no longer occurs" in result.stdout


def test_lint_accepts_keys_with_one_meaning_everywhere(tmp_path):
    keras = {
        "format": "tpplan.model/1",
        "name": "M",
        "framework": "keras",
        "modules": [
            {"path": "dense", "type": "Dense", "parameters": {"kernel": {"shape": [8, 8], "dtype": "float32"}}}
        ],
    }
    result = run("lint", *write(tmp_path, keras, plan_text({"dense/kernel": "colwise"})))
    assert result.returncode == 0
    assert "`dense/kernel`" not in result.stdout.decode() or "torch: 0" in result.stdout.decode()
