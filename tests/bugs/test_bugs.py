"""Known bugs of other projects (tests/README.md): the plan with the bug gets its code at its place, and the same plan without it gets no
diagnostic; on two, three and four ranks, also with sequence parallel, and with a second axis of equal size, which could hide a wrong
axis."""

import json
import re

import graphs as g
import pytest
from bugs import BUGS
from conftest import ROOT, run


def plan_of(members, mesh):
    return json.dumps({"format": "tpplan.plan/1", "mesh": mesh, **members})


def found(folder, model, members, mesh):
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "plan.yaml").write_text(plan_of(members, mesh))
    result = run(
        "check",
        folder / "model.json",
        folder / "plan.yaml",
        "--format",
        "json",
        "--allow",
        "TP4006",
        "--allow",
        "TP4007",
    )
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout)["diagnostics"]


def told(findings):
    return [f"{d['code']} {d['message']}" for d in findings]


def meshes(bug):
    """The mesh of the bug, and one with a data axis of the same size."""
    for size in bug.fits:
        yield {axis: size for axis in bug.axes}, {}
        if len(bug.axes) == 1:
            yield {"other": size, bug.axes[0]: size}, {"data": {"axes": ["other"]}}


@pytest.mark.parametrize("bug", BUGS, ids=[bug.row for bug in BUGS])
def test_known_bug_is_found_and_the_fixed_plan_passes(tmp_path, bug):
    for sequence in bug.sequence:
        model = bug.model(sequence)
        for mesh, data in meshes(bug):
            wrong = found(tmp_path, model, data | bug.wrong(sequence), mesh)
            assert any(d["code"] == bug.code and bug.place in d["message"] for d in wrong), (
                mesh,
                sequence,
                told(wrong),
            )
            right = found(tmp_path, model, data | bug.right(sequence), mesh)
            # The token counts of a router are also local to a data rank, whatever the plan does over tp.
            expected = ["TP5124"] if data and bug.row == "tt4154" else []
            assert [d["code"] for d in right] == expected, (mesh, sequence, told(right))


def test_norm_weight_of_attention_sinks_matches_their_sharding(tmp_path):
    """M7452-8 (Megatron-LM#7530): sharded by heads, and missing from the clip norm; or replicated, and counted on every rank."""
    model = g.new_model()
    x = g.scale(model, "norm", g.hidden(model))
    g.weight(model, "attn", "sinks", [g.HEADS])
    document = g.ends(model, g.mlp(model, "mlp", x))
    (tmp_path / "model.json").write_text(json.dumps(document))
    for size in (2, 3, 4):
        plan = {"tp_plan": {"attn.sinks": {"spec": ["tp"]}, "mlp.up": "colwise", "mlp.down": "rowwise"}}
        (tmp_path / "plan.yaml").write_text(plan_of({**plan, "data": {"axes": ["dp"]}}, {"dp": size, "tp": size}))
        manifest = json.loads(run("compile", tmp_path / "model.json", tmp_path / "plan.yaml").stdout)
        weights = {p["path"]: p["norm_weight"] for p in manifest["parameters"]}
        assert weights["attn.sinks"] == f"1/{size}" and weights["norm.weight"] == f"1/{size * size}"
        for path, wrong in (("attn.sinks", f"1/{size * size}"), ("norm.weight", "1/1")):
            edited = json.loads(json.dumps(manifest))
            next(p for p in edited["parameters"] if p["path"] == path)["norm_weight"] = wrong
            (tmp_path / "manifest.json").write_text(json.dumps(edited))
            shown = run("show", tmp_path / "manifest.json")
            assert shown.returncode and b"TP7002" in shown.stderr and b"norm_weight" in shown.stderr


def test_table_of_the_page_lists_these_bugs():
    section = (ROOT / "tests/README.md").read_text().split("## Known bugs of other projects")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\S+) \| .* \| (TP\d{4}) \|$", section, re.M)
    assert rows == [*((bug.row, bug.code) for bug in BUGS), ("M7452-8", "TP7002")]
    assert len(rows) == len(set(rows)) == 46
