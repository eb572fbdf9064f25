"""Mutants with one error in rules, styles, gradient reductions or boundary values, and a valid digest. No compiler writes them. The reader
or `run` rejects each one."""

import copy
import json

import pytest
from test_mutants import (  # noqa: F401
    DATA,
    FSDP,
    SENT,
    SEQUENCE,
    TP,
    assert_noticed,
    is_cut,
    is_norm,
    manifests,
    modules,
    parameters,
    run_manifest,
    values,
)

from conftest import run, signed

BOTH = "fsdp dim0 x tp with sequence parallel"


def every(test, **members):
    """Changes fields of all parameters that the predicate selects; None removes them."""

    def edit(manifest):
        for record in parameters(manifest, test):
            for name, value in members.items():
                if value is None:
                    del record[name]
                else:
                    record[name] = value

    return edit


def summed_again(manifest):
    """Reduces over tp again, although every rank has the full sum: with the step for it."""
    for record in parameters(manifest, is_norm):
        record["grad_reduce"].append({"axis": "tp", "kind": "all_reduce", "by": "module"})
        record["steps"] += [step | {"axis": "tp"} for step in record["steps"] if step["part"] == "reduce"]


def summed_over_the_other(manifest):
    for record in parameters(manifest, is_norm):
        for entry in (*record["grad_reduce"], *record["steps"]):
            entry["axis"] = "tp"


def in_another_order(manifest):
    for record in parameters(manifest, is_norm):
        assert len(record["grad_reduce"]) == 2
        record["grad_reduce"].reverse()


def summed_by(**who):
    def edit(manifest):
        found = [entry for record in manifest["parameters"] for entry in record["grad_reduce"] if entry["by"] in who]
        assert found
        for entry in found:
            entry["by"] = who[entry["by"]]

    return edit


def without_sums(manifest):
    """Removes the rule, the gradients and the steps: nothing in the manifest mentions them any more."""
    for rule in manifest["rules"]:
        rule.pop("sums", None)
    for record in parameters(manifest, is_norm):
        record["grad_reduce"] = []
        record.pop("steps", None)


def of_another_rule(style, other):
    """Lists the parameters of one style under the rule of another."""

    def edit(manifest):
        rule = next(record["rule"] for record in manifest["parameters"] if record["style"] == other)
        every(lambda record: record["style"] == style, rule=rule)(manifest)

    return edit


def no_rule(manifest):
    every(is_norm, rule=None, style=None)(manifest)
    for record in parameters(manifest, is_norm):
        record |= {"rule": None, "style": None}


def uncounted(manifest):
    for rule in manifest["rules"]:
        del rule["modules"]
    manifest["modules"] = [module for module in manifest["modules"] if module["style"] != "prepare_module_input"]


def twice(style):
    """The second module of a style repeats the first."""

    def edit(manifest):
        found = modules(manifest, style)
        rule = found[0]["rule"]
        of_rule = [module for module in found if module["rule"] == rule]
        of_rule[1]["path"] = of_rule[0]["path"]

    return edit


def all_the_same(manifest):
    for module in manifest["modules"]:
        module["path"] = manifest["modules"][0]["path"]


def restyled(style, other):
    def edit(manifest):
        for module in modules(manifest, style):
            module["style"] = other

    return edit


def exchanged(one, other):
    def edit(manifest):
        both = modules(manifest, one), modules(manifest, other)
        for found, style in zip(both, (other, one)):
            for module in found:
                module["style"] = style

    return edit


def each(style, side, **members):
    """Changes fields of all values of a side; None removes them."""

    def edit(manifest):
        for value in values(manifest, style, side):
            for name, content in members.items():
                value.pop(name, None) if content is None else value.update({name: content})

    return edit


def value_twice(style, side):
    def edit(manifest):
        for module in modules(manifest, style):
            module[side] = [*module[side], copy.deepcopy(module[side][0])]

    return edit


def module_without(member):
    def edit(manifest):
        for module in manifest["modules"]:
            del module[member]

    return edit


def side_empty(number, side):
    def edit(manifest):
        manifest["modules"][number][side] = []

    return edit


def open_values(style, side):
    """Removes the layouts of a value but leaves its steps."""
    return each(style, side, **{"from": None, "to": None})


def sent(word, dtype, where):
    """Changes the communication dtype of all rules or modules that have one; None removes it."""

    def edit(manifest):
        entries = manifest["rules"] if where == "rules" else values_of_all(manifest)
        found = [entry for entry in entries if word in entry]
        assert found
        for entry in found:
            entry.pop(word) if dtype is None else entry.update({word: dtype})

    return edit


def values_of_all(manifest):
    return [value for module in manifest["modules"] for side in ("inputs", "outputs") for value in module[side]]


def sent_where_nothing_is(manifest):
    """Adds a cast to values that stay on their rank."""
    for value in values(manifest, "rowwise", "inputs"):
        value["forward_dtype"] = "bfloat16"


def one_is_sent_as_it_is(manifest):
    next(value for value in values_of_all(manifest) if "forward_dtype" in value).pop("forward_dtype")


def ids_are_cast(manifest):
    manifest["modules"][0]["inputs"][0]["forward_dtype"] = "bfloat16"


MUTANTS = {
    "a gradient that is whole is summed again": (DATA, summed_again),
    "a gradient is summed over the other axis of equal size": (DATA, summed_over_the_other),
    "sums in another order than the mesh": (BOTH, in_another_order),
    "sums of data axes are the module's": (DATA, summed_by(tpplan="module")),
    "sums of a module are left to who runs the plan": (SEQUENCE, summed_by(module="tpplan")),
    "both change places": (BOTH, summed_by(tpplan="module", module="tpplan")),
    "the wrapper ddp sums what fsdp has cut": (FSDP, summed_by(fsdp="ddp", tpplan="ddp")),
    "a wrapper that is not there sums": (DATA, summed_by(tpplan="fsdp")),
    "sums of norms are forgotten with the rule's": (SEQUENCE, without_sums),
    "norms have no rule": (SEQUENCE, no_rule),
    "norms have no style": (SEQUENCE, every(is_norm, style=None)),
    "weights have no rule": (TP, every(is_cut, rule=None)),
    "weights of one style under the rule of another": (TP, of_another_rule("rowwise", "colwise")),
    "norms under a rule that sums nothing": (SEQUENCE, of_another_rule("sequence_parallel", "colwise")),
    "weights of another style than their modules": (TP, every(is_cut, style="colwise")),
    "a style that there is not": (TP, every(is_cut, style="sidewise")),
    "cut by default": (TP, every(is_cut, reason="default")),
    "norms are cut by a rule that is not there": (TP, every(is_norm, reason="rule")),
    "modules of another style": (TP, restyled("rowwise", "colwise")),
    "modules exchange styles": (TP, exchanged("rowwise", "colwise")),
    "modules of a style that there is not": (SEQUENCE, restyled("sequence_parallel", "sequential")),
    "modules are missing, and nobody counts them": (SEQUENCE, uncounted),
    "a module in place of another": (SEQUENCE, twice("prepare_module_input")),
    "a norm in place of another": (SEQUENCE, twice("sequence_parallel")),
    "one module in place of all": (SEQUENCE, all_the_same),
    "modules without a rule": (TP, module_without("rule")),
    "values of no argument": (TP, each("colwise", "inputs", arg=None)),
    "values of an argument that has a number and a name": (TP, each("rowwise", "inputs", kwarg="x")),
    "a value twice": (TP, value_twice("rowwise", "outputs")),
    "an input twice": (SEQUENCE, value_twice("prepare_module_input", "inputs")),
    "what the last module gives is not listed": (TP, side_empty(-1, "outputs")),
    "what the first module takes is not listed": (TP, side_empty(0, "inputs")),
    "the batch is cut twice over an axis": (DATA, lambda m: m["data"].update(axes=["dp", "dp"])),
    "steps between no layouts": (TP, open_values("rowwise", "outputs")),
    "a linear is a norm": (TP, every(is_cut, kind="norm")),
    "a linear is nothing": (TP, every(is_cut, kind=None)),
    "values are sent as they are": (SENT, sent("forward_dtype", None, "modules")),
    "gradients are sent as they are": (SENT, sent("backward_dtype", None, "modules")),
    "one value is sent as it is": (SENT, one_is_sent_as_it_is),
    "values are sent in another type": (SENT, sent("forward_dtype", "float16", "modules")),
    "gradients are sent in whole numbers": (SENT, sent("backward_dtype", "int32", "modules")),
    "values are sent in a type that there is not": (SENT, sent("forward_dtype", "bf16", "modules")),
    "a rule forgets its type": (SENT, sent("forward_dtype", None, "rules")),
    "a rule has another type": (SENT, sent("backward_dtype", "float16", "rules")),
    "a rule has a type that nothing is sent in": (SENT, lambda m: m["rules"][0].update(backward_dtype="float16")),
    "values that stay are cast": (SENT, sent_where_nothing_is),
    "token ids are cast": (SENT, ids_are_cast),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_detected(manifests, name, tmp_path):  # noqa: F811
    case, edit = MUTANTS[name]
    assert_noticed(manifests(case), edit, tmp_path)


@pytest.mark.parametrize("case", sorted({case for case, _ in MUTANTS.values()}))
def test_unmodified_manifests_are_right(manifests, case, tmp_path):  # noqa: F811
    assert run_manifest(manifests(case), tmp_path).returncode == 0


MISSING = {
    "who sums": lambda m: [entry.pop("by") for record in m["parameters"] for entry in record["grad_reduce"]],
    "how many modules": lambda m: [rule.pop("modules") for rule in m["rules"]],
    "what a rule holds": lambda m: [rule.pop("holds") for rule in m["rules"]],
    "distributions": lambda m: m["init"].pop("distributions"),
    "pieces of a payload": lambda m: [
        step.pop("pieces") for module in m["modules"] for v in module["outputs"] for step in v.get("forward", ())
    ],
    "digest": lambda m: m.pop("digest"),
}


@pytest.mark.parametrize("name", MISSING)
def test_fields_of_every_manifest_are_required(manifests, name, tmp_path):  # noqa: F811
    manifest = manifests(SEQUENCE)
    MISSING[name](manifest)
    (tmp_path / "m.json").write_text(json.dumps(manifest if name == "digest" else signed(manifest)))
    result = run("show", tmp_path / "m.json")
    assert result.returncode == 2 and b"error[TP7001]" in result.stderr, result.stderr
