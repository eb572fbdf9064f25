"""Shardings and collectives of recorded JAX programs, compared with those of Shardy (data/README.md)."""

import collections
import json
import math

import pytest

from conftest import ROOT, run
from recorded import load

MODELS = load("programs")
RANDOM = load("programs_random")
UNSHARDED = ("stablehlo.constant", "stablehlo.iota")


def propagate(folder, program):
    """The JSON output of tpplan for a program."""
    path = folder / "program.json"
    path.write_text(json.dumps(program))
    result = run("propagate", path, "--format", "json")
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


def part(text, mesh):
    """Parses "model" or "model:1:2" as (name, product of the sizes before it, size)."""
    name, *numbers = text.split(":")
    return (name, *map(int, numbers)) if numbers else (name, 1, mesh[name])


def joined(axes, mesh):
    """Consecutive parts of one axis are one part: both notations mean the same."""
    parts = []
    for name, before, size in (part(text, mesh) for text in axes):
        if parts and parts[-1][0] == name and parts[-1][1] * parts[-1][2] == before:
            parts[-1] = (name, parts[-1][1], parts[-1][2] * size)
        else:
            parts.append((name, before, size))
    return tuple(parts)


def shardings(value, mesh):
    return {tuple(joined(dim, mesh) for dim in sharding) for sharding in value}


def all_operations(operations):
    for operation in operations:
        yield operation
        for _, inner, _ in operation[6]:
            yield from all_operations(inner)


def collectives(rows, mesh, with_operation):
    """The rows [kind, axes, bytes, op, times, count] as a multiset. Axes of permutes are not recorded."""
    found = collections.Counter()
    for kind, axes, size, operation, times, count in rows:
        over = () if kind == "collective_permute" else joined(sorted(axes), mesh)
        reduced = operation if kind == "all_reduce" else None
        found[(kind, over, size, *((reduced, times) if with_operation else ()))] += count
    return found


def listed(output, name):
    return [[c["kind"], c["axes"], c["bytes"], c["op"], c["times"], 1] for c in output["collectives"][name]]


def check(folder, case, with_operation):
    program, mesh = case["program"], case["program"]["mesh"]
    output = propagate(folder, program)
    for operation in all_operations(program["ops"]):
        for value, _, shape in operation[3]:
            expected = case["values"].get(str(value))
            if shape and expected is not None and operation[1] not in UNSHARDED:
                found = output["values"][str(value)]
                assert shardings(found, mesh) == shardings(expected, mesh), (operation[:2], value, shape)
    expected = collectives(case["collectives"], mesh, with_operation)
    assert collectives(listed(output, "shardy"), mesh, with_operation) == expected
    return output


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case["name"])
def test_values_and_collectives_of_models_match_shardy(tmp_path, case):
    output = check(tmp_path, case, with_operation=True)
    mesh, sent = case["program"]["mesh"], 0
    for c in output["collectives"]["xla"]:
        ranks = math.prod(mesh[axis.split(":")[0]] for axis in c["axes"])
        share = 1 if c["kind"] == "collective_permute" else (ranks - 1) / ranks
        sent += c["bytes"] * c["times"] * share * (2 if c["kind"] == "all_reduce" else 1)
    assert 1 / 2.5 < sent / case["sent"] < 2.5


@pytest.mark.parametrize("case", RANDOM, ids=lambda case: case["name"])
def test_values_and_collectives_of_random_programs_match_shardy(tmp_path, case):
    check(tmp_path, case, with_operation=False)


def test_output_of_the_smallest_program():
    result = run("propagate", ROOT / "tests" / "plans" / "programs" / "mlp.json", "--format", "json")
    output = json.loads(result.stdout)
    summed = [{"kind": "all_reduce", "axes": ["model"], "bytes": 1024, "op": 1, "times": 1}]
    assert output["values"]["3"] == [[["data"], ["model"]]]
    assert output["values"]["4"] == [[["data"], []]]
    assert output["collectives"] == {"shardy": summed, "xla": summed}
    assert output["without_rule"] == []
