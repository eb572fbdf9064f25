"""Mutants: manifests with one error in the layouts or communication of ranks, and a valid digest. No compiler writes them. The reader
rejects each one, or `run` reports WRONG. (Errors of the shard arithmetic itself are in tests/unit/rank_offsets_test.cc.)"""

import copy
import json

import pytest
from executor import execute
from small_models import PLANS, TENSOR, linear, llama, plan

from conftest import run, signed, write


def modules(manifest, style):
    found = [module for module in manifest["modules"] if module["style"] == style]
    assert found, style
    return found


def parameters(manifest, test):
    found = [record for record in manifest["parameters"] if test(record)]
    assert found
    return found


def values(manifest, style, side):
    return [value for module in modules(manifest, style) for value in module[side]]


def without(manifest, style, side, member):
    for value in values(manifest, style, side):
        value.pop(member, None)


def steps(manifest, style, side, member):
    found = [step for value in values(manifest, style, side) for step in value.get(member, [])]
    assert found
    return found


def change(entries, **members):
    for entry in entries:
        entry.update(members)


def is_norm(record):
    return record.get("kind") == "norm"


def is_cut(record):
    return bool(record.get("offsets"))


def forget_sums(manifest, test):
    for record in parameters(manifest, test):
        record["grad_reduce"] = []
        record["steps"] = [step for step in record.get("steps", []) if step["part"] != "reduce"]
        if not record["steps"]:
            del record["steps"]


def forget_sum_and_layout(manifest):
    for value in values(manifest, "rowwise", "outputs"):
        whole = ["Replicate"] * len(manifest["mesh"])
        value.pop("forward"), value.pop("backward", None)
        value.update({"from": whole, "to": whole, "gradient": {"from": whole, "to": whole}})


def forget_cut_and_layout(manifest):
    for value in values(manifest, "rowwise", "inputs"):
        whole = ["Replicate"] * len(manifest["mesh"])
        value.pop("forward", None), value.pop("backward", None)
        value.update({"from": whole, "to": whole, "gradient": {"from": whole, "to": whole}})


def gradient_is_whole(manifest):
    for value in values(manifest, "colwise", "inputs"):
        value.pop("backward")
        value["gradient"] = {"from": value["to"], "to": value["from"]}


def gradient_stays_open(manifest):
    for value in values(manifest, "colwise", "inputs"):
        value.pop("backward")
        value["gradient"]["to"] = value["gradient"]["from"]


def no_gradient(manifest):
    without(manifest, "colwise", "inputs", "backward")
    without(manifest, "colwise", "inputs", "gradient")


def all_gather_for_reduce_scatter(manifest):
    change([s for s in steps(manifest, "rowwise", "outputs", "forward")], kind="all_gather")


def twice(manifest):
    for value in values(manifest, "rowwise", "outputs"):
        value["forward"] *= 2


def drop_steps(part):
    def edit(manifest):
        for record in parameters(manifest, lambda r: r.get("steps")):
            record["steps"] = [step for step in record["steps"] if step["part"] != part]
            if not record["steps"]:
                del record["steps"]

    return edit


def drop_member(member):
    def edit(manifest):
        for record in parameters(manifest, lambda r: member in r):
            del record[member]

    return edit


def drop_modules(style):
    def edit(manifest):
        modules(manifest, style)
        manifest["modules"] = [module for module in manifest["modules"] if module["style"] != style]

    return edit


def empty(style, side):
    def edit(manifest):
        change(modules(manifest, style), **{side: []})

    return edit


def offsets(edit):
    """Edits the offsets of every sharded dim."""

    def edit_all(manifest):
        before = copy.deepcopy(manifest["parameters"])
        for record in parameters(manifest, is_cut):
            for dim in record["offsets"]:
                edit(dim, manifest)
        assert manifest["parameters"] != before

    return edit_all


def pieces_reversed(dim, manifest):
    dim["runs"] = [list(reversed(runs)) for runs in dim["runs"]]
    for level in dim["ranks"]:
        level[0], level[2] = level[2], level[0]
    dim["runs"] = [[[1, 0], *runs] for runs in dim["runs"]]


def axes_swapped(dim, manifest):
    for level, pieces in zip(dim["ranks"], reversed([level[2] for level in dim["ranks"]])):
        level[2] = pieces
    for level in dim["ranks"]:
        level[2] = level[2] if len(dim["ranks"]) > 1 else level[2] + 1


def column_major(dim, manifest):
    sizes = [axis["size"] for axis in manifest["mesh"]]
    rows = [1]
    for size in reversed(sizes[1:]):
        rows.insert(0, rows[0] * size)
    columns = [1]
    for size in sizes[:-1]:
        columns.append(columns[-1] * size)
    for level in dim["ranks"]:
        level[0] = columns[rows.index(level[0])]


def segments_ignored(dim, manifest):
    count = sum(c for c, _ in dim["runs"][0])
    whole = sum(c * n for runs in dim["runs"] for c, n in runs)
    dim["runs"] = [[[count, whole // count]]]


def runs_reordered(dim, manifest):
    dim["runs"].reverse()


def larger_piece_first(dim, manifest):
    dim["runs"] = [[[1, n + 1], [count - 1, n - 1]] for (count, n), *_ in dim["runs"]]


def other_dim(dim, manifest):
    dim["dim"] = 1 - dim["dim"]


def cut_as_another(manifest):
    """A weight sharded along its other dim, in every field: only the style of its rule disagrees."""
    own = [one for one in manifest["parameters"] if one["shape"][0] == one["shape"][-1] and is_cut(one)]
    colwise = next(one for one in own if one["style"] == "colwise")
    rowwise = next(one for one in own if one["style"] == "rowwise" and one["shape"] == colwise["shape"])
    for member in ("spec", "placements", "local_shape", "offsets"):
        colwise[member] = copy.deepcopy(rowwise[member])


def spec_swapped(manifest):
    for record in parameters(manifest, is_cut):
        record["spec"].reverse()


def placements_swapped(manifest):
    for record in parameters(manifest, is_cut):
        record["placements"] = [
            {"Shard(0)": "Shard(1)", "Shard(1)": "Shard(0)"}.get(text, text) for text in record["placements"]
        ]


def shapes_swapped(manifest):
    for record in parameters(manifest, is_cut):
        record["local_shape"].reverse()


def mesh_swapped(manifest):
    manifest["mesh"].reverse()


TP, SEQUENCE, DATA, FSDP, PACKED = "tp 2", "sequence parallel", "data x tp", "fsdp alone", "packed"
SENT = "types in which values are sent"
MUTANTS = {
    "forward of every rowwise": (TP, lambda m: without(m, "rowwise", "outputs", "forward")),
    "backward of every colwise": (TP, lambda m: without(m, "colwise", "inputs", "backward")),
    "backward of every colwise beside a data axis": (DATA, lambda m: without(m, "colwise", "inputs", "backward")),
    "reduce_scatter of sequence parallel": (SEQUENCE, lambda m: without(m, "rowwise", "outputs", "forward")),
    "all_gather of gradients in sequence parallel": (SEQUENCE, lambda m: without(m, "rowwise", "outputs", "backward")),
    "input of attention in sequence parallel": (
        SEQUENCE,
        lambda m: without(m, "prepare_module_input", "inputs", "forward"),
    ),
    "gradient of that input": (SEQUENCE, lambda m: without(m, "prepare_module_input", "inputs", "backward")),
    "grad_reduce of norms": (SEQUENCE, lambda m: forget_sums(m, is_norm)),
    "grad_reduce of norms over data": (DATA, lambda m: forget_sums(m, is_norm)),
    "grad_reduce of weights over data": (DATA, lambda m: forget_sums(m, is_cut)),
    "grad_reduce over another axis": (
        DATA,
        lambda m: change((r for p in m["parameters"] for r in p["grad_reduce"]), axis="tp"),
    ),
    "modules are empty": (TP, lambda m: m.update(modules=[])),
    "modules are absent": (TP, lambda m: m.pop("modules")),
    "modules of one style": (TP, drop_modules("rowwise")),
    "outputs are empty": (TP, empty("rowwise", "outputs")),
    "inputs are empty": (TP, empty("colwise", "inputs")),
    "wrong axis": (DATA, lambda m: change(steps(m, "rowwise", "outputs", "forward"), axis="dp")),
    "wrong axis back": (DATA, lambda m: change(steps(m, "colwise", "inputs", "backward"), axis="dp")),
    "wrong dim": (SEQUENCE, lambda m: change(steps(m, "rowwise", "outputs", "forward"), dim=0)),
    "all_gather for reduce_scatter": (SEQUENCE, all_gather_for_reduce_scatter),
    "slice for all_reduce": (TP, lambda m: change(steps(m, "rowwise", "outputs", "forward"), kind="slice", dim=0)),
    "a step twice": (TP, twice),
    "a sum is forgotten with its layouts": (TP, forget_sum_and_layout),
    "an input is whole where the weight is cut": (TP, forget_cut_and_layout),
    "a gradient is taken for whole": (TP, gradient_is_whole),
    "a gradient stays open": (TP, gradient_stays_open),
    "there is no gradient": (TP, no_gradient),
    "gathers of fsdp": (FSDP, drop_steps("gather")),
    "scatters of fsdp": (FSDP, drop_steps("reduce")),
    "steps of parameters": (FSDP, drop_member("steps")),
    "offsets": (TP, drop_member("offsets")),
    "pieces reversed": (TP, offsets(pieces_reversed)),
    "axes swapped": ("two axes", offsets(axes_swapped)),
    "column-major mesh": ("two axes", offsets(column_major)),
    "segments ignored": (PACKED, offsets(segments_ignored)),
    "runs reordered": (PACKED, offsets(runs_reordered)),
    "larger piece first": (TP, offsets(larger_piece_first)),
    "another dim": (TP, offsets(other_dim)),
    "spec swapped": (TP, spec_swapped),
    "a weight is cut along the other dim, all through": (TP, cut_as_another),
    "placements swapped": (TP, placements_swapped),
    "shapes swapped": (TP, shapes_swapped),
    "mesh swapped": ("two axes", mesh_swapped),
}


def packed():
    fused = linear("block.qkv", 24, 8)
    fused["parameters"]["weight"]["segments"] = {"out": [12, 8, 4]}
    return {"format": "tpplan.model/1", "name": "Packed", "framework": "torch", "modules": [fused]}


OWN = {
    SENT: (
        llama(),
        plan(
            {"tp": 2},
            TENSOR
            | {
                "*.up_proj": {"style": "colwise", "backward_dtype": "bfloat16"},
                "*.down_proj": {"style": "rowwise", "forward_dtype": "bfloat16"},
            },
        ),
    ),
    PACKED: (packed(), plan({"dp": 2, "tp": 2}, {"block.qkv": "colwise"})),
    "two axes": (
        {"format": "tpplan.model/1", "name": "Two", "framework": "torch", "modules": [linear("up", 24, 8)]},
        plan({"fsdp": 2, "tp": 3}, {"up": {"spec": [["tp", "fsdp"], None]}}),
    ),
}


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    """manifests(case): the compiler's output."""
    known = {}

    def compiled(case):
        if case not in known:
            model, text = OWN.get(case) or (llama(), PLANS[case])
            result = run("compile", *write(tmp_path_factory.mktemp("mutants"), model, text))
            assert result.returncode == 0, result.stderr
            known[case] = json.loads(result.stdout)
        return copy.deepcopy(known[case])

    return compiled


def run_manifest(manifest, folder):
    path = folder / "manifest.json"
    path.write_text(json.dumps(signed(manifest)))
    return execute("run", path, "--quiet", "--iterations", 1, "--warmup", 0, "--tokens", 4)


@pytest.mark.parametrize("case", sorted({case for case, _ in MUTANTS.values()}))
def test_unmodified_manifests_run_correctly(manifests, case, tmp_path):
    result = run_manifest(manifests(case), tmp_path)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr


def assert_noticed(manifest, edit, tmp_path):
    """The reader or the run rejects the edited manifest."""
    before = copy.deepcopy(manifest)
    edit(manifest)
    assert manifest != before, "the edit changes nothing"
    result = run_manifest(manifest, tmp_path)
    found = [code for code in ("TP7001", "TP7002", "TP8062") if f"error[{code}]" in result.stderr]
    assert result.returncode in (1, 2) and found, (result.returncode, result.stdout, result.stderr)


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_detected(manifests, name, tmp_path):
    case, edit = MUTANTS[name]
    assert_noticed(manifests(case), edit, tmp_path)


def test_changed_byte_is_detected_by_the_digest(manifests, tmp_path):
    text = json.dumps(manifests(TP))
    for before, after in (
        ('"model.layers.0.mlp.down_proj"', '"model.layers.1.mlp.down_proj"'),
        ('"matches": 2', '"matches": 3'),
        ('"rule"', '"rulf"'),
        ('"modules": [', '"motules": ['),
        ('"kind": "all_reduce"', '"kind": "all_reducf"'),
        ("SmallLlama", "SmallLlamb"),
    ):
        assert before in text
        path = tmp_path / "manifest.json"
        path.write_text(text.replace(before, after, 1))
        result = execute("run", path, "--quiet", "--iterations", 1)
        assert result.returncode in (1, 2) and "error[TP700" in result.stderr, (before, result.stderr)


def test_reformatted_manifest_is_accepted(manifests, tmp_path):
    path = tmp_path / "manifest.json"
    for indent in (None, 0, 4):
        path.write_text(json.dumps(manifests(TP), indent=indent))
        assert execute("run", path, "--quiet", "--iterations", 1).returncode == 0


@pytest.mark.parametrize("other", [{"format": "tpplan.manifest/0"}, {"format": "tpplan.manifest/2"}, {"totals": None}])
def test_manifest_of_another_version_must_be_recompiled(other, manifests, tmp_path):
    manifest = {k: v for k, v in (manifests(TP) | other).items() if v is not None}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(signed(manifest)))
    result = execute("run", path, "--quiet", "--iterations", 1)
    assert result.returncode != 0 and "error[TP7001]" in result.stderr, result.stderr
    assert "write a manifest with this version of tpplan" in " ".join(result.stderr.split()), result.stderr
