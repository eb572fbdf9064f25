"""An operation graph that contradicts itself, its model or its operations is rejected with a place in the file, and never checked
silently."""

import copy
import json

import pytest
from conftest import run, write
from promise import printable


def linear(path, out_features, in_features):
    return {
        "path": path,
        "type": "Linear",
        "parameters": {
            "weight": {"shape": [out_features, in_features], "dtype": "float32"},
            "bias": {"shape": [out_features], "dtype": "float32"},
        },
    }


# x + down(relu(up(x))), as python -m tpplan.export traces it.
MODEL = {
    "format": "tpplan.model/1", "name": "Mlp", "framework": "torch",
    "modules": [{"path": "", "type": "Mlp"}, linear("up", 8, 4), linear("down", 4, 8)],
    "graph": {
        "mode": "eval", "dtype": "float32", "batch": 2, "sequence": 2,
        "strings": ["@enter", "", "up", "linear", "@exit", "inplace", "relu", "down", "add", "float32", "x", "up.weight",
                    "up.bias", "down.weight", "down.bias", "view", "other.weight", "nowhere"],
        "shapes": [[2, 2, 4], [8, 4], [8], [2, 2, 8], [4, 8], [4], [2, 2, 5]],
        "sizes": [],
        "values": [[0, 9, 0], [0, 9, 0], [0, 9, 0], [1, 9, 1], [2, 9, 1], [3, 9, 1], [3, 9, 1], [3, 9, 1], [3, 9, 1], [4, 9, 1],
                   [5, 9, 1], [0, 9, 1], [0, 9, 1], [0, 9, 1], [0, 9, 1]],
        "leaves": [[0, "input", 10], [3, "param", 11], [4, "param", 12], [9, "param", 13], [10, "param", 14]],
        "nodes": [[0, 1, 1, 0, [[[0], 0, 1]]],
                  [0, 2, 1, 0, [[[0], 1, 2]]],
                  [3, [[2], [3], [4]], [], [5]],
                  [4, 2, [[[], 5, 6]]],
                  [6, [[6]], [5, False], [7]],
                  [0, 7, 1, 0, [[[0], 7, 8]]],
                  [3, [[8], [9], [10]], [], [11]],
                  [4, 7, [[[], 11, 12]]],
                  [8, [[1], [12]], [], [13]],
                  [4, 1, [[[], 13, 14]]]],
        "guards": [], "output": 14,
    },
}  # fmt: skip
PLAN = """format: tpplan.plan/1
dialect: transformers
mesh: {tp: 2}
tp_plan: {up: colwise, down: rowwise}
"""


def check(folder, model):
    result = run("check", *write(folder, model, PLAN))
    return result.returncode, printable(result.stdout + result.stderr)


def test_unmodified_graph_passes(tmp_path):
    assert check(tmp_path, MODEL)[0] == 0


def add_with_other_sizes(graph):
    """Declares [2, 2, 4] + [2, 2, 4] as [2, 2, 5], before any value is sharded."""
    graph["values"][13] = graph["values"][14] = [6, 9, 1]


def operands_of_other_sizes(graph):
    """Declares 5 elements for the input of the add, which no rule of the plan affects."""
    graph["values"][0] = [6, 9, 0]
    graph["values"][1] = [6, 9, 0]


CONTRADICTIONS = {
    "cycle": (lambda g: g["nodes"][2][1].__setitem__(0, [13]), "model.json:"),
    "dangling id": (lambda g: g["nodes"][2][1].__setitem__(0, [99]), "model.json:"),
    "defined twice": (lambda g: g["nodes"][4].__setitem__(3, [5]), "model.json:"),
    "boundaries that do not nest": (lambda g: g["nodes"].insert(3, g["nodes"].pop(5)), "model.json:"),
    "left and never entered": (lambda g: g["nodes"].pop(1), "model.json:"),
    "entered and never left": (lambda g: g["nodes"].pop(), "model.json:"),
    "result of another size": (add_with_other_sizes, "add returns 4 elements in dim 2, but the file declares 5"),
    "operands of other sizes": (operands_of_other_sizes, "model.json:"),
    "wrong inner size": (lambda g: g["nodes"][2].__setitem__(1, [[2], [9], [10]]), "model.json:"),
    "a size that is not yet known": (
        lambda g: (g["sizes"].append(["size", 13, 0]), g["nodes"].insert(4, [15, [[6], ["t", ["e", 0], -1, 8]], [], [7]])),
        "model.json:"),
    "a parameter of another model": (lambda g: g["leaves"][1].__setitem__(2, 16), "model.json:"),
    "a module of another model": (lambda g: g["nodes"][1].__setitem__(1, 17), "model.json:"),
    "a parameter of another shape": (lambda g: g["values"][3].__setitem__(0, 4), "model.json:"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradiction_is_rejected_with_its_place(name, tmp_path):
    edit, says = CONTRADICTIONS[name]
    model = copy.deepcopy(MODEL)
    edit(model["graph"])
    status, text = check(tmp_path, model)
    assert status == 2 and says in " ".join(text.split()), text
    assert "model.json:" in text


def test_unknown_operation_matters_only_on_a_shard(tmp_path):
    model = copy.deepcopy(MODEL)
    model["graph"]["strings"][8] = "my_op"  # joins replicated values
    assert check(tmp_path, model)[0] == 0
    model = copy.deepcopy(MODEL)
    model["graph"]["strings"][6] = "my_op"  # gets local shards
    status, text = check(tmp_path, model)
    assert status == 0 and "TP5114" in text and "`my_op`" in text and "lib/ops" in text


@pytest.mark.parametrize(
    "rule, status",
    [
        ("d.. -> d..", 0),
        ("b s k -> b s k", 0),
        ("b s k -> b s k; whole k", 1),
        ("d..", 2),
        ("; ->", 2),
        ("d.. -> d..; hole d", 2),
    ],
)
def test_model_defines_rules_for_custom_operations(rule, status, tmp_path):
    model = copy.deepcopy(MODEL)
    model["graph"]["strings"][6] = "my_op"
    model["graph"]["rules"] = {"my_op": rule}
    found, text = check(tmp_path, model)
    assert found == status, text


def test_million_operations_are_checked(tmp_path):
    model = copy.deepcopy(MODEL)
    graph, count = model["graph"], 1_000_000
    first = len(graph["values"])
    graph["values"] += [[3, 9, 1]] * count
    graph["nodes"][4:5] = [[6, [[6 if i == 0 else first + i - 1]], [], [first + i]] for i in range(count)]
    graph["nodes"][4 + count] = [0, 7, 1, 0, [[[0], first + count - 1, 8]]]
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "plan.yaml").write_text(PLAN)
    result = run("check", tmp_path / "model.json", tmp_path / "plan.yaml", timeout=120)
    assert result.returncode in (0, 2, 3)
    assert result.returncode == 0 or b"error[" in result.stdout + result.stderr
