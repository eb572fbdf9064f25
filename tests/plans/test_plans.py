"""The plans of the library: each compiles on the meshes in its first comment, and shards as Megatron does."""

import json
import lzma
import math
import pathlib
import re

import pytest

from conftest import ROOT, codes, run

PLANS = ROOT / "plans"
MODELS = pathlib.Path(__file__).resolve().parent / "models"
MODELINE = "# yaml-language-server: $schema=../schemas/plan.schema.json"
BROKEN = "seeds"
LARGE = 1 << 18  # elements from which a parameter without a rule is reported


def text_of(plan):
    return (PLANS / f"{plan}.yaml").read_text(encoding="utf-8")


def meshes_of(plan):
    """[(model, mesh), ...] of the line `# Tested: MODEL on MESH MESH; MODEL on MESH.`"""
    (line,) = re.findall(r"^# Tested: (.*?)(?:\.|: TP\d{4}\.)$", text_of(plan), re.MULTILINE)
    pairs = [part.split(" on ") for part in line.split("; ")]
    return [(model, mesh) for model, meshes in pairs for mesh in meshes.split()]


NAMES = sorted(path.stem for path in PLANS.glob("*.yaml"))
TESTED = [(plan, model, mesh) for plan in NAMES if plan != BROKEN for model, mesh in meshes_of(plan)]


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    """model_file(name): the path of a model graph, unpacked once."""
    folder = tmp_path_factory.mktemp("models")

    def find(name):
        for plain in (PLANS / "models" / f"{name}.json", MODELS / f"{name}.json", folder / f"{name}.json"):
            if plain.exists():
                return plain
        unpacked = folder / f"{name}.json"
        unpacked.write_bytes(lzma.decompress((MODELS / f"{name}.json.xz").read_bytes()))
        return unpacked

    return find


@pytest.fixture
def compiled(model_file):
    """compiled(plan, model, mesh): the manifest of a plan of the library; fails on errors and warnings."""

    def compile_(plan, model, mesh):
        result = run("compile", model_file(model), PLANS / f"{plan}.yaml", "--mesh", mesh)
        assert result.returncode == 0 and not codes(result), result.stderr.decode()
        return json.loads(result.stdout)

    return compile_


@pytest.mark.parametrize("plan", NAMES)
def test_plan_starts_with_its_schema_and_a_description(plan):
    lines = text_of(plan).splitlines()
    assert lines[0] == MODELINE
    assert (PLANS / MODELINE.split("=")[1]).exists()
    assert lines[1].startswith("# ") and meshes_of(plan)


# Large parameters that a rule replicates.
WHOLE_ON_PURPOSE = {
    "bert": r"bert\.embeddings\.position_embeddings\.weight",
    "deepseek-v3": r"model\.layers\.\d+\.(self_attn\.(q_a_proj|kv_a_proj_with_mqa)|mlp\.gate)\.weight",
}


@pytest.mark.parametrize(("plan", "model", "mesh"), TESTED)
def test_plan_compiles_clean_and_shards_large_weights(compiled, plan, model, mesh):
    manifest = compiled(plan, model, mesh)
    assert mesh == ",".join(f"{axis['name']}={axis['size']}" for axis in manifest["mesh"])
    for entry in manifest["parameters"]:
        if math.prod(entry["shape"]) > LARGE and all(axes is None for axes in entry["spec"]):
            assert entry["reason"] == "rule", entry
            assert re.fullmatch(WHOLE_ON_PURPOSE.get(plan, "-"), entry["path"]), entry
    assert all(rule["matches"] > 0 for rule in manifest["rules"])


@pytest.mark.parametrize(
    ("plan", "model", "mesh"),
    [
        ("llama", "llama-3-8b", "tp=8"),
        ("llama", "llama-3-70b", "tp=8"),
        ("llama-fsdp-tp", "llama-3-70b", "fsdp=16,tp=8"),
        ("qwen2", "qwen2.5-32b", "tp=8"),
        ("mixtral", "mixtral-8x7b", "tp=8"),
        ("gpt-neox", "gpt-neox-20b", "tp=8"),
        ("t5", "t5-base", "tp=4"),
        ("keras-transformer", "keras-decoder", "batch=2,model=4"),
        ("equinox", "equinox-decoder", "fsdp=2,tp=4"),
    ],
)
def test_no_rank_holds_more_than_its_share(compiled, plan, model, mesh):
    totals = compiled(plan, model, mesh)["totals"]
    assert max(totals["bytes_per_rank"]) <= 1.02 * totals["ideal_bytes_per_rank"]


# By hand, after Megatron-LM: projections to heads and to the hidden layer of the MLP are sharded over out, output projections over in,
# embeddings over the vocabulary; norms and the biases of reduced outputs are replicated.
LLAMA = {
    "model.embed_tokens.weight": ["tp", None],
    "model.layers.7.self_attn.q_proj.weight": ["tp", None],
    "model.layers.7.self_attn.k_proj.weight": ["tp", None],
    "model.layers.7.self_attn.v_proj.weight": ["tp", None],
    "model.layers.7.self_attn.o_proj.weight": [None, "tp"],
    "model.layers.7.input_layernorm.weight": [None],
    "model.norm.weight": [None],
    "lm_head.weight": ["tp", None],
}
DENSE_MLP = {
    "model.layers.7.mlp.gate_proj.weight": ["tp", None],
    "model.layers.7.mlp.up_proj.weight": ["tp", None],
    "model.layers.7.mlp.down_proj.weight": [None, "tp"],
}
BY_HAND = {
    ("llama", "llama-3-8b", "tp=8"): LLAMA | DENSE_MLP,
    ("llama-fsdp-tp", "llama-3-8b", "fsdp=2,tp=4"): {
        "model.embed_tokens.weight": [["tp", "fsdp"], None],
        "model.layers.7.self_attn.q_proj.weight": [["tp", "fsdp"], None],
        "model.layers.7.self_attn.o_proj.weight": ["fsdp", "tp"],
        "model.layers.7.mlp.down_proj.weight": ["fsdp", "tp"],
        "model.layers.7.input_layernorm.weight": ["fsdp"],
        "model.norm.weight": ["fsdp"],
    },
    ("qwen2", "qwen2.5-7b", "tp=4"): LLAMA
    | DENSE_MLP
    | {
        "model.layers.7.self_attn.q_proj.bias": ["tp"],
        "model.layers.7.self_attn.k_proj.bias": ["tp"],
        "model.layers.7.self_attn.v_proj.bias": ["tp"],
    },
    ("mixtral", "mixtral-8x7b", "tp=8"): LLAMA
    | {
        "model.layers.7.mlp.gate.weight": [None, None],
        "model.layers.7.mlp.experts.gate_up_proj": [None, "tp", None],
        "model.layers.7.mlp.experts.down_proj": [None, None, "tp"],
    },
    ("gpt-neox", "gpt-neox-20b", "tp=8"): {
        "gpt_neox.embed_in.weight": ["tp", None],
        "gpt_neox.layers.7.attention.query_key_value.weight": ["tp", None],
        "gpt_neox.layers.7.attention.query_key_value.bias": ["tp"],
        "gpt_neox.layers.7.attention.dense.weight": [None, "tp"],
        "gpt_neox.layers.7.attention.dense.bias": [None],
        "gpt_neox.layers.7.mlp.dense_h_to_4h.bias": ["tp"],
        "gpt_neox.layers.7.mlp.dense_4h_to_h.weight": [None, "tp"],
        "gpt_neox.layers.7.input_layernorm.bias": [None],
    },
    ("bert", "bert-base", "tp=4"): {
        "bert.embeddings.word_embeddings.weight": [None, "tp"],
        "bert.encoder.layer.7.attention.self.query.weight": ["tp", None],
        "bert.encoder.layer.7.attention.self.query.bias": ["tp"],
        "bert.encoder.layer.7.attention.output.dense.weight": [None, "tp"],
        "bert.encoder.layer.7.attention.output.dense.bias": [None],
        "bert.encoder.layer.7.intermediate.dense.weight": ["tp", None],
        "bert.encoder.layer.7.output.dense.weight": [None, "tp"],
        "bert.encoder.layer.7.output.LayerNorm.weight": [None],
        "cls.predictions.decoder.weight": [None, "tp"],
        "cls.predictions.decoder.bias": [None],
        "cls.predictions.bias": [None],
    },
    ("t5", "t5-base", "tp=4"): {
        "shared.weight": ["tp", None],
        "encoder.embed_tokens.weight": ["tp", None],
        "decoder.embed_tokens.weight": ["tp", None],
        "lm_head.weight": ["tp", None],
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": [None, "tp"],
        "decoder.block.7.layer.1.EncDecAttention.k.weight": ["tp", None],
        "decoder.block.7.layer.1.EncDecAttention.o.weight": [None, "tp"],
        "encoder.block.7.layer.1.DenseReluDense.wi.weight": ["tp", None],
        "encoder.block.7.layer.1.DenseReluDense.wo.weight": [None, "tp"],
        "encoder.block.7.layer.1.layer_norm.weight": [None],
    },
    ("deepseek-v3", "deepseek-v3", "tp=16"): {
        "model.layers.7.self_attn.q_a_proj.weight": [None, None],
        "model.layers.7.self_attn.q_b_proj.weight": ["tp", None],
        "model.layers.7.self_attn.kv_b_proj.weight": ["tp", None],
        "model.layers.7.self_attn.o_proj.weight": [None, "tp"],
        "model.layers.7.self_attn.kv_a_layernorm.weight": [None],
        "model.layers.0.mlp.down_proj.weight": [None, "tp"],
        "model.layers.7.mlp.experts.gate_up_proj": [None, "tp", None],
        "model.layers.7.mlp.shared_experts.up_proj.weight": ["tp", None],
    },
    ("keras-transformer", "keras-decoder", "batch=2,model=4"): {
        "token_embedding/embeddings": ["model", "batch"],
        "decoder_block_1/attention/query/kernel": ["model", "batch", None],
        "decoder_block_1/attention/attention_output/kernel": ["model", None, "batch"],
        "decoder_block_1/ffw_gating_2/kernel": ["batch", "model"],
        "decoder_block_1/ffw_linear/kernel": ["model", "batch"],
        "decoder_block_1/pre_ffw_norm/scale": [None],
    },
    ("equinox", "equinox-decoder", "fsdp=2,tp=4"): {
        "embedding.weight": ["tp", "fsdp"],
        "layers.3.attention.query.weight": ["tp", "fsdp"],
        "layers.3.attention.output.weight": ["fsdp", "tp"],
        "layers.3.feed_forward.w2.weight": ["fsdp", "tp"],
        "layers.3.attention_norm.weight": [None],
    },
    ("seeds-fixed", "seeds", "tp=4"): {
        "bert.encoder.layer.1.feed_forward.w1.weight": ["tp", None],
        "bert.encoder.layer.1.feed_forward.w2.weight": [None, "tp"],
        "bert.encoder.layer.1.feed_forward.w3.weight": ["tp", None],
        "bert.encoder.layer.1.attention.self.query.weight": [None, "tp"],
        "bert.encoder.layer.1.attention.self.key.weight": [None, None],
    },
}


@pytest.mark.parametrize("tested", BY_HAND)
def test_specs_match_those_written_by_hand(compiled, tested):
    specs = {entry["path"]: entry["spec"] for entry in compiled(*tested)["parameters"]}
    expected = BY_HAND[tested]
    assert {path: specs[path] for path in expected} == expected


def test_every_plan_has_specs_written_by_hand():
    assert {plan for plan, *_ in BY_HAND} == set(NAMES) - {BROKEN}


def test_packed_experts_are_sharded_half_by_half(compiled):
    for entry in compiled("mixtral", "mixtral-8x7b", "tp=8")["parameters"]:
        if entry["path"].endswith("gate_up_proj"):
            assert entry["placements"] == ["StridedShard(1, 2)"] and entry["segments"] == {"1": [14336, 14336]}


def test_fsdp_over_tp_has_the_placements_of_fully_shard(compiled):
    """Recorded from torch 2.13 after parallelize_module and fully_shard with this plan."""
    manifest = compiled("llama-fsdp-tp", "llama-3-8b", "fsdp=2,tp=4")
    placements = {entry["path"]: entry["placements"] for entry in manifest["parameters"]}
    assert placements["model.layers.0.self_attn.q_proj.weight"] == ["StridedShard(0, 4)", "Shard(0)"]
    assert placements["model.embed_tokens.weight"] == ["StridedShard(0, 4)", "Shard(0)"]
    assert placements["model.layers.0.mlp.down_proj.weight"] == ["Shard(0)", "Shard(1)"]
    assert placements["model.layers.0.input_layernorm.weight"] == ["Shard(0)", "Replicate"]
    assert manifest["fsdp"]["units"] == manifest["remat"] == [f"model.layers.{i}" for i in range(32)]


def test_sequence_parallel_llama_communicates_like_megatron(compiled):
    """Two all_gathers and two reduce_scatters a layer, forward and backward (Korthikanti et al., 2022)."""
    manifest = compiled("llama-fsdp-tp", "llama-3-8b", "fsdp=2,tp=4")
    modules = {module["path"].removeprefix("model.layers.9."): module for module in manifest["modules"]}

    def steps(name, values, direction):
        return [step["kind"] for value in modules[name][values] for step in value.get(direction, [])]

    for name in ("self_attn", "mlp"):
        assert steps(name, "inputs", "forward") == ["all_gather"], name
        assert steps(name, "inputs", "backward") == ["reduce_scatter"], name
    for name in ("self_attn.o_proj", "mlp"):
        assert steps(name, "outputs", "forward") == ["reduce_scatter"], name
        assert steps(name, "outputs", "backward") == ["all_gather"], name
    for name in ("self_attn.q_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"):
        assert not steps(name, "inputs", "forward") and not steps(name, "outputs", "forward"), name


def test_tied_embeddings_of_t5_are_counted_once(compiled):
    manifest = compiled("t5", "t5-base", "tp=4")
    elements = {entry["path"]: math.prod(entry["shape"]) for entry in manifest["parameters"]}
    names = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    counted_once = sum(elements.values()) - sum(elements[name] for name in names[1:])
    assert manifest["totals"]["bytes"] == 4 * counted_once


@pytest.mark.parametrize("plan", ["qwen2", "mixtral"])
def test_unchanged_plan_matches_the_one_of_transformers(plan):
    recorded = json.loads(lzma.decompress((ROOT / "tests/truth/data/transformers.json.xz").read_bytes()))[plan]["plan"]
    rule = re.compile(r'^  ("[^"]+"): (\w+)', re.MULTILINE)
    assert "transformers' plan, unchanged" in text_of(plan)
    assert dict(rule.findall(text_of(plan))) == dict(rule.findall(recorded))


def test_llama_on_more_ranks_than_kv_heads_is_rejected(model_file):
    result = run("check", model_file("llama-3-8b"), PLANS / "llama.yaml", "--mesh", "tp=16")
    assert result.returncode == 1 and set(codes(result)) == {"TP5007"}


def test_qwen_7b_on_8_ranks_warns_about_its_heads(model_file):
    result = run("check", model_file("qwen2.5-7b"), PLANS / "qwen2.yaml", "--mesh", "tp=8")
    assert result.returncode == 0 and set(codes(result)) == {"TP5008"}


def test_seeds_plan_fails_at_its_typo(model_file):
    """The plan that started this project: a key without a match is an error, and the help has the correct one."""
    plan = PLANS / "seeds.yaml"
    line = next(i for i, text in enumerate(text_of("seeds").splitlines(), 1) if "feed_foward" in text)
    column = text_of("seeds").splitlines()[line - 1].index('"feed_foward') + 1
    result = run("check", model_file("seeds"), plan)
    out = result.stdout.decode()
    assert result.returncode == 1 and codes(result) == ["TP4001"]
    assert out.startswith(f"{plan}:{line}:{column}: error[TP4001]: rule `feed_foward.w1` matches nothing\n")
    assert "did you mean `feed_forward.w1`?" in out


def test_seeds_plans_differ_only_in_typo_and_query_split():
    rules = [re.sub(r"^#.*\n", "", text_of(plan), flags=re.MULTILINE) for plan in ("seeds", "seeds-fixed")]
    assert rules[0].count("feed_foward.w1") == 1
    mended = (
        rules[0]
        .replace("feed_foward.w1", "feed_forward.w1")
        .replace('"*self.query": rowwise', '"*self.query": rowwise_split_input')
    )
    assert mended == rules[1]
