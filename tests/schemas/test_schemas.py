"""The schemas: valid draft-07, identical to the program's output, with the lists of the program's tables."""

import json
import re
import subprocess

import jsonschema
import pytest
from conftest import ROOT, run
from schema_files import (
    KINDS,
    MANY,
    MODEL,
    NAMED,
    ONE,
    OPTIONS,
    PLAIN,
    PLAN,
    SCHEMAS,
    check,
    model,
    module,
    names_in,
    objects,
    plan,
    rule,
    source,
    styled,
    subschemas,
)

PLAN_DEFINITIONS = SCHEMAS["plan"]["definitions"]
STYLES = PLAN_DEFINITIONS["style"]["enum"]
TENSOR = {kind: SCHEMAS[kind]["definitions"]["tensor"]["properties"] for kind in ("model", "manifest")}


# ---- draft-07, for users and editors ----


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_valid_draft_07(kind):
    schema = SCHEMAS[kind]
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema["$id"] == f"{kind}.schema.json"
    jsonschema.Draft7Validator.check_schema(schema)


@pytest.mark.parametrize("kind", KINDS)
def test_schema_uses_only_keywords_of_draft_07(kind):
    for path, part in subschemas(SCHEMAS[kind]):
        assert set(part) <= ONE | MANY | NAMED | PLAIN, path
        assert "$ref" not in part or set(part) == {"$ref"}, f"{path}: what stands beside $ref is not read"


@pytest.mark.parametrize("kind", KINDS)
def test_references_and_definitions_correspond(kind):
    used = {part["$ref"] for _, part in subschemas(SCHEMAS[kind]) if "$ref" in part}
    assert used == {f"#/definitions/{name}" for name in SCHEMAS[kind].get("definitions", {})}


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_has_a_description_of_one_sentence(kind):
    for path, part in objects(SCHEMAS[kind]):
        for name, value in part["properties"].items():
            text = value.get("description", "")
            assert re.fullmatch(r"[A-Z][^.]*(\.\w[^.]*)*\.", text) and len(text) < 100, (path, name, text)


@pytest.mark.parametrize("kind", KINDS)
def test_schema_file_has_a_readable_layout(kind):
    text = (ROOT / "schemas" / f"{kind}.schema.json").read_text()
    assert text.endswith("}\n")
    for line in text.splitlines():
        indentation = len(line) - len(line.lstrip())
        assert len(line) <= 120 and line == line.rstrip() and indentation % 2 == 0 and "\t" not in line, line


def test_unknown_keys_are_rejected_only_in_plans_and_manifests():
    closed = {
        kind: [path for path, part in objects(SCHEMAS[kind]) if part.get("additionalProperties") is False]
        for kind in KINDS
    }
    assert closed["plan"] == [path for path, _ in objects(SCHEMAS["plan"])]
    assert len(closed["plan"]) == 6  # the plan, data, loss, fsdp, a suppression and a rule
    assert closed["model"] == closed["diagnostics"] == closed["diff"] == []
    # A manifest with an unknown field is rejected: a misspelt field would be a missing one.
    open_ones = [path for path, part in objects(SCHEMAS["manifest"]) if path not in closed["manifest"]]
    assert open_ones == []


# ---- the schemas in the program ----


@pytest.mark.parametrize("kind", KINDS)
def test_program_prints_the_schema_byte_for_byte(kind):
    result = run("schema", kind)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout == (ROOT / "schemas" / f"{kind}.schema.json").read_bytes()


@pytest.mark.parametrize("kind", ["nope", "", "Plan", "plan.schema.json", "../plan"])
def test_unknown_schema_kind_exits_2_and_lists_the_kinds(kind):
    result = run("schema", kind)
    assert (result.returncode, result.stdout) == (2, b"")
    assert all(known in result.stderr.decode() for known in KINDS)


def test_each_kind_has_exactly_one_file():
    assert sorted(path.name for path in (ROOT / "schemas").glob("*.json")) == [f"{kind}.schema.json" for kind in KINDS]


# ---- the lists in the schemas are the program's tables ----


def first_finding(folder, model_=MODEL, plan_=PLAN):
    return check(folder, model_, plan_)[1]["diagnostics"][0]


def listed(text, words):
    """The names after `words` in a message: "a, b and c"."""
    return re.split(r", | and | or ", text.split(words)[1].strip())


def properties(part, *path):
    for step in path:
        part = part[step]
    return list(part["properties"])


def test_styles_match_the_style_table():
    table = re.findall(r'\{\.name = "(\w+)"', source("styles/style_table.cc"))
    assert len(table) > 20
    assert STYLES == sorted(set(table))
    assert SCHEMAS["manifest"]["definitions"]["style"]["enum"] == STYLES


@pytest.mark.parametrize("style", STYLES)
def test_style_descriptions_match_explain(style):
    described = dict(zip(STYLES, PLAN_DEFINITIONS["style"]["enumDescriptions"], strict=True))[style]
    words = re.search(r"^  for +((?:.|\n {11})*)$", run("explain", style).stdout.decode(), re.M)[1]
    assert described == re.sub(r"\s+", " ", words)


@pytest.mark.parametrize(
    "dialect, definition",
    [
        ("glob", "style"),
        ("regex", "style"),
        ("keras", "style"),
        ("torch", "torchStyle"),
        ("transformers", "transformersStyle"),
    ],
)
def test_styles_of_a_dialect_match_the_program(dialect, definition, tmp_path):
    finding = first_finding(tmp_path, plan_=rule("?", dialect=dialect))
    assert finding["code"] == "TP3005"
    assert sorted(listed(finding["help"], "one of the styles ")) == PLAN_DEFINITIONS[definition]["enum"]


@pytest.mark.parametrize("style", STYLES)
def test_options_of_a_style_match_the_program(style, tmp_path):
    findings = [
        d
        for option, value in OPTIONS.items()
        for d in check(tmp_path, MODEL, styled(style, **{option: value}))[1]["diagnostics"]
        if d["code"] == "TP3008"
    ]
    assert findings, "no style has every option"
    conditions = [d for d in PLAN_DEFINITIONS.values() if "propertyNames" in d.get("then", {})]
    own = [
        d["then"]["propertyNames"]["enum"]
        for d in conditions
        if jsonschema.Draft7Validator({**d["if"], "definitions": PLAN_DEFINITIONS}).is_valid({"style": style})
    ]
    assert len(own) == 1
    assert {"style", *listed(findings[0]["help"], "one of its options: ")} == set(own[0])


def test_options_match_the_table_of_options():
    table = names_in(source("styles/style_options.cc"), r"kOptions\[\] = \{(.*?)\n\};")
    assert sorted(table) == sorted(OPTIONS)
    keys = properties(PLAN_DEFINITIONS, "ruleWithOptions")
    assert sorted(keys) == sorted([*table, "style", "spec", "axis", "optional", "contiguous"])


@pytest.mark.parametrize(
    "bad, keys",
    [
        (plan(zzzzzzzz=1), properties(SCHEMAS["plan"])),
        (styled("colwise", zzzzzzzz=1), properties(PLAN_DEFINITIONS, "ruleWithOptions")),
        (plan(data={"zzzzzzzz": 1}), properties(SCHEMAS["plan"], "properties", "data")),
        (plan(fsdp={"zzzzzzzz": 1}), properties(SCHEMAS["plan"], "properties", "fsdp")),
        (plan(suppress=[{"zzzzzzzz": 1}]), properties(SCHEMAS["plan"], "properties", "suppress", "items")),
    ],
    ids=["the plan", "a rule", "data", "fsdp", "a suppression"],
)
def test_keys_of_a_plan_match_the_program(bad, keys, tmp_path):
    finding = next(d for d in check(tmp_path, MODEL, bad)[1]["diagnostics"] if d["code"] == "TP3004")
    assert listed(finding["help"], "one of the keys ") == keys


def test_suppressible_codes_are_those_of_warnings():
    table = re.findall(r"\((TP\d+), \w+, Warning,", source("diagnostics/diagnostic_kinds.def"))
    suppression = SCHEMAS["plan"]["properties"]["suppress"]["items"]["properties"]
    assert suppression["code"]["enum"] == table


@pytest.mark.parametrize(
    "bad, setting",
    [
        (plan(dialect="?"), SCHEMAS["plan"]["properties"]["dialect"]),
        (plan(dialect="keras", keras_match="?"), SCHEMAS["plan"]["properties"]["keras_match"]),
        (plan(uneven="?"), SCHEMAS["plan"]["properties"]["uneven"]),
        (plan(fsdp={"policy": "?"}), SCHEMAS["plan"]["properties"]["fsdp"]["properties"]["policy"]),
    ],
    ids=["dialect", "keras_match", "uneven", "policy"],
)
def test_values_of_a_setting_match_the_program(bad, setting, tmp_path):
    finding = first_finding(tmp_path, plan_=bad)
    assert finding["code"] == "TP3013"
    assert listed(finding["message"], "not one of ") == setting["enum"]


def test_dtypes_match_the_table():
    table = re.findall(r'\{"(\w+)", \d+, ', source("sharding/dtype.cc"))
    assert len(table) > 30
    assert TENSOR["model"]["dtype"]["enum"] == SCHEMAS["manifest"]["definitions"]["dtype"]["enum"] == table


def test_every_dtype_is_read_and_written(compiles):
    dtypes = TENSOR["model"]["dtype"]["enum"]
    parameters = {f"p{i}": {"shape": [8], "dtype": dtype} for i, dtype in enumerate(dtypes)}
    other = module(path="b", type="Other", parameters=parameters)
    manifest = compiles(model(module(), other), json.dumps(PLAN))
    assert [p["dtype"] for p in manifest["parameters"][1:]] == dtypes


def test_layouts_have_the_operations_of_placements():
    names = "|".join(names_in(source("sharding/placement.cc"), r"kReduceNames = \{(.*?)\}"))
    written_short = PLAN_DEFINITIONS["layoutText"]["anyOf"][1]["pattern"]
    assert written_short == rf"^(Replicate\(\)|Partial\(({names})?\))$"
    assert rf"Partial\(({names})\)" in SCHEMAS["manifest"]["definitions"]["layouts"]["items"]["pattern"]


def test_keys_of_a_model_match_its_reader():
    definitions, module_reader = SCHEMAS["model"]["definitions"], source("model/read_module.cc")
    assert names_in(source("model/read_model.cc"), r"kModelFields\[\] = \{(.*?)\n\};") == properties(SCHEMAS["model"])
    assert names_in(module_reader, r"kModuleKeys\[\] = \{(.*?)\}") == properties(definitions, "module")
    assert names_in(source("model/read_params.cc"), r"kParamKeys\[\] = \{(.*?)\}") == properties(definitions, "tensor")
    assert names_in(module_reader, r"kAttributes\[\] = \{(.*?)\n\};") == properties(
        definitions, "module", "properties", "attributes"
    )


def test_frameworks_and_kinds_match_the_model_reader(tmp_path):
    frameworks = SCHEMAS["model"]["properties"]["framework"]["enum"]
    kinds = SCHEMAS["model"]["definitions"]["module"]["properties"]["kind"]["enum"]
    assert frameworks == names_in(source("model/model_graph.h"), r"kFrameworkNames\[\] = \{(.*?)\}")
    assert kinds == names_in(source("model/module_kinds.cc"), r"kKindNames\[\] = \{(.*?)\}")
    help_line = first_finding(tmp_path, model(framework="?"))["help"]
    assert sorted(listed(help_line, "use ")) == sorted(frameworks)
    help_line = first_finding(tmp_path, model(module(kind="?")))["help"]
    assert sorted(listed(help_line, "use ")) == sorted(kinds)


def test_reasons_and_collectives_match_the_program():
    reasons = names_in(source("resolve/infer/sharding_table.cc"), r"to_text\(Reason reason\) \{(.*?)\n\}")
    assert sorted(TENSOR["manifest"]["reason"]["enum"]) == sorted(reasons)
    table = re.findall(r'"(\w+)"', re.search(r"kNames\[\] = \{(.*?)\}", source("sharding/redistribute.cc"), re.S)[1])
    assert SCHEMAS["manifest"]["definitions"]["collective"]["enum"] == table
    parts = re.findall(r'"(\w+)"', re.search(r"kPartNames\[\] = \{(.*?)\}", source("sharding/steps.cc"), re.S)[1])
    assert SCHEMAS["manifest"]["definitions"]["paramStep"]["properties"]["part"]["enum"] == parts
    phases = re.findall(r'"(\w+)"', re.search(r"kCommPhaseNames.*?\{(.*?)\};", source("diff/manifest_diff.h"), re.S)[1])
    assert SCHEMAS["diff"]["properties"]["collectives"]["items"]["properties"]["phase"]["enum"] == phases


def test_generated_lists_are_up_to_date():
    result = subprocess.run([ROOT / "tools" / "generate" / "write-schemas", "--check"], capture_output=True, text=True)
    assert (result.returncode, result.stdout.strip()) == (0, ""), "run tools/generate/write-schemas"


def test_formats_match_the_program():
    headers = {
        "model": "model/model_graph.h",
        "plan": "plan/read_plan.h",
        "manifest": "manifest/manifest.h",
        "diagnostics": "render/render.cc",
        "diff": "diff/write_diff.h",
        "suggestion": "report/render_suggestion.h",
        "search": "report/render_search.h",
    }
    for kind, path in headers.items():
        assert SCHEMAS[kind]["properties"]["format"]["const"] == f"tpplan.{kind}/1"
        assert f"tpplan.{kind}/1" in source(path)


def test_manifest_and_plan_have_the_same_settings():
    manifest, plan_ = SCHEMAS["manifest"]["properties"], SCHEMAS["plan"]["properties"]
    assert manifest["uneven"]["enum"] == plan_["uneven"]["enum"]
    assert manifest["fsdp"]["properties"]["policy"]["enum"] == plan_["fsdp"]["properties"]["policy"]["enum"]
