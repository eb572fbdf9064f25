"""Formats for repository services name files relative to the root, from any working directory; others as given."""

import json
import re

import pytest

from conftest import linear_model, plan_text, run, write

NAMED = {
    "sarif": lambda out: json.loads(out)["runs"][0]["results"][0]["locations"][0]["physicalLocation"][
        "artifactLocation"
    ]["uri"],
    "github": lambda out: re.search(r"file=([^,]*),", out)[1],
    "gitlab": lambda out: json.loads(out)[0]["location"]["path"],
    "junit": lambda out: re.search(r"[\w./-]*plan\.yaml", out)[0],
    "markdown": lambda out: re.search(r"[\w./-]*plan\.yaml", out)[0],
}
GIVEN = {
    "json": lambda out: json.loads(out)["diagnostics"][0]["place"]["file"],
    "jsonl": lambda out: json.loads(out.splitlines()[0])["place"]["file"],
    "human": lambda out: out.split(":")[0],
}


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    (root / "plans" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    write(root / "plans", linear_model(wq=[16, 9]), plan_text({"wq": "rowwise"}))
    return root


def checked(form, cwd, plan):
    model = plan.replace("plan.yaml", "model.json")
    return run("check", model, plan, "--format", form, "--color", "never", cwd=cwd).stdout.decode()


@pytest.mark.parametrize("form", NAMED)
def test_annotations_name_files_from_the_root(form, repository):
    for folder, plan in (
        (repository, "plans/plan.yaml"),
        (repository, "./plans/plan.yaml"),
        (repository / "plans", "plan.yaml"),
        (repository / "plans" / "deep", "../plan.yaml"),
        (repository / "plans", str(repository / "plans" / "plan.yaml")),
    ):
        assert NAMED[form](checked(form, folder, plan)) == "plans/plan.yaml", (folder, plan)


@pytest.mark.parametrize("form", GIVEN)
def test_other_formats_name_files_as_given(form, repository):
    assert GIVEN[form](checked(form, repository / "plans" / "deep", "../plan.yaml")) == "../plan.yaml"


@pytest.mark.parametrize("form", ["github", "gitlab"])
def test_file_outside_a_repository_is_named_as_given(form, repository, tmp_path):
    write(tmp_path, linear_model(wq=[16, 9]), plan_text({"wq": "rowwise"}))
    assert NAMED[form](checked(form, tmp_path, "plan.yaml")) == "plan.yaml"  # no repository at all
    outside = str(tmp_path / "plan.yaml")
    assert NAMED[form](checked(form, repository, outside)) == outside
