"""Packages, hooks and workflows in their real environments: an empty Debian of another release, pre-commit, GitHub's schemas. Creates
systems and virtual environments: `tools/test --only package`."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT
from test_installed import MODEL, PLAN, VERSION, alone, call, packages, releases  # noqa: F401

README = (ROOT / "tools/README.md").read_text()


def tool(name):
    """A program next to this Python, or on the PATH."""
    found = shutil.which(name, path=f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return found or pytest.skip(f"{name} is not installed (tests/requirements-package.txt)")


# ---- another Debian ----


def release_of(root):
    return re.search(r"^VERSION_CODENAME=(.*)$", (pathlib.Path(root) / "etc/os-release").read_text(), re.M)[1]


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """The root folder of an empty Debian of another release: a copy of TPPLAN_OTHER_SYSTEM, or one made by debootstrap."""
    if os.geteuid() != 0:
        pytest.skip("only root makes systems")
    root = tmp_path_factory.mktemp("system") / "root"
    if given := os.environ.get("TPPLAN_OTHER_SYSTEM"):
        shutil.copytree(given, root, symlinks=True)
    elif shutil.which("debootstrap"):
        release = {"trixie": "bookworm"}.get(release_of("/"), "trixie")
        scripts = pathlib.Path("/usr/share/debootstrap/scripts")
        script = scripts / (release if (scripts / release).exists() else "sid")
        source = ["http://deb.debian.org/debian", script]
        made = ["debootstrap", "--variant=minbase", "--include=python3-venv", release, root, *source]
        if (done := subprocess.run([*map(str, made)], capture_output=True, text=True)).returncode != 0:
            pytest.skip(f"debootstrap made no {release}: {(done.stdout + done.stderr).splitlines()[-1]}")
    else:
        pytest.skip("debootstrap is not installed, and TPPLAN_OTHER_SYSTEM names no system")
    assert release_of(root) != release_of("/")
    yield root
    shutil.rmtree(root)


def inside(system, *command, status=0):
    return alone("chroot", system, *command, status=status, path="/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def uses_inside(system, prefix):
    plans = f"{prefix}/share/tpplan"
    program = f"{prefix}/bin/tpplan"
    assert inside(system, program, "--version") == f"tpplan {VERSION}\n"
    assert "LlamaForCausalLM on [tp=8]" in inside(system, program, "check", f"{plans}/{MODEL}", f"{plans}/{PLAN}")
    assert "TP5001" in inside(
        system, program, "check", f"{plans}/{MODEL}", f"{plans}/{PLAN}", "--mesh", "tp=3", status=1
    )
    small = f"{plans}/plans/models/smollm2-135m.json"
    inside(system, program, "compile", small, f"{plans}/{PLAN}", "--mesh", "tp=3", "-o", "/tmp/tp3.json")
    assert re.search(r"ok +backend local", inside(system, f"{prefix}/bin/tpplan-exec", "doctor"))
    inside(system, f"{prefix}/bin/tpplan-exec", "run", "/tmp/tp3.json", "--iterations", "1")


def test_deb_installs_on_another_release_and_is_removed(system, packages):
    shutil.copy(packages["deb"], system / "tpplan.deb")
    inside(system, "dpkg", "--install", "/tpplan.deb")
    uses_inside(system, "/usr")
    assert inside(system, "tpplan", "--version") == f"tpplan {VERSION}\n"
    inside(system, "dpkg", "--purge", "tpplan")
    assert not (system / "usr/bin/tpplan").exists() and not (system / "usr/share/tpplan").exists()


def test_archive_works_on_another_release(system, packages):
    call("tar", "-xzf", packages["archive"], "-C", system / "opt")
    (folder,) = (system / "opt").glob("tpplan-*")
    uses_inside(system, f"/opt/{folder.name}")


def test_wheel_installs_on_another_release(system, packages):
    if not list((system / "usr/lib").glob("python3*/ensurepip")):
        pytest.skip("the system that TPPLAN_OTHER_SYSTEM names has no python3-venv")
    shutil.copy(packages["wheel"], system)
    inside(system, "python3", "-m", "venv", "/environment")
    inside(system, "/environment/bin/pip", "install", "--no-index", f"/{packages['wheel'].name}")
    uses_inside(system, "/environment")
    assert "--transformers" in inside(system, "/environment/bin/python", "-m", "tpplan.export", "--help")


# ---- pre-commit ----


@pytest.fixture
def project(tmp_path):
    """A user's repository, with a model and a correct plan for it."""
    folder = tmp_path / "project"
    (folder / "models").mkdir(parents=True)
    (folder / "plans").mkdir()
    shutil.copy(ROOT / MODEL, folder / "models/llama.json")
    shutil.copy(ROOT / PLAN, folder / "plans/llama.yaml")
    call("git", "init", "--quiet", folder)
    return folder


def block(begin):
    """A block of tools/README.md that configures pre-commit."""
    return re.search(rf"```yaml\n(  - repo: {begin}.*?)```", README, re.S)[1]


def runs_hooks(project, configuration, status=0, **variables):
    (project / ".pre-commit-config.yaml").write_text(f"repos:\n{configuration}")
    call("git", "add", "--all", cwd=project)
    return alone(tool("pre-commit"), "run", "--all-files", cwd=project, status=status, **variables)


def test_pre_commit_runs_the_hooks_of_an_unbuilt_clone(project, releases, tmp_path):
    clone = tmp_path / "clone"
    ignored = shutil.ignore_patterns("__pycache__", ".git", "build", "build-*", "dist", ".venv", "tests")
    shutil.copytree(ROOT, clone, ignore=ignored)
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for words in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*who, "commit", "--quiet", "-m", "all"],
        ["tag", f"v{VERSION}"],
    ):
        call("git", *words, cwd=clone)
    configuration = block("https").replace("https://github.com/OWNER/tpplan", str(clone))
    said = runs_hooks(project, configuration, TPPLAN_RELEASES=releases)
    assert re.search(r"tpplan fmt\.+Passed\ntpplan check\.+Passed", said), said
    said = runs_hooks(project, configuration.replace("tp=8", "tp=3"), status=1)  # the program exists by now
    assert re.search(r"tpplan check\.+Failed.*TP5001", said, re.S), said


def test_pre_commit_installs_the_wheel_for_a_local_hook(project, packages):
    configuration = block("local")
    said = runs_hooks(project, configuration, PIP_FIND_LINKS=str(packages["wheel"].parent))
    assert re.search(r"tpplan check\.+Passed", said), said
    said = runs_hooks(project, configuration.replace("tp=8", "tp=3"), status=1)
    assert re.search(r"tpplan check\.+Failed.*TP5001", said, re.S), said


# ---- GitHub's rules ----

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_workflows_pass_actionlint():
    assert WORKFLOWS
    call(tool("actionlint"), *WORKFLOWS)


@pytest.mark.parametrize(
    "kind, files", [("workflows", WORKFLOWS), ("actions", sorted(ROOT.glob(".github/actions/*/action.yml")))]
)
def test_workflows_and_actions_match_the_github_schema(kind, files):
    assert files
    call(tool("check-jsonschema"), "--builtin-schema", f"vendor.github-{kind}", *files)


def test_schema_check_can_fail(tmp_path):
    """The check above detects a wrong workflow."""
    wrong = tmp_path / "release.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    assert "run-on" in call(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", wrong, status=1)
