"""tpplan check --costs: the memory of a rank by recipes, and with --topology the time of a step by the formulas of rings."""

import json
import re

import jsonschema
import pytest
from conftest import ROOT, run

SCHEMA = json.loads((ROOT / "schemas/diagnostics.schema.json").read_text())
TOPOLOGY_SCHEMA = json.loads((ROOT / "schemas/topology.schema.json").read_text())
CASE = ROOT / "tests/golden/manifest/saved-activations-under-tp"
TOPOLOGY = {
    "format": "tpplan.topology/1",
    "peak_flops": {"float32": 1e9},
    "efficiency": 0.5,
    "links": [{"ranks": 4, "bandwidth": 1e6, "latency": 1e-3}],
}


def check(folder, topology=None, *flags, model=CASE / "model.json", plan=CASE / "plan.yaml"):
    if topology is not None:
        (folder / "topology.yaml").write_text(json.dumps(topology))
        flags += ("--topology", folder / "topology.yaml")
    return run("check", model, plan, "--costs", "--format", "json", *flags)


def costs(folder, *arguments, **more):
    result = check(folder, *arguments, **more)
    assert result.returncode == 0, result.stdout.decode()
    document = json.loads(result.stdout)
    jsonschema.Draft7Validator(SCHEMA).validate(document)
    return document["costs"]


# Bytes per float32 parameter: gradients, master weights, optimizer state.
RECIPES = {
    "none": (0, 0, 0), "sgd": (4, 0, 0), "sgd_momentum": (4, 0, 4), "adamw": (4, 0, 8), "adamw_fp32": (4, 0, 8), "adamw_mixed": (4, 0, 8),
    "adamw_mixed_fp32_gradients": (4, 0, 8), "lion": (4, 0, 4),
}  # fmt: skip
HALF = RECIPES | {"sgd": (2, 0, 0), "sgd_momentum": (2, 0, 2), "adamw": (2, 0, 4), "adamw_fp32": (2, 0, 8), "adamw_mixed": (2, 4, 8),
                  "adamw_mixed_fp32_gradients": (4, 4, 8), "lion": (2, 0, 2)}  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("dtype, table", [("float32", RECIPES), ("bfloat16", HALF)])
def test_memory_of_each_recipe(tmp_path, recipe, dtype, table):
    model = tmp_path / "model.json"
    model.write_text((CASE / "model.json").read_text().replace("float32", dtype))
    memory = costs(tmp_path, None, "--recipe", recipe, model=model)["memory"]
    terms = {term["name"]: term["bytes"] for term in memory["terms"]}
    held = 512  # of 1024 elements in four weights, sharded over two ranks
    wanted = dict(zip(("gradients", "master weights", "optimizer state"), (held * each for each in table[recipe])))
    assert {name: terms.get(name, 0) for name in wanted} == wanted
    assert terms["parameters"] == held * (4 if dtype == "float32" else 2)
    assert memory["total"] == sum(term["bytes"] for term in memory["terms"] if not term["is_part"])
    assert memory["activations"] and ("saved activations" in terms) == (recipe != "none")


def test_step_time_is_matmuls_plus_waits(tmp_path):
    found = costs(tmp_path, TOPOLOGY)["time"]
    assert found["forward"] == pytest.approx(2 * 4096 / 0.5e9) and found["backward"] == pytest.approx(
        (6144 + 8192) / 0.5e9
    )
    # Two all_reduce of [2, 4, 8] float32 forward, and one backward, as the input needs no gradient.
    [axis] = found["axes"]
    assert axis["seconds"] == pytest.approx(axis["calls"] * (2 * 1e-3 + 256 / 1e6)) and axis["calls"] == 3
    assert found["total"] == pytest.approx(found["forward"] + found["backward"] + axis["seconds"])
    assert found["waited"] == pytest.approx(axis["seconds"]) and not axis["overlaps"]


def test_axis_speed_replaces_the_link_speed(tmp_path):
    faster = TOPOLOGY | {"axes": {"tp": {"bandwidth": 1e9, "latency": 1e-6}}}
    assert costs(tmp_path, faster)["time"]["waited"] == pytest.approx(3 * (2e-6 + 256 / 1e9), abs=2e-9)


LINK = TOPOLOGY["links"][0]
BAD = {
    "a bandwidth of zero": (TOPOLOGY | {"links": [LINK | {"bandwidth": 0}]}, "TP9101"),
    "a negative latency": (TOPOLOGY | {"links": [LINK | {"latency": -1e-6}]}, "TP9101"),
    "a peak that is text": (TOPOLOGY | {"peak_flops": {"float32": "fast"}}, "TP9101"),
    "a type that nobody knows": (TOPOLOGY | {"peak_flops": {"float33": 1e9}}, "TP9101"),
    "more than the peak": (TOPOLOGY | {"efficiency": 1.5}, "TP9101"),
    "no latency": (TOPOLOGY | {"links": [{"bandwidth": 1e9}]}, "TP9101"),
    "an unknown key": (TOPOLOGY | {"link": []}, "TP9101"),
    "no format": ({"peak_flops": {"float32": 1e9}, "links": [LINK]}, "TP9101"),
    "no peak": ({"format": "tpplan.topology/1", "links": [LINK]}, "TP9101"),
    "an unknown axis": (TOPOLOGY | {"axes": {"tensor": {"bandwidth": 1e9, "latency": 1e-6}}}, "TP9102"),
    "an axis without a link": (TOPOLOGY | {"links": [LINK | {"ranks": 1}]}, "TP9103"),
}
SEEN_BY_NO_SCHEMA = ("a type that nobody knows", "an unknown axis", "an axis without a link")


@pytest.mark.parametrize("name", BAD)
def test_wrong_topology_is_a_diagnostic_with_a_place(tmp_path, name):
    topology, code = BAD[name]
    result = check(tmp_path, topology)
    findings = json.loads(result.stdout)["diagnostics"]
    assert result.returncode == 2 and [d["code"] for d in findings] == [code]
    assert findings[0]["place"]["file"].endswith("topology.yaml") and findings[0]["help"]
    refused = not jsonschema.Draft7Validator(TOPOLOGY_SCHEMA).is_valid(topology)
    assert refused == (name not in SEEN_BY_NO_SCHEMA)


def test_unknown_recipe_error_lists_the_existing_ones():
    result = run("check", CASE / "model.json", CASE / "plan.yaml", "--costs", "--recipe", "adan")
    assert result.returncode == 2 and b"adamw_mixed" in result.stderr


def test_activations_are_omitted_without_operations(tmp_path):
    model = json.loads((CASE / "model.json").read_text())
    del model["graph"]
    (tmp_path / "model.json").write_text(json.dumps(model))
    memory = costs(tmp_path, None, model=tmp_path / "model.json")["memory"]
    assert not memory["activations"] and [t["name"] for t in memory["terms"]] == [
        "parameters",
        "gradients",
        "optimizer state",
    ]
    shown = run("check", tmp_path / "model.json", CASE / "plan.yaml", "--costs").stdout.decode()
    assert "activations are unknown" in shown


def test_screen_is_80_columns_wide_at_most(tmp_path):
    result = run(
        "check", CASE / "model.json", CASE / "plan.yaml", "--costs", "--topology", ROOT / "plans/topologies/h100.yaml"
    )
    text = result.stdout.decode()
    assert result.returncode == 0, text
    assert max(map(len, text[text.index("memory of a step") :].splitlines())) <= 80
    assert re.search(r"^ together .* matmuls .*, waiting ", text, re.M) and "saved activations" in text


@pytest.mark.parametrize("recipe", ("adamw", "sgd"))
def test_show_prints_the_memory_of_check(tmp_path, recipe):
    given = ("--recipe", recipe)
    checked = run("check", CASE / "model.json", CASE / "plan.yaml", "--costs", *given).stdout.decode()
    manifest = run("compile", CASE / "model.json", CASE / "plan.yaml").stdout
    shown = run("show", "-", *given, stdin=manifest).stdout.decode()
    assert checked[checked.index("memory of a step") :] == shown[shown.index("memory of a step") :]
    assert f"recipe {recipe}" in shown and "saved activations" in shown
