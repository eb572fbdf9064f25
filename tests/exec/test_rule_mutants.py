"""What rules, styles, sums of gradients and the values of a boundary say of each other: manifests that no compiler writes, each with
one thing wrong there and a digest as if it had been written so. Every one is refused when it is read, or by `run`; by Python's
reader, too, where tpplan.torch would communicate otherwise."""

import copy
import json
import sys

import pytest
from executor import ROOT
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

from conftest import signed

sys.path.insert(0, str(ROOT / "tools" / "python"))

import tpplan  # noqa: E402

BOTH = "fsdp dim0 x tp with sequence parallel"


def every(test, **members):
    """Changes members of all parameters that the test finds; None: takes them away."""

    def edit(manifest):
        for record in parameters(manifest, test):
            for name, value in members.items():
                if value is None:
                    del record[name]
                else:
                    record[name] = value

    return edit


def summed_again(manifest):
    """Over tp, too, where every rank has the whole sum: with the step that this makes."""
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
    """The rule, the gradients and the steps: nothing in the manifest speaks of them any more."""
    for rule in manifest["rules"]:
        rule.pop("sums", None)
    for record in parameters(manifest, is_norm):
        record["grad_reduce"] = []
        record.pop("steps", None)


def of_another_rule(style, other):
    """The parameters of one style stand under the rule of another one."""

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
    """The second module of a style is the first again."""

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
    """Changes members of all values of a side; None: takes them away."""

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
    """A value keeps its steps, and nothing says between which layouts they lead."""
    return each(style, side, **{"from": None, "to": None})


def sent(word, dtype, where):
    """The type of all that has one, in the rules or in the modules; None: takes it away."""

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
    """Values that stay on their rank are cast all the same."""
    for value in values(manifest, "rowwise", "inputs"):
        value["forward_dtype"] = "bfloat16"


def one_is_sent_as_it_is(manifest):
    next(value for value in values_of_all(manifest) if "forward_dtype" in value).pop("forward_dtype")


def ids_are_cast(manifest):
    manifest["modules"][0]["inputs"][0]["forward_dtype"] = "bfloat16"


IN_PYTHON = True  # tpplan.torch must not take it either
MUTANTS = {
    "a gradient that is whole is summed again": (DATA, summed_again, IN_PYTHON),
    "a gradient is summed over the other axis of equal size": (DATA, summed_over_the_other, IN_PYTHON),
    "sums in another order than the mesh": (BOTH, in_another_order, IN_PYTHON),
    "sums of data axes are the module's": (DATA, summed_by(tpplan="module"), not IN_PYTHON),
    "sums of a module are left to who runs the plan": (SEQUENCE, summed_by(module="tpplan"), not IN_PYTHON),
    "both change places": (BOTH, summed_by(tpplan="module", module="tpplan"), not IN_PYTHON),
    "the wrapper ddp sums what fsdp has cut": (FSDP, summed_by(fsdp="ddp", tpplan="ddp"), not IN_PYTHON),
    "a wrapper that is not there sums": (DATA, summed_by(tpplan="fsdp"), not IN_PYTHON),
    "sums of norms are forgotten with the rule's": (SEQUENCE, without_sums, not IN_PYTHON),
    "norms have no rule": (SEQUENCE, no_rule, not IN_PYTHON),
    "norms have no style": (SEQUENCE, every(is_norm, style=None), IN_PYTHON),
    "weights have no rule": (TP, every(is_cut, rule=None), IN_PYTHON),
    "weights of one style under the rule of another": (TP, of_another_rule("rowwise", "colwise"), IN_PYTHON),
    "norms under a rule that sums nothing": (SEQUENCE, of_another_rule("sequence_parallel", "colwise"), IN_PYTHON),
    "weights of another style than their modules": (TP, every(is_cut, style="colwise"), IN_PYTHON),
    "a style that there is not": (TP, every(is_cut, style="sidewise"), IN_PYTHON),
    "cut by default": (TP, every(is_cut, reason="default"), not IN_PYTHON),
    "norms are cut by a rule that is not there": (TP, every(is_norm, reason="rule"), not IN_PYTHON),
    "modules of another style": (TP, restyled("rowwise", "colwise"), IN_PYTHON),
    "modules exchange styles": (TP, exchanged("rowwise", "colwise"), IN_PYTHON),
    "modules of a style that there is not": (SEQUENCE, restyled("sequence_parallel", "sequential"), IN_PYTHON),
    "modules are missing, and nobody counts them": (SEQUENCE, uncounted, not IN_PYTHON),
    "a module in place of another": (SEQUENCE, twice("prepare_module_input"), IN_PYTHON),
    "a norm in place of another": (SEQUENCE, twice("sequence_parallel"), IN_PYTHON),
    "one module in place of all": (SEQUENCE, all_the_same, IN_PYTHON),
    "modules without a rule": (TP, module_without("rule"), IN_PYTHON),
    "values of no argument": (TP, each("colwise", "inputs", arg=None), not IN_PYTHON),
    "values of an argument that has a number and a name": (TP, each("rowwise", "inputs", kwarg="x"), not IN_PYTHON),
    "a value twice": (TP, value_twice("rowwise", "outputs"), not IN_PYTHON),
    "an input twice": (SEQUENCE, value_twice("prepare_module_input", "inputs"), not IN_PYTHON),
    "what the last module gives is not listed": (TP, side_empty(-1, "outputs"), IN_PYTHON),
    "what the first module takes is not listed": (TP, side_empty(0, "inputs"), IN_PYTHON),
    "the batch is cut twice over an axis": (DATA, lambda m: m["data"].update(axes=["dp", "dp"]), not IN_PYTHON),
    "steps between no layouts": (TP, open_values("rowwise", "outputs"), IN_PYTHON),
    "a linear is a norm": (TP, every(is_cut, kind="norm"), not IN_PYTHON),
    "a linear is nothing": (TP, every(is_cut, kind=None), not IN_PYTHON),
    "values are sent as they are": (SENT, sent("forward_dtype", None, "modules"), IN_PYTHON),
    "gradients are sent as they are": (SENT, sent("backward_dtype", None, "modules"), IN_PYTHON),
    "one value is sent as it is": (SENT, one_is_sent_as_it_is, IN_PYTHON),
    "values are sent in another type": (SENT, sent("forward_dtype", "float16", "modules"), IN_PYTHON),
    "gradients are sent in whole numbers": (SENT, sent("backward_dtype", "int32", "modules"), IN_PYTHON),
    "values are sent in a type that there is not": (SENT, sent("forward_dtype", "bf16", "modules"), IN_PYTHON),
    "a rule forgets its type": (SENT, sent("forward_dtype", None, "rules"), IN_PYTHON),
    "a rule has another type": (SENT, sent("backward_dtype", "float16", "rules"), IN_PYTHON),
    "a rule has a type that nothing is sent in": (
        SENT,
        lambda m: m["rules"][0].update(backward_dtype="float16"),
        IN_PYTHON,
    ),
    "values that stay are cast": (SENT, sent_where_nothing_is, IN_PYTHON),
    "token ids are cast": (SENT, ids_are_cast, IN_PYTHON),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_noticed(manifests, name, tmp_path):  # noqa: F811
    case, edit, in_python = MUTANTS[name]
    assert_noticed(manifests(case), edit, tmp_path)
    if in_python:
        with pytest.raises(tpplan.ManifestError):
            tpplan.load_manifest(tmp_path / "manifest.json")


@pytest.mark.parametrize("case", sorted({case for case, *_ in MUTANTS.values()}))
def test_what_the_compiler_wrote_is_read_by_both(manifests, case, tmp_path):  # noqa: F811
    assert run_manifest(manifests(case), tmp_path).returncode == 0
    tpplan.load_manifest(tmp_path / "manifest.json")


def test_a_manifest_that_says_less_as_older_ones_do_is_read(manifests, tmp_path):  # noqa: F811
    """Without a digest nobody says that these members were written."""
    manifest = manifests(SEQUENCE)
    del manifest["digest"]
    for rule in manifest["rules"]:
        del rule["modules"]
    for record in manifest["parameters"]:
        for entry in record["grad_reduce"]:
            del entry["by"]
    (tmp_path / "older.json").write_text(json.dumps(manifest))
    tpplan.load_manifest(tmp_path / "older.json")
    (tmp_path / "newer.json").write_text(json.dumps(signed(manifest)))
    from executor import execute

    words = ("--quiet", "--iterations", 1, "--warmup", 0, "--tokens", 4)
    assert execute("run", tmp_path / "older.json", *words).returncode == 0
    assert "does not say at how many modules" in execute("run", tmp_path / "newer.json", *words).stderr
