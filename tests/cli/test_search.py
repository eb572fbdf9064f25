"""tpplan search: the best plan, compared with every sequence of some kinds of layers, and its errors."""

import itertools
import json

import jsonschema
import pytest
from conftest import ROOT, run

SCHEMA = jsonschema.Draft7Validator(json.loads((ROOT / "schemas/search.schema.json").read_text()))
TOPOLOGY = ROOT / "plans/topologies/h100.yaml"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 4096,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
STEP = ("--run", "run.yaml", "--topology", TOPOLOGY, "--sequence", 2048)
COLWISE = {f"self_attn.{name}_proj": "colwise" for name in "qkv"} | {
    "mlp.gate_proj": "colwise",
    "mlp.up_proj": "colwise",
}
HEADS = COLWISE | {"self_attn.o_proj": "rowwise", "mlp.down_proj": "rowwise"}
GATHERED = {name: "colwise_gather_output" for name in COLWISE} | {
    "self_attn.o_proj": "rowwise_split_input",
    "mlp.down_proj": "rowwise_split_input",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "run.yaml").write_text("format: tpplan.run/1\nrecipe: adamw_mixed_fp32_gradients\ncompiled: true\n")
    assert run("import", "--from", "config", "config.json", "-o", "model.json", cwd=folder).returncode == 0
    return folder


def search(folder, *options, output="best.yaml", ranks=2, batch=2):
    arguments = ("model.json", "--ranks", ranks, "--batch", batch, *STEP, "--simple", 0, "-o", output)
    return run("search", *arguments, "--format", "json", *options, cwd=folder)


def figures(folder, plan, *options, batch=2):
    """What `check --costs` computes: seconds, bytes of memory, bytes sent."""
    arguments = ("--batch", batch, *STEP, "--costs", "--format", "json", "--strict", *options)
    result = run("check", "model.json", "-", *arguments, stdin=plan, cwd=folder)
    assert result.returncode == 0, result.stdout
    costs = json.loads(result.stdout)["costs"]
    return costs["step"]["seconds"], costs["memory"]["reserved_bytes"], costs["total"]["wire"]


def sequence_plan(kinds):
    """A plan with a kind for each layer: (rules, remat)."""
    plan = {
        "format": "tpplan.plan/1",
        "mesh": {"tp": 2},
        "tp_plan": {"model.embed_tokens": "embedding_rowwise", "lm_head": "colwise_gather_output"},
        "blocks": {f"model.layers.{i}": rules for i, (rules, _) in enumerate(kinds)},
    }
    remat = [f"model.layers.{i}" for i, (_, again) in enumerate(kinds) if again]
    return json.dumps(plan | ({"remat": remat} if remat else {})).encode()


def test_the_best_plan_is_no_worse_than_any_sequence(folder):
    result = search(folder, "--mesh", "tp")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert not list(SCHEMA.iter_errors(answer))
    best = answer["best"]
    text = (folder / "best.yaml").read_bytes()
    assert best["file"] == "best.yaml" and b"tpplan search" in text.split(b"format:")[0]
    assert run("fmt", "--check", "best.yaml", cwd=folder).returncode == 0
    seconds, memory, wire = figures(folder, text)
    assert best["seconds"] == pytest.approx(seconds, rel=1e-9)
    assert (best["memory_bytes"], best["wire_bytes"]) == (memory, wire)
    assert answer["exact"] and answer["gap"] == 0 and answer["bound"] == best["seconds"]
    for kinds in itertools.product([(HEADS, False), (HEADS, True), (GATHERED, False)], repeat=4):
        assert figures(folder, sequence_plan(kinds))[0] >= best["seconds"] * (1 - 1e-9)


def next_best(answer, name, layers=()):
    """Seconds and memory of the next best strategy of a unit of the best plan."""
    unit = next(u for u in answer["best"]["units"] if u["unit"] == name and u["layers"] == list(layers))
    return unit["next"]["seconds"], unit["next"]["memory_bytes"], unit["next"]["strategy"]


def test_next_best_costs_what_check_computes(folder):
    """The best plan with one unit changed by hand."""
    answer = json.loads(search(folder, "--mesh", "tp", output="units.yaml").stdout)
    text = (folder / "units.yaml").read_text()
    changes = {
        ("remat", "model.layers.*"): (text + 'remat: ["model.layers.*"]\n', "recomputed"),
        ("embedding",): (
            text.replace('embed_tokens": replicate', 'embed_tokens": embedding_colwise'),
            "a shard of every",
        ),
    }
    for (name, *layers), (plan, words) in changes.items():
        seconds, memory, strategy = next_best(answer, name, layers)
        assert words in strategy and plan != text
        assert (seconds, memory) == pytest.approx(figures(folder, plan.encode())[:2], rel=1e-9), name
    comments = [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]
    assert len([line for line in comments if "Next best" in line]) == len(answer["best"]["units"]) == 5


def test_better_strategies_over_the_limit(folder):
    """Without the limit the layers would not be recomputed."""
    free = json.loads(search(folder, "--mesh", "fsdp").stdout)["best"]
    limit = free["memory_bytes"] - 1
    answer = json.loads(search(folder, "--mesh", "fsdp", "--memory", limit, output="limited.yaml").stdout)
    remat = [u for u in answer["best"]["units"] if u["unit"] == "remat" and u["strategy"].startswith("recomputed")]
    over = remat[0]["over"]
    assert over["memory_bytes"] > limit and over["seconds"] < answer["best"]["seconds"]
    assert "but over the limit" in (folder / "limited.yaml").read_text()
    assert all(u["next"] is None or u["next"]["memory_bytes"] <= limit for u in answer["best"]["units"])


def test_inference_costs_what_check_computes(folder):
    best = json.loads(search(folder, "--mode", "infer").stdout)["best"]
    computed = figures(folder, (folder / "best.yaml").read_bytes(), "--mode", "infer", batch=best["batch"])
    assert (best["seconds"], best["memory_bytes"], best["wire_bytes"]) == pytest.approx(computed, rel=1e-9)


def test_two_runs_are_the_same(folder):
    first, second = (search(folder, "--mesh", "fsdp", output=name) for name in ("a.yaml", "b.yaml"))
    assert first.stdout == second.stdout.replace(b"b.yaml", b"a.yaml")
    assert (folder / "a.yaml").read_bytes() == (folder / "b.yaml").read_bytes()
    assert str(folder).encode() not in first.stdout + (folder / "a.yaml").read_bytes()


def test_a_limit_that_no_plan_meets(folder):
    result = search(folder, "--mesh", "fsdp", "--memory", 1, output="none.yaml")
    answer = json.loads(result.stdout)
    assert not list(SCHEMA.iter_errors(answer))
    assert result.returncode == 1 and answer["best"] is None and not (folder / "none.yaml").exists()
    smallest = answer["smallest"]
    enough = search(folder, "--mesh", "fsdp", "--memory", answer["smallest"]["memory_bytes"])
    assert json.loads(enough.stdout)["best"]["memory_bytes"] <= smallest["memory_bytes"]
    assert smallest["over_bytes"] == smallest["memory_bytes"] - 1 and smallest["fits"] == []
    arguments = ("--batch", smallest["batch"], *STEP, "--costs", "--format", "json")
    checked = json.loads(run("check", "model.json", "best.yaml", *arguments, cwd=folder).stdout)["costs"]["memory"]
    assert checked["reserved_bytes"] == smallest["memory_bytes"]
    terms = {term["name"]: term["bytes"] for term in checked["terms"]}
    assert {term["name"]: term["bytes"] for term in smallest["terms"]} == terms and len(terms) > 4


def test_what_would_fit_fits(folder):
    """More ranks and other recipes are tried: with them a plan is found."""
    batch = ("--mesh", "fsdp")
    none = json.loads(search(folder, *batch, "--memory", 1, batch=4).stdout)["smallest"]
    limit = none["memory_bytes"] - 1
    result = search(folder, *batch, "--memory", limit, batch=4)
    fits = json.loads(result.stdout)["smallest"]["fits"]
    assert result.returncode == 1 and {step["ranks"] for step in fits} == {2, 4}
    for step in fits:
        mesh = ("--mesh", "fsdp", "--recipe", step["recipe"], "--memory", limit, "--minimize", "memory")
        found = search(folder, *mesh, ranks=step["ranks"], batch=4)
        assert found.returncode == 0, found.stdout
        assert json.loads(found.stdout)["best"]["memory_bytes"] <= step["memory_bytes"] <= limit
    text = run("search", "model.json", "--ranks", 2, "--batch", 4, *STEP, *batch, "--memory", limit, cwd=folder).stderr
    assert b"fits on 4 ranks" in text and b"fits with --recipe" in text


def test_a_plan_to_compare_with(folder):
    (folder / "yours.yaml").write_bytes(sequence_plan([(HEADS, False)] * 4))
    answer = json.loads(search(folder, "--mesh", "fsdp", "--keep", "yours.yaml").stdout)
    seconds, memory, wire = figures(folder, (folder / "yours.yaml").read_bytes())
    assert answer["yours"] == {"mesh": {"tp": 2}, "seconds": seconds, "memory_bytes": memory, "wire_bytes": wire}


def test_a_batch_that_no_mesh_divides(folder):
    result = search(folder, "--mesh", "fsdp", batch=3)
    answer = json.loads(result.stdout)
    assert result.returncode == 1 and answer["best"] is None
    assert "divide" in answer["left_out"][0]["reason"]


@pytest.mark.parametrize(
    "options, text",
    [
        (("--memory", "lots"), "--memory lots"),
        (("--mesh", "pp=2"), "--mesh pp=2"),
        (("--mesh", "tp=4..2"), "--mesh tp=4..2"),
        (("--simple", "-1"), "--simple"),
        (("--keep", "missing.yaml"), "missing.yaml"),
    ],
)
def test_wrong_options(folder, options, text):
    result = search(folder, *options)
    assert result.returncode == 2 and text in result.stderr.decode()


def test_measured_steps_of_the_topology_count(folder):
    """search and check fit the same efficiencies to the measured steps."""
    plan = sequence_plan([(HEADS, False)] * 4)
    (folder / "measured.yaml").write_bytes(plan)
    (folder / "step.yaml").write_text("format: tpplan.run/1\nbatch: 2\nsequence: 2048\n")
    entry = "{model: model.json, plan: measured.yaml, run: step.yaml, seconds: 0.5}"
    (folder / "topology.yaml").write_text(TOPOLOGY.read_text() + f"calibrate:\n  - {entry}\n")
    step = ("--run", "run.yaml", "--topology", "topology.yaml", "--sequence", 2048)
    arguments = ("model.json", "--ranks", 2, "--batch", 2, *step, "--mesh", "fsdp", "-o", "fitted.yaml")
    result = run("search", *arguments, "--format", "json", cwd=folder)
    assert result.returncode == 0, result.stderr
    best = json.loads(result.stdout)["best"]
    batch = ("--batch", best["batch"], *step, "--costs", "--format", "json")
    checked = json.loads(run("check", "model.json", "fitted.yaml", *batch, cwd=folder).stdout)
    assert best["seconds"] == pytest.approx(checked["costs"]["step"]["seconds"], rel=1e-9)
    plain = json.loads(
        run("check", "model.json", "fitted.yaml", "--batch", 1, *STEP, "--costs", "--format", "json", cwd=folder).stdout
    )
    assert plain["costs"]["step"]["seconds"] < 0.9 * best["seconds"]
