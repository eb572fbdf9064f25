"""The keras dialect finds the layout of Keras' LayoutMap, and the slices of every rank follow from it."""

import itertools

import pytest

from conftest import plan_text
from recorded import compile_files, load, model_of, slices_of_ranks

CASES = load("keras")
MESH = {"data": 2, "model": 4}


def modules_of(case):
    """Dense layers; Keras' variables are (in, out) kernels and biases."""
    modules = {"": {}}
    for path in case["result"]:
        layer, name = path.rsplit("/", 1)
        shape = [32] if name == "bias" else [16, 32]
        modules.setdefault(layer, {})[name] = {"shape": shape, "dtype": "float32"}
    return [
        {"path": path, "type": "Dense" if path else "Model", "parameters": parameters}
        for path, parameters in modules.items()
    ]


def compile_case(folder, case):
    rules = {
        key: f"{{spec: {[axis or 'null' for axis in spec]}, optional: true}}".replace("'", "")
        for key, spec in case["keys"].items()
    }
    plan = plan_text(rules, "{data: 2, model: 4}", "keras", "axis: model\n")
    return compile_files(folder, model_of(modules_of(case), "keras"), plan)


def slices_by_hand(shape, spec, coordinate):
    """Keras and JAX shard evenly: shard i of n of each dim."""
    runs = []
    for size, axis in zip(shape, spec):
        piece = size // MESH[axis] if axis else size
        begin = coordinate[axis] * piece if axis else 0
        runs.append([[begin, begin + piece]])
    return runs


@pytest.mark.parametrize("number", range(len(CASES)))
def test_layout_map_matches_keras(tmp_path, number):
    case = CASES[number]
    status, manifest, stderr = compile_case(tmp_path, case)
    if "ambiguous" in case["result"].values():
        assert status == 1 and "TP4003" in stderr
        return
    assert status == 0, stderr
    specs = {}
    for entry in manifest["parameters"]:
        specs[entry["path"]] = case["result"][entry["path"]] or [None] * len(entry["shape"])
        assert entry["spec"] == specs[entry["path"]], entry["path"]
    coordinates = [dict(zip(MESH, at)) for at in itertools.product(range(2), range(4))]
    for rank, slices in enumerate(slices_of_ranks(tmp_path, manifest, len(coordinates))):
        for entry in manifest["parameters"]:
            by_hand = slices_by_hand(entry["shape"], specs[entry["path"]], coordinates[rank])
            assert slices[entry["path"]] == by_hand, (rank, entry["path"])


def test_recorded_maps_have_matches_and_ambiguous_keys():
    results = [result for case in CASES for result in case["result"].values()]
    assert "ambiguous" in results and None in results and ["model"] in results
