"""Program and schema agree on the structure of every plan and model, as far as a schema can express it."""

import itertools
import json

import pytest
from schema_files import (
    MODEL,
    OPTIONS,
    PLAN,
    SCHEMAS,
    VALIDATORS,
    check,
    errors,
    model,
    module,
    plan,
    refusals,
    rule,
    structural_errors,
    styled,
    tensor,
    without,
)

# ---- one fact each ----

OUTPUTS = {"output_layouts": "Shard(0)", "desired_output_layouts": "Replicate"}
INT8 = {"shape": [1], "dtype": "int8"}


def inputs(*layouts):
    """prepare_module_input with these layouts and desired layouts."""
    return styled("prepare_module_input", **dict(zip(("input_layouts", "desired_input_layouts"), layouts)))


def kwargs(*layouts):
    return styled("prepare_module_input", **dict(zip(("input_kwarg_layouts", "desired_input_kwarg_layouts"), layouts)))


def outputs(*layouts, **more):
    return styled("prepare_module_output", **dict(zip(("output_layouts", "desired_output_layouts"), layouts)), **more)


def suppressing(**suppression):
    return plan(suppress=[suppression])


def logical(*rules, **more):
    return plan(dialect="logical", tp_plan=list(rules), **more)


# Name: a plan, and the code of its only error, or None for a plan with a valid structure.
PLANS = {
    "smallest plan": (PLAN, None),
    "every setting": (
        plan(
            dialect="keras",
            keras_match="search",
            axis="tp",
            uneven="torch",
            blocks={"b.*": {"c": "rowwise"}},
            data={"axes": ["fsdp"], "dim": 0},
            remat=["b.*"],
            init={"*.a": "zeros", "*": {"normal": {"mean": 0, "std": 0.02}}},
            fsdp={"axis": "fsdp", "min_weight_size": 0, "patterns": ["*"], "units": ["b.*"], "policy": "dim0"},
        ),
        None,
    ),
    "root is a list": ([], "TP3003"),
    "root is text": ('"plan"', "TP3003"),
    "root is null": ("null", "TP3003"),
    "no format": (without(PLAN, "format"), "TP3001"),
    "format of a model": (plan(format="tpplan.model/1"), "TP3001"),
    "format of a later version": (plan(format="tpplan.plan/2"), "TP3001"),
    "format is null": (plan(format=None), "TP3003"),
    "unknown key": (plan(tpplan={}), "TP3004"),
    "$schema": (plan(**{"$schema": "plan.schema.json"}), "TP3004"),
    "dialect glob": (plan(dialect="glob"), None),
    "dialect unknown": (plan(dialect="globs"), "TP3013"),
    "dialect in capitals": (plan(dialect="Glob"), "TP3013"),
    "dialect is a list": (plan(dialect=["glob"]), "TP3003"),
    "pairs and mappings in the logical dialect": (
        logical(["a", "tp"], ["a", None], ["b", ["fsdp", "tp"]], {"name": "c", "axes": "tp", "optional": True}),
        None,
    ),
    "mapping of rules in the logical dialect": (plan(dialect="logical"), "TP3003"),
    "list of rules in the glob dialect": (plan(tp_plan=[["a", "tp"]]), "TP3003"),
    "no rules in the logical dialect": (logical(), "TP3010"),
    "rule of one entry in the logical dialect": (logical(["a"]), "TP3003"),
    "rule of three entries in the logical dialect": (logical(["a", "tp", "fsdp"]), "TP3003"),
    "rule without axes in the logical dialect": (logical({"name": "a"}), "TP3002"),
    "unknown key of a rule in the logical dialect": (logical({"name": "a", "axes": None, "axis": "tp"}), "TP3004"),
    "blocks in the logical dialect": (logical(["a", "tp"], blocks={"b": {"c": "colwise"}}), "TP3008"),
    "keras_match in the keras dialect": (plan(dialect="keras", keras_match="match"), None),
    "keras_match unknown": (plan(dialect="keras", keras_match="findall"), "TP3013"),
    "keras_match without a dialect": (plan(keras_match="match"), "TP3008"),
    "keras_match in the regex dialect": (plan(dialect="regex", keras_match="match"), "TP3008"),
    "uneven torch": (plan(uneven="torch"), None),
    "uneven unknown": (plan(uneven="jax"), "TP3013"),
    "uneven is a boolean": (plan(uneven=True), "TP3003"),
    "axis is a list": (plan(axis=["tp"]), "TP3003"),
    "no mesh": (without(PLAN, "mesh"), "TP3002"),
    "mesh is a list": (plan(mesh=["tp"]), "TP3003"),
    "mesh without axes": (plan(mesh={}), "TP3009"),
    "mesh axis of size 1": (plan(mesh={"tp": 1}), None),
    "mesh axis of size 0": (plan(mesh={"tp": 0}), "TP3009"),
    "mesh axis of negative size": (plan(mesh={"tp": -4}), "TP3009"),
    "mesh axis size quoted": (plan(mesh={"tp": "4"}), "TP3009"),
    "mesh axis size is a fraction": (plan(mesh={"tp": 4.5}), "TP3009"),
    "mesh axis size is null": (plan(mesh={"tp": None}), "TP3009"),
    "mesh axis size is a list": (plan(mesh={"tp": [4]}), "TP3009"),
    "mesh axis size of 2^31": (plan(mesh={"tp": 2**31}), "TP3009"),
    "mesh axis size of 2^31 - 1": (plan(mesh={"tp": 2**31 - 1}), None),
    "mesh axis with an empty name": (plan(mesh={"tp": 4, "": 2}), "TP3009"),
    "32 mesh axes": (plan(mesh={f"x{i}": 1 for i in range(31)} | {"tp": 4}), None),
    "33 mesh axes": (plan(mesh={f"x{i}": 1 for i in range(32)} | {"tp": 4}), "TP3009"),
    "neither rules nor fsdp": (without(PLAN, "tp_plan"), "TP3010"),
    "empty tp_plan": (plan(tp_plan={}), "TP3010"),
    "tp_plan is null": (plan(tp_plan=None), "TP3010"),
    "tp_plan is null beside fsdp": (plan(tp_plan=None, fsdp={}), None),
    "fsdp in place of rules": (without(plan(fsdp={}), "tp_plan"), None),
    "blocks in place of rules": (without(plan(blocks={"b": {"c": "colwise"}}), "tp_plan"), None),
    "empty blocks in place of rules": (without(plan(blocks={}), "tp_plan"), "TP3010"),
    "empty block in place of rules": (without(plan(blocks={"b": {}, "c": {}}), "tp_plan"), "TP3010"),
    "one block of two empty": (without(plan(blocks={"b": {}, "c": {"d": "colwise"}}), "tp_plan"), None),
    "tp_plan is a list": (plan(tp_plan=[{"a": "colwise"}]), "TP3003"),
    "blocks is a list": (plan(blocks=["b"]), "TP3003"),
    "blocks is null": (plan(blocks=None), "TP3003"),
    "block is a style": (plan(blocks={"b": "colwise"}), "TP3003"),
    "block is null": (plan(blocks={"b": None}), "TP3003"),
    "unknown style in a block": (plan(blocks={"b": {"c": "columnwise"}}), "TP3005"),
    "rule is null": (rule(None), "TP3003"),
    "rule is a number": (rule(3), "TP3003"),
    "rule is a boolean": (rule(False), "TP3003"),
    "rule is a style": (rule("rowwise"), None),
    "rule is a style that torch lacks": (rule("replicate"), None),
    "rule is an unknown style": (rule("columnwise"), "TP3005"),
    "rule is a style in capitals": (rule("Colwise"), "TP3005"),
    "rule is an empty mapping": (rule({}), "TP3002"),
    "rule with options only": (rule({"optional": True}), "TP3002"),
    "rule with an unknown key": (styled("colwise", input_layout="Shard(0)"), "TP3004"),
    "rule with style and spec": (styled("colwise", spec=["tp", None]), "TP3008"),
    "style is a list": (styled(["colwise"]), "TP3003"),
    "style is null": (styled(None), "TP3003"),
    "style with an axis": (styled("colwise", axis="fsdp"), None),
    "rule's axis is a list": (styled("colwise", axis=["fsdp"]), "TP3003"),
    "optional rule": (styled("colwise", optional=True), None),
    "optional is quoted": (styled("colwise", optional="true"), "TP3003"),
    "optional is a number": (styled("colwise", optional=1), "TP3003"),
    "spec as a bare list": (rule(["tp", None]), None),
    "spec under its key": (rule({"spec": ["tp", None]}), None),
    "spec with optional": (rule({"spec": ["tp", None], "optional": False}), None),
    "spec of nothing": (rule([]), None),
    "spec with two axes on a dim": (rule([["tp", "fsdp"], None]), None),
    "spec with an empty list": (rule([[], "tp"]), None),
    "spec with an ellipsis": (rule(["...", "tp"]), None),
    "spec is text": (rule({"spec": "tp"}), "TP3003"),
    "spec is null": (rule({"spec": None}), "TP3003"),
    "spec is a mapping": (rule({"spec": {"0": "tp"}}), "TP3003"),
    "spec entry is a mapping": (rule([{"tp": 0}, None]), "TP3003"),
    "spec entry is a list in a list": (rule([[["tp"]], None]), "TP3003"),
    "spec entry holds null": (rule([["tp", None], None]), "TP3003"),
    "spec with an axis option": (rule({"spec": ["tp", None], "axis": "tp"}), "TP3008"),
    "spec with a layout": (rule({"spec": ["tp", None], "output_layouts": "Shard(0)"}), "TP3008"),
    "spec with use_local_output": (rule({"spec": ["tp", None], "use_local_output": True}), "TP3008"),
    "one layout": (styled("colwise", output_layouts="Shard(1)"), None),
    "one layout in a list": (styled("rowwise", output_layouts=["Shard(1)"]), None),
    "two layouts for one output": (styled("rowwise", output_layouts=["Shard(1)", "Shard(1)"]), "TP3015"),
    "no layout for one output": (styled("rowwise", output_layouts=[]), "TP3015"),
    "null for one output": (styled("rowwise", output_layouts=None), "TP3015"),
    "null in a list for one input": (styled("colwise", input_layouts=[None]), "TP3015"),
    "layout with parentheses": (styled("colwise", input_layouts="Replicate()"), None),
    "layout with a negative dim": (styled("colwise", input_layouts="Shard(-1)"), None),
    "layout with spaces": (styled("colwise", input_layouts="Shard( 1 )"), None),
    "layout without a dim": (styled("colwise", input_layouts="Shard"), "TP3007"),
    "layout with empty parentheses": (styled("colwise", input_layouts="Shard()"), "TP3007"),
    "layout with torch's keyword": (styled("colwise", input_layouts="Shard(dim=1)"), "TP3007"),
    "layout of dim 5": (styled("colwise", input_layouts="Shard(5)"), None),
    "layout of dim 6": (styled("colwise", input_layouts="Shard(6)"), "TP3007"),
    "layout of dim -6": (styled("colwise", input_layouts="Shard(-6)"), None),
    "layout of dim -65": (styled("colwise", input_layouts="Shard(-65)"), "TP3007"),
    "layout in small letters": (styled("colwise", input_layouts="replicate"), "TP3007"),
    "layout that is strided": (styled("colwise", input_layouts="StridedShard(0, 2)"), "TP3007"),
    "layout is a number": (styled("colwise", input_layouts=1), "TP3007"),
    "layout is a mapping": (styled("colwise", input_layouts={"Shard": 0}), "TP3003"),
    "layout in a list in a list": (styled("colwise", input_layouts=[["Shard(0)"]]), "TP3003"),
    "partial input": (styled("rowwise", input_layouts="Partial"), None),
    "partial input with an operation": (styled("rowwise", input_layouts="Partial(max)"), None),
    "partial input with an unknown operation": (styled("rowwise", input_layouts="Partial(mean)"), "TP3007"),
    "partial output of colwise": (styled("colwise", output_layouts="Partial"), "TP3016"),
    "partial output of rowwise": (styled("rowwise", output_layouts="Partial"), None),
    "partial average of rowwise": (styled("rowwise", output_layouts=["Partial(avg)"]), "TP3016"),
    "use_local_output": (styled("colwise", use_local_output=False), None),
    "use_local_output is text": (styled("colwise", use_local_output="no"), "TP3003"),
    "use_local_output is null": (styled("colwise", use_local_output=None), "TP3003"),
    "sequence_dim": (styled("sequence_parallel", sequence_dim=0), None),
    "sequence_dim from the end": (styled("sequence_parallel", sequence_dim=-2), None),
    "sequence_dim out of range": (styled("sequence_parallel", sequence_dim=-65), "TP3003"),
    "sequence_dim is text": (styled("sequence_parallel", sequence_dim="1"), "TP3003"),
    "sequence_dim of colwise": (styled("colwise", sequence_dim=1), "TP3008"),
    "types to send in": (styled("rowwise", forward_dtype="float32", backward_dtype="bfloat16"), None),
    "types to send in of a style without other options": (
        styled("colwise_gather_output", forward_dtype="float32"),
        None,
    ),
    "type to send in that is unknown": (styled("rowwise", forward_dtype="bf16"), "TP3013"),
    "type to send in that is no float": (styled("rowwise", forward_dtype="int8"), "TP3013"),
    "type to send in of 8 bits": (styled("colwise", backward_dtype="float8_e5m2"), "TP3013"),
    "type to send in is a list": (styled("rowwise", forward_dtype=["float32"]), "TP3003"),
    "type to send in is null": (styled("rowwise", forward_dtype=None), "TP3003"),
    "type to send in of replicate": (styled("replicate", forward_dtype="float32"), "TP3008"),
    "type to send in of a spec": (rule({"spec": ["tp", None], "forward_dtype": "float32"}), "TP3008"),
    "type to send in under torch": (rule({"style": "rowwise", "forward_dtype": "float32"}, dialect="torch"), "TP3008"),
    "type to send in under transformers": (
        rule({"style": "rowwise", "backward_dtype": "float32"}, dialect="transformers"),
        "TP3008",
    ),
    "desired layouts of colwise": (styled("colwise", desired_input_layouts="Replicate"), "TP3008"),
    "layouts of replicate": (styled("replicate", output_layouts="Replicate"), "TP3008"),
    "layouts of sequence_parallel": (styled("sequence_parallel", output_layouts="Shard(1)"), "TP3008"),
    "use_local_input of prepare_module_input": (styled("prepare_module_input", use_local_input=True), "TP3008"),
    "prepare_module_input alone": (rule("prepare_module_input"), None),
    "prepare_module_input of two": (inputs(["Shard(1)", None], ["Replicate", None]), None),
    "prepare_module_input without desired layouts": (inputs("Shard(1)"), "TP3015"),
    "prepare_module_input with kwargs": (kwargs({"x": "Shard(1)", "y": None}, {"y": None, "x": "Replicate"}), None),
    "prepare_module_input without desired kwargs": (kwargs({"x": "Shard(1)"}), "TP3015"),
    "kwarg layouts are a list": (kwargs(["Shard(1)"], {}), "TP3003"),
    "kwarg layout is a list": (kwargs({"x": ["Shard(1)"]}, {"x": None}), "TP3003"),
    "prepare_module_output alone": (rule("prepare_module_output"), "TP3002"),
    "prepare_module_output": (outputs("Shard(0)", "Replicate"), None),
    "unknown input layout": (inputs("shard(0)", "Shard(0)"), "TP3007"),
    "unknown desired layout of a kwarg": (kwargs({"x": "Shard(0)"}, {"x": "shard(0)"}), "TP3007"),
    "unknown output layout": (outputs("shard(0)", "Shard(0)"), "TP3007"),
    "unknown desired output layout": (outputs("Shard(0)", "shard(0)"), "TP3007"),
    "prepare_module_output without desired layouts": (outputs("Shard(0)"), "TP3015"),
    "prepare_module_output without layouts": (outputs(desired_output_layouts="Shard(0)"), "TP3002"),
    "prepare_module_output with inputs": (outputs("Shard(0)", "Replicate", input_layouts="Shard(0)"), "TP3008"),
    "prepare_module_input_output alone": (rule("prepare_module_input_output"), "TP3002"),
    "prepare_module_input_output": (styled("prepare_module_input_output", use_local_input=True, **OUTPUTS), None),
    "transformers' style in the torch dialect": (rule("packed_colwise", dialect="torch"), "TP3014"),
    "transformers' style in a mapping in the torch dialect": (rule({"style": "replicate"}, dialect="torch"), "TP3014"),
    "transformers' style in a block of the torch dialect": (
        plan(dialect="torch", blocks={"b": {"c": "replicate"}}),
        "TP3014",
    ),
    "spec in the torch dialect": (rule({"spec": ["tp", None]}, dialect="torch"), None),
    "torch's style in the transformers dialect": (rule("prepare_module_input", dialect="transformers"), "TP3014"),
    "torch's style in a block of the transformers dialect": (
        plan(dialect="transformers", blocks={"b": {"c": "prepare_module_input"}}),
        "TP3014",
    ),
    "spec in the transformers dialect": (rule({"spec": ["tp", None]}, dialect="transformers"), None),
    "option of torch's sequence_parallel in the transformers dialect": (
        rule({"style": "sequence_parallel", "sequence_dim": 1}, dialect="transformers"),
        "TP3008",
    ),
    "sequence_parallel in the transformers dialect": (rule("sequence_parallel", dialect="transformers"), None),
    "style of both in the keras dialect": (rule("packed_rowwise", dialect="keras"), None),
    "data over one axis": (plan(data={"axes": "fsdp"}), None),
    "data over nothing": (plan(data={}), None),
    "data is a list": (plan(data=["fsdp"]), "TP3003"),
    "data is null": (plan(data=None), "TP3003"),
    "data with an unknown key": (plan(data={"axis": "fsdp"}), "TP3004"),
    "data axes are null": (plan(data={"axes": None}), "TP3003"),
    "data axis twice": (plan(data={"axes": ["fsdp", "fsdp"]}), "TP5004"),
    "data dim is negative": (plan(data={"axes": ["fsdp"], "dim": -1}), "TP3003"),
    "data dim is text": (plan(data={"axes": ["fsdp"], "dim": "0"}), "TP3003"),
    "fsdp over the axis of that name": (plan(fsdp={}), None),
    "fsdp without an axis of that name": (plan(mesh={"tp": 4}, fsdp={}), "TP3002"),
    "fsdp over another axis": (plan(mesh={"tp": 4, "dp": 2}, fsdp={"axis": "dp"}), None),
    "fsdp is null": (plan(fsdp=None), "TP3003"),
    "loss": (
        plan(loss={"output": 0, "reduction": "mean", "count": "global", "axes": ["fsdp"], "gradients": "sum"}),
        None,
    ),
    "loss by default": (plan(loss={}), None),
    "loss over one axis": (plan(loss={"axes": "fsdp"}), None),
    "loss is a list": (plan(loss=["fsdp"]), "TP3003"),
    "loss with an unknown key": (plan(loss={"axis": "fsdp"}), "TP3004"),
    "loss axis twice": (plan(loss={"axes": ["fsdp", "fsdp"]}), "TP5004"),
    "loss of an output below 0": (plan(loss={"output": -1}), "TP3003"),
    "loss in parallel": (plan(loss={"cross_entropy": "parallel"}), None),
    "loss of plain tensors": (plan(loss={"cross_entropy": "plain"}), None),
    "loss with another cross-entropy": (plan(loss={"cross_entropy": "whole"}), "TP3013"),
    "loss with another reduction": (plan(loss={"reduction": "max"}), "TP3013"),
    "fsdp is a list": (plan(fsdp=["fsdp"]), "TP3003"),
    "fsdp with an unknown key": (plan(fsdp={"min_size": 0}), "TP3004"),
    "fsdp axis is a list": (plan(fsdp={"axis": ["fsdp"]}), "TP3003"),
    "fsdp min_weight_size is negative": (plan(fsdp={"min_weight_size": -1}), "TP3003"),
    "fsdp min_weight_size is text": (plan(fsdp={"min_weight_size": "1M"}), "TP3003"),
    "fsdp min_weight_size of 2^63": (plan(fsdp={"min_weight_size": 2**63}), "TP3003"),
    "fsdp patterns are text": (plan(fsdp={"patterns": "*"}), "TP3003"),
    "fsdp pattern is null": (plan(fsdp={"patterns": [None]}), "TP3003"),
    "fsdp units are a mapping": (plan(fsdp={"units": {"a": 1}}), "TP3003"),
    "fsdp unit is a list": (plan(fsdp={"units": [["a"]]}), "TP3003"),
    "fsdp policy": (plan(fsdp={"policy": "compose"}), None),
    "fsdp policy unknown": (plan(fsdp={"policy": "largest"}), "TP3013"),
    "init of nothing": (plan(init={}), None),
    "init is a list": (plan(init=["zeros"]), "TP3003"),
    "init is null": (plan(init=None), "TP3003"),
    "init of every distribution": (
        plan(
            init={
                "a": "zeros",
                "b": "ones",
                "c": {"constant": -1.5},
                "d": {"normal": {"mean": 1, "std": 0}},
                "e": {"uniform": {"low": -0.1, "high": 1e3}},
            }
        ),
        None,
    ),
    "init without a distribution": (plan(init={"a": None}), "TP3003"),
    "init of an unknown distribution": (plan(init={"a": "zeroes"}), "TP3013"),
    "init of an unknown distribution with arguments": (plan(init={"a": {"gamma": {"mean": 0}}}), "TP3013"),
    "init with two distributions": (plan(init={"a": {"constant": 1, "normal": {"mean": 0, "std": 1}}}), "TP3003"),
    "init with an empty mapping": (plan(init={"a": {}}), "TP3003"),
    "init of zeros with arguments": (plan(init={"a": {"zeros": 1}}), "TP3003"),
    "init of a normal without arguments": (plan(init={"a": "normal"}), "TP3003"),
    "init of a normal of a number": (plan(init={"a": {"normal": 0.02}}), "TP3003"),
    "init of a normal without std": (plan(init={"a": {"normal": {"mean": 0}}}), "TP3002"),
    "init of a normal with an unknown argument": (
        plan(init={"a": {"normal": {"mean": 0, "std": 1, "low": 0}}}),
        "TP3004",
    ),
    "init of a normal with a negative std": (plan(init={"a": {"normal": {"mean": 0, "std": -1}}}), "TP3019"),
    "init of a uniform without high": (plan(init={"a": {"uniform": {"low": 0}}}), "TP3002"),
    "init of a constant that is text": (plan(init={"a": {"constant": "0.5"}}), "TP3003"),
    "init of a constant that is a list": (plan(init={"a": {"constant": [1]}}), "TP3003"),
    "remat of nothing": (plan(remat=[]), None),
    "remat is text": (plan(remat="a"), "TP3003"),
    "remat is null": (plan(remat=None), "TP3003"),
    "suppression": (suppressing(code="TP4006", reason="small"), None),
    "suppression about a rule": (suppressing(code="TP4006", reason="small", rule="a"), None),
    "no suppression": (plan(suppress=[]), None),
    "suppress is a mapping": (plan(suppress={"TP4006": "small"}), "TP3003"),
    "suppress is null": (plan(suppress=None), "TP3003"),
    "suppression is a code": (plan(suppress=["TP4006"]), "TP3003"),
    "suppression of nothing": (suppressing(reason="small"), "TP3002"),
    "suppression without a reason": (suppressing(code="TP4006"), "TP3002"),
    "suppression with an empty reason": (suppressing(code="TP4006", reason=""), "TP3002"),
    "suppression of an error": (suppressing(code="TP4001", reason="small"), "TP3013"),
    "suppression of an unknown code": (suppressing(code="TP9999", reason="small"), "TP3013"),
    "suppression of a list of codes": (suppressing(code=["TP4006"], reason="small"), "TP3003"),
    "suppression with an unknown key": (suppressing(code="TP4006", reason="small", rules="a"), "TP3004"),
}

# Errors that the schema of a plan cannot express, with the program's code.
UNSEEN_IN_PLANS = {
    "plan's axis is not of the mesh": (plan(axis="pp"), "TP3006"),
    "standard axis is not of the mesh": (plan(mesh={"x": 4}), "TP3006"),
    "rule's axis is not of the mesh": (styled("colwise", axis="pp"), "TP3006"),
    "spec's axis is not of the mesh": (rule(["pp", None]), "TP3006"),
    "one of a dim's axes is not of the mesh": (rule([["tp", "pp"], None]), "TP3006"),
    "ellipsis inside a dim": (rule([["..."], None]), "TP3006"),
    "data axis is not of the mesh": (plan(data={"axes": ["pp"]}), "TP3006"),
    "fsdp axis is not of the mesh": (plan(fsdp={"axis": "pp"}), "TP3006"),
    "Python's None for a whole dim": (rule(["tp", "None"]), "TP3007"),
    "two ellipses": (rule(["...", "tp", "..."]), "TP3007"),
    "mesh of 2^31 devices": (plan(mesh={"tp": 2**16, "fsdp": 2**15}), "TP3009"),
    "layout lists of different lengths": (inputs(["Shard(0)"], ["Shard(0)", None]), "TP3015"),
    "kwargs of different names": (kwargs({"x": "Shard(0)"}, {"y": "Shard(0)"}), "TP3015"),
    "redistribution to Partial": (outputs("Shard(0)", "Partial"), "TP3016"),
    "key that is no regular expression": (plan(dialect="regex", tp_plan={"a(": "colwise"}), "TP3012"),
    "size written as 4.0": (json.dumps(PLAN).replace('"tp": 4', '"tp": 4.0'), "TP3009"),
    "key twice": (json.dumps(PLAN).replace('"a": "colwise"', '"a": "colwise", "a": "rowwise"'), "TP1006"),
}

# Errors outside the structure, which the program checks later.
NOT_OF_STRUCTURE = {
    "rule that matches nothing": (plan(tp_plan={"b": "colwise"}), "TP4001"),
    "size that does not divide": (plan(mesh={"tp": 3}), "TP5001"),
    "spec of another number of dims": (plan(tp_plan={"a.weight": ["tp"]}), "TP5002"),
    "axis twice in a spec": (plan(tp_plan={"a.weight": ["tp", "tp"]}), "TP5004"),
    "axis twice in a dim": (plan(tp_plan={"a.weight": [["tp", "tp"], None]}), "TP5004"),
    "unit that matches nothing": (plan(fsdp={"units": ["b"]}), "TP4009"),
}


def load(value):
    """A plan or model of the tables as Python reads it; those that depend on their notation are text."""
    return json.loads(value) if isinstance(value, str) else value


# Further codes of the program, for rows with more than one.
BESIDE = {
    "axis is a list": {"TP3006"},
    "prepare_module_output without desired layouts": {"TP3002"},
    "suppression of a list of codes": {"TP3002"},
    "name is a number": {"TP2002"},
}


@pytest.mark.parametrize("name", PLANS)
def test_program_and_schema_agree_on_plans(name, tmp_path):
    value, code = PLANS[name]
    faults = structural_errors(tmp_path, MODEL, value)
    assert faults - BESIDE.get(name, set()) == ({code} if code else set())
    assert bool(refusals("plan", load(value))) == (code is not None), refusals("plan", load(value))


@pytest.mark.parametrize("name", UNSEEN_IN_PLANS | NOT_OF_STRUCTURE)
def test_program_reports_plan_errors_the_schema_cannot_express(name, tmp_path):
    value, code = (UNSEEN_IN_PLANS | NOT_OF_STRUCTURE)[name]
    assert errors(check(tmp_path, MODEL, value)[1]) == {code}
    assert refusals("plan", load(value)) == []


MODELS = {
    "smallest model": (model(), None),
    "every field": (
        model(
            module(kind="linear", buffers={"scale": INT8}, attributes={"num_heads": 4, "note": [1]}),
            module(
                path="b",
                parameters={
                    "weight": {
                        "shape": [16, 8],
                        "dtype": "float32",
                        "dims": ["out", "in"],
                        "segments": {"out": [8, 8]},
                        "granularity": {"out": 4},
                    }
                },
            ),
            tied=[["a.weight", "b.weight"]],
            graph={},
            metadata={"by": "hand"},
            **{"$schema": "model.schema.json"},
        ),
        None,
    ),
    "root is a list": ([], "TP1003"),
    "root is null": ("null", "TP1003"),
    "no format": (without(model(), "format"), "TP2001"),
    "format of a plan": (model(format="tpplan.plan/1"), "TP2001"),
    "format is a number": (model(format=1), "TP2003"),
    "no name": (without(model(), "name"), "TP2002"),
    "name is a number": (model(name=1), "TP2003"),
    "empty name": (model(name=""), None),
    "no framework": (without(model(), "framework"), "TP2002"),
    "framework jax": (model(framework="jax"), None),
    "framework keras": (model(framework="keras"), None),
    "framework unknown": (model(framework="tensorflow"), "TP2011"),
    "framework is null": (model(framework=None), "TP2003"),
    "no modules": (without(model(), "modules"), "TP2002"),
    "modules is a mapping": (model(modules={}), "TP2003"),
    "modules is null": (model(modules=None), "TP2003"),
    "no module": (model(modules=[]), None),
    "module is text": (model("a"), "TP2003"),
    "module is a list": (model(["a"]), "TP2003"),
    "module without a path": (model(without(module(), "path")), "TP2002"),
    "module without a type": (model(without(module(), "type")), "TP2002"),
    "path is null": (model(module(path=None)), "TP2003"),
    "type is a list": (model(module(type=["Linear"])), "TP2003"),
    "root module": (model(module(path="")), None),
    "path that begins with a dot": (model(module(path=".a")), "TP2006"),
    "path that ends with a dot": (model(module(path="a.")), "TP2006"),
    "path with two dots": (model(module(path="a..b")), "TP2006"),
    "path of a dot": (model(module(path=".")), "TP2006"),
    "path with slashes in torch": (model(module(path="/a//b/")), None),
    "path with an empty part in keras": (model(module(path="a//b"), framework="keras"), "TP2006"),
    "path with dots in keras": (model(module(path=".a..b."), framework="keras"), None),
    "path of 4096 bytes": (model(module(path="a" * 4096)), None),
    "path of 4097 bytes": (model(module(path="a" * 4097)), "TP2006"),
    "type of 4097 bytes": (model(module(type="a" * 4097)), "TP2006"),
    "kind": (model(module(kind="norm")), None),
    "kind unknown": (model(module(kind="conv")), "TP2011"),
    "features": (model(module(features="in")), None),
    "features unknown": (model(module(features="some")), "TP2011"),
    "features is null": (model(module(features=None)), "TP2003"),
    "kind is null": (model(module(kind=None)), "TP2003"),
    "parameters is a list": (model(module(parameters=[])), "TP2003"),
    "no parameters": (model(module(), module(path="b", parameters={})), None),
    "buffers is null": (model(module(buffers=None)), "TP2003"),
    "parameter is a shape": (model(module(parameters={"weight": [16, 8]})), "TP2003"),
    "parameter with an empty name": (model(module(parameters={"": INT8})), "TP2006"),
    "parameter name with a dot in torch": (model(module(parameters={"b.c": INT8})), "TP2006"),
    "buffer name with a dot in torch": (model(module(buffers={"b.c": INT8})), "TP2006"),
    "parameter name with a slash in torch": (model(module(parameters={"b/c": INT8})), None),
    "parameter name with a slash in keras": (model(module(parameters={"b/c": INT8}), framework="keras"), "TP2006"),
    "buffer name with a slash in keras": (model(module(buffers={"b/c": INT8}), framework="keras"), "TP2006"),
    "parameter name of 4097 bytes": (model(module(parameters={"b" * 4097: INT8})), "TP2006"),
    "no shape": (model(module(parameters={"weight": {"dtype": "int8"}})), "TP2002"),
    "no dtype": (model(module(parameters={"weight": {"shape": [1]}})), "TP2002"),
    "scalar": (tensor(shape=[]), None),
    "empty tensor": (tensor(shape=[0, 8]), None),
    "shape is a number": (tensor(shape=16), "TP2003"),
    "size is negative": (tensor(shape=[-1, 8]), "TP2008"),
    "size is text": (tensor(shape=["16", 8]), "TP2003"),
    "size is a fraction": (tensor(shape=[1.5]), "TP2003"),
    "size of 2^63": (tensor(shape=[2**63]), "TP2003"),
    "size of 2^63 - 1": (tensor(shape=[2**63 - 1]), None),
    "64 dims": (tensor(shape=[1] * 64), None),
    "65 dims": (tensor(shape=[1] * 65), "TP2008"),
    "dtype unknown": (tensor(dtype="fp32"), "TP2007"),
    "dtype as torch prints it": (tensor(dtype="torch.float32"), "TP2007"),
    "dtype is null": (tensor(dtype=None), "TP2003"),
    "dims": (tensor(dims=["x", "y"]), None),
    "dims are text": (tensor(dims="xy"), "TP2003"),
    "dim is a number": (tensor(dims=[0, 1]), "TP2003"),
    "dim is named twice": (tensor(dims=["x", "x"]), "TP2009"),
    "segments": (tensor(segments={"out": [4, 12]}), None),
    "segments are a list": (tensor(segments=[4, 12]), "TP2003"),
    "segments of a dim are a number": (tensor(segments={"out": 2}), "TP2003"),
    "segment is negative": (tensor(segments={"out": [-4, 20]}), "TP2009"),
    "segment is text": (tensor(segments={"out": ["4", 12]}), "TP2003"),
    "granularity": (tensor(granularity={"out": 4, "in": 1}), None),
    "granularity is a number": (tensor(granularity=4), "TP2003"),
    "granularity of 0": (tensor(granularity={"out": 0}), "TP2009"),
    "granularity is text": (tensor(granularity={"out": "4"}), "TP2003"),
    "unknown key in the model": (model(extra=1), None),
    "unknown key in a module": (model(module(extra=1)), None),
    "unknown key in a parameter": (tensor(extra=1), None),
    "attributes": (
        model(module(attributes={"num_heads": 6, "num_kv_heads": 2, "num_experts": 8, "head_dim": 1})),
        None,
    ),
    "attributes are null": (model(module(attributes=None)), "TP2003"),
    "attribute of 0": (model(module(attributes={"num_heads": 0})), "TP2003"),
    "number of experts is text": (model(module(attributes={"num_experts": "8"})), "TP2003"),
    "attribute is text": (model(module(attributes={"head_dim": "32"})), "TP2003"),
    "attribute that nobody knows": (model(module(attributes={"rope": None})), None),
    "no ties": (model(tied=[]), None),
    "tied is a mapping": (model(tied={"a": "b"}), "TP2003"),
    "tie is text": (model(tied=["a.weight"]), "TP2003"),
    "tied name is a number": (model(tied=[["a.weight", 1]]), "TP2003"),
    "tie of one": (model(tied=[["a.weight"]]), "TP2010"),
    "tie of one with itself": (model(tied=[["a.weight", "a.weight"]]), "TP2010"),
    "graph": (model(graph={"nodes": []}), None),
    "metadata": (model(metadata=["anything"]), None),
}

UNSEEN_IN_MODELS = {
    "module twice": (model(module(), module()), "TP2005"),
    "parameter that is also a buffer": (model(module(buffers={"weight": INT8})), "TP2005"),
    "path of 4097 bytes in fewer characters": (model(module(path="\u00e9" * 2049)), "TP2006"),
    "2^63 elements": (tensor(shape=[2**32, 2**31]), "TP2008"),
    "fewer dims than the shape has": (tensor(dims=["x"]), "TP2009"),
    "segments of an unknown dim": (tensor(segments={"x": [16]}), "TP2009"),
    "segments that do not add up": (tensor(segments={"out": [4, 4]}), "TP2009"),
    "granularity of an unknown dim": (tensor(granularity={"x": 4}), "TP2009"),
    "tie with a name that is no parameter": (model(tied=[["a.weight", "b.weight"]]), "TP2010"),
    "tie of different shapes": (
        model(
            module(),
            module(path="b", parameters={"weight": {"shape": [8], "dtype": "float32"}}),
            tied=[["a.weight", "b.weight"]],
        ),
        "TP2010",
    ),
    "size written as 16.0": (json.dumps(model()).replace("[16, 8]", "[16.0, 8]"), "TP2003"),
    "key twice": (json.dumps(model()).replace('"name"', '"name": "Other", "name"'), "TP1006"),
    "NaN": (json.dumps(model(metadata=0)).replace('"metadata": 0', '"metadata": NaN'), "TP1003"),
}


@pytest.mark.parametrize("name", MODELS)
def test_program_and_schema_agree_on_models(name, tmp_path):
    value, code = MODELS[name]
    faults = structural_errors(tmp_path, value, PLAN)
    assert faults - BESIDE.get(name, set()) == ({code} if code else set())
    assert bool(refusals("model", load(value))) == (code is not None), refusals("model", load(value))


@pytest.mark.parametrize("name", UNSEEN_IN_MODELS)
def test_program_reports_model_errors_the_schema_cannot_express(name, tmp_path):
    value, code = UNSEEN_IN_MODELS[name]
    assert structural_errors(tmp_path, value, PLAN) == {code}
    assert refusals("model", load(value)) == []


# ---- every option of every style ----

STYLES = SCHEMAS["plan"]["definitions"]["style"]["enum"]
DIALECTS = [name for name in SCHEMAS["plan"]["properties"]["dialect"]["enum"] if name != "logical"]  # with styles


def judge_rules(folder, rules, **settings):
    """Checks many rules, 200 in one plan, each on a separate line: the program's codes for each, and whether the schema rejects it."""
    if len(rules) > 200:
        return judge_rules(folder, rules[:200], **settings) + judge_rules(folder, rules[200:], **settings)
    head = json.dumps(without(plan(**settings), "tp_plan"))[:-1]
    lines = [f'"k{i}": {json.dumps(treatment)}' for i, treatment in enumerate(rules)]
    text = head + ', "tp_plan": {\n' + ",\n".join(lines) + "}}"
    codes = [set() for _ in rules]
    for d in check(folder, MODEL, text)[1]["diagnostics"]:
        if d["severity"] == "error" and d["code"].startswith("TP3"):
            codes[d["place"]["line"] - 2].add(d["code"])
    refused = [False] * len(rules)
    for error in VALIDATORS["plan"].iter_errors(json.loads(text)):
        refused[int(error.absolute_path[1][1:])] = True
    return list(zip(rules, codes, refused))


def rules_of(style):
    """A style without options, with every option, with every pair of its options, with all, and with those of every rule."""
    has_options = style.startswith("prepare_") or style in ("colwise", "rowwise", "sequence_parallel")
    for count in (0, 1, 2, len(OPTIONS)) if has_options else (0, 1, len(OPTIONS)):
        for chosen in itertools.combinations(OPTIONS, count):
            options = {name: OPTIONS[name] for name in chosen}
            yield {"style": style} | options
            yield {"style": style} | options | OUTPUTS
    yield style
    for more in ({"axis": "tp"}, {"optional": True}, {"spec": ["tp", None]}):
        yield {"style": style} | more
        yield {"style": style} | more | OUTPUTS


@pytest.mark.parametrize("dialect", DIALECTS)
def test_program_and_schema_agree_on_the_options_of_styles(dialect, tmp_path):
    judged = judge_rules(tmp_path, [r for style in STYLES for r in rules_of(style)], dialect=dialect)
    assert [(r, codes) for r, codes, refused in judged if bool(codes) != refused] == []
    assert {refused for _, _, refused in judged} == {True, False}


# ---- every kind of value in every place ----

# Values of every type, valid in some places and invalid in others.
VALUES = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    64,
    -1,
    -64,
    -65,
    1.5,
    2**31,
    2**63,
    "",
    "x",
    "tp",
    "fsdp",
    "true",
    "1",
    "null",
    "error",
    "torch",
    "glob",
    "colwise",
    "int8",
    "norm",
    "tp4006",
    "TP4006",
    "TP4001",
    "a.b",
    "a/b",
    ".",
    "/",
    "Replicate",
    "Replicate()",
    "Shard(0)",
    "Shard(-1)",
    "Shard(5)",
    "Shard(6)",
    "Shard(-6)",
    "Shard(-65)",
    "Shard( 1 )",
    "Shard()",
    "Shard(+1)",
    "Shard(007)",
    "Shard(-064)",
    "shard(0)",
    " Replicate",
    "Partial",
    "Partial()",
    "Partial(sum)",
    "Partial(max)",
    "Partial(prod)",
    "StridedShard(0, 2)",
    "...",
    [],
    ["tp"],
    ["tp", "tp"],
    ["Shard(0)"],
    [None],
    [True],
    [0],
    [""],
    ["Shard(0)", None],
    ["Shard(0)", "Partial"],
    ["Partial"],
    ["Partial(avg)"],
    [["Shard(0)"]],
    [[]],
    [["tp"]],
    [["tp", None]],
    [{}],
    {},
    {"x": "Shard(0)"},
    {"x": None},
    {"x": ["Shard(0)"]},
    {"x": 1},
    {"x": "colwise"},
    {"x": {}},
    {"x": [1, 2]},
    {"tp": 2},
    {"": 2},
    {"style": "colwise"},
    {"axis": "tp"},
    {"axes": ["tp"]},
]


def rules_with(value):
    yield value
    yield {"style": value}
    yield {"spec": value}
    yield [value, None]
    yield [["tp", value]]
    yield {"style": "colwise", "axis": value}
    yield {"style": "colwise", "optional": value}
    yield {"style": "colwise", "input_layouts": value}
    yield {"style": "colwise", "output_layouts": value}
    yield {"style": "rowwise", "output_layouts": value}
    yield {"style": "rowwise", "use_local_output": value}
    yield {"style": "sequence_parallel", "sequence_dim": value}
    yield {"style": "rowwise", "forward_dtype": value}
    yield {"style": "colwise", "backward_dtype": value}
    yield {"style": "prepare_module_input", "input_layouts": value, "desired_input_layouts": value}
    yield {"style": "prepare_module_input", "desired_input_layouts": value}
    yield {"style": "prepare_module_input", "input_kwarg_layouts": value, "desired_input_kwarg_layouts": value}
    yield {"style": "prepare_module_output", "output_layouts": value, "desired_output_layouts": value}
    yield {"style": "prepare_module_input_output", "use_local_input": value} | OUTPUTS


PLAN_PLACES = {
    "the plan": lambda v: v,
    "format": lambda v: plan(format=v),
    "dialect": lambda v: plan(dialect=v),
    "keras_match": lambda v: plan(dialect="keras", keras_match=v),
    "mesh": lambda v: plan(mesh=v),
    "size of an axis": lambda v: plan(mesh={"fsdp": 2, "tp": v}),
    "axis": lambda v: plan(axis=v),
    "uneven": lambda v: plan(uneven=v),
    "tp_plan": lambda v: plan(tp_plan=v),
    "tp_plan beside fsdp": lambda v: plan(tp_plan=v, fsdp={}),
    "blocks": lambda v: plan(blocks=v),
    "block": lambda v: without(plan(blocks={"b": v}), "tp_plan"),
    "rules of the logical dialect": lambda v: plan(dialect="logical", tp_plan=v),
    "rule of the logical dialect": lambda v: logical(v),
    "name in the logical dialect": lambda v: logical([v, "tp"]),
    "axes in the logical dialect": lambda v: logical(["a", v]),
    "axis in a list of the logical dialect": lambda v: logical(["a", [v]]),
    "named in the logical dialect": lambda v: logical({"name": v, "axes": "tp"}),
    "optional in the logical dialect": lambda v: logical({"name": "a", "axes": "tp", "optional": v}),
    "rule in a block": lambda v: plan(blocks={"b": {"c": v}}),
    "data": lambda v: plan(data=v),
    "data axes": lambda v: plan(data={"axes": v}),
    "data dim": lambda v: plan(data={"dim": v}),
    "loss": lambda v: plan(loss=v),
    "loss output": lambda v: plan(loss={"output": v}),
    "loss reduction": lambda v: plan(loss={"reduction": v}),
    "loss count": lambda v: plan(loss={"count": v}),
    "loss axes": lambda v: plan(loss={"axes": v}),
    "loss gradients": lambda v: plan(loss={"gradients": v}),
    "loss cross-entropy": lambda v: plan(loss={"cross_entropy": v}),
    "fsdp": lambda v: plan(fsdp=v),
    "fsdp axis": lambda v: plan(fsdp={"axis": v}),
    "fsdp min_weight_size": lambda v: plan(fsdp={"min_weight_size": v}),
    "fsdp patterns": lambda v: plan(fsdp={"patterns": v}),
    "fsdp units": lambda v: plan(fsdp={"units": v}),
    "fsdp policy": lambda v: plan(fsdp={"policy": v}),
    "remat": lambda v: plan(remat=v),
    "init": lambda v: plan(init=v),
    "distribution": lambda v: plan(init={"a": v}),
    "constant": lambda v: plan(init={"a": {"constant": v}}),
    "arguments of a normal": lambda v: plan(init={"a": {"normal": v}}),
    "mean": lambda v: plan(init={"a": {"normal": {"mean": v, "std": 1}}}),
    "std": lambda v: plan(init={"a": {"normal": {"mean": 0, "std": v}}}),
    "arguments of a uniform": lambda v: plan(init={"a": {"uniform": v}}),
    "suppress": lambda v: plan(suppress=v),
    "code": lambda v: suppressing(code=v, reason="small"),
    "reason": lambda v: suppressing(code="TP4006", reason=v),
    "rule of a suppression": lambda v: suppressing(code="TP4006", reason="small", rule=v),
}

MODEL_PLACES = {
    "the model": lambda v: v,
    "format": lambda v: model(format=v),
    "name": lambda v: model(name=v),
    "framework": lambda v: model(framework=v),
    "modules": lambda v: model(modules=v),
    "module": lambda v: model(v),
    "path": lambda v: model(module(path=v)),
    "type": lambda v: model(module(type=v)),
    "kind": lambda v: model(module(kind=v)),
    "features": lambda v: model(module(features=v)),
    "parameters": lambda v: model(module(parameters=v)),
    "parameter": lambda v: model(module(parameters={"weight": v})),
    "buffers": lambda v: model(module(buffers=v)),
    "attributes": lambda v: model(module(attributes=v)),
    "attribute": lambda v: model(module(attributes={"num_kv_heads": v})),
    "shape": lambda v: tensor(shape=v),
    "size": lambda v: tensor(shape=[v]),
    "dtype": lambda v: tensor(dtype=v),
    "dims": lambda v: tensor(dims=v),
    "logical_axes": lambda v: tensor(logical_axes=v),
    "logical name": lambda v: tensor(logical_axes=[v]),
    "segments": lambda v: tensor(segments=v),
    "segments of a dim": lambda v: tensor(segments={"out": v}),
    "granularity": lambda v: tensor(granularity=v),
    "granularity of a dim": lambda v: tensor(granularity={"out": v}),
    "tied": lambda v: model(tied=v),
    "tie": lambda v: model(tied=[v]),
    "graph": lambda v: model(graph=v),
    "metadata": lambda v: model(metadata=v),
}


# Codes that a schema cannot express: if the program reports only these, the schema may accept or reject.
UNSEEN = {"TP2016", "TP3006", "TP3020", "TP2009", "TP2010"}

# Values that the program accepts and the schema rejects: text that YAML reads as numbers or booleans, which an editor wants in quotes;
# dims that no tensor has; codes in lower case.
SCALARS = [value for value in VALUES if isinstance(value, (bool, int, float))]
LAXER = {
    "fsdp patterns": [[True], [0]],
    "fsdp units": [[True], [0]],
    "remat": [[True], [0]],
    "reason": SCALARS,
    "rule of a suppression": SCALARS,
    "code": ["tp4006"],
}


def test_program_and_schema_agree_on_values_in_rules(tmp_path):
    judged = judge_rules(tmp_path, [r for value in VALUES for r in rules_with(value)])
    assert [
        (r, codes) for r, codes, refused in judged if bool(codes) != refused and not (codes and codes <= UNSEEN)
    ] == []
    assert {refused for _, _, refused in judged} == {True, False}


@pytest.mark.parametrize("place", PLAN_PLACES)
def test_program_and_schema_agree_on_values_in_plans(place, tmp_path):
    for value in VALUES:
        plan_ = PLAN_PLACES[place](value)
        codes, refused = structural_errors(tmp_path, MODEL, json.dumps(plan_)), refusals("plan", plan_)
        if not (codes and codes <= UNSEEN) and repr(value) not in map(repr, LAXER.get(place, [])):
            assert bool(codes) == bool(refused), (plan_, codes, refused)


@pytest.mark.parametrize("place", MODEL_PLACES)
def test_program_and_schema_agree_on_values_in_models(place, tmp_path):
    for value in VALUES:
        model_ = MODEL_PLACES[place](value)
        codes, refused = structural_errors(tmp_path, json.dumps(model_), PLAN), refusals("model", model_)
        if not (codes and codes <= UNSEEN):
            assert bool(codes) == bool(refused), (model_, codes, refused)
