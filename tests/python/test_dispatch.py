"""Expert parallelism with the plans of transformers, which dispatch tokens to the experts of each rank: a step on real ranks compared with
the unsharded model, in float64."""

import json
import sys

import bridge
import pytest

bridge.needs("torch", "transformers")

import torch  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401

import models  # noqa: E402
from tpplan import compare_transformers  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import operations, transformers_model  # noqa: E402
from tpplan.graph.settings import Settings  # noqa: E402

sys.path.insert(0, str(bridge.ROOT / "tests" / "truth"))

PLAIN = dict(
    vocab_size=32, hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, num_experts=8, num_local_experts=8, num_experts_per_tok=2, moe_intermediate_size=16,
)  # fmt: skip
FAMILIES = {
    "MixtralForCausalLM": PLAIN,
    "Qwen3MoeForCausalLM": PLAIN | dict(head_dim=8),
    "DeepseekV3ForCausalLM": PLAIN | dict(
        num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_routed_experts=8,
        n_group=2, topk_group=1, first_k_dense_replace=1, n_shared_experts=1,
    ),
    "GptOssForCausalLM": PLAIN | dict(head_dim=8, layer_types=["full_attention", "sliding_attention"]),
    "OlmoeForCausalLM": PLAIN,
    "GraniteMoeForCausalLM": PLAIN,
}  # fmt: skip


def settings_of(experts, dtype="float64"):
    return Settings("train", 2, 6, "eager", experts, dtype)


def exported(folder, name, dtype="float64"):
    """The model file with operations. The tokens of an expert depend on data, so loops over experts cannot be traced."""
    settings = settings_of("grouped_mm", dtype)
    model = transformers_model.build(name, FAMILIES[name], "meta", settings).train()
    text = operations.record(transformers_model, model, "meta", settings)
    path = folder / "model.json"
    path.write_text(json.dumps(transformers_model.model_graph(model) | {"graph": json.loads(text)}))
    dealt = {f"model.{rule}": style for rule, style in model.config.base_model_ep_plan.items()}
    return path, {"model.embed_tokens": "embedding_rowwise", "lm_head": "colwise_gather_output"} | dealt


def written(folder, mesh, rules, more=""):
    path = folder / "plan.yaml"
    lines = "".join(f'  "{rule}": {style}\n' for rule, style in rules.items())
    path.write_text(f"format: tpplan.plan/1\nmesh: {{{mesh}}}\naxis: tp\n{more}tp_plan:\n{lines}")
    return path


def two_of(name, settings):
    for _ in range(2):
        torch.manual_seed(1)
        yield transformers_model.build(name, FAMILIES[name], "cpu", settings).train()


def step_on_rank(rank, name, path, settings, tolerance):
    manifest = m.load_manifest(path)
    reference, model = two_of(name, settings)
    parts = dict(manifest.mesh).get("dp", 1)
    mesh = mesh_of(manifest)
    tokens = torch.randint(3, 32, (2, 6), generator=torch.Generator().manual_seed(3))
    part = tokens.chunk(parts)[mesh.get_local_rank("dp") if parts > 1 else 0]
    bridge_torch.parallelize(model, manifest, mesh)
    for one, given in ((reference, tokens), (model, part)):
        one(given, use_cache=False).logits.pow(2).sum().backward()
    for parameter, tensor in manifest.parameters.items():
        assert list(model.get_parameter(parameter).to_local().shape) == m.local_shape(manifest, tensor, rank)
        found = bridge_torch.full_tensor(model, parameter, gradient=True)
        wanted = reference.get_parameter(parameter).grad
        assert (found is None) == (wanted is None), parameter
        assert found is None or (found - wanted).abs().max() < tolerance * max(1, wanted.abs().max()), parameter
    with torch.no_grad():
        whole, own = reference(part, use_cache=False).logits, model(part, use_cache=False).logits
    assert (whole - own).abs().max() < tolerance


def compiled(folder, model, plan, *flags):
    path = folder / "manifest.json"
    result = bridge.run("compile", model, plan, "--strict", "-o", path, *flags)
    assert result.returncode == 0, result.stderr.decode()
    return path


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("count", (2, 4))
def test_dispatched_experts_train_as_one_process(tmp_path, ranks, name, count):  # noqa: F811
    model, rules = exported(tmp_path, name)
    manifest = compiled(tmp_path, model, written(tmp_path, f"tp: {count}", rules))
    held = {p["path"]: p for p in json.loads(manifest.read_text())["parameters"]}
    path = next(path for path in held if path.endswith("experts.down_proj"))
    assert held[path]["local_shape"][0] * count == held[path]["shape"][0] == 8
    # transformers computes norms and routers in float32 for every dtype of the model.
    ranks.run(count, step_on_rank, name, str(manifest), settings_of("eager"), 1e-5)


@pytest.mark.parametrize("name", ("Qwen3MoeForCausalLM", "GptOssForCausalLM"))
def test_grouped_matmul_computes_the_local_rows(tmp_path, ranks, name):  # noqa: F811
    model, rules = exported(tmp_path, name, "float32")
    manifest = compiled(tmp_path, model, written(tmp_path, "tp: 4", rules))
    ranks.run(4, step_on_rank, name, str(manifest), settings_of("grouped_mm", "float32"), 1e-3)


def test_data_parallel_batches_use_all_experts(tmp_path, ranks):  # noqa: F811
    model, rules = exported(tmp_path, "MixtralForCausalLM")
    plan = written(tmp_path, "dp: 2, tp: 2", rules, "data: {axes: [dp]}\nloss: {count: global, gradients: sum}\n")
    ranks.run(4, step_on_rank, "MixtralForCausalLM", str(compiled(tmp_path, model, plan)), settings_of("eager"), 1e-5)


def own_model_on_rank(rank, path):
    manifest = m.load_manifest(path)
    built = []
    for _ in range(2):
        torch.manual_seed(1)
        built.append(models.Mixture().double())
    reference, model = built
    bridge_torch.parallelize(model, manifest, mesh_of(manifest))
    tokens = torch.randint(0, 32, (2, 8), generator=torch.Generator().manual_seed(3))
    found, wanted = model(tokens), reference(tokens)
    assert (found - wanted).abs().max() < 1e-9
    for output in (found, wanted):
        output.pow(2).sum().backward()
    for parameter in manifest.parameters:
        found = bridge_torch.full_tensor(model, parameter, gradient=True)
        assert (found - reference.get_parameter(parameter).grad).abs().max() < 1e-9, parameter
    # Experts without tokens get gradients of zeros, and no rank waits for another.
    for layer in model.layers:
        torch.nn.init.zeros_(layer.mlp.router.weight)
    model(tokens).sum().backward()


OWN = {"layers.*.mlp.experts.*_proj": "grouped_gemm", "layers.*.mlp.experts": "ep_dispatch_experts"}


def own_model_file(folder):
    from tpplan.export import torch_module

    path = folder / "model.json"
    path.write_text(json.dumps(torch_module.model_graph(models.Mixture().double())))
    return path


def test_experts_of_a_custom_model_are_dispatched(tmp_path, ranks):  # noqa: F811
    plan = written(tmp_path, "tp: 2", OWN)
    ranks.run(2, own_model_on_rank, str(compiled(tmp_path, own_model_file(tmp_path), plan)))


def calls_on_rank(rank, name, path, whose):
    """The calls of a step match the manifest, whether transformers or tpplan.torch runs it."""
    from record_runs import Calls

    manifest = m.load_manifest(path)
    forecast = [[c["phase"], c["kind"], c["axis"], c["shape"]] for c in json.loads(open(path).read())["collectives"]]
    reference, model = two_of(name, settings_of("eager"))
    mesh, stage = mesh_of(manifest), ["forward"]
    if whose == "transformers":
        from transformers.distributed.expert_parallel import apply_expert_parallelism

        dealt = {p.path: p.style for p in manifest.parameters.values() if p.style == "grouped_gemm"}
        dealt |= {boundary.path: boundary.style for boundary in manifest.modules}
        apply_expert_parallelism(model, mesh, mesh, dealt)
    else:
        bridge_torch.parallelize(model, manifest, mesh)
    tokens = torch.randint(3, 32, (2, 6), generator=torch.Generator().manual_seed(3))
    calls = Calls(mesh, stage)
    with calls:
        found = model(tokens, use_cache=False).logits
        stage[0] = "backward"
        found.pow(2).sum().backward()
    wanted = reference(tokens, use_cache=False).logits
    wanted.pow(2).sum().backward()
    assert (found - wanted).abs().max() < 1e-5
    for parameter in manifest.parameters:
        one, other = (x.get_parameter(parameter).grad for x in (model, reference))
        one = one.full_tensor() if hasattr(one, "full_tensor") else one
        assert (one - other).abs().max() < 1e-5 * max(1, other.abs().max()), parameter
    # The number of received rows depends on data; the forecast counts the sent rows, forward and backward.
    alike = [call[:3] + (call[3][1:] if call[1] == "all_to_all" else call[3]) for call in calls.calls]
    known = [call[:3] + (call[3][1:] if call[1] == "all_to_all" else call[3]) for call in forecast]
    assert sorted(map(str, known)) == sorted(map(str, alike)), (forecast, calls.calls)
    sent = [call[3] for call in calls.calls if call[:2] == ["forward", "all_to_all"]]
    assert sent[:2] == [call[3] for call in forecast if call[1] == "all_to_all"][:2]


@pytest.mark.parametrize("whose", ("transformers", "tpplan"))
@pytest.mark.parametrize("name", ("MixtralForCausalLM", "GptOssForCausalLM"))
def test_dispatch_and_combine_calls_are_forecast(tmp_path, ranks, name, whose):  # noqa: F811
    model, rules = exported(tmp_path, name)
    rules = {rule: style for rule, style in rules.items() if "experts" in rule}
    manifest = compiled(tmp_path, model, written(tmp_path, "tp: 2", rules), "--runtime", whose)
    ranks.run(2, calls_on_rank, name, str(manifest), whose)


@pytest.mark.parametrize("left", ({}, {"layers.*.mlp.experts.down_proj": "grouped_gemm"}))
def test_mixed_expert_styles_are_rejected(tmp_path, left):
    plan = written(tmp_path, "tp: 2", {"layers.*.mlp.experts": "ep_dispatch_experts"} | left)
    document = json.loads(compiled(tmp_path, own_model_file(tmp_path), plan).read_text())
    with compare_transformers.fake_ranks(2), pytest.raises(m.ManifestError, match="dispatches tokens to experts"):
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        bridge_torch.parallelize(models.Mixture().double(), document, mesh)
    model, rules = exported(tmp_path, "MixtralForCausalLM")
    kept = ("experts", *(rule.rpartition(".")[2] for rule in left))
    plan = written(tmp_path, "tp: 2", {rule: style for rule, style in rules.items() if rule.endswith(kept)})
    for runtime in ("tpplan", "transformers"):
        result = bridge.run("check", model, plan, "--runtime", runtime)
        assert result.returncode == 1 and b"error[TP5105]: model.layers.0.mlp.experts" in result.stdout, result.stdout
