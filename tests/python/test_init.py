"""First plans of `tpplan init`, executed: exported transformers models, drafted for two ranks and trained for one step in float64,
compared with the unsharded model."""

import json
import math
import pathlib

import bridge
import pytest

bridge.needs("torch", "transformers")

import torch  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

import small_classes  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import operations, transformers_model  # noqa: E402
from tpplan.graph.settings import Settings  # noqa: E402

# Models with code that fits neither a part of the heads nor of the hidden layer: each rank computes all of it.
DEARER = set(
    """
AXK2ForCausalLM AfmoeForCausalLM BeamForCausalLM BigBirdForCausalLM BigBirdForMaskedLM BigBirdPegasusForConditionalGeneration
BitNetForCausalLM BloomForCausalLM CodeGenForCausalLM ConvBertForMaskedLM DebertaV2ForMaskedLM DeepseekV4ForCausalLM
DiffLlamaForCausalLM DogeForCausalLM Dots3NoteForCausalLM EsmcForMaskedLM FalconForCausalLM FlexOlmoForCausalLM GPT2LMHeadModel
GPTBigCodeForCausalLM GPTJForCausalLM GPTNeoXJapaneseForCausalLM HYV4ForCausalLM HrmTextForCausalLM
Inkling2ForCausalLM InklingForCausalLM LagunaForCausalLM LongT5ForConditionalGeneration MPNetForMaskedLM
MT5ForConditionalGeneration MegatronBertForCausalLM MegatronBertForMaskedLM MiniMaxForCausalLM MiniMaxM2ForCausalLM MllamaForCausalLM
MoshiForCausalLM MptForCausalLM MraForMaskedLM MvpForCausalLM MvpForConditionalGeneration NystromformerForMaskedLM
OPTForCausalLM Olmo2ForCausalLM Olmo3ForCausalLM OlmoHybridForCausalLM OlmoeForCausalLM OpenAIGPTLMHeadModel
PegasusXForConditionalGeneration PersimmonForCausalLM Phi3ForCausalLM Pop2PianoForConditionalGeneration ProphetNetForCausalLM
ProphetNetForConditionalGeneration RemBertForCausalLM RemBertForMaskedLM RoFormerForCausalLM RoFormerForMaskedLM StableLmForCausalLM
SwitchTransformersForConditionalGeneration T5ForConditionalGeneration TapasForMaskedLM TrOCRForCausalLM UMT5ForConditionalGeneration
WhisperForCausalLM XGLMForCausalLM YosoForMaskedLM ZayaForCausalLM xLSTMForCausalLM
    """.split()
)
# Models with less than half of their bytes sharded: at these sizes most are in layers without a known sharding.
LITTLE = set(
    """
AXK2ForCausalLM CTRLLMHeadModel DeepseekV32ForCausalLM DeepseekV4ForCausalLM Dots3NoteForCausalLM FalconMambaForCausalLM
FunnelForMaskedLM GlmMoeDsaForCausalLM HYV4ForCausalLM LayoutLMForMaskedLM MambaForCausalLM MoshiForCausalLM
ProphetNetForCausalLM ProphetNetForConditionalGeneration Qwen4ExpForCausalLM RecurrentGemmaForCausalLM RwkvForCausalLM
SqueezeBertForMaskedLM TapasForMaskedLM xLSTMForCausalLM
    """.split()
)
UNTRAINED = {
    "CTRLLMHeadModel"
}  # the tests' model in float64 computes its positions in another dtype than the exported one


class Double(TorchFunctionMode):
    """Norms, routers and rotary positions of transformers are in float32 for every dtype of the model: here they are not."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        function = torch.Tensor.double if function is torch.Tensor.float else function
        args = [torch.float64 if value is torch.float32 else value for value in args]
        kwargs = {key: torch.float64 if value is torch.float32 else value for key, value in (kwargs or {}).items()}
        return function(*args, **kwargs)


def settings_of(name, experts):
    import transformers

    has_experts = getattr(transformers, name)._can_set_experts_implementation()
    return Settings("train", 2, 6, "eager", experts if has_experts else None, "float64")


def export(path, name):
    settings = settings_of(name, "grouped_mm")  # the tokens of an expert depend on data: eager experts cannot be traced
    model = transformers_model.build(name, small_classes.kwargs_of(name), "meta", settings).train()
    text = operations.record(transformers_model, model, "meta", settings)
    path.write_text(json.dumps(transformers_model.model_graph(model) | {"graph": json.loads(text)}))


def draft(folder, name):
    """The output of init, and for a correct plan the share of bytes that it shards."""
    model, plan, manifest = folder / f"{name}.model.json", folder / f"{name}.yaml", folder / f"{name}.json"
    export(model, name)
    drafted = bridge.run("init", model, "--mesh", "tp=2", "--no-schema", "-o", plan)
    found = {"status": drafted.returncode, "said": drafted.stderr.decode()}
    if drafted.returncode == 0:
        result = bridge.run("compile", model, plan, "--strict", "-o", manifest)
        found |= {"compiles": result.returncode == 0, "found": result.stderr.decode(), "plan": plan.read_text()}
    if found.get("compiles"):
        parameters = json.loads(manifest.read_text())["parameters"]
        cut, all_of_them = ([math.prod(p["shape"]) for p in parameters if keep(p)] for keep in (is_cut, lambda p: True))
        found["share"] = sum(cut) / sum(all_of_them)
    return found


def is_cut(parameter):
    return any(parameter["spec"])


def draft_share(rank, names, folder):
    """Each of two processes drafts a half."""
    for name in names[rank::2]:
        try:
            found = draft(pathlib.Path(folder), name)
        except Exception as error:
            found = {"status": None, "said": f"{type(error).__name__}: {error}"}
        (pathlib.Path(folder) / f"{name}.draft").write_text(json.dumps(found))


def train_on_rank(rank, name, path):
    torch.set_default_dtype(torch.float64)
    manifest, settings = m.load_manifest(path), settings_of(name, "eager")
    models = []
    for _ in range(2):
        torch.manual_seed(1)
        models.append(transformers_model.build(name, small_classes.kwargs_of(name), "cpu", settings).train())
        with torch.no_grad():  # nonzero biases, and norms other than one
            for parameter in models[-1].parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    reference, model = models
    _, inputs = transformers_model.inputs(model, settings, "cpu")
    bridge_torch.parallelize(model, manifest, mesh_of(manifest))
    with Double():
        outputs = [transformers_model.main_output(one(**inputs))[0] for one in models]
    assert (outputs[0] - outputs[1]).abs().max() <= 1e-9 * outputs[0].abs().max()
    for output in outputs:
        output.pow(2).sum().backward()
    gradients = [parameter.grad for parameter in reference.parameters() if parameter.grad is not None]
    largest = max(gradient.abs().max() for gradient in gradients if gradient.numel() > 0)
    for parameter, tensor in manifest.parameters.items():
        assert list(model.get_parameter(parameter).to_local().shape) == m.local_shape(manifest, tensor, rank)
        found = bridge_torch.full_tensor(model, parameter, gradient=True)
        wanted = reference.get_parameter(parameter).grad
        assert (found is None) == (wanted is None), parameter
        if found is not None and found.numel() > 0:
            assert (found - wanted).abs().max() <= 1e-9 * (wanted.abs().max() + 1e-3 * largest), parameter


@pytest.fixture(scope="module")
def drafts(request, ranks, tmp_path_factory):  # noqa: F811
    """The folder with models, plans, manifests and results of the selected classes."""
    folder = tmp_path_factory.mktemp("drafts")
    asked = [item.callspec.params["name"] for item in request.session.items if hasattr(item, "callspec")]
    names = [name for name in small_classes.NAMES if name in asked] or small_classes.NAMES
    ranks.run(2, draft_share, names, str(folder), timeout=900)
    return folder


def drafted(folder, name):
    return json.loads((folder / f"{name}.draft").read_text())


@pytest.mark.parametrize("name", sorted(small_classes.NAMES))
def test_first_plan_trains_as_one_process(drafts, ranks, name):  # noqa: F811
    found = drafted(drafts, name)
    assert found["status"] == 0, found["said"]
    assert found["compiles"], found["found"]
    assert ("at a higher cost" in found["said"]) == (name in DEARER), found["plan"]
    assert (found["share"] < 0.5) == (name in LITTLE), found["plan"]
    if name not in UNTRAINED:
        ranks.run(2, train_on_rank, name, str(drafts / f"{name}.json"))


def test_sharded_share_is_printed(drafts, capsys):
    """`ctest -V -R python/init`, or pytest, shows the table."""
    rows = {path.stem: drafted(drafts, path.stem) for path in sorted(drafts.glob("*.draft"))}
    right = {name: row["share"] for name, row in rows.items() if "share" in row}
    assert len(right) == len(rows)
    with capsys.disabled():
        print("\nclass, share of the parameters' bytes that the first plan cuts")
        for name, share in sorted(right.items(), key=lambda row: row[1]):
            print(
                f"  {name:45} {100 * share:5.1f} %{'  in a dearer way in places' if 'at a higher cost' in rows[name]['said'] else ''}"
            )
        print(f"{len(right)} classes of transformers")
