"""Reader and schema reject the same malformed graphs: the rows of a traced one, changed part by part."""

import json
import re

import pytest
from conftest import ROOT, run
from schema_files import SCHEMAS, VALIDATORS, model, names_in, refusals, source

RECORDED = ROOT / "plans" / "models" / "smollm2-135m.json"
# Forms that the traced step does not contain.
MORE = {
    "sizes": [["neg", [0]], ["floordiv", [0], 2]],
    "leaves": [[0, "constant", 0]],
    "nodes": [
        [2, [["f", "-inf"], ["h", 0.5], ["h", True], ["o", "Generator"], ["d", "float32"], None, 1.5, "mean"], [], []],
        [2, [["t", ["x"], ["s", None, ["e", 0], 2], ["t", [0]]]], [0, ["d", "int64"], 1, True], [0, 1]],
        [0, 0, 1, 1, [[["a", 0], 0, 1, 2], [[0], 0, 1]]],
    ],
    "guards": [["lt", [0], 8, False]],
}
# Replacements for any part.
PARTS = [
    *(None, True, 0, 2, -1, 1.5, 2**30 - 1, 2**30, 2**32 - 2, 2**32 - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1),
    *("eval", "t", "size", [], [0], [-1], [2**32 - 1], ["t"], ["e", 0], ["e", -1], ["f", "1"], {}),
]


def tag_of(value):
    """The first element of a list, if it identifies the form of the list."""
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else ""


def kinds_in(value, path=()):
    """The form of a row: a tag or a type for each place, nested ones without their position."""
    if isinstance(value, list):
        tag = tag_of(value)
        yield (*path, tag, min(len(value), 2))
        is_alike = len({type(part) for part in value}) == 1
        for i, part in enumerate(value):
            yield from kinds_in(part, (*path, tag or "*" if path or is_alike else i))
    else:
        yield (*path, type(value))


def recorded_rows(name, entries):
    """The entries that show a form which no earlier one shows."""
    seen = set()
    for entry in [*entries, *MORE.get(name, [])]:
        kinds = set(kinds_in(entry))
        if not kinds <= seen:
            yield entry
        seen |= kinds


def small_graph():
    """The traced graph with a row for each form. Ids are inconsistent, which is no error of form."""
    graph = json.loads(RECORDED.read_text())["graph"]
    borders = {graph["strings"].index("@enter"): 0, graph["strings"].index("@exit"): 1}
    graph["nodes"] = [[borders.get(node[0], 2), *node[1:]] for node in graph["nodes"]]
    graph |= {name: list(recorded_rows(name, rows)) for name, rows in graph.items() if isinstance(rows, list)}
    return graph | {"strings": ["@enter", "@exit", "linear"], "rules": {"my_op": "d.. -> d.."}}


def variants(row, path, seen):
    """The list with one part replaced by each of PARTS, removed, or added; each place and kind of part once."""
    yield [*row, 0]
    yield [*row, *row[-1:]]
    for i, part in enumerate(row):
        tag = tag_of(row) or "*"
        place = (*path, i if len(path) < 2 or tag in "esdfho" else tag)
        kind = (place, type(part), tag_of(part))
        if kind in seen:
            continue
        seen.add(kind)
        yield row[:i] + row[i + 1 :]
        for other in [*PARTS, *(variants(part, place, seen) if isinstance(part, list) else [])]:
            yield row[:i] + [other] + row[i + 1 :]


GRAPH = small_graph()
STRINGS = GRAPH["strings"]
ROWS = {name: rows for name, rows in GRAPH.items() if isinstance(rows, list) and name != "strings"}


def fault_of_form(folder, graph):
    """The reader's error in the form of a graph (TP2003); empty if there is none."""
    path = folder / "model.json"
    path.write_text(json.dumps(model(graph=graph)))
    result = run("check", "--format", "json", path, ROOT / "plans" / "llama.yaml")
    findings = json.loads(result.stdout)["diagnostics"]
    assert not any(d["code"].startswith("TP1") for d in findings), findings
    return "".join(d["message"] for d in findings if d["code"] == "TP2003")


# ---- forms that only the reader can check ----

# Name: fields of the graph, and the reader's message about their form.
UNSEEN = {
    "operation that is no string": ({"nodes": [[3, [], [], []]]}, "an operation is not in `strings`"),
    "strings behind the nodes": ({"nodes": [[2, [], [], []]], "strings": STRINGS}, "an operation is not in `strings`"),
    "operation in the form of a border": ({"nodes": [[2, 0, []]]}, "the arguments of an op are not a list"),
    "border in the form of an operation": ({"nodes": [[0, [], [], []]]}, "module of the graph is an array, not an id"),
    "end of a module in the form of its beginning": ({"nodes": [[1, 0, 0, 0, []]]}, "the values of a boundary are not a list"),
    "keyword without its argument": ({"nodes": [[2, [], [0], []]]}, "a keyword has no argument"),
    "keyword that is no string": ({"nodes": [[2, [], ["dim", 0], []]]}, "keyword of the graph is a string, not an id"),
    "2^62 elements and one": ({"shapes": [[2**62, 2]]}, "a shape has more than 2^62 elements"),
}  # fmt: skip
# Ids that do not exist, and rows that contradict each other: tests/bad_input/test_graph.py.


def with_strings(graph):
    return graph if "strings" in graph else {"strings": STRINGS} | graph


@pytest.mark.parametrize("name", UNSEEN)
def test_reader_reports_graph_errors_the_schema_cannot_express(name, tmp_path):
    graph, message = UNSEEN[name]
    assert message in fault_of_form(tmp_path, with_strings(graph))
    assert refusals("model", model(graph=with_strings(graph))) == []


def is_unseen(row, changed, fault):
    """True if only the reader can check a changed row: a string selects the form of an operation's row."""
    if any(message in fault for message in ("is not in `strings`", "2^62 elements", "keyword", "enters a module")):
        return True
    return isinstance(changed, list) and changed[1:] == row[1:] and changed[0] in (0, 1, 2)


# ---- forms that both check ----


def judge_alike(folder, cases):
    """Cases are (change, graph): those on which reader and schema disagree, and the numbers that both reject and accept."""
    unlike, counts = [], {True: 0, False: 0}
    for row, changed, graph in cases:
        fault, refused = fault_of_form(folder, graph), not VALIDATORS["graph"].is_valid(graph)
        counts[refused] += 1
        if bool(fault) != refused and not (fault and is_unseen(row, changed, fault)):
            unlike.append((changed, fault, refused))
    return unlike, counts


def test_traced_rows_are_well_formed(tmp_path):
    assert {len(rows) > 0 for rows in ROWS.values()} == {True} and len(ROWS["nodes"]) > 20
    assert fault_of_form(tmp_path, GRAPH) == ""
    assert refusals("model", model(graph=GRAPH)) == []


@pytest.mark.parametrize("name", ROWS)
def test_reader_and_schema_reject_the_same_rows(name, tmp_path):
    seen, tried = set(), {}
    for row in ROWS[name]:
        tried |= {repr(changed): (row, changed) for changed in [*PARTS, *variants(row, (len(row),), seen)]}
    unlike, counts = judge_alike(
        tmp_path, ((row, changed, {"strings": STRINGS, name: [changed]}) for row, changed in tried.values())
    )
    assert unlike == []
    assert counts[True] > 20 and counts[False] > 2, counts


@pytest.mark.parametrize("name", [*GRAPH, "a member that nobody knows"])
def test_reader_and_schema_reject_the_same_fields(name, tmp_path):
    whole = {"strings": STRINGS, "rules": {"my_op": "d.. -> d.."}, "mode": "train"}
    parts = [*PARTS, ["a"], {"my_op": 1}, {"my_op": "d.. -> d.."}, [0, 1], [0, None]]
    unlike, counts = judge_alike(tmp_path, ((None, part, whole | {name: part}) for part in parts))
    assert unlike == []
    assert name == "a member that nobody knows" or min(counts.values()) > 0, counts


def test_graph_without_optional_fields_is_well_formed(tmp_path):
    for name in GRAPH:
        graph = {k: v for k, v in GRAPH.items() if k != name and (k != "nodes" or name != "strings")}
        assert (fault_of_form(tmp_path, graph), refusals("model", model(graph=graph))) == ("", [])


def test_traced_model_is_valid_by_the_schema():
    assert refusals("model", json.loads(RECORDED.read_text())) == []


def test_names_in_the_schema_match_the_tables():
    definitions = SCHEMAS["model"]["definitions"]
    graph = definitions["graph"]["properties"]
    tables, arguments = source("model/read_tables.cc"), definitions["argument"]["anyOf"]
    members = re.findall(r'^    \{"(\w+)", JsonField', source("model/read_graph.cc"), re.MULTILINE)
    assert list(graph) == members
    assert graph["leaves"]["items"]["items"][1]["enum"] == names_in(tables, r"kKinds\[\] = \{(.*?)\}")
    assert graph["guards"]["items"]["items"][0]["enum"] == names_in(tables, r"kOps\[\] = \{(.*?)\};")
    forms = [form if "items" in form else definitions[form["$ref"].split("/")[-1]] for form in arguments[1:]]
    tags = [tag for form in forms for tag in form["items"][0].get("enum", [form["items"][0].get("const")]) if tag]
    known = re.findall(r'^    \{"(\w)", ', source("model/read_args.cc"), re.MULTILINE)
    assert sorted(tags) == sorted(known) and len(tags) == 8
