"""First plans of `tpplan init`, run: models of transformers as they are exported, drafted for two ranks, and trained a step on
these ranks beside the model that nothing cuts, in float64."""

import json

import bridge
import pytest

bridge.needs("torch", "transformers")

import torch  # noqa: E402

from bridge import mesh_of, ranks  # noqa: E402, F401
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import operations, transformers_model  # noqa: E402
from tpplan.graph.settings import Settings  # noqa: E402

PLAIN = dict(
    vocab_size=32, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, pad_token_id=0, bos_token_id=1,
    eos_token_id=2,
)  # fmt: skip
SMALL = PLAIN | dict(num_key_value_heads=2)
HEADS = SMALL | dict(head_dim=8)
EXPERTS = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
UNDROPPED = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
LATENT = dict(
    num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_routed_experts=4,
    num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1, moe_intermediate_size=16, n_shared_experts=1,
)  # fmt: skip
GPT2 = dict(vocab_size=32, n_embd=32, n_layer=2, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=2)
MODELS = {
    # decoders, with what sets their attention or their MLP apart
    "LlamaForCausalLM": SMALL,
    "MistralForCausalLM": SMALL,
    "Qwen2ForCausalLM": SMALL,  # biases
    "Qwen3ForCausalLM": HEADS,  # norms of heads
    "GemmaForCausalLM": HEADS,  # one table for tokens and scores
    "Gemma2ForCausalLM": HEADS,
    "Gemma3ForCausalLM": HEADS,
    "GraniteForCausalLM": SMALL,
    "CohereForCausalLM": SMALL,
    "Olmo2ForCausalLM": SMALL,  # norms over all heads together
    "Phi3ForCausalLM": SMALL,  # q, k and v in one, gate and up in one
    "PhiForCausalLM": SMALL,
    "Starcoder2ForCausalLM": SMALL,
    "StableLmForCausalLM": SMALL,
    "GPTNeoXForCausalLM": PLAIN,
    "SmolLM3ForCausalLM": SMALL,
    "ApertusForCausalLM": SMALL,
    "NemotronForCausalLM": SMALL,
    "Glm4ForCausalLM": HEADS,
    "GPT2LMHeadModel": GPT2 | dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),  # weights the other way round
    "OPTForCausalLM": dict(
        vocab_size=32, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=32, dropout=0.0,
        max_position_embeddings=32, pad_token_id=0,
    ),
    # experts
    "MixtralForCausalLM": SMALL | EXPERTS,
    "Qwen2MoeForCausalLM": SMALL | EXPERTS | dict(shared_expert_intermediate_size=16),
    "Qwen3MoeForCausalLM": HEADS | EXPERTS,
    "DeepseekV3ForCausalLM": SMALL | LATENT,  # latent attention
    # encoders, and both
    "BertForMaskedLM": PLAIN | UNDROPPED,
    "RobertaForMaskedLM": PLAIN | UNDROPPED | dict(max_position_embeddings=34),
    "DistilBertForMaskedLM": dict(
        vocab_size=32, dim=32, hidden_dim=48, n_layers=2, n_heads=4, dropout=0.0, attention_dropout=0.0, max_position_embeddings=32,
    ),
    "ElectraForMaskedLM": PLAIN | UNDROPPED | dict(embedding_size=32),
    "T5ForConditionalGeneration": dict(
        vocab_size=32, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0,
    ),
}  # fmt: skip
# Models whose code a part of the heads or of the hidden layer does not fit: each rank computes all of them.
DEARER = {
    "GPT2LMHeadModel",  # nobody names the parts of c_attn
    "Olmo2ForCausalLM",  # norms over all heads
    "OPTForCausalLM",
    "Phi3ForCausalLM",  # q, k and v begin at fixed places
    "StableLmForCausalLM",  # heads are unfolded by their number
    "T5ForConditionalGeneration",  # a table of zeros for all heads
}


def settings_of(kwargs, experts="eager"):
    return Settings("train", 2, 6, "eager", experts if "num_experts_per_tok" in kwargs else None, "float64")


def exported(folder, name, kwargs):
    settings = settings_of(kwargs, "grouped_mm")  # which tokens an expert takes is data: eager ones cannot be recorded
    model = transformers_model.build(name, kwargs, "meta", settings).train()
    text = operations.record(transformers_model, model, "meta", settings)
    path = folder / "model.json"
    path.write_text(json.dumps(transformers_model.model_graph(model) | {"graph": json.loads(text)}))
    return path


def train_on_rank(rank, name, kwargs, path):
    manifest = m.load_manifest(path)
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append(transformers_model.build(name, kwargs, "cpu", settings_of(kwargs)).train())
    reference, model = models
    _, inputs = transformers_model.inputs(model, settings_of(kwargs), "cpu")
    bridge_torch.parallelize(model, manifest, mesh_of(manifest))
    outputs = [transformers_model.main_output(one(**inputs))[0] for one in models]
    assert (outputs[0] - outputs[1]).abs().max() < 1e-7
    for output in outputs:
        output.pow(2).sum().backward()
    for parameter, tensor in manifest.parameters.items():
        assert list(model.get_parameter(parameter).to_local().shape) == m.local_shape(manifest, tensor, rank)
        found = bridge_torch.full_tensor(model, parameter, gradient=True)
        wanted = reference.get_parameter(parameter).grad
        assert (found is None) == (wanted is None), parameter
        # transformers computes norms and routers in float32, whatever the model's dtype.
        assert found is None or (found - wanted).abs().max() < 1e-5 * max(1, wanted.abs().max()), parameter


@pytest.mark.parametrize("name", MODELS)
def test_a_first_plan_trains_as_one_process_does(tmp_path, ranks, name):  # noqa: F811
    model = exported(tmp_path, name, MODELS[name])
    plan, manifest = tmp_path / "plan.yaml", tmp_path / "manifest.json"
    drafted = bridge.run("init", model, "--mesh", "tp=2", "-o", plan)
    assert drafted.returncode == 0, drafted.stderr.decode()
    assert ("dearer" in drafted.stderr.decode()) == (name in DEARER), plan.read_text()
    result = bridge.run("compile", model, plan, "--strict", "-o", manifest)
    assert result.returncode == 0, result.stderr.decode()
    ranks.run(2, train_on_rank, name, MODELS[name], str(manifest))
