"""Settings and their globs name regular files of the project, and excerpts are of models and plans only."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from conftest import PROGRAM, ROOT, codes, linear_model, plan_text, run, write

sys.path.append(str(pathlib.Path(ROOT) / "tests" / "lsp"))
from client import Client  # noqa: E402

SECRET = "root:x:0:0:top-secret:/root:/bin/bash\n"


@pytest.fixture
def project(tmp_path):
    """A repository with a model and a plan, and a secret next to it."""
    folder = tmp_path / "repository"
    folder.mkdir()
    write(folder, linear_model(wq=[16, 8]), plan_text({"wq": "colwise"}))
    (folder / ".git").mkdir()
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "other.json").write_bytes((folder / "model.json").read_bytes())
    (tmp_path / "other.yaml").write_bytes((folder / "plan.yaml").read_bytes())
    return folder


def settings(project, model="model.json", plan="plan.yaml", more=""):
    (project / ".tpplan.yaml").write_text(f"{more}checks: [{{model: {model}, plan: {plan}}}]\n")


def said_by(project, *words, **more):
    """Exit status, codes and output of a check of all that the settings name; fails if it does not end."""
    result = run("check", *words, cwd=project, timeout=20, **more)
    return result.returncode, codes(result), (result.stdout + result.stderr).decode()


OUTSIDE = [
    ("plan", "../secret"),
    ("plan", "{tmp}/secret"),
    ("plan", "/proc/self/environ"),
    ("plan", "/dev/stdin"),
    ("plan", "/dev/zero"),
    ("plan", "../other.yaml"),
    ("plan", "../*.yaml"),
    ("plan", "link.yaml"),
    ("plan", "link/other.yaml"),
    ("plan", "link*/*.yaml"),
    ("model", "/proc/self/environ"),
    ("model", "/dev/stdin"),
    ("model", "../other.json"),
    ("model", "link.json"),
    ("model", "link*/*.json"),
]


@pytest.mark.parametrize(("role", "name"), OUTSIDE)
def test_check_reads_no_file_outside_of_the_project(project, role, name):
    (project / "link.yaml").symlink_to("../secret")
    (project / "link.json").symlink_to("../other.json")
    (project / "link").symlink_to("..")
    settings(project, **{role: name.format(tmp=project.parent)})
    for words in ([], ["--format", "json"]):
        status, found, said = said_by(project, *words, env={"TOKEN": "top-secret"}, stdin=b"top-secret")
        assert status == 2 and found in (["TP1001"], []) and "TP1001" in said and "top-secret" not in said
        assert "it is outside the project's folder" in said or "is not a regular file" in said


def test_links_inside_the_project_are_followed(project):
    (project / "below").mkdir()
    (project / "link.yaml").symlink_to("plan.yaml")
    (project / "below" / "link.json").symlink_to("../model.json")
    settings(project, model="below/link.json", plan="'[kl]i*.yaml'")
    assert said_by(project)[:2] == (0, [])


def test_settings_may_name_files_of_the_whole_repository(project):
    (project / "below").mkdir()
    (project / "below" / ".tpplan.yaml").write_text("checks: [{model: ../model.json, plan: ../plan.yaml}]\n")
    assert said_by(project / "below")[:2] == (0, [])
    (project / ".git").rmdir()
    assert said_by(project / "below")[:2] == (2, ["TP1001", "TP1001"])


@pytest.mark.parametrize("name", ["pipe.yaml", "p*.yaml"])
def test_pipe_in_settings_is_rejected_at_once(project, name):
    os.mkfifo(project / "pipe.yaml")
    settings(project, plan=name)
    status, found, said = said_by(project)
    assert status == 2 and found == ["TP1001"] and "is not a regular file" in said
    if "*" in name:
        assert "plan.yaml: passed" in said


def test_excerpts_are_of_models_and_plans_only(project):
    for text in ("TOKEN: top-secret\n", "TOKEN=top-secret\n", SECRET, '{"token": "top-secret"}', '"top-secret"\n'):
        (project / ".env").write_text(text)
        for more in ({"plan": ".env"}, {"model": ".env"}, {"more": "baseline: .env\n"}):
            settings(project, **more)
            status, found, said = said_by(project)
            assert status in (1, 2) and found and "top-secret" not in said and ".env:1:" in said, said
    (project / ".env").write_text("TOKEN: top-secret\n")
    settings(project)
    (project / "plan.yaml").write_text(plan_text({"no_such": "colwise"}))
    assert '"no_such": colwise' in said_by(project)[2]
    shown = run("check", "model.json", ".env", cwd=project)  # the user named it
    assert b"top-secret" in shown.stdout + shown.stderr


BASELINES = ["../secret", "/proc/self/environ", "link", "link/known.json", "/dev/stdin", "pipe"]


@pytest.mark.parametrize("name", BASELINES)
def test_baseline_outside_of_the_project_is_rejected(project, name):
    if name == "link":
        (project / "link").symlink_to("../secret")
    elif name.startswith("link/"):
        (project / "link").symlink_to("..")
        (project.parent / "known.json").write_text('{"format": "tpplan.baseline/1", "findings": []}')
    elif name == "pipe":
        os.mkfifo(project / "pipe")
    settings(project, more=f"baseline: {name}\n")
    status, found, said = said_by(project, env={"TOKEN": "top-secret"}, stdin=b"top-secret")
    assert status == 2 and found == ["TP1001"] and "top-secret" not in said


@pytest.mark.parametrize("name", ["../known.json", "dangling", "link/known.json", "{tmp}/known.json"])
def test_no_baseline_is_written_outside_of_the_project(project, name):
    (project / "dangling").symlink_to("../known.json")
    (project / "link").symlink_to("..")
    settings(project, more=f"baseline: {name.format(tmp=project.parent)}\n")
    status, found, said = said_by(project, "--write-baseline")
    assert status == 2 and found == ["TP1009"] and "it is outside the project's folder" in said
    assert not (project.parent / "known.json").exists()


def test_editor_reads_no_model_outside_of_the_project(project):
    (project / "link.json").symlink_to("../other.json")
    for model in ("/dev/stdin", "link.json", "../other.json", "pipe.json"):
        if model == "pipe.json":
            os.mkfifo(project / model)
        settings(project, model=model)
        with Client(cwd=project) as client:
            client.start()
            client.notify("initialized")
            found = client.open(project / "plan.yaml")
            assert [d["code"] for d in found] == ["TP1001"], model
            assert client.end() == 0


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(process):
    return pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_killed_watch_leaves_no_process(project, end):
    os.mkfifo(project / "pipe.yaml")
    process = subprocess.Popen(
        [PROGRAM, "check", "model.json", "pipe.yaml", "--watch"],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 20
    while not (children := children_of(process)) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.2)  # until it waits for the pipe
    process.send_signal(end)
    process.wait(20)
    while any(map(is_running, children)) and time.monotonic() < until:
        time.sleep(0.01)
    assert children and not any(map(is_running, children))
