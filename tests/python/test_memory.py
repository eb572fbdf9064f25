"""The forecast of `tpplan compile` for activations saved for backward, compared with torch's saved_tensors_hooks in steps of transformers
models: unsharded, and as rank 0 of 2 and 4, with transformers or tpplan.torch as the runtime. Memory is counted once per storage, without
parameters, buffers and inputs. A fake process group replaces the other ranks: their data would change no shape."""

import json
import pathlib

import bridge
import pytest

bridge.needs("torch", "transformers")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from saved_bytes import Saved  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import plans  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import operations, transformers_model  # noqa: E402
from tpplan.graph.settings import Settings  # noqa: E402

SMALL = dict(
    vocab_size=96,
    hidden_size=64,
    intermediate_size=160,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    max_position_embeddings=64,
)
EQUAL_HEADS = {name: value for name, value in SMALL.items() if name != "num_key_value_heads"}
LATENT = dict(
    num_key_value_heads=8, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_routed_experts=4,
    num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1, moe_intermediate_size=16, n_shared_experts=1,
)  # fmt: skip
FAMILIES = {
    "LlamaForCausalLM": SMALL,
    "Qwen3ForCausalLM": SMALL | dict(head_dim=16),
    "Gemma2ForCausalLM": SMALL | dict(head_dim=8),
    "GPTNeoXForCausalLM": EQUAL_HEADS,
    "PhiForCausalLM": SMALL,
    "Phi3ForCausalLM": SMALL,
    "MixtralForCausalLM": SMALL | dict(num_local_experts=4, num_experts_per_tok=2),
    "CohereForCausalLM": SMALL,
    "Olmo2ForCausalLM": SMALL,
    "Starcoder2ForCausalLM": SMALL,
    "DeepseekV3ForCausalLM": SMALL | LATENT,
}
# Models with Llama's names, under a plan with sequence parallel.
IN_SEQUENCE = {
    "LlamaForCausalLM": SMALL,
    "MistralForCausalLM": SMALL,
    "Qwen2ForCausalLM": SMALL,
    "GraniteForCausalLM": SMALL,
    "GemmaForCausalLM": SMALL | dict(head_dim=8),
    "HeliumForCausalLM": SMALL | dict(head_dim=8),
    "SmolLM3ForCausalLM": SMALL,
    "SeedOssForCausalLM": SMALL | dict(head_dim=8),
    "MinistralForCausalLM": SMALL | dict(head_dim=8),
}
SEQUENCE_PLAN = (bridge.ROOT / "plans/llama-fsdp-tp.yaml").read_text()
TOLERANCE = 0.01  # the observed difference is zero


class Family:
    """A model of transformers with its operations, and fresh instances of it."""

    def __init__(self, name, kwargs, folder, attention="eager", dtype="float32"):
        self.name, self.kwargs, self.folder = name, kwargs, folder
        experts = "grouped_mm" if "num_experts_per_tok" in kwargs else None
        self.settings = Settings("eval", 2, 24, attention, experts, dtype)
        model = self.build("meta")
        text = operations.record(transformers_model, model, "meta", self.settings)
        self.model = folder / "model.json"
        self.model.write_text(json.dumps(transformers_model.model_graph(model) | {"graph": json.loads(text)}))
        self.plan_of = lambda tp: plans.transformers_plan(model, {"tp": tp})

    def build(self, device="cpu", tied=True):
        from transformers import initialization

        torch.manual_seed(0)
        if tied:
            return transformers_model.build(self.name, self.kwargs, device, self.settings).eval()
        with initialization.no_tie_weights():  # as in a checkpoint load: they are tied after the plan is applied
            return transformers_model.build(self.name, self.kwargs, device, self.settings).eval()

    def compile(self, plan, *flags):
        (self.folder / "plan.yaml").write_text(plan)
        result = bridge.run("compile", self.model, self.folder / "plan.yaml", *flags)
        assert result.returncode == 0, result.stderr.decode()
        path = self.folder / "manifest.json"
        path.write_bytes(result.stdout)
        return path

    def saved(self, model):
        _, inputs = transformers_model.inputs(model, self.settings, "cpu")
        return Saved(model, inputs).of(lambda: model(**inputs))


@pytest.fixture(params=(2, 4))
def mesh(request):
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=request.param)
    yield init_device_mesh("cpu", (request.param,), mesh_dim_names=("tp",))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    made = {}

    def family(name, kwargs, attention="eager"):
        key = name, attention
        if key not in made:
            made[key] = Family(name, kwargs, tmp_path_factory.mktemp(name), attention)
        return made[key]

    return family


def kept(manifest):
    costs = json.loads(pathlib.Path(manifest).read_text())["costs"]
    assert costs["unknown_ops"] == []
    return costs["kept"]


def near(found, wanted, tolerance=TOLERANCE):
    return abs(found - wanted) <= tolerance * wanted


@pytest.mark.parametrize("name", FAMILIES)
def test_saved_bytes_of_the_unsharded_model(families, name):
    family = families(name, FAMILIES[name])
    wanted = family.saved(family.build())
    assert near(kept(family.compile(family.plan_of(1))), wanted)


@pytest.mark.parametrize("name", FAMILIES)
def test_saved_bytes_under_transformers(families, name, mesh):
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    family, tp = families(name, FAMILIES[name]), mesh.size()
    model = family.build(tied=False)
    plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=tp))
    apply_tensor_parallelism(model, mesh, plan)
    model.tie_weights()
    wanted = family.saved(model)
    assert near(kept(family.compile(family.plan_of(tp))), wanted)


@pytest.mark.parametrize("name", FAMILIES)
def test_saved_bytes_under_tpplan_torch(families, name, mesh):
    family = families(name, FAMILIES[name])
    manifest = family.compile(family.plan_of(mesh.size()), "--runtime", "tpplan")
    model = bridge_torch.parallelize(family.build(), m.load_manifest(str(manifest)), mesh)
    assert near(kept(manifest), family.saved(model))


@pytest.mark.parametrize("name", IN_SEQUENCE)
def test_saved_bytes_with_sequence_parallel(families, name, mesh):
    """With values sharded along the sequence between the blocks: each projection saves its gathered copy."""
    family, tp = families(name, IN_SEQUENCE[name]), mesh.size()
    manifest = family.compile(in_sequence(tp))
    model = bridge_torch.parallelize(family.build(), m.load_manifest(str(manifest)), mesh)
    assert near(kept(manifest), family.saved(model))
    costs = json.loads(manifest.read_text())["costs"]
    assert 0 < costs["gathered"] < costs["kept"]


def in_sequence(tp):
    kept_lines = [line for line in SEQUENCE_PLAN.splitlines() if not line.startswith(("data:", "fsdp:", "remat:"))]
    return "\n".join(f"mesh: {{tp: {tp}}}" if line.startswith("mesh:") else line for line in kept_lines) + "\n"


def test_fused_attention_saves_no_scores(families):
    """With a mask, as in the trace. Without one transformers passes grouped heads unrepeated: the trace repeats them, so the forecast is
    larger by the copies of keys and values and by the masks."""
    family = families("LlamaForCausalLM", SMALL, "sdpa")
    model = family.build()
    _, inputs = transformers_model.inputs(model, family.settings, "cpu")
    without = Saved(model, inputs).of(lambda: model(**inputs))
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    inputs["attention_mask"][0, 0] = 0
    wanted = Saved(model, inputs).of(lambda: model(**inputs))
    found = kept(family.compile(family.plan_of(1)))
    # Two layers, keys and values of [2, 24] tokens: 8 heads of 8 instead of 4; a mask of [2, 1, 24, 24].
    assert near(found, wanted) and found - without == 2 * (2 * 2 * 24 * 4 * 8 * 4 + 2 * 24 * 24 * 4)
    assert found < kept(families("LlamaForCausalLM", SMALL).compile(family.plan_of(1)))
