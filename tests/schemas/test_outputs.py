"""Outputs of the program are valid by its schemas: manifests, and the diagnostics of `check --format json`."""

import copy
import json
import pathlib

import jsonschema
import pytest
from conftest import ROOT, linear_model, run, plan_text
from schema_files import MODEL, PLAN, SCHEMAS, check, keys_in, model, module, objects, plan, refusals, without


def closed(kind):
    """A schema that rejects unknown keys in every object whose properties it lists."""
    schema = copy.deepcopy(SCHEMAS[kind])
    for _, part in list(objects(schema)):
        part["additionalProperties"] = False
    return schema


def strict_refusals(kind, value):
    return [error.message for error in jsonschema.Draft7Validator(closed(kind)).iter_errors(value)]


def fields(kind):
    return {name for _, part in objects(SCHEMAS[kind]) for name in part["properties"]}


def forget(key):
    return lambda target: target.pop(key)


def put(key, value):
    return lambda target: target.__setitem__(key, value)


def mutated(document, place, mutate):
    document = copy.deepcopy(document)
    target = document
    for step in place:
        target = target[step]
    mutate(target)
    return document


# ---- manifests ----

EXPERTS = {
    "path": "experts",
    "type": "TestExperts",
    "parameters": {"gate_up": {"shape": [4, 16, 8], "dtype": "bfloat16"}},
}
NORM = {
    "path": "norm",
    "type": "RMSNorm",
    "parameters": {"weight": {"shape": [8], "dtype": "float32"}},
    "buffers": {"steps": {"shape": [], "dtype": "int64"}},
}
FUSED = {
    "path": "qkv",
    "type": "Linear",
    "parameters": {"weight": {"shape": [24, 8], "dtype": "float16", "segments": {"out": [16, 4, 4]}}},
}
HEAD = {"path": "head", "type": "Linear", "parameters": {"weight": {"shape": [32, 8], "dtype": "float32"}}}
EMBED = {"path": "embed", "type": "Embedding", "parameters": {"weight": {"shape": [32, 8], "dtype": "float32"}}}
PREPARED = {
    "a": {
        "style": "prepare_module_input",
        "input_layouts": ["Shard(1)", None],
        "desired_input_layouts": ["Shard(0)", None],
        "input_kwarg_layouts": {"mask": "Shard(1)"},
        "desired_input_kwarg_layouts": {"mask": "Replicate"},
    },
    "norm": {"style": "prepare_module_output", "output_layouts": "Partial", "desired_output_layouts": "Shard(-1)"},
}

OPERATIONS_PLAN = plan(
    dialect="transformers",
    mesh={"tp": 3},
    tp_plan={
        "model.layers.*.mlp.gate_proj": "colwise",
        "model.layers.*.mlp.up_proj": "colwise",
        "model.layers.*.mlp.down_proj": "rowwise",
    },
)

# DTensor gathers a sharded tensor before the chunk: a hidden call.
DIVIDED = ROOT / "tests/golden/manifest/local-attributes/model.json"
DIVIDED_PLAN = plan(
    dialect="torch",
    mesh={"tp": 2},
    tp_plan={"attn.w[qkv]": "colwise", "attn.wo": "rowwise"},
    local_attributes={"attn": ["n_heads", "n_kv"]},
)
CHUNKED = ROOT / "tests/golden/operations/torch-chunk-gathers-dtensor/model.json"
CHUNKED_PLAN = plan(
    dialect="torch", mesh={"tp": 2}, tp_plan={"a": {"style": "colwise", "use_local_output": False}, "b": "rowwise"}
)

# Name: model, plan.
GATHERED = {"style": "prepare_module_input", "input_layouts": "Shard(1)", "desired_input_layouts": "Replicate"}
BARE_PLAN = plan(tp_plan={"drop": GATHERED})

COMPILES = {
    "a hidden call": (CHUNKED.read_text(), CHUNKED_PLAN),
    "local attributes": (DIVIDED.read_text(), DIVIDED_PLAN),
    "one colwise": (MODEL, PLAN),
    "a loss": (MODEL, plan(loss={})),
    "uneven": (MODEL, plan(mesh={"tp": 3}, uneven="torch")),
    "segments that torch has no word for": (model(FUSED), plan(tp_plan={"qkv": "colwise"})),
    "packed weights": (model(EXPERTS), plan(tp_plan={"experts": "packed_colwise"})),
    "two axes on a dim": (MODEL, plan(tp_plan={"a.weight": [["tp", "fsdp"], None]})),
    "fsdp": (MODEL, plan(fsdp={"min_weight_size": 0}, data={"axes": "fsdp"})),
    "fsdp alone, of units": (
        linear_model(b__c=[16, 8], b__d=[16, 8]),
        without(plan(fsdp={"units": ["b.*"], "policy": "dim0"}, remat=["b.*"]), "tp_plan"),
    ),
    "nothing is cut": (MODEL, plan(tp_plan={"a": "replicate"})),
    "block": (linear_model(b__0__c=[16, 8]), without(plan(blocks={"b.*": {"c": "rowwise"}}), "tp_plan")),
    "norm and buffers": (model(module(), NORM), plan(tp_plan={"a": "rowwise", "norm": "sequence_parallel"})),
    "ties": (model(HEAD, EMBED, tied=[["head.weight", "embed.weight"]]), plan(tp_plan={"head": "colwise"})),
    "operations": (json.loads((ROOT / "plans/models/smollm2-135m.json").read_text()), OPERATIONS_PLAN),
    "a module without parameters": (model(module(), {"path": "drop", "type": "Dropout"}), BARE_PLAN),
    "types to send in": (
        MODEL,
        plan(
            tp_plan={"a": {"style": "colwise_gather_output", "forward_dtype": "bfloat16", "backward_dtype": "float16"}}
        ),
    ),
    "inputs by position and by name": (model(module(), NORM), plan(tp_plan=PREPARED)),
}


@pytest.mark.parametrize("name", COMPILES)
def test_manifest_is_valid_and_has_no_other_field(name, compiles):
    model_, plan_ = COMPILES[name]
    manifest = compiles(model_, json.dumps(plan_))
    assert refusals("manifest", manifest) == []
    assert strict_refusals("manifest", manifest) == []


def test_every_manifest_field_is_written_for_some_input(compiles):
    written = set().union(*(keys_in(compiles(m, json.dumps(p))) for m, p in COMPILES.values()))
    assert fields("manifest") - written == set()


WEIGHT, INPUT = ("parameters", 0), ("modules", 0, "inputs", 0)

# Name: place in the manifest of one colwise (keys and indices), and the change there.
MUTATIONS = {
    "no totals": ((), forget("totals")),
    "no mesh": ((), forget("mesh")),
    "format of a plan": ((), put("format", "tpplan.plan/1")),
    "parameters by path": ((), put("parameters", {})),
    "unknown uneven": ((), put("uneven", "jax")),
    "sha256 cut short": (("inputs", "plan"), put("sha256", "0123")),
    "axis of size 0": (("mesh", 0), put("size", 0)),
    "rule on line 0": (("rules", 0), put("line", 0)),
    "matches is text": (("rules", 0), put("matches", "1")),
    "no spec": (WEIGHT, forget("spec")),
    "negative size": (WEIGHT, put("shape", [-1, 8])),
    "unknown dtype": (WEIGHT, put("dtype", "fp32")),
    "unknown reason": (WEIGHT, put("reason", "because")),
    "reason that has no rule": (WEIGHT, put("reason", "default")),
    "unknown style": (WEIGHT, put("style", "columnwise")),
    "placement of a parameter is Partial": (WEIGHT, put("placements", ["Partial(sum)", "Replicate"])),
    "placement without a dim": (WEIGHT, put("placements", ["Shard", "Replicate"])),
    "one axis in a list": (WEIGHT, put("spec", [["tp"], None])),
    "no local shape at all": (WEIGHT, put("local_shape", None)),
    "local shape and local shapes": (WEIGHT, put("local_shapes", [[1], [2]])),
    "empty segments": (WEIGHT, put("segments", {})),
    "segments by dim name": (WEIGHT, put("segments", {"out": [8, 8]})),
    "no replicas": (WEIGHT, put("replicas", 0)),
    "gradient averaged": (WEIGHT, put("grad_reduce", [{"axis": "tp", "kind": "average"}])),
    "value without a place": (INPUT, forget("arg")),
    "value with two places": (INPUT, put("kwarg", "x")),
    "unknown collective": (INPUT, put("forward", [{"kind": "broadcast", "axis": "tp", "dim": 0}])),
    "all_gather of no dim": (INPUT, put("forward", [{"kind": "all_gather", "axis": "tp"}])),
    "all_reduce of a dim": (INPUT, put("forward", [{"kind": "all_reduce", "axis": "tp", "dim": 0}])),
    "all_to_all from nowhere": (INPUT, put("forward", [{"kind": "all_to_all", "axis": "tp", "dim": 0}])),
    "empty list of collectives": (INPUT, put("forward", [])),
    "use_local is text": (("modules", 0, "outputs", 0), put("use_local", "no")),
    "fsdp is a name": ((), put("fsdp", "fsdp")),
    "another generator": (("init",), put("algorithm", "philox")),
    "bytes are negative": (("totals",), put("bytes", -1)),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutated_manifest_is_invalid(name, compiles):
    model_, plan_ = COMPILES["one colwise"]
    manifest = compiles(model_, json.dumps(plan_))
    assert refusals("manifest", manifest) == []
    assert refusals("manifest", mutated(manifest, *MUTATIONS[name])) != []


# ---- diagnostics ----

UNMATCHED = plan(mesh={"tp": 4}, tp_plan={"aa": "colwise"})
SMALL = plan(mesh={"tp": 4})

# Name: model, plan, exit status, number of errors, number of warnings.
CHECKS = {
    "clean": (MODEL, SMALL, 0, 0, 0),
    "warning": (MODEL, plan(mesh={"tp": 4, "pp": 2}), 0, 0, 1),
    "error with a help line": (MODEL, UNMATCHED, 1, 1, 0),
    "errors of structure": (MODEL, plan(mesh={"tp": 0, "": 1}), 2, 2, 0),
    "warning of the model": (model(extra=1), SMALL, 0, 0, 1),
    "one cause on two modules": (linear_model(a=[15, 8], b=[15, 8]), SMALL | {"tp_plan": {"?": "colwise"}}, 1, 1, 0),
    "finding with an edit": (MODEL, SMALL | {"tp_plan": {"aa": "colwsie"}}, 1, 1, 0),
    "more findings than are listed": (
        MODEL,
        SMALL | {"tp_plan": SMALL["tp_plan"] | {f"nothing{i}": "colwise" for i in range(600)}},
        1,
        600,
        0,
    ),
    "label": (linear_model(a=[15, 7]), plan(tp_plan={"a": "replicate"}, fsdp={"min_weight_size": 0}), 0, 0, 2),
    "notes": (model(module(), module()), SMALL, 2, 1, 0),
    "syntax of the model": ("{", SMALL, 2, 1, 0),
    "syntax of the plan": (MODEL, "[", 2, 1, 0),
    "empty files": ("", "", 2, 2, 0),
    "what a run would do": (
        COMPILES["operations"][0],
        OPERATIONS_PLAN | {"tp_plan": {"model.layers.*.mlp.up_proj": "colwise"}},
        1,
        1,
        1,
    ),
    "quotes and control characters": (MODEL, SMALL | {"tp_plan": {'"\\\u0007\u202e\u00e9': "colwise"}}, 1, 1, 0),
}


@pytest.mark.parametrize("name", CHECKS)
def test_diagnostics_are_valid_and_have_no_other_field(name, tmp_path):
    model_, plan_, status, errors, warnings = CHECKS[name]
    found_status, document = check(tmp_path, model_, plan_)
    assert (found_status, document["errors"], document["warnings"]) == (status, errors, warnings), document
    assert sum(1 + d.get("unlisted", 0) for d in document["diagnostics"]) == errors + warnings
    assert refusals("diagnostics", document) == []
    assert strict_refusals("diagnostics", document) == []


def test_diagnostics_of_unreadable_files_are_valid(tmp_path):
    result = run("check", "--format", "json", tmp_path / "no model", tmp_path)
    document = json.loads(result.stdout)
    assert result.returncode == 2
    assert [d["code"] for d in document["diagnostics"]] == ["TP1001", "TP1001"]
    assert strict_refusals("diagnostics", document) == []


def test_every_diagnostics_field_is_written_for_some_input(tmp_path):
    written = set().union(*(keys_in(check(tmp_path, m, p)[1]) for m, p, *_ in CHECKS.values()))
    (tmp_path / "plan.yaml").write_text(
        plan_text(
            {"lm_head": "colwise_gather_output", "model.layers.*.self_attn.o_proj": "rowwise_split_input"},
            dialect="transformers",
        )
    )
    for model_file in (ROOT / "plans/models/llama-3-8b.json", ROOT / "tests/plans/models/seeds.json"):
        topology = ROOT / "plans/topologies/h100.yaml"
        step = tmp_path / "run.yaml"
        step.write_text("format: tpplan.run/1\n")
        machine = tmp_path / "topology.yaml"
        measured = f"{{model: {model_file}, plan: plan.yaml, run: run.yaml, seconds: 2.5}}"
        machine.write_text(f"{topology.read_text()}calibrate:\n  - {measured}\n")
        for options in (("--topology", topology), ("--topology", machine, "--run", step)):
            result = run("check", model_file, tmp_path / "plan.yaml", *options, "--format", "json")
            assert strict_refusals("diagnostics", json.loads(result.stdout)) == []
            written |= keys_in(json.loads(result.stdout))
    compiled = ROOT / "tests/golden/operations/jax-program-collectives"
    program = (compiled / "model.json").read_text().replace("stablehlo.maximum", "stablehlo.without_a_rule")
    (tmp_path / "program.json").write_text(program)
    result = run("check", tmp_path / "program.json", compiled / "plan.yaml", "--costs", "--format", "json")
    assert strict_refusals("diagnostics", json.loads(result.stdout)) == []
    written |= keys_in(json.loads(result.stdout))
    wrong = ROOT / "tests/plans/wrong"
    for name, flag in (("output-colwise", "--example"), ("gate-forgotten", "--suggest"), ("seeds", "--suggest")):
        model_file = ROOT / ("tests/plans/models/seeds.json" if name == "seeds" else "plans/models/llama-3-8b.json")
        plan_file = ROOT / "plans/seeds.yaml" if name == "seeds" else wrong / f"{name}.yaml"
        result = run("check", model_file, plan_file, flag, "--format", "json")
        assert strict_refusals("diagnostics", json.loads(result.stdout)) == []
        written |= keys_in(json.loads(result.stdout))
    for source in ("plans/seeds.yaml", "tests/plans/models/seeds.json"):
        (tmp_path / pathlib.Path(source).name).write_bytes((ROOT / source).read_bytes())
    (tmp_path / ".tpplan.yaml").write_text("checks: [{model: seeds.json, plan: seeds.yaml, mesh: [tp=2]}]\n")
    written |= keys_in(json.loads(run("check", "--format", "json", cwd=tmp_path).stdout))
    assert fields("diagnostics") - written == set()


FINDING, PLACE = ("diagnostics", 0), ("diagnostics", 0, "place")


@pytest.mark.parametrize(
    "place, mutate",
    [
        ((), forget("errors")),
        ((), put("format", "tpplan.diagnostics/2")),
        ((), put("diagnostics", {})),
        (FINDING, forget("code")),
        (FINDING, put("code", "E1")),
        (FINDING, put("severity", "fatal")),
        (FINDING, forget("place")),
        (FINDING, put("count", 0)),
        (FINDING, put("notes", None)),
        (FINDING, put("notes", [{"text": "first one"}])),
        (PLACE, put("line", 0)),
        (PLACE, forget("file")),
    ],
)
def test_mutated_diagnostics_are_invalid(place, mutate, tmp_path):
    document = check(tmp_path, MODEL, UNMATCHED)[1]
    assert refusals("diagnostics", document) == []
    assert refusals("diagnostics", mutated(document, place, mutate)) != []
