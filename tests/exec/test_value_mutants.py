"""Mutants with one error in the values, kinds or paths of the modules of a rule, and a valid digest. No compiler writes them.
`tpplan show --verify` rejects each one."""

import copy
import json
import re

import pytest
from executor import ROOT
from small_models import SEQUENCE as SEQUENCE_RULES
from small_models import llama, plan
from test_mutants import DATA, SEQUENCE, TP, is_cut, is_norm, manifests, modules, parameters, values  # noqa: F401

from conftest import run, signed, write

WALKED = "a walked model"  # its manifest lists the collectives of a step


def flipped(style, side):
    def edit(manifest):
        for value in values(manifest, style, side):
            value["use_local"] = not value["use_local"]

    return edit


def said(style, side, **members):
    """Changes fields of a style's values; None removes them."""

    def edit(manifest):
        for value in values(manifest, style, side):
            for name, content in members.items():
                value.pop(name, None) if content is None else value.update({name: content})

    return edit


def without_kinds(*members):
    def edit(manifest):
        for record in parameters(manifest, lambda record: record.get("kind") == "linear"):
            for member in members:
                del record[member]

    return edit


def renamed_dims(manifest):
    for record in parameters(manifest, lambda record: record.get("dims")):
        record["dims"] = ["rows", "columns"]


def no_dim(manifest):
    for step in [s for value in values(manifest, "prepare_module_input", "inputs") for s in value["forward"]]:
        del step["dim"]


def moved(pattern, to):
    """Moves the first module with this path to another one."""

    def edit(manifest):
        module = next(module for module in manifest["modules"] if re.fullmatch(pattern, module["path"]))
        module["path"] = to

    return edit


def unruled(manifest):
    """A norm without rule, style and reductions, as if no rule had been written for it."""
    record = parameters(manifest, is_norm)[0]
    record |= {"rule": None, "style": None, "reason": "default", "grad_reduce": []}
    record.pop("steps", None)
    return record


def unruled_with_its_module(manifest):
    record = unruled(manifest)
    module = next(module for module in manifest["modules"] if module["path"] == record["path"].removesuffix(".weight"))
    manifest["modules"].remove(module)
    manifest["rules"][module["rule"]]["modules"] -= 1


def over_the_other_axis(manifest):
    """Moves values of all modules, with their steps, to dp, although the rules use tp; both axes have two ranks."""
    for module in manifest["modules"]:
        for value in (*module["inputs"], *module["outputs"]):
            gradient = value.get("gradient", {})
            for layouts in (value["from"], value["to"], *gradient.values()):
                layouts.reverse()
            for step in (*value.get("forward", []), *value.get("backward", [])):
                step["axis"] = "dp"


def undemanded(manifest):
    """Removes the required values from the rules."""
    for rule in manifest["rules"]:
        for member in ("axis", "inputs", "outputs", "holds"):
            rule.pop(member, None)


def rules_of(style, **members):
    def edit(manifest):
        for number in {module["rule"] for module in modules(manifest, style)}:
            manifest["rules"][number].update(members)

    return edit


MUTANTS = {
    "a result goes on as a DTensor": (TP, flipped("rowwise", "outputs")),
    "pieces go on as DTensors": (TP, flipped("colwise", "outputs")),
    "pieces of a sequence go on as local tensors": (SEQUENCE, flipped("sequence_parallel", "outputs")),
    "what attention takes is local": (SEQUENCE, flipped("prepare_module_input", "inputs")),
    "nobody says whether a result is local": (TP, said("rowwise", "outputs", use_local=None)),
    "the second argument": (TP, said("colwise", "inputs", arg=1)),
    "the second result": (TP, said("rowwise", "outputs", arg=1)),
    "an argument by name": (TP, said("rowwise", "inputs", arg=None, kwarg="input")),
    "another name": (SEQUENCE, said("prepare_module_input", "inputs", arg=None, kwarg="attention_mask")),
    "the batch is cut along another dim": (DATA, lambda m: m["data"].update(dim=1)),
    "no batch is cut": (DATA, lambda m: m["data"].update(axes=[])),
    "values change over the other axis": (DATA, over_the_other_axis),
    "rules are of the other axis": (DATA, rules_of("rowwise", axis="dp")),
    "linears are nothing, and their dims have no names": (TP, without_kinds("kind", "dims")),
    "dims have no names": (TP, without_kinds("dims")),
    "dims have other names": (TP, renamed_dims),
    "nobody sums gradients": (DATA, lambda m: [r.pop("by") for p in m["parameters"] for r in p["grad_reduce"]]),
    "a gather along no dim": (SEQUENCE, no_dim),
    "a rule touches no value in particular": (TP, lambda m: [v.pop("arg") for r in m["rules"] for v in r["inputs"]]),
    "a rule holds fewer": (TP, rules_of("rowwise", holds={"linear": 1})),
    "a module that there is not": (SEQUENCE, moved(r".*0\.self_attn", "model.layers.0.self_attm")),
    "a module that holds no weights, in place of one that does": (
        WALKED,
        moved(r".*\.0\.self_attn\.o_proj", "model.layers.0.self_attn.out_proj"),
    ),
    "a norm has lost its rule": (SEQUENCE, unruled),
    "a norm has lost its rule and its boundary": (SEQUENCE, unruled_with_its_module),
    "rules say nothing of what they do": (TP, undemanded),
    "rules of modules are like a spec's": (TP, lambda m: [rule.pop("axis") for rule in m["rules"]]),
}


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """SmolLM2, whose file has operations, with attention that gathers its input."""
    path = tmp_path_factory.mktemp("walked") / "plan.yaml"
    path.write_text(plan({"tp": 3}, SEQUENCE_RULES))
    result = run("compile", ROOT / "plans" / "models" / "smollm2-135m.json", path)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def known(manifests, walked):  # noqa: F811
    return lambda case: copy.deepcopy(walked) if case == WALKED else manifests(case)


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_rejected(known, name, tmp_path):
    case, edit = MUTANTS[name]
    manifest = known(case)
    before = copy.deepcopy(manifest)
    edit(manifest)
    assert manifest != before, "the edit changes nothing"
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(signed(manifest)))
    result = run("show", path, "--verify")
    assert result.returncode in (1, 2) and b"error[TP700" in result.stderr, (result.returncode, result.stderr)


@pytest.mark.parametrize("case", sorted({case for case, _ in MUTANTS.values()}))
def test_unmodified_manifests_are_verified(known, case, tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(signed(known(case))))
    assert run("show", path, "--verify").returncode == 0


def test_dtensor_keeps_its_placement_despite_input_layouts(tmp_path):
    """As in torch: the manifest is valid."""
    wide = SEQUENCE_RULES | {"*.k_proj": {"style": "colwise", "input_layouts": "Shard(1)"}}
    wide |= {
        "*.self_attn": {
            "style": "prepare_module_input",
            "input_layouts": "Shard(1)",
            "desired_input_layouts": "Replicate",
        }
    }
    result = run("compile", *write(tmp_path, llama(1), plan({"tp": 2}, wide, uneven="torch")))
    assert result.returncode == 0, result.stderr
    manifest = json.loads(result.stdout)
    (module,) = (module for module in manifest["modules"] if module["path"].endswith("k_proj"))
    assert module["inputs"][0]["from"] == module["inputs"][0]["to"] == ["Replicate"]
    (tmp_path / "manifest.json").write_bytes(result.stdout)
    assert run("show", tmp_path / "manifest.json", "--verify").returncode == 0
