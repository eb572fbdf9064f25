"""`tpplan show --verify`: prints only the result of the manifest's verification."""

import copy
import json
import pathlib

import pytest
from conftest import run, signed

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "schemas/manifest.schema.json").read_text())

MODEL = {
    "format": "tpplan.model/1",
    "name": "Small",
    "framework": "torch",
    "modules": [
        {"path": "a", "type": "Linear", "parameters": {"weight": {"shape": [8, 4], "dtype": "float32"}}},
        {"path": "b", "type": "Linear", "parameters": {"weight": {"shape": [4, 8], "dtype": "float32"}}},
    ],
}
PLAN = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {a: colwise, b: rowwise}\n"


@pytest.fixture
def manifest(compiles):
    return compiles(MODEL, PLAN)


def verify(folder, manifest, *more):
    (folder / "m.json").write_text(json.dumps(manifest))
    result = run("show", "m.json", "--verify", *more, cwd=folder)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def test_unmodified_manifest_is_verified(manifest, tmp_path):
    assert verify(tmp_path, manifest) == (
        0,
        "m.json: verified: 2 parameters, 0 buffers and 2 modules of Small on [tp=2]\n",
        "",
    )


def test_contradictory_manifest_is_not_verified(manifest, tmp_path):
    manifest["parameters"][0]["replicas"] = 2
    status, out, said = verify(tmp_path, signed(manifest))
    assert (status, out) == (1, "") and "error[TP7002]" in said


def test_changed_text_is_not_verified(manifest, tmp_path):
    status, out, said = verify(tmp_path, manifest | {"tool": "tpplan 9"})
    assert (status, out) == (1, "") and "error[TP7005]" in said


def test_manifest_without_a_digest_is_not_verified(manifest, tmp_path):
    del manifest["digest"]
    status, out, said = verify(tmp_path, manifest)
    assert (status, out) == (2, "") and "error[TP7001]" in said and "has no `digest`" in said


def required_fields(schema, value, path=()):
    """Yields the path of every field of `value` that the schema requires, one for all items of a list."""
    for name in schema.get("$ref", "#").split("/")[1:]:
        schema = SCHEMA[name] if name == "definitions" else schema[name]
    for key in schema.get("required", ()) if isinstance(value, dict) else ():
        yield *path, key
    parts = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, part in parts:
        yield from required_fields(schema.get("properties", {}).get(key) or schema.get("items", {}), part, (*path, key))


def test_manifest_without_a_required_field_is_not_verified(compiles, tmp_path):
    model = copy.deepcopy(MODEL)
    model["modules"][0]["buffers"] = {"mask": {"shape": [4], "dtype": "bool"}}
    more = "fsdp: {axis: dp, min_weight_size: 0}\ndata: {axes: [dp], dim: 0}\n"
    manifest = compiles(model, PLAN.replace("{tp: 2}", "{dp: 2, tp: 2}") + more)
    fields = set(required_fields(SCHEMA, manifest))
    assert len(fields) > 60 and ("parameters", 0, "style") in fields and ("fsdp", "policy") in fields
    for *above, key in fields:
        changed = copy.deepcopy(manifest)
        owner = changed
        for part in above:
            owner = owner[part]
        del owner[key]
        status, out, said = verify(tmp_path, changed if key == "digest" else signed(changed))
        assert status != 0 and out == "" and "error[TP700" in said, (above, key)


@pytest.mark.parametrize("other", [("--rank", "0"), ("--chart",), ("--format", "json"), ("--parameter", "a.weight")])
def test_verify_excludes_other_output_options(manifest, tmp_path, other):
    status, out, said = verify(tmp_path, manifest, *other)
    assert (status, out) == (2, "") and "exclude" in said
