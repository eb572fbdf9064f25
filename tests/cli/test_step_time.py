"""tpplan check --run --topology: the seconds of a step, their interval, and the fit to measured steps."""

import json
import math

import jsonschema
import pytest
from conftest import ROOT, run

SCHEMA = json.loads((ROOT / "schemas/diagnostics.schema.json").read_text())
PRESETS = sorted((ROOT / "plans/topologies").glob("*.yaml"))
PLAN = """format: tpplan.plan/1
mesh: {fsdp: 8}
data: {axes: [fsdp], dim: 0}
fsdp: {axis: fsdp, policy: dim0, units: ["model.layers.*"]}
"""
DECODE = """format: tpplan.plan/1
mesh: {tp: 2}
tp_plan:
  "model.embed_tokens": embedding_rowwise
  "lm_head": colwise_gather_output
blocks:
  "model.layers.*":
    "self_attn.[qkv]_proj": colwise
    "self_attn.o_proj": rowwise
    "mlp.gate_proj": colwise
    "mlp.up_proj": colwise
    "mlp.down_proj": rowwise
"""
RUN = {"batch": 1, "sequence": 2048, "recipe": "adamw_mixed_fp32_gradients", "compiled": "true", "loss": "fused"}
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32000, "hidden_act": "silu",
    "max_position_embeddings": 65536, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with model.json, plan.yaml, decode.yaml."""
    path = tmp_path_factory.mktemp("step")
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "plan.yaml").write_text(PLAN)
    (path / "decode.yaml").write_text(DECODE)
    made = run("import", "--from", "config", path / "config.json", "-o", path / "model.json")
    assert made.returncode == 0, made.stderr
    return path


def write_run(folder, name, **keys):
    lines = "".join(f"{key}: {value}\n" for key, value in (RUN | keys).items())
    (folder / name).write_text("format: tpplan.run/1\n" + lines)


def topology_text(preset="h100", calibrate=(), **figures):
    """The preset with other figures of GPUs and with measured steps: (run, seconds)."""
    lines = (ROOT / f"plans/topologies/{preset}.yaml").read_text().splitlines()
    changed = [next((f"{k}: {v}" for k, v in figures.items() if line.startswith(f"{k}:")), line) for line in lines]
    entries = [f"  - {{model: model.json, plan: plan.yaml, run: {name}, seconds: {s!r}}}" for name, s in calibrate]
    return "\n".join([*changed, *(["calibrate:", *entries] if entries else [])]) + "\n"


def check(folder, text, run_file="run.yaml", *flags, plan="plan.yaml"):
    (folder / "topology.yaml").write_text(text)
    files = (folder / "model.json", folder / plan, "--run", folder / run_file, "--topology", folder / "topology.yaml")
    return run("check", *files, "--costs", "--format", "json", *flags)


def costs(folder, text, *arguments, **more):
    result = check(folder, text, *arguments, **more)
    assert result.returncode == 0, result.stdout.decode()
    document = json.loads(result.stdout)
    jsonschema.Draft7Validator(SCHEMA).validate(document)
    return document["costs"]


def seconds(folder, text, *arguments, **more):
    return costs(folder, text, *arguments, **more)["step"]["seconds"]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_preset_prices_a_step(folder, preset):
    write_run(folder, "run.yaml")
    found = costs(folder, preset.read_text())
    low, high = found["step"]["interval"]
    assert 0 < low <= found["step"]["seconds"] <= high < math.inf
    assert sum(t["seconds"] for t in found["terms"]) == pytest.approx(found["step"]["seconds"], rel=1e-12)
    assert all(t["seconds"] > 0 and t["formula"] for t in found["terms"]) and "time" not in found


def test_calibration_recovers_known_efficiencies(folder):
    """Steps of a GPU with other efficiencies than the preset's tell both of them."""
    truth = {"efficiency": 0.48, "attention_efficiency": 0.23}
    steps = []
    for name, sequence in (("short.yaml", 512), ("middle.yaml", 4096), ("long.yaml", 32768), ("longer.yaml", 65536)):
        write_run(folder, name, sequence=sequence)
        steps.append((name, seconds(folder, topology_text(**truth), name)))
    write_run(folder, "run.yaml", sequence=8192, checkpointing="full")
    wanted, before = (seconds(folder, topology_text(**figures)) for figures in (truth, {}))
    found = costs(folder, topology_text(calibrate=steps))["step"]
    assert abs(before / wanted - 1) > 0.15
    assert found["seconds"] == pytest.approx(wanted, rel=0.02)
    assert found["matmul_scale"] == pytest.approx(0.48 / 0.6, rel=0.05)
    assert found["attention_scale"] == pytest.approx(0.23 / 0.35, rel=0.05)
    assert [m["predicted"] for m in found["measured"]] == pytest.approx([s for _, s in steps], rel=0.02)


def test_measured_steps_narrow_the_interval(folder):
    write_run(folder, "run.yaml")
    before = costs(folder, topology_text())["step"]
    after = costs(folder, topology_text(calibrate=[("run.yaml", before["seconds"])]))["step"]
    assert after["seconds"] == pytest.approx(before["seconds"], rel=1e-6)
    width = lambda step: step["interval"][1] / step["interval"][0]  # noqa: E731
    assert width(after) < width(before)


def test_noisy_step_moves_the_preset_but_not_all_the_way(folder):
    write_run(folder, "run.yaml")
    before = seconds(folder, topology_text())
    after = seconds(folder, topology_text(calibrate=[("run.yaml", 1.3 * before)]))
    assert 1.1 * before < after < 1.3 * before


def test_contradicting_steps_are_a_warning(folder):
    write_run(folder, "run.yaml")
    result = check(folder, topology_text(calibrate=[("run.yaml", 0.1), ("run.yaml", 0.4)]))
    assert result.returncode == 0
    assert [d["code"] for d in json.loads(result.stdout)["diagnostics"]] == ["TP9110"]


@pytest.mark.parametrize("missing", ["ramp", "memory_bandwidth", "memory_efficiency", "attention_efficiency"])
def test_missing_figure_names_figure_and_term(folder, missing):
    write_run(folder, "run.yaml")
    text = "".join(line + "\n" for line in topology_text().splitlines() if not line.startswith(f"{missing}:"))
    [finding] = json.loads(check(folder, text).stdout)["diagnostics"]
    assert finding["code"] == "TP9109" and f"`{missing}`" in finding["message"] and "term" in finding["message"]


def test_8_bit_linears_need_an_8_bit_peak(folder):
    write_run(folder, "run.yaml", fp8="tensorwise")
    [finding] = json.loads(check(folder, topology_text("a100-80")).stdout)["diagnostics"]
    assert finding["code"] == "TP9109" and "fp8_efficiency" in finding["message"]


@pytest.mark.parametrize("line", ["efficiency: 0", "ramp: -1", "memory_bandwidth: 1e30", "memory_efficiency: 1.2",
                                  "attention_efficiency: .nan", "host_ranks: eight", "contention: 2"])  # fmt: skip
def test_nonsense_figure_is_rejected(folder, line):
    write_run(folder, "run.yaml")
    key, value = line.split(": ")
    result = check(folder, topology_text(**{key: value}))
    assert result.returncode == 2 and [d["code"] for d in json.loads(result.stdout)["diagnostics"]] == ["TP9101"]


def test_unreadable_measured_step_is_reported_at_its_entry(folder):
    write_run(folder, "run.yaml")
    result = check(folder, topology_text(calibrate=[("missing.yaml", 1.0)]))
    [finding] = json.loads(result.stdout)["diagnostics"]
    assert result.returncode == 2 and finding["code"] == "TP9101" and "missing.yaml" in finding["message"]
    assert finding["place"]["file"].endswith("topology.yaml")


# What a key of the run changes: faster or slower than RUN.
SLOWER = {"checkpointing": "full", "compiled": "false", "accumulation": 2, "loss": "plain"}


@pytest.mark.parametrize("key", SLOWER)
def test_key_of_the_run_makes_the_step_slower(folder, key):
    write_run(folder, "run.yaml")
    before = seconds(folder, topology_text())
    write_run(folder, "run.yaml", **{key: SLOWER[key]})
    assert seconds(folder, topology_text()) > before


def test_full_recomputation_skips_the_last_matmul_of_a_layer(folder):
    write_run(folder, "run.yaml", checkpointing="full")
    terms = {
        t["name"]: float(t["formula"].split()[0])
        for t in costs(folder, topology_text())["terms"]
        if "FLOP" in t["formula"]
    }
    tokens, width, hidden, layers = 2048, 1024, 4096, 4
    each = 2 * tokens * (width * (width + 2 * 256) + width * width + 2 * width * hidden)  # without down_proj
    assert terms["matmuls, recomputed"] == pytest.approx(layers * each, rel=1e-3)


def test_decode_reads_weights_and_cache_once(folder):
    (folder / "run.yaml").write_text("format: tpplan.run/1\nbatch: 2\ncompiled: true\n")
    found = costs(
        folder, topology_text("a100-80"), "run.yaml", "--mode", "decode", "--context", "208", plan="decode.yaml"
    )
    terms = {t["name"]: t["seconds"] for t in found["terms"]}
    layer = 1024 * (1024 + 2 * 256) + 1024 * 1024 + 3 * 1024 * 4096
    memory = 2.039e12 * 0.74
    assert terms["weights"] == pytest.approx(2 * (4 * layer + 32000 * 1024) / 2 / memory, rel=1e-3)
    assert terms["keys and values"] == pytest.approx(2 * 208 * 4 * 2 * 256 / 2 * 2 / memory, rel=1e-6)
    assert found["step"]["kind"] == "decode" and found["step"]["seconds"] == pytest.approx(sum(terms.values()))


def memory_terms(found):
    return {term["name"]: term["bytes"] for term in found["memory"]["terms"]}


@pytest.mark.parametrize(("dtype", "width"), [(None, 2), ("float8_e4m3fn", 1), ("float32", 4)])
@pytest.mark.parametrize("mode", ["decode", "infer"])
def test_cache_is_sharded_as_the_heads_are(folder, mode, dtype, width):
    """Four layers, two key/value heads of 128 on two ranks."""
    (folder / "run.yaml").write_text("format: tpplan.run/1\nbatch: 2\n")
    flags = ["--mode", mode, "--context", "4096", *(["--cache-dtype", dtype] if dtype else [])]
    found = costs(folder, topology_text(), "run.yaml", *flags, plan="decode.yaml")
    terms = memory_terms(found)
    assert terms["keys and values"] == 4 * 2 * 128 * width * 2 * 4096
    memory = found["memory"]
    assert memory["active_bytes"] == sum(terms.values()) <= memory["reserved_bytes"] and memory["fits"]
    if mode == "decode":  # the logits of one token of each sequence
        assert terms["results"] == 2 * 32000 * 2


def test_step_that_fits_without_its_cache_does_not_fit_with_it(folder):
    (folder / "run.yaml").write_text("format: tpplan.run/1\nbatch: 64\n")
    flags = ("run.yaml", "--mode", "decode", "--context")
    small = topology_text(memory_bytes=1 << 30)
    fits = [costs(folder, small, *flags, n, plan="decode.yaml")["memory"]["fits"] for n in ("16", "65536")]
    assert fits == [True, False]
    text = run(
        "check", folder / "model.json", folder / "decode.yaml", "--run", folder / "run.yaml", "--mode", "decode",
        "--context", "65536", "--topology", folder / "topology.yaml",
    ).stdout.decode()  # fmt: skip
    assert " does not fit: tensors exceed 1.00 GiB by " in text and "temporary activations are not counted" in text


def test_inference_has_no_loss_and_no_optimizer(folder):
    write_run(folder, "run.yaml")
    found = costs(folder, topology_text(), "run.yaml", "--mode", "infer")
    training = costs(folder, topology_text())
    names = [{t["name"] for t in one["terms"]} for one in (found, training)]
    backward = {"matmuls, backward", "loss", "optimizer"}
    assert backward <= names[1] and not backward & names[0] and found["step"]["kind"] == "inference"
    assert found["step"]["seconds"] < training["step"]["seconds"] / 2


def test_step_without_a_run_is_compared_with_the_memory_of_the_gpu(folder):
    for capacity, fits in ((80 << 30, True), (1 << 20, False)):
        (folder / "topology.yaml").write_text(topology_text(memory_bytes=capacity))
        files = (folder / "model.json", folder / "plan.yaml", "--topology", folder / "topology.yaml")
        memory = json.loads(run("check", *files, "--format", "json").stdout)["costs"]["memory"]
        assert (memory["capacity_bytes"], memory["fits"]) == (capacity, fits)


@pytest.mark.parametrize("flags", [("--context", "64"), ("--cache-dtype", "float32")])
def test_cache_needs_inference(folder, flags):
    write_run(folder, "run.yaml")
    result = check(folder, topology_text(), "run.yaml", *flags)
    assert result.returncode == 2 and b"--mode decode" in result.stderr


def test_screen_names_the_most_uncertain_figure(folder):
    write_run(folder, "run.yaml")
    (folder / "topology.yaml").write_text(topology_text())
    files = (
        folder / "model.json",
        folder / "plan.yaml",
        "--run",
        folder / "run.yaml",
        "--topology",
        folder / "topology.yaml",
    )
    text = run("check", *files).stdout.decode()
    own = text[text.index("time of a training step") :].splitlines()
    assert any(line.startswith(" most uncertain: the efficiency of matmuls") for line in own)
    assert max(map(len, own)) <= 80
