"""`tpplan-exec run`: redistributions and matmuls of a manifest on test data, compared with the unsharded result."""

import json

import pytest
from executor import execute
from small_models import PLANS, TENSOR, linear, llama, plan

from conftest import signed


@pytest.fixture
def runs(compiles, tmp_path):
    """runs(plan, change, *flags): compiles the small decoder, changes the manifest, runs it; exit status and document."""

    def run_(plan_text, change=lambda manifest: None, *flags):
        manifest = compiles(llama(), plan_text)
        change(manifest)
        path = tmp_path / "manifest.json"
        path.write_text(json.dumps(signed(manifest)))
        result = execute("run", path, "--json", "--iterations", 1, "--warmup", 0, "--tokens", 5, *flags)
        assert result.returncode in (0, 1), result.stderr
        return result.returncode, json.loads(result.stdout)

    return run_


@pytest.mark.parametrize("name", PLANS)
def test_compiled_plan_matches_the_unsharded_model(runs, name):
    status, document = runs(PLANS[name])
    assert status == 0 and document["wrong_steps"] == 0
    assert all(step["not_run"] is None and step["wrong"] == 0 for step in document["redistributions"])
    for product in document["products"]:
        assert product["fault"] is None and product["y"]["elements"] > 0 and product["dw"]["elements"] > 0
        assert product["dx"]["elements"] > 0 or product["kind"] == "embedding"
    assert document["ranks"] == len(set(range(document["ranks"])))


def kinds(document):
    return {c["kind"] for step in document["redistributions"] for c in step["collectives"]}


def test_sequence_parallel_gathers_and_scatters(runs):
    _, document = runs(PLANS["sequence parallel"])
    assert {"all_gather", "reduce_scatter"} <= kinds(document)
    assert {"input", "output", "gradient", "reduce"} <= {step["part"] for step in document["redistributions"]}


def test_fsdp_gathers_parameters_and_scatters_gradients(runs):
    _, document = runs(PLANS["fsdp alone"])
    parts = {step["part"]: step for step in document["redistributions"]}
    assert [c["kind"] for c in parts["gather"]["collectives"]] == ["all_gather"]
    assert [c["kind"] for c in parts["reduce"]["collectives"]] == ["reduce_scatter"]
    assert parts["gather"]["collectives"][0]["ranks"] == 3


def test_changed_shard_dim_is_an_all_to_all(runs):
    rules = TENSOR | {
        "model.norm": {
            "style": "prepare_module_input",
            "input_layouts": "Shard(1)",
            "desired_input_layouts": "Shard(0)",
        }
    }
    status, document = runs(plan({"tp": 2}, rules))
    assert status == 0 and "all_to_all" in kinds(document)


def test_identical_layers_are_one_step_with_a_count(runs):
    _, document = runs(PLANS["tp 2"])
    gate = [product for product in document["products"] if product["pattern"] == "model.layers.{0..1}.mlp.gate_proj"]
    assert [product["count"] for product in gate] == [2]


def forget(**where):
    """A change that removes the collectives of one kind of step from a manifest."""

    def change(manifest):
        for record in manifest[where["table"]]:
            if record["path"].endswith(where["path"]):
                where["edit"](record)

    return change


# Mutants: the error of each, and the matmul that finds it.
def forget_sum(module):
    module["outputs"][0].pop("forward")
    module["outputs"][0]["to"] = module["outputs"][0]["from"] = ["Replicate"]
    module["outputs"][0]["gradient"] = {"from": ["Replicate"], "to": ["Replicate"]}


def test_missing_output_reduction_is_wrong(runs):
    status, document = runs(PLANS["tp 2"], forget(table="modules", path="0.mlp.down_proj", edit=forget_sum))
    wrong = [product for product in document["products"] if product["fault"]]
    assert status == 1 and [product["path"] for product in wrong] == ["model.layers.0.mlp.down_proj"]
    assert "Partial(sum)" in wrong[0]["fault"]


def test_input_layout_that_mismatches_the_weight_is_wrong(runs):
    def edit(module):
        module["inputs"][0]["from"] = module["inputs"][0]["to"] = ["Replicate"]
        module["inputs"][0]["gradient"] = {"from": ["Replicate"], "to": ["Replicate"]}

    status, document = runs(PLANS["tp 2"], forget(table="modules", path="1.self_attn.o_proj", edit=edit))
    assert status == 1 and [product["path"] for product in document["products"] if product["fault"]] == [
        "model.layers.1.self_attn.o_proj"
    ]


def test_human_output_is_an_80_column_table_and_a_verdict(compiles, tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(compiles(llama(), PLANS["sequence parallel"])))
    result = execute("run", path, "--iterations", 1)
    assert result.returncode == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert lines[0] == "SmallLlama on [tp=4]: 4 ranks, local on cpu"
    assert "equal the unsharded result" in lines[-1]
    assert execute("run", path, "--quiet").stdout.count("\n") <= 2


def test_wrong_local_shape_is_rejected_before_the_run(compiles, tmp_path):
    manifest = compiles(llama(), PLANS["tp 2"])
    manifest["parameters"][3]["local_shape"][0] += 1
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest))
    result = execute("run", path)
    assert result.returncode == 1 and "TP7002" in result.stderr and result.stdout == ""


def packed():
    """Fused weights: q|k|v sharded separately, and gate|up."""
    qkv, gate_up = linear("block.qkv", 24, 8), linear("block.gate_up", 32, 8)
    qkv["parameters"]["weight"]["segments"] = {"out": [12, 6, 6]}
    gate_up["parameters"]["weight"]["segments"] = {"out": [16, 16]}
    return {
        "format": "tpplan.model/1",
        "name": "Packed",
        "framework": "torch",
        "modules": [{"path": "", "type": "Packed"}, qkv, gate_up],
    }


def test_packed_weights_are_multiplied_by_segment(compiles, tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(
        json.dumps(
            compiles(
                packed(),
                plan(
                    {"dp": 2, "tp": 2},
                    {"block.qkv": "colwise", "block.gate_up": "colwise"},
                    data={"axes": ["dp"], "dim": 0},
                ),
            )
        )
    )
    result = execute("run", path, "--json", "--iterations", 1)
    products = json.loads(result.stdout)["products"]
    assert result.returncode == 0 and [p["y"]["wrong"] + p["dx"]["wrong"] + p["dw"]["wrong"] for p in products] == [
        0,
        0,
    ]
    assert all(p["not_run"] is None and p["fault"] is None for p in products)


@pytest.mark.parametrize(
    "policy, fsdp, tp",
    [
        *((policy, 2, tp) for policy in ("largest_dim", "dim0", "compose") for tp in (1, 2)),
        ("dim0", 3, 2),
        ("dim0", 5, 2),
    ],
)
def test_packed_fsdp_weights_are_gathered_and_reduced(compiles, policy, fsdp, tp, tmp_path):
    path = tmp_path / "manifest.json"
    settings = {
        "fsdp": {"axis": "fsdp", "min_weight_size": 0, "policy": policy},
        "data": {"axes": ["fsdp"], "dim": 0},
        "uneven": "torch",
    }
    manifest = compiles(
        packed(), plan({"fsdp": fsdp, "tp": tp}, {"block.qkv": "colwise", "block.gate_up": "colwise"}, **settings)
    )
    assert all("fsdp" in str(p["spec"]) for p in manifest["parameters"])
    path.write_text(json.dumps(manifest))
    result = execute("run", path, "--json", "--iterations", 1)
    document = json.loads(result.stdout)
    assert result.returncode == 0, result.stdout
    steps = [s for s in document["redistributions"] if s["path"] in ("block.qkv.weight", "block.gate_up.weight")]
    assert sorted(s["part"] for s in steps) == ["gather", "gather", "reduce", "reduce"]
    assert all(s["wrong"] == 0 and s["not_run"] is None for s in steps)
    assert all(
        p["not_run"] is None and p["y"]["wrong"] + p["dx"]["wrong"] + p["dw"]["wrong"] == 0
        for p in document["products"]
    )


@pytest.mark.parametrize("mesh", [{"fsdp": 2, "tp": 2}, {"tp": 2, "fsdp": 3}], ids=str)
def test_fsdp_axis_before_tp_on_one_dim_is_gathered_with_it(compiles, mesh, tmp_path):
    """As JAX plans write it: P(('fsdp', 'tp')). Shards of tp only would have other rows than the tp ranks hold here."""
    model = {
        "format": "tpplan.model/1",
        "name": "Major",
        "framework": "torch",
        "modules": [linear("up", 24, 8), linear("down", 8, 24)],
    }
    rules = {"up": {"spec": [["fsdp", "tp"], None]}, "down": {"spec": [None, ["fsdp", "tp"]]}}
    path = tmp_path / "manifest.json"
    path.write_text(
        json.dumps(compiles(model, plan(mesh, rules, fsdp={"axis": "fsdp"}, data={"axes": ["fsdp"], "dim": 0})))
    )
    document = json.loads(execute("run", path, "--json", "--iterations", 1).stdout)
    kinds = {s["path"] + " " + s["part"]: [c["kind"] for c in s["collectives"]] for s in document["redistributions"]}
    assert kinds == {
        f"{name}.weight {part}": ["all_gather", collective, "slice"]
        for name in ("up", "down")
        for part, collective in (("gather", "all_gather"), ("reduce", "reduce_scatter"))
    }
    assert all(s["wrong"] == 0 and s["not_run"] is None for s in document["redistributions"])


def test_gathered_packed_output_is_wrong(compiles, tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(
        json.dumps(
            compiles(packed(), plan({"tp": 2}, {"block.gate_up": {"style": "colwise", "output_layouts": "Replicate"}}))
        )
    )
    result = execute("run", path, "--json", "--iterations", 1)
    assert result.returncode == 1 and json.loads(result.stdout)["products"][0]["y"]["wrong"] > 0


def test_in_out_weights_match_out_in_weights(compiles, tmp_path):
    """Keras' Dense is (in, out), torch's Linear is (out, in)."""
    model = {
        "format": "tpplan.model/1",
        "name": "Dense",
        "framework": "keras",
        "modules": [
            {"path": "up", "type": "Dense", "parameters": {"kernel": {"shape": [6, 14], "dtype": "float32"}}},
            {"path": "down", "type": "Dense", "parameters": {"kernel": {"shape": [14, 6], "dtype": "float32"}}},
        ],
    }
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(compiles(model, plan({"tp": 3}, {"up": "colwise", "down": "rowwise"}, uneven="torch"))))
    result = execute("run", path, "--json", "--iterations", 1)
    document = json.loads(result.stdout)
    assert result.returncode == 0 and [p["shape"] for p in document["products"]] == [[6, 14], [14, 6]]
