"""FSDP over tp: policy dim0 matches torch's fully_shard, policy largest_dim matches the function that it comes from."""

import itertools
import json
import math
import random

import pytest

from conftest import plan_text, run, write
from recorded import compile_files, load, local_shapes, model_of, slices_of_ranks

# ---- dim0 against torch 2.13 ----

CASES = load("fsdp")
MESHES = sorted({json.dumps(case["mesh"]) for case in CASES})

# Deliberate differences from torch: name -> reason.
DELIBERATE = {
    "packed dim cut again": "A packed weight is cut by tp in two segments; when fsdp cuts the same dim, tpplan cuts "
    "each segment by itself, so that the spec alone says what a rank holds. torch cuts the "
    "tp piece as a whole, and its placements then do not name the rows that are there.",
    "empty piece": "Where tp leaves a rank an empty piece of a dim behind the first, torch reports dim 0 as empty too "
    "([0, 0] for [8, 0]). Both hold no element.",
}


def deliberate_difference(case, parameter, recorded_shape):
    """The key into DELIBERATE, or None."""
    fsdp, tp = parameter["placements"][-2:]
    if tp == "StridedShard(0, 2)" and (fsdp.startswith("StridedShard(0, ") or fsdp == "Shard(0)"):
        return "packed dim cut again"
    if 0 in recorded_shape and tp != "Replicate" and "(0" not in tp:
        return "empty piece"
    return None


def modules_and_rules(cases):
    """Each case's module under a unique name. The recorder gave the style to the parameters, so they are the keys; it gave only
    sequence_parallel to the module."""
    modules, rules = [{"path": "", "type": "Model"}], {}
    for i, case in enumerate(cases):
        modules.append(case["module"] | {"path": f"case{i}"})
        if case["style"] == "sequence_parallel":
            rules[f"case{i}"] = case["style"]
        elif case["style"] != "none":
            rules |= {f"case{i}.{name}": case["style"] for name in case["module"]["parameters"]}
    return modules, rules


@pytest.fixture(scope="module", params=MESHES)
def cut(request, tmp_path_factory):
    """(cases of one mesh, manifest entries by path, slices by rank): one compilation for each mesh."""
    folder = tmp_path_factory.mktemp("fsdp")
    cases = [case for case in CASES if json.dumps(case["mesh"]) == request.param]
    modules, rules = modules_and_rules(cases)
    plan = plan_text(rules, request.param, "transformers", "uneven: torch\nfsdp: {axis: fsdp, policy: dim0}\n")
    status, manifest, stderr = compile_files(folder, model_of(modules), plan)
    assert status == 0, stderr
    ranks = math.prod(cases[0]["mesh"].values())
    return cases, {entry["path"]: entry for entry in manifest["parameters"]}, slices_of_ranks(folder, manifest, ranks)


def recorded_parameters(cases):
    for i, case in enumerate(cases):
        for path, parameter in case["parameters"].items():
            yield case, path.replace("m.", f"case{i}.", 1), parameter


def test_placements_match_fully_shard(cut):
    cases, entries, _ = cut
    for case, path, parameter in recorded_parameters(cases):
        if deliberate_difference(case, parameter, []) is None:
            place = (case["style"], case["mesh"], parameter["shape"])
            assert entries[path]["placements"] == parameter["placements"], place


def test_each_rank_holds_the_shards_of_fully_shard(cut):
    cases, _, slices = cut
    for case, path, parameter in recorded_parameters(cases):
        for rank, (shape, runs) in enumerate(zip(parameter["local_shapes"], parameter["intervals"], strict=True)):
            if deliberate_difference(case, parameter, shape):
                continue
            place = (case["style"], case["mesh"], parameter["shape"], rank)
            got = slices[rank][path]
            assert [sum(end - begin for begin, end in dim) for dim in got] == shape, place
            if runs is not None:
                assert [merged(dim) for dim in got] == runs, place


def merged(runs):
    """Adjacent intervals merged, without empty ones: the notation of the recording."""
    out = []
    for begin, end in runs:
        if begin == end:
            continue
        if out and out[-1][1] == begin:
            out[-1][1] = end
        else:
            out.append([begin, end])
    return out


def test_packed_dim_is_sharded_by_segment(cut):
    """tpplan's result at the difference: both segments over tp, each shard over fsdp."""
    cases, entries, slices = cut
    for case, path, parameter in recorded_parameters(cases):
        if deliberate_difference(case, parameter, []) != "packed dim cut again":
            continue
        size = parameter["shape"][0]
        half = -(-size // 2)
        coordinates = list(itertools.product(*(range(n) for n in case["mesh"].values())))
        for rank, coordinate in enumerate(coordinates):
            fsdp, tp = coordinate[-2:]
            expected = []
            for begin, end in ((0, half), (half, size)):
                for ways, index in ((case["mesh"]["tp"], tp), (case["mesh"]["fsdp"], fsdp)):
                    piece = -(-(end - begin) // ways)
                    begin, end = min(end, begin + index * piece), min(end, begin + (index + 1) * piece)
                expected.append([begin, end])
            assert merged(slices[rank][path][0]) == merged(expected), (case["mesh"], parameter["shape"], rank)
        assert entries[path]["segments"] == {"0": [half, size - half]}


def test_empty_shards_are_empty_in_both(cut):
    cases, _, slices = cut
    for case, path, parameter in recorded_parameters(cases):
        for rank, shape in enumerate(parameter["local_shapes"]):
            if deliberate_difference(case, parameter, shape) == "empty piece":
                assert any(begin == end for dim in slices[rank][path] for begin, end in dim)
                assert math.prod(sum(end - begin for begin, end in dim) for dim in slices[rank][path]) == 0


def test_every_deliberate_difference_occurs():
    found = {
        deliberate_difference(case, parameter, shape)
        for case in CASES
        for parameter in case["parameters"].values()
        for shape in parameter["local_shapes"]
    }
    assert found == {*DELIBERATE, None}


# ---- largest_dim against predict_shard_params_fn ----


def predict_shard_params(shape, spec, axis, axis_size, min_weight_size):
    """predict_shard_params_fn of the equinox project that the policy comes from, without numpy: (spec, result).

    Two things are more precise here: a stable sort orders equal dims (so that the last comes first), and an axis inside a tuple counts as
    being in the spec.
    """
    assert len(spec) == len(shape)
    if any(axis == entry or isinstance(entry, list) and axis in entry for entry in spec):
        return spec, "already sharded"
    if math.prod(shape) <= min_weight_size:
        return spec, "too small"
    for i in sorted(range(len(shape)), key=shape.__getitem__)[::-1]:
        if shape[i] % axis_size == 0 and spec[i] is None:
            return spec[:i] + [axis] + spec[i + 1 :], "sharded"
    return spec, "no suitable dim"


SIZES = (1, 2, 3, 4, 6, 8, 8, 8, 12, 16, 24, 30, 48, 64, 96, 128, 512)
ENTRIES = (None, None, None, None, "dp", "tp", ["dp", "tp"], ["tp", "dp"], "fsdp", ["tp", "fsdp"])


def random_parameter(rng):
    """(shape, spec), each axis at most once."""
    shape = [rng.choice(SIZES) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)))]
    spec, free = [], {"dp", "tp", "fsdp"}
    for _ in shape:
        entry = rng.choice(ENTRIES)
        axes = {entry} if isinstance(entry, str) else set(entry or ())
        spec.append(entry if axes <= free else None)
        free -= axes if axes <= free else set()
    return shape, spec


# (dp, tp, fsdp), min_weight_size: including an axis of one rank and a bound of zero.
BATCHES = [
    ((2, 4, 8), 262144),
    ((2, 4, 3), 0),
    ((2, 2, 2), 64),
    ((3, 2, 4), 4096),
    ((1, 2, 1), 0),
    ((2, 1, 16), 512),
    ((4, 2, 6), 1000),
    ((2, 3, 5), 0),
]


@pytest.mark.parametrize(("sizes", "min_weight_size"), BATCHES)
def test_largest_dim_matches_its_original_function(tmp_path, sizes, min_weight_size):
    rng = random.Random(f"{sizes} {min_weight_size}")
    drawn = [random_parameter(rng) for _ in range(500)]
    parameters = {f"p{i}": {"shape": shape, "dtype": "float32"} for i, (shape, _) in enumerate(drawn)}
    rules = {f"p{i}": json.dumps(spec) for i, (_, spec) in enumerate(drawn) if spec}
    mesh = dict(zip(("dp", "tp", "fsdp"), sizes))
    fsdp = f"fsdp: {{axis: fsdp, min_weight_size: {min_weight_size}}}\n"
    plan = plan_text(rules, json.dumps(mesh), more="uneven: torch\n" + fsdp)
    model = model_of([{"path": "", "type": "Model", "parameters": parameters}], "jax")
    status, manifest, stderr = compile_files(tmp_path, model, plan)
    assert status == 0, stderr

    happened = []
    for (shape, spec), entry in zip(drawn, manifest["parameters"], strict=True):
        predicted, what = predict_shard_params(shape, spec, "fsdp", mesh["fsdp"], min_weight_size)
        assert entry["spec"] == predicted, (shape, spec, what)
        assert ("fsdp" in entry["reason"]) == (what == "sharded"), (shape, spec)
        happened.append(what)
    counts = warning_counts(tmp_path, model, plan)
    assert counts.get("TP5014", 0) == happened.count("already sharded")
    assert counts.get("TP5015", 0) == happened.count("no suitable dim")
    assert {"sharded", "already sharded"} < set(happened)


def warning_counts(folder, model, plan):
    """The number of parameters in each warning."""
    report = json.loads(run("check", *write(folder, model, plan), "--format", "json").stdout)
    return {d["code"]: d["count"] for d in report["diagnostics"]}


def compile_shapes(folder, shapes, rules, mesh):
    parameters = {name: {"shape": shape, "dtype": "float32"} for name, shape in shapes.items()}
    model = model_of([{"path": "", "type": "Model", "parameters": parameters}], "jax")
    plan = plan_text(rules, mesh, more="fsdp: {axis: fsdp, min_weight_size: 0}\n")
    status, manifest, stderr = compile_files(folder, model, plan)
    assert status == 0, stderr
    return manifest["parameters"]


def test_last_of_equal_dims_is_sharded(tmp_path):
    """numpy's default sort is not stable, so its result depends on the processor; a plan must not."""
    cube, square = compile_shapes(
        tmp_path, {"cube": [512, 512, 512], "square": [512, 512]}, {"square": "[null, tp]"}, "{fsdp: 2, tp: 2}"
    )
    assert cube["spec"] == [None, None, "fsdp"]
    assert square["spec"] == ["fsdp", "tp"]


def test_largest_dim_is_skipped_if_the_axis_does_not_divide_it(tmp_path):
    (entry,) = compile_shapes(tmp_path, {"w": [48, 100]}, {}, "{fsdp: 16, tp: 1}")
    assert entry["spec"] == ["fsdp", None] and local_shapes(entry) == [[3, 100]]
