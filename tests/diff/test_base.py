"""tpplan diff --base: the old side comes from a git commit. No argument reaches a shell or becomes an option of git."""

import os
import shutil
import subprocess

import pytest

from conftest import linear_model, plan_text, run, write

MODEL = linear_model(**{f"layers__{i}__w": [8, 8] for i in range(4)})
OLD, NEW = plan_text({"layers.*.w": "colwise"}), plan_text({"layers.*.w": "rowwise"})
NO_SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def git(folder, *words):
    who = [f"GIT_{role}_{what}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run(
        ["git", "-C", folder, *words],
        check=True,
        capture_output=True,
        env=clean | NO_SETTINGS | dict.fromkeys(who, "a@b"),
    )


def commit(folder, message="files"):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


@pytest.fixture
def repository(tmp_path):
    """A repository with the old plan on branch `base`, and the new one in its folder."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    write(folder, MODEL, OLD)
    commit(folder)
    git(folder, "branch", "base")
    (folder / "plan.yaml").write_text(NEW)
    return folder


def diff(folder, *words):
    return run("diff", *words, cwd=folder, env=NO_SETTINGS)


def test_old_side_is_the_plan_of_the_commit(repository, tmp_path):
    (tmp_path / "old.yaml").write_text(OLD)
    expected = diff(repository, "model.json", tmp_path / "old.yaml", "plan.yaml")
    assert expected.returncode == 1 and b"colwise -> rowwise" in expected.stdout
    for ref in ("base", "HEAD", "HEAD~0"):
        found = diff(repository, "model.json", "plan.yaml", "--base", ref)
        assert (found.returncode, found.stdout, found.stderr) == (1, expected.stdout, b"")
    commit(repository)
    assert diff(repository, "model.json", "plan.yaml", "--base", "base").stdout == expected.stdout
    assert diff(repository, "model.json", "plan.yaml", "--base", "HEAD").returncode == 0


def test_model_of_the_commit_is_used_too(repository):
    write(repository, linear_model(**{f"layers__{i}__w": [8, 8] for i in range(5)}), OLD)
    text = diff(repository, "model.json", "plan.yaml", "--base", "base").stdout.decode()
    assert text.startswith("1 of 5 parameters differs") and "  + layers.4.w.weight" in text


def test_model_missing_from_the_commit_is_used_as_it_is(repository):
    git(repository, "rm", "-q", "--cached", "model.json")
    git(repository, "commit", "-q", "-m", "the model is made anew each time")
    result = diff(repository, "model.json", "plan.yaml", "--base", "HEAD")
    assert result.returncode == 1 and b"colwise -> rowwise" in result.stdout
    assert result.stderr == b"model.json is not in commit `HEAD`: both plans are compiled for its current version\n"
    assert diff(repository, "-q", "model.json", "plan.yaml", "--base", "HEAD").stderr == b""


def test_files_from_other_folders_and_through_links(repository, tmp_path):
    expected = diff(repository, "model.json", "plan.yaml", "--base", "base").stdout
    (repository / "sub").mkdir()
    assert diff(repository / "sub", "../model.json", "../plan.yaml", "--base", "base").stdout == expected
    assert diff(tmp_path, repository / "model.json", repository / "plan.yaml", "--base", "base").stdout == expected
    (tmp_path / "link.yaml").symlink_to(repository / "plan.yaml")
    assert diff(tmp_path, repository / "model.json", "link.yaml", "--base", "base").stdout == expected


def test_manifest_in_git(repository):
    for text in (OLD, NEW):
        (repository / "plan.yaml").write_text(text)
        assert run("compile", "model.json", "plan.yaml", "-q", "-o", "manifest.json", cwd=repository).returncode == 0
        if text is OLD:
            commit(repository, "manifest")
    result = diff(repository, "manifest.json", "--base", "HEAD")
    assert result.returncode == 1 and b"colwise -> rowwise" in result.stdout
    result = diff(repository, "plan.yaml", "--base", "HEAD")
    assert result.returncode == 2 and b"tpplan diff MODEL PLAN --base COMMIT" in result.stderr


@pytest.mark.parametrize(
    "change, words, said",
    [
        (
            None,
            ["--base", "nobody"],
            ["nobody:plan.yaml:1:1: error[TP1001]: the file's repository has no commit `nobody`", "git fetch"],
        ),
        (None, ["--base", "base:plan.yaml"], ["the file's repository has no commit `base:plan.yaml`"]),
        (
            "plan.yaml",
            ["--base", "base"],
            ["base:other.yaml:1:1: error[TP1001]: the file is not in commit `base`", "git log --oneline --"],
        ),
    ],
    ids=["no such commit", "a file and no commit", "not in the commit"],
)
def test_missing_git_object_has_a_help(repository, change, words, said):
    name = "plan.yaml"
    if change:
        name = "other.yaml"
        (repository / change).rename(repository / name)
    result = diff(repository, "model.json", name, *words)
    assert (result.returncode, result.stdout) == (2, b"")
    assert [part for part in said if part not in result.stderr.decode()] == []


def test_folder_without_a_repository(tmp_path):
    write(tmp_path, MODEL, OLD)
    result = run(
        "diff",
        "model.json",
        "plan.yaml",
        "--base",
        "main",
        cwd=tmp_path,
        env={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
    )
    assert (result.returncode, result.stdout) == (2, b"")
    assert (
        b"main:plan.yaml:1:1: error[TP1001]: the file is not in a git repository" in result.stderr
        and b"pass two files instead of --base" in result.stderr
    )


def test_machine_without_git(repository, tmp_path):
    result = run("diff", "model.json", "plan.yaml", "--base", "base", cwd=repository, env={"PATH": str(tmp_path)})
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"error[TP1001]: cannot start `git`" in result.stderr and b"install git" in result.stderr


def test_errors_of_the_old_plan_show_its_commit(repository):
    (repository / "plan.yaml").write_text(plan_text({"nothing": "colwise"}))
    commit(repository, "wrong")
    (repository / "plan.yaml").write_text(NEW)
    result = diff(repository, "model.json", "plan.yaml", "--base", "HEAD")
    assert (
        result.returncode == 2 and b"HEAD:plan.yaml:5:3: error[TP4001]: rule `nothing` matches nothing" in result.stderr
    )


@pytest.mark.parametrize("ref", ["--output=pwned", "-x", ""])
def test_ref_never_becomes_an_option_of_git(repository, ref):
    result = diff(repository, "model.json", "plan.yaml", f"--base={ref}")
    assert (result.returncode, result.stdout) == (2, b"") and sorted(p.name for p in repository.iterdir()) == [
        ".git",
        "model.json",
        "plan.yaml",
    ]


@pytest.mark.parametrize(
    "name",
    ["$(touch pwned).yaml", "a; touch pwned.yaml", "--help", "*.yaml", ":(top)plan", "b\nc\x1b[31m.yaml", "HEAD:x"],
)
def test_hostile_file_names_are_only_names(repository, name):
    (repository / "plan.yaml").rename(repository / name)
    (repository / name).write_text(OLD)
    commit(repository, "another name")
    (repository / name).write_text(NEW)
    assert b"colwise -> rowwise" in diff(repository, "model.json", f"./{name}", "--base", "HEAD").stdout
    result = diff(repository, "model.json", f"./{name}", "--base", "$(touch pwned)\x1b[31m\n::error::x")
    assert result.returncode == 2 and b"\x1b" not in result.stderr and b"\n::error" not in result.stderr
    assert not (repository / "pwned").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (
            ["model.json", "plan.yaml", "plan.yaml", "--base", "base"],
            b"--base replaces OLD: pass only MODEL PLAN, or MANIFEST",
        ),
        (["model.json", "-", "--base", "base"], b"git has no version of standard input"),
        (["plan.yaml"], b"--base COMMIT replaces OLD"),
        (["model.json", "plan.yaml", "--base", "-x"], b"tpplan: error: "),
    ],
)
def test_conflicting_arguments_are_usage_errors(repository, words, said):
    result = diff(repository, *words)
    assert (result.returncode, result.stdout) == (2, b"") and said in result.stderr
