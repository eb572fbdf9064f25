"""Every format with a place for it lists the unchecked parts: an unwalked plan differs from a correct one."""

import json
import xml.etree.ElementTree

import pytest
from conftest import ROOT, run

PLANS = ROOT / "plans"
GOLDEN = ROOT / "tests" / "golden"
WITHOUT = "operations, gradients and collectives were not checked: "
# A model and a plan, and the reason why its operations are not walked.
UNWALKED = {
    "jax": (
        GOLDEN / "diagnostics" / "jax-global-arrays-unchecked",
        "JAX and Keras compute on global arrays, so a sharding changes no value",
    ),
    "torch": (GOLDEN / "shardings" / "default-is-replicated", "the model file has no operations"),
}
WALKED = PLANS / "models" / "llama-3-8b.json", PLANS / "llama.yaml"


def sentences(format, text):
    """The unchecked parts in the output of a format."""
    if format == "json":
        left_out = json.loads(text).get("unchecked", [])
        return [f"{each['checks']} were not checked: {each['reason']}; {each['help']}" for each in left_out]
    if format == "sarif":
        (invocation,) = json.loads(text)["runs"][0]["invocations"]
        return [note["message"]["text"] for note in invocation.get("toolExecutionNotifications", [])]
    if format == "junit":
        return [part.text for part in xml.etree.ElementTree.fromstring(text)[0].findall("system-out")]
    lines = text.replace("&#58;", ":").replace("::notice title=tpplan::", "").splitlines()
    return [line for line in lines if "not checked: " in line]


@pytest.mark.parametrize("format", ("human", "json", "sarif", "github", "markdown", "junit"))
@pytest.mark.parametrize("name", UNWALKED)
def test_unwalked_model_is_reported_as_unchecked(name, format):
    folder, reason = UNWALKED[name]
    result = run("check", folder / "model.json", folder / "plan.yaml", "--format", format)
    (said,) = sentences(format, result.stdout.decode())
    assert result.returncode == 0 and said.startswith(WITHOUT + reason), said


@pytest.mark.parametrize("format", ("human", "json", "sarif", "github", "markdown", "junit"))
def test_walked_model_has_nothing_unchecked(format):
    result = run("check", *WALKED, "--mesh", "tp=2", "--format", format)
    assert result.returncode == 0 and sentences(format, result.stdout.decode()) == []


@pytest.mark.parametrize("format", ("human", "json", "markdown"))
def test_project_lists_unchecked_parts_once(format, tmp_path):
    folder, reason = UNWALKED["jax"]
    for name in ("model.json", "plan.yaml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    settings = "checks: [{model: model.json, plan: plan.yaml, mesh: ['fsdp=2,tp=2', 'fsdp=1,tp=2']}]\n"
    (tmp_path / ".tpplan.yaml").write_text(settings)
    result = run("check", "--format", format, cwd=tmp_path)
    (said,) = sentences(format, result.stdout.decode())
    assert result.returncode == 0 and said.removeprefix("model.json: ").startswith(WITHOUT + reason), said
