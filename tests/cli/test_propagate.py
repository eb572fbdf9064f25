"""`tpplan propagate`: what it rejects, and what it prints."""

import copy
import json

import pytest

from conftest import ROOT, codes, run

PROGRAM = json.loads((ROOT / "tests" / "plans" / "programs" / "mlp.json").read_text())


def propagate(folder, program, *flags):
    path = folder / "program.json"
    path.write_text(program if isinstance(program, str) else json.dumps(program))
    return run("propagate", path, *flags)


def changed(edit):
    program = copy.deepcopy(PROGRAM)
    edit(program)
    return program


def appended(name, operands, shape=(8, 64), attributes=None):
    """An edit that returns the result of one more operation."""

    def edit(program):
        result = [[9, "f32", list(shape)]]
        program["ops"].append([7, name, operands, result, attributes or {}, "", []])
        program["outs"] = [9]

    return edit


def loop(operands, blocks, results):
    return [8, "stablehlo.while", operands, results, {}, "", blocks]


# What is wrong, by an edit of the program, and a part of the message.
WRONG = {
    "key": (lambda p: p.update(extra=1), "a program has no key `extra`"),
    "missing key": (lambda p: p.pop("mesh"), "key `mesh` is missing"),
    "mesh": (lambda p: p.update(mesh=[2]), "`mesh` is an array, not an object"),
    "axis size": (lambda p: p["mesh"].update(model=0), "the mesh has less than 1"),
    "axis name": (lambda p: p["mesh"].update({"a:b": 2}), "contains a colon"),
    "huge mesh": (lambda p: p["mesh"].update(other=1 << 40), "more than 2147483648 devices"),
    "unknown axis": (lambda p: p.update(in_sh=[[[["tp"], []]], None, None]), "`tp` is not an axis of the mesh"),
    "part of an axis": (lambda p: p.update(in_sh=[[[["model:1:3"], []]], None, None]), "`model:1:3` is not an axis"),
    "axis twice": (lambda p: p.update(in_sh=[[[["data"], ["data"]]], None, None]), "has axis `data` twice"),
    "rank of a sharding": (
        lambda p: p.update(in_sh=[[[["data"]]], None, None]),
        "a sharding has 1 dims, but its tensor 2",
    ),
    "number of shardings": (lambda p: p.update(in_sh=[None]), "`in_sh` has 1 entries, but `args` has 3"),
    "type": (lambda p: p["args"][0].__setitem__(1, "f7"), "type `f7` is unknown"),
    "negative size": (lambda p: p["args"][0].__setitem__(2, [-1]), "less than 0"),
    "huge tensor": (lambda p: p["args"][0].__setitem__(2, [1 << 40, 1 << 40]), "more than 4503599627370496 elements"),
    "many dims": (lambda p: p["args"][0].__setitem__(2, [1] * 65), "more than 64 dims"),
    "undefined value": (lambda p: p["ops"][0][2].__setitem__(0, 99), "value 99 is used where it is not defined"),
    "value before it is made": (lambda p: p["ops"].reverse(), "value 3 is used where it is not defined"),
    "value twice": (lambda p: p["ops"][1][3][0].__setitem__(0, 3), "two values have number 3"),
    "operation twice": (lambda p: p["ops"][1].__setitem__(0, 0), "two operations have number 0"),
    "large number": (lambda p: p["ops"][0].__setitem__(0, 1 << 40), "not from 0 to 4194303"),
    "operation": (lambda p: p["ops"].append([1, 2]), "has 2 items, not 7"),
    "contraction": (lambda p: p["ops"][0][4].clear(), "the dims of a product do not fit its tensors"),
    "shapes": (appended("stablehlo.add", [3, 4]), "the tensors of stablehlo.add have different shapes"),
    "attribute": (
        appended("stablehlo.transpose", [4], (64, 8)),
        "attribute `permutation` of stablehlo.transpose is not a list of integers",
    ),
    "constraint": (
        appended("sdy.sharding_constraint", [4], attributes={"sharding": "#sdy.sharding<@mesh, [{}p1, {}]>"}),
        "is not a sharding that propagation supports",
    ),
    "loop": (
        lambda p: p.update(ops=[*p["ops"], loop([4], [[[], [], []], [[], [], []]], [[9, "f32", [8, 64]]])], outs=[9]),
        "result 0 of stablehlo.while does not fit",
    ),
    "value of a region": (
        lambda p: p["ops"].extend(
            [
                loop([], [[[], [], []], [[[9, "f32", [8, 64]]], [], []]], []),
                [7, "stablehlo.negate", [9], [[10, "f32", [8, 64]]], {}, "", []],
            ]
        ),
        "value 9 is used where it is not defined",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_program_is_rejected_with_a_place(tmp_path, name):
    edit, message = WRONG[name]
    result = propagate(tmp_path, changed(edit))
    text = " ".join(result.stderr.decode().split())
    assert result.returncode == 2, text
    assert codes(result) == ["TP2017"], text
    assert message in text
    assert "program.json:1:" in text and "= help:" in text
    assert not result.stdout


@pytest.mark.parametrize("text, code", [("", "TP1008"), ("[]", "TP1003"), ("{", "TP1003"), ('{"ops": 1}', "TP2017")])
def test_other_files_are_rejected(tmp_path, text, code):
    result = propagate(tmp_path, text)
    assert result.returncode == 2
    assert codes(result) == [code], result.stderr


def test_deep_nesting_is_rejected(tmp_path):
    operation = [100, "x", [], [], {}, "", []]
    for number in range(40):
        operation = [number, "x", [], [], {}, "", [[[], [operation], []]]]
    result = propagate(tmp_path, changed(lambda p: p.update(ops=[operation], outs=[], out_sh=[])))
    assert result.returncode == 2
    assert codes(result) == ["TP1007"], result.stderr


def test_endless_loops_are_rejected(tmp_path):
    def nest(depth):
        constant = [
            2 * depth,
            "stablehlo.constant",
            [],
            [[100 + depth, "i32", []]],
            {"value": f"dense<{1 << 40}> : tensor<i32>"},
            "",
            [],
        ]
        body = [] if depth == 0 else [nest(depth - 1)]
        return [2 * depth + 1, "stablehlo.while", [], [], {}, "", [[[], [constant], []], [[], body, []]]]

    result = propagate(tmp_path, changed(lambda p: p.update(ops=[nest(3)], outs=[], out_sh=[])))
    assert result.returncode == 3
    assert codes(result) == ["TP9001"], result.stderr


def test_too_many_copies_of_constants_are_rejected(tmp_path):
    """Each of 2,000 users of a chain of 2,000 constants gets a copy of its own."""
    size = 2000
    ops = [[0, "stablehlo.constant", [], [[3, "f32", [8]]], {"value": "dense<0.0> : tensor<8xf32>"}, "", []]]
    ops += [[i, "stablehlo.negate", [2 + i], [[3 + i, "f32", [8]]], {}, "", []] for i in range(1, size)]
    ops += [[size + i, "stablehlo.add", [0, 2 + size], [[3 + size + i, "f32", [8]]], {}, "", []] for i in range(size)]
    args = [[0, "f32", [8]]]
    outs = [3 + size + i for i in range(size)]
    program = {"mesh": {"a": 2}, "args": args, "in_sh": [None], "ops": ops, "outs": outs, "out_sh": [None] * size}
    result = propagate(tmp_path, program)
    assert result.returncode == 3
    assert codes(result) == ["TP9001"], result.stderr


def test_unknown_operations_are_listed(tmp_path):
    def edit(program):
        program["ops"].append([7, "stablehlo.fft", [4], [[9, "f32", [8, 64]]], {}, "fft", []])
        program["outs"] = [9]

    program = changed(edit)
    assert json.loads(propagate(tmp_path, program, "--format", "json").stdout)["without_rule"] == [
        {"op": 7, "name": "stablehlo.fft"}
    ]
    assert b"no rule, nothing propagates through them: stablehlo.fft" in propagate(tmp_path, program).stdout


def test_axes_of_size_1_are_dropped(tmp_path):
    def edit(program):
        program["mesh"]["one"] = 1
        program["in_sh"][0] = [[["one", "data"], []]]

    output = json.loads(propagate(tmp_path, changed(edit), "--format", "json").stdout)
    assert output["values"]["3"] == [[["data"], ["model"]]]


def test_collectives_in_loops_count_their_turns(tmp_path):
    def edit(program):
        product = program["ops"].pop()
        counter, bound = [20, "i32", []], [21, "i32", []]
        condition = [
            [[22, "i32", []], [23, "f32", [8, 256]], [24, "f32", [8, 64]]],
            [
                [10, "stablehlo.constant", [], [bound], {"value": "dense<5> : tensor<i32>"}, "", []],
                [11, "stablehlo.compare", [22, 21], [[25, "i1", []]], {}, "", []],
            ],
            [25],
        ]
        product[2], product[3][0][0] = [27, 2], 29
        body = [[[26, "i32", []], [27, "f32", [8, 256]], [28, "f32", [8, 64]]], [product], [26, 27, 29]]
        program["args"].append([5, "f32", [8, 64]])
        program["in_sh"].append(None)
        program["ops"] += [
            [9, "stablehlo.constant", [], [counter], {"value": "dense<0> : tensor<i32>"}, "", []],
            loop([20, 3, 5], [condition, body], [[30, "i32", []], [31, "f32", [8, 256]], [4, "f32", [8, 64]]]),
        ]

    output = json.loads(propagate(tmp_path, changed(edit), "--format", "json").stdout)
    assert [(c["kind"], c["op"], c["times"]) for c in output["collectives"]["shardy"]] == [("all_reduce", 1, 5)]
