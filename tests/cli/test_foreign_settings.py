"""Settings and baselines of another user are skipped, as git rejects the repository of another user."""

import os
import pathlib
import subprocess
import tempfile

import pytest

from conftest import PROGRAM, codes, linear_model, plan_text, run, write

NOBODY = 65534
MODEL = linear_model(wq=[16, 8])
WARNED = plan_text({"*q": "colwise", "*wq": "colwise"})  # TP4004
WRONG = plan_text({"no_such": "colwise"})

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")


@pytest.fixture
def project(tmp_path):
    write(tmp_path, MODEL, WARNED)
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    return tmp_path


def check(project, *words, folder=".", env=None):
    files = [] if words[:1] == ("all",) else [project / "model.json", project / "plan.yaml"]
    words = words[1:] if words[:1] == ("all",) else words
    return run("check", *files, *words, cwd=project / folder, env=env)


def foreign(path, owner=NOBODY):
    os.chown(path, owner, -1, follow_symlinks=False)


@root
def test_foreign_settings_are_skipped_with_a_warning(project):
    settings = project / ".tpplan.yaml"
    settings.write_text("strict: true\nallow: [TP4004]\n")
    assert (check(project).returncode, codes(check(project))) == (0, [])
    foreign(settings)
    for folder in (".", "below"):
        result = check(project, folder=folder)
        assert (result.returncode, codes(result)) == (0, ["TP1012", "TP4004"])
        said = result.stderr.decode()
        assert f".tpplan.yaml:1:1: warning[TP1012]: the settings file belongs to user {NOBODY}" in said
        assert "--config FILE" in said
    assert codes(check(project, "--config", ".tpplan.yaml")) == []
    assert codes(check(project, "--no-config")) == ["TP4004"]


@root
@pytest.mark.parametrize("make", ["link", "fifo", "folder", "unreadable"])
def test_unreadable_foreign_settings_are_no_error(project, make):
    settings = project / ".tpplan.yaml"
    if make == "link":
        settings.symlink_to("/etc/passwd")
    elif make == "fifo":
        os.mkfifo(settings)
    elif make == "folder":
        settings.mkdir()
    else:
        settings.write_text("strict: [")
    foreign(settings)
    assert codes(check(project)) == ["TP1012", "TP4004"] and check(project).returncode == 0


@root
def test_root_accepts_files_of_the_caller_of_sudo(project):
    (project / ".tpplan.yaml").write_text("allow: [TP4004]\n")
    foreign(project / ".tpplan.yaml")
    assert codes(check(project, env={"SUDO_UID": str(NOBODY)})) == []
    for other in ("", "0", "x", "1", f"{NOBODY}x", f" {NOBODY}"):
        assert codes(check(project, env={"SUDO_UID": other})) == ["TP1012", "TP4004"]
    foreign(project / ".tpplan.yaml", 0)
    assert codes(check(project, env={"SUDO_UID": str(NOBODY)})) == []


@root
def test_user_skips_settings_of_root():
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # which another user can enter
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        write(folder, MODEL, WARNED)
        (folder / ".git").mkdir()
        (folder / ".tpplan.yaml").write_text("allow: [TP4004]\n")
        program = folder / "tpplan"
        program.write_bytes(pathlib.Path(PROGRAM).read_bytes())
        program.chmod(0o755)
        result = subprocess.run(
            [program, "check", "model.json", "plan.yaml"], cwd=folder, user=NOBODY, capture_output=True, timeout=60
        )
    assert (result.returncode, codes(result)) == (0, ["TP1012", "TP4004"]), result


@root
def test_foreign_baseline_hides_nothing(project):
    (project / "plan.yaml").write_text(WRONG)
    checks = "checks: [{model: model.json, plan: plan.yaml}]\n"
    (project / ".tpplan.yaml").write_text("baseline: known.json\n" + checks)
    assert check(project, "all", "--write-baseline").returncode == 0
    assert check(project, "all").returncode == 0
    foreign(project / "known.json")
    for words in (["all"], []):
        result = check(project, *words)
        assert result.returncode == 1 and sorted(codes(result)) == ["TP1012", "TP4001"]
        assert f"known.json:1:1: warning[TP1012]: the baseline belongs to user {NOBODY}" in result.stderr.decode()
    named = run("check", "model.json", "plan.yaml", "--baseline", "known.json", cwd=project)
    assert named.returncode == 0 and "TP4001" not in codes(named)  # the user named it


@root
def test_editor_ignores_foreign_settings(project):
    import sys

    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "lsp"))
    from client import Client

    (project / ".tpplan.yaml").write_text("allow: [TP4004]\nchecks: [{model: model.json, plan: plan.yaml}]\n")
    for owner, found in ((0, []), (NOBODY, ["TP4004"])):
        foreign(project / ".tpplan.yaml", owner)
        with Client("--model", project / "model.json", cwd=project) as client:
            client.start()
            client.notify("initialized")
            assert [d["code"] for d in client.open(project / "plan.yaml")] == found


# ---- the search for settings ----


def test_only_the_working_directory_without_a_repository(project):
    (project / ".git").rmdir()
    (project / ".tpplan.yaml").write_text("allow: [TP4004]\n")
    assert codes(check(project)) == []
    assert codes(check(project, folder="below")) == ["TP4004"]


@pytest.mark.parametrize("home", [".", "below", "below/"])
def test_settings_above_the_home_are_ignored(project, home):
    deep = project / "below" / "deep"
    deep.mkdir()
    (project / ".tpplan.yaml").write_text("allow: [TP4004]\n")
    env = {"HOME": f"{project}/{home}"}
    above = home != "."
    assert codes(check(project, folder="below/deep", env=env)) == (["TP4004"] if above else [])
    (project / "below" / ".git").mkdir()
    (project / "below" / ".tpplan.yaml").write_text("allow: [TP4004]\n")
    assert codes(check(project, folder="below/deep", env=env)) == []


def test_verbose_prints_the_settings_file(project):
    assert "  settings: none\n" in check(project, "-v").stderr.decode()
    (project / ".tpplan.yaml").write_text("quiet: true\n")
    assert f"  settings: {project}/.tpplan.yaml\n" in check(project, "-v", folder="below").stderr.decode()
    assert "  settings: none\n" in check(project, "-v", "--no-config").stderr.decode()
    assert "  settings: .tpplan.yaml\n" in check(project, "-v", "--config", ".tpplan.yaml").stderr.decode()
