"""The text notation of graphs: a printed graph is read back as the same graph, and an invalid line is reported."""

import functools
import json
import lzma
import os
import pathlib
import random
import subprocess

import pytest
from conftest import ROOT, run
from random_graphs import random_graph

LAW = pathlib.Path(os.environ["TPPLAN"]).parent / "tests" / "tpplan_graph_law"
RUNS = sorted((ROOT / "tests" / "truth" / "data").glob("runs_*.json.xz"))
CONFIGS = json.loads(lzma.decompress((ROOT / "tests" / "import" / "data" / "configs.json.xz").read_bytes()))
PLAN = "format: tpplan.plan/1\nmesh: {tp: 2}\nfsdp: {axis: tp, policy: dim0}\n"
LINES = ["input x: float32[2, 4]", "with a(x):", "  h = linear(x, a.weight) -> float32[2, 8]", "  return h", "output h"]


def differences(paths):
    """Returns the models whose printed graph is read back as another graph. Requires that one of the models has a graph."""
    done = subprocess.run([LAW, *paths], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths) and any(line.endswith(": holds") for line in lines), done.stderr
    return [line for line in lines if not line.endswith((": holds", ": no graph"))]


def models_in(value):
    """Yields the models with operations in a file of recorded runs."""
    if isinstance(value, dict) and "format" in value and "graph" in value:
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from models_in(part)


def write_models(folder, models):
    paths = [folder / f"{number}.json" for number in range(len(models))]
    for path, model in zip(paths, models):
        path.write_text(json.dumps(model))
    return paths


def test_round_trip_of_models_of_the_repository():
    folders = (ROOT / "plans" / "models", ROOT / "tests" / "golden", ROOT / "tests" / "plans" / "models")
    assert not differences(sorted(path for folder in folders for path in folder.rglob("*.json")))


@pytest.mark.parametrize("recorded", RUNS, ids=lambda path: path.name.split(".")[0])
def test_round_trip_of_recorded_runs(recorded, tmp_path):
    assert not differences(write_models(tmp_path, list(models_in(json.loads(lzma.decompress(recorded.read_bytes()))))))


def test_round_trip_of_templates(tmp_path):
    paths = []
    for number, row in enumerate(CONFIGS):
        config, model = tmp_path / f"{number}.config.json", tmp_path / f"{number}.json"
        config.write_text(json.dumps(row["config"]))
        if run("import", "--from", "config", config, "-o", model).returncode == 0:
            paths.append(model)
    assert len(paths) > 20 and not differences(paths)


@pytest.mark.parametrize("seed", range(20))
def test_round_trip_of_random_graphs(seed, tmp_path):
    source = random.Random(seed)
    models = [random_graph(source, source.choice((5, 15, 40, 120))) for _ in range(10)]
    assert not differences(write_models(tmp_path, models))


def model_with_graph(lines):
    return {
        "format": "tpplan.model/1",
        "name": "M",
        "framework": "torch",
        "modules": [
            {"path": "", "type": "M", "parameters": {"scale": {"shape": [8], "dtype": "float32"}}},
            {
                "path": "a",
                "type": "Linear",
                "parameters": {"weight": {"shape": [8, 4], "dtype": "float32"}},
                "buffers": {"mask": {"shape": [8], "dtype": "bool"}},
            },
        ],
        "graph": lines,
    }


def print_graph(folder, lines):
    (folder / "model.json").write_text(json.dumps(model_with_graph(lines), indent=1))
    (folder / "plan.yaml").write_text(PLAN)
    return run("compile", "model.json", "plan.yaml", "--print", "graph", cwd=folder)


def test_printed_graph_has_operation_names(tmp_path):
    shown = print_graph(tmp_path, LINES)
    assert shown.returncode == 0, shown.stderr.decode()
    expected = [
        LINES[0],
        LINES[1] + "  # Linear",
        "  linear = linear(x, a.weight) -> float32[2, 8]",
        "  return linear as a",
    ]
    assert shown.stdout.decode().splitlines() == [*expected, "output a"]


def test_model_without_operations_prints_a_comment(tmp_path):
    assert print_graph(tmp_path, []).stdout == b"# the model has no operations\n"


@functools.cache
def statements():
    return {
        "settings": ["trace mode=train, dtype=float32, batch=2, sequence=4", *LINES],
        "comments and blank lines": ["# a comment", "", *LINES[:2], "", *LINES[2:]],
        "a buffer and a parameter by path": [*LINES[:4], "y = where(a.mask, h, scale) -> float32[2, 8]", "output y"],
        "an index": [*LINES[:4], "y = h[:, 1:h.shape[1] // 2] -> float32[2, 3]", "output y"],
        "a size with a name": [*LINES[:4], "size n = h.shape[1]", "y = view(h, (n, -1)) -> float32[8, 2]", "output y"],
        "a nonlocal value": [*LINES[:3], "  nonlocal h", "y = relu(h) -> float32[2, 8]", "output y"],
        "a guard": [*LINES[:4], "assert not h.shape[0] == 1", "output h"],
    }


@pytest.mark.parametrize("name", statements())
def test_statement_is_read(name, tmp_path):
    shown = print_graph(tmp_path, statements()[name])
    assert shown.returncode == 0, shown.stderr.decode()


# Edits of LINES by index, the reported line, words of the message and of the help.
ERRORS = {
    "unknown name": ({2: "  h = linear(y, a.weight) -> float32[2, 8]"}, 2, "unknown value `y`", "`return` it"),
    "name of another module": ({4: "output linear"}, 4, "`linear`", "`return` it"),
    "no types": ({2: "  h = linear(x, a.weight)"}, 2, "missing `->`", "write `->`"),
    "too few types": ({2: "  h, g = chunk(x, 2) -> float32[2, 4]"}, 2, "2 results have names, but 1 have types", "`_`"),
    "quote not closed": ({2: "  h = einsum('ij, x) -> float32[2, 8]"}, 2, "the quote is not closed", "close it with '"),
    "invalid escape": ({2: r"  h = einsum('\q', x) -> float32[2, 8]"}, 2, "invalid escape", r"\n"),
    "unexpected character": ({2: "  h = linear(x, a.weight); -> float32[2, 8]"}, 2, "unexpected character", "backquotes"),
    "wrong indentation": ({3: "   return h"}, 3, "indented by 3 columns, but its module by 2", "same number of columns"),
    "line after return": ({3: "  return h\", \"  y = relu(h) -> float32[2, 8]"}, 3, "follows the `return`", "above"),
    "return outside": ({1: "return x"}, 1, "outside of any module", "`output`"),
    "reserved word": ({2: "  with = linear(x, a.weight) -> float32[2, 8]"}, 2, "the path of a module", "backquotes"),
    "call as argument": ({2: "  h = relu(linear(x, a.weight)) -> float32[2, 8]"}, 2, "cannot be a call", "a separate line"),
    "keyword first": ({2: "  h = linear(bias=None, x) -> float32[2, 8]"}, 2, "follows a keyword", "last"),
    "two operations on sizes": ({2: "  h = view(x, x.shape[0] + 1 * 2) -> float32[2, 8]"}, 2, "second operation", "parentheses"),
    "parentheses around one": ({3: "  return (h)"}, 3, "around one result", "`return (y,)`"),
    "negative size": ({0: "input x: float32[2, -4]"}, 0, "a size of a shape", "count"),
    "unknown setting": ({0: "trace speed=3"}, 0, "unknown setting", "batch"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_error_has_place_message_and_help(name, tmp_path):
    edits, line, message, help_text = ERRORS[name]
    lines = [edits.get(number, text) for number, text in enumerate(LINES)]
    text = "\n".join(
        [
            '{"format": "tpplan.model/1", "name": "M", "framework": "torch",',
            f' "modules": {json.dumps(model_with_graph([])["modules"])},',
        ]
        + [' "graph": [' + ",\n".join(json.dumps(line).replace(r"\", \"", '", "') for line in lines) + "]}"]
    )
    (tmp_path / "model.json").write_text(text)
    (tmp_path / "plan.yaml").write_text(PLAN)
    result = run("check", "model.json", "plan.yaml", "--format", "json", cwd=tmp_path)
    (found,) = json.loads(result.stdout)["diagnostics"]
    assert (result.returncode, found["code"]) == (2, "TP2016"), found
    assert found["place"]["line"] == 3 + line and message in found["message"] and help_text in found["help"], found


def test_graph_of_another_type_is_rejected(tmp_path):
    for graph in ("text", 3, [1], [LINES]):
        result = print_graph(tmp_path, graph)
        assert result.returncode == 2 and b"TP2003" in result.stderr


def test_nesting_of_modules_is_bounded(tmp_path):
    lines = ["input x: float32[2, 4]", *[" " * i + "with a:" for i in range(513)], "output x"]
    result = print_graph(tmp_path, lines)
    assert result.returncode == 2 and b"deeper than 512 levels" in result.stderr
