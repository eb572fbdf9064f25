"""The schemas, the program's verdicts, and small plans and models for the tests of this folder.

The plans are written in JSON, which is YAML: program and schema read the same bytes.
"""

import json
import re

import jsonschema
from conftest import ROOT, linear_model, run

KINDS = (
    "baseline",
    "diagnostics",
    "diff",
    "manifest",
    "model",
    "plan",
    "run",
    "search",
    "settings",
    "suggestion",
    "topology",
)
SCHEMAS = {kind: json.loads((ROOT / "schemas" / f"{kind}.schema.json").read_text()) for kind in KINDS}


def without_references(schema, definitions, made):
    """A schema with each {"$ref": "#/definitions/NAME"} replaced by what it names, which may hold itself: `made` has the
    definitions by name. To follow references takes jsonschema half of its time."""
    if isinstance(schema, list):
        return [without_references(part, definitions, made) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" not in schema:
        return {key: without_references(part, definitions, made) for key, part in schema.items()}
    folder, _, name = schema["$ref"].rpartition("/")
    assert folder == "#/definitions"
    if name not in made:
        made[name] = {}
        made[name].update(without_references(definitions[name], definitions, made))
    return made[name]


def validator(schema, definitions):
    parts = {key: part for key, part in schema.items() if key != "definitions"}
    return jsonschema.Draft7Validator(without_references(parts, definitions, {}))


VALIDATORS = {kind: validator(schema, schema.get("definitions", {})) for kind, schema in SCHEMAS.items()}
# The member of a model alone.
VALIDATORS["graph"] = validator({"$ref": "#/definitions/graph"}, SCHEMAS["model"]["definitions"])


def refusals(kind, value):
    """Why the schema refuses a value; empty when it does not."""
    return [error.message for error in VALIDATORS[kind].iter_errors(value)]


# ---- what a schema is made of ----

# The keywords that these schemas use: of one schema, of a list, of a mapping of schemas, and without any.
ONE = {"not", "if", "then", "else", "propertyNames", "additionalProperties", "additionalItems", "items"}
MANY = {"allOf", "anyOf", "oneOf"}
NAMED = {"properties", "definitions"}
PLAIN = {
    "$schema",
    "$id",
    "$ref",
    "title",
    "description",
    "default",
    "type",
    "enum",
    "enumDescriptions",  # of no draft: editors (VS Code, yaml-language-server) show them beside the values
    "const",
    "required",
    "pattern",
    "dependencies",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
}


def subschemas(schema, path=()):
    """Every schema inside a schema with the keywords that lead to it, itself first."""
    if isinstance(schema, bool):
        return
    yield path, schema
    for key, value in schema.items():
        if key in ONE and isinstance(value, dict):
            yield from subschemas(value, (*path, key))
        elif key in MANY or (key == "items" and isinstance(value, list)):
            for i, item in enumerate(value):
                yield from subschemas(item, (*path, key, i))
        elif key in NAMED:
            for name, item in value.items():
                yield from subschemas(item, (*path, key, name))


# Definitions that narrow what another part of the same schema describes.
NARROWING = {"torchRule", "transformersRule", "namesBetweenDots", "namesBetweenSlashes"}


def objects(schema):
    """The schemas that list and describe the properties of an object, with their paths."""
    for path, part in subschemas(schema):
        narrows = {"if", "then", "else", "not", "anyOf", "oneOf"} & set(path) or NARROWING & set(path[1:2])
        if "properties" in part and not narrows:
            yield path, part


def keys_in(value):
    """All keys of all objects in a JSON value."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_in, value.values()))
    return set().union(*map(keys_in, value)) if isinstance(value, list) else set()


# ---- what the program says ----


def source(path):
    return (ROOT / "lib" / path).read_text()


def names_in(text, pattern):
    """The quoted names in the part of a C++ file that the pattern's group takes."""
    found = re.search(pattern, text, re.DOTALL)
    assert found, pattern
    return re.findall(r'"([^"]*)"', found.group(1))


def check(folder, model, plan):
    """`tpplan check --format json` over a model and a plan (values, or their text): exit status and document."""
    paths = folder / "model.json", folder / "plan.yaml"
    for path, content in zip(paths, (model, plan)):
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    result = run("check", "--format", "json", *paths)
    assert result.returncode in (0, 1, 2), result
    return result.returncode, json.loads(result.stdout)


def errors(document):
    return {d["code"] for d in document["diagnostics"] if d["severity"] == "error"}


def structural_errors(folder, model, plan):
    """The codes of errors in syntax and structure; none for inputs of the right structure."""
    status, document = check(folder, model, plan)
    faults = {code for code in errors(document) if code.startswith(("TP1", "TP2", "TP3"))}
    # The one finding of another block that the reader of plans itself makes: of `data.axes` and `loss.axes`.
    twice = ("occurs twice in `data.axes`", "occurs twice in `loss.axes`")
    faults |= {d["code"] for d in document["diagnostics"] if any(text in d["message"] for text in twice)}
    assert faults or status != 2, document
    return faults


# ---- small plans and models ----

MODEL = linear_model(a=([16, 8], [16]))
PLAN = {"format": "tpplan.plan/1", "mesh": {"fsdp": 2, "tp": 4}, "tp_plan": {"a": "colwise"}}


def plan(**changes):
    return PLAN | changes


def without(value, *keys):
    return {k: v for k, v in value.items() if k not in keys}


def rule(treatment, **changes):
    return plan(tp_plan={"a": treatment}, **changes)


def styled(style, **options):
    return rule({"style": style} | options)


def module(**changes):
    return {"path": "a", "type": "Linear", "parameters": {"weight": {"shape": [16, 8], "dtype": "float32"}}} | changes


def model(*modules, **changes):
    head = {"format": "tpplan.model/1", "name": "Test", "framework": "torch"}
    return head | {"modules": list(modules) or [module()]} | changes


def tensor(**changes):
    return model(module(parameters={"weight": {"shape": [16, 8], "dtype": "float32"} | changes}))


# A good value for every option that any style has.
OPTIONS = {
    "input_layouts": "Shard(0)",
    "desired_input_layouts": "Shard(0)",
    "input_kwarg_layouts": {"x": "Shard(0)"},
    "desired_input_kwarg_layouts": {"x": "Shard(0)"},
    "output_layouts": "Shard(0)",
    "desired_output_layouts": "Shard(0)",
    "use_local_input": True,
    "use_local_output": False,
    "sequence_dim": 1,
    "forward_dtype": "bfloat16",
    "backward_dtype": "float32",
}
