"""`--run` of suggest, diff, show and init: the numbers of `tpplan check --run`."""

import json

import jsonschema
import pytest
from conftest import ROOT, run

SCHEMAS = {name: json.loads((ROOT / f"schemas/{name}.schema.json").read_text()) for name in ("suggestion", "diff")}
TOPOLOGY = ROOT / "plans/topologies/h100.yaml"
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000, "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
RULES = """tp_plan:
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
FSDP = 'data: {axes: [fsdp], dim: 0}\nfsdp: {axis: fsdp, policy: dim0, units: ["model.layers.*"]}\n'
RUN = "format: tpplan.run/1\nbatch: 2\nsequence: 1024\naccumulation: 2\nrecipe: adamw_mixed\ncheckpointing: full\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with model.json, run.yaml, and plans over 2 x 2 and 4 x 2 ranks."""
    path = tmp_path_factory.mktemp("run")
    (path / "config.json").write_text(json.dumps(CONFIG))
    for name, fsdp in (("small", 2), ("large", 4)):
        mesh = f"format: tpplan.plan/1\nmesh: {{fsdp: {fsdp}, tp: 2}}\n"
        (path / f"{name}.yaml").write_text(mesh + FSDP + RULES)
    (path / "run.yaml").write_text(RUN)
    made = run("import", "--from", "config", path / "config.json", "-o", path / "model.json")
    assert made.returncode == 0, made.stderr
    for name in ("small", "large"):
        made = run("compile", path / "model.json", path / f"{name}.yaml", "-o", path / f"{name}.json", "-q")
        assert made.returncode == 0, made.stderr
    return path


def checked(folder, plan, *flags, run_file="run.yaml", topology=TOPOLOGY):
    words = ("--run", folder / run_file, "--topology", topology, "--format", "json", *flags)
    result = run("check", folder / "model.json", folder / plan, *words)
    assert result.returncode == 0, result.stdout.decode()
    return json.loads(result.stdout)["costs"]


def figures(costs):
    """Active and reserved memory, seconds and bytes sent of a step."""
    memory = costs["memory"]
    return memory["active_bytes"], memory["reserved_bytes"], costs["step"]["seconds"], costs["total"]["wire"]


def document(command, *words):
    result = run(command, *words, "--format", "json")
    found = json.loads(result.stdout)
    jsonschema.Draft7Validator(SCHEMAS[{"suggest": "suggestion"}.get(command, command)]).validate(found)
    return found


STEP_FLAGS = {"as the file": (), "with flags": ("--batch", "4", "--sequence", "512", "--recipe", "sgd_momentum")}


@pytest.mark.parametrize("flags", STEP_FLAGS.values(), ids=STEP_FLAGS)
def test_check_suggest_and_diff_print_one_number(folder, flags):
    wanted = {name: figures(checked(folder, f"{name}.yaml", *flags)) for name in ("small", "large")}
    assert wanted["small"] != wanted["large"]
    words = ("--run", folder / "run.yaml", "--topology", TOPOLOGY, *flags)
    model = folder / "model.json"
    meshes = document("suggest", model, folder / "small.yaml", "--max-ranks", "8", *words)["meshes"]
    assert not [mesh for mesh in meshes if not mesh["right"] and mesh["mesh"]["tp"] in (1, 2, 4)]
    found = {tuple(mesh["mesh"].values()): mesh for mesh in meshes if mesh["right"]}
    keys = ("memory_bytes", "reserved_bytes", "seconds", "sent_bytes")
    for name, sizes in (("small", (2, 2)), ("large", (4, 2))):
        assert tuple(found[sizes][key] for key in keys) == wanted[name]
        assert found[sizes]["fits"] and found[sizes]["capacity_bytes"] == 80_000_000_000
    step = document("diff", model, folder / "small.yaml", folder / "large.yaml", *words)["step"]
    for name, side in (("small", "before"), ("large", "after")):
        assert tuple(step[side][key] for key in keys) == wanted[name]


def test_diff_says_when_the_tokens_of_a_step_differ(folder):
    words = ("--run", folder / "run.yaml", "--topology", TOPOLOGY)
    text = run("diff", folder / "model.json", folder / "small.yaml", folder / "large.yaml", *words).stdout.decode()
    tokens = 2 * 1024 * 2  # of a data rank: batch, sequence, micro-batches
    assert f"a step trains {4 * tokens} tokens instead of {2 * tokens}" in text
    for row in ("  memory, active        ", "  memory, reserved      ", "  time                  ", "  sent      "):
        assert row in text
    assert "given: batch 2, sequence 1024, accumulation 2," in text and "defaults: " in text


@pytest.mark.parametrize("flags", [("--run", "run.yaml"), ("--batch", "2"), ("--sequence", "8")])
def test_manifests_have_no_other_step(folder, flags):
    result = run("diff", "small.json", "large.json", *flags, cwd=folder)
    assert result.returncode == 2 and result.stdout == b""
    assert f"{flags[0]}: a manifest has no operations".encode() in result.stderr and b"MODEL OLD NEW" in result.stderr


def test_diff_of_manifests_has_the_memory_of_a_recipe(folder):
    words = (folder / "small.json", folder / "large.json")
    memory = [document("diff", *words, "--recipe", name)["step"]["after"]["memory_bytes"] for name in ("sgd", "adamw")]
    assert memory[0] < memory[1]


@pytest.mark.parametrize("recipe", ["adamw_mixed", "adamw_fp32", "sgd_momentum"])
@pytest.mark.parametrize("plan", ["small", "large"])
def test_show_prints_what_a_rank_holds_between_micro_batches(folder, plan, recipe):
    words = ("--run", folder / "run.yaml", "--recipe", recipe)
    text = run("show", folder / f"{plan}.json", *words).stdout.decode()
    section = text[text.index("memory between micro-batches, rank 0") :]
    terms = {term["name"]: term["bytes"] for term in checked(folder, f"{plan}.yaml", *words[2:])["memory"]["terms"]}
    for name in ("parameters", "optimizer state"):
        unit = next(u for u in (30, 20, 10) if terms[name] >= 1 << u)
        assert any(
            line.split()[: len(name.split())] == name.split()
            and abs(float(line.split()[len(name.split())]) * (1 << unit) / terms[name] - 1) < 0.01
            for line in section.splitlines()
        ), (name, terms[name], section)
    assert "a manifest has no operations" in section and "tpplan check MODEL PLAN --costs --run" in section
    assert "the run has batch 2 and sequence 1024" in section


def test_suggest_takes_the_default_run_with_a_topology(folder):
    words = (folder / "model.json", folder / "small.yaml", "--max-ranks", "4")
    text = run("suggest", *words, "--topology", TOPOLOGY).stdout.decode()
    head, *rows = [line.split() for line in text.splitlines()[1:4]]
    assert head == "mesh ranks parameters memory reserved fits time sent per step".split() and rows
    assert "\n defaults: batch " in text and "checkpointing none" in text
    assert "defaults" not in run("suggest", *words).stdout.decode()


def test_run_that_contradicts_the_plan_is_rejected(folder, tmp_path):
    (tmp_path / "run.yaml").write_text("format: tpplan.run/1\nloss: parallel\n")
    model, plans = folder / "model.json", (folder / "small.yaml", folder / "large.yaml")
    for command, files, status in (("suggest", plans[:1], 1), ("diff", plans, 2)):
        result = run(command, model, *files, "--run", tmp_path / "run.yaml")
        assert (result.returncode, result.stdout) == (status, b"") and b"error[TP9108]" in result.stderr


@pytest.mark.parametrize("command", ["suggest", "diff", "show", "init"])
def test_invalid_run_is_rejected(folder, tmp_path, command):
    (tmp_path / "run.yaml").write_text("format: tpplan.run/1\nbatch: 0\n")
    files = {"suggest": ("model.json", "small.yaml"), "diff": ("model.json", "small.yaml", "large.yaml"),
             "show": ("small.json",), "init": ("model.json",)}[command]  # fmt: skip
    more = ("--topology", TOPOLOGY) if command == "init" else ()
    result = run(command, *files, "--run", tmp_path / "run.yaml", *more, cwd=folder)
    assert result.returncode in (1, 2) and result.stdout == b"" and b"error[TP9107]" in result.stderr


@pytest.mark.parametrize(("capacity", "word"), [(80 << 30, "fits"), (1 << 30, "does not fit")])
def test_init_says_whether_the_draft_fits(folder, tmp_path, capacity, word):
    lines = TOPOLOGY.read_text().splitlines()
    text = "\n".join(f"memory_bytes: {capacity}" if line.startswith("memory_bytes:") else line for line in lines)
    (tmp_path / "topology.yaml").write_text(text + "\n")
    words = ("--mesh", "fsdp=2,tp=2", "--run", folder / "run.yaml", "--topology", tmp_path / "topology.yaml")
    result = run("init", folder / "model.json", *words, "-o", tmp_path / "plan.yaml")
    assert result.returncode == 0, result.stderr
    costs = checked(folder, tmp_path / "plan.yaml", topology=tmp_path / "topology.yaml")
    assert costs["memory"]["fits"] == (word == "fits")
    [line] = [line for line in result.stderr.decode().splitlines() if line.startswith("a step with recipe")]
    assert f": {word}" in line and "adamw_mixed" in line
    needs = float(line.split("needs ")[1].split()[0])
    assert needs == pytest.approx(costs["memory"]["reserved_bytes"] / (1 << 30), rel=0.01)


def test_run_of_init_needs_a_topology(folder):
    result = run("init", folder / "model.json", "--run", folder / "run.yaml")
    assert result.returncode == 2 and b"add --topology" in result.stderr
