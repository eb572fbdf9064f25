"""Models of transformers: exported, compiled, and trained under the manifest, compared with one process; and a sample of the comparison of
all classes that `python -m tpplan.compare_transformers` makes."""

import json

import bridge
import pytest

bridge.needs("torch", "transformers")

import torch  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

from bridge import mesh_of, ranks  # noqa: E402, F401
from tpplan import compare_transformers, files, plans  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import __main__ as export_main  # noqa: E402
from tpplan.export import torch_module, transformers_model  # noqa: E402

SMALL = dict(
    vocab_size=32,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    dtype="float64",
    attn_implementation="eager",
)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2, experts_implementation="eager")
TRAINED = {
    "LlamaForCausalLM": SMALL,
    "Gemma2ForCausalLM": SMALL | dict(head_dim=8),
    "Qwen3ForCausalLM": SMALL | dict(head_dim=8),
    "Phi3ForCausalLM": SMALL,
    "MixtralForCausalLM": SMALL | EXPERTS,
    "DeepseekV3ForCausalLM": SMALL
    | dict(
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        moe_intermediate_size=16,
        n_shared_experts=1,
        experts_implementation="eager",
    ),
    # Attention sinks as local shards.
    "GraniteSWAForCausalLM": SMALL | dict(head_dim=8),
    # Experts without computation, and latent attention.
    "LongcatFlashForCausalLM": dict(
        vocab_size=32,
        hidden_size=32,
        num_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        ffn_hidden_size=48,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=8,
        head_dim=8,
        v_head_dim=8,
        moe_topk=2,
        n_routed_experts=4,
        zero_expert_num=2,
        expert_ffn_hidden_size=16,
        pad_token_id=0,
        dtype="float64",
        attn_implementation="eager",
        experts_implementation="eager",
    ),
}
SAMPLE = (
    "LlamaForCausalLM",
    "Cohere2ForCausalLM",
    "MixtralForCausalLM",
    "Llama4ForCausalLM",
    "GptOssForCausalLM",
    "Phi3ForCausalLM",
)


def train_on_rank(rank, name, path):
    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)

    def make(seed):
        torch.manual_seed(seed)
        return transformers_model.build(name, TRAINED[name], "cpu")

    torch.manual_seed(3)
    tokens = torch.randint(3, 32, (4, 6))

    def run(model, tokens):
        loss = (
            torch.nn.functional.cross_entropy(
                model(input_ids=tokens, use_cache=False).logits[:, :-1].flatten(0, 1),
                tokens[:, 1:].flatten(),
                reduction="sum",
            )
            / 20
        )
        loss.backward()
        return loss.detach()

    reference = make(1)
    expected = run(reference, tokens)
    model = bridge_torch.parallelize(make(1 + rank), manifest, mesh)
    data = manifest.data_axes[0] if manifest.data_axes else None
    if data:
        tokens = tokens.chunk(2)[mesh.get_local_rank(data)]
    got = run(model, tokens)
    if data:
        torch.distributed.all_reduce(got, group=mesh.get_group(data))
    assert abs(got - expected) < 1e-7, (got, expected)
    for path, tensor in manifest.parameters.items():
        assert list(model.get_parameter(path).to_local().shape) == m.local_shape(manifest, tensor, rank)
        gradient = reference.get_parameter(path).grad
        got = bridge_torch.full_tensor(model, path, gradient=True)
        assert (got is None) == (gradient is None), path
        # transformers computes norms and routers in float32 for every dtype of the model.
        assert got is None or (got - gradient).abs().max() < 1e-7, path


@pytest.mark.parametrize("name, data", [*((name, False) for name in TRAINED), ("MixtralForCausalLM", True)])
def test_shipped_plan_trains_as_one_process(tmp_path, ranks, name, data):  # noqa: F811
    model = transformers_model.build(name, TRAINED[name])
    plan = plans.transformers_plan(model, {"data": 2, "tp": 2} if data else {"tp": 2})
    path = bridge.compile_manifest(
        tmp_path,
        torch_module.model_graph(model),
        plan.replace("tp_plan:", "data: {axes: [data]}\ntp_plan:") if data else plan,
    )
    ranks.run(4 if data else 2, train_on_rank, name, str(path))


def test_llama_fsdp_tp_plan_trains_as_one_process(tmp_path, ranks):  # noqa: F811
    """FSDP over tensor and sequence parallel, inputs by name, partial values between modules, checkpointed layers."""
    plan = (bridge.ROOT / "plans/llama-fsdp-tp.yaml").read_text()
    graph = torch_module.model_graph(transformers_model.build("LlamaForCausalLM", SMALL))
    ranks.run(
        4,
        train_on_rank,
        "LlamaForCausalLM",
        str(bridge.compile_manifest(tmp_path, graph, plan, "--mesh", "fsdp=2,tp=2")),
    )


PLAIN = dict(
    vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, dtype="float64"
)
T5 = dict(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=64, dropout_rate=0.0, dtype="float64")
READY = {
    "deepseek-v3": ("DeepseekV3ForCausalLM", TRAINED["DeepseekV3ForCausalLM"]),
    "bert": ("BertForMaskedLM", PLAIN | dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)),
    "gpt-neox": ("GPTNeoXForCausalLM", PLAIN),
    "llama": ("LlamaForCausalLM", SMALL),
    "mixtral": ("MixtralForCausalLM", SMALL | EXPERTS),
    "qwen2": ("Qwen2ForCausalLM", SMALL),
    "t5": ("T5ForConditionalGeneration", T5),
}
ROUTED = ("deepseek-v3", "mixtral")
DECODER_INPUTS = {"t5": {"decoder_input_ids": torch.arange(10).view(2, 5) + 7}}


def run_ready_plan(rank, plan):
    """Forward and backward under a plan of plans/, on a mesh of two, compared with the unsharded model."""
    import os

    os.environ["TPPLAN"] = bridge.PROGRAM
    name, kwargs = READY[plan]
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append(transformers_model.build(name, kwargs, "cpu"))
    reference, model = models
    inputs = {"input_ids": torch.arange(12).view(2, 6) + 3} | DECODER_INPUTS.get(plan, {})
    bridge_torch.parallelize(model, bridge.ROOT / f"plans/{plan}.yaml", mesh, inputs=inputs)
    outputs = [one(**inputs).logits for one in models]
    assert (outputs[0] - outputs[1]).abs().max() < 1e-9
    for output in outputs:
        output.pow(2).sum().backward()
    for path, parameter in reference.named_parameters():
        found = bridge_torch.full_tensor(model, path, gradient=True)
        assert (found is None) == (parameter.grad is None), path
        # transformers computes routers in float32 for every dtype of the model.
        assert found is None or (found - parameter.grad).abs().max() < (1e-6 if plan in ROUTED else 1e-9), path


@pytest.mark.parametrize("plan", READY)
def test_plans_of_the_library_match_one_process(ranks, plan):  # noqa: F811
    ranks.run(2, run_ready_plan, plan)


def fill_on_rank(rank, name, path, checkpoint):
    """A model on the meta device and the shards of a checkpoint: buffers that no checkpoint has are initialised, too."""
    from tpplan import load_safetensors

    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)
    torch.manual_seed(1)
    reference = transformers_model.build(name, TRAINED[name], "cpu")
    empty = transformers_model.build(name, TRAINED[name], "meta")
    assert any(buffer.is_meta for buffer in empty.buffers())
    shards = load_safetensors(manifest, checkpoint, rank)
    model = bridge_torch.parallelize(empty, manifest, mesh, shards=shards)
    for path, buffer in reference.named_buffers():
        found = model.get_buffer(path)
        assert torch.equal(found.to_local(), buffer) and found.dtype == buffer.dtype, path
    tokens = torch.arange(12).view(2, 6) + 3
    outputs = [one(input_ids=tokens, use_cache=False).logits for one in (reference, model)]
    assert (outputs[0] - outputs[1]).abs().max() < 1e-7


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Gemma2ForCausalLM"])
def test_meta_model_is_filled_as_by_transformers(tmp_path, ranks, name):  # noqa: F811
    from safetensors.torch import save_model

    torch.manual_seed(1)
    save_model(transformers_model.build(name, TRAINED[name], "cpu"), str(tmp_path / "model.safetensors"))
    model = transformers_model.build(name, TRAINED[name])
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(model), plans.transformers_plan(model, {"tp": 2}))
    ranks.run(2, fill_on_rank, name, str(path), str(tmp_path / "model.safetensors"))


@pytest.mark.parametrize("name", SAMPLE)
def test_shipped_plans_shard_as_transformers_does(name):
    row = compare_transformers.compare_class(name, bridge.PROGRAM)
    assert (row.status, row.note) == ("agrees", "") and row.sharded > 0


def test_comparison_detects_a_difference(monkeypatch):
    """A plan without one rule, and a graph with one more shape."""

    def without_o_proj(model, mesh):
        return "".join(line for line in plans.transformers_plan(model, mesh).splitlines(True) if "o_proj" not in line)

    monkeypatch.setattr(compare_transformers, "transformers_plan", without_o_proj)
    row = compare_transformers.compare_class("LlamaForCausalLM", bridge.PROGRAM)
    assert row.status == "differs" and "o_proj" in row.note


def test_exported_models_match_the_recorded_ones():
    """The recorded graphs of tests/truth, from transformers 5.23, and ours of the same classes."""
    import lzma

    recorded = json.loads(lzma.open(bridge.ROOT / "tests/truth/data/transformers.json.xz").read())
    for name in ("llama", "cohere2", "phi3"):
        wanted = recorded[name]["model"]
        wanted = json.loads(wanted) if isinstance(wanted, str) else wanted
        model = transformers_model.build(wanted["name"], {})
        graph = torch_module.model_graph(model)

        def bare(tensors):
            return {n: (t["shape"], t["dtype"]) for n, t in (tensors or {}).items()}

        for ours, theirs in zip(graph["modules"], wanted["modules"], strict=True):
            assert (ours["path"], ours["type"]) == (theirs["path"], theirs["type"])
            assert [bare(ours.get(k)) for k in ("parameters", "buffers")] == [
                bare(theirs.get(k)) for k in ("parameters", "buffers")
            ]
        assert list(map(sorted, graph["tied"])) == list(map(sorted, wanted["tied"]))
        plan = plans.transformers_plan(model, {"tp": 2}).splitlines()
        assert sorted(plan) == sorted(recorded[name]["plan"].splitlines())


def export(*arguments):
    """The exit status of the command."""
    return files.run_command(export_main.main, list(map(str, arguments)))


def test_command_exports_a_config_file_that_compiles(tmp_path, capsys):
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            dict(SMALL, model_type="phi3", architectures=["Phi3ForCausalLM"], auto_map={"AutoConfig": "evil.py--X"})
        )
    )
    assert export("--transformers", config, "-o", tmp_path / "model.json") == 0
    assert export("--plan-from", "transformers", config, "--mesh", "tp=4", "-o", tmp_path / "plan.yaml") == 0
    result = bridge.run("compile", tmp_path / "model.json", tmp_path / "plan.yaml", "-o", tmp_path / "manifest.json")
    assert result.returncode == 0, result.stderr
    graph = json.loads((tmp_path / "model.json").read_text())
    modules = {module["path"]: module for module in graph["modules"]}
    assert modules["model.layers.0.self_attn"]["attributes"] == {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8}
    assert modules["model.layers.0.self_attn.qkv_proj"]["parameters"]["weight"]["segments"] == {"out": [32, 16, 16]}
    assert modules["model.layers.0.mlp.gate_up_proj"]["parameters"]["weight"]["segments"] == {"out": [48, 48]}
    assert "quantization_config" not in capsys.readouterr().err
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quantization_config": {"quant_method": "fp8"}}))
    assert export("--transformers", config, "--no-graph", "-o", tmp_path / "model.json") == 0
    assert "`quantization_config` is ignored" in capsys.readouterr().err
    before = config.read_bytes()
    assert export("--transformers", config, "-o", config) == 2 and config.read_bytes() == before


@pytest.mark.parametrize(
    "name, kwargs, status",
    [
        ("Nonsense", "{}", 2),
        ("AutoModel", "{}", 2),
        ("PreTrainedModel", "{}", 2),
        ("os.path", "{}", 2),
        ("absent/config.json", "{}", 2),
        ("llama", "[]", 2),
        ("llama", "{", 2),
        ("llama", '{"hidden_size": "x"}', 1),
    ],
)
def test_unknown_model_is_rejected_with_a_help(tmp_path, capsys, name, kwargs, status):
    assert export("--transformers", name, "--kwargs", kwargs, "-o", tmp_path / "model.json") == status
    assert "= help:" in capsys.readouterr().err
    assert not (tmp_path / "model.json").exists()
