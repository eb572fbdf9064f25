"""tpplan check --trace: the timeline of a step adds up to what `check --costs` prints."""

import json

import pytest
from conftest import ROOT, run

MODEL = ROOT / "plans/models/llama-3-8b.json"
H100 = ROOT / "plans/topologies/h100.yaml"
FSDP_TP, TP = ROOT / "plans/llama-fsdp-tp.yaml", ROOT / "plans/llama.yaml"

# The terms of `costs.terms` that a lane has.
TERMS = {
    "matmuls": {"matmuls, forward", "matmuls, backward", "matmuls, recomputed", "8-bit casts"},
    "attention": {"attention"},
    "elementwise": {"elementwise", "loss", "FSDP copies"},
    "optimizer": {"optimizer"},
    "waiting": {"collectives of data axes", "contention"},
    "tp collectives": {"collectives of model axes"},
}
PHASES = {"matmuls, forward": "forward", "matmuls, recomputed": "recomputed"}

CASES = {
    "defaults": (FSDP_TP, {}),
    "full": (FSDP_TP, {"checkpointing": "full", "compiled": True, "optimizer": "fused"}),
    "every third layer": (FSDP_TP, {"checkpointing": {"every": 3}, "batch": 1, "sequence": 512}),
    "selective": (FSDP_TP, {"checkpointing": "selective_ops", "async_tp": True, "reshard_after_forward": False}),
    "fp8": (FSDP_TP, {"fp8": "tensorwise", "checkpointing": "full"}),
    "three micro-batches": (FSDP_TP, {"accumulation": 3}),
    "folded micro-batches": (FSDP_TP, {"accumulation": 12, "attention": "unfused"}),
    "tp": (TP, {"checkpointing": {"save": ["linear"]}}),
}


def traced(folder, plan, keys, *options):
    """The trace and the costs of a step. The plan's `remat` gives way to the run's checkpointing."""
    text = plan.read_text()
    if "checkpointing" in keys:
        text = "".join(line for line in text.splitlines(True) if not line.startswith("remat:"))
    (folder / "plan.yaml").write_text(text)
    (folder / "run.yaml").write_text(json.dumps({"format": "tpplan.run/1"} | keys))
    words = ["--run", folder / "run.yaml", "--topology", H100, "--trace", folder / "step.json", *options]
    result = run("check", MODEL, folder / "plan.yaml", *words, "--format", "json")
    assert result.returncode == 0, result
    return json.loads((folder / "step.json").read_text()), json.loads(result.stdout)["costs"]


@pytest.fixture(scope="module", params=CASES)
def step(request, tmp_path_factory):
    return traced(tmp_path_factory.mktemp("step"), *CASES[request.param])


def threads(trace):
    """The names of the threads, and the complete events of each in order."""
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    spans = {name: [] for name in names.values()}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            spans[names[event["tid"]]].append(event)
    return {name: sorted(own, key=lambda e: e["ts"]) for name, own in spans.items()}


def end(event):
    return event["ts"] + event["dur"]


def repeats(trace):
    """How often the first micro-batch runs: once, and for each folded one."""
    return 1 + sum(e["args"]["micro_batches"] for e in trace["traceEvents"] if e.get("cat") == "folded")


def lane_seconds(trace, spans):
    times = repeats(trace)
    return (
        sum(e["dur"] * (times if e["args"]["micro_batch"] == 0 and e["cat"] != "optimizer" else 1) for e in spans) / 1e6
    )


def test_ends_with_the_step(step):
    trace, costs = step
    last = max(end(e) for e in trace["traceEvents"] if e["ph"] == "X")
    assert last / 1e6 == pytest.approx(costs["step"]["seconds"], rel=1e-6)


def test_lanes_sum_to_the_terms(step):
    trace, costs = step
    terms = {term["name"]: term["seconds"] for term in costs["terms"]}
    lanes = {name: lane_seconds(trace, own) for name, own in threads(trace).items() if name in TERMS}
    expected = {name: sum(terms.get(term, 0) for term in own) for name, own in TERMS.items()}
    assert lanes == pytest.approx({name: seconds for name, seconds in expected.items() if seconds > 0}, rel=1e-5)
    for term, phase in PHASES.items():
        if not any("8-bit" in name for name in terms):
            own = [e for e in threads(trace)["matmuls"] if e["cat"] == phase]
            assert lane_seconds(trace, own) == pytest.approx(terms.get(term, 0), rel=1e-5)


def test_spans_of_a_lane_do_not_overlap(step):
    for name, own in threads(step[0]).items():
        for a, b in zip(own, own[1:]):
            assert end(a) <= b["ts"] + 1e-3, (name, a, b)


def test_kernels_and_waiting_fill_the_step(step):
    trace, costs = step
    own = sorted((e for name, spans in threads(trace).items() if name in TERMS for e in spans), key=lambda e: e["ts"])
    folded = [e for e in trace["traceEvents"] if e.get("cat") == "folded"]
    own = sorted(own + folded, key=lambda e: e["ts"])
    at = 0
    for event in own:
        assert event["ts"] == pytest.approx(at, abs=0.01), event
        at = end(event)
    assert at / 1e6 == pytest.approx(costs["step"]["seconds"], rel=1e-6)


def test_every_layer_runs_forward_and_backward_in_order(step):
    trace, _ = step
    for batch in {e["args"]["micro_batch"] for e in threads(trace)["matmuls"]}:
        blocks = [e for e in threads(trace)["layers"] if e["args"].get("micro_batch") == batch]
        order = {
            phase: [e["name"] for e in blocks if e["cat"] == phase and e["name"] != "outside layers"]
            for phase in ("forward", "backward")
        }
        assert order["forward"] == [f"model.layers.{i}" for i in range(32)]
        assert order["backward"] == order["forward"][::-1]


def test_memory_peaks_at_the_costs(step):
    trace, costs = step
    sums = [sum(e["args"].values()) for e in trace["traceEvents"] if e["ph"] == "C"]
    assert max(sums) == costs["memory"]["active_bytes"]
    at = [e["ts"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert at == sorted(at) and at[0] == 0


def test_recomputed_layers_are_those_of_the_run(tmp_path):
    trace, _ = traced(tmp_path, FSDP_TP, {"checkpointing": {"every": 3}})
    recomputed = {e["args"]["layer"] for e in threads(trace)["matmuls"] if e["cat"] == "recomputed"}
    assert recomputed == {f"model.layers.{i}" for i in range(2, 32, 3)}


def leaves(trace, layer, phase):
    """The modules of matmuls and attention, and the collectives of tp, in the order in which a layer runs them."""
    names = ("matmuls", "attention", "tp collectives")
    own = sorted((e for name in names for e in threads(trace).get(name, [])), key=lambda e: e["ts"])
    return [
        e["name"] if "bytes" in e["args"] else e["args"]["module"].rpartition(".")[2]
        for e in own
        if (e["args"]["layer"], e["cat"]) == (layer, phase)
    ]


def test_collectives_follow_the_partial_results(tmp_path):
    """Megatron's layer: an all_reduce after o_proj and down_proj, and backward after each linear that reads the residual."""
    trace, _ = traced(tmp_path, TP, {})
    forward = leaves(trace, "model.layers.3", "forward")
    assert forward == [*ATTENTION, "o_proj", "all_reduce", *MLP, "down_proj", "all_reduce"]
    own = [module for name in ("v_proj", "k_proj", "q_proj") for module in (name, "all_reduce")]
    assert leaves(trace, "model.layers.3", "backward") == [
        *("down_proj", "up_proj", "all_reduce", "gate_proj", "all_reduce", "o_proj", "self_attn"),
        *own,
    ]


def test_collectives_of_sharded_sequences_surround_their_block(tmp_path):
    trace, _ = traced(tmp_path, FSDP_TP, {})
    forward = leaves(trace, "model.layers.3", "forward")
    assert forward == [
        *("all_gather", *ATTENTION, "o_proj", "reduce_scatter"),
        *("all_gather", *MLP, "down_proj", "reduce_scatter"),
    ]


ATTENTION, MLP = ("q_proj", "k_proj", "v_proj", "self_attn"), ("gate_proj", "up_proj")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--topology", H100], "add both"),
        (["--run", "run.yaml"], "add both"),
        (["--run", "run.yaml", "--topology", H100, "--mode", "infer"], "remove --mode"),
        (["--run", "run.yaml", "--topology", H100, "--mode", "decode"], "remove --mode"),
    ],
    ids=["no run", "no topology", "infer", "decode"],
)
def test_option_that_is_missing_is_named(tmp_path, options, text):
    (tmp_path / "run.yaml").write_text('{"format": "tpplan.run/1"}')
    result = run("check", MODEL, TP, "--trace", "step.json", *options, cwd=tmp_path)
    assert result.returncode == 2 and text in result.stderr.decode() and not (tmp_path / "step.json").exists()


def test_standard_output_is_no_trace(tmp_path):
    (tmp_path / "run.yaml").write_text('{"format": "tpplan.run/1"}')
    result = run("check", MODEL, TP, "--run", "run.yaml", "--topology", H100, "--trace", "-", cwd=tmp_path)
    assert result.returncode == 2 and b"pass a file name" in result.stderr


def test_plan_with_errors_has_no_trace(tmp_path):
    (tmp_path / "run.yaml").write_text('{"format": "tpplan.run/1"}')
    (tmp_path / "plan.yaml").write_text(
        'format: tpplan.plan/1\nmesh: {tp: 3}\ntp_plan: {"*.q_proj": colwise, "*": replicate}\n'
    )
    words = ["--run", "run.yaml", "--topology", H100, "--trace", "step.json"]
    result = run("check", MODEL, "plan.yaml", *words, cwd=tmp_path)
    assert result.returncode == 1 and not (tmp_path / "step.json").exists()
