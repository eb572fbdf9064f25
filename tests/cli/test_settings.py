"""Precedence of flags, environment variables and .tpplan.yaml, and suppressions in the plan."""

import json
import lzma
import os

import pytest
from conftest import ROOT, codes, linear_model, plan_text, run, write

# One warning, TP4004: the second rule repeats the first.
PLAN = plan_text({"*q": "colwise", "*wq": "colwise"})
MODEL = linear_model(wq=[16, 8])


@pytest.fixture
def project(tmp_path):
    write(tmp_path, MODEL, PLAN)
    (tmp_path / "below").mkdir()
    (tmp_path / ".git").mkdir()
    return tmp_path


def check(project, *flags, env=None, folder="."):
    return run("check", project / "model.json", project / "plan.yaml", *flags, cwd=project / folder, env=env)


def test_warning_without_settings_is_accepted(project):
    result = check(project)
    assert (result.returncode, codes(result)) == (0, ["TP4004"])


@pytest.mark.parametrize(
    "text, status, found",
    [
        ("strict: true", 1, ["TP4004"]),
        ("deny: [TP4004]", 1, ["TP4004"]),
        ("allow: [TP4004]", 0, []),
        ("", 0, ["TP4004"]),
    ],
)
def test_settings_file_is_found_in_parent_folders(project, text, status, found):
    (project / ".tpplan.yaml").write_text(text)
    result = check(project, folder="below")
    assert (result.returncode, codes(result)) == (status, found)


def test_search_ends_at_the_repository_root(project):
    (project / ".tpplan.yaml").write_text("strict: true")
    (project / "below" / ".git").mkdir()
    assert check(project, folder="below").returncode == 0


def test_precedence_is_flag_variable_file(project):
    (project / ".tpplan.yaml").write_text("allow: [TP4004]")
    assert codes(check(project, env={"TPPLAN_ALLOW": "TP4006"})) == ["TP4004"]
    assert codes(check(project, "--allow", "TP4004", env={"TPPLAN_ALLOW": "TP4006"})) == []


def test_every_setting_has_a_variable(project):
    assert check(project, env={"TPPLAN_STRICT": "1"}).returncode == 1
    assert check(project, env={"TPPLAN_DENY": "TP4006,TP4004"}).returncode == 1
    assert check(project, env={"TPPLAN_MAX_REPLICATED": "50%"}).returncode == 0
    assert b"\x1b[" in check(project, env={"TPPLAN_COLOR": "always"}).stdout
    assert check(project, env={"TPPLAN_FORMAT": "json"}).stdout.startswith(b"{")
    assert b"each rank" not in check(project, env={"TPPLAN_QUIET": "1"}).stdout


def test_config_and_no_config_select_the_file(project):
    (project / ".tpplan.yaml").write_text("strict: true")
    (project / "other.yaml").write_text("allow: [TP4004]")
    assert check(project, "--no-config").returncode == 0
    assert codes(check(project, "--config", "other.yaml")) == []
    assert check(project, "--config", "missing.yaml").returncode == 2


@pytest.mark.parametrize(
    "text, found",
    [
        ("strcit: true", "TP3004"),
        ("strict: maybe", "TP3003"),
        ("format: yaml", "TP3003"),
        ("color: blue", "TP3003"),
        ("deny: TP4004", "TP3003"),
        ("deny: [TP9999]", "TP3003"),
        ("[", "TP1004"),
        ("a: 1\na: 2", "TP1006"),
    ],
)
def test_wrong_settings_file_is_rejected_with_its_place(project, text, found):
    (project / ".tpplan.yaml").write_text(text)
    result = check(project)
    assert result.returncode == 2
    assert found in codes(result)
    assert b".tpplan.yaml:1:" in result.stderr or b".tpplan.yaml:2:" in result.stderr


def suppressed(project, text):
    (project / "plan.yaml").write_text(PLAN + text)
    return check(project, "--strict")


def test_suppression_with_a_reason_removes_its_warning(project):
    assert suppressed(project, 'suppress: [{code: TP4004, reason: "kept for readers"}]\n').returncode == 0


def test_suppression_may_name_the_rule(project):
    assert suppressed(project, 'suppress: [{code: TP4004, rule: "*wq", reason: "kept"}]\n').returncode == 0
    assert codes(suppressed(project, 'suppress: [{code: TP4004, rule: "*q", reason: "kept"}]\n')) == [
        "TP4004",
        "TP3017",
    ]


def test_unused_suppression_is_a_warning(project):
    (project / "plan.yaml").write_text(PLAN + 'suppress: [{code: TP4004, reason: "a"}, {code: TP4007, reason: "b"}]\n')
    result = check(project)
    assert (result.returncode, codes(result)) == (0, ["TP3017"])


@pytest.mark.parametrize(
    "entry, status, found",
    [
        ("{code: TP4004}", 2, "TP3002"),
        ("{reason: x}", 2, "TP3002"),
        ("{code: TP4001, reason: x}", 1, "TP3013"),
        ("{code: nope, reason: x}", 1, "TP3013"),
        ("{code: TP4004, reason: x, why: y}", 1, "TP3004"),
        ("TP4004", 2, "TP3003"),
    ],
)
def test_suppression_needs_a_warning_code_and_a_reason(project, entry, status, found):
    result = suppressed(project, f"suppress: [{entry}]\n")
    assert (result.returncode, codes(result)[0]) == (status, found)


def test_replication_limit_error_is_first_with_the_largest(project):
    model = linear_model(wq=[16, 8], big=[512, 64], layers__0__w=[64, 64], layers__1__w=[64, 64])
    write(project, model, plan_text({"wq": "colwise"}))
    result = check(project, "--max-replicated", "5%")
    first = result.stdout.decode().splitlines()[0]
    assert result.returncode == 1
    assert "error[TP5021]: 99.7 % of the model is replicated, but the limit is 5 %" in first
    assert "`big.weight` 128.0 KiB" in result.stdout.decode()
    assert "`layers.{0..1}.w.weight` 32.0 KiB, 2 in all" in result.stdout.decode()


def test_replication_limit_reports_a_shipped_plan(tmp_path):
    """GPT-OSS 120B with the plan of transformers 5.23: it shards only the head, and replicates every expert."""
    model = lzma.decompress((ROOT / "tests/plans/models/gpt-oss-120b.json.xz").read_bytes())
    plan = plan_text(
        {"lm_head": "colwise_gather_output"}, mesh="{tp: 8}", dialect="transformers", more="uneven: torch\n"
    )
    result = run("check", *write(tmp_path, model, plan), "--max-replicated", "5%")
    first, *rest = result.stdout.decode().splitlines()
    assert result.returncode == 1
    assert "error[TP5021]: 99.5 % of the model is replicated" in first
    assert "each rank holds 433.3 GiB (99.6 %), the ideal is 54.4 GiB (12.5 %)" in first
    assert any("`model.layers.{0..35}.mlp.experts.gate_up_proj` 284.8 GiB, 36 in all" in line for line in rest)


@pytest.mark.parametrize(
    "share, status",
    [("5%", 0), ("0.05", 0), ("5 %", 0), ("101%", 2), ("-1%", 2), ("x", 2), ("5%%", 2), ("1%", 0), ("100%", 0)],
)
def test_share_is_a_percentage_or_a_fraction(project, share, status):
    assert check(project, "--max-replicated", share).returncode == status


@pytest.mark.parametrize("share", ["1", "1.0", "1e0"])
def test_bare_share_of_one_is_rejected_as_ambiguous(project, share):
    result = check(project, "--max-replicated", share)
    assert result.returncode == 2 and b"one percent is 1%, all is 100%" in result.stderr
    (project / ".tpplan.yaml").write_text(f"max_replicated: {share}\n")
    result = check(project)
    assert result.returncode == 2 and b".tpplan.yaml:1:17: error[TP3003]" in result.stderr


def test_error_codes_cannot_be_allowed(project):
    result = check(project, "--allow", "TP5001")
    assert result.returncode == 2 and b"TP5001 is an error, and only warnings can be allowed" in result.stderr
    result = check(project, env={"TPPLAN_ALLOW": "TP5001"})
    assert result.returncode == 2 and b"only warnings can be allowed" in result.stderr
    (project / ".tpplan.yaml").write_text("allow: [TP4004, TP5001]\n")
    result = check(project)
    assert result.returncode == 2 and b".tpplan.yaml:1:17: error[TP3003]" in result.stderr
    assert b"TP5001 is an error, and only warnings can be allowed" in result.stderr


def test_replication_limit_counts_axes_of_size_1(project):
    write(project, linear_model(wq=[512, 64], norm=[8, 8]), plan_text({"wq": "colwise"}, mesh="{dp: 8, tp: 1}"))
    said = check(project).stdout.decode() + check(project).stderr.decode()
    assert "0 sharded, 2 replicated (1 by default, 1 over axes of size 1)" in said
    assert "128.2 KiB of it replicated" in said
    result = check(project, "--max-replicated", "5%")
    said = result.stdout.decode()
    assert result.returncode == 1
    assert "error[TP5021]: 100 % of the model is replicated" in said
    assert "a sharding over only `tp` has no effect: its size is 1" in said


def test_axis_of_size_1_adds_no_diagnostics(project):
    """One plan for one rank and for eight is common practice, and --strict must accept it."""
    write(project, linear_model(wq=[512, 64]), plan_text({"wq": "colwise"}, mesh="{tp: 8}"))
    assert check(project, "--strict", "--mesh", "tp=1").returncode == 0
    write(
        project,
        linear_model(wq=[512, 64]),
        plan_text({"wq": "colwise"}, "{dp: 8, tp: 1}", more="data: {axes: [dp], dim: 0}\n"),
    )
    result = check(project, "--strict")
    assert (result.returncode, codes(result)) == (0, [])


def test_replication_limit_stops_compile_before_it_writes(project):
    output = project / "manifest.json"
    write(project, linear_model(wq=[16, 8], big=[512, 64]), plan_text({"wq": "colwise"}))
    assert (
        run("compile", project / "model.json", project / "plan.yaml", "-o", output, "--max-replicated", "5%").returncode
        == 1
    )
    assert not output.exists()
    assert json.loads(run("compile", project / "model.json", project / "plan.yaml").stdout)


def test_settings_pipe_is_rejected_without_waiting(project):
    os.mkfifo(project / ".tpplan.yaml")
    result = check(project)
    assert (result.returncode, codes(result)) == (2, ["TP1001"])
    assert b"is not a regular file" in result.stderr and b"--config FILE" in result.stderr


def test_settings_link_is_not_followed(project, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("password: hunter2\n")
    (project / ".tpplan.yaml").symlink_to(secret)
    result = check(project)
    assert (result.returncode, codes(result)) == (2, ["TP1001"])
    assert b"is a symbolic link" in result.stderr and b"hunter2" not in result.stderr + result.stdout
    assert b"password" in check(project, "--config", secret).stderr  # a file named by the user may be printed
