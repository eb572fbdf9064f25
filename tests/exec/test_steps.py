"""One list of steps: `tpplan-exec run` executes the steps of a parameter in the manifest, the report adds them up and `tpplan diff` counts
them."""

import json
import pathlib
import sys

import pytest
from conftest import run, signed
from executor import execute
from small_models import PLANS, linear, llama, plan

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "report"))
from page import number, read_page, section, table, value  # noqa: E402

MAJOR = {"format": "tpplan.model/1", "name": "Major", "framework": "torch", "modules": [linear("up", 1024, 1024)]}
DATA = {"axes": ["fsdp"], "dim": 0}


def major(mesh):
    """FSDP's axis before tp's on one dim, as JAX plans write it."""
    return MAJOR, plan(mesh, {"up": {"spec": [["fsdp", "tp"], None]}}, fsdp={"axis": "fsdp"}, data=DATA)


CASES = {
    "fsdp before tp": major({"fsdp": 2, "tp": 2}),
    "fsdp before tp, and after it in the mesh": major({"tp": 2, "fsdp": 2}),
    "hybrid": (
        llama(),
        plan(
            {"dp": 2, "fsdp": 2},
            {"lm_head": "replicate"},
            axis="fsdp",
            uneven="torch",
            data={"axes": ["dp", "fsdp"], "dim": 0},
            fsdp={"axis": "fsdp", "policy": "dim0"},
        ),
    ),
    **{name: (llama(), text) for name, text in PLANS.items() if "fsdp" in name or "data" in name},
}


@pytest.fixture(params=CASES)
def manifest(request, compiles, tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(compiles(*CASES[request.param])))
    return path


def counted(manifest):
    """Parameters without tied repeats: the first name of each tensor."""
    again = {path for group in manifest["tied"] for path in group[1:]}
    return [p for p in manifest["parameters"] if p["path"] not in again]


def moves(manifest):
    """Traffic of all tensors over each axis: {(axis, part, kind): [steps, bytes, sent]}."""
    sums = {}
    for parameter in counted(manifest):
        for step in parameter.get("steps", []):
            if step["kind"] != "slice":
                entry = sums.setdefault((step["axis"], step["part"], step["kind"]), [0, 0, 0])
                for i, more in enumerate((1, step["bytes"], step["sent"])):
                    entry[i] += more
    return sums


def test_run_executes_the_steps_of_the_manifest(manifest):
    steps = {p["path"]: p.get("steps", []) for p in json.loads(manifest.read_text())["parameters"]}
    document = json.loads(execute("run", manifest, "--json", "--iterations", 1, "--warmup", 0).stdout)
    found = [s for s in document["redistributions"] if s["part"] in ("gather", "reduce")]
    assert found and document["wrong_steps"] == 0
    for entry in found:
        said = [(s["kind"], s["axis"], s["bytes"]) for s in steps[entry["path"]] if s["part"] == entry["part"]]
        assert [(c["kind"], c["axis"], c["bytes"]) for c in entry["collectives"]] == said, entry["path"]


def test_report_totals_match_the_manifest(manifest):
    document, page = json.loads(manifest.read_text()), read_page(run("report", manifest).stdout)
    sizes = {axis["name"]: axis["size"] for axis in document["mesh"]}
    found = {}
    for axis, rows in table(section(page, "traffic"), "Parameters and gradients").items():
        for cells in rows if isinstance(rows[0], list) else [rows]:
            if axis.endswith("together"):
                continue
            what, kind = cells[0].text().rsplit(" (", 1)
            part = "gather" if what.startswith("parameters") else "reduce"
            found[axis, part, kind.rstrip(")")] = (number(cells[1]), value(cells[2]))
            times = number(cells[3])
            assert times == (2 if part == "gather" else 1)
            passes = 2 if kind == "all_reduce)" else 1
            assert value(cells[4]) == value(cells[2]) * (sizes[axis] - 1) * passes * times // sizes[axis]
    assert found == {key: (count, payload) for key, (count, payload, _) in moves(document).items()}


def test_diff_counts_match_the_manifest(manifest, compiles, tmp_path):
    document = json.loads(manifest.read_text())
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(compiles(MAJOR, plan({"fsdp": 2}, {"up": "replicate"}, axis="fsdp"))))
    shown = json.loads(run("diff", whole, manifest, "--format", "json").stdout)
    phases = {"gather": "gather", "gradient": "reduce"}
    found = {
        (c["axis"], phases[c["phase"]], c["kind"]): (c["after"], c["bytes_after"])
        for c in shown["collectives"]
        if c["phase"] in phases
    }
    assert found == {key: (count, payload) for key, (count, payload, _) in moves(document).items()}


def test_axes_after_fsdp_are_gathered_and_sharded_again(compiles):
    """float32 of 1024 x 1024: 4 MiB. The tp shard of a gathered fsdp shard is not contiguous."""
    (parameter,) = compiles(*major({"fsdp": 2, "tp": 2}))["parameters"]
    assert [(s["part"], s["kind"], s["axis"], s["bytes"], s["sent"]) for s in parameter["steps"]] == [
        ("gather", "all_gather", "tp", 2 << 20, 1 << 20),
        ("gather", "all_gather", "fsdp", 4 << 20, 2 << 20),
        ("gather", "slice", "tp", 2 << 20, 0),
        ("reduce", "all_gather", "tp", 4 << 20, 2 << 20),
        ("reduce", "reduce_scatter", "fsdp", 4 << 20, 2 << 20),
        ("reduce", "slice", "tp", 1 << 20, 0),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda steps: steps.reverse(),
        lambda steps: steps.pop(),
        lambda steps: steps[0].update(bytes=1),
        lambda steps: steps[1].update(sent=1),
        lambda steps: steps[1].update(elements=1),
        lambda steps: steps[0].update(axis="fsdp"),
        lambda steps: steps[0].update(part="reduce"),
    ],
    ids=["order", "one less", "bytes", "sent", "elements", "axis", "part"],
)
def test_inconsistent_steps_are_rejected(compiles, tmp_path, change):
    manifest = compiles(*major({"fsdp": 2, "tp": 2}))
    change(manifest["parameters"][0]["steps"])
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest))
    result = run("show", path)
    assert result.returncode in (1, 2) and b"TP7002" in result.stderr and b"`steps`" in result.stderr


@pytest.mark.parametrize("command", ["show", "report", "diff"])
def test_manifests_without_steps_are_rejected_by_all_readers(compiles, tmp_path, command):
    manifest = compiles(*major({"fsdp": 2, "tp": 2}))
    del manifest["parameters"][0]["steps"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(signed(manifest)))
    result = run(command, path, *([path] if command == "diff" else []))
    assert result.returncode in (1, 2) and b"TP7002" in result.stderr and b"`steps`" in result.stderr
